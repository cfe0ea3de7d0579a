//! Builds the definition of a step from its fields after the shape check. A missing or invalid value already has a
//! finding, so no step is built then.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::super::{
    definition::{
        ALL_VALUES_KEY, BranchArm, BranchOffer, JoinRule, JumpTarget, OnError, PaginateOptions,
        RepeatPolicy, RetryPolicy, Step, StepKind, WaitTrigger,
    },
    draft::StepDraft,
    grammar,
    node::DocumentNode,
    span::HumanDuration,
};
use crate::{error::normalize_failure_name, limits};

/// The kind that `draft` declares under `key`, for all kinds but `agent`.
pub(super) fn build_step_kind(
    draft: &StepDraft,
    key: &str,
    each: Option<Step>,
) -> Option<StepKind> {
    let node = draft.value(key)?;
    let idempotent = || draft.read_value::<bool>("idempotent");
    Some(match key {
        "guidance" => StepKind::Guidance { text: node.deserialize_as()? },
        "tool" => StepKind::Tool { name: node.deserialize_as()? },
        "input" => StepKind::Input {
            properties: node.deserialize_key("properties")?,
            via: read_optional(node, "via")?,
            reextract: read_optional(node, "reextract")?,
        },
        "extract" => StepKind::Extract {
            from: node.deserialize_key("from")?,
            properties: node.deserialize_key("properties")?,
        },
        "run" => {
            let (catalog, operation) = node.as_text()?.trim().split_once(char::is_whitespace)?;
            let words: Vec<_> = operation.split_whitespace().collect();
            StepKind::Run {
                catalog: catalog.to_owned(),
                operation: words.join(" "),
                body: draft.value("body").map(DocumentNode::to_json),
                idempotent: idempotent(),
                paginate: draft.value("paginate").map(|node| PaginateOptions {
                    max_pages: node.get("max_pages").and_then(DocumentNode::as_u32),
                }),
                whole: false,
            }
        }
        "activity" => StepKind::Activity { name: node.deserialize_as()?, idempotent: idempotent() },
        "workflow" => StepKind::Workflow {
            name: node.deserialize_as()?,
            allow: draft.read_value("allow").unwrap_or_default(),
        },
        "branch" => {
            StepKind::Branch { arms: node.items()?.iter().map(parse_arm).collect::<Option<_>>()? }
        }
        "foreach" => parse_foreach(node, each?)?,
        "gate" => StepKind::Gate {
            ask: node.deserialize_as().or_else(|| node.deserialize_key("ask"))?,
            approvers: read_optional(node, "approvers")?,
            expires: read_optional(node, "expires")?,
        },
        "wait" => StepKind::Wait(parse_wait(node)?),
        "set" => StepKind::Set { entries: node.deserialize_as()? },
        "fail" => StepKind::Fail {
            code: node.deserialize_key("code")?,
            message: node.deserialize_key("message")?,
        },
        _ => return None,
    })
}

/// The values of `with`. A text, which yields all of them, is stored under [`ALL_VALUES_KEY`].
fn read_values(node: &DocumentNode) -> Option<Map<String, Value>> {
    match node.as_text() {
        Some(text) => Some([(ALL_VALUES_KEY.to_owned(), text.into())].into_iter().collect()),
        None => node.deserialize_as(),
    }
}

/// The value under a key that may be left out; `None` if it is there and is no `T`.
fn read_optional<T: DeserializeOwned + Default>(node: &DocumentNode, key: &str) -> Option<T> {
    node.get(key).map_or_else(|| Some(T::default()), DocumentNode::deserialize_as)
}

fn parse_wait(node: &DocumentNode) -> Option<WaitTrigger> {
    let text = |key| node.deserialize_key(key);
    let signal = text("signal").map(|signal| match node.deserialize_key("alive") {
        Some(alive) => WaitTrigger::LiveSignal { signal, alive },
        None => WaitTrigger::Signal(signal),
    });
    text("for").map(WaitTrigger::For).or(text("until").map(WaitTrigger::Until)).or(signal)
}

fn parse_foreach(node: &DocumentNode, body: Step) -> Option<StepKind> {
    let parallel = node.get("parallel").and_then(DocumentNode::as_u32);
    Some(StepKind::Foreach {
        items: node.get("in")?.to_json(),
        alias: node
            .deserialize_key("as")
            .unwrap_or_else(|| grammar::FOREACH_ALIAS_DEFAULT.to_owned()),
        parallel: parallel.unwrap_or(limits::FOREACH_PARALLEL_DEFAULT),
        enough: node.get("enough").map(DocumentNode::to_json),
        tolerate: node.get("tolerate").map(DocumentNode::to_json),
        body: Box::new(body),
    })
}

fn parse_arm(node: &DocumentNode) -> Option<BranchArm> {
    Some(BranchArm { condition: node.deserialize_key("if"), next: parse_next(node.get("next")?)? })
}

/// The branches that a step offers, in authoring order.
fn parse_branches(node: &DocumentNode) -> Vec<BranchOffer> {
    let entries = node.entries().unwrap_or_default().iter();
    let branches = entries.filter_map(|entry| {
        Some(BranchOffer {
            pattern: entry.key.clone(),
            tool_name: entry.value.deserialize_key("toolName")?,
            parameters: entry.value.deserialize_key("parameters").unwrap_or_default(),
            continue_workflow: entry.value.deserialize_key("continueWorkflow").unwrap_or(true),
        })
    });
    branches.collect()
}

/// The step with the values of the fields that are common to all kinds.
pub(super) fn set_common_fields(step: Step, draft: &StepDraft) -> Step {
    let value = |key| draft.value(key);
    let is_model_step = step.kind.is_answered_by_model();
    let retry = |node| parse_retry(node, is_model_step);
    Step {
        description: draft.read_value("description").unwrap_or_default(),
        title: draft.read_value("title"),
        instructions: draft.read_value("instructions"),
        result: value("result").map(DocumentNode::to_json),
        example: value("example").map(DocumentNode::to_json),
        output_contract: value("output_contract").map(DocumentNode::to_json),
        condition: draft.read_value("if").or_else(|| draft.read_value("when")),
        with: draft.value("with").and_then(read_values),
        input_schema: value("input_schema").map(DocumentNode::to_json),
        retry: value("retry").map(retry),
        interrupted: draft.read_value("interrupted"),
        timeout: draft.read_value("timeout"),
        repeat: value("repeat").and_then(|node| parse_repeat(node, is_model_step)),
        optional: draft.read_value("optional").unwrap_or_default(),
        on_error: value("on_error").and_then(parse_on_error).unwrap_or_default(),
        run_when: draft.read_value("run_when").unwrap_or_default(),
        next: value("next").and_then(parse_next),
        cancel: draft.read_value("cancel").unwrap_or_default(),
        max_visits: value("max_visits").and_then(DocumentNode::as_u32),
        join: value("join").and_then(parse_join).unwrap_or_default(),
        losers: draft.read_value("losers").unwrap_or_default(),
        branches: value("branches").map(parse_branches).unwrap_or_default(),
        ..step
    }
}

fn parse_join(node: &DocumentNode) -> Option<JoinRule> {
    JoinRule::parse(node.as_text()?)
}

fn parse_retry(node: &DocumentNode, is_model_step: bool) -> RetryPolicy {
    // Default backoff: none for a model, which is asked again at once.
    let default_backoff =
        if is_model_step { Duration::ZERO } else { limits::RETRY_BACKOFF_DEFAULT };
    let backoff = node.deserialize_key("backoff").map_or(default_backoff, HumanDuration::duration);
    let max_attempts = node.get("max_attempts").and_then(DocumentNode::as_u32);
    let max_attempts = max_attempts.unwrap_or(limits::RETRY_ATTEMPTS_DEFAULT);
    let policy = RetryPolicy::new(max_attempts).with_backoff(backoff);
    RetryPolicy {
        max_backoff: node.deserialize_key("max_backoff").unwrap_or(policy.max_backoff),
        factor: node.deserialize_key("factor"),
        jitter: node.deserialize_key("jitter").unwrap_or(policy.jitter),
        on: node
            .get("on")
            .and_then(DocumentNode::items)
            .map(normalize_failure_names)
            .unwrap_or_default(),
        ..policy
    }
}

/// The failure names in `retry.on`, normalised.
fn normalize_failure_names(nodes: &[DocumentNode]) -> Vec<String> {
    let names = nodes.iter().filter_map(DocumentNode::text_or_number);
    names.map(|word| normalize_failure_name(&word).unwrap_or(word)).collect()
}

fn parse_repeat(node: &DocumentNode, is_model_step: bool) -> Option<RepeatPolicy> {
    // Default pause: none for a model, which is asked again at once.
    let default_pause = if is_model_step { Duration::ZERO } else { limits::REPEAT_EVERY_DEFAULT };
    Some(RepeatPolicy {
        until: node.deserialize_key("until")?,
        every: node.deserialize_key("every").unwrap_or(HumanDuration::from_duration(default_pause)),
        timeout: node.deserialize_key("timeout"),
        max_attempts: node
            .get("max_attempts")
            .and_then(DocumentNode::as_u32)
            .unwrap_or(limits::REPEAT_ATTEMPTS_DEFAULT),
    })
}

fn parse_on_error(node: &DocumentNode) -> Option<OnError> {
    Some(match node.as_text()? {
        "fail" => OnError::Fail,
        "continue" => OnError::Continue,
        _ => OnError::Step(node.deserialize_as()?),
    })
}

fn parse_next(node: &DocumentNode) -> Option<JumpTarget> {
    match node.as_text()? {
        grammar::END_TARGET => Some(JumpTarget::End),
        grammar::STOP_TARGET => Some(JumpTarget::Stop),
        _ => node.deserialize_as().map(JumpTarget::Step),
    }
}
