//! Asks the user through the client (MCP elicitation), for missing inputs of a step and for approvals. Since protocol
//! version 2026-07-28, the call returns the question, and the client repeats the call with the answer. In earlier
//! versions, the client is asked while the call is in progress. In both cases an answer is matched to its question by a
//! key.

mod confirm;

use std::time::Duration;

use rmcp::{
    RoleServer, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientResult,
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
        InputRequiredResult, InputResponses, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(super) use self::confirm::{
    Confirmation, ConfirmationFallback, ConfirmationOutcome, build_trust_confirmation,
};
use super::metadata::has_modern_metadata;
use midex_domain::{
    Digest, ExecutionId, State, StepId,
    document::canonical_digest,
    error::{Code, Error, Result},
    event::Channel,
    execution::{GateAnswer, Report},
    limits,
    view::{AdvanceReply, ReadyStep, StatusView, WaitView},
};
use midex_server::app::App;

/// The outcome of a call: its answer, or a request for input from the user.
pub(super) enum CallOutcome {
    Answered(Box<Result<AdvanceReply>>),
    NeedsInput(Box<CallToolResponse>),
}

/// A question to the user.
struct Question {
    /// Identifies the question. A different question has a different key.
    key: String,
    message: String,
    /// The JSON Schema of the form: an object with primitive values.
    schema: Value,
    subject: QuestionSubject,
}

enum QuestionSubject {
    /// The inputs that the step with this token needs.
    Inputs {
        token: String,
    },
    Gate {
        execution: ExecutionId,
        wait: Box<WaitView>,
    },
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
        }
    }

    /// If the client repeats this call with an answer, the current state of its execution. The work of the call is then
    /// not done again.
    pub(super) async fn resume_repeated_call(&self) -> Option<Result<AdvanceReply>> {
        if self.has_unmatched_answers {
            // Refuse: doing the work again could start a second execution.
            let message = "inputResponses came without the requestState that belongs to this call";
            return Some(Err(Error::new(Code::RequestStateMissing, message)));
        }
        Some(self.app.advanced_status(self.started_execution.as_ref()?).await)
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
    let mut user_only_step = find_user_only_step(&answer).map(str::to_owned);
    let (mut has_asked, mut unanswered_notice) = (call.started_execution.is_some(), None);
    for _ in 0..limits::QUESTIONS_PER_CALL_MAX {
        // If the question cannot be read, still return the answer of the call.
        let Ok(Some(question)) = find_next_question(call.app, &id, user_only_step.as_deref()).await
        else {
            break;
        };
        let result = call.ask_question(&id, &question).await;
        has_asked = true;
        let form = match result {
            ElicitationResult::Accepted(form) => form,
            ElicitationResult::NotAccepted { is_declined } => {
                unanswered_notice = Some(question.unanswered_notice(is_declined));
                break;
            }
            ElicitationResult::Unavailable => break,
            ElicitationResult::Pending(needs) => return CallOutcome::NeedsInput(needs),
        };
        match submit_user_answer(call.app, call.context, &question, form).await {
            Ok(()) => user_only_step = None,
            // Ask again. The form then shows why the answer was refused.
            Err(error) if error.code() == Code::StepOutputInvalid => {}
            // Another client answered first, or the execution is paused: return the current state.
            Err(error) => {
                tracing::debug!(%error, "what the user answered was not taken");
                break;
            }
        }
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

impl InteractiveCall<'_> {
    /// Asks the user a question, or takes the answer that was sent with the call.
    async fn ask_question(&mut self, id: &ExecutionId, question: &Question) -> ElicitationResult {
        if let Some(response) = self.responses.remove(&question.key) {
            return parse_elicitation_result(serde_json::from_value(response).ok());
        }
        let state = RequestState { execution_id: id.clone(), call: self.digest.clone() };
        let Question { key, message, schema, .. } = question;
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
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
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

/// The question that the execution has for the user now: the inputs of a step (the step `user_only_step`, if given), or an
/// approval if it is paused only for that.
async fn find_next_question(
    app: &App,
    id: &ExecutionId,
    user_only_step: Option<&str>,
) -> Result<Option<Question>> {
    let status = app.status(id).await?;
    if status.state != "running" {
        return Ok(find_gate_question(id, &status));
    }
    let current = app.current_step(id).await?;
    let is_asked_step = |step: &&ReadyStep| {
        step.step.kind == "input" && user_only_step.is_none_or(|wanted| step.step_name == wanted)
    };
    let mut steps = current.ready_steps.iter().filter(is_asked_step);
    Ok(steps.find_map(|step| build_inputs_question(id, step)))
}

fn find_gate_question(id: &ExecutionId, status: &StatusView) -> Option<Question> {
    // If a person paused the execution, do not ask: only a resume continues it.
    let mut reasons = status.pause_reasons.iter();
    let can_ask_now = reasons.all(|reason| reason.is_set_by_scheduler());
    let mut waits = status.waits.iter().filter(|_| can_ask_now);
    waits.find_map(|wait| build_gate_question(id, wait))
}

fn build_gate_question(id: &ExecutionId, wait: &WaitView) -> Option<Question> {
    let gate = wait.gate.as_ref()?;
    let mut message = gate.ask.clone();
    if let Some(due) = &wait.due {
        message.extend(["\n(until ", due, ")"]);
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": { "type": "string", "title": "Decision", "enum": ["approve", "reject"] },
            "comment": { "type": "string", "title": "Comment", "description": "For the record; may be left empty", "maxLength": limits::COMMENT_BYTES_MAX / 4 }
        },
        "required": ["decision"]
    });
    Some(Question {
        key: format!("gate:{id}:{}:{}:{}", wait.step_name, wait.visit, gate.shown),
        message,
        schema,
        subject: QuestionSubject::Gate { execution: id.clone(), wait: Box::new(wait.clone()) },
    })
}

/// The form for missing inputs. `None` if the author asks for them in another way, or if one of them cannot be a form
/// field.
fn build_inputs_question(id: &ExecutionId, step: &ReadyStep) -> Option<Question> {
    let input = step.step.input.as_ref()?;
    if input["via"] == "guidance" || input["from"].is_string() {
        return None;
    }
    let (mut fields, mut names) = (Map::new(), Vec::new());
    for property in input["properties"].as_array()? {
        let name = property["name"].as_str()?;
        fields.insert(name.to_owned(), build_form_field(property)?);
        names.push(json!(name));
    }
    if fields.is_empty() {
        return None;
    }
    let mut message = match step.description.as_str() {
        "" => format!("Step '{}' needs to know:", step.step_name),
        description => description.to_owned(),
    };
    for refused_value in input["refused"].as_array().into_iter().flatten() {
        message.extend(["\n", refused_value["message"].as_str().unwrap_or_default()]);
    }
    let token = step.continuation_token.clone();
    Some(Question {
        key: format!("input:{id}:{}:{}", step.step_name, canonical_digest(&json!([token, input]))),
        message,
        schema: json!({ "type": "object", "properties": fields, "required": names }),
        subject: QuestionSubject::Inputs { token },
    })
}

/// The form field for one input. Forms can only have primitive values.
fn build_form_field(property: &Value) -> Option<Value> {
    let schema = &property["schema"];
    let mut field = Map::new();
    let options = schema["enum"].as_array();
    let kind = match (schema["type"].as_str(), options) {
        (None | Some("string"), Some(options)) if options.iter().all(Value::is_string) => {
            field.insert("enum".into(), json!(options));
            "string"
        }
        (_, Some(_)) => return None,
        (kind, None) => kind.unwrap_or("string"),
    };
    // Constraints that a form cannot express are still checked by the server.
    let is_valid_bound: fn(&Value) -> bool = match kind {
        "string" => |bound| bound.as_u64().is_some_and(|bound| u32::try_from(bound).is_ok()),
        "integer" => |bound| bound.as_i64().is_some(),
        "number" => Value::is_number,
        "boolean" => |_| false,
        _ => return None,
    };
    field.insert("type".into(), json!(kind));
    for key in ["minLength", "maxLength", "minimum", "maximum"] {
        let value = schema.get(key).filter(|bound| is_valid_bound(bound));
        field.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    let title = property.get("label");
    field.extend(title.map(|title| ("title".to_owned(), title.clone())));
    let example = property.get("example").map(|example| format!("For example {example}"));
    let pattern = schema["pattern"].as_str().map(|pattern| format!("It matches {pattern}"));
    let help_texts = [&property["description"], &property["hint"]];
    let help_texts = help_texts.into_iter().filter_map(|words| words.as_str().map(str::to_owned));
    let help_texts: Vec<_> = help_texts.chain(pattern).chain(example).collect();
    if !help_texts.is_empty() {
        field.insert("description".into(), json!(help_texts.join(". ")));
    }
    Some(Value::Object(field))
}

/// Sends a form with this key, message and schema to the client. Waits for the answer while the call lasts, or returns
/// the request for input, depending on the protocol version.
async fn send_form(
    app: &App,
    context: &RequestContext<RoleServer>,
    (key, message, schema): (&str, &str, Value),
    state: Option<String>,
) -> ElicitationResult {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    let Ok(params) = serde_json::from_value::<ElicitRequestParams>(params) else {
        tracing::debug!("a question fits no form");
        return ElicitationResult::Unavailable;
    };
    let request = ElicitRequest::new(params);
    if has_modern_metadata(context) {
        let input_requests = [(key.to_owned(), InputRequest::Elicitation(request))].into();
        let mut input_required = InputRequiredResult::from_input_requests(input_requests);
        input_required.request_state = state;
        return ElicitationResult::Pending(Box::new(input_required.into()));
    }
    tokio::select! {
        answer = send_elicitation(context, request, limits::QUESTION_MAX) => match answer {
            Some(answer) => parse_elicitation_result(Some(answer)),
            None => ElicitationResult::Unavailable,
        },
        () = app.stop_token().cancelled() => ElicitationResult::Unavailable,
    }
}

async fn send_elicitation(
    context: &RequestContext<RoleServer>,
    request: ElicitRequest,
    timeout: Duration,
) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(request);
    let options = PeerRequestOptions::with_timeout(timeout);
    let answer = async {
        let send_request = context.peer.send_request_with_option(request, options);
        let request_handle = send_request.await?;
        let cancellation = CancelledNotificationParam::new(Some(request_handle.id.clone()), None);
        tokio::select! {
            answer = request_handle.await_response() => answer,
            // The call was cancelled, so withdraw the question.
            () = context.ct.cancelled() => {
                context.peer.notify_cancelled(cancellation).await?;
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

/// Submits the user's answer to the execution.
async fn submit_user_answer(
    app: &App,
    context: &RequestContext<RoleServer>,
    question: &Question,
    form: Value,
) -> Result<()> {
    match &question.subject {
        QuestionSubject::Inputs { token } => {
            app.next_step(token, Report::Answer(form)).await.map(drop)
        }
        QuestionSubject::Gate { execution, wait } => {
            let answer = parse_gate_decision(context, wait, &form)?;
            app.command(execution, answer).await.map(drop)
        }
    }
}

/// Reads a gate decision from a form.
fn parse_gate_decision(
    context: &RequestContext<RoleServer>,
    wait: &WaitView,
    form: &Value,
) -> Result<GateAnswer> {
    let to_form_error = || Error::new(Code::StepOutputInvalid, "the form holds no decision");
    let shown_digest = wait.gate.as_ref().and_then(|gate| Digest::parse(&gate.shown));
    let comment = form["comment"].as_str().map(str::trim);
    let comment = comment.map(|text| &text[..text.floor_char_boundary(limits::COMMENT_BYTES_MAX)]);
    Ok(GateAnswer {
        step: StepId::parse(&wait.step_name)?,
        visit: wait.visit,
        question_digest: shown_digest.ok_or_else(to_form_error)?,
        is_approved: match form["decision"].as_str() {
            Some("approve") => true,
            Some("reject") => false,
            _ => return Err(to_form_error()),
        },
        person: name_client_user(context),
        channel: Channel::Elicitation,
        comment: comment.filter(|comment| !comment.is_empty()).map(str::to_owned),
    })
}

/// A name for the user. The protocol identifies only the client.
fn name_client_user(context: &RequestContext<RoleServer>) -> String {
    let client = context.client_info();
    let name = client.map_or_else(|| "a client".to_owned(), |client| client.name);
    let name: String = name.chars().take(limits::PERSON_BYTES_MAX / 8).collect();
    format!("the user of {name}")
}

impl Question {
    /// A sentence for the reply if the user did not answer.
    const fn unanswered_notice(&self, is_declined: bool) -> &'static str {
        match (&self.subject, is_declined) {
            (QuestionSubject::Gate { .. }, true) => "The user declined; the gate stays open.",
            (QuestionSubject::Gate { .. }, false) => {
                "The user gave no answer; the gate stays open."
            }
            (QuestionSubject::Inputs { .. }, true) => "The user declined; the step stays open.",
            (QuestionSubject::Inputs { .. }, false) => {
                "The user gave no answer; the step stays open."
            }
        }
    }
}
