//! Steps that ask for inputs of the workflow: `input` asks the user, `extract` reads them from a text. An accepted
//! value becomes an input of the execution at once, even if other values are refused; refused values are asked for
//! again, with the reason.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Event, Execution, Failure, ValueReference, Visit, VisitId,
    decide::not_an_object_violation,
    decision::DecideResult,
    judge::{AcceptedOutput, OpenTurn, ReportJudgement},
    transition::{TransitionBuilder, make_payload},
};
use crate::{
    FailureCode,
    definition::{InputChannel, Step, StepKind},
    error::{Code, Error, NextCall, Violation, repeat_call},
    id::StepId,
    input::{AnswerViolation, Inputs, ResolvedAnswers},
    limits,
};

/// The next call to suggest after a refused answer.
const ASK_AGAIN_NEXT_CALL: NextCall = repeat_call(
    "bring what your user answers; nothing is answered in the user's place. The token stays valid",
)
.after_person_does("say again what is wrong or missing");

/// The field of an answer that holds the user's own words.
pub const UTTERANCE_FIELD: &str = "userUtterance";

/// What an `input` or `extract` step asks a model for: stored in the input of the visit, under `question`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The inputs that had no value when the visit of an `input` step began: an answer may set these and no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<String>,
    /// The inputs that have no value yet, in the order in which the step lists them.
    pub(crate) missing: Vec<String>,
    /// The values that were refused in the last answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<AnswerViolation>,
    /// The user's own words, from which the model is to extract the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) utterance: Option<String>,
}

impl Question {
    /// A question for these inputs, some of whose earlier values were refused.
    pub(crate) fn new(missing: Vec<String>, refused: Vec<AnswerViolation>) -> Self {
        Self { missing, refused, ..Self::default() }
    }

    /// Reads the question from the input of a visit; the default if there is none.
    pub(crate) fn from_visit_input(input: &Value) -> Self {
        let question = input.get("question").cloned().unwrap_or_default();
        serde_json::from_value(question).unwrap_or_default()
    }

    /// The question for the next attempt: the missing inputs, and the values that were refused.
    fn for_next_attempt(
        asked: Vec<String>,
        missing: Vec<String>,
        answers: &ResolvedAnswers,
    ) -> Self {
        Self { asked, missing, refused: answers.rejected.clone(), utterance: None }
    }

    /// The violations that keep the step open: refused values first, then missing inputs that have no refused value.
    fn violations(&self, declared: Option<&Inputs>) -> Vec<Violation> {
        let is_refused = |name: &String| {
            let mut refused = self.refused.iter();
            refused.any(|refused| refused.property == *name)
        };
        let unanswered = self.missing.iter().filter(|name| !is_refused(name));
        let unanswered_violations = unanswered.filter_map(|name| {
            let path = format!("/{name}");
            let violation = declared?.unanswered_violation(name);
            violation.map(|open| Violation { path, ..open })
        });
        self.refused
            .iter()
            .map(|refused| refused.to_violation(""))
            .chain(unanswered_violations)
            .collect()
    }

    /// Adds this question to the input of a visit.
    fn add_to_input(&self, mut input: Value) -> Value {
        input["question"] = json!(self);
        input
    }
}

/// The result of checking answers.
struct AnswerCheck {
    /// All inputs, including the accepted values.
    inputs: Map<String, Value>,
    has_changed: bool,
    answers: ResolvedAnswers,
    /// The question for the next attempt.
    question: Question,
    /// The violations that keep the step open.
    violations: Vec<Violation>,
}

impl TransitionBuilder<'_> {
    /// Opens a turn that asks for the missing inputs. Completes the step at once if an `input` step misses none, or if
    /// the text of an `extract` step is blank.
    pub(super) fn open_question(
        &mut self,
        position: usize,
        step: &Step,
        visit_id: &VisitId,
        input: Value,
    ) -> DecideResult<()> {
        let inputs = self.load_current_inputs()?;
        let missing = list_missing_inputs(step, &inputs);
        let has_nothing_to_ask = match &step.kind {
            StepKind::Extract { .. } => is_blank(&input["from"]),
            _ => missing.is_empty(),
        };
        if has_nothing_to_ask {
            let output = build_answer_output(step, &inputs, ResolvedAnswers::default(), &missing);
            self.offer_options(position, visit_id, &output, None)?;
            return self.complete_at_once(position, visit_id, output);
        }
        let asked = match &step.kind {
            StepKind::Input { .. } => missing.clone(),
            _ => Vec::new(),
        };
        let question = Question { asked, missing, ..Question::default() };
        let input = self.store_visit_input(question.add_to_input(input))?;
        self.open_visit(visit_id.clone(), self.wait_for_new_token(), Some(input));
        Ok(())
    }

    /// Checks answers against the question of a step, without changing anything.
    fn check_answers(
        &self,
        step: &Step,
        question: &Question,
        value: &Value,
    ) -> DecideResult<AnswerCheck> {
        let properties = step.kind.requested_inputs().unwrap_or_default();
        let declared = self.context.definition.workflow.inputs.as_ref();
        let inputs = self.load_current_inputs()?;
        let asked = &question.asked;
        let names = if asked.is_empty() { properties } else { asked };
        // An input that was not asked for may be repeated with its current value; that changes nothing.
        let is_unchanged = |name: &String, value: &Value| {
            !names.contains(name) && inputs.get(name).is_some_and(|known| known == value)
        };
        let mut answers = value.as_object().cloned().unwrap_or_default();
        answers.retain(|name, value| !is_unchanged(name, value));
        let resolved = match declared {
            Some(declared) => declared.validate_answers(names, &answers),
            None => Inputs::default().validate_answers(names, &answers),
        };
        let mut new_inputs = inputs.clone();
        new_inputs.extend(resolved.accepted.clone());
        let next_question = Question::for_next_attempt(
            asked.clone(),
            list_missing_inputs(step, &new_inputs),
            &resolved,
        );
        let from_text =
            matches!(step.kind, StepKind::Extract { .. }) || question.utterance.is_some();
        let violations = match value {
            // A text cannot be corrected, so values that it lacks are part of the result and no violation.
            Value::Object(_) if from_text => Vec::new(),
            Value::Object(_) => next_question.violations(declared),
            _ => vec![not_an_object_violation("", "the output")],
        };
        Ok(AnswerCheck {
            has_changed: new_inputs != inputs,
            inputs: new_inputs,
            answers: resolved,
            question: next_question,
            violations,
        })
    }

    /// The violations of an output that was refused for the last time, for a repeat of that call.
    pub(super) fn find_repeated_call_violations(
        &self,
        position: usize,
        visit: Option<&Visit>,
        value: &Value,
    ) -> DecideResult<Vec<Violation>> {
        let step = self.step(position).acting_step();
        match visit {
            _ if step.kind.requested_inputs().is_none() => {
                let split_output = self.split_suggestions(position, value);
                let violations =
                    self.find_model_output_violations(position, value, split_output.as_ref());
                let call = self.find_utility_call(position, visit)?;
                let refused = call.and_then(|call| call.check_result(value).err());
                Ok(if violations.is_empty() { refused.unwrap_or_default() } else { violations })
            }
            Some(visit) => self.find_final_refusal_violations(visit, value),
            None => {
                let check = self.check_answers(step, &Question::default(), value)?;
                Ok(check.violations)
            }
        }
    }

    /// The question of a visit.
    fn load_question(&self, visit: &Visit) -> DecideResult<Question> {
        Ok(Question::from_visit_input(&*self.load_visit_input(visit)?))
    }

    /// The violations of answers whose refusal ended the visit. The inputs may have changed since, so they are computed
    /// from the question that was stored with the visit.
    fn find_final_refusal_violations(
        &self,
        visit: &Visit,
        value: &Value,
    ) -> DecideResult<Vec<Violation>> {
        let closed = visit.closed.as_ref();
        let failure = closed.and_then(|closed| closed.failure.as_ref());
        let refusals = [Code::StepOutputInvalid, Code::LimitExceeded].map(Code::as_str);
        if failure.is_none_or(|failure| !refusals.contains(&&*failure.code)) {
            return Ok(Vec::new());
        }
        if !value.is_object() {
            return Ok(vec![not_an_object_violation("", "the output")]);
        }
        let declared = self.context.definition.workflow.inputs.as_ref();
        Ok(self.load_question(visit)?.violations(declared))
    }

    /// Stores the accepted values as inputs of the execution.
    fn store_accepted_answers(&mut self, check: &AnswerCheck) -> DecideResult<()> {
        if check.has_changed {
            let inputs = Value::Object(check.inputs.clone());
            let inputs = self.store_value_by_digest(inputs, limits::INPUTS_BYTES_MAX, "inputs")?;
            self.push_event(Event::InputsChanged { inputs });
        }
        Ok(())
    }

    /// Replaces the question of the visit, if it changed.
    fn update_question(&mut self, turn: &OpenTurn<'_>, question: &Question) -> DecideResult<()> {
        let input = Value::clone(&*self.load_visit_input(turn.visit)?);
        let input = self.store_visit_input(question.add_to_input(input))?;
        if turn.visit.input != Some(input.digest) {
            let visit_id = turn.visit_id();
            self.push_event(Event::TaskChanged { visit_id, input });
        }
        Ok(())
    }
}

impl Execution {
    /// Judges the report of a step that asks for inputs.
    pub(super) fn judge_answers(
        &self,
        builder: &mut TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        value: &Value,
    ) -> DecideResult<ReportJudgement> {
        let step = builder.step(turn.position).acting_step();
        let is_elicited =
            matches!(&step.kind, StepKind::Input { via, .. } if *via == InputChannel::Elicitation);
        if is_elicited && !turn.is_user_answer {
            return Err(self.only_user_may_answer_error(&turn.step.id).into());
        }
        let mut question = builder.load_question(turn.visit)?;
        if let Some(words) = parse_utterance(step, &question, value) {
            question.refused.clear();
            question.utterance = Some(words);
            builder.update_question(turn, &question)?;
            builder.reoffer_turn(turn, None);
            return Ok(ReportJudgement::Reoffered);
        }
        let check = builder.check_answers(step, &question, value)?;
        if !check.violations.is_empty() {
            let refusal =
                self.judge_malformed_output(builder, turn, value, check.violations.clone())?;
            builder.store_accepted_answers(&check)?;
            builder.update_question(turn, &check.question)?;
            return Ok(match refusal {
                ReportJudgement::Refused(error, output) => {
                    ReportJudgement::Refused(error.with_next(ASK_AGAIN_NEXT_CALL), output)
                }
                refusal => refusal,
            });
        }
        builder.store_accepted_answers(&check)?;
        let missing = &check.question.missing;
        if question.utterance.is_some() && !missing.is_empty() {
            return builder.ask_for_missing_values(turn, &check.question);
        }
        let output = build_answer_output(step, &check.inputs, check.answers, missing);
        let payload = make_payload(&output, limits::OUTPUT_BYTES_MAX, "output")?;
        Ok(ReportJudgement::Accepted(Box::new(AcceptedOutput::without_artifacts(output, payload))))
    }

    fn only_user_may_answer_error(&self, step: &StepId) -> Error {
        let message = format!("step '{step}' is answered by the user alone, whom the client asks");
        let error = self.step_error(Code::UserAlone, step, message);
        error.with_context("workflow", self.workflow.as_str())
    }
}

/// The user's own words, if the answer consists of nothing else and the step has `reextract`. Not accepted while the
/// question already holds words to extract from.
fn parse_utterance(step: &Step, question: &Question, value: &Value) -> Option<String> {
    let StepKind::Input { reextract: true, properties, .. } = &step.kind else {
        return None;
    };
    if question.utterance.is_some() || properties.iter().any(|name| name == UTTERANCE_FIELD) {
        return None;
    }
    let object = value.as_object().filter(|said| said.len() == 1);
    let words = object.and_then(|said| said.get(UTTERANCE_FIELD)?.as_str());
    // Some clients send the words as a plain string.
    let words = words.or(value.as_str())?;
    (!words.trim().is_empty()).then(|| words.to_owned())
}

impl TransitionBuilder<'_> {
    /// The user's words did not contain every value: asks again with a new token, up to `retry.max_attempts` or else
    /// [`limits::OUTPUT_ATTEMPTS_MAX`] attempts.
    fn ask_for_missing_values(
        &mut self,
        turn: &OpenTurn<'_>,
        question: &Question,
    ) -> DecideResult<ReportJudgement> {
        let missing_names = question.missing.join(", ");
        let message = format!("what the user said left open: {missing_names}");
        let failure = Failure::new(FailureCode::InputsMissing, message, Some(&turn.step.id));
        let retry = self.step(turn.position).acting_step().retry.as_ref();
        let max_attempts = retry.map_or(limits::OUTPUT_ATTEMPTS_MAX, |retry| retry.max_attempts);
        if turn.visit.failures + 1 >= max_attempts {
            return Ok(ReportJudgement::Failed(failure));
        }
        self.update_question(turn, question)?;
        self.reoffer_turn(turn, Some(failure));
        Ok(ReportJudgement::Reoffered)
    }

    /// The input of a visit.
    pub(super) fn load_visit_input(&self, visit: &Visit) -> DecideResult<Arc<Value>> {
        match visit.input {
            Some(digest) => self.require_value(ValueReference::by_digest(digest)),
            None => Ok(Arc::default()),
        }
    }
}

/// The inputs that a step asks for and that have no value.
fn list_missing_inputs(step: &Step, inputs: &Map<String, Value>) -> Vec<String> {
    let is_missing = |name: &&String| inputs.get(*name).is_none_or(Value::is_null);
    let names = step.kind.requested_inputs().unwrap_or_default().iter();
    names.filter(is_missing).cloned().collect()
}

/// The output of the step: for `input` the values of all its properties, for `extract` the accepted, missing and
/// rejected values.
fn build_answer_output(
    step: &Step,
    inputs: &Map<String, Value>,
    answers: ResolvedAnswers,
    missing: &[String],
) -> Value {
    if let StepKind::Extract { .. } = &step.kind {
        let rejected = answers.rejected.into_iter().map(|rejected| {
            json!({
                "property": rejected.property, "value": rejected.value,
                "rule": rejected.rule, "message": rejected.message
            })
        });
        let rejected: Vec<_> = rejected.collect();
        return json!({ "extracted": answers.accepted, "missing": missing, "rejected": rejected });
    }
    let names = step.kind.requested_inputs().unwrap_or_default().iter();
    let value = |name: &String| (name.clone(), inputs.get(name).cloned().unwrap_or_default());
    Value::Object(names.map(value).collect())
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}
