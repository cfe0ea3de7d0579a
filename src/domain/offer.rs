//! Options that a step offers for the next call: those that its author declared as `branches`, and calls that its
//! output suggests. They are advice: the server follows none of them, and records which one was chosen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{document::nesting_depth, failure::truncate_to_bytes, truncate::json_length};
use crate::{error::Violation, limits};

/// The id of the option to continue the workflow, which may always be chosen.
pub const CONTINUE_OPTION_ID: &str = "continue";
/// The tool that continues the workflow.
pub const CONTINUE_TOOL: &str = "workflow.next_step";
/// The priority of an option that the step itself declares.
pub const STEP_OPTION_PRIORITY: i32 = 100;
/// The priority of the option to continue the workflow.
pub const CONTINUE_OPTION_PRIORITY: i32 = 50;
/// The key of an output that holds its suggestions.
pub const SUGGESTIONS_KEY: &str = "toolCallSuggestions";

/// One call that a client may make next (`nextStepOptions`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepOption {
    /// What `choice` names it by.
    pub id: String,
    /// The tool, of midex or of any other server that the client has.
    pub tool_name: String,
    /// Its arguments.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Options stand in this order, the highest first.
    pub priority: i32,
    /// When it is meant, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The pattern of the branch that the output matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Where it comes from.
    pub from: OptionSource,
    /// False where choosing it ends the execution as diverged.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub continue_workflow: bool,
}

/// Where an option comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionSource {
    /// The `branches` of a step.
    Step,
    /// The output of a step.
    Suggestion,
    /// The arm that a `branch` step took: going on is what it leads to.
    Arm,
    /// The workflow goes on.
    Continue,
}

/// The options of one step, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfferedOptions {
    /// The options, in the order in which they were added.
    #[serde(default)]
    pub options: Vec<StepOption>,
    /// Options that were left out, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_true(value: &bool) -> bool {
    *value
}

impl StepOption {
    /// The option to continue the workflow with this token.
    pub fn new_continue_option(token: &str) -> Self {
        Self {
            id: CONTINUE_OPTION_ID.to_owned(),
            tool_name: CONTINUE_TOOL.to_owned(),
            parameters: Map::from_iter([("token".to_owned(), token.into())]),
            priority: CONTINUE_OPTION_PRIORITY,
            condition: None,
            pattern: None,
            from: OptionSource::Continue,
            continue_workflow: true,
        }
    }
}

impl OfferedOptions {
    /// Reads stored options; empty if they cannot be read.
    pub fn from_value(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    /// Whether it has neither options nor notes on options that were left out.
    pub fn is_empty(&self) -> bool {
        self.options.is_empty() && self.left_out.is_empty()
    }

    /// Adds an option, or leaves it out if it is nested too deep or all options together become too long. `what` names
    /// the option in that note.
    pub fn add_option(&mut self, option: StepOption, what: &str) {
        let bytes = json_length(&self.options) + json_length(&option);
        let (max_bytes, max_depth) = (limits::STEP_OPTIONS_BYTES_MAX, limits::JSON_DEPTH_MAX);
        let depth = option.parameters.values().map(nesting_depth).max();
        let why = if bytes > max_bytes {
            format!("{what}: the options of a step may have {max_bytes} bytes together")
        } else if depth.unwrap_or_default() + PARAMETER_NESTING_LEVELS > max_depth {
            format!("{what}: its parameters are nested too deep")
        } else {
            return self.options.push(option);
        };
        self.add_omission_note(&why);
    }

    /// Adds a note on an option that was left out, with the reason.
    pub fn add_omission_note(&mut self, why: &str) {
        self.left_out.push(truncate_to_bytes(why, limits::LEFT_OUT_BYTES_MAX));
    }
}

/// The levels of nesting around a parameter in the stored form.
const PARAMETER_NESTING_LEVELS: usize = 4;

/// A call that an output suggests.
#[derive(Clone, Debug, PartialEq)]
pub struct SuggestedCall {
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub parameters: Map<String, Value>,
    /// When to use it, in words.
    pub condition: Option<String>,
    /// Its priority among the options; 0 if none is given.
    pub priority: i32,
}

/// An output separated from its suggestions.
#[derive(Clone, Debug)]
pub struct SplitOutput {
    /// The output without `toolCallSuggestions`.
    pub output: Value,
    /// The suggestions, or every way in which they are malformed.
    pub suggestions: Result<Vec<SuggestedCall>, Vec<Violation>>,
}

/// Removes `toolCallSuggestions` from an output; `None` if it has none.
pub fn split_suggestions(output: &Value) -> Option<SplitOutput> {
    let suggested = output.as_object()?.get(SUGGESTIONS_KEY)?;
    let suggestions = parse_suggestions(suggested);
    let mut output = output.clone();
    if let Some(map) = output.as_object_mut() {
        map.shift_remove(SUGGESTIONS_KEY);
    }
    Some(SplitOutput { output, suggestions })
}

fn parse_suggestions(suggested: &Value) -> Result<Vec<SuggestedCall>, Vec<Violation>> {
    let root = format!("/{SUGGESTIONS_KEY}");
    let list = match suggested {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => {
            return Err(vec![wrong_value_violation(&root, "type", "a list of suggestions")]);
        }
    };
    let (max_count, max_bytes) = (limits::SUGGESTIONS_MAX, limits::SUGGESTIONS_BYTES_MAX);
    if list.len() > max_count {
        let expected = format!("at most {max_count} suggestions");
        return Err(vec![wrong_value_violation(&root, "maxItems", &expected)]);
    }
    if json_length(suggested) > max_bytes {
        let expected = format!("at most {max_bytes} bytes of JSON");
        return Err(vec![wrong_value_violation(&root, "maxLength", &expected)]);
    }
    let mut violations = Vec::new();
    let each = list.iter().enumerate();
    let calls = each
        .filter_map(|(at, item)| parse_suggestion(&mut violations, item, &format!("{root}/{at}")));
    let calls: Vec<_> = calls.collect();
    if violations.is_empty() { Ok(calls) } else { Err(violations) }
}

/// Reads one suggestion, or adds its violations. Unknown keys are ignored.
fn parse_suggestion(
    violations: &mut Vec<Violation>,
    item: &Value,
    path: &str,
) -> Option<SuggestedCall> {
    let Some(map) = item.as_object() else {
        violations.push(wrong_value_violation(path, "type", "an object with a toolName"));
        return None;
    };
    let violation_count = violations.len();
    let tool = map.get("toolName").and_then(Value::as_str);
    let tool = tool.filter(|name| is_tool_name(name));
    if tool.is_none() {
        let expected = format!("the name of a tool, at most {} bytes", limits::WORD_BYTES_MAX);
        violations.push(wrong_value_violation(&format!("{path}/toolName"), "toolName", &expected));
    }
    let mut refuse = |key: &str, expected: &str| {
        violations.push(wrong_value_violation(&format!("{path}/{key}"), "type", expected));
    };
    let parameters = match map.get("parameters") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(parameters)) => parameters.clone(),
        Some(_) => {
            refuse("parameters", "an object");
            Map::new()
        }
    };
    let condition = match map.get("condition") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            refuse("condition", "a text");
            None
        }
    };
    let priority = match map.get("priority") {
        None | Some(Value::Null) => 0,
        Some(value) => parse_priority(value).unwrap_or_else(|| {
            let max_priority = limits::OPTION_PRIORITY_MAX;
            refuse("priority", &format!("a whole number from -{max_priority} to {max_priority}"));
            0
        }),
    };
    (violations.len() == violation_count).then(|| SuggestedCall {
        tool_name: tool.unwrap_or_default().to_owned(),
        parameters,
        condition,
        priority,
    })
}

fn is_tool_name(name: &str) -> bool {
    let is_plain = name.trim() == name && !name.contains(char::is_control);
    !name.is_empty() && name.len() <= limits::WORD_BYTES_MAX && is_plain
}

fn parse_priority(value: &Value) -> Option<i32> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    let max_priority = limits::OPTION_PRIORITY_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "it is within the limit")]
    (number.abs() <= f64::from(max_priority)).then_some(number as i32)
}

fn wrong_value_violation(path: &str, rule: &str, expected: &str) -> Violation {
    let message = format!("a suggestion of the next call must be {expected}");
    Violation::new(path, rule, message).with_expected(expected)
}
