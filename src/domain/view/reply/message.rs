//! The `message` of a reply: what happened, and what to do next, in words.

use super::{
    CONTINUE_OPTION_ID, Event, Execution, REVIEW_PERSONA_HINT, ReadyStep, Row, State, StepOption,
    ViewContext, actions_for_people, format_child_call, format_parent_call, format_retry_call,
    format_wait_call, join_quoted_names, signals_awaited,
};

/// A hint for a client that has options besides continuing the workflow.
pub(super) fn next_options_hint(options: &[StepOption]) -> &'static str {
    match options.first() {
        Some(first) if options.len() > 1 || first.id != CONTINUE_OPTION_ID => {
            " nextStepOptions has what may be called next: say in choice what you took."
        }
        _ => "",
    }
}

pub(super) fn build_reply_message(
    context: &ViewContext<'_>,
    row: &Row,
    ready: &[ReadyStep],
    open_steps: &[ReadyStep],
) -> String {
    let execution = context.execution;
    let started = row.events.iter().find_map(|event| match event {
        Event::Created(created) => Some(&created.workflow),
        _ => None,
    });
    let first = ready.first();
    match (started, first, execution.state()) {
        (Some(workflow), Some(_), _) => {
            format!("Workflow '{workflow}' started. {}", steps_ready_message(ready, ""))
        }
        (None, Some(first), _) if first.agent_name.is_some() => {
            steps_ready_message(ready, REVIEW_PERSONA_HINT)
        }
        (None, Some(_), _) => steps_ready_message(ready, ""),
        (_, None, State::Completed) => completed_message(execution),
        (_, None, State::Failed) => {
            let failure = execution.failure.as_ref();
            let cause = failure.map_or("", |failure| failure.message.as_str());
            let step = failure.and_then(|failure| failure.step.as_ref());
            let what = match step {
                Some(step) => format!("Step '{step}' failed: {cause}. The workflow has failed."),
                None => format!("The workflow has failed: {cause}."),
            };
            let retry = format_retry_call(execution);
            let retry = retry.map_or_else(String::new, |call| format!(" {call}"));
            what + &parent_call_suffix(execution, " ") + &retry
        }
        (_, None, State::Paused) => actions_for_people(context),
        (_, None, State::Diverged) => format!(
            "The workflow was left for `{}`: call that tool now.",
            execution.reason.as_deref().unwrap_or_default()
        ),
        (_, None, _) if open_steps.is_empty() => idle_message(execution),
        (_, None, _) => format!(
            "Step '{}' recorded. Still open: {}.",
            closed_step_name(row),
            join_quoted_names(open_steps.iter().map(|step| &step.step_name))
        ),
    }
}

/// The message for an execution in which no model can act: it names the wait and the call to make.
fn idle_message(execution: &Execution) -> String {
    let (id, revision) = (execution.id(), execution.revision());
    if let Some(read_call) = format_child_call(execution) {
        return format!(
            "Nothing is to be done in this execution now: it waits for a child. {read_call}"
        );
    }
    let wait = format_wait_call(id, revision);
    let signals = signals_awaited(execution);
    let Some(first) = signals.first() else {
        return format!(
            "Nothing is to be done for a model now: the execution goes on by itself. {wait}: it answers when that is done"
        );
    };
    format!(
        "Nothing is to be done for a model now: the execution waits for the signal {}. Whoever knows that it happened calls \
         execution.signal with execution_id '{id}' and signal '{first}'. {wait}: it answers when that is done",
        join_quoted_names(&signals)
    )
}

fn completed_message(execution: &Execution) -> String {
    let mut text = "Workflow completed successfully".to_owned();
    for fault in &execution.final_output_faults {
        let part = fault.part.as_deref().unwrap_or("final_output");
        text.extend([". `", part, "` could not be computed: ", &fault.message]);
    }
    text + &parent_call_suffix(execution, ". ")
}

/// The call to make in the parent after a child has ended, prefixed with `separator`; empty if there is no parent.
fn parent_call_suffix(execution: &Execution, separator: &str) -> String {
    format_parent_call(execution).map_or_else(String::new, |look| format!("{separator}{look}"))
}

fn steps_ready_message(ready: &[ReadyStep], suffix: &str) -> String {
    let names = join_quoted_names(ready.iter().map(|step| &step.step_name));
    match ready {
        [_] => format!("Step {names} ready.{suffix}"),
        _ => format!("Steps {names} ready, each with its own token in new_tokens."),
    }
}

fn closed_step_name(row: &Row) -> String {
    let by_call = |event: &Event| match event {
        Event::VisitClosed(closed) if closed.consumed.is_some() => {
            Some(closed.visit_id.step().to_string())
        }
        _ => None,
    };
    row.events.iter().find_map(by_call).unwrap_or_default()
}
