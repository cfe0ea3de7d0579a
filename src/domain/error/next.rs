//! The next call after an error: data in the table of codes, printed by one function in one grammar:
//!
//! ```text
//! [Ask your user to WORDS. ]Call TOOL[ again][ with NAME 'VALUE'[ and NAME 'VALUE']…][: WORDS]
//! ```
//!
//! `repeat_call` keeps the other arguments of the refused call. A quote within a VALUE is written twice.

use serde_json::{Map, Value};

use crate::uri;

/// The one right next call. Every text is a template: `{name}` takes the value of that name from the error's context. A part
/// in brackets is left out if the context lacks a name in it, and so is the whole text outside brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCall {
    /// The action of a person that must come first: an imperative that begins in lower case.
    person_action: &'static str,
    tool: &'static str,
    is_repeat: bool,
    /// Whether the call takes its arguments from `arguments` of the context; if they are not all texts, it is printed as
    /// `repeat_call`.
    is_corrected: bool,
    arguments: &'static [(&'static str, &'static str)],
    reason: &'static str,
}

/// What to do after an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A call.
    Call(NextCall),
    /// A call while the execution is open; after its end, a read of its history.
    WhileOpen(NextCall),
    /// The first call while the execution is open, else the second.
    ByState(NextCall, NextCall),
    /// The call that lifts the pause; after the execution's end, a read of its history.
    ByPause,
    /// Words instead of a call: for the command line, and for faults of the protocol.
    Words(&'static str),
    /// The text of a server, which may be of another version.
    Verbatim(String),
}

/// A call of `tool`.
pub const fn call_tool(
    tool: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    reason: &'static str,
) -> NextCall {
    NextCall { person_action: "", tool, is_repeat: false, is_corrected: false, arguments, reason }
}

/// A read of a resource. `uri` is the whole address; its variables are encoded when they are filled in.
pub const fn read_resource(
    uri: &'static [(&'static str, &'static str); 1],
    reason: &'static str,
) -> NextCall {
    call_tool("workflow.read", uri, reason)
}

/// The refused call again.
pub const fn repeat_call(reason: &'static str) -> NextCall {
    NextCall { is_repeat: true, ..call_tool("{tool}", &[], reason) }
}

/// The refused call with the corrected `arguments` of the context; again as it was if there are none, or not all are texts.
pub(crate) const fn repeat_corrected_call(reason: &'static str) -> NextCall {
    NextCall { is_corrected: true, ..repeat_call(reason) }
}

/// The argument of a read.
#[doc(hidden)]
#[macro_export]
macro_rules! address {
    ($path:literal) => {
        &[("uri", concat!("midex://workflow/", $path))]
    };
}
pub use crate::address;

impl NextCall {
    /// The call after a person has done this.
    #[must_use]
    pub const fn after_person_does(self, person_action: &'static str) -> Self {
        Self { person_action, ..self }
    }

    /// The call of another tool.
    #[must_use]
    pub const fn with_tool(self, tool: &'static str) -> Self {
        Self { tool, ..self }
    }

    /// The call with these arguments, which replace or extend those of the refused call.
    #[must_use]
    pub const fn with_arguments(self, arguments: &'static [(&'static str, &'static str)]) -> Self {
        Self { arguments, ..self }
    }

    /// Prints the call in the grammar of this module. `None` if the context lacks a value that the call itself needs.
    pub(super) fn print(&self, context: &Map<String, Value>) -> Option<String> {
        let mut text = String::new();
        if let Some(person) =
            fill_template(self.person_action, context).filter(|words| !words.is_empty())
        {
            text.extend(["Ask your user to ", &person, ". "]);
        }
        let corrected = self.is_corrected.then(|| corrected_arguments(context)).flatten();
        let is_repeat = self.is_repeat && corrected.is_none();
        let tool = match fill_template(self.tool, context) {
            Some(tool) => format!("Call {tool}"),
            // The context does not name the call, but its sender knows it.
            None if is_repeat => "Send the same call".to_owned(),
            None => return None,
        };
        text.push_str(&tool);
        if is_repeat {
            text.push_str(" again");
        }
        let arguments = match &corrected {
            Some(arguments) => arguments,
            None => &self.fill_arguments(context)?,
        };
        for (index, (name, value)) in arguments.iter().enumerate() {
            let separator = if index == 0 { " with " } else { " and " };
            text.extend([separator, name, " '", &double_quotes(value), "'"]);
        }
        let words = corrected.map_or(self.reason, |_| CORRECTED_CALL_REASON);
        if let Some(words) = fill_template(words, context).filter(|words| !words.is_empty()) {
            text.extend([": ", &words]);
        }
        Some(text)
    }

    fn fill_arguments<'a>(
        &'a self,
        context: &Map<String, Value>,
    ) -> Option<Vec<(&'a str, String)>> {
        let arguments = self.arguments.iter();
        arguments.map(|(name, value)| Some((*name, fill_template(value, context)?))).collect()
    }
}

/// The `arguments` of the context, if all of them are texts.
fn corrected_arguments(context: &Map<String, Value>) -> Option<Vec<(&str, String)>> {
    let arguments = context.get("arguments")?.as_object()?.iter();
    arguments.map(|(name, value)| Some((name.as_str(), value.as_str()?.to_owned()))).collect()
}

const CORRECTED_CALL_REASON: &str = "if that is the one meant";

/// Fills the context into a template; a name that the context lacks is printed as a word.
pub(super) fn fill_template_or_name(template: &str, context: &Map<String, Value>) -> String {
    let fallback = |name: &str| Some(name.replace('_', " "));
    fill_template_with(template, context, fallback).unwrap_or_default()
}

fn fill_template(template: &str, context: &Map<String, Value>) -> Option<String> {
    fill_template_with(template, context, |_| None)
}

fn fill_template_with(
    template: &str,
    context: &Map<String, Value>,
    fallback: impl Fn(&str) -> Option<String> + Copy,
) -> Option<String> {
    let Some((before, rest)) = template.split_once('[') else {
        return fill_placeholders(template, context, fallback);
    };
    let (optional, after) = rest.split_once(']').unwrap_or((rest, ""));
    let optional = fill_placeholders(optional, context, |_| None).unwrap_or_default();
    let before = fill_placeholders(before, context, fallback)?;
    Some(before + &optional + &fill_template_with(after, context, fallback)?)
}

fn fill_placeholders(
    template: &str,
    context: &Map<String, Value>,
    fallback: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) =
            after.split_once('}').filter(|(name, _)| is_placeholder_name(name))
        else {
            filled.push('{');
            rest = after;
            continue;
        };
        let value = match context.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => fallback(name)?,
        };
        // In a URI an id or a name must be one path segment; `{address}` is several.
        let is_segment = name != "address" && ends_in_uri_path(&filled);
        filled.push_str(&if is_segment { uri::encode_segment(&value) } else { value });
        rest = after;
    }
    filled.push_str(rest);
    Some(filled)
}

fn is_placeholder_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Whether `text` ends within the path of a URI of midex.
fn ends_in_uri_path(text: &str) -> bool {
    let last = text.rsplit([' ', '\'', '`']).next().unwrap_or_default();
    last.starts_with("midex://") && last.ends_with('/')
}

/// Doubles the quotes in a value, which stands between the quotes of a call.
pub fn double_quotes(value: &str) -> String {
    value.replace('\'', "''")
}

/// A word, quoted for a shell if need be.
pub fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn print_with_context(call: NextCall, context: &Value) -> Option<String> {
        call.print(context.as_object().expect("an object"))
    }

    #[test]
    fn a_call_is_printed_in_one_grammar() {
        let id =
            json!({ "execution_id": "it's a/b", "tool": "workflow.start", "limit": "9 bytes" });
        let by_id: &[(&str, &str)] = &[("execution_id", "{execution_id}"), ("project", "*")];
        for (call, expected) in [
            (call_tool("execution.list", &[], ""), "Call execution.list"),
            (
                call_tool("execution.list", by_id, "so {}"),
                "Call execution.list with execution_id 'it''s a/b' and project '*': so {}",
            ),
            (
                read_resource(address!("current_step/{execution_id}"), "x"),
                "Call workflow.read with uri 'midex://workflow/current_step/it%27s%20a%2Fb': x",
            ),
            (repeat_call("send less, {limit}"), "Call workflow.start again: send less, 9 bytes"),
            (
                repeat_call("").with_arguments(by_id),
                "Call workflow.start again with execution_id 'it''s a/b' and project '*'",
            ),
            (repeat_corrected_call("x"), "Call workflow.start again: x"),
            (
                call_tool("execution.wait", &[], "")
                    .after_person_does("run `midex approve {execution_id}`"),
                "Ask your user to run `midex approve it's a/b`. Call execution.wait",
            ),
        ] {
            assert_eq!(print_with_context(call, &id).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_corrected_call_is_printed_with_its_text_arguments() {
        for (arguments, expected) in [
            (json!({}), "Call a.b: if that is the one meant"),
            (
                json!({ "c": "it's {tool}", "d": "e" }),
                "Call a.b with c 'it''s {tool}' and d 'e': if that is the one meant",
            ),
            (json!({ "c": "d", "limit": 3 }), "Call a.b again: x"),
        ] {
            let context = json!({ "tool": "a.b", "arguments": arguments });
            assert_eq!(
                print_with_context(repeat_corrected_call("x"), &context).as_deref(),
                Some(expected)
            );
        }
    }

    #[test]
    fn missing_context_values_are_not_printed() {
        assert_eq!(print_with_context(call_tool("a.b", &[("x", "{x}")], ""), &json!({})), None);
        let lacking = repeat_call("see {limit}").after_person_does("free {path}");
        assert_eq!(
            print_with_context(lacking, &json!({})).as_deref(),
            Some("Send the same call again")
        );
        let optional = call_tool("a.b", &[], "x[ --at '{path}'] y");
        assert_eq!(print_with_context(optional, &json!({})).as_deref(), Some("Call a.b: x y"));
        assert_eq!(
            print_with_context(optional, &json!({ "path": "/p" })).as_deref(),
            Some("Call a.b: x --at '/p' y")
        );
        let context = json!({ "path": 1 });
        let filled = fill_template_or_name(
            "Move {path} to {other_place} {}",
            context.as_object().expect("an object"),
        );
        assert_eq!(filled, "Move 1 to other place {}");
    }
}
