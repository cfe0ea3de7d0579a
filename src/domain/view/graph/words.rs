//! The texts of boxes and edges, which all formats share.

use super::{EdgeKind, GraphBeside, GraphEdge, GraphNode};

impl GraphNode {
    /// The step id; for an execution with the symbol of its state and the number of visits.
    pub(super) fn title(&self) -> String {
        let id = &self.id;
        match &self.standing {
            Some(standing) if standing.visits > 1 => {
                format!("{} {id} ×{}", standing.sign(), standing.visits)
            }
            Some(standing) => format!("{} {id}", standing.sign()),
            None => id.clone(),
        }
    }

    /// The conditions under which the step runs: its `if`, and its `run_when`.
    pub fn conditions(&self) -> Vec<String> {
        let condition = self.condition.iter().map(|text| format!("if {text}"));
        let after = match self.run_when.as_deref() {
            Some("failed") => Some("only after a failure"),
            Some("finished") => Some("even after a failure"),
            _ => None,
        };
        condition.chain(after.map(str::to_owned)).collect()
    }

    /// The lines below the name: who acts, how often, and the hooks.
    pub(super) fn told(&self) -> Vec<String> {
        let own = self
            .done_by()
            .or_else(|| Some(self.kind_words().to_owned()));
        let own = own.into_iter().chain(self.turns());
        own.chain(self.beside_words()).collect()
    }

    /// The lines of the box in Mermaid and Graphviz.
    pub(super) fn label(&self) -> Vec<String> {
        let fails = (self.kind == "fail").then(|| self.kind_words().to_owned());
        let own = [Some(self.title()), self.done_by(), fails];
        let own = own.into_iter().flatten().chain(self.turns());
        own.chain(self.conditions()).collect()
    }

    /// The full text of the box without cuts, and the description, for a tooltip.
    pub(super) fn whole(&self) -> String {
        let own = std::iter::once(self.id.clone()).chain(self.done_by());
        let own = own
            .chain(self.conditions())
            .chain(self.turns())
            .chain(self.beside_words());
        let description = Some(self.description.clone()).filter(|text| !text.is_empty());
        own.chain(description).collect::<Vec<_>>().join("\n")
    }

    fn beside_words(&self) -> impl Iterator<Item = String> {
        self.beside.iter().map(|beside| {
            let [body, does] = beside.label();
            format!("{body}: {does}")
        })
    }

    fn done_by(&self) -> Option<String> {
        let workflow = self
            .workflow
            .as_ref()
            .map(|name| format!("workflow {name}"));
        self.agent.clone().or(workflow)
    }

    /// The lines on items, on the join and on repetition.
    fn turns(&self) -> Vec<String> {
        let each = (self.kind == "foreach").then(|| self.items_words());
        let join = self.join.as_ref().map(|join| format!("waits for {join}"));
        let own = each.into_iter().chain(join);
        own.chain(self.repeats()).collect()
    }

    /// The lines on `repeat.until` and on a tolerated failure.
    pub fn repeats(&self) -> Vec<String> {
        let until = self.until.iter().map(|text| format!("again until {text}"));
        let passed = self.optional.then(|| "may fail".to_owned());
        until.chain(passed).collect()
    }

    fn kind_words(&self) -> &str {
        match self.kind.as_str() {
            "fail" => "✗ fail",
            kind => kind,
        }
    }

    fn items_words(&self) -> String {
        let standing = self.standing.as_ref();
        let counts = standing.and_then(|standing| Some((standing.items_done?, standing.items?)));
        counts.map_or_else(
            || "for each item".to_owned(),
            |(done, all)| format!("{done}/{all} items"),
        )
    }

    /// Whether the step may be skipped.
    pub(super) fn is_conditional(&self) -> bool {
        self.condition.is_some() || self.run_when.is_some()
    }
}

impl GraphBeside {
    /// The lines that are shown in the box.
    pub(super) fn label(&self) -> [String; 2] {
        let each = if self.each { " of each item" } else { "" };
        let required = if self.required { ", required" } else { "" };
        [format!("{}{each}{required}", self.body), self.does.clone()]
    }
}

impl GraphEdge {
    /// Whether it is taken once its step has failed.
    pub fn is_error(&self) -> bool {
        self.kind == EdgeKind::OnError
    }

    /// The condition of the edge as a phrase.
    pub fn words(&self) -> Option<String> {
        let label = self.label.as_ref()?;
        match self.kind {
            EdgeKind::OnError => Some(format!("✗ {label}")),
            EdgeKind::Branch if label != "else" => Some(format!("if {label}")),
            _ => Some(label.clone()),
        }
    }
}
