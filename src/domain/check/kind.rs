//! Builds the definition of a step from its fields after the shape check. A missing or invalid value already has a
//! finding, so no step is built then.

use std::time::Duration;

use serde_json::json;

use super::super::{
    definition::{Arm, Branch, Join, Next, OnError, Paginate, Repeat, Retry, Step, StepKind},
    draft::StepDraft,
    grammar,
    node::Node,
    span::Span,
};
use crate::{error::failure_named, limits};

/// The kind that `draft` declares under `key`, for all kinds but `agent`.
pub(super) fn kind(draft: &StepDraft, key: &str, each: Option<Step>) -> Option<StepKind> {
    let node = draft.value(key)?;
    let idempotent = || draft.read::<bool>("idempotent");
    let value = node.to_json();
    // The fields of the `StepKind`; the mapping in the manifest mostly has the same ones.
    let fields = match key {
        "guidance" => json!({ "text": value }),
        "tool" | "workflow" => json!({ "name": value }),
        "activity" => json!({ "name": value, "idempotent": idempotent() }),
        "gate" if value.is_string() => json!({ "ask": value }),
        "set" => json!({ "entries": value }),
        "run" => {
            let (catalog, operation) = node.text()?.trim().split_once(char::is_whitespace)?;
            let words: Vec<_> = operation.split_whitespace().collect();
            return Some(StepKind::Run {
                catalog: catalog.to_owned(),
                operation: words.join(" "),
                body: draft.value("body").map(Node::to_json),
                idempotent: idempotent(),
                paginate: draft.value("paginate").map(|node| Paginate {
                    max_pages: node.get("max_pages").and_then(Node::small),
                }),
                whole: false,
            });
        }
        "branch" => {
            let arms: Option<_> = node.items()?.iter().map(arm).collect();
            return Some(StepKind::Branch { arms: arms? });
        }
        "foreach" => return foreach(node, each?),
        _ => value,
    };
    serde_json::from_value(json!({ key: fields })).ok()
}

fn foreach(node: &Node, body: Step) -> Option<StepKind> {
    let parallel = node.get("parallel").and_then(Node::small);
    Some(StepKind::Foreach {
        items: node.get("in")?.to_json(),
        alias: node.read("as").unwrap_or_else(|| grammar::ALIAS.to_owned()),
        parallel: parallel.unwrap_or(limits::FOREACH_PARALLEL_DEFAULT),
        body: Box::new(body),
    })
}

fn arm(node: &Node) -> Option<Arm> {
    Some(Arm {
        condition: node.read("if"),
        next: next(node.get("next")?)?,
    })
}

/// The branches that a step offers, in authoring order.
fn branches(node: &Node) -> Vec<Branch> {
    let entries = node.entries().unwrap_or_default().iter();
    let branches = entries.filter_map(|entry| {
        Some(Branch {
            pattern: entry.key.clone(),
            tool_name: entry.value.read("toolName")?,
            parameters: entry.value.read("parameters").unwrap_or_default(),
            continue_workflow: entry.value.read("continueWorkflow").unwrap_or(true),
        })
    });
    branches.collect()
}

/// The step with the values of the fields that are common to all kinds.
pub(super) fn fields(step: Step, draft: &StepDraft) -> Step {
    let value = |key| draft.value(key);
    let retry = |node| retry(node, step.kind.is_of_model());
    Step {
        description: draft.read("description").unwrap_or_default(),
        instructions: draft.read("instructions"),
        result: value("result").map(Node::to_json),
        example: value("example").map(Node::to_json),
        output_contract: value("output_contract").map(Node::to_json),
        condition: draft.read("if").or_else(|| draft.read("when")),
        with: draft.read("with"),
        retry: value("retry").map(retry),
        timeout: draft.read("timeout"),
        repeat: value("repeat").and_then(repeat),
        optional: draft.read("optional").unwrap_or_default(),
        on_error: value("on_error").and_then(on_error).unwrap_or_default(),
        run_when: draft.read("run_when").unwrap_or_default(),
        next: value("next").and_then(next),
        max_visits: value("max_visits").and_then(Node::small),
        join: value("join").and_then(join).unwrap_or_default(),
        losers: draft.read("losers").unwrap_or_default(),
        branches: value("branches").map(branches).unwrap_or_default(),
        ..step
    }
}

fn join(node: &Node) -> Option<Join> {
    Join::parse(node.text()?)
}

fn retry(node: &Node, is_of_model: bool) -> Retry {
    // Default backoff: none for a model, which is asked again at once.
    let usual = if is_of_model {
        Duration::ZERO
    } else {
        limits::RETRY_BACKOFF_DEFAULT
    };
    let backoff = node.read("backoff").unwrap_or(Span::of(usual));
    // The default upper limit is never below the declared backoff.
    let max_backoff = || Span::of(limits::RETRY_BACKOFF_MAX_DEFAULT).max(backoff);
    Retry {
        max_attempts: node
            .get("max_attempts")
            .and_then(Node::small)
            .unwrap_or(limits::RETRY_ATTEMPTS_DEFAULT),
        backoff,
        max_backoff: node.read("max_backoff").unwrap_or_else(max_backoff),
        jitter: node.read("jitter").unwrap_or(true),
        on: node
            .get("on")
            .and_then(Node::items)
            .map(failures)
            .unwrap_or_default(),
    }
}

/// The failure names in `retry.on`, normalised.
fn failures(named: &[Node]) -> Vec<String> {
    let written = named.iter().filter_map(Node::written);
    written
        .map(|word| failure_named(&word).unwrap_or(word))
        .collect()
}

fn repeat(node: &Node) -> Option<Repeat> {
    Some(Repeat {
        until: node.read("until")?,
        every: node
            .read("every")
            .unwrap_or(Span::of(limits::REPEAT_EVERY_DEFAULT)),
        timeout: node.read("timeout"),
        max_attempts: node
            .get("max_attempts")
            .and_then(Node::small)
            .unwrap_or(limits::REPEAT_ATTEMPTS_DEFAULT),
    })
}

fn on_error(node: &Node) -> Option<OnError> {
    Some(match node.text()? {
        "fail" => OnError::Fail,
        "continue" => OnError::Continue,
        _ => OnError::Step(node.to()?),
    })
}

fn next(node: &Node) -> Option<Next> {
    if node.text()? == grammar::END {
        return Some(Next::End);
    }
    node.to().map(Next::Step)
}
