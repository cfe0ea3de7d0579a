//! A picture as a reader sees it: its boxes, lines and texts with their places, and what is wrong with them. It knows as
//! little of how pictures are drawn as it can: it reads the SVG.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar;

/// How wide a letter of a monospaced font is, in its height; a sign may be taken from another font.
const LETTER: f64 = 0.61;
const SIGN: f64 = 1.0;
/// What lies on the rim of a box is not inside.
const RIM: f64 = 1.5;
/// A curve is read as so many straight parts.
const CURVE: i32 = 16;

type Point = (f64, f64);

/// What lies between two corners.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Square,
    Diamond,
}

/// A box, or a part of one.
#[derive(Debug)]
struct Shape {
    form: Form,
    area: Area,
    /// What belongs together is in one group.
    group: usize,
}

/// An upright part of a line: from where to where, and the line.
type Run<'a> = (f64, f64, &'a [Point]);

#[derive(Debug)]
struct Text {
    area: Area,
    words: String,
    is_label: bool,
}

/// A picture.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    whole: Option<Area>,
    shapes: Vec<Shape>,
    lines: Vec<Vec<Point>>,
    texts: Vec<Text>,
}

impl Area {
    fn contains(&self, (x, y): Point, rim: f64) -> bool {
        x > self.left + rim && x < self.right - rim && y > self.top + rim && y < self.bottom - rim
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether a line around which this area lies may have a point in the other one.
    fn meets(&self, other: &Self) -> bool {
        self.left <= other.right
            && other.left <= self.right
            && self.top <= other.bottom
            && other.top <= self.bottom
    }

    fn corners(&self) -> [Point; 4] {
        let (left, top, right, bottom) = (self.left, self.top, self.right, self.bottom);
        [(left, top), (right, top), (left, bottom), (right, bottom)]
    }

    fn around(points: &[Point]) -> Self {
        let x = || points.iter().map(|point| point.0);
        let y = || points.iter().map(|point| point.1);
        Self {
            left: x().fold(f64::MAX, f64::min),
            top: y().fold(f64::MAX, f64::min),
            right: x().fold(f64::MIN, f64::max),
            bottom: y().fold(f64::MIN, f64::max),
        }
    }
}

impl Shape {
    fn contains(&self, point: Point, rim: f64) -> bool {
        let area = &self.area;
        let half = ((area.right - area.left) / 2.0, (area.bottom - area.top) / 2.0);
        let x = (point.0 - area.left - half.0).abs() / (half.0 - rim);
        let y = (point.1 - area.top - half.1).abs() / (half.1 - rim);
        match self.form {
            Form::Square => area.contains(point, rim),
            Form::Diamond => x + y < 1.0,
        }
    }
}

impl Drawn {
    pub(super) fn read(svg: &str) -> Self {
        let mut drawn = Self::default();
        let body = svg.split_once("</defs>").expect("definitions").1;
        let head = svg.split('>').next().unwrap();
        let size = |name| number(head, name);
        drawn.whole =
            Some(Area { left: 0.0, top: 0.0, right: size("width"), bottom: size("height") });
        let mut group = 0;
        for tag in body.split('<').skip(1) {
            let name = tag.split([' ', '>']).next().unwrap();
            match name {
                "g" | "/g" => group += 1,
                "text" => drawn.text(tag),
                "rect" | "path" => drawn.shape(tag, name, group),
                _ => {}
            }
        }
        drawn
    }

    fn text(&mut self, tag: &str) {
        let words = plain(tag.split_once('>').unwrap().1);
        let classes = attribute(tag, "class").unwrap_or_default();
        let has = |class: &str| classes.split(' ').any(|it| it == class);
        let (is_label, is_small) = (has("l"), has("l") || has("i"));
        let size = if is_small { 11.0 } else { 13.0 };
        let width: f64 = words.chars().map(|letter| size * share(letter)).sum();
        let (x, y) = (number(tag, "x"), number(tag, "y"));
        let left = if has("h") { x } else { x - width / 2.0 };
        let area = Area { left, top: y - size * 0.75, right: left + width, bottom: y + size * 0.2 };
        self.texts.push(Text { area, words, is_label });
    }

    fn shape(&mut self, tag: &str, name: &str, group: usize) {
        let classes = attribute(tag, "class").unwrap_or_default();
        let first = classes.split(' ').next().unwrap_or_default();
        let (form, area) = match (first, name) {
            ("w", "path") => {
                self.lines.extend(lines(attribute(tag, "d").unwrap()));
                return;
            }
            ("n" | "c", "rect") => (Form::Square, rectangle(tag)),
            ("n", "path") => {
                let points = lines(attribute(tag, "d").unwrap()).concat();
                let form = if points.len() < 6 { Form::Diamond } else { Form::Square };
                (form, Area::around(&points))
            }
            _ => return,
        };
        self.shapes.push(Shape { form, area, group });
    }

    /// Everything that a reader would stumble over, in words.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        self.lines_through_boxes(&mut faults);
        self.labels(&mut faults);
        self.texts_past_boxes(&mut faults);
        self.boxes_on_boxes(&mut faults);
        self.lines_on_lines(&mut faults);
        self.outside(&mut faults);
        faults
    }

    fn lines_through_boxes(&self, faults: &mut Vec<String>) {
        for line in &self.lines {
            for shape in &self.shapes {
                if crosses(line, &shape.area, |point| shape.contains(point, RIM)) {
                    faults.push(format!("the line {line:?} crosses the box {:?}", shape.area));
                }
            }
        }
    }

    fn labels(&self, faults: &mut Vec<String>) {
        let labels = || self.texts.iter().filter(|text| text.is_label);
        for (at, label) in labels().enumerate() {
            let words = &label.words;
            if self.shapes.iter().any(|shape| shape.area.overlaps(&label.area)) {
                faults.push(format!("the label {words:?} lies on a box"));
            }
            if let Some(other) =
                labels().skip(at + 1).find(|other| other.area.overlaps(&label.area))
            {
                faults.push(format!("the label {words:?} lies on {:?}", other.words));
            }
            let is_in = |point| label.area.contains(point, 0.0);
            for line in self.lines.iter().filter(|line| crosses(line, &label.area, is_in)) {
                faults.push(format!("the line {line:?} crosses the label {words:?}"));
            }
        }
    }

    fn texts_past_boxes(&self, faults: &mut Vec<String>) {
        for text in self.texts.iter().filter(|text| !text.is_label) {
            let corners = text.area.corners();
            let holds = |shape: &&Shape| corners.iter().all(|corner| shape.contains(*corner, -0.5));
            if !self.shapes.iter().any(|shape| holds(&shape)) {
                faults.push(format!("the text {:?} is wider than its box", text.words));
            }
        }
    }

    fn boxes_on_boxes(&self, faults: &mut Vec<String>) {
        for (at, shape) in self.shapes.iter().enumerate() {
            let mut others = self.shapes[at + 1..].iter();
            if others.any(|other| other.group != shape.group && other.area.overlaps(&shape.area)) {
                faults.push(format!("another box lies on {:?}", shape.area));
            }
        }
    }

    /// Upright parts of lines that run on each other although the lines neither begin nor end together.
    fn lines_on_lines(&self, faults: &mut Vec<String>) {
        let mut runs: BTreeMap<i64, Vec<Run<'_>>> = BTreeMap::new();
        for line in &self.lines {
            for pair in line.windows(2) {
                let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                if rounded(x) == rounded(to_x) {
                    let beside = runs.entry(rounded(x)).or_default();
                    let is_met =
                        |run: &&Run<'_>| run.1.min(y.max(to_y)) - run.0.max(y.min(to_y)) > 2.0;
                    for other in beside.iter().filter(is_met).map(|run| run.2) {
                        if line.first() != other.first() && line.last() != other.last() {
                            faults.push(format!("the line {line:?} lies on {other:?}"));
                        }
                    }
                    beside.push((y.min(to_y), y.max(to_y), line));
                }
            }
        }
    }

    fn outside(&self, faults: &mut Vec<String>) {
        let whole = self.whole.expect("a size");
        let texts = self.texts.iter().flat_map(|text| text.area.corners());
        let shapes = self.shapes.iter().flat_map(|shape| shape.area.corners());
        let points = self.lines.iter().flatten().copied().chain(texts).chain(shapes);
        for point in points.filter(|point| !whole.contains(*point, 0.0)) {
            faults.push(format!("{point:?} lies outside of the picture"));
        }
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let tag = tag.split('>').next()?;
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn number(tag: &str, name: &str) -> f64 {
    let text = attribute(tag, name).unwrap_or_else(|| panic!("no {name} in {tag}"));
    text.parse().unwrap()
}

fn rectangle(tag: &str) -> Area {
    let (left, top) = (number(tag, "x"), number(tag, "y"));
    Area { left, top, right: left + number(tag, "width"), bottom: top + number(tag, "height") }
}

/// The lines of a path.
fn lines(path: &str) -> Vec<Vec<Point>> {
    let mut lines: Vec<Vec<Point>> = Vec::new();
    let mut rest = path.trim_end_matches('z');
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(char::is_alphabetic).map_or(rest.len(), |end| end + 1);
        let numbers = rest[1..end].split_whitespace();
        let numbers: Vec<f64> = numbers.map(|text| text.parse().unwrap()).collect();
        if command == 'M' {
            lines.push(Vec::new());
        }
        let line = lines.last_mut().expect("a path begins with a place");
        let from = line.last().copied().unwrap_or_default();
        match (command, numbers.as_slice()) {
            ('M' | 'L', [x, y]) => line.push((*x, *y)),
            ('H', [x]) => line.push((*x, from.1)),
            ('V', [y]) => line.push((from.0, *y)),
            ('C', [x1, y1, x2, y2, x, y]) => {
                let curve = [from, (*x1, *y1), (*x2, *y2), (*x, *y)];
                line.extend(
                    (1..=CURVE).map(|at| on_curve(curve, f64::from(at) / f64::from(CURVE))),
                );
            }
            other => panic!("{other:?} in {path}"),
        }
        rest = &rest[end..];
    }
    lines
}

/// The point of a cubic curve after this share of it.
fn on_curve(curve: [Point; 4], share: f64) -> Point {
    let between = |from: Point, to: Point| {
        let at = |from: f64, to: f64| from + (to - from) * share;
        (at(from.0, to.0), at(from.1, to.1))
    };
    let [a, b, c, d] = curve;
    let (first, middle, last) = (between(a, b), between(b, c), between(c, d));
    between(between(first, middle), between(middle, last))
}

/// Whether a line has a point inside something within this area.
fn crosses(line: &[Point], area: &Area, is_in: impl Fn(Point) -> bool) -> bool {
    let mut parts = line.windows(2);
    parts.any(|part| Area::around(part).meets(area) && steps(part).any(&is_in))
}

/// Points on a line, one unit from each other at most.
fn steps(line: &[Point]) -> impl Iterator<Item = Point> {
    line.windows(2).flat_map(|pair| {
        let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
        let length = (to_x - x).abs().max((to_y - y).abs());
        let count = u32::try_from(rounded(length)).unwrap_or(0) + 1;
        (0..=count).map(move |at| {
            let share = f64::from(at) / f64::from(count);
            (x + (to_x - x) * share, y + (to_y - y) * share)
        })
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a picture is no larger")]
fn rounded(number: f64) -> i64 {
    number.round() as i64
}

/// The width of a letter in the height of its font.
fn share(letter: char) -> f64 {
    let columns = letter.width().unwrap_or(1);
    match (letter, columns) {
        (_, 0) => 0.0,
        ('\u{2000}'.., _) => SIGN,
        _ => LETTER,
    }
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}
