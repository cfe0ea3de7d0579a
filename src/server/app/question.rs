//! Questions to the user of an execution, as forms: the missing inputs of a step, and approvals.

use serde_json::{Map, Value, json};

use super::App;
#[cfg(feature = "catalog")]
use midex_domain::input::Choices;
use midex_domain::{
    Digest, ExecutionId, StepId,
    document::canonical_digest,
    error::{Code, Error, Result},
    event::Channel,
    execution::{GateAnswer, Report},
    limits,
    view::{CurrentStep, ReadyStep, WaitView},
};

/// A question that an execution has for the user.
#[derive(Clone, Debug)]
pub struct UserQuestion {
    /// Identifies the question while it is open. A new token leaves it as it is; a different question has a different key.
    pub key: String,
    /// The question.
    pub message: String,
    /// The JSON Schema of the form: an object with primitive values.
    pub schema: Value,
    /// The step that asks.
    pub step_name: String,
    /// The execution that asks.
    #[cfg_attr(not(feature = "catalog"), expect(dead_code, reason = "catalogs have providers"))]
    pub(super) execution_id: ExecutionId,
    /// Whether a provider lists the choices of an input.
    #[cfg_attr(not(feature = "catalog"), expect(dead_code, reason = "catalogs have providers"))]
    pub(super) has_provider: bool,
    subject: QuestionSubject,
}

#[derive(Clone, Debug)]
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

impl UserQuestion {
    /// The questions that are open in the execution of this view: its gates, then its steps that ask for inputs.
    pub fn list_open(step: &CurrentStep) -> Vec<Self> {
        let Ok(id) = ExecutionId::parse(&step.execution_id) else {
            return Vec::new();
        };
        let gates = step.waits.iter().filter_map(|wait| build_gate_question(&id, wait));
        let inputs = step.ready_steps.iter().filter(|step| step.step.kind == "input");
        gates.chain(inputs.filter_map(|step| build_inputs_question(&id, step))).collect()
    }

    /// Whether its form has a field of this name.
    #[cfg(feature = "catalog")]
    pub(super) fn asks_for(&self, name: &str) -> bool {
        self.schema["properties"].get(name).is_some()
    }

    /// Offers choices in the field of this name, if they are all there are, and all are texts.
    #[cfg(feature = "catalog")]
    pub(super) fn offer(&mut self, name: &str, choices: &Choices) {
        let Choices { choices, has_more } = choices;
        let field = self.schema["properties"].get_mut(name);
        let is_complete = !choices.is_empty() && !has_more;
        if let Some(field) = field.filter(|field| is_complete && field["type"] == "string")
            && choices.iter().all(|choice| choice.value.is_string())
        {
            field["enum"] = choices.iter().map(|choice| choice.value.clone()).collect();
            field["enumNames"] = choices.iter().map(|choice| choice.label.as_str()).collect();
        }
    }

    /// Whether it asks for the answer to a gate.
    pub const fn is_gate(&self) -> bool {
        matches!(self.subject, QuestionSubject::Gate { .. })
    }
}

impl App {
    /// Submits the answer that `person` gave in the form of a question.
    ///
    /// # Errors
    /// `STEP_OUTPUT_INVALID` if the form has not what was asked for: the question stays open. Those of
    /// [`App::next_step`] and [`App::command`], if somebody answered before.
    pub async fn answer_question(
        &self,
        question: &UserQuestion,
        form: Value,
        person: String,
    ) -> Result<()> {
        match &question.subject {
            QuestionSubject::Inputs { token } => {
                self.next_step(token, Report::Answer(form)).await.map(drop)
            }
            QuestionSubject::Gate { execution, wait } => {
                let answer = parse_gate_decision(person, wait, &form)?;
                self.command(execution, answer).await.map(drop)
            }
        }
    }
}

fn build_gate_question(id: &ExecutionId, wait: &WaitView) -> Option<UserQuestion> {
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
    Some(UserQuestion {
        key: format!("gate:{id}:{}:{}:{}", wait.step_name, wait.visit, gate.shown),
        message,
        schema,
        step_name: wait.step_name.clone(),
        execution_id: id.clone(),
        has_provider: false,
        subject: QuestionSubject::Gate { execution: id.clone(), wait: Box::new(wait.clone()) },
    })
}

/// The form for missing inputs. `None` if the author asks for them in another way, or if one of them cannot be a form
/// field.
fn build_inputs_question(id: &ExecutionId, step: &ReadyStep) -> Option<UserQuestion> {
    let input = step.step.input.as_ref()?;
    if input["via"] == "guidance" || input["from"].is_string() {
        return None;
    }
    let (mut fields, mut names, mut has_provider) = (Map::new(), Vec::new(), false);
    for property in input["properties"].as_array()? {
        let name = property["name"].as_str()?;
        fields.insert(name.to_owned(), build_form_field(property)?);
        names.push(json!(name));
        has_provider |= property["provider"].is_string();
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
    let (name, turn) = (&step.step_name, &step.step);
    Some(UserQuestion {
        key: format!(
            "input:{id}:{name}:{}:{}:{}:{}",
            turn.visit,
            turn.attempt,
            turn.refused_count,
            canonical_digest(input)
        ),
        message,
        schema: json!({ "type": "object", "properties": fields, "required": names }),
        step_name: name.clone(),
        execution_id: id.clone(),
        has_provider,
        subject: QuestionSubject::Inputs { token: step.continuation_token.clone() },
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

/// Reads a gate decision from a form.
fn parse_gate_decision(person: String, wait: &WaitView, form: &Value) -> Result<GateAnswer> {
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
        person,
        channel: Channel::Elicitation,
        comment: comment.filter(|comment| !comment.is_empty()).map(str::to_owned),
    })
}
