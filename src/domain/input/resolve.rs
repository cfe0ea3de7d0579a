//! Validates the values that a caller gives for inputs. All violations are reported at once. No message contains a
//! value, since values may be secret.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DefaultSources, Input, Inputs};
use crate::{error::Violation, limits, nearest::format_nearest_hint, truncate};

/// The result of validating answers to questions for inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedAnswers {
    /// The valid answers.
    pub accepted: Map<String, Value>,
    /// The invalid answers, one entry for each violation.
    pub rejected: Vec<AnswerViolation>,
    /// The names that were asked for and have no valid answer, in the order of the question.
    pub missing: Vec<String>,
}

impl AnswerViolation {
    /// The violation of an output that has the answer below `path`, a JSON pointer.
    pub(crate) fn to_violation(&self, path: &str) -> Violation {
        let path = format!("{path}/{}", self.property);
        Violation {
            expected: self.expected.clone(),
            ..Violation::new(path, &self.rule, &self.message)
        }
    }
}

/// A refused answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerViolation {
    /// The name of the input.
    pub property: String,
    /// The answer. It is not kept with the question, because it may be secret.
    #[serde(skip)]
    pub value: Value,
    /// The violated rule.
    pub rule: String,
    /// The message for a reader, which contains nothing of the answer.
    pub message: String,
    /// A description of the values that are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

impl Inputs {
    /// The inputs of an execution: the given values, then defaults, in the order of declaration. An optional input
    /// without either is null. `null` counts as not given; `false`, `0` and `""` count as given.
    ///
    /// # Errors
    /// All violations, at most [`limits::VIOLATIONS_MAX`]. Their messages contain no values.
    pub fn resolve(
        &self,
        provided: &Map<String, Value>,
        sources: &DefaultSources,
    ) -> Result<Map<String, Value>, Vec<Violation>> {
        let mut violations = self.unknown_input_violations(provided);
        let mut resolved = Map::new();
        for (position, input) in self.iter().enumerate() {
            let value = provided.get(input.key.as_str());
            match self.resolve_input_value(position, input, value, sources) {
                Ok(value) => drop(resolved.insert(input.key.as_str().to_owned(), value)),
                Err(more) => violations.extend(more),
            }
        }
        if violations.is_empty() {
            return Ok(resolved);
        }
        violations.truncate(limits::VIOLATIONS_MAX);
        Err(violations)
    }

    /// A violation for each given name that is no declared input.
    pub(super) fn unknown_input_violations(&self, provided: &Map<String, Value>) -> Vec<Violation> {
        let unknown = provided.keys().filter(|name| self.find_input(name).is_none());
        let unknown = unknown.take(limits::VIOLATIONS_MAX);
        unknown.map(|name| self.unknown_input_violation(name)).collect()
    }

    pub(super) fn resolve_input_value(
        &self,
        position: usize,
        input: &Input,
        provided: Option<&Value>,
        sources: &DefaultSources,
    ) -> Result<Value, Vec<Violation>> {
        let is_valid = |value: &Value| self.find_violations(position, input, value, "").is_empty();
        let (value, origin) = match provided.filter(|value| !value.is_null()) {
            Some(value) => (Some(value.clone()), String::new()),
            None => (input.default_value(sources, is_valid), input.default_origin()),
        };
        let Some(value) = value else {
            return if input.optional {
                Ok(Value::Null)
            } else {
                Err(vec![missing_input_violation(input, provided)])
            };
        };
        let violations = self.find_violations(position, input, &value, &origin);
        if violations.is_empty() { Ok(value) } else { Err(violations) }
    }

    /// All violations of the rules of the input at `position`.
    fn find_violations(
        &self,
        position: usize,
        input: &Input,
        value: &Value,
        origin: &str,
    ) -> Vec<Violation> {
        let Some(schema) = self.compiled_constraints(position) else {
            return Vec::new();
        };
        let name = format!("`{}`{origin}", input.key);
        // The inputs share the step budget of one output validation.
        let steps = limits::SCHEMA_STEPS_MAX / self.names().count().max(1) as u64;
        let violations = schema.find_violations_within(value, &name, steps).into_iter();
        violations
            .map(|violation| Violation {
                path: format!("inputs.{}", input.key),
                expected: input.expected_by_rule(&violation.rule).or(violation.expected),
                message: shorten_for_message(&violation.message),
                ..violation
            })
            .collect()
    }

    fn unknown_input_violation(&self, name: &str) -> Violation {
        let shown: String = name.chars().take(limits::INPUT_NAME_BYTES_MAX).collect();
        let hint = format_nearest_hint(name, self.names());
        let names: Vec<_> = self.names().collect();
        let expected = if names.is_empty() {
            "no inputs".into()
        } else {
            shorten_for_message(&format!("one of {}", names.join(", ")))
        };
        let message = format!("the workflow has no input `{shown}`{hint}");
        let path = format!("inputs.{shown}");
        Violation::new(path, "additionalProperties", message).with_expected(expected)
    }

    /// Validates the answers to a question for `names`. Null counts as no answer. Answers that were not asked for or
    /// violate the rules of their input are rejected.
    pub fn validate_answers(
        &self,
        names: &[String],
        answers: &Map<String, Value>,
    ) -> ResolvedAnswers {
        let mut resolved = ResolvedAnswers::default();
        for (property, value) in answers.iter().filter(|(_, value)| !value.is_null()) {
            let violations = match self.find_input(property) {
                Some((position, input)) if names.contains(property) => {
                    self.find_violations(position, input, value, "")
                }
                Some(_) => vec![unasked_input_violation(property, names)],
                None => vec![Violation {
                    expected: Some(shorten_for_message(&names.join(", "))),
                    ..self.unknown_input_violation(property)
                }],
            };
            if violations.is_empty() {
                resolved.accepted.insert(property.clone(), value.clone());
            }
            let rejected = |violation: Violation| AnswerViolation {
                property: property.clone(),
                value: value.clone(),
                rule: violation.rule,
                message: match violation.suggestion {
                    Some(meant) => format!("{}; {}", violation.message, meant.text),
                    None => violation.message,
                },
                expected: violation.expected,
            };
            resolved.rejected.extend(violations.into_iter().map(rejected));
        }
        let missing = names.iter().filter(|name| !resolved.accepted.contains_key(*name));
        resolved.missing = missing.cloned().collect();
        resolved
    }
}

impl Input {
    /// A description of the values that a rule accepts.
    fn expected_by_rule(&self, rule: &str) -> Option<String> {
        let rules = &self.validate;
        let expected = match rule {
            "type" => self.effective_type()?.as_str().to_owned(),
            "enum" => self.choices_text()?,
            "pattern" => format!("a text that matches {}", rules.pattern.as_ref()?),
            "minLength" => format!("at least {}", format_character_count(rules.min_length?)),
            "maxLength" => format!("at most {}", format_character_count(rules.max_length?)),
            "minimum" => format!("at least {}", rules.min.as_ref()?),
            "maximum" => format!("at most {}", rules.max.as_ref()?),
            _ => return None,
        };
        Some(shorten_for_message(&expected))
    }

    /// The rules of the value besides its type, in words.
    pub fn rule_texts(&self) -> impl Iterator<Item = String> {
        let rules = self.constraints().into_iter().map(|(rule, _)| rule);
        let rules = rules.filter(|rule| rule != "type");
        rules.filter_map(|rule| self.expected_by_rule(&rule))
    }

    /// The label or description in parentheses, with a leading blank; empty if there is neither.
    fn label_in_parentheses(&self) -> String {
        let words = self.label.as_ref().or(self.description.as_ref());
        words.map_or_else(String::new, |words| format!(" ({words})"))
    }

    fn choices_text(&self) -> Option<String> {
        let choices: Vec<_> = self.one_of.iter().map(Value::to_string).collect();
        (!choices.is_empty()).then(|| format!("one of {}", choices.join(", ")))
    }
}

impl Inputs {
    /// The violation for an answer that is still missing; `None` if no input has this name.
    pub fn unanswered_violation(&self, name: &str) -> Option<Violation> {
        self.find_input(name).map(|(_, input)| Violation {
            message: shorten_for_message(&format!(
                "`{}`{} is missing",
                input.key,
                input.label_in_parentheses()
            )),
            ..missing_input_violation(input, None)
        })
    }
}

fn missing_input_violation(input: &Input, provided: Option<&Value>) -> Violation {
    let message = format!(
        "`{}`{} is missing{}",
        input.key,
        input.label_in_parentheses(),
        input.no_default_reason()
    );
    let any = || Some("a value".to_owned());
    let expected = input.expected_by_rule("enum").or_else(|| input.expected_by_rule("type"));
    Violation {
        expected: expected.or_else(any),
        actual: Some(provided.map_or("nothing", |_| "null").into()),
        ..Violation::new(format!("inputs.{}", input.key), "required", shorten_for_message(&message))
    }
}

fn unasked_input_violation(property: &str, names: &[String]) -> Violation {
    let message = format!("`{property}` was not asked for");
    Violation::new(format!("inputs.{property}"), "additionalProperties", message)
        .with_expected(shorten_for_message(&names.join(", ")))
}

fn format_character_count(count: u64) -> String {
    format!("{count} character{}", if count == 1 { "" } else { "s" })
}

/// Cuts a text for use in a message: descriptions in a definition may be long, error messages should not be.
fn shorten_for_message(text: &str) -> String {
    truncate::truncate_to_chars(text, limits::INPUT_WORDS_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use serde_json::json;

    use super::*;

    fn parse_inputs(list: Value) -> Inputs {
        serde_json::from_value(list).expect("inputs")
    }

    fn into_object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }

    fn resolve(list: &Value, given: Value) -> Result<Value, Vec<String>> {
        resolve_with(list, given, &DefaultSources::default())
    }

    /// What was resolved, or each violation as `path rule`.
    fn resolve_with(
        list: &Value,
        given: Value,
        sources: &DefaultSources,
    ) -> Result<Value, Vec<String>> {
        let resolved = parse_inputs(list.clone()).resolve(&into_object(given), sources);
        let line = |violation: &Violation| format!("{} {}", violation.path, violation.rule);
        resolved.map(Value::Object).map_err(|all| all.iter().map(line).collect())
    }

    #[test]
    fn each_rule_accepts_and_refuses_at_its_edge() {
        for (rules, good, bad, rule) in [
            (json!({ "type": "string" }), json!(""), json!(1), "type"),
            (json!({ "type": "integer" }), json!(0), json!(1.5), "type"),
            (json!({ "type": "number" }), json!(1.5), json!("1"), "type"),
            (json!({ "type": "boolean" }), json!(false), json!(0), "type"),
            (json!({ "type": "array" }), json!([]), json!({}), "type"),
            (json!({ "type": "object" }), json!({}), json!([]), "type"),
            (json!({ "enum": [42, "a"] }), json!(42), json!("42"), "enum"),
            (json!({ "validate": { "pattern": "b" } }), json!("abc"), json!("ac"), "pattern"),
            (json!({ "validate": { "pattern": "^b$" } }), json!("b"), json!("abc"), "pattern"),
            // Characters are counted, not bytes; a rule about texts takes nothing else.
            (json!({ "validate": { "min_length": 2 } }), json!("éé"), json!("é"), "minLength"),
            (
                json!({ "validate": { "max_length": 2 } }),
                json!("日本"),
                json!("日本語"),
                "maxLength",
            ),
            (json!({ "validate": { "max_length": 2 } }), json!(""), json!([]), "type"),
            (json!({ "validate": { "min": -1 } }), json!(-1), json!(-1.5), "minimum"),
            (json!({ "validate": { "max": 2.5 } }), json!(2.5), json!(3), "maximum"),
            (json!({ "validate": { "max": 2 } }), json!(2), json!("2"), "type"),
        ] {
            let mut input = into_object(rules);
            input.insert("key".into(), json!("x"));
            let list = json!([input]);
            assert_eq!(resolve(&list, json!({ "x": good })), Ok(json!({ "x": good })), "{list}");
            let refused = Err(vec![format!("inputs.x {rule}")]);
            assert_eq!(resolve(&list, json!({ "x": bad })), refused, "{list}");
        }
    }

    #[test]
    fn false_zero_and_the_empty_text_are_answers_and_null_is_none() {
        let list = json!([{ "key": "a" }, { "key": "b" }, { "key": "c" }, { "key": "d", "optional": true }]);
        let given = json!({ "c": "", "b": 0, "a": false, "d": null });
        let resolved = resolve(&list, given).expect("answers");
        // The result has the order of the declaration.
        assert_eq!(resolved.to_string(), r#"{"a":false,"b":0,"c":"","d":null}"#);
        let none = json!({ "a": null, "b": null });
        let missing = ["inputs.a required", "inputs.b required", "inputs.c required"];
        assert_eq!(resolve(&list, none), Err(missing.map(str::to_owned).to_vec()));
    }

    #[test]
    fn all_violations_are_reported_without_the_values() {
        let list = json!([
            { "key": "region", "label": "Region", "type": "string", "enum": ["us", "eu"] },
            { "key": "count", "type": "integer", "validate": { "min": 1 } },
            { "key": "code", "type": "string", "validate": { "pattern": "^[a-z]+$", "max_length": 3 } }
        ]);
        let given = into_object(json!({ "count": 0, "code": "HIDDEN", "regoin": "HIDDEN" }));
        let violations =
            parse_inputs(list).resolve(&given, &DefaultSources::default()).expect_err("wrong");
        let shown: Vec<_> = violations
            .iter()
            .map(|violation| {
                let Violation { path, rule, message, expected, actual, .. } = violation;
                let [expected, actual] =
                    [expected, actual].map(|text| text.as_deref().unwrap_or("-"));
                format!("{path} | {rule} | {message} | {expected} | {actual}")
            })
            .collect();
        assert_eq!(
            shown,
            [
                "inputs.regoin | additionalProperties | the workflow has no input `regoin`; did you mean `region`? | one of region, count, code | -",
                r#"inputs.region | required | `region` (Region) is missing | one of "us", "eu" | nothing"#,
                "inputs.count | minimum | `count` is less than the minimum of 1 | at least 1 | a number",
                "inputs.code | maxLength | `code` is longer than 3 characters | at most 3 characters | a string of 6 characters",
                r#"inputs.code | pattern | `code` does not match "^[a-z]+$" | a text that matches ^[a-z]+$ | a string of 6 characters"#,
            ]
        );
    }

    #[test]
    fn violations_and_their_words_have_limits() {
        let given: Map<_, _> = (0..=limits::VIOLATIONS_MAX)
            .map(|at| (format!("{at}{}", "x".repeat(500)), json!(1)))
            .collect();
        let violations =
            parse_inputs(json!([{ "key": "a" }])).resolve(&given, &DefaultSources::default());
        let violations = violations.expect_err("unknown");
        assert_eq!(violations.len(), limits::VIOLATIONS_MAX);
        let long = "inputs.".len() + limits::INPUT_NAME_BYTES_MAX;
        assert!(violations.iter().all(|violation| violation.path.len() == long));
        let (choices, pattern): (Vec<_>, _) =
            ((0..limits::INPUT_ENUM_MAX).collect(), "a".repeat(limits::INPUT_PATTERN_BYTES_MAX));
        let list = parse_inputs(json!([
            { "key": "a", "enum": choices },
            { "key": "b", "validate": { "pattern": pattern } }
        ]));
        let violations = list
            .resolve(&into_object(json!({ "a": -1, "b": "" })), &DefaultSources::default())
            .expect_err("neither fits");
        let chars = |text: &str| text.chars().count();
        for violation in &violations {
            assert!(chars(&violation.message) <= limits::INPUT_WORDS_CHARS_MAX + 1);
            let expected = violation.expected.as_deref().unwrap_or_default();
            assert_eq!(chars(expected), limits::INPUT_WORDS_CHARS_MAX + 1);
        }
        assert!(violations[1].message.ends_with('…'), "{violations:?}");
    }

    #[test]
    fn defaults_never_replace_given_values() {
        let list = json!([
            { "key": "a", "default": { "from": "literal", "value": [1] } },
            { "key": "b", "default": { "from": "literal", "value": false } },
            { "key": "n", "type": "integer", "default": { "from": "env", "value": "N" } },
            { "key": "t", "type": "string", "default": { "from": "env", "value": "N" } },
            { "key": "h", "type": "string", "default": { "from": "history" } },
            { "key": "o", "optional": true, "default": { "from": "env", "value": "UNSET" } }
        ]);
        let env = BTreeMap::from([("N".to_owned(), "7".to_owned())]);
        let mut sources = DefaultSources {
            env: Arc::new(env),
            history: into_object(json!({ "h": "before", "a": "not asked" })),
            ..DefaultSources::default()
        };
        let expected = json!({ "a": [1], "b": false, "n": 7, "t": "7", "h": "before", "o": null });
        assert_eq!(resolve_with(&list, json!({}), &sources), Ok(expected));
        let given = json!({ "a": 0, "b": "", "n": 1, "t": "", "h": "now", "o": 1 });
        assert_eq!(resolve_with(&list, given.clone(), &sources), Ok(given));

        // A value from the history that no longer fits is ignored; one from the environment is a violation.
        sources.history = into_object(json!({ "h": 5 }));
        sources.env = Arc::new(BTreeMap::from([("N".to_owned(), "seven".to_owned())]));
        let refused = ["inputs.n type", "inputs.h required"];
        assert_eq!(
            resolve_with(&list, json!({}), &sources),
            Err(refused.map(str::to_owned).to_vec())
        );
        assert!(!format!("{sources:?}").contains("seven"));
        let violations = parse_inputs(list).resolve(&Map::new(), &sources).expect_err("faults");
        let said: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
        assert!(
            said[0].contains("environment variable `N`") && !said[0].contains("seven"),
            "{said:?}"
        );
        assert!(said[1].contains("the execution before"), "{said:?}");
    }

    #[test]
    fn answers_are_accepted_or_rejected_with_a_reason() {
        let inputs = parse_inputs(json!([
            { "key": "push", "type": "boolean" },
            { "key": "platform", "enum": ["iOS", "Android"] },
            { "key": "note", "optional": true },
            { "key": "other" }
        ]));
        let names = ["push", "platform", "note"].map(str::to_owned);
        let answers = json!({ "push": false, "platform": "WinPhone", "note": null, "other": 1, "plaform": 2 });
        let taken = inputs.validate_answers(&names, &into_object(answers));
        assert_eq!(Value::Object(taken.accepted.clone()), json!({ "push": false }));
        assert_eq!(taken.missing, ["platform", "note"]);
        let rejected: Vec<_> = taken
            .rejected
            .iter()
            .map(|no| (no.property.as_str(), &no.value, no.rule.as_str()))
            .collect();
        assert_eq!(
            rejected,
            [
                ("platform", &json!("WinPhone"), "enum"),
                ("other", &json!(1), "additionalProperties"),
                ("plaform", &json!(2), "additionalProperties"),
            ]
        );
        assert!(taken.rejected[0].message.contains(r#""iOS""#), "{taken:?}");
    }

    #[test]
    fn an_input_schema_has_constraints_and_descriptions() {
        let list = json!([
            {
                "key": "region", "label": "Region", "description": "Where", "type": "string", "enum": ["us"],
                "default": { "from": "literal", "value": "us" }, "example": "us"
            },
            { "key": "token", "validate": { "min_length": 3 }, "default": { "from": "env", "value": "TOKEN" } },
            { "key": "n", "validate": { "min": 1, "max": 2 } }
        ]);
        let all = parse_inputs(list);
        assert_eq!(
            all.schema(),
            json!({
                "type": "object",
                "properties": {
                    "region": {
                        "title": "Region", "description": "Where", "type": "string", "enum": ["us"],
                        "default": "us", "examples": ["us"]
                    },
                    "token": { "type": "string", "minLength": 3 },
                    "n": { "type": "number", "minimum": 1, "maximum": 2 }
                },
                "required": ["n"],
                "additionalProperties": false
            })
        );
        // Serialisation is lossless and keeps the order.
        let text = serde_json::to_string(&all).expect("JSON");
        let again: Inputs = serde_json::from_str(&text).expect("inputs");
        assert_eq!(again, all);
        assert!(text.find("region") < text.find("token"));
    }
}
