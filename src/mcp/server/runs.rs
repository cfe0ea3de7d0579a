//! Runs: calls that start an execution and lead it until it rests, and the requests for them as tasks.

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{GetTaskResult, InputRequest, InputRequests, InputResponses},
    service::RequestContext,
};
use serde_json::{Map, Value};

use super::{Server, ToolCallOutcome, build_call_result};
use crate::{
    answer,
    elicitation::{
        InteractiveCall, QuestionsOutcome, ask_open_questions, build_form_request, can_ask,
        name_client_user, read_form,
    },
    frame::SessionTaskRequest,
    metadata::has_modern_metadata,
    sampling::{build_sampling_request, build_turn_key, can_sample, read_sampled_output},
    task::{self, TaskReading},
    tools::{self, StartedRun, ToolFn, ToolSpec, WorkflowRun},
};
use midex_domain::{
    ExecutionId, LifecycleAction, LifecycleChange, State,
    error::{Category, Code, Error, Result},
    execution::Report,
    view::{CurrentStep, Reader},
};
use midex_server::app::{ExecutionTurn, Turn};

/// The tool whose answer is the result of a task.
const RUN_TOOL: &str = "workflow.run";

impl Server {
    /// Starts an execution with `start`, asks the user for everything that it waits for, and answers where it stands once
    /// the server cannot move it.
    pub(super) async fn run_to_rest(
        &self,
        tool: &ToolSpec,
        start: ToolFn<StartedRun>,
        arguments: Map<String, Value>,
        mut call: InteractiveCall<'_>,
    ) -> Result<ToolCallOutcome> {
        let context = call.context;
        let started = if let Some(execution_id) = call.find_started_execution()? {
            let timeout = tools::wait_argument(&arguments);
            StartedRun { execution_id, warnings: Vec::new(), timeout }
        } else {
            let mut arguments = tool.check_arguments(arguments)?;
            if tool.requires_tasks() {
                if !supports_tasks(context) {
                    return Err(task_capability_error(tool.name()));
                }
                arguments.insert("is_sampled".to_owned(), can_sample(context).into());
            }
            start(&self.app, arguments).await?
        };
        let StartedRun { execution_id, mut warnings, timeout } = started;
        if supports_tasks(context) {
            let status = self.app.status(&execution_id).await?;
            return Ok(ToolCallOutcome::NeedsInput(Box::new(task::create_task(&status).into())));
        }
        match ask_open_questions(&mut call, &execution_id, None, timeout).await? {
            QuestionsOutcome::Pending(needs) => Ok(ToolCallOutcome::NeedsInput(needs)),
            QuestionsOutcome::Done(done) => {
                warnings.extend(done.unanswered_notice.map(str::to_owned));
                let run = tools::build_reply(WorkflowRun::from_turn(done.turn, warnings)?)?;
                build_call_result(&run, None, context)
            }
        }
    }

    /// The task of this id: the execution, as this client can deal with it.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `ARGUMENTS_INVALID` if the id is malformed.
    pub(super) async fn read_task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult> {
        let reading = self.read_task_state(&ExecutionId::parse(id)?, context).await?;
        Ok(reading.into_result())
    }

    pub(super) async fn read_task_state(
        &self,
        id: &ExecutionId,
        context: &RequestContext<RoleServer>,
    ) -> Result<TaskReading> {
        // A task ends with the first turn of a model for a host that cannot sample, since a host that polls does not take
        // turns. This is read before the turn, so that the turn that is shown is at least as new.
        let can_sample = can_sample(context);
        let was_model_asked = !can_sample && self.app.was_model_asked(id).await?;
        let turn = self.app.turn(id, Duration::ZERO).await?;
        let has_result = match turn.turn {
            Turn::Model(_) => !can_sample,
            Turn::Ended => turn.status.state != State::Abandoned.as_str(),
            _ => false,
        };
        if has_result || was_model_asked {
            return self.build_completed_task(turn).await;
        }
        let input_requests = self.collect_input_requests(&turn.turn, context).await?;
        Ok(TaskReading::open(turn, input_requests, self.app.now()))
    }

    /// What the client can be asked for now: the questions to its user, and the turn of its model if it can sample.
    async fn collect_input_requests(
        &self,
        turn: &Turn,
        context: &RequestContext<RoleServer>,
    ) -> Result<InputRequests> {
        let mut requests = InputRequests::new();
        let questions = if can_ask(context) { turn.list_questions() } else { Vec::new() };
        for mut question in questions {
            self.app.offer_choices(&mut question).await;
            let form = build_form_request(&question.message, &question.schema);
            requests.extend(form.map(|form| (question.key, InputRequest::Elicitation(form))));
        }
        if let Some((key, step)) = self.find_sampled_turn(turn, context).await? {
            requests.extend(build_sampling_request(&step).map(|request| (key, request)));
        }
        Ok(requests)
    }

    /// The turn that the client's model is to take by sampling, with its key.
    async fn find_sampled_turn(
        &self,
        turn: &Turn,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<(String, CurrentStep)>> {
        let Turn::Model(step) = turn else {
            return Ok(None);
        };
        if !can_sample(context) {
            return Ok(None);
        }
        let id = ExecutionId::parse(&step.execution_id)?;
        let step = self.app.current_step_for(&id, Reader::Worker).await?;
        Ok(build_turn_key(&step).map(|key| (key, step)))
    }

    /// The task of a run that stands here, with the answer of `workflow.run` as its result.
    pub(super) async fn build_completed_task(&self, turn: ExecutionTurn) -> Result<TaskReading> {
        let status = turn.status.clone();
        let result = match WorkflowRun::from_turn(turn, Vec::new()) {
            Ok(run) => rmcp::model::CallToolResult::structured(tools::build_reply(run)?),
            Err(error) => {
                let error = self.app.explain_error(error.with_tool(RUN_TOOL)).await;
                answer::build_error_result(&error, None, RUN_TOOL, self.app.ids())
            }
        };
        TaskReading::completed(&status, &result)
    }

    /// Takes the answers of the user and of the model to what a task asks for. Answers to other questions are ignored.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `STEP_OUTPUT_INVALID` if a form does not have what its question asks for, and the question
    /// stays as it is, or if the output of the model breaks its schema.
    pub(super) async fn answer_task(
        &self,
        id: &str,
        mut responses: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<()> {
        let id = ExecutionId::parse(id)?;
        let turn = self.app.turn(&id, Duration::ZERO).await?.turn;
        if let Some((key, step)) = self.find_sampled_turn(&turn, context).await?
            && let Some(output) = responses.remove(&key).and_then(read_sampled_output)
        {
            let token = step.continuation_token.unwrap_or_default();
            match self.app.next_step(&token, Report::Output(output)).await {
                Err(error) if !was_answered_elsewhere(&error) => {
                    return Err(error.with_context("input_request", key));
                }
                taken => tracing::debug!(?key, is_taken = taken.is_ok(), "a sampled answer"),
            }
        }
        for question in turn.list_questions() {
            let Some(form) = responses.remove(&question.key).and_then(read_form) else {
                continue;
            };
            let person = name_client_user(context);
            match self.app.answer_question(&question, form, person).await {
                // A refused input is asked again under another key, unless the same answer was refused before.
                Err(error) if error.code() == Code::StepOutputInvalid => {
                    if self.is_open(&id, &question.key).await? {
                        return Err(error.with_context("input_request", question.key.as_str()));
                    }
                }
                Err(error) if !was_answered_elsewhere(&error) => return Err(error),
                Err(error) => tracing::debug!(%error, "an answer to a task was not taken"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    pub(super) async fn is_open(&self, id: &ExecutionId, key: &str) -> Result<bool> {
        let open_questions = self.app.turn(id, Duration::ZERO).await?.turn.list_questions();
        Ok(open_questions.iter().any(|open| open.key == key))
    }

    /// Abandons the execution of a task. A task that has ended stays as it is.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, and those of the store.
    pub(super) async fn cancel_task_of(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<()> {
        let id = ExecutionId::parse(id)?;
        if self.read_task_state(&id, context).await?.is_terminal() {
            return Ok(());
        }
        let abandon = LifecycleChange { action: LifecycleAction::Abandon, reason: None };
        match self.app.command(&id, abandon).await {
            // It ended meanwhile.
            Err(error) if error.code() == Code::StateTransitionRefused => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Whether an answer was refused because another one came first.
fn was_answered_elsewhere(error: &Error) -> bool {
    !matches!(error.code(), Code::StepOutputInvalid)
        && error.code().category() != Category::Internal
}

fn task_capability_error(tool: &str) -> Error {
    let message = format!("{tool} works as a task, and this client does not support tasks");
    Error::new(Code::TaskCapabilityRequired, message)
}

/// Whether this call is answered with a task: the client declared the extension for tasks, or asks for a task of protocol
/// version 2025-11-25.
fn supports_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_session_task_request(context) || declares_tasks(context)
}

/// Whether the client declared that it supports tasks, of a protocol version in which the server has them.
pub(super) fn declares_tasks(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    capabilities.is_some_and(|capabilities| capabilities.supports_tasks())
        && (has_modern_metadata(context) || is_session_task_request(context))
}

/// Whether this is a request that [`crate::frame::convert_task_request`] has marked.
pub(super) fn is_session_task_request(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<SessionTaskRequest>().is_some()
}
