//! Draws a workflow as text: its steps in waves, who does each, and the transitions besides dependencies; for an
//! execution also the state of each step.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::screen::{Screen, TextStyle, one_line, pad_text, truncate_text};
use midex_domain::{
    grammar,
    view::{EdgeKind, GraphNode, GraphView, ON_FAILURE_TITLE},
};
use midex_picture::{conditions, edge_words, is_error, repeats};

/// The maximum width of the column of step names, and of the column of agents.
const NAME_COLUMNS_MAX: usize = 28;
/// Below this width, a line shows only names and symbols.
const NARROW_COLUMNS: usize = 50;

/// The caller's notes on a step.
#[derive(Debug, Default)]
pub(super) struct StepNotes {
    /// The note in the line of the step.
    pub(super) beside: String,
    /// The notes below it, each on a line.
    pub(super) below: Vec<String>,
}

/// The drawing, with the `notes` of each step.
pub(super) fn draw_graph(
    graph: &GraphView,
    screen: &Screen,
    notes: impl Fn(&GraphNode) -> StepNotes,
) -> String {
    // Names are not truncated in output for programs.
    let most = if screen.is_terminal() { NAME_COLUMNS_MAX } else { usize::MAX };
    let name = |node: &GraphNode| step_title(node).width().min(most);
    let names = graph.nodes.iter().map(name).max().unwrap_or(0);
    let whos = graph.nodes.iter().map(|node| step_worker(node).width());
    let whos = whos.max().unwrap_or(0).min(most);
    let columns = (names, whos);
    let (failing, ordinary): (Vec<_>, Vec<_>) =
        graph.nodes.iter().zip(graph.waves()).partition(|(node, _)| node.on_failure);
    let draw = |(node, mark): (&GraphNode, &str)| {
        draw_step(node, (mark, columns.0, columns.1), graph, screen, &notes(node))
    };
    let mut text = draw_waves(&ordinary, screen, &draw);
    if !failing.is_empty() {
        text += &screen.indent_block(Some(TextStyle::Dim), "", ON_FAILURE_TITLE);
        text += &draw_waves(&failing, screen, &draw);
    }
    text
}

/// The steps of `nodes` in waves. `draw` draws a step with the mark of its position in the wave.
fn draw_waves(
    nodes: &[(&GraphNode, usize)],
    screen: &Screen,
    draw: &impl Fn((&GraphNode, &str)) -> String,
) -> String {
    let in_wave = |wave: usize| nodes.iter().filter(move |(_, of)| *of == wave);
    let last = nodes.iter().map(|(_, of)| *of).max().unwrap_or(0);
    let mut text = String::new();
    for wave in 0..=last {
        let count = in_wave(wave).count();
        for (at, (node, _)) in in_wave(wave).enumerate() {
            let mark = match at {
                _ if count < 2 => " ",
                0 => "┌",
                at if at + 1 == count => "└",
                _ => "├",
            };
            text += &draw((node, mark));
        }
        // Consecutive waves of a single step need no line between them.
        if wave < last && (count > 1 || in_wave(wave + 1).count() > 1) {
            text += &screen.paint(TextStyle::Dim, "   │");
            text.push('\n');
        }
    }
    text
}

fn draw_step(
    node: &GraphNode,
    (mark, names, whos): (&str, usize, usize),
    graph: &GraphView,
    screen: &Screen,
    notes: &StepNotes,
) -> String {
    let narrow = screen.columns() < NARROW_COLUMNS;
    let (sign, style) = state_symbol(node);
    let name = pad_text(&truncate_text(&step_title(node), names), names);
    let who = if narrow {
        String::new()
    } else {
        pad_text(&truncate_text(&step_worker(node), whos), whos)
    };
    let taken = 8 + name.width() + who.width();
    let room = screen.columns().saturating_sub(taken);
    let beside = if room < 8 { String::new() } else { truncate_text(&notes.beside, room) };
    let line = format!(
        "{} {} {}  {}  {beside}",
        screen.paint(TextStyle::Dim, mark),
        style.map_or_else(|| sign.to_owned(), |style| screen.paint(style, sign)),
        style.map_or_else(|| name.clone(), |style| screen.paint(style, &name)),
        screen.paint(TextStyle::Dim, &who),
    );
    let mut text = line.trim_end().to_owned() + "\n";
    for below in step_detail_lines(node, graph).iter().chain(&notes.below) {
        text += &screen.indent_block(Some(TextStyle::Dim), "     ", below);
    }
    text
}

/// The symbol for the state of a step; a dot if the graph is not that of an execution.
fn state_symbol(node: &GraphNode) -> (&'static str, Option<TextStyle>) {
    let Some(standing) = &node.standing else {
        return ("•", None);
    };
    let style = match standing.status.as_str() {
        "completed" => TextStyle::Good,
        "failed" => TextStyle::Bad,
        "running" => TextStyle::Bold,
        _ => TextStyle::Dim,
    };
    (standing.sign(), Some(style))
}

/// The name of a step, with its number of visits and its finished items: `build ×2 3/6`.
fn step_title(node: &GraphNode) -> String {
    let mut title = one_line(&node.id);
    let Some(standing) = &node.standing else {
        return title;
    };
    if standing.visits > 1 {
        let _ = write!(title, " ×{}", standing.visits);
    }
    if let (Some(done), Some(all)) = (standing.items_done, standing.items) {
        let _ = write!(title, " {done}/{all}");
        if standing.items_failed > 0 {
            let _ = write!(title, " ({} failed)", standing.items_failed);
        }
    }
    title
}

/// The agent or the workflow that does a step, else its kind.
fn step_worker(node: &GraphNode) -> String {
    match (&node.agent, &node.workflow) {
        (Some(agent), _) => one_line(agent),
        (None, Some(workflow)) => format!("workflow {}", one_line(workflow)),
        _ => one_line(&node.kind),
    }
}

/// The lines below a step: its join, if it does not wait for all dependencies; its conditions and repetitions; and its
/// transitions other than dependencies.
fn step_detail_lines(node: &GraphNode, graph: &GraphView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(join) = &node.join {
        lines.push(format!("waits for {}", one_line(join)));
    }
    if node.kind == "foreach" && (node.agent.is_some() || node.workflow.is_some()) {
        lines.push("for each item".to_owned());
    }
    lines.extend(conditions(node).iter().map(|it| one_line(it)));
    lines.extend(repeats(node).iter().map(|it| one_line(it)));
    let edges = graph.edges.iter();
    let own = edges.filter(|edge| edge.from == node.id && edge.kind != EdgeKind::DependsOn);
    lines.extend(own.map(|edge| {
        let to = match edge.to.as_str() {
            grammar::END_TARGET => "the end".to_owned(),
            id => one_line(id),
        };
        let when = edge_words(edge).map(|words| one_line(&words));
        match when {
            Some(when) if is_error(edge) => format!("{when} → {to}"),
            Some(when) => format!("→ {to} {when}"),
            None => format!("→ {to}"),
        }
    }));
    lines.extend(
        node.beside
            .iter()
            .map(|beside| format!("+ {}: {}", one_line(&beside.body), one_line(&beside.does))),
    );
    lines
}
