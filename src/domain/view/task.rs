//! The task of a step for a model: instructions, input and the call that returns the result.

pub(super) mod text;

use std::{cell::LazyCell, cmp::Reverse, collections::BTreeSet, sync::Arc};

use serde_json::Value;

pub use self::text::{ResultCall, TaskText, format_tool_prompt};
use self::text::{TaskLine, TaskRole};
use super::{
    ViewContext, definition_step,
    question::{InputQuestions, ValueText},
};
use crate::{
    definition::{OnError, RetryPolicy, RunWhen, Step, StepKind, collect_expression_texts},
    document::to_plain_text,
    error::FailureCode,
    event::{Event, Failure, Row, WaitCondition},
    execution::Visit,
    failure::truncate_to_bytes,
    id::{AgentName, StepId},
    limits,
    orchestrator::declares_state,
    state::StepStatus,
    token::TokenGrant,
    truncate::{truncate_to_chars, truncate_value},
    uri,
    words::make_fence,
};

/// An open visit of a step, or of a `foreach` item, for which a model holds a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelTurn<'a> {
    pub(super) position: usize,
    pub(super) visit: &'a Visit,
    pub(super) grant: TokenGrant,
}

impl<'a> ModelTurn<'a> {
    /// The turn of a visit; `None` if the visit does not wait for a model.
    pub(super) fn from_visit(position: usize, visit: &'a Visit) -> Option<Self> {
        let grant = visit.live_token()?;
        Some(Self { position, visit, grant })
    }
}

/// All open turns.
pub(super) fn open_turns<'a>(context: &ViewContext<'a>) -> impl Iterator<Item = ModelTurn<'a>> {
    let open_visits = context.execution.open_visits();
    open_visits.filter_map(|(position, _, visit)| ModelTurn::from_visit(position, visit))
}

/// The turns that the transition of `row` opened and that are still open, in authoring order.
pub(super) fn turns_opened_by_row<'a>(context: &ViewContext<'a>, row: &Row) -> Vec<ModelTurn<'a>> {
    let issued = row.events.iter().filter_map(Event::issued_token);
    let turns = issued.filter_map(|(visit_id, _)| {
        let (position, _, visit) = context.execution.find_visit(visit_id)?;
        ModelTurn::from_visit(position, visit)
    });
    let mut turns: Vec<_> = turns.collect();
    // Events are in the order of the transition, which may open a later step before an earlier one.
    turns.sort_by_key(|turn| turn.position);
    turns
}

/// The task of a turn, as the reply shows it.
pub(super) struct Task {
    pub(super) text: Arc<TaskText>,
    pub(super) input_schema: Option<Value>,
    pub(super) input: Option<Value>,
    pub(super) example: Option<Value>,
    pub(super) output_schema: Option<Value>,
}

/// The input of the turn: the rendered texts and values of the step, or the templates if nothing was rendered.
fn turn_input(context: &ViewContext<'_>, turn: &ModelTurn<'_>, acting: &Step) -> Arc<Value> {
    let rendered = turn.visit.input.and_then(|digest| context.value(digest));
    rendered.unwrap_or_else(|| Arc::new(collect_expression_texts(acting)))
}

/// Builds the task of a turn.
pub(super) fn build_task(context: &ViewContext<'_>, turn: &ModelTurn<'_>) -> Option<Task> {
    let step = definition_step(context.definition, turn.position)?;
    let acting = step.acting_step();
    let input = turn_input(context, turn, acting);
    if let Some(questions) = InputQuestions::from_step(context.definition, acting, &input) {
        return Some(Task {
            text: Arc::new(text_without_persona(context, step, turn, &input, Some(&questions))),
            input_schema: None,
            input: Some(questions.structured_input()),
            example: None,
            output_schema: Some(questions.answer_schema()),
        });
    }
    let text = match step.agent_name() {
        Some(agent) => text_with_persona(context, step, agent, turn, &input),
        None => text_without_persona(context, step, turn, &input, None),
    };
    Some(Task {
        text: Arc::new(text),
        input_schema: acting.input_schema.clone(),
        input: input.get("with").cloned(),
        example: acting.example.clone(),
        output_schema: acting.result.clone(),
    })
}

/// The description of the step. A `guidance` step without one is described by the first sentence of its text.
pub(super) fn step_description(
    context: &ViewContext<'_>,
    step: &Step,
    turn: &ModelTurn<'_>,
) -> String {
    let acting = step.acting_step();
    if !step.description.is_empty() || !matches!(acting.kind, StepKind::Guidance { .. }) {
        return step.description.clone();
    }
    let input = turn_input(context, turn, acting);
    let line = input["guidance"].as_str().unwrap_or_default().trim();
    let line = line.lines().next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |end| end + 1);
    truncate_to_chars(&line[..end], limits::REPEATED_BYTES_MAX).into_owned()
}

/// The task as a person reads it: the author's text without calls, tokens or roles. The requested inputs, the step
/// input and the output schema are in separate fields of the view.
pub(super) fn task_text_for_people(
    context: &ViewContext<'_>,
    turn: &ModelTurn<'_>,
) -> Option<String> {
    let step = definition_step(context.definition, turn.position)?;
    let acting = step.acting_step();
    let input = turn_input(context, turn, acting);
    let field_text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    let mut lines = handled_failure_lines(context, turn.position);
    lines.extend([field_text("guidance"), field_text("instructions")]);
    if let StepKind::Tool { name } = &acting.kind {
        lines.push(format!("Call `{name}` with the input, and hand in what it answers."));
    }
    if let StepKind::Extract { .. } = &acting.kind {
        lines.push("Take the values out of the text.".to_owned());
    }
    Some(text::join_nonempty_lines(lines.iter().map(String::as_str)))
}

/// The text of a step with a persona. Values that the reply has in separate fields are referred to and not repeated.
fn text_with_persona(
    context: &ViewContext<'_>,
    step: &Step,
    agent: &AgentName,
    turn: &ModelTurn<'_>,
    input: &Value,
) -> TaskText {
    let workflow = &context.definition.workflow;
    let persona = context.definition.personas.get(agent);
    let file = persona.and_then(|persona| persona.file.as_ref());
    let file = file.map_or_else(String::new, |file| format!(" ({file})"));
    // A step without description and instructions gets the description of the workflow instead.
    let description_hint = match (step.description.as_str(), input["instructions"].as_str()) {
        ("", None) => format!(" ({})", workflow.description),
        ("", Some(_)) => String::new(),
        (_, _) => " as description says".to_owned(),
    };
    let failures = handled_failure_lines(context, turn.position);
    let mut lines: Vec<TaskLine> = failures.into_iter().map(TaskLine::from).collect();
    lines.extend(input["instructions"].as_str().map(TaskLine::from));
    if input.get("with").is_some() {
        lines.push("What it works on stands in input.".into());
    }
    lines.extend(item_instructions(context, turn, input).map(TaskLine::from));
    lines.extend(reading_resources_line(context, step).map(TaskLine::from));
    let form = if step.acting_step().result.is_some() {
        "a JSON value that satisfies output_schema"
    } else {
        DEFAULT_OUTPUT_FORMAT
    };
    TaskText {
        role: TaskRole::Persona {
            agent: format!("{agent}{file}"),
            step: format!("Do step '{}'{description_hint}.", step.id),
        },
        lines,
        error_effect: error_effect_text(step, turn.visit),
        output_format: form.to_owned(),
        has_description: !step.description.is_empty(),
        names_its_values: turn.visit.input.is_some(),
        calls_reporting_tool: false,
    }
}

/// The current item of a `foreach`, as a part of the instructions. Long values that the rendered `input` already
/// contains are left out.
fn item_instructions(
    context: &ViewContext<'_>,
    turn: &ModelTurn<'_>,
    input: &Value,
) -> Option<String> {
    let at = usize::try_from(turn.visit.item?).ok()?;
    let visits = &context.execution.steps().get(turn.position)?.visits;
    let Some(WaitCondition::Items { list, .. }) = visits.last()?.awaiting else {
        return None;
    };
    let mut value = context.value(list)?.get(at)?.clone();
    let input = LazyCell::new(|| input.to_string());
    let is_in_task = |value: &Value| {
        let text = value.to_string();
        let words = text.trim_matches('"');
        words.len() > limits::REPEATED_BYTES_MAX && input.contains(words)
    };
    if is_in_task(&value) {
        return None;
    }
    let fields = value.as_object_mut().into_iter().flatten();
    for (_, field) in fields.filter(|(_, field)| is_in_task(field)) {
        *field = "(it stands in the task)".into();
    }
    let text = to_plain_text(&truncate_value(&value, limits::ITEM_SHOWN_BYTES_MAX).0);
    let fence = make_fence(&text);
    Some(format!("The item:\n{fence}\n{text}\n{fence}"))
}

/// Rewrites the instructions for a client that knows the persona and is not sent it again.
pub(super) fn omit_persona(instructions: &mut Option<String>) {
    if let Some(text) = instructions {
        *text = text.replacen(text::PERSONA_LOCATION_TEXT, "as you know it", 1);
    }
}

/// What follows a failure for which no retry is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureEffect<'a> {
    Handler(&'a StepId),
    GoesOn,
    EndsExecution,
}

impl<'a> FailureEffect<'a> {
    fn from_step(step: &'a Step) -> Self {
        let continues_on_failure =
            |step: &Step| step.optional || step.on_error == OnError::Continue;
        match &step.on_error {
            // A failed item of this `foreach` does not fail the `foreach`, so its `on_error` does not apply.
            _ if step.foreach_body().is_some_and(continues_on_failure) => Self::GoesOn,
            OnError::Step(handler) => Self::Handler(handler),
            _ if continues_on_failure(step) => Self::GoesOn,
            _ => Self::EndsExecution,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Handler(handler) => format!("step '{handler}' takes over"),
            Self::GoesOn => "the workflow goes on without it".to_owned(),
            Self::EndsExecution => "that ends the execution as failed".to_owned(),
        }
    }
}

/// The retry policy of the turn, if it has an attempt left.
fn retry_with_attempts_left<'a>(step: &'a Step, visit: &Visit) -> Option<&'a RetryPolicy> {
    let retry = step.acting_step().retry.as_ref()?;
    (visit.failures + 1 < retry.max_attempts).then_some(retry)
}

/// The effect of an `error` on the execution, as the instructions state it.
fn error_effect_text(step: &Step, visit: &Visit) -> String {
    let effect = FailureEffect::from_step(step).describe();
    match retry_with_attempts_left(step, visit) {
        Some(retry) if retry.on.is_empty() => "it is tried again".to_owned(),
        Some(retry) => {
            format!("with a `code` of {} it is tried again, else {effect}", retry.on.join(", "))
        }
        None => effect,
    }
}

/// Whether an `error` without a code, as a person reports it, ends the execution as failed.
pub(super) fn ends_execution_on_error(context: &ViewContext<'_>, turn: &ModelTurn<'_>) -> bool {
    let Some(step) = definition_step(context.definition, turn.position) else {
        return false;
    };
    let is_covered = |code: &String| code.eq_ignore_ascii_case(FailureCode::StepFailed.as_str());
    let retry = retry_with_attempts_left(step, turn.visit);
    let is_retried =
        retry.is_some_and(|retry| retry.on.is_empty() || retry.on.iter().any(is_covered));
    !is_retried && FailureEffect::from_step(step) == FailureEffect::EndsExecution
}

/// The failures that this step handles, one line each, the latest first. Codes and messages are quoted as data, because
/// they may be text from another party.
fn handled_failure_lines(context: &ViewContext<'_>, position: usize) -> Vec<String> {
    let steps = &context.definition.workflow.steps;
    let step = &steps[position];
    let ancestors = if step.run_when == RunWhen::Failed {
        context.definition.graph().ancestors(position)
    } else {
        BTreeSet::new()
    };
    let is_handled_here = |at: usize| {
        let handler = match &steps[at].on_error {
            OnError::Step(handler) => Some(handler),
            _ => None,
        };
        ancestors.contains(&at) || handler == Some(&step.id)
    };
    let states = context.execution.steps().iter().enumerate();
    let failed =
        states.filter(|(at, state)| state.status == StepStatus::Failed && is_handled_here(*at));
    let mut failed: Vec<_> = failed
        .filter_map(|(_, state)| {
            Some((state.latest_visit()?.closed.as_ref()?.revision, state.failure()?))
        })
        .collect();
    failed.sort_by_key(|(revision, _)| Reverse(*revision));
    let failing = context.execution.failing.as_ref();
    let failing = failing.filter(|_| step.run_when == RunWhen::Failing);
    let failures = failing.into_iter().chain(failed.into_iter().map(|(_, failure)| failure));
    failures.take(limits::FAILURES_TOLD_MAX).map(failure_line).collect()
}

fn failure_line(failure: &Failure) -> String {
    let source = failure.step.as_ref();
    let source = source.map_or_else(|| "The execution".to_owned(), |step| format!("Step '{step}'"));
    let code = Value::from(failure.code.as_str());
    let message = Value::from(truncate_to_bytes(&failure.message, limits::FAILURE_TOLD_BYTES_MAX));
    format!("{source} failed before this one: {message} ({code}).")
}

/// The default output format in brief. The tool description explains artifacts.
const DEFAULT_OUTPUT_FORMAT: &str = "{summary, artifacts?, findings?, next_step_recommendation?}";

/// A line that lists resources for further reading: the workflow's section on the step, and the full earlier outputs.
fn reading_resources_line(context: &ViewContext<'_>, step: &Step) -> Option<String> {
    let workflow = &context.definition.workflow;
    let name = uri::encode_segment(context.execution.workflow().as_str());
    let id = uri::encode_segment(context.execution.id().as_str());
    let text = (!workflow.content.is_empty() && step.agent_name().is_some())
        .then(|| format!("midex://workflow/workflow_details/{name} has a section on it"));
    let previous_hint = (!step.depends_on.is_empty()).then(|| {
        format!("midex://workflow/step_history/{id} has all of previous, midex://workflow/artifact/{id}/{{id of the artifact}} an artifact")
    });
    let sources: Vec<_> = text.into_iter().chain(previous_hint).collect();
    (!sources.is_empty())
        .then(|| format!("To read (workflow.read {{uri}}): {}.", sources.join("; ")))
}

/// The instructions without the list of resources, for a client that got the list with an earlier item.
pub(super) fn remove_sources(
    context: &ViewContext<'_>,
    turn: &ModelTurn<'_>,
    text: &str,
) -> String {
    let step = definition_step(context.definition, turn.position);
    match step.and_then(|step| reading_resources_line(context, step)) {
        Some(sources) => text.replace(&(sources + "\n"), ""),
        None => text.to_owned(),
    }
    .replace(" (else read agent_uri with workflow.read)", "")
}

/// The text of a step without a persona. Values that the reply has in separate fields are referred to and not repeated.
fn text_without_persona(
    context: &ViewContext<'_>,
    step: &Step,
    turn: &ModelTurn<'_>,
    input: &Value,
    questions: Option<&InputQuestions<'_>>,
) -> TaskText {
    let acting = step.acting_step();
    let step_instructions = input["instructions"].as_str().unwrap_or_default();
    let is_asking = !questions.is_some_and(InputQuestions::is_extraction);
    let failures = handled_failure_lines(context, turn.position);
    let mut lines: Vec<TaskLine> = failures.into_iter().map(TaskLine::from).collect();
    let has_description = is_asking && !step.description.is_empty();
    if has_description {
        lines.push("What it is for: see description.".into());
    }
    let workflow = &context.definition.workflow;
    let calls_reporting_tool = matches!(&acting.kind, StepKind::Tool { name }
        if workflow.find_exposed_action(name).is_some()
            || acting.input_schema.as_ref().is_some_and(declares_state));
    if let StepKind::Tool { name } = &acting.kind {
        lines.push(if calls_reporting_tool {
            let call = format!("Call the tool `{name}` with exactly what stands in input");
            TaskLine::Values {
                brief: format!("{call}, and workflowStateData {{thread_id: execution_id, token}}. {FOLLOW_PROMPT_TEXT}"),
                full: format!("{call}. {FOLLOW_PROMPT_TEXT}"),
            }
        } else {
            let line = format!(
                "Call the tool `{name}` of your client (it is none of midex's) with exactly what stands in input, and bring back what it answers."
            );
            line.into()
        });
    }
    lines.push(input["guidance"].as_str().unwrap_or_default().into());
    lines.extend(questions.map(|questions| questions.task_text().into()));
    lines.extend(is_asking.then(|| step_instructions.into()));
    lines.extend(questions.map(|questions| TaskLine::Values {
        brief: questions.values_text(ValueText::Brief),
        full: questions.values_text(ValueText::Full),
    }));
    if input.get("with").is_some() && !matches!(acting.kind, StepKind::Tool { .. }) {
        lines.push("What it works on stands in input.".into());
    }
    lines.extend(item_instructions(context, turn, input).map(TaskLine::from));
    lines.extend(reading_resources_line(context, step).map(TaskLine::from));
    TaskText {
        role: TaskRole::Step(format!(
            "You carry out step '{}' of workflow '{}'{}. Do this one step and nothing else.",
            step.id,
            context.definition.workflow.name,
            visit_number_suffix(turn.visit)
        )),
        lines,
        error_effect: error_effect_text(step, turn.visit),
        output_format: match questions {
            Some(questions) => questions.output_format_text(),
            None if calls_reporting_tool && acting.result.is_none() => {
                "What promptForLLM asks for, as a JSON value.".to_owned()
            }
            None => output_format_text(acting),
        },
        has_description,
        names_its_values: turn.visit.input.is_some()
            || matches!(acting.kind, StepKind::Tool { .. }),
        calls_reporting_tool,
    }
}

/// What to do with the answer of a tool that reports to an orchestrator.
const FOLLOW_PROMPT_TEXT: &str = "It answers with promptForLLM, which says what to do: the result of that is the result of this step.";

fn visit_number_suffix(visit: &Visit) -> String {
    let number = (visit.number > 1).then(|| format!("visit {}", visit.number));
    let attempt = (visit.attempt > 1).then(|| format!("attempt {}", visit.attempt));
    let item = visit.item.map(|item| format!("item {}", item + 1));
    let parts: Vec<_> = [item, number, attempt].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn output_format_text(step: &Step) -> String {
    let form = match (&step.result, &step.kind) {
        (Some(_), _) => "A JSON value that satisfies output_schema".to_owned(),
        (None, StepKind::Tool { .. }) => "What the tool answered, as a JSON value".to_owned(),
        (None, _) => format!("A JSON object: {DEFAULT_OUTPUT_FORMAT}"),
    };
    match &step.example {
        Some(_) => format!("{form}; example is one."),
        None => form + ".",
    }
}
