//! The texts of boxes and edges, which all formats share.

use midex_domain::view::{EdgeKind, GraphBody, GraphEdge, GraphNode};

/// The step id; for an execution with the symbol of its state and the number of visits.
pub(crate) fn box_title(node: &GraphNode) -> String {
    let id = &node.id;
    match &node.standing {
        Some(standing) if standing.visits > 1 => {
            format!("{} {id} ×{}", standing.status_symbol(), standing.visits)
        }
        Some(standing) => format!("{} {id}", standing.status_symbol()),
        None => id.clone(),
    }
}

/// The conditions under which the step runs: its `if`, and its `run_when`.
pub fn condition_lines(node: &GraphNode) -> Vec<String> {
    let condition = node.condition.iter().map(|text| format!("if {text}"));
    let after = match node.run_when.as_deref() {
        Some("failed") => Some("only after a failure"),
        Some("finished") => Some("even after a failure"),
        _ => None,
    };
    condition.chain(after.map(str::to_owned)).collect()
}

/// The lines below the name: who acts, how often, and the hooks.
pub(crate) fn detail_lines(node: &GraphNode) -> Vec<String> {
    let lines = actor_name(node).or_else(|| Some(kind_label(node).to_owned()));
    let lines = lines.into_iter().chain(repetition_lines(node));
    lines.chain(hook_lines(node)).collect()
}

/// The lines of the box in Mermaid and Graphviz.
pub(crate) fn label_lines(node: &GraphNode) -> Vec<String> {
    let fails = (node.kind == "fail").then(|| kind_label(node).to_owned());
    let lines = [Some(box_title(node)), actor_name(node), fails];
    let lines = lines.into_iter().flatten().chain(repetition_lines(node));
    lines.chain(condition_lines(node)).collect()
}

/// The full text of the box without cuts, and the description, for a tooltip.
pub(crate) fn tooltip_text(node: &GraphNode) -> String {
    let lines = std::iter::once(node.id.clone()).chain(actor_name(node));
    let lines =
        lines.chain(condition_lines(node)).chain(repetition_lines(node)).chain(hook_lines(node));
    let description = Some(node.description.clone()).filter(|text| !text.is_empty());
    lines.chain(description).collect::<Vec<_>>().join("\n")
}

/// The same with what a screen reader says in place of the id.
pub(crate) fn spoken_tooltip_text(node: &GraphNode) -> String {
    let tooltip = tooltip_text(node);
    spoken_label(node) + tooltip.strip_prefix(&node.id).unwrap_or_default()
}

fn hook_lines(node: &GraphNode) -> impl Iterator<Item = String> {
    node.beside.iter().map(|beside| {
        let [body, does] = hook_label(beside);
        format!("{body}: {does}")
    })
}

fn actor_name(node: &GraphNode) -> Option<String> {
    let workflow = node.workflow.as_ref().map(|name| format!("workflow {name}"));
    node.agent.clone().or(workflow)
}

/// The lines on items, on the join and on repetition.
fn repetition_lines(node: &GraphNode) -> Vec<String> {
    let each = (node.kind == "foreach").then(|| items_label(node));
    let join = node.join.as_ref().map(|join| format!("waits for {join}"));
    let lines = each.into_iter().chain(join);
    lines.chain(repeat_lines(node)).collect()
}

/// The lines on `repeat.until`, on thresholds, on cancelled steps and on a tolerated failure.
pub fn repeat_lines(node: &GraphNode) -> Vec<String> {
    let until = node.until.iter().map(|text| format!("again until {text}"));
    let optional_line = node.optional.then(|| "may fail".to_owned());
    let thresholds = node.thresholds.clone();
    let cancels =
        (!node.cancels.is_empty()).then(|| format!("cancels {}", node.cancels.join(", ")));
    until.chain(thresholds).chain(cancels).chain(optional_line).collect()
}

fn kind_label(node: &GraphNode) -> &str {
    match node.kind.as_str() {
        "fail" => "✗ fail",
        kind => kind,
    }
}

fn items_label(node: &GraphNode) -> String {
    let standing = node.standing.as_ref();
    let counts = standing.and_then(|standing| Some((standing.items_done?, standing.items?)));
    let failed = standing.map_or(0, |standing| standing.items_failed);
    match counts {
        Some((done, all)) if failed > 0 => format!("{done}/{all} items, {failed} failed"),
        Some((done, all)) => format!("{done}/{all} items"),
        None => "for each item".to_owned(),
    }
}

/// What a screen reader says for the box: `build, completed, 3 visits, 7 of 10 items`.
pub(crate) fn spoken_label(node: &GraphNode) -> String {
    let standing = node.standing.as_ref();
    let state = standing.map_or(&node.kind, |standing| &standing.status);
    let visits = standing.map(|standing| standing.visits).filter(|visits| *visits > 1);
    let counts = standing.and_then(|standing| Some((standing.items_done?, standing.items?)));
    let failed = standing.map(|standing| standing.items_failed).filter(|failed| *failed > 0);
    let parts = [
        Some(node.id.clone()),
        Some(state.clone()),
        visits.map(|visits| format!("{visits} visits")),
        counts.map(|(done, all)| format!("{done} of {all} items")),
        failed.map(|failed| format!("{failed} failed")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether the step may be skipped.
pub(crate) fn is_conditional(node: &GraphNode) -> bool {
    node.condition.is_some() || node.run_when.is_some()
}

/// The lines that are shown in the box.
pub(crate) fn hook_label(hook: &GraphBody) -> [String; 2] {
    let each = if hook.each { " of each item" } else { "" };
    let required = if hook.required { ", required" } else { "" };
    [format!("{}{each}{required}", hook.body), hook.does.clone()]
}

/// Whether it is taken once its step has failed.
pub fn is_error(edge: &GraphEdge) -> bool {
    edge.kind == EdgeKind::OnError
}

/// The condition of the edge as a phrase.
pub fn edge_label(edge: &GraphEdge) -> Option<String> {
    let label = edge.label.as_ref()?;
    match edge.kind {
        EdgeKind::OnError => Some(format!("✗ {label}")),
        EdgeKind::Branch if label != "else" => Some(format!("if {label}")),
        _ => Some(label.clone()),
    }
}
