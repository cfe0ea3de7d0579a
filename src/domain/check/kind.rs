//! From what a step says, which has been held against its shapes, to what it is. Where something is missing there is a
//! finding already.

use std::{str::FromStr, time::Duration};

use serde_json::{Map, Value};

use super::super::{
    definition::{Arm, Next, OnError, Repeat, Retry, RunWhen, Step, StepKind, Via, Wait},
    draft::StepDraft,
    grammar,
    id::StepId,
    node::{Content, Node},
    span::Span,
};
use crate::limits;

/// The kind that `draft` says with `key`, where that is not an agent's.
pub(super) fn kind(draft: &StepDraft, key: &str, each: Option<Step>) -> Option<StepKind> {
    let node = &draft.said(key)?.value;
    let idempotent = || draft.said("idempotent").and_then(|said| flag(&said.value));
    Some(match key {
        "guidance" => StepKind::Guidance { text: owned(node)? },
        "tool" => StepKind::Tool { name: owned(node)? },
        "input" => StepKind::Input {
            properties: texts(node.get("properties")),
            via: node.get("via").and_then(via).unwrap_or_default(),
            reextract: node.get("reextract").and_then(flag).unwrap_or(false),
        },
        "extract" => StepKind::Extract {
            from: owned(node.get("from")?)?,
            properties: texts(node.get("properties")),
        },
        "run" => {
            let (catalog, operation) = node.text()?.trim().split_once(char::is_whitespace)?;
            let words: Vec<_> = operation.split_whitespace().collect();
            StepKind::Run {
                catalog: catalog.to_owned(),
                operation: words.join(" "),
                body: draft.said("body").map(|said| said.value.to_json()),
                idempotent: idempotent(),
            }
        }
        "activity" => StepKind::Activity {
            name: owned(node)?,
            idempotent: idempotent(),
        },
        "branch" => StepKind::Branch {
            arms: node.items()?.iter().map(arm).collect::<Option<_>>()?,
        },
        "foreach" => foreach(node, each?)?,
        "gate" => gate(node)?,
        "wait" => StepKind::Wait(wait(node)?),
        "set" => StepKind::Set {
            entries: map(node)?,
        },
        "fail" => StepKind::Fail {
            code: owned(node.get("code")?)?,
            message: owned(node.get("message")?)?,
        },
        _ => return None,
    })
}

fn foreach(node: &Node, body: Step) -> Option<StepKind> {
    Some(StepKind::Foreach {
        items: node.get("in")?.to_json(),
        alias: node
            .get("as")
            .and_then(owned)
            .unwrap_or_else(|| grammar::ALIAS.to_owned()),
        parallel: count(node.get("parallel")).unwrap_or(limits::FOREACH_PARALLEL_DEFAULT),
        body: Box::new(body),
    })
}

fn gate(node: &Node) -> Option<StepKind> {
    Some(StepKind::Gate {
        ask: node.text().or_else(|| node.get("ask")?.text())?.to_owned(),
        approvers: texts(node.get("approvers")),
        expires: node.get("expires").and_then(parsed),
    })
}

fn wait(node: &Node) -> Option<Wait> {
    let said = |key: &str| node.get(key).and_then(owned);
    None.or_else(|| said("for").map(Wait::For))
        .or_else(|| said("until").map(Wait::Until))
        .or_else(|| said("signal").map(Wait::Signal))
}

fn arm(node: &Node) -> Option<Arm> {
    Some(Arm {
        condition: node.get("if").and_then(owned),
        next: next(node.get("next")?.text()?)?,
    })
}

/// The step with all that its fields say.
pub(super) fn fields(step: Step, draft: &StepDraft) -> Step {
    let said = |key: &str| draft.said(key).map(|said| &said.value);
    let retry = |node| retry(node, step.kind.is_of_model());
    Step {
        instructions: said("instructions").and_then(owned),
        result: said("result").map(Node::to_json),
        example: said("example").map(Node::to_json),
        output_contract: said("output_contract").map(Node::to_json),
        condition: said("if").or_else(|| said("when")).and_then(owned),
        with: said("with").and_then(map),
        retry: said("retry").map(retry),
        timeout: said("timeout").and_then(parsed),
        repeat: said("repeat").and_then(repeat),
        optional: said("optional").and_then(flag).unwrap_or(false),
        on_error: said("on_error").and_then(on_error).unwrap_or_default(),
        run_when: said("run_when").and_then(run_when).unwrap_or_default(),
        next: said("next").and_then(|node| next(node.text()?)),
        max_visits: count(said("max_visits")),
        ..step
    }
}

fn retry(node: &Node, is_of_model: bool) -> Retry {
    // A model that says nothing of pauses is asked again at once.
    let usual = if is_of_model {
        Duration::ZERO
    } else {
        limits::RETRY_BACKOFF_DEFAULT
    };
    let backoff = node
        .get("backoff")
        .and_then(parsed)
        .unwrap_or(Span::of(usual));
    let max_backoff = node.get("max_backoff").and_then(parsed);
    Retry {
        max_attempts: count(node.get("max_attempts")).unwrap_or(limits::RETRY_ATTEMPTS_DEFAULT),
        backoff,
        // Who asks for a long pause and names no longest one does not ask for a shorter one.
        max_backoff: max_backoff
            .unwrap_or(Span::of(limits::RETRY_BACKOFF_MAX_DEFAULT).max(backoff)),
        jitter: node.get("jitter").and_then(flag).unwrap_or(true),
        on: texts(node.get("on")),
    }
}

fn repeat(node: &Node) -> Option<Repeat> {
    Some(Repeat {
        until: owned(node.get("until")?)?,
        every: node
            .get("every")
            .and_then(parsed)
            .unwrap_or(Span::of(limits::REPEAT_EVERY_DEFAULT)),
        timeout: node.get("timeout").and_then(parsed),
        max_attempts: count(node.get("max_attempts")).unwrap_or(limits::REPEAT_ATTEMPTS_DEFAULT),
    })
}

fn on_error(node: &Node) -> Option<OnError> {
    Some(match node.text()? {
        "fail" => OnError::Fail,
        "continue" => OnError::Continue,
        id => OnError::Step(StepId::parse(id).ok()?),
    })
}

fn next(text: &str) -> Option<Next> {
    if text == grammar::END {
        return Some(Next::End);
    }
    StepId::parse(text).ok().map(Next::Step)
}

fn via(node: &Node) -> Option<Via> {
    serde_json::from_value(node.to_json()).ok()
}

fn run_when(node: &Node) -> Option<RunWhen> {
    serde_json::from_value(node.to_json()).ok()
}

fn owned(node: &Node) -> Option<String> {
    node.text().map(str::to_owned)
}

fn flag(node: &Node) -> Option<bool> {
    match node.content {
        Content::Bool(value) => Some(value),
        _ => None,
    }
}

/// The number of a node, where there is one and it fits.
pub(super) fn count(node: Option<&Node>) -> Option<u32> {
    u32::try_from(node?.count()?).ok()
}

/// What the text of a node says.
pub(super) fn parsed<T: FromStr>(node: &Node) -> Option<T> {
    node.text()?.parse().ok()
}

fn texts(node: Option<&Node>) -> Vec<String> {
    let items = node.and_then(Node::items).unwrap_or_default();
    items.iter().filter_map(owned).collect()
}

/// The mapping that a node is.
pub(super) fn map(node: &Node) -> Option<Map<String, Value>> {
    match node.to_json() {
        Value::Object(map) => Some(map),
        _ => None,
    }
}
