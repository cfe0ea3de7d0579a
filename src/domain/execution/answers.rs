//! Steps that ask for inputs of the workflow: of the user (`input`), or of a text (`extract`). What is accepted is an
//! input of the execution from then on, whatever becomes of the rest; what is refused is asked for again, with why.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Awaiting, ConsumedCall, Event, Execution, Failure, Need, Visit, VisitId,
    advance::OpenTurn,
    content::payload,
    decide::no_object,
    decision::DecideResult,
    judged::{Accepted, Judged},
    transition::TransitionBuilder,
};
use crate::{
    domain::{
        FailureCode,
        definition::{Step, StepKind, Via},
        document::meaning,
        failure::cut_message,
        input::{Inputs, Taken},
        token::Grant,
    },
    error::{Code, Error, NextCall, Violation, again},
    limits,
};

/// The next call where an answer was refused.
const ASK_AGAIN: NextCall = again(
    "with what your user answers; nothing is answered in the user's place. The token stays valid",
)
.after("say again what is wrong or missing");

/// S4's name for what a user said in words of their own.
pub(crate) const UTTERANCE: &str = "userUtterance";

/// What a model is asked for in a step of these kinds: kept with the input of its visit, under `question`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The inputs that had no value when the visit of an `input` step began: an answer may set these and no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<String>,
    /// The inputs that have no value yet, in the order of the step.
    pub(crate) missing: Vec<String>,
    /// What was wrong with the answers before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<Refused>,
    /// What the user said in words of their own: the values are to be taken out of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) utterance: Option<String>,
}

/// An answer that was refused, without its value, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// The input.
    pub(crate) property: String,
    /// The rule that the answer broke.
    pub(crate) rule: String,
    /// How.
    pub(crate) message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<String>,
}

impl Question {
    /// The question that an input holds.
    pub(crate) fn of(input: &Value) -> Self {
        let question = input.get("question").cloned().unwrap_or_default();
        serde_json::from_value(question).unwrap_or_default()
    }

    /// What is left of a question: what is missing, and what was refused.
    fn left(asked: Vec<String>, missing: Vec<String>, taken: &Taken) -> Self {
        let refused = taken.rejected.iter().map(|rejected| Refused {
            property: rejected.property.clone(),
            rule: rejected.rule.clone(),
            message: rejected.message.clone(),
            expected: rejected.expected.clone(),
        });
        Self {
            asked,
            missing,
            refused: refused.collect(),
            utterance: None,
        }
    }

    /// What keeps the step from being done: what was refused, and what else is missing.
    fn violations(&self, declared: Option<&Inputs>) -> Vec<Violation> {
        let is_refused = |name: &String| {
            let mut refused = self.refused.iter();
            refused.any(|refused| refused.property == *name)
        };
        let open = self.missing.iter().filter(|name| !is_refused(name));
        let open = open.filter_map(|name| {
            let path = format!("/{name}");
            let open = declared?.unanswered(name);
            open.map(|open| Violation { path, ..open })
        });
        self.refused.iter().map(violation).chain(open).collect()
    }

    /// The input with this question in it.
    fn within(&self, mut input: Value) -> Value {
        input["question"] = json!(self);
        input
    }
}

/// What becomes of answers.
pub(super) struct AnswerCheck {
    /// All inputs, with those that were accepted.
    after: Map<String, Value>,
    has_changed: bool,
    taken: Taken,
    /// What is left to be asked.
    question: Question,
    /// What keeps the step from being done.
    pub(super) violations: Vec<Violation>,
}

impl TransitionBuilder<'_> {
    /// Asks for what is missing; where nothing is, or where there is no text to look into, the step is done.
    pub(super) fn ask(
        &mut self,
        position: usize,
        step: &Step,
        visit_id: &VisitId,
        input: Value,
    ) -> DecideResult<()> {
        let inputs = self.inputs_now()?;
        let missing = missing(step, &inputs);
        let nothing_to_ask = match &step.kind {
            StepKind::Extract { .. } => is_blank(&input["from"]),
            _ => missing.is_empty(),
        };
        if nothing_to_ask {
            let taken = Taken::default();
            return self.done_with(position, visit_id, output(step, &inputs, taken, &missing));
        }
        let asked = match &step.kind {
            StepKind::Input { .. } => missing.clone(),
            _ => Vec::new(),
        };
        let question = Question {
            asked,
            missing,
            ..Question::default()
        };
        let input = self.keep_input(question.within(input))?;
        let awaiting = Awaiting::Model(Grant::issue(self.row.at, self.ids));
        self.open(visit_id.clone(), awaiting, Some(input));
        Ok(())
    }

    /// What would become of these answers; `None` where the step asks for no inputs.
    pub(super) fn check_answers(
        &self,
        step: &Step,
        visit: Option<&Visit>,
        value: &Value,
    ) -> DecideResult<Option<AnswerCheck>> {
        let Some(properties) = step.kind.asks_for() else {
            return Ok(None);
        };
        let declared = self.facts.definition.workflow.inputs.as_ref();
        let before = self.inputs_now()?;
        let asked = self.asked(visit)?;
        let Value::Object(answers) = value else {
            let taken = Taken::default();
            return Ok(Some(AnswerCheck {
                question: Question::left(asked, missing(step, &before), &taken),
                after: before,
                has_changed: false,
                taken,
                violations: vec![no_object("", "the output")],
            }));
        };
        let names = if asked.is_empty() { properties } else { &asked };
        // To repeat what is known already sets nothing.
        let is_known = |name: &String, value: &Value| {
            !names.contains(name) && before.get(name).is_some_and(|known| known == value)
        };
        let mut answers = answers.clone();
        answers.retain(|name, value| !is_known(name, value));
        let taken = match declared {
            Some(declared) => declared.take(names, &answers),
            None => Inputs::default().take(names, &answers),
        };
        let mut after = before.clone();
        after.extend(taken.accepted.clone());
        let question = Question::left(asked, missing(step, &after), &taken);
        let from_text = matches!(step.kind, StepKind::Extract { .. }) || self.is_in_words(visit)?;
        let violations = if from_text {
            // A text says what it says: what cannot be taken out of it is part of the result.
            Vec::new()
        } else {
            question.violations(declared)
        };
        Ok(Some(AnswerCheck {
            has_changed: after != before,
            after,
            taken,
            question,
            violations,
        }))
    }

    /// The inputs that the visit of an `input` step asked for; empty where it is none.
    fn asked(&self, visit: Option<&Visit>) -> DecideResult<Vec<String>> {
        let Some(visit) = visit else {
            return Ok(Vec::new());
        };
        Ok(Question::of(&*self.input_of(visit)?).asked)
    }

    /// Whether the visit looks for values in what a user said.
    fn is_in_words(&self, visit: Option<&Visit>) -> DecideResult<bool> {
        let Some(visit) = visit else { return Ok(false) };
        let input = self.input_of(visit)?;
        Ok(Question::of(&input).utterance.is_some())
    }

    /// What was wrong with the answers that were refused for good: the inputs may be others since then, so it is read off
    /// the question that was left.
    pub(super) fn refused_for_good(
        &self,
        position: usize,
        visit: &Visit,
        value: &Value,
    ) -> DecideResult<Option<Vec<Violation>>> {
        let step = self.step(position).acting();
        let failure = visit
            .closed
            .as_ref()
            .and_then(|closed| closed.failure.as_ref());
        let is_refusal = failure.is_some_and(|failure| {
            failure.code == Code::StepOutputInvalid.as_str()
                || failure.code == Code::LimitExceeded.as_str()
        });
        if step.kind.asks_for().is_none() {
            return Ok(None);
        }
        if !is_refusal {
            return Ok(Some(Vec::new()));
        }
        if !value.is_object() {
            return Ok(Some(vec![no_object("", "the output")]));
        }
        let question = Question::of(&*self.input_of(visit)?);
        let declared = self.facts.definition.workflow.inputs.as_ref();
        Ok(Some(question.violations(declared)))
    }

    /// What was accepted is an input from now on.
    pub(super) fn take_in(&mut self, check: &AnswerCheck) -> DecideResult<()> {
        if check.has_changed {
            let inputs = Value::Object(check.after.clone());
            let inputs = self.keep_apart(inputs, limits::INPUTS_BYTES_MAX, "inputs")?;
            self.push(Event::InputsChanged { inputs });
        }
        Ok(())
    }

    /// What is still open is asked for, with what was wrong before.
    pub(super) fn update_question(
        &mut self,
        visit_id: &VisitId,
        visit: &Visit,
        question: &Question,
    ) -> DecideResult<()> {
        let input = Value::clone(&*self.input_of(visit)?);
        let input = self.keep_input(question.within(input))?;
        if visit.input != Some(input.digest) {
            let visit_id = visit_id.clone();
            self.push(Event::TaskChanged { visit_id, input });
        }
        Ok(())
    }
}

impl Execution {
    /// What a model brought for a step that asks for inputs; `None` where the step asks for none.
    pub(super) fn judge_answers(
        &self,
        builder: &mut TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        value: &Value,
        consumed: ConsumedCall,
    ) -> DecideResult<Option<Judged>> {
        let (step, visit_id) = (builder.step(turn.position).acting(), turn.visit_id());
        if let StepKind::Input {
            via: Via::Elicitation,
            ..
        } = &step.kind
            && !turn.is_of_user
        {
            return Err(self.of_user_alone(&visit_id).into());
        }
        if let Some(words) = builder.utterance(step, turn.visit, value)? {
            let mut question = Question::of(&*builder.input_of(turn.visit)?);
            question.refused.clear();
            question.utterance = Some(words);
            builder.update_question(&visit_id, turn.visit, &question)?;
            builder.reoffer(&visit_id, turn.visit, None, consumed);
            return Ok(Some(Judged::Reoffered));
        }
        let Some(check) = builder.check_answers(step, Some(turn.visit), value)? else {
            return Ok(None);
        };
        if !check.violations.is_empty() {
            let seen = turn.visit.refused.contains(&meaning(value));
            let refusal = self.refusal(builder, turn, value, check.violations.clone())?;
            let refusal = match refusal {
                Judged::Refused(error, output) => {
                    Judged::Refused(error.with_next(ASK_AGAIN), output)
                }
                refusal => refusal,
            };
            if !seen {
                builder.take_in(&check)?;
                builder.update_question(&visit_id, turn.visit, &check.question)?;
            }
            return Ok(Some(refusal));
        }
        builder.take_in(&check)?;
        let in_words = builder.is_in_words(Some(turn.visit))?;
        if in_words && !check.question.missing.is_empty() {
            return builder.still_missing(turn, &check, consumed).map(Some);
        }
        let output = output(step, &check.after, check.taken, &check.question.missing);
        let (payload, content) = payload(&output, limits::OUTPUT_BYTES_MAX, "output")?;
        Ok(Some(Judged::Accepted(Box::new(Accepted {
            output,
            payload,
            contents: content.into_iter().collect(),
            artifacts: Vec::new(),
            references: Vec::new(),
        }))))
    }
}

impl Execution {
    fn of_user_alone(&self, visit_id: &VisitId) -> Error {
        let message = format!(
            "step '{}' is answered by the user alone, whom the client asks",
            visit_id.step()
        );
        let error = Error::new(Code::UserAlone, message).with("workflow", self.workflow.as_str());
        self.placed(error.with("step_id", visit_id.step().as_str()))
    }
}

impl TransitionBuilder<'_> {
    /// What a user said in words of their own, where the step lets values be taken out of that.
    fn utterance(&self, step: &Step, visit: &Visit, value: &Value) -> DecideResult<Option<String>> {
        let StepKind::Input {
            reextract: true,
            properties,
            ..
        } = &step.kind
        else {
            return Ok(None);
        };
        let said = value.as_object().filter(|said| said.len() == 1);
        let words = said.and_then(|said| said.get(UTTERANCE)?.as_str());
        // Some bring the words alone.
        let words = words.or(value.as_str());
        let words = words.filter(|words| !words.trim().is_empty());
        let is_property = properties.iter().any(|name| name == UTTERANCE);
        if is_property || self.is_in_words(Some(visit))? {
            return Ok(None);
        }
        Ok(words.map(str::to_owned))
    }

    /// What the user said did not hold everything: the user is asked again, as often as an answer may be refused.
    fn still_missing(
        &mut self,
        turn: &OpenTurn<'_>,
        check: &AnswerCheck,
        consumed: ConsumedCall,
    ) -> DecideResult<Judged> {
        let (visit_id, visit) = (turn.visit_id(), turn.visit);
        let message = format!(
            "what the user said left open: {}",
            check.question.missing.join(", ")
        );
        let failure = Failure {
            code: FailureCode::InputsMissing.into(),
            message: cut_message(&message),
            step: visit_id.step.clone(),
            item: None,
        };
        let retry = self.step(turn.position).acting().retry.as_ref();
        let most = retry.map_or(limits::OUTPUT_ATTEMPTS_MAX, |retry| retry.max_attempts);
        if visit.failures + 1 >= most {
            return Ok(Judged::Failed(failure));
        }
        self.update_question(&visit_id, visit, &check.question)?;
        self.reoffer(&visit_id, visit, Some(failure), consumed);
        Ok(Judged::Reoffered)
    }

    /// The input of a visit.
    fn input_of(&self, visit: &Visit) -> DecideResult<Arc<Value>> {
        match visit.input {
            Some(digest) => self.wanted(Need::stored(digest)),
            None => Ok(Arc::default()),
        }
    }
}

/// The inputs that a step asks for and that have no value.
fn missing(step: &Step, inputs: &Map<String, Value>) -> Vec<String> {
    let has_none = |name: &&String| inputs.get(*name).is_none_or(Value::is_null);
    let names = step.kind.asks_for().unwrap_or_default().iter();
    names.filter(has_none).cloned().collect()
}

/// What the step comes to: for `input` the values of all its properties, for `extract` what was found and what not.
fn output(step: &Step, inputs: &Map<String, Value>, taken: Taken, missing: &[String]) -> Value {
    if let StepKind::Extract { .. } = &step.kind {
        let rejected = taken.rejected.into_iter().map(|rejected| {
            json!({
                "property": rejected.property, "value": rejected.value,
                "rule": rejected.rule, "message": rejected.message
            })
        });
        let rejected: Vec<_> = rejected.collect();
        return json!({ "extracted": taken.accepted, "missing": missing, "rejected": rejected });
    }
    let names = step.kind.asks_for().unwrap_or_default().iter();
    let value = |name: &String| (name.clone(), inputs.get(name).cloned().unwrap_or_default());
    Value::Object(names.map(value).collect())
}

fn violation(refused: &Refused) -> Violation {
    let path = format!("/{}", refused.property);
    Violation {
        expected: refused.expected.clone(),
        ..Violation::new(path, &refused.rule, &refused.message)
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}
