//! Threads: executions that an orchestrator tool leads a model through, with one prompt for each turn.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};

use super::{App, ExecutionTurn, LastTransition, Turn, UserQuestion};
use midex_domain::{
    Definition, ExecutionId, Token,
    document::to_plain_text,
    error::Result,
    execution::Report,
    input::InputType,
    limits,
    orchestrator::{WorkflowStateData, find_json_object},
    view::{
        CurrentStep, ReadyStep, StepPrompt, collect_previous, format_concluded_prompt,
        format_waiting_prompt, persona_of,
    },
};

/// The input that takes what the user wants, unless it names inputs.
const REQUEST_INPUT: &str = "request";

/// The prompt of a thread for its next turn.
#[derive(Clone, Debug)]
pub struct ThreadPrompt {
    /// The prompt for the model.
    pub text: String,
    /// The state that comes back with the next call.
    pub state: WorkflowStateData,
    /// The open step.
    pub step: Option<String>,
}

impl App {
    /// Starts a thread. What the user wants becomes the inputs of the workflow by name, or else the input `request`.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_thread(
        &self,
        definition: Arc<Definition>,
        user_input: Option<Value>,
    ) -> Result<ExecutionId> {
        let inputs = user_input.map(|value| assign_inputs(&definition, value));
        self.start_exposed(definition, inputs, false).await
    }

    /// Hands in the report on a step of a thread. A text around one JSON object is left out, if the step takes no text; the answer
    /// says whether that was so, and has the transition that was made. A report that was handed in already does nothing more.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the token is of another thread; those of [`App::next_step`].
    pub async fn submit_thread_report(
        &self,
        thread: &ExecutionId,
        token: &str,
        mut report: Report,
    ) -> Result<(bool, Option<LastTransition>)> {
        let parsed = Token::parse(token)?;
        self.check_session_token(thread, &parsed).await?;
        let mut was_extracted = false;
        if let Report::Output(Value::String(text)) = &report
            && serde_json::from_str::<Value>(text).is_err()
            && let Some(object) = find_json_object(text)
        {
            let definition = self.stored_definition(&parsed.execution_id).await?;
            if !definition.accepts_text(&parsed.step_name, text) {
                report = Report::Output(object);
                was_extracted = true;
            }
        }
        Ok((was_extracted, self.engine().await?.submit(token, report).await?))
    }

    /// The prompt of a thread whose orchestrator is `tool`: that of the open step with this token, or of the first step that a model
    /// can do.
    ///
    /// # Errors
    /// Those of reading the execution of the step.
    pub async fn build_thread_prompt(
        &self,
        turn: &ExecutionTurn,
        tool: &str,
        token: Option<&str>,
    ) -> Result<ThreadPrompt> {
        let status = &turn.status;
        let state = WorkflowStateData { thread_id: status.execution_id.clone(), token: None };
        let (wait, step) = match &turn.turn {
            Turn::Ended => {
                let text = format_concluded_prompt(status);
                return Ok(ThreadPrompt { text, state, step: None });
            }
            Turn::Model(step) | Turn::Person { step, .. } => {
                let prompt = self.build_step_prompt(step, tool, &state, token).await?;
                match (prompt, &turn.turn) {
                    (Some(prompt), _) => return Ok(prompt),
                    (None, Turn::Person { questions, step }) => describe_questions(questions, step),
                    (None, _) => ("No step is open for you.".to_owned(), None),
                }
            }
            Turn::Outside(step) => {
                let message = step.message.as_deref().or(step.asked.as_deref());
                let wait = message.unwrap_or("The workflow waits for something outside.");
                (wait.to_owned(), step.current_step.clone())
            }
            Turn::Server => {
                let at = status.current_step.as_ref().map(|step| format!(" on step '{step}'"));
                let wait = format!(
                    "The server works{}. There is nothing to do for you until the next call.",
                    at.unwrap_or_default()
                );
                (wait, status.current_step.clone())
            }
        };
        Ok(ThreadPrompt { text: format_waiting_prompt(&wait, tool, &state), state, step })
    }

    /// The prompt of the open step with this token, or of the first one that a model can answer; `None` if there is none.
    async fn build_step_prompt(
        &self,
        current: &CurrentStep,
        tool: &str,
        thread: &WorkflowStateData,
        token: Option<&str>,
    ) -> Result<Option<ThreadPrompt>> {
        let mut current = Cow::Borrowed(current);
        let mut steps = current.open_steps();
        let find_token = |steps: &[ReadyStep]| {
            steps.iter().position(|step| Some(&*step.continuation_token) == token)
        };
        let mut chosen = find_token(&steps);
        // The step may be one of another child.
        if let (None, Some(Ok(token))) = (chosen, token.map(Token::parse))
            && token.execution_id.as_str() != current.execution_id
        {
            let other = self.engine().await?.current_step(&token.execution_id).await?;
            let other_steps = other.open_steps();
            chosen = find_token(&other_steps);
            if chosen.is_some() {
                (current, steps) = (Cow::Owned(other), other_steps);
            }
        }
        let Some(at) = chosen.or_else(|| steps.iter().position(is_answered_by_model)) else {
            return Ok(None);
        };
        let ready = &steps[at];
        let state_of = |step: &ReadyStep| WorkflowStateData {
            token: Some(step.continuation_token.clone()),
            ..thread.clone()
        };
        let (mut persona, mut previous) = (current.agent_content.clone(), ready.previous.clone());
        if at > 0 {
            let id = ExecutionId::parse(&current.execution_id)?;
            let definition = self.stored_definition(&id).await?;
            persona = persona_of(&definition, &ready.step_name);
            previous = collect_previous(&definition, &steps, at);
        }
        let state = state_of(ready);
        let prompt = StepPrompt {
            tool,
            state: &state,
            persona: persona.as_deref(),
            inputs: current.inputs.as_ref(),
            inputs_uri: current.inputs_uri.as_deref(),
            previous: &previous,
        };
        let text = prompt.format(ready).unwrap_or_default();
        let others = steps.iter().enumerate().filter(|(index, _)| *index != at);
        let others = others.map(|(_, step)| {
            let item = step.step.item.map(|item| format!(" (item {})", item + 1));
            format!("'{}'{} {}", step.step_name, item.unwrap_or_default(), json!(state_of(step)))
        });
        let text = describe_others(others.collect()) + &text;
        Ok(Some(ThreadPrompt { text, step: Some(ready.step_name.clone()), state }))
    }
}

/// Names the other open steps, each with its state.
fn describe_others(mut others: Vec<String>) -> String {
    if others.is_empty() {
        return String::new();
    }
    let omitted = others.len().saturating_sub(limits::OTHER_STEPS_SHOWN_MAX);
    others.truncate(limits::OTHER_STEPS_SHOWN_MAX);
    if omitted > 0 {
        others.push(format!("and {omitted} more"));
    }
    format!(
        "Other steps are open too, each with a workflowStateData of its own; a call with that alone answers with its prompt: \
         {}.\n\n",
        others.join(", ")
    )
}

/// What only the user can answer, and how, with the step that asks.
fn describe_questions(questions: &[UserQuestion], step: &CurrentStep) -> (String, Option<String>) {
    let asked: Vec<_> = questions.iter().map(|one| one.message.as_str()).collect();
    let how = step.message.as_deref().or(step.asked.as_deref());
    let wait = format!(
        "Only the user can answer what the workflow waits for. Nothing is answered in the user's place. Tell your user:\n{}\n{}",
        asked.join("\n"),
        how.unwrap_or("Their client has to show a form for it (MCP elicitation).")
    );
    (wait, questions.first().map(|one| one.step_name.clone()))
}

/// Whether a model may answer the step, if need be with the user's words. The others are answered in a form alone.
fn is_answered_by_model(ready: &ReadyStep) -> bool {
    let input = ready.step.input.as_ref();
    ready.step.kind != "input" || input.is_none_or(|input| input["via"] != "elicitation")
}

/// The inputs of a start from what the user wants.
fn assign_inputs(definition: &Definition, user_input: Value) -> Value {
    let Some(declared) = &definition.workflow.inputs else {
        return match user_input {
            Value::Object(_) => user_input,
            other => json!({ REQUEST_INPUT: other }),
        };
    };
    let is_declared = |name: &str| declared.iter().any(|input| input.key.as_str() == name);
    let request = declared.iter().find(|input| input.key.as_str() == REQUEST_INPUT);
    match (&user_input, request) {
        (Value::Object(fields), _) if fields.keys().all(|name| is_declared(name)) => user_input,
        (Value::Object(_), None) => user_input,
        (_, Some(request)) if request.effective_type() == Some(InputType::String) => {
            json!({ REQUEST_INPUT: to_plain_text(&user_input) })
        }
        _ => json!({ REQUEST_INPUT: user_input }),
    }
}
