//! Draws a workflow as text: its steps in waves, who does each, and the transitions besides dependencies; for an
//! execution also the state of each step.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::screen::{Screen, TextStyle, one_line, pad_text, truncate_text};
use midex_domain::{
    grammar,
    view::{EdgeKind, GraphNode, GraphView, ON_FAILURE_TITLE},
};
use midex_picture::{condition_lines, edge_label, is_error, repeat_lines};

/// The maximum width of the column of step names, and of the column of agents.
const NAME_COLUMNS_MAX: usize = 28;
/// Below this width, a line shows only names and symbols.
const NARROW_COLUMNS: usize = 50;

/// The caller's notes on a step.
#[derive(Debug, Default)]
pub(super) struct StepNotes {
    /// The note in the line of the step.
    pub(super) line_note: String,
    /// The notes below it, each on a line.
    pub(super) detail_notes: Vec<String>,
}

/// The drawing, with the `notes` of each step.
pub(super) fn draw_graph(
    graph: &GraphView,
    screen: &Screen,
    notes: impl Fn(&GraphNode) -> StepNotes,
) -> String {
    // Names are not truncated in output for programs.
    let max_width = if screen.is_terminal() { NAME_COLUMNS_MAX } else { usize::MAX };
    let name_width = |node: &GraphNode| step_title(node).width().min(max_width);
    let name_columns = graph.nodes.iter().map(name_width).max().unwrap_or(0);
    let worker_columns = graph.nodes.iter().map(|node| step_worker(node).width());
    let worker_columns = worker_columns.max().unwrap_or(0).min(max_width);
    let columns = (name_columns, worker_columns);
    let (failure_nodes, normal_nodes): (Vec<_>, Vec<_>) =
        graph.nodes.iter().zip(graph.waves()).partition(|(node, _)| node.on_failure);
    let draw = |(node, mark): (&GraphNode, &str)| {
        draw_step(node, (mark, columns.0, columns.1), graph, screen, &notes(node))
    };
    let mut text = draw_waves(&normal_nodes, screen, &draw);
    if !failure_nodes.is_empty() {
        text += &screen.indent_block(Some(TextStyle::Dim), "", ON_FAILURE_TITLE);
        text += &draw_waves(&failure_nodes, screen, &draw);
    }
    text
}

/// The steps of `nodes` in waves. `draw` draws a step with the mark of its position in the wave.
fn draw_waves(
    nodes: &[(&GraphNode, usize)],
    screen: &Screen,
    draw: &impl Fn((&GraphNode, &str)) -> String,
) -> String {
    let in_wave = |wave: usize| nodes.iter().filter(move |(_, node_wave)| *node_wave == wave);
    let last = nodes.iter().map(|(_, node_wave)| *node_wave).max().unwrap_or(0);
    let mut text = String::new();
    for wave in 0..=last {
        let count = in_wave(wave).count();
        for (index, (node, _)) in in_wave(wave).enumerate() {
            let mark = match index {
                _ if count < 2 => " ",
                0 => "┌",
                index if index + 1 == count => "└",
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
    (mark, name_columns, worker_columns): (&str, usize, usize),
    graph: &GraphView,
    screen: &Screen,
    notes: &StepNotes,
) -> String {
    let is_narrow = screen.columns() < NARROW_COLUMNS;
    let (symbol, style) = state_symbol(node);
    let name = pad_text(&truncate_text(&step_title(node), name_columns), name_columns);
    let worker = if is_narrow {
        String::new()
    } else {
        pad_text(&truncate_text(&step_worker(node), worker_columns), worker_columns)
    };
    let used_columns = 8 + name.width() + worker.width();
    let remaining = screen.columns().saturating_sub(used_columns);
    let note =
        if remaining < 8 { String::new() } else { truncate_text(&notes.line_note, remaining) };
    let line = format!(
        "{} {} {}  {}  {note}",
        screen.paint(TextStyle::Dim, mark),
        style.map_or_else(|| symbol.to_owned(), |style| screen.paint(style, symbol)),
        style.map_or_else(|| name.clone(), |style| screen.paint(style, &name)),
        screen.paint(TextStyle::Dim, &worker),
    );
    let mut text = line.trim_end().to_owned() + "\n";
    for detail in step_detail_lines(node, graph).iter().chain(&notes.detail_notes) {
        text += &screen.indent_block(Some(TextStyle::Dim), "     ", detail);
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
    (standing.status_symbol(), Some(style))
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
    if let (Some(done), Some(total)) = (standing.items_done, standing.items) {
        let _ = write!(title, " {done}/{total}");
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
    lines.extend(condition_lines(node).iter().map(|it| one_line(it)));
    lines.extend(repeat_lines(node).iter().map(|it| one_line(it)));
    let edges = graph.edges.iter();
    let transitions = edges.filter(|edge| edge.from == node.id && edge.kind != EdgeKind::DependsOn);
    lines.extend(transitions.map(|edge| {
        let target = match edge.to.as_str() {
            grammar::END_TARGET => "the end".to_owned(),
            id => one_line(id),
        };
        let condition = edge_label(edge).map(|words| one_line(&words));
        match condition {
            Some(condition) if is_error(edge) => format!("{condition} → {target}"),
            Some(condition) => format!("→ {target} {condition}"),
            None => format!("→ {target}"),
        }
    }));
    lines.extend(
        node.beside
            .iter()
            .map(|beside| format!("+ {}: {}", one_line(&beside.body), one_line(&beside.does))),
    );
    lines
}
