//! Asks the user through the client (MCP elicitation), for missing inputs of a step and for approvals. Since protocol
//! version 2026-07-28, the call returns the question, and the client repeats the call with the answer. In earlier
//! versions, the client is asked while the call is in progress. In both cases an answer is matched to its question by a
//! key.

mod confirm;

use std::time::Duration;

use rmcp::{
    Peer, RoleServer, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientResult,
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
        InputRequiredResult, InputResponses, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(super) use self::confirm::{
    Confirmation, ConfirmationFallback, ConfirmationOutcome, build_trust_confirmation,
};
use super::metadata::has_modern_metadata;
use midex_domain::{
    ExecutionId, State,
    document::canonical_digest,
    error::{Code, Error, Result},
    limits,
    view::{AdvanceReply, StatusView},
};
use midex_server::app::{App, ExecutionTurn, LastTransition, Turn, UserQuestion};

/// The outcome of a call: its answer, or a request for input from the user.
pub(super) enum CallOutcome {
    Answered(Box<Result<AdvanceReply>>),
    NeedsInput(Box<CallToolResponse>),
}

/// The user's reaction to a question.
enum ElicitationResult {
    /// The user submitted this form.
    Accepted(Value),
    /// The user declined the question, or dismissed it.
    NotAccepted { is_declined: bool },
    /// The client could not show the question.
    Unavailable,
    /// The question was returned to the client, which repeats the call with the answer.
    Pending(Box<CallToolResponse>),
}

/// A tool call during which the user may be asked.
#[derive(Clone)]
pub(super) struct InteractiveCall<'a> {
    pub(super) app: &'a App,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// A digest of the tool and its arguments. It shows that answers belong to the same call. Empty if it is not
    /// needed: the client cannot ask, and sent no request state.
    digest: String,
    responses: InputResponses,
    /// The execution that this call already started or changed, if the client repeats the call with an answer.
    started_execution: Option<ExecutionId>,
    /// Whether the client sent answers without the matching request state.
    has_unmatched_answers: bool,
    /// The transition that the call made, if it is known.
    pub(super) last_transition: Option<LastTransition>,
}

/// The request state that a client returns with its answers. It grants no more access than the execution id, which any
/// client may name.
#[derive(Debug, Serialize, Deserialize)]
struct RequestState {
    execution_id: ExecutionId,
    call: String,
}

impl<'a> InteractiveCall<'a> {
    pub(super) fn new(
        app: &'a App,
        context: &'a RequestContext<RoleServer>,
        request: &CallToolRequestParams,
    ) -> Self {
        let can_have_answers = request.request_state.is_some() || can_ask(context);
        let digest = if can_have_answers {
            canonical_digest(&json!([request.name, request.arguments])).to_string()
        } else {
            String::new()
        };
        let state = request.request_state.as_deref();
        let state = state.and_then(|state| serde_json::from_str::<RequestState>(state).ok());
        let matching_state = state.filter(|state| state.call == digest);
        Self {
            app,
            context,
            has_unmatched_answers: matching_state.is_none()
                && request
                    .input_responses
                    .as_ref()
                    .is_some_and(|all| !all.keys().any(|key| confirm::is_trust_question_key(key))),
            started_execution: matching_state.map(|state| state.execution_id),
            responses: request.input_responses.clone().unwrap_or_default(),
            digest,
            last_transition: None,
        }
    }

    /// If the client repeats this call with an answer, the execution of the call, whose work is then not done again.
    ///
    /// # Errors
    /// `REQUEST_STATE_MISSING` if the call has an answer, and does not say to which execution.
    pub(super) fn find_started_execution(&self) -> Result<Option<ExecutionId>> {
        if self.has_unmatched_answers {
            // Refuse: doing the work again could start a second execution.
            let message = "inputResponses came without the requestState that belongs to this call";
            return Err(Error::new(Code::RequestStateMissing, message));
        }
        Ok(self.started_execution.clone())
    }
}

/// Asks the user for everything that the execution of a call waits for, if the client can ask. Returns the updated
/// answer.
pub(super) async fn ask_pending_questions(
    mut call: InteractiveCall<'_>,
    mut answer: Result<AdvanceReply>,
) -> CallOutcome {
    let execution = call.started_execution.clone().or_else(|| find_execution_to_ask(&answer));
    let Some(id) = execution.filter(|_| can_ask(call.context)) else {
        return CallOutcome::Answered(Box::new(answer));
    };
    let Ok(StatusView { revision: old_revision, .. }) = call.app.status(&id).await else {
        return CallOutcome::Answered(Box::new(answer));
    };
    let step = find_user_only_step(&answer).map(str::to_owned);
    let was_repeated = call.started_execution.is_some();
    // If a question cannot be read, the answer of the call is still returned.
    let (mut has_asked, mut unanswered_notice) = (was_repeated, None);
    match ask_open_questions(&mut call, &id, step, Duration::ZERO).await {
        Ok(QuestionsOutcome::Pending(needs)) => return CallOutcome::NeedsInput(needs),
        Ok(QuestionsOutcome::Done(done)) => {
            has_asked |= done.has_asked;
            unanswered_notice = done.unanswered_notice;
        }
        Err(error) => tracing::debug!(%error, "the questions of an execution cannot be read"),
    }
    // If the user was not asked, keep the answer of the call, so that a repeated call gets the same one. If the user
    // was asked, return the current state. A refusal is kept unless the execution has moved since.
    if has_asked
        && let Ok(new_status) = call.app.advanced_status(&id).await
        && (answer.is_ok() || new_status.revision != old_revision)
    {
        answer = Ok(new_status);
    }
    if let (Ok(reply), Some(notice)) = (&mut answer, unanswered_notice) {
        reply.message.extend([" ", notice]);
    }
    CallOutcome::Answered(Box::new(answer))
}

/// The outcome of asking the user.
pub(super) enum QuestionsOutcome {
    /// No question is left that the user can be asked.
    Done(Box<AnsweredQuestions>),
    /// The question was returned to the client, which repeats the call with the answer.
    Pending(Box<CallToolResponse>),
}

/// Where an execution stands after the user was asked.
pub(super) struct AnsweredQuestions {
    /// What has to happen next.
    pub(super) turn: ExecutionTurn,
    /// Whether the user was asked anything.
    has_asked: bool,
    /// A sentence for the reply if the user did not answer.
    pub(super) unanswered_notice: Option<&'static str>,
}

/// Asks the user everything that an execution waits for, if the client can ask: the questions of `step` alone until one
/// was answered, if it is given. While the server works, waits for at most `timeout` after each answer.
pub(super) async fn ask_open_questions(
    call: &mut InteractiveCall<'_>,
    id: &ExecutionId,
    mut step: Option<String>,
    timeout: Duration,
) -> Result<QuestionsOutcome> {
    let (mut has_asked, mut unanswered_notice) = (false, None);
    let mut turn = call.app.turn_after(id, timeout, call.last_transition.as_ref()).await?;
    for _ in 0..limits::QUESTIONS_PER_CALL_MAX {
        let question = find_open_question(&turn.turn, step.as_deref());
        let Some(mut question) = question.filter(|_| can_ask(call.context)) else {
            break;
        };
        let result = call.ask_question(id, &mut question).await;
        has_asked = true;
        let form = match result {
            ElicitationResult::Accepted(form) => form,
            ElicitationResult::NotAccepted { is_declined } => {
                unanswered_notice = Some(find_unanswered_notice(&question, is_declined));
                break;
            }
            ElicitationResult::Unavailable => break,
            ElicitationResult::Pending(needs) => return Ok(QuestionsOutcome::Pending(needs)),
        };
        let person = name_client_user(call.context);
        match call.app.answer_question(&question, form, person).await {
            Ok(()) => step = None,
            // Ask again. The form then shows why the answer was refused.
            Err(error) if error.code() == Code::StepOutputInvalid => {}
            // Another client answered first, or the execution is paused: return the current state.
            Err(error) => {
                tracing::debug!(%error, "what the user answered was not taken");
                break;
            }
        }
        turn = call.app.turn(id, timeout).await?;
    }
    let done = AnsweredQuestions { turn, has_asked, unanswered_notice };
    Ok(QuestionsOutcome::Done(Box::new(done)))
}

/// The first question for the user, or the first one of this step.
fn find_open_question(turn: &Turn, step: Option<&str>) -> Option<UserQuestion> {
    let mut questions = turn.list_questions().into_iter();
    questions.find(|question| step.is_none_or(|wanted| question.step_name == wanted))
}

impl InteractiveCall<'_> {
    /// Asks the user a question, or takes the answer that was sent with the call.
    async fn ask_question(
        &mut self,
        id: &ExecutionId,
        question: &mut UserQuestion,
    ) -> ElicitationResult {
        if let Some(response) = self.responses.remove(&question.key) {
            return parse_elicitation_result(serde_json::from_value(response).ok());
        }
        self.app.offer_choices(question).await;
        let state = RequestState { execution_id: id.clone(), call: self.digest.clone() };
        let UserQuestion { key, message, schema, .. } = question;
        let form = (&**key, &**message, schema.clone());
        let state = serde_json::to_string(&state).ok();
        send_form(self.app, self.context, form, state).await
    }
}

/// The step that only the user may answer, if the call was refused for that reason.
fn find_user_only_step(answer: &Result<AdvanceReply>) -> Option<&str> {
    let error = answer.as_ref().err()?;
    error.context("step_id")?.as_str()
}

/// Whether the client can show forms to the user.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
    // Clients of early protocol versions list no kinds of elicitation. They support forms.
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// The execution whose user may need to be asked after this answer.
fn find_execution_to_ask(answer: &Result<AdvanceReply>) -> Option<ExecutionId> {
    let id = match answer {
        Ok(reply) => {
            let has_question = reply.new_tokens.iter().any(|offer| offer.step.kind == "input");
            let can_have_question = has_question || reply.workflow_state == State::Paused.as_str();
            can_have_question.then_some(reply.execution_id.as_str())
        }
        Err(error) if error.code() == Code::UserAlone => error.context("execution_id")?.as_str(),
        Err(_) => None,
    };
    ExecutionId::parse(id?).ok()
}

/// Sends a form with this key, message and schema to the client. Waits for the answer while the call lasts, or returns
/// the request for input, depending on the protocol version.
async fn send_form(
    app: &App,
    context: &RequestContext<RoleServer>,
    (key, message, schema): (&str, &str, Value),
    state: Option<String>,
) -> ElicitationResult {
    let Some(request) = build_form_request(message, &schema) else {
        return ElicitationResult::Unavailable;
    };
    if has_modern_metadata(context) {
        let input_requests = [(key.to_owned(), InputRequest::Elicitation(request))].into();
        let mut input_required = InputRequiredResult::from_input_requests(input_requests);
        input_required.request_state = state;
        return ElicitationResult::Pending(Box::new(input_required.into()));
    }
    let options = PeerRequestOptions::with_timeout(limits::QUESTION_MAX);
    tokio::select! {
        answer = send_elicitation(&context.peer, request, options, &context.ct) => match answer {
            Some(answer) => parse_elicitation_result(Some(answer)),
            None => ElicitationResult::Unavailable,
        },
        () = app.stop_token().cancelled() => ElicitationResult::Unavailable,
    }
}

/// The request to show a form with this message and schema.
pub(super) fn build_form_request(message: &str, schema: &Value) -> Option<ElicitRequest> {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    let params = serde_json::from_value::<ElicitRequestParams>(params);
    let params = params.inspect_err(|_| tracing::debug!("a question fits no form"));
    params.ok().map(ElicitRequest::new)
}

/// The form that the user submitted in a response; `None` if they declined.
pub(super) fn read_form(response: Value) -> Option<Value> {
    match parse_elicitation_result(serde_json::from_value(response).ok()) {
        ElicitationResult::Accepted(form) => Some(form),
        _ => None,
    }
}

/// Sends a form to the client, and withdraws it once `withdrawal` is cancelled. `None` if the client brings no answer.
pub(super) async fn send_elicitation(
    peer: &Peer<RoleServer>,
    request: ElicitRequest,
    options: PeerRequestOptions,
    withdrawal: &CancellationToken,
) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(request);
    let answer = async {
        let send_request = peer.send_request_with_option(request, options);
        let request_handle = send_request.await?;
        let cancellation = CancelledNotificationParam::new(Some(request_handle.id.clone()), None);
        tokio::select! {
            answer = request_handle.await_response() => answer,
            () = withdrawal.cancelled() => {
                peer.notify_cancelled(cancellation).await?;
                Err(ServiceError::Cancelled { reason: None })
            }
        }
    };
    match answer.await {
        Ok(ClientResult::ElicitResult(result)) => Some(result),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "the client did not bring an answer");
            None
        }
    }
}

fn parse_elicitation_result(answer: Option<ElicitResult>) -> ElicitationResult {
    match answer {
        Some(ElicitResult { action: ElicitationAction::Accept, content: Some(form), .. }) => {
            ElicitationResult::Accepted(form)
        }
        answer => ElicitationResult::NotAccepted {
            is_declined: answer.is_some_and(|answer| answer.action == ElicitationAction::Decline),
        },
    }
}

/// A name for the user. The protocol identifies only the client.
pub(super) fn name_client_user(context: &RequestContext<RoleServer>) -> String {
    let client = context.client_info();
    let name = client.map_or_else(|| "a client".to_owned(), |client| client.name);
    let name: String = name.chars().take(limits::PERSON_BYTES_MAX / 8).collect();
    format!("the user of {name}")
}

/// A sentence for the reply if the user did not answer.
const fn find_unanswered_notice(question: &UserQuestion, is_declined: bool) -> &'static str {
    match (question.is_gate(), is_declined) {
        (true, true) => "The user declined; the gate stays open.",
        (true, false) => "The user gave no answer; the gate stays open.",
        (false, true) => "The user declined; the step stays open.",
        (false, false) => "The user gave no answer; the step stays open.",
    }
}
