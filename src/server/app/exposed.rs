//! The tools that workflows expose: through them a client sees executions as sessions.

use std::{cell::LazyCell, sync::Arc};

use serde_json::{Value, json};

use super::{App, ExecutionTurn};
use midex_domain::{
    Command, Definition, ExecutionId, StepId, StepKind, Token,
    definition::{ExposedAction, Step},
    error::{Code, Error, Result},
    execution::{Report, Submission},
    limits,
};
use midex_engine::StartRequest;
use midex_registry::{Registry, Source, invalid_definition_error};

/// What begins the token of a pause between two steps of the server. The revision follows.
const PACE_TOKEN_PREFIX: &str = "pace:";

/// A call that continues a session.
#[derive(Clone, Debug)]
pub struct SessionAdvance {
    /// The token of the last answer. Without it, the call only reads.
    pub token: Option<String>,
    /// The result of the step, or why it could not be done.
    pub report: Option<Report>,
    /// The id of the option taken.
    pub choice: Option<String>,
}

impl App {
    /// Checks the workflows of [`Options::definitions`](super::Options::definitions), for a program that wants to end where one is
    /// broken. A broken workflow cannot be started and has no tools, and the other ones are not affected.
    ///
    /// # Errors
    /// `WORKFLOW_VALIDATION_FAILED` with the findings of the first broken workflow; its message has the first finding.
    pub async fn check_definitions(&self) -> Result<()> {
        let find_broken = |registry: &Registry| {
            let mut own = registry.workflows().filter(|entry| entry.source == Source::Program);
            own.find(|entry| entry.is_broken())
                .map(|entry| (entry.name.clone(), entry.findings.clone()))
        };
        let Some((name, findings)) = self.with_registry(find_broken).await? else {
            return Ok(());
        };
        let error = invalid_definition_error(&name, &findings);
        let first = error.violations().first();
        let first = first.map(|first| format!(": {}: {}", first.path, first.message));
        let message = format!("{}{}", error.message(), first.unwrap_or_default());
        Err(error.with_message(message))
    }

    /// The workflows whose tools are offered, by name, at most [`limits::EXPOSED_WORKFLOWS_MAX`]. Those that come from a project
    /// are offered once the project is trusted.
    ///
    /// # Errors
    /// Those of reading the definitions.
    pub async fn list_exposed_workflows(&self) -> Result<Vec<Arc<Definition>>> {
        let app = self.clone();
        self.with_registry(move |registry| {
            // Reads files, so it is asked only where a project has such workflows.
            let is_trusted = LazyCell::new(|| app.config().trust.is_trusted(&app.project_dir));
            let offered = registry.workflows().filter(|entry| entry.offers_tools());
            let definitions = offered.filter_map(|entry| entry.value.clone());
            let listed = definitions.filter(|one| !one.is_from_project() || *is_trusted);
            listed.take(limits::EXPOSED_WORKFLOWS_MAX).collect()
        })
        .await
    }

    /// The workflow that offers the tool of this name, and what the tool does.
    ///
    /// # Errors
    /// Those of reading the definitions.
    pub async fn find_exposed_tool(
        &self,
        tool: &str,
    ) -> Result<Option<(Arc<Definition>, ExposedAction)>> {
        let workflows = self.list_exposed_workflows().await?;
        Ok(workflows.into_iter().find_map(|definition| {
            let action = definition.workflow.find_exposed_action(tool)?;
            Some((definition, action))
        }))
    }

    /// Starts a session of a workflow that exposes tools.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_session(
        &self,
        definition: Arc<Definition>,
        inputs: Value,
    ) -> Result<ExecutionId> {
        let tools = definition.workflow.exposed_tools.as_ref();
        let is_paced = tools.is_some_and(|tools| tools.is_paced);
        self.start_exposed(definition, Some(inputs), is_paced).await
    }

    pub(super) async fn start_exposed(
        &self,
        definition: Arc<Definition>,
        inputs: Option<Value>,
        is_paced: bool,
    ) -> Result<ExecutionId> {
        let request = StartRequest {
            project: Some(self.prepare_start(&definition, None).await?),
            inputs,
            lookup: Some((*self.lookup).clone()),
            is_paced,
            ..StartRequest::new(definition)
        };
        let started = self.engine().await?.start(request).await?;
        ExecutionId::parse(&started.execution_id)
    }

    /// Runs an activity that is offered as a tool: an execution of one step. Returns where it stands when it has ended, or
    /// after [`limits::SESSION_WAIT`].
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID`, and those of a start.
    pub async fn call_activity(&self, name: &str, arguments: Value) -> Result<ExecutionTurn> {
        let violations = self.activities().find_input_violations(name, &arguments);
        if !violations.is_empty() {
            return Err(Error::invalid_arguments(name, violations));
        }
        let definition = build_activity_call(name)?;
        let request = StartRequest {
            project: Some(self.caller_project()),
            inputs: Some(arguments),
            ..StartRequest::new(Arc::new(definition))
        };
        let started = self.engine().await?.start(request).await?;
        self.turn(&ExecutionId::parse(&started.execution_id)?, limits::SESSION_WAIT).await
    }

    /// The definition of a session, which its tools must offer: it may have lost its file since.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the session is of a workflow with other tools; `EXECUTION_NOT_FOUND`, `EXECUTION_DELETED`.
    pub async fn find_session(&self, id: &ExecutionId, tool: &str) -> Result<Arc<Definition>> {
        let definition = self.stored_definition(id).await?;
        let workflow = &definition.workflow;
        if workflow.find_exposed_action(tool).is_some() {
            return Ok(definition);
        }
        let other = |(name, action): (String, ExposedAction)| {
            let goes_on = [ExposedAction::Continue, ExposedAction::Orchestrate].contains(&action);
            goes_on.then_some(name)
        };
        let other = workflow.list_exposed_tools().into_iter().find_map(other);
        let other = other.unwrap_or_else(|| "execution.resume".to_owned());
        let message =
            format!("session '{id}' is of workflow '{}': call {other}", definition.workflow.name);
        Err(Error::new(Code::ArgumentsInvalid, message)
            .with_context("session_tool", other)
            .with_action("Call {session_tool} with this session"))
    }

    /// Continues a session. A call that was done already does nothing more.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the token is of another session, or if a report comes without one; those of
    /// [`App::next_step`].
    pub async fn advance_session(&self, id: &ExecutionId, advance: SessionAdvance) -> Result<()> {
        let SessionAdvance { token, report, choice } = advance;
        let has_report = report.is_some() || choice.is_some();
        let Some(token) = token else {
            if has_report {
                return Err(invalid_token_error(
                    "`result`, `error` and `choice` need the `token` of the last answer",
                ));
            }
            return Ok(());
        };
        if let Some(revision) = parse_pace_token(&token) {
            let command = Command::LiftPace { revision };
            return self.engine().await?.apply_command(id, command).await.map(drop);
        }
        self.check_session_token(id, &Token::parse(&token)?).await?;
        if !has_report {
            return Err(invalid_token_error(
                "this token finishes a step: send `result`, `error` or `choice` with it",
            ));
        }
        self.engine().await?.submit(&token, Submission { report, choice }).await.map(drop)
    }

    /// Checks that a token is of this session. The turn of a child is one of it.
    pub(super) async fn check_session_token(&self, id: &ExecutionId, token: &Token) -> Result<()> {
        if token.execution_id == *id {
            return Ok(());
        }
        let child = self.status(&token.execution_id).await?;
        if child.root.as_deref() == Some(id.as_str()) {
            return Ok(());
        }
        Err(invalid_token_error("the token is of another session"))
    }
}

/// The definition of a call of an activity. A step without `with` gets the inputs of the execution.
fn build_activity_call(name: &str) -> Result<Definition> {
    let kind = StepKind::Activity { name: name.to_owned(), idempotent: None };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let workflow = json!({
        "name": name.replace(|c| !is_allowed(c), "_"),
        "description": format!("A call of the activity `{name}`"),
        "steps": [Step::new(StepId::parse("call")?, kind)],
        "final_output": "${{ steps.call.output }}",
    });
    let text = json!({ "workflow": workflow, "personas": {} }).to_string();
    Definition::decode(text.as_bytes())
}

/// The token with which a client lets the next step of the server begin.
pub fn format_pace_token(revision: u64) -> String {
    format!("{PACE_TOKEN_PREFIX}{revision}")
}

fn parse_pace_token(token: &str) -> Option<u64> {
    token.strip_prefix(PACE_TOKEN_PREFIX)?.parse().ok()
}

fn invalid_token_error(message: &str) -> Error {
    Error::new(Code::ArgumentsInvalid, message).with_action(
        "Call the tool with the sessionId alone: it answers with the open step and its token",
    )
}
