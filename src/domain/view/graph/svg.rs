//! The graph of a workflow as an SVG picture: its steps in waves from top to bottom. What the picture needs stands in it, so
//! that it is shown the same anywhere; its colors are read on a light ground and on a dark one.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{EdgeKind, GraphEdge, GraphNode, GraphView};
use crate::domain::grammar;

/// The width of a letter, in the units of the picture.
const LETTER: usize = 8;
const LINE: usize = 18;
const PADDING: usize = 12;
/// The room between two boxes side by side, and between two waves.
const GAP: usize = 28;
const WAVE_GAP: usize = 56;
const MARGIN: usize = 20;
/// The least width of a box.
const BOX_MIN: usize = 90;
/// The room that each way back takes beside the boxes.
const BACK: usize = 26;
/// The fewest letters that a label on a way is cut to.
const LABEL_MIN: usize = 14;

const STYLE: &str = "text{font:13px ui-monospace,SFMono-Regular,Menlo,monospace;fill:#57606a}\
.n{fill:#f6f8fa;stroke:#57606a;stroke-width:1.3}.t{fill:#1f2328}.w{fill:none;stroke:#8c959f;stroke-width:1.3}\
.l{font-size:11px}.d{stroke-dasharray:4 3}.completed{fill:#dafbe1;stroke:#1a7f37}.running{fill:#ddf4ff;stroke:#0969da;stroke-width:2.2}\
.failed{fill:#ffebe9;stroke:#cf222e}.skipped{fill:#f6f8fa;stroke:#8c959f;stroke-dasharray:2 3}";

/// A box with its place.
struct Placed<'a> {
    node: &'a GraphNode,
    lines: Vec<String>,
    wave: usize,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl GraphView {
    /// The graph as an SVG picture.
    pub fn svg(&self) -> String {
        let mut boxes = self.boxes();
        let width = place(&mut boxes);
        let end = self.ends().then(|| bottom(&boxes) + WAVE_GAP);
        let back = self.edges.iter().filter(|edge| is_back(edge, &boxes));
        let whole = width + back.count() * BACK + MARGIN * 2;
        let height = end.map_or_else(|| bottom(&boxes), |end| end + LINE * 2) + MARGIN;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {height}\" width=\"{whole}\" height=\"{height}\" \
             role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#8c959f\"/></marker></defs>\n",
            escaped(&self.name)
        );
        let mut lane = 0;
        for edge in &self.edges {
            let _ = writeln!(text, "{}", way(edge, &boxes, (width, &mut lane), end));
        }
        for placed in &boxes {
            placed.draw(&mut text);
        }
        if let Some(end) = end {
            let x = center(&boxes);
            let _ = writeln!(
                text,
                "<circle class=\"n\" cx=\"{x}\" cy=\"{}\" r=\"{LINE}\"/><text class=\"t\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">end</text>",
                end + LINE,
                end + LINE + 4
            );
        }
        text.push_str("</svg>\n");
        text
    }

    fn boxes(&self) -> Vec<Placed<'_>> {
        let waves = self.waves();
        let boxes = self.nodes.iter().zip(waves).map(|(node, wave)| {
            let lines = node.lines();
            let letters = lines.iter().map(|line| line.width()).max().unwrap_or(0);
            Placed {
                node,
                width: (letters * LETTER + PADDING * 2).max(BOX_MIN),
                height: lines.len() * LINE + PADDING,
                lines,
                wave,
                x: 0,
                y: 0,
            }
        });
        boxes.collect()
    }
}

impl GraphNode {
    /// The lines of its box: its name, who or what does it, where it stands, and what stands beside it.
    fn lines(&self) -> Vec<String> {
        let name = match &self.standing {
            Some(standing) if standing.visits > 1 => format!("{} ×{}", self.id, standing.visits),
            _ => self.id.clone(),
        };
        let by = self.agent.clone().or_else(|| self.workflow.clone());
        let by = by.unwrap_or_else(|| self.kind.clone());
        let items = self.standing.as_ref().and_then(|standing| {
            let (done, all) = (standing.items_done?, standing.items?);
            Some(format!("{done}/{all} items"))
        });
        let beside = self.beside.iter().map(|beside| {
            let [body, does] = beside.label();
            format!("{body}: {does}")
        });
        let own = [Some(name), Some(by), items, self.join.clone()];
        own.into_iter().flatten().chain(beside).collect()
    }
}

impl Placed<'_> {
    fn draw(&self, text: &mut String) {
        let (x, y, width, height) = (self.x, self.y, self.width, self.height);
        let state = self
            .node
            .standing
            .as_ref()
            .map_or("", |it| it.status.as_str());
        let state = match state {
            "completed" | "running" | "failed" | "skipped" => format!(" {state}"),
            _ => String::new(),
        };
        let dashed = if self.node.on_failure { " d" } else { "" };
        let class = format!("n{state}{dashed}");
        let (right, under, slant) = (x + width, y + height, PADDING);
        let middle = y + height / 2;
        // What waits for people or time, and what chooses, is told by its shape too.
        let shape = match self.node.kind.as_str() {
            "gate" => format!(
                "<path class=\"{class}\" d=\"M{} {y}H{}L{right} {middle}L{} {under}H{}L{x} {middle}z\"/>",
                x + slant,
                right - slant,
                right - slant,
                x + slant
            ),
            "branch" => format!(
                "<path class=\"{class}\" d=\"M{} {}L{} {middle}L{} {}L{} {middle}z\"/>",
                x + width / 2,
                y.saturating_sub(PADDING),
                right + PADDING,
                x + width / 2,
                under + PADDING,
                x.saturating_sub(PADDING)
            ),
            "wait" => rounded(self, &class, height / 2),
            "foreach" => format!(
                "{}{}",
                frame((x + 5, y.saturating_sub(5)), (width, height), &class, 6),
                rounded(self, &class, 6)
            ),
            "workflow" => format!(
                "{}{}",
                rounded(self, &class, 2),
                frame((x + 4, y + 4), (width - 8, height - 8), "w", 2)
            ),
            _ => rounded(self, &class, 6),
        };
        let _ = writeln!(text, "{shape}");
        for (at, line) in (1..).zip(&self.lines) {
            let class = if at == 1 { " class=\"t\"" } else { "" };
            let _ = writeln!(
                text,
                "<text{class} x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x + width / 2,
                y + at * LINE,
                escaped(line)
            );
        }
    }

    /// How far its shape stands out above and below.
    fn rim(&self) -> usize {
        if self.node.kind == "branch" {
            PADDING
        } else {
            0
        }
    }

    fn top(&self) -> (usize, usize) {
        (self.x + self.width / 2, self.y.saturating_sub(self.rim()))
    }

    fn foot(&self) -> (usize, usize) {
        (self.x + self.width / 2, self.y + self.height + self.rim())
    }
}

fn rounded(placed: &Placed<'_>, class: &str, radius: usize) -> String {
    let place = (placed.x, placed.y);
    frame(place, (placed.width, placed.height), class, radius)
}

fn frame(
    (x, y): (usize, usize),
    (width, height): (usize, usize),
    class: &str,
    radius: usize,
) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
    )
}

/// Gives each box its place, wave by wave, each wave in the middle; returns the width of the widest.
fn place(boxes: &mut [Placed<'_>]) -> usize {
    let count = boxes
        .iter()
        .map(|placed| placed.wave + 1)
        .max()
        .unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(|wave| width_of(boxes, wave)).collect();
    let widest = widths.iter().copied().max().unwrap_or(0);
    let mut y = MARGIN;
    for (wave, width) in widths.iter().enumerate() {
        let mut x = MARGIN + (widest - width) / 2;
        let mut height = 0;
        for placed in boxes.iter_mut().filter(|placed| placed.wave == wave) {
            (placed.x, placed.y) = (x, y);
            x += placed.width + GAP;
            height = height.max(placed.height);
        }
        y += height + WAVE_GAP;
    }
    widest
}

fn width_of(boxes: &[Placed<'_>], wave: usize) -> usize {
    let widths = boxes.iter().filter(|placed| placed.wave == wave);
    let widths: Vec<usize> = widths.map(|placed| placed.width + GAP).collect();
    widths.iter().sum::<usize>().saturating_sub(GAP)
}

fn bottom(boxes: &[Placed<'_>]) -> usize {
    let feet = boxes.iter().map(|placed| placed.y + placed.height);
    feet.max().unwrap_or(MARGIN)
}

fn center(boxes: &[Placed<'_>]) -> usize {
    let right = boxes.iter().map(|placed| placed.x + placed.width).max();
    MARGIN.midpoint(right.unwrap_or(MARGIN))
}

fn found<'a, 'b>(boxes: &'a [Placed<'b>], id: &str) -> Option<&'a Placed<'b>> {
    boxes.iter().find(|placed| placed.node.id == id)
}

/// Whether control goes back, or stays in its wave.
fn is_back(edge: &GraphEdge, boxes: &[Placed<'_>]) -> bool {
    let ends = found(boxes, &edge.from).zip(found(boxes, &edge.to));
    ends.is_some_and(|(from, to)| to.wave <= from.wave)
}

/// The line of a way: down from box to box; back up in a lane of its own, right of all boxes.
fn way(
    edge: &GraphEdge,
    boxes: &[Placed<'_>],
    (width, lane): (usize, &mut usize),
    end: Option<usize>,
) -> String {
    let Some(from) = found(boxes, &edge.from) else {
        return String::new();
    };
    let dashed = if edge.kind == EdgeKind::OnError {
        " d"
    } else {
        ""
    };
    let to = found(boxes, &edge.to);
    if let Some(to) = to.filter(|to| to.wave <= from.wave) {
        *lane += 1;
        let side = MARGIN + width + *lane * BACK - BACK / 2;
        // Below its own wave, where no box stands.
        let ((x1, y1), y2) = (from.foot(), to.y + to.height / 2);
        let (under, x2) = (y1 + LINE, to.x + to.width);
        let path = format!("M{x1} {y1}V{under}H{side}V{y2}H{x2}");
        let room = side.saturating_sub(x1) / LETTER;
        return line(
            edge,
            &path,
            dashed,
            (side - BACK / 2, under - 4, room),
            "end",
        );
    }
    let (x1, y1) = from.foot();
    let (x2, y2) = match (to, end) {
        (Some(to), _) => to.top(),
        (None, Some(end)) if edge.to == grammar::END => (center(boxes), end),
        _ => return String::new(),
    };
    let bend = y2.saturating_sub(y1) / 2;
    let path = format!("M{x1} {y1}C{x1} {} {x2} {} {x2} {y2}", y1 + bend, y2 - bend);
    // Above the box that it leads to, which no other label covers.
    let room = to.map_or(LABEL_MIN, |to| (to.width + GAP / 2) / LETTER);
    line(edge, &path, dashed, (x2, y2 - PADDING, room), "middle")
}

fn line(
    edge: &GraphEdge,
    path: &str,
    dashed: &str,
    (x, y, room): (usize, usize, usize),
    anchor: &str,
) -> String {
    let label = edge.label.as_deref().map_or_else(String::new, |label| {
        let room = room.max(LABEL_MIN);
        let short: String = label.chars().take(room - 1).collect();
        let more = if short.len() < label.len() { "…" } else { "" };
        format!(
            "<text class=\"l\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"><title>{}</title>{}{more}</text>",
            escaped(label),
            escaped(&short)
        )
    });
    format!("<path class=\"w{dashed}\" d=\"{path}\" marker-end=\"url(#a)\"/>{label}")
}

/// A text inside an element; control characters are none of XML's.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}
