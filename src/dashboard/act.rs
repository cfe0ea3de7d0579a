//! What the forms do: each calls one tool, as the command of the same name does.

use serde_json::{Map, Value, json};

use crate::{
    access::{Proof, is_equal},
    html::execution_path,
    replies::error_response,
    state::Dashboard,
    viewer::Viewer,
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    event::Channel,
};
use midex_http::web::{Extension, Form, IntoResponse, Path, Redirect, Response, State};
use midex_mcp::client::remove_nulls;

/// The prefix of the fields that have the inputs of a start.
pub(crate) const INPUT_PREFIX: &str = "input.";
/// The value of the field `kind.NAME` of an input that is written as it is, and not as JSON.
pub(crate) const TEXT_KIND: &str = "string";

/// Does what a form asks for, and leads back to the page.
pub(crate) async fn act(
    State(dashboard): State<Dashboard>,
    Path(action): Path<String>,
    proof: Extension<Proof>,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let form = ActionForm(fields);
    let back = form.back_path();
    let result = check_form(&dashboard, &form, proof.0);
    let result = match result {
        Ok(()) => form.perform(&dashboard.viewer, &action).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(path) => Redirect::to(&path.unwrap_or(back)).into_response(),
        Err(error) => error_response(&dashboard.viewer, &error, &back),
    }
}

/// Refuses a form that no page of this dashboard made.
fn check_form(dashboard: &Dashboard, form: &ActionForm, proof: Proof) -> Result<()> {
    if dashboard.viewer.is_read_only {
        let message = "the dashboard is read-only: it was started with --read-only, or --dashboard-read-only of `midex serve`";
        return Err(Error::new(Code::Forbidden, message));
    }
    let form_token = form.text("form_token").unwrap_or_default();
    if proof == Proof::Cookie && !is_equal(form_token, &dashboard.viewer.form_token) {
        let message = "the form is not from this dashboard, or the dashboard was started anew: load the page again";
        return Err(Error::new(Code::Forbidden, message));
    }
    Ok(())
}

/// The fields of a form.
struct ActionForm(Vec<(String, String)>);

impl ActionForm {
    /// The value of a field; `None` if it is missing or empty.
    fn text(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.trim().is_empty())
    }

    fn required(&self, name: &str) -> Result<&str> {
        self.text(name).ok_or_else(|| {
            Error::argument_rule(&format!("/{name}"), "required", &format!("`{name}` is missing"))
        })
    }

    fn number(&self, name: &str) -> Result<Option<u64>> {
        let parse = |text: &str| {
            let message = format!("`{name}` is no number");
            text.parse().map_err(|_| Error::argument_rule(&format!("/{name}"), "type", &message))
        };
        self.text(name).map(parse).transpose()
    }

    /// The JSON value of a field.
    fn json(&self, name: &str) -> Result<Option<Value>> {
        self.text(name).map(|text| parse_json(name, text)).transpose()
    }

    /// The page to lead back to: a path of this dashboard.
    fn back_path(&self) -> String {
        let path =
            self.text("back").filter(|path| path.starts_with('/') && !path.starts_with("//"));
        path.filter(|path| !path.contains('\\')).unwrap_or("/").to_owned()
    }

    /// The executions that are meant.
    fn execution_ids(&self) -> Result<Vec<&str>> {
        let ids =
            self.0.iter().filter(|(name, _)| name == "execution_id").map(|(_, id)| id.as_str());
        let ids: Vec<_> = ids.collect();
        if ids.is_empty() {
            return Err(Error::argument_rule(
                "/execution_id",
                "required",
                "no execution is selected",
            ));
        }
        Ok(ids)
    }

    /// The reason that is stored with a change: who made it, after what that person wrote.
    fn signed_reason(&self, viewer: &Viewer, verb: &str) -> String {
        let by = format!("{verb} by {} in the dashboard", viewer.person);
        match self.text("reason") {
            Some(reason) => format!("{reason} ({by})"),
            None => by,
        }
    }

    /// Performs the action. Returns the path of the page to show, if it is another one than before.
    async fn perform(&self, viewer: &Viewer, action: &str) -> Result<Option<String>> {
        match action {
            "pause" => self.change_states(viewer, "execution.pause", "paused").await,
            "resume" => self.change_states(viewer, "execution.resume", "resumed").await,
            "abandon" => self.change_states(viewer, "execution.abandon", "abandoned").await,
            "approve" => self.approve(viewer).await,
            "answer" => self.answer(viewer).await,
            "signal" => self.signal(viewer).await,
            "resolve" => self.resolve(viewer).await,
            "retry" => self.retry(viewer).await,
            "fork" => self.fork(viewer).await,
            "rewind" => self.rewind(viewer).await,
            "start" => self.start(viewer).await,
            _ => {
                let message = format!("there is no action `{action}`");
                Err(Error::new(Code::ResourceNotFound, message))
            }
        }
    }

    /// Changes the state of the selected executions. All are tried; the first refusal is reported.
    async fn change_states(
        &self,
        viewer: &Viewer,
        tool: &'static str,
        verb: &str,
    ) -> Result<Option<String>> {
        let reason = self.signed_reason(viewer, verb);
        let ids = self.execution_ids()?;
        let (count, mut refusals) = (ids.len(), Vec::new());
        for id in ids {
            let arguments = json!({ "execution_id": id, "reason": reason });
            if let Err(error) = viewer.source.call::<Value>(tool, arguments).await {
                refusals.push((id, error));
            }
        }
        match refusals.as_slice() {
            [] => Ok(None),
            [(_, error)] if count == 1 => Err(error.clone()),
            [(id, error), ..] => {
                let message = format!(
                    "{} of {count} could not be {verb}; the first, '{id}': {}",
                    refusals.len(),
                    error.message()
                );
                Err(error.clone().with_message(message))
            }
        }
    }

    async fn approve(&self, viewer: &Viewer) -> Result<Option<String>> {
        let arguments = json!({
            "execution_id": self.required("execution_id")?,
            "step_name": self.required("step_name")?,
            "visit": self.number("visit")?,
            "shown": self.required("shown")?,
            "approved": self.required("answer")? == "approve",
            "by": *viewer.person,
            "comment": self.text("comment"),
            "via": Channel::Dashboard.as_str(),
        });
        change(viewer, "execution.approve", arguments).await
    }

    async fn answer(&self, viewer: &Viewer) -> Result<Option<String>> {
        let output = self.json("output")?.ok_or_else(|| {
            Error::argument_rule("/output", "required", "the answer is empty: it is JSON")
        })?;
        let arguments = json!({ "token": self.required("token")?, "output": output });
        change(viewer, "execution.answer", arguments).await
    }

    async fn signal(&self, viewer: &Viewer) -> Result<Option<String>> {
        let arguments = json!({
            "execution_id": self.required("execution_id")?,
            "signal": self.required("signal")?,
            "payload": self.json("payload")?,
        });
        change(viewer, "execution.signal", arguments).await
    }

    async fn resolve(&self, viewer: &Viewer) -> Result<Option<String>> {
        let verdict = self.required("verdict")?;
        let arguments = json!({
            "execution_id": self.required("execution_id")?,
            "step_name": self.required("step_name")?,
            "visit": self.number("visit")?,
            "attempt": self.number("attempt")?,
            "item": self.number("item")?,
            "verdict": verdict,
            "message": self.text("message").filter(|_| verdict == "failed"),
        });
        let mut arguments = remove_nulls(arguments);
        if verdict == "output" {
            // Null is an output too.
            arguments["output"] = self.json("output")?.unwrap_or_default();
        }
        viewer.source.call::<Value>("execution.resolve", arguments).await.map(|_| None)
    }

    /// Retries an execution. With other inputs that is a fork from the step.
    async fn retry(&self, viewer: &Viewer) -> Result<Option<String>> {
        let id = self.required("execution_id")?;
        let definition = self.text("with_current_file").map(|_| "current");
        let inputs = self.json("inputs")?.filter(|inputs| {
            // The form has the inputs as they are.
            self.json("inputs_before").is_ok_and(|before| before.as_ref() != Some(inputs))
        });
        let (tool, arguments) = match inputs {
            Some(inputs) => (
                "execution.fork",
                json!({ "execution_id": id, "from_step": self.required("from_step")?, "inputs": inputs, "definition": definition }),
            ),
            None => (
                "execution.retry",
                json!({ "execution_id": id, "from_step": self.text("from_step"), "definition": definition }),
            ),
        };
        begin(viewer, tool, arguments).await
    }

    async fn fork(&self, viewer: &Viewer) -> Result<Option<String>> {
        let arguments = json!({ "execution_id": self.required("execution_id")? });
        begin(viewer, "execution.fork", arguments).await
    }

    async fn rewind(&self, viewer: &Viewer) -> Result<Option<String>> {
        let arguments = json!({
            "execution_id": self.required("execution_id")?,
            "to_step": self.required("to_step")?,
            "reason": self.signed_reason(viewer, "rewound"),
            "compensate": self.text("compensate").map(|_| true),
        });
        change(viewer, "execution.rewind", arguments).await
    }

    /// Starts a workflow. The form has an id, so a form that is sent twice starts one execution.
    async fn start(&self, viewer: &Viewer) -> Result<Option<String>> {
        let arguments = json!({
            "workflow_name": self.required("workflow_name")?,
            "execution_id": self.text("execution_id"),
            "inputs": self.inputs()?,
        });
        begin(viewer, "workflow.start", arguments).await
    }

    /// The inputs of a start: the fields of the inputs, each as text or as JSON, by its kind. An empty field is left out.
    fn inputs(&self) -> Result<Value> {
        let mut inputs = match self.json("inputs")? {
            Some(Value::Object(inputs)) => inputs,
            Some(_) => {
                return Err(Error::argument_rule(
                    "/inputs",
                    "type",
                    "the inputs are a JSON object",
                ));
            }
            None => Map::new(),
        };
        let mut violations = Vec::new();
        for (field, text) in &self.0 {
            let Some(name) = field.strip_prefix(INPUT_PREFIX).filter(|_| !text.is_empty()) else {
                continue;
            };
            let is_text = self.text(&format!("kind.{name}")) == Some(TEXT_KIND);
            let value = if is_text { Ok(json!(text)) } else { serde_json::from_str(text) };
            match value {
                Ok(value) => drop(inputs.insert(name.to_owned(), value)),
                Err(error) => violations.push(Violation::new(
                    format!("/{name}"),
                    "type",
                    format!("not JSON: {error}"),
                )),
            }
        }
        if violations.is_empty() {
            return Ok(Value::Object(inputs));
        }
        Err(Error::new(Code::ArgumentsInvalid, "these inputs cannot be read")
            .with_violations(violations))
    }
}

/// Changes an execution; the page before is shown again.
async fn change(viewer: &Viewer, tool: &'static str, arguments: Value) -> Result<Option<String>> {
    viewer.source.call::<Value>(tool, remove_nulls(arguments)).await.map(|_| None)
}

/// Begins an execution. Returns the path of its page.
async fn begin(viewer: &Viewer, tool: &'static str, arguments: Value) -> Result<Option<String>> {
    let reply: Value = viewer.source.call(tool, remove_nulls(arguments)).await?;
    Ok(reply["execution_id"].as_str().map(execution_path))
}

fn parse_json(name: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Error::argument_rule(
            &format!("/{name}"),
            "format",
            &format!("`{name}` is not JSON: {error}"),
        )
    })
}
