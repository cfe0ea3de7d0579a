//! The waits of an execution that need no model: timers, signals, approvals and work of the server.

use std::{collections::BTreeSet, fmt::Display};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ViewContext, definition_step};
use crate::{
    definition::{StepKind, WaitTrigger},
    document::to_plain_text,
    event::{BodyKind, WaitCondition},
    execution::{AttemptId, Execution, StepState, Visit},
    grammar::has_template,
    id::{ExecutionId, StepId},
    nearest::suggest_nearest,
    state::State,
};
use crate::{
    error::{double_quotes, quote_for_shell},
    limits, uri,
};

/// One thing that an execution waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitView {
    /// The child whose step waits; absent where it is a step of the execution itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The step; `$workflow` for a hook of the workflow.
    pub step_name: String,
    /// Its title, where the step has one. `tools/list` leaves it out of output schemas, whose size has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub title: Option<String>,
    /// Its hook, or `compensate`, where it is not the step itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Which visit of the step, from 1.
    pub visit: u32,
    /// Which item of a fan-out, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// What for: operation (the server works on it), timer, retry, signal, gate (a person's approval), unknown (nobody
    /// knows what came of it: `execution.resolve`), child (an execution of its own), held (it has come to its end and
    /// waits for the resume), `output_invalid` (too many of its outputs broke its schema), catalog (that is not there).
    pub waits_for: String,
    /// When it is over, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The signal, where one is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The catalog that is not there, where one is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// How far the server has come, where an activity reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
    /// The call that leads on, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_call: Option<String>,
    /// What a person is asked, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateView>,
}

/// How far an activity has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressView {
    /// The number of units that are done.
    pub done: u64,
    /// The number of all units, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// A text of the activity.
    pub text: String,
}

impl WaitView {
    /// Whether the execution itself waits for this attempt here.
    pub fn is_for(&self, attempt_id: &AttemptId) -> bool {
        let AttemptId { visit_id, attempt } = attempt_id;
        self.execution_id.is_none()
            && self.step_name == visit_id.step().as_str()
            && self.body.as_deref() == visit_id.body.name_unless_work()
            && (self.visit, self.item, self.attempt) == (visit_id.visit, visit_id.item, *attempt)
    }
}

/// What a person is asked to approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateView {
    /// The question.
    pub ask: String,
    /// The digest of the question: an answer names it, and counts for nothing else.
    pub shown: String,
    /// Who may answer: names, for the record.
    pub approvers: Vec<String>,
}

/// The open visits that do not wait for a model, in authoring order.
pub(super) fn wait_views(context: &ViewContext<'_>) -> Vec<WaitView> {
    let open_visits = context.execution.open_visits();
    open_visits
        .filter_map(|(position, step, visit)| wait_view(context, position, step, visit))
        .collect()
}

fn wait_view(
    context: &ViewContext<'_>,
    position: usize,
    step: &StepState,
    visit: &Visit,
) -> Option<WaitView> {
    let awaiting = visit.awaiting.as_ref()?;
    let (waits_for, due, signal) = match awaiting {
        WaitCondition::Model(_) | WaitCondition::Items { .. } => return None,
        WaitCondition::Operation { .. } => ("operation", None, None),
        WaitCondition::Timer { due } => ("timer", Some(*due), None),
        WaitCondition::Retry { due } => ("retry", Some(*due), None),
        WaitCondition::Signal { name } => ("signal", None, Some(name.clone())),
        WaitCondition::LiveSignal { name, due } => ("signal", Some(*due), Some(name.clone())),
        WaitCondition::Gate { due, .. } => ("gate", *due, None),
        WaitCondition::Unknown => ("unknown", None, None),
        WaitCondition::Deferred(_) => ("held", None, None),
        WaitCondition::OutputInvalid(_) => ("output_invalid", None, None),
        WaitCondition::Catalog { .. } => ("catalog", None, None),
        WaitCondition::Child { .. } => ("child", None, None),
    };
    Some(WaitView {
        execution_id: None,
        step_name: step.id.to_string(),
        title: context.execution.title(&visit.visit_id(&step.id)).map(str::to_owned),
        body: visit.body.name_unless_work().map(str::to_owned),
        visit: visit.number,
        item: visit.item,
        // Attempt 0 was never begun; it is shown as the first.
        attempt: visit.attempt.max(1),
        waits_for: waits_for.to_owned(),
        progress: None,
        due: due.map(|due| due.to_string()),
        signal,
        catalog: match awaiting {
            WaitCondition::Catalog { catalog } => Some(catalog.clone()),
            _ => None,
        },
        next_call: wait_ending_call(context.execution, step, awaiting),
        gate: gate_view(context, position, awaiting),
    })
}

/// The call that ends a wait, for waits that end only by a call.
fn wait_ending_call(
    execution: &Execution,
    step: &StepState,
    awaiting: &WaitCondition,
) -> Option<String> {
    let id = execution.id();
    Some(match awaiting {
        WaitCondition::Signal { name } | WaitCondition::LiveSignal { name, .. } => {
            format!("execution.signal with execution_id '{id}' and signal '{name}'")
        }
        WaitCondition::Unknown => {
            format!("execution.resolve with execution_id '{id}' and step_name '{}'", step.id)
        }
        WaitCondition::Catalog { catalog } => format!(
            "catalog.import_openapi with catalog_title '{catalog}', or catalog.set_enabled where it is disabled"
        ),
        WaitCondition::Child { execution_id } => format_read_call(execution_id),
        WaitCondition::OutputInvalid(_) | WaitCondition::Deferred(_) => {
            format!("execution.resume with execution_id '{id}'")
        }
        _ => return None,
    })
}

fn gate_view(
    context: &ViewContext<'_>,
    position: usize,
    awaiting: &WaitCondition,
) -> Option<GateView> {
    let WaitCondition::Gate { shown, .. } = awaiting else {
        return None;
    };
    let step = definition_step(context.definition, position)?;
    let StepKind::Gate { approvers, .. } = &step.acting_step().kind else {
        return None;
    };
    let input = context.value(*shown)?;
    Some(GateView {
        ask: to_plain_text(input.get("ask")?),
        shown: shown.to_string(),
        approvers: approvers.clone(),
    })
}

/// A clause that describes the wait of an open visit; `None` if it waits for a model or for its items.
pub(super) fn describe_wait(step: &StepState, visit: &Visit) -> Option<String> {
    let visit_text = describe_visit_subject(step, visit);
    Some(match visit.awaiting.as_ref()? {
        WaitCondition::Model(_) | WaitCondition::Items { .. } => return None,
        WaitCondition::Operation { .. } => format!("the server works on {visit_text}"),
        WaitCondition::Timer { due } => format!("{visit_text} waits until {due}"),
        WaitCondition::Retry { due } => format!("{visit_text} is tried again at {due}"),
        WaitCondition::Signal { name } => {
            format!("{visit_text} waits for the signal '{name}', which execution.signal brings")
        }
        WaitCondition::LiveSignal { name, due } => format!(
            "{visit_text} waits for the signal '{name}', which execution.signal brings, and for a sign of life until {due}"
        ),
        WaitCondition::Gate { .. } => format!("{visit_text} waits for a person's approval"),
        WaitCondition::Unknown => format!("nobody knows whether {visit_text} took effect"),
        WaitCondition::Deferred(_) => {
            format!("{visit_text} has come to its end and waits for the resume")
        }
        WaitCondition::OutputInvalid(_) => format!(
            "{visit_text} is held, for {} of its outputs broke its schema, and waits for execution.resume",
            limits::OUTPUT_ATTEMPTS_MAX
        ),
        WaitCondition::Child { execution_id } => {
            format!("{visit_text} waits for its child '{execution_id}'")
        }
        WaitCondition::Catalog { catalog } => {
            format!(
                "{visit_text} waits for the catalog '{catalog}', which is not there or is disabled"
            )
        }
    })
}

/// The subject of a sentence about an open visit: the step, its hook or its compensation.
fn describe_visit_subject(step: &StepState, visit: &Visit) -> String {
    let owner = if step.id == *StepId::workflow_pseudo_step() {
        "the workflow".to_owned()
    } else {
        format!("step '{}'", step.id)
    };
    match visit.body {
        BodyKind::Work => owner,
        BodyKind::Compensation => format!("the compensation of {owner}"),
        hook => format!("the hook `{}` of {owner}", hook.as_str()),
    }
}

/// The actions that unblock a paused execution (approve, resolve, resume, import a catalog), as sentences for the
/// reader.
pub(super) fn actions_for_people(context: &ViewContext<'_>) -> String {
    let execution = context.execution;
    let (mut gates, mut unknown, mut invalid_outputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut catalogs = BTreeSet::new();
    for (_, step, visit) in execution.open_visits() {
        match visit.awaiting.as_ref() {
            Some(WaitCondition::Gate { .. }) => gates.push(approve_argument(&step.id, visit)),
            Some(WaitCondition::Unknown) => unknown.push(&step.id),
            Some(WaitCondition::OutputInvalid(_)) => invalid_outputs.push(&step.id),
            Some(WaitCondition::Catalog { catalog }) => {
                catalogs.insert(catalog);
            }
            _ => {}
        }
    }
    // Several items of a `foreach` may wait; their step is named once.
    for steps in [&mut unknown, &mut invalid_outputs] {
        steps.dedup();
    }
    let mut text = Vec::new();
    if !gates.is_empty() {
        text.push(approval_request_text(context, &gates, execution.revision()));
    }
    if !unknown.is_empty() {
        text.push(format!(
            "The server was cut off in the midst of {}, and nobody knows what came of it. Find out, with your user, and call execution.resolve",
            join_quoted_names(&unknown)
        ));
    }
    if !invalid_outputs.is_empty() {
        text.push(format!(
            "Outputs of {} broke the schema {} times. Call execution.resume with execution_id '{}': it goes on, with the token that it has",
            join_quoted_names(&invalid_outputs),
            limits::OUTPUT_ATTEMPTS_MAX,
            double_quotes(execution.id().as_str())
        ));
    }
    if !catalogs.is_empty() {
        text.push(format!(
            "The execution waits for catalogs that are not there or are disabled: {}. Call catalog.list: then catalog.import_openapi or catalog.set_enabled, and it goes on by itself",
            join_quoted_names(catalogs)
        ));
    }
    if text.is_empty() {
        return "The execution waits for a person. Nothing is to be done until then".into();
    }
    // Actions that need no person come first.
    text.reverse();
    text.join(". ")
}

/// The gate of an open visit as `midex approve` takes it: the step id, with `[N]` for an item, counted from 1.
fn approve_argument(step: &StepId, visit: &Visit) -> String {
    let item = visit.item.map(|item| format!("[{}]", item + 1));
    format!("{step}{}", item.unwrap_or_default())
}

fn approval_request_text(context: &ViewContext<'_>, gates: &[String], revision: u64) -> String {
    let (id, flags) = (context.execution.id(), context.command_flags);
    let command = |gate: &String| match gates {
        [_] => format!("`midex approve {id}{flags}`"),
        _ => format!("`midex approve {id} {}{flags}`", quote_for_shell(gate)),
    };
    let commands: Vec<_> = gates.iter().take(limits::GATES_NAMED_MAX).map(command).collect();
    format!(
        "A person's approval is waited for ({}). Ask your user to run {} in a terminal. {}: it answers when that is done",
        join_quoted_names(gates),
        commands.join(", "),
        format_wait_call(id, revision)
    )
}

/// The call that blocks until the execution has a revision after `revision`.
pub(super) fn format_wait_call(id: &ExecutionId, revision: u64) -> String {
    let id = double_quotes(id.as_str());
    format!("Call execution.wait with execution_id '{id}' and since_revision '{revision}'")
}

/// The call that reads the current step of an execution.
fn format_read_call(id: &ExecutionId) -> String {
    let id = uri::encode_segment(id.as_str());
    format!("workflow.read with uri 'midex://workflow/current_step/{id}'")
}

/// The call that reads the current step of the first child that the execution waits for.
pub(super) fn format_child_call(execution: &Execution) -> Option<String> {
    let awaited = execution.open_visits().filter_map(|(.., visit)| visit.awaiting.as_ref());
    let mut children = awaited.filter_map(|awaiting| match awaiting {
        WaitCondition::Child { execution_id } => Some(execution_id),
        _ => None,
    });
    let read_call = format_read_call(children.next()?);
    Some(format!("Call {read_call}: a child is an execution with steps of its own"))
}

/// The call that reads the current step of the parent; `None` for an execution without a parent.
pub(super) fn format_parent_call(execution: &Execution) -> Option<String> {
    let read_call = format_read_call(&execution.parent()?.execution_id);
    Some(format!("Call {read_call}: the execution that waited for this one goes on"))
}

/// The sentence that names the call which continues an imported execution. `None` if it was not imported.
pub(super) fn format_imported_call(execution: &Execution) -> Option<String> {
    let (at, id) = (execution.imported_at()?, double_quotes(execution.id().as_str()));
    Some(format!(
        "The execution was imported at {at} and is read-only. Call execution.fork with execution_id '{id}': it goes on in a new execution"
    ))
}

/// The sentence that names the call which continues a failed execution. `None` if it has not failed, or is a child: the
/// retry of its root continues it too.
pub(super) fn format_retry_call(execution: &Execution) -> Option<String> {
    let is_failed_root = execution.state() == State::Failed && execution.parent().is_none();
    is_failed_root.then(|| retry_call_sentence(execution.id().as_str()))
}

/// The sentence that names the call which continues the execution of this id, which has failed.
pub(super) fn retry_call_sentence(id: &str) -> String {
    let id = double_quotes(id);
    // Conditional, so that an agent does not retry over and over what fails for the same cause.
    format!(
        "Once the cause is gone, call execution.retry with execution_id '{id}': it goes on in a new execution"
    )
}

/// Joins names for a sentence, each in quotes.
pub(super) fn join_quoted_names(names: impl IntoIterator<Item: Display>) -> String {
    let names = names.into_iter().map(|name| format!("'{name}'"));
    names.collect::<Vec<_>>().join(", ")
}

/// The names of the signals that open visits wait for, without duplicates.
pub(super) fn signals_awaited(execution: &Execution) -> Vec<&str> {
    let mut names = Vec::new();
    for (_, _, visit) in execution.open_visits() {
        if let Some(name) = visit.awaiting.as_ref().and_then(WaitCondition::signal_name)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// A signal that nothing has waited for yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalView {
    /// Its name.
    pub name: String,
    /// What to make of that, where no step of the workflow names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// The signals that were received and that no step has consumed yet.
pub(super) fn kept_signal_views(context: &ViewContext<'_>) -> Vec<SignalView> {
    let signals = context.execution.signals().iter();
    let view = |name: &String| SignalView {
        name: name.clone(),
        unknown: unknown_signal_note(context, name),
    };
    signals.map(|signal| view(&signal.name)).collect()
}

/// A note that no step waits for a signal of this name. `None` if a step may wait for it: a signal name may be a
/// template.
fn unknown_signal_note(context: &ViewContext<'_>, name: &str) -> Option<String> {
    let steps = context.definition.workflow.steps.iter();
    let awaited_names = steps.filter_map(|step| match &step.acting_step().kind {
        StepKind::Wait(
            WaitTrigger::Signal(name) | WaitTrigger::LiveSignal { signal: name, .. },
        ) => Some(name.as_str()),
        _ => None,
    });
    let mut known: Vec<_> = awaited_names.collect();
    known.extend(signals_awaited(context.execution));
    if known.iter().any(|known| *known == name || has_template(known)) {
        return None;
    }
    let hint = suggest_nearest(name, known).map_or_else(String::new, |hint| format!(": {hint}"));
    Some(format!("no step of the workflow waits for it{hint}"))
}
