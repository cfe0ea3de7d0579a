//! Steps that ask for inputs of the workflow: of the user (`input`), or of a text (`extract`). What is accepted is an
//! input of the execution from then on, whatever becomes of the rest; what is refused is asked for again, with why.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Awaiting, Event, Execution, Failure, Need, Site, Spent, Visit,
    advance::Held,
    content::payload,
    decide::no_object,
    decision::Flow,
    draft::Draft,
    judged::{Accepted, Judged},
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

/// What a model is asked for in a step of these kinds: kept with the brief of its visit, under `question`.
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
    /// The question that a brief holds.
    pub(crate) fn of(brief: &Value) -> Self {
        let question = brief.get("question").cloned().unwrap_or_default();
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

    /// The brief with this question in it.
    fn within(&self, mut brief: Value) -> Value {
        brief["question"] = json!(self);
        brief
    }
}

/// What becomes of answers.
pub(super) struct Weighed {
    /// All inputs, with those that were accepted.
    after: Map<String, Value>,
    has_changed: bool,
    taken: Taken,
    /// What is left to be asked.
    question: Question,
    /// What keeps the step from being done.
    pub(super) violations: Vec<Violation>,
}

impl Draft<'_> {
    /// Asks for what is missing; where nothing is, or where there is no text to look into, the step is done.
    pub(super) fn ask(
        &mut self,
        position: usize,
        step: &Step,
        site: &Site,
        brief: Value,
    ) -> Flow<()> {
        let inputs = self.inputs_now()?;
        let missing = missing(step, &inputs);
        let nothing_to_ask = match &step.kind {
            StepKind::Extract { .. } => is_blank(&brief["from"]),
            _ => missing.is_empty(),
        };
        if nothing_to_ask {
            let taken = Taken::default();
            return self.done_with(position, site, output(step, &inputs, taken, &missing));
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
        let input = self.keep_brief(question.within(brief))?;
        let awaiting = Awaiting::Model(Grant::issue(self.row.at, self.ids));
        self.open(site.clone(), awaiting, Some(input));
        Ok(())
    }

    /// What would become of these answers; `None` where the step asks for no inputs.
    pub(super) fn weigh(
        &self,
        step: &Step,
        visit: Option<&Visit>,
        value: &Value,
    ) -> Flow<Option<Weighed>> {
        let Some(properties) = step.kind.asks_for() else {
            return Ok(None);
        };
        let declared = self.facts.definition.workflow.inputs.as_ref();
        let before = self.inputs_now()?;
        let asked = self.asked(visit)?;
        let Value::Object(answers) = value else {
            let taken = Taken::default();
            return Ok(Some(Weighed {
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
        Ok(Some(Weighed {
            has_changed: after != before,
            after,
            taken,
            question,
            violations,
        }))
    }

    /// The inputs that the visit of an `input` step asked for; empty where it is none.
    fn asked(&self, visit: Option<&Visit>) -> Flow<Vec<String>> {
        let Some(visit) = visit else {
            return Ok(Vec::new());
        };
        Ok(Question::of(&*self.brief_of(visit)?).asked)
    }

    /// Whether the visit looks for values in what a user said.
    fn is_in_words(&self, visit: Option<&Visit>) -> Flow<bool> {
        let Some(visit) = visit else { return Ok(false) };
        let brief = self.brief_of(visit)?;
        Ok(Question::of(&brief).utterance.is_some())
    }

    /// What was wrong with the answers that were refused for good: the inputs may be others since then, so it is read off
    /// the question that was left.
    pub(super) fn refused_for_good(
        &self,
        position: usize,
        visit: &Visit,
        value: &Value,
    ) -> Flow<Option<Vec<Violation>>> {
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
        let question = Question::of(&*self.brief_of(visit)?);
        let declared = self.facts.definition.workflow.inputs.as_ref();
        Ok(Some(question.violations(declared)))
    }

    /// What was accepted is an input from now on.
    pub(super) fn take_in(&mut self, weighed: &Weighed) -> Flow<()> {
        if weighed.has_changed {
            let inputs = Value::Object(weighed.after.clone());
            let inputs = self.keep_apart(inputs, limits::INPUTS_BYTES_MAX, "inputs")?;
            self.push(Event::InputsChanged { inputs });
        }
        Ok(())
    }

    /// What is still open is asked for, with what was wrong before.
    pub(super) fn ask_again(
        &mut self,
        site: &Site,
        visit: &Visit,
        question: &Question,
    ) -> Flow<()> {
        let brief = Value::clone(&*self.brief_of(visit)?);
        let input = self.keep_brief(question.within(brief))?;
        if visit.input != Some(input.digest) {
            let site = site.clone();
            self.push(Event::TaskChanged { site, input });
        }
        Ok(())
    }
}

impl Execution {
    /// What a model brought for a step that asks for inputs; `None` where the step asks for none.
    pub(super) fn judge_answers(
        &self,
        draft: &mut Draft<'_>,
        held: &Held<'_>,
        value: &Value,
        spent: Spent,
    ) -> Flow<Option<Judged>> {
        let (step, site) = (draft.step(held.position).acting(), held.site());
        if let StepKind::Input {
            via: Via::Elicitation,
            ..
        } = &step.kind
            && !held.is_of_user
        {
            return Err(self.of_user_alone(&site).into());
        }
        if let Some(words) = draft.utterance(step, held.visit, value)? {
            let mut question = Question::of(&*draft.brief_of(held.visit)?);
            question.refused.clear();
            question.utterance = Some(words);
            draft.ask_again(&site, held.visit, &question)?;
            draft.try_again(&site, held.visit, None, spent);
            return Ok(Some(Judged::AskedAgain));
        }
        let Some(weighed) = draft.weigh(step, Some(held.visit), value)? else {
            return Ok(None);
        };
        if !weighed.violations.is_empty() {
            let seen = held.visit.refused.contains(&meaning(value));
            let refusal = self.refusal(draft, held, value, weighed.violations.clone())?;
            let refusal = match refusal {
                Judged::Refused(error, output) => {
                    Judged::Refused(error.with_next(ASK_AGAIN), output)
                }
                refusal => refusal,
            };
            if !seen {
                draft.take_in(&weighed)?;
                draft.ask_again(&site, held.visit, &weighed.question)?;
            }
            return Ok(Some(refusal));
        }
        draft.take_in(&weighed)?;
        let in_words = draft.is_in_words(Some(held.visit))?;
        if in_words && !weighed.question.missing.is_empty() {
            return draft.still_missing(held, &weighed, spent).map(Some);
        }
        let output = output(
            step,
            &weighed.after,
            weighed.taken,
            &weighed.question.missing,
        );
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
    fn of_user_alone(&self, site: &Site) -> Error {
        let message = format!(
            "step '{}' is answered by the user alone, whom the client asks",
            site.step
        );
        let error = Error::new(Code::UserAlone, message).with("workflow", self.workflow.as_str());
        self.placed(error.with("step_id", site.step.as_str()))
    }
}

impl Draft<'_> {
    /// What a user said in words of their own, where the step lets values be taken out of that.
    fn utterance(&self, step: &Step, visit: &Visit, value: &Value) -> Flow<Option<String>> {
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
    fn still_missing(&mut self, held: &Held<'_>, weighed: &Weighed, spent: Spent) -> Flow<Judged> {
        let (site, visit) = (held.site(), held.visit);
        let message = format!(
            "what the user said left open: {}",
            weighed.question.missing.join(", ")
        );
        let failure = Failure {
            code: FailureCode::InputsMissing.into(),
            message: cut_message(&message),
            step: Some(site.step.clone()),
            item: None,
        };
        let retry = self.step(held.position).acting().retry.as_ref();
        let most = retry.map_or(limits::OUTPUT_ATTEMPTS_MAX, |retry| retry.max_attempts);
        if visit.failures + 1 >= most {
            return Ok(Judged::Failed(failure));
        }
        self.ask_again(&site, visit, &weighed.question)?;
        self.try_again(&site, visit, Some(failure), spent);
        Ok(Judged::AskedAgain)
    }

    /// The brief of a visit that a model works on.
    fn brief_of(&self, visit: &Visit) -> Flow<Arc<Value>> {
        match visit.input {
            Some(digest) => self.wanted(Need { digest, row: None }),
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
    Violation {
        path: format!("/{}", refused.property),
        rule: refused.rule.clone(),
        message: refused.message.clone(),
        expected: refused.expected.clone(),
        actual: None,
        suggestion: None,
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}
