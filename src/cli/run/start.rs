//! Begins an execution: reads its inputs, and asks a person at the terminal for those that are missing.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    StartOutcome, WorkflowRunner,
    field::{InputField, select_violated_fields},
    form::ChoiceSource,
    inputs,
};
use crate::{
    link::{may_have_taken_effect, parse_reply},
    prompt::PromptInput,
    refusal::print_warning,
    visible::replace_hidden_chars,
};
use midex_domain::{
    error::{Code, Error, Result},
    nearest::format_nearest_hint,
    uri,
    view::InputView,
};
use midex_server::config::TrustedProjects;

/// A workflow as the resource `workflow_details` shows it; all but its name is absent if its definition is invalid.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkflowDetails {
    name: String,
    description: String,
    /// The inputs that it declares; `None` if it declares none.
    inputs: Option<Vec<InputView>>,
    /// The names of the inputs that steps ask for.
    asked_later: Vec<String>,
    phases: Vec<PhaseDetails>,
}

/// A step in the details of a workflow.
#[derive(Deserialize)]
struct PhaseDetails {
    /// The id of the step.
    phase: String,
    agent: Option<String>,
}

impl WorkflowRunner<'_> {
    /// Starts the execution; false if the person who is asked for inputs declines.
    pub(super) async fn start_execution(&mut self) -> Result<bool> {
        match self.ask_and_start().await {
            Err(error)
                if error.code() == Code::WorkflowNotFound && self.is_execution_id().await? =>
            {
                // Without the context of `error`, which may name a workflow of a similar name.
                Err(Error::new(Code::WorkflowNotFound, error.message())
                    .with_context("execution_id", self.workflow_name())
                    .with_action(
                        "Run `midex run --id {execution_id}`: that is an execution, and no workflow",
                    ))
            }
            started => started,
        }
    }

    /// Asks the person for inputs, and starts the execution. False if the person declines.
    async fn ask_and_start(&mut self) -> Result<bool> {
        self.check_output_step_names().await?;
        if !self.ask_inputs(None).await? {
            return Ok(false);
        }
        loop {
            let mut arguments =
                json!({ "workflow_name": self.workflow_name(), "execution_id": self.id });
            let inputs = self.merge_typed_inputs();
            if let Some(inputs) = &inputs {
                arguments["inputs"] = inputs.clone();
            }
            if !self.labels.is_empty() {
                arguments["labels"] = json!(self.labels);
            }
            self.link.open().await?;
            self.start_outcome = StartOutcome::Unknown;
            self.source.draft.mark_inputs_sent();
            let refusal = match self.link.advance("workflow.start", arguments).await {
                Ok((reply, started)) => {
                    self.start_outcome = StartOutcome::Started;
                    self.source.draft.clear_recorded();
                    self.page.print_started(&reply, &started, inputs.as_ref())?;
                    started.warnings.iter().for_each(|warning| print_warning(warning));
                    return Ok(true);
                }
                Err(error) if may_have_taken_effect(&error) => return Err(error),
                Err(error) => error,
            };
            self.source.draft.mark_refused();
            if refusal.is_retryable() {
                return Err(refusal);
            }
            self.start_outcome = StartOutcome::NotStarted;
            if refusal.code() == Code::ProjectNotTrusted && self.ask_for_trust(&refusal).await? {
                continue;
            }
            let can_ask_again = refusal.code() == Code::InputsInvalid
                && !self.page.is_json()
                && self.source.open_terminal_prompt().is_some();
            if !can_ask_again {
                let declared_inputs =
                    self.fetch_workflow_details().await.unwrap_or_default().inputs;
                return Err(inputs::explain_as_flags(
                    refusal,
                    &declared_inputs.unwrap_or_default(),
                ));
            }
            if !self.ask_inputs(Some(refusal)).await? {
                return Ok(false);
            }
        }
    }

    /// Asks the person at the terminal whether they trust the project, and records it if they do. True if they do.
    async fn ask_for_trust(&mut self, refusal: &Error) -> Result<bool> {
        let context_text = |name| refusal.context(name).and_then(Value::as_str);
        let (Some(project), Some(question)) = (context_text("project"), context_text("question"))
        else {
            return Ok(false);
        };
        let is_json = self.page.is_json();
        let Some(prompt) = self.source.open_terminal_prompt().filter(|_| !is_json) else {
            return Ok(false);
        };
        let question = replace_hidden_chars(&format!("{question} [y/N] "));
        let answer = prompt.read_line(&question, &[], &mut self.link).await?;
        let is_yes = matches!(&answer, PromptInput::Line(line) if ["y", "yes"].contains(&&*line.trim().to_lowercase()));
        if is_yes {
            TrustedProjects::for_user().set_trusted(Path::new(project), true)?;
        }
        Ok(is_yes)
    }

    /// Asks the person at the terminal for the required inputs that are missing, or, with a complaint, for the refused
    /// ones again. False if they decline.
    async fn ask_inputs(&mut self, complaint: Option<Error>) -> Result<bool> {
        if self.page.is_json() || self.source.open_terminal_prompt().is_none() {
            return Ok(true);
        }
        let details = self.fetch_workflow_details().await?;
        let later_names = &details.asked_later;
        let should_ask_now =
            |input: &&InputView| complaint.is_some() || !later_names.contains(&input.name);
        let fields: Vec<_> = match &details.inputs {
            Some(declared_inputs) => {
                let due_inputs = declared_inputs.iter().filter(should_ask_now);
                due_inputs.map(InputField::from_input).collect()
            }
            // Personas work on a task of the user's: the input `task` passes it to them.
            None if details.phases.iter().any(|step| step.agent.is_some()) => {
                vec![InputField::task_input()]
            }
            None => Vec::new(),
        };
        let fields = match &complaint {
            Some(error) => self.select_refused_inputs(&fields, error),
            None => self.select_missing_inputs(fields),
        };
        if fields.is_empty() {
            return complaint.map_or(Ok(true), Err);
        }
        if complaint.is_none() {
            let (name, description) = (&details.name, &details.description);
            self.page.print_inputs_intro(name, description)?;
        }
        let given_inputs = self.inputs.as_ref().and_then(Value::as_object).cloned();
        let given_inputs = given_inputs.unwrap_or_default();
        let Some(mut form) = self.source.inputs_form(&mut self.link) else {
            return Ok(true);
        };
        form.choice_source = Some(ChoiceSource { workflow: details.name, inputs: given_inputs });
        if let Some(error) = complaint {
            form.print_error_complaint(&error)?;
        }
        Ok(form.ask_fields(&fields).await?.is_none())
    }

    /// The inputs to ask for before the first attempt to start: all, or, if some were given, the required ones that are
    /// missing.
    fn select_missing_inputs(&self, fields: Vec<InputField>) -> Vec<InputField> {
        let given_inputs = self.inputs.as_ref().and_then(Value::as_object);
        let should_ask = |field: &InputField| {
            given_inputs.is_none_or(|given| {
                !given.contains_key(field.name()) && (given.is_empty() || field.is_required())
            })
        };
        fields.into_iter().filter(should_ask).collect()
    }

    /// The inputs to ask for again after a refusal. A refused name that is no declared input cannot be asked for, so it
    /// is dropped, and so are refused values. The other given values become part of the draft, so that the person can
    /// remove them.
    fn select_refused_inputs(&mut self, fields: &[InputField], error: &Error) -> Vec<InputField> {
        let inputs = self.merge_typed_inputs();
        let inputs = inputs.as_ref().and_then(Value::as_object);
        let refused_fields =
            select_violated_fields(fields, error.violations(), inputs.unwrap_or(&Map::new()));
        let is_kept = |name: &str| {
            let mut refused_fields = refused_fields.iter();
            refused_fields.all(|field| field.name() != name || field.has_kept_value())
        };
        let values = &mut self.source.draft.values;
        if let Some(Value::Object(given_values)) = self.inputs.take() {
            for (name, value) in given_values.into_iter().filter(|(name, _)| is_kept(name)) {
                values.entry(name).or_insert(value);
            }
        }
        values.retain(|name, _| fields.iter().any(|field| field.name() == name));
        self.source.draft.begin_version();
        refused_fields
    }

    /// The inputs that were given as flags, overridden by those that were typed.
    fn merge_typed_inputs(&self) -> Option<Value> {
        let typed_values = &self.source.draft.values;
        let mut merged = match &self.inputs {
            Some(Value::Object(inputs)) => inputs.clone(),
            Some(value) => return Some(value.clone()),
            None if typed_values.is_empty() => return None,
            None => Map::new(),
        };
        merged.extend(typed_values.clone());
        Some(Value::Object(merged))
    }

    /// Reads each `--input` as the type that the workflow declares, and adds it to `--inputs`.
    pub(super) async fn read_inputs(&mut self) -> Result<()> {
        if self.inputs.is_none() && self.single_inputs.is_empty() {
            return Ok(());
        }
        if self.workflow.is_none() {
            return Err(workflow_required_error());
        }
        let declared_inputs = match self.fetch_workflow_details().await {
            Ok(details) => details.inputs,
            // The start is going to be refused with this error. Continuing an existing execution does not need the
            // workflow.
            Err(error) if error.code() == Code::WorkflowNotFound => None,
            Err(error) => return Err(error),
        };
        self.has_declared_inputs = declared_inputs.is_some();
        let schemas = declared_inputs.into_iter().flatten();
        let schemas: Vec<_> = schemas.map(|input| (input.name, input.schema)).collect();
        let single_inputs = std::mem::take(&mut self.single_inputs);
        self.inputs = inputs::merge_inputs(self.inputs.take(), single_inputs, &schemas);
        Ok(())
    }

    /// Whether the name given as the workflow is the id of an execution.
    async fn is_execution_id(&mut self) -> Result<bool> {
        let name = self.workflow_name().to_owned();
        Ok(self.fetch_status(&name).await?.is_some())
    }

    /// The name of the workflow; empty if only an execution id was given.
    fn workflow_name(&self) -> &str {
        self.workflow.as_deref().unwrap_or_default()
    }

    async fn fetch_workflow_details(&mut self) -> Result<WorkflowDetails> {
        let name = uri::encode_segment(self.workflow_name());
        let address = format!("midex://workflow/workflow_details/{name}");
        parse_reply(self.link.read_resource(&address).await?)
    }

    /// Checks the step names in `--outputs` before the start: a misspelt one would otherwise be noticed only at the
    /// end.
    async fn check_output_step_names(&mut self) -> Result<()> {
        if self.source.find_unknown_name(&[]).is_none() {
            return Ok(());
        }
        let details = self.fetch_workflow_details().await?;
        let step_names = details.phases.iter().map(|step| step.phase.as_str());
        let step_names: Vec<_> = step_names.collect();
        let Some((name, place)) = self.source.find_unknown_name(&step_names) else {
            return Ok(());
        };
        if step_names.is_empty() {
            return Ok(());
        }
        let hint = format_nearest_hint(name, step_names.iter().copied());
        let message =
            format!("{place}: workflow '{}' has no step '{name}'{hint}", self.workflow_name());
        Err(Error::new(Code::UsageInvalid, message)
            .with_action("Correct the name; nothing was started"))
    }
}

fn workflow_required_error() -> Error {
    Error::new(Code::UsageInvalid, "inputs are given, but no workflow that takes them").with_action(
        "Name the workflow behind `midex run`; an execution that goes on keeps its inputs",
    )
}
