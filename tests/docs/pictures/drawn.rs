//! A picture as a reader sees it: its boxes, lines and texts with their places, and what is wrong with them. It knows as
//! little of how pictures are drawn as it can: it reads the SVG.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar;

/// How wide a letter of a monospaced font is, in its height; a sign may be taken from another font.
const LETTER: f64 = 0.61;
const SIGN: f64 = 1.0;
/// What lies on the rim of a box is not inside.
const RIM: f64 = 1.5;

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
    Circle,
}

/// A box, or a part of one.
#[derive(Debug)]
struct Shape {
    form: Form,
    area: Area,
    /// What belongs together is in one group.
    group: usize,
}

/// A straight part of a line: from where to where, and of which line it is.
type Run = (f64, f64, usize);

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
        let half = (
            (area.right - area.left) / 2.0,
            (area.bottom - area.top) / 2.0,
        );
        let x = (point.0 - area.left - half.0).abs() / (half.0 - rim);
        let y = (point.1 - area.top - half.1).abs() / (half.1 - rim);
        match self.form {
            Form::Square => area.contains(point, rim),
            Form::Diamond => x + y < 1.0,
            Form::Circle => x * x + y * y < 1.0,
        }
    }
}

impl Drawn {
    pub(super) fn read(svg: &str) -> Self {
        let mut drawn = Self::default();
        let body = svg.split_once("</defs>").expect("definitions").1;
        let head = svg.split('>').next().unwrap();
        let size = |name| number(head, name);
        drawn.whole = Some(Area {
            left: 0.0,
            top: 0.0,
            right: size("width"),
            bottom: size("height"),
        });
        let mut group = 0;
        for tag in body.split('<').skip(1) {
            let name = tag.split([' ', '>']).next().unwrap();
            match name {
                "g" | "/g" => group += 1,
                "text" => drawn.text(tag),
                "rect" | "path" | "circle" => drawn.shape(tag, name, group),
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
        let area = Area {
            left,
            top: y - size * 0.75,
            right: left + width,
            bottom: y + size * 0.2,
        };
        self.texts.push(Text {
            area,
            words,
            is_label,
        });
    }

    fn shape(&mut self, tag: &str, name: &str, group: usize) {
        let classes = attribute(tag, "class").unwrap_or_default();
        let first = classes.split(' ').next().unwrap_or_default();
        let (form, area) = match (first, name) {
            ("w", "path") => {
                self.lines.push(points(attribute(tag, "d").unwrap()));
                return;
            }
            ("n" | "c", "rect") => (Form::Square, rectangle(tag)),
            ("n", "circle") => (Form::Circle, circle(tag)),
            ("n", "path") => {
                let points = points(attribute(tag, "d").unwrap());
                let form = if points.len() < 6 {
                    Form::Diamond
                } else {
                    Form::Square
                };
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
                    faults.push(format!(
                        "the line {line:?} crosses the box {:?}",
                        shape.area
                    ));
                }
            }
        }
    }

    fn labels(&self, faults: &mut Vec<String>) {
        let labels = || self.texts.iter().filter(|text| text.is_label);
        for (at, label) in labels().enumerate() {
            let words = &label.words;
            if self
                .shapes
                .iter()
                .any(|shape| shape.area.overlaps(&label.area))
            {
                faults.push(format!("the label {words:?} lies on a box"));
            }
            if let Some(other) = labels()
                .skip(at + 1)
                .find(|other| other.area.overlaps(&label.area))
            {
                faults.push(format!("the label {words:?} lies on {:?}", other.words));
            }
            let is_in = |point| label.area.contains(point, 0.0);
            for line in self
                .lines
                .iter()
                .filter(|line| crosses(line, &label.area, is_in))
            {
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

    /// Lines that run on each other although they neither begin nor end together.
    fn lines_on_lines(&self, faults: &mut Vec<String>) {
        for runs in self.runs().values() {
            for (at, run) in runs.iter().enumerate() {
                let line = &self.lines[run.2];
                let is_other = |other: &Vec<Point>| {
                    line.first() != other.first() && line.last() != other.last()
                };
                let meets = |other: &&Run| run.1.min(other.1) - run.0.max(other.0) > 2.0;
                let others = runs[at + 1..].iter().filter(meets);
                let others = others.map(|other| &self.lines[other.2]);
                for other in others.filter(|other| is_other(other)) {
                    faults.push(format!("the line {line:?} lies on {other:?}"));
                }
            }
        }
    }

    /// The straight parts of all lines, by whether they are upright and where they run.
    fn runs(&self) -> BTreeMap<(bool, i64), Vec<Run>> {
        let mut runs: BTreeMap<_, Vec<Run>> = BTreeMap::new();
        for (at, line) in self.lines.iter().enumerate() {
            for pair in line.windows(2) {
                let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                let is_upright = rounded(x) == rounded(to_x);
                let (place, from, to) = if is_upright {
                    (x, y, to_y)
                } else {
                    (y, x, to_x)
                };
                let run = (from.min(to), from.max(to), at);
                runs.entry((is_upright, rounded(place)))
                    .or_default()
                    .push(run);
            }
        }
        runs
    }

    fn outside(&self, faults: &mut Vec<String>) {
        let whole = self.whole.expect("a size");
        let texts = self.texts.iter().flat_map(|text| text.area.corners());
        let shapes = self.shapes.iter().flat_map(|shape| shape.area.corners());
        let points = self
            .lines
            .iter()
            .flatten()
            .copied()
            .chain(texts)
            .chain(shapes);
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
    Area {
        left,
        top,
        right: left + number(tag, "width"),
        bottom: top + number(tag, "height"),
    }
}

fn circle(tag: &str) -> Area {
    let (x, y, r) = (number(tag, "cx"), number(tag, "cy"), number(tag, "r"));
    Area {
        left: x - r,
        top: y - r,
        right: x + r,
        bottom: y + r,
    }
}

/// The corners of a path, which has no curves.
fn points(path: &str) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut rest = path.trim_end_matches('z');
    while let Some(command) = rest.chars().next() {
        let end = rest[1..]
            .find(char::is_alphabetic)
            .map_or(rest.len(), |end| end + 1);
        let numbers = rest[1..end]
            .split_whitespace()
            .map(|text| text.parse().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        let from = points.last().copied().unwrap_or_default();
        match (command, numbers.as_slice()) {
            ('M' | 'L', [x, y]) => points.push((*x, *y)),
            ('H', [x]) => points.push((*x, from.1)),
            ('V', [y]) => points.push((from.0, *y)),
            other => panic!("{other:?} in {path}"),
        }
        rest = &rest[end..];
    }
    points
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
