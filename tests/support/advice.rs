//! Follows advice: takes the call that a refusal suggests, and the commands that a message names, literally.
//!
//! A read is made at once, and must be answered. What changes something would change the test as well: it is held here to
//! the tools and to the command line, and made in `advice`, in scenes of its own. Each piece of advice adds a line to
//! [`followed`], which `tests/advice` counts after a run.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use midex_domain::error::Code;
use serde_json::{Value, json};

use super::{Client, project::text};
use crate::TOOLS;

/// Where each piece of advice that a test met is written down.
fn followed() -> PathBuf {
    let binary = Path::new(crate::binary());
    let target = binary.ancestors().nth(2).expect("the target directory");
    target.join("tmp/advice.tsv")
}

/// The tools that change nothing.
const READS: [&str; 12] = [
    "workflow.read",
    "workflow.list",
    "workflow.get",
    "workflow.validate",
    "workflow.preview_inputs",
    "workflow.resolve_inputs",
    "workflow.step_plan",
    "workflow.preview_rendered",
    "execution.list",
    "command.list",
    "provider.list",
    "catalog.list",
];

/// The commands that change nothing and end by themselves.
const READING: [&str; 9] =
    ["show", "list", "validate", "help", "schema", "graph", "cat", "completions", "doctor"];

/// What was done with a piece of advice.
#[derive(Clone, Copy, Debug)]
enum Done {
    /// It was followed, and led on.
    Followed,
    /// It would change something: it is of the grammar, and there is such a tool or command.
    Held,
    /// A person must do something first.
    AsksPerson,
    /// It is to be followed later: the server or its store is not there now.
    Later,
    /// It is said in words, or leaves something to be filled in.
    InWords,
}

fn note(done: Done, code: &str, advice: &str) {
    let line = format!("{done:?}\t{code}\t{}\n", advice.replace(['\n', '\t'], " "));
    let file = OpenOptions::new().append(true).create(true).open(followed());
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// The call that a refusal of `tool` suggests, with all its arguments. None where a machine cannot make it, or not now.
fn suggested((tool, arguments): (&str, &Value), error: &Value) -> Result<(String, Value), Done> {
    let action = text(&error["suggested_action"]);
    let said = parse(action).ok_or(Done::InWords)?;
    assert!(TOOLS.contains(&&*said.tool), "there is no {}: {action}", said.tool);
    if said.person.is_some() {
        return Err(Done::AsksPerson);
    }
    if error["retryable"] == true {
        return Err(Done::Later);
    }
    if said.is_again && said.arguments.is_empty() && said.tool == tool {
        // What is wrong with the call is said in words.
        return Err(Done::InWords);
    }
    let mut call = if said.is_again { arguments.clone() } else { json!({}) };
    for (name, value) in &said.arguments {
        call[name] = json!(value);
    }
    Ok((said.tool, call))
}

/// Follows what a refusal of a tool suggests, where that is a read.
#[track_caller]
pub fn follow<C: Client + ?Sized>(client: &mut C, refused: (&str, &Value), error: &Value) {
    let (code, action) = (text(&error["error_code"]), text(&error["suggested_action"]));
    match suggested(refused, error) {
        Ok((tool, call)) if !READS.contains(&&*tool) || renews_token(&call) => {
            note(Done::Held, code, action);
        }
        Ok((tool, call)) => lead_on(client, error, &tool, call),
        Err(done) => note(done, code, action),
    }
}

/// Whether a read renews the token of an open step, as `current_step` does once it has expired.
fn renews_token(call: &Value) -> bool {
    let uri = call["uri"].as_str().unwrap_or_default();
    uri.contains("/current_step/")
}

/// Follows what a refusal suggests where that changes something.
#[track_caller]
pub fn follow_change<C: Client + ?Sized>(client: &mut C, refused: (&str, &Value), error: &Value) {
    let Ok((tool, call)) = suggested(refused, error) else {
        return;
    };
    if !READS.contains(&&*tool) || renews_token(&call) {
        lead_on(client, error, &tool, call);
    }
}

/// Makes a call that `error` suggests: it is done, or what stands in its way is another thing.
#[track_caller]
fn lead_on<C: Client + ?Sized>(client: &mut C, error: &Value, tool: &str, call: Value) {
    let (code, action) = (text(&error["error_code"]), text(&error["suggested_action"]));
    let answer = client.request("tools/call", json!({ "name": tool, "arguments": call }));
    let result = &answer["result"];
    let left = &result["structuredContent"];
    let is_same = left["error_code"] == code && left["violations"] == error["violations"];
    assert!(
        result.is_object() && (result["isError"] == false || !is_same),
        "{code} suggests `{action}`, which does not lead on: {answer}"
    );
    note(Done::Followed, code, action);
}

/// Follows the commands that the help of a message of the command line names between backticks; `run` makes a command of its
/// words.
#[track_caller]
pub fn follow_commands(message: &str, run: impl Fn(&[String]) -> Command) {
    let code = message.split_once("error[").and_then(|(_, rest)| rest.split_once(']'));
    let code = code.map_or("-", |(code, _)| code);
    let is_later = Code::ALL.iter().any(|known| known.as_str() == code && known.retryable());
    let (_, help) = message.split_once("help: ").unwrap_or_default();
    for said in help.split('`').skip(1).step_by(2) {
        if said.strip_prefix("midex ").is_none() {
            continue;
        }
        let words = shell_words(said);
        let is_open = |word: &String| {
            word.contains('…') || word.contains('<') || word.chars().all(|c| c.is_ascii_uppercase())
        };
        if words.iter().any(is_open) {
            note(Done::InWords, code, said);
            continue;
        }
        let parsed = midex_cli::command_line().try_get_matches_from(&words);
        if let Err(error) = parsed
            && error.use_stderr()
        {
            panic!("`{said}` is no command: {error}\nit is named by: {message}");
        }
        if is_later || !READING.contains(&&*words[1]) {
            note(if is_later { Done::Later } else { Done::Held }, code, said);
            continue;
        }
        let mut command = run(&words[1..]);
        let ended = command.stdin(Stdio::null()).output().expect("the binary starts");
        assert!(
            ended.status.code().is_some_and(|code| code < 2),
            "`{said}` does not lead on: {}\nit is named by: {message}",
            String::from_utf8_lossy(&ended.stderr)
        );
        note(Done::Followed, code, said);
    }
}

/// The words of a command as a shell reads them, with the quoting that messages use: single quotes and backslashes.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut has_word) =
        (Vec::new(), String::new(), false, false);
    let mut signs = command.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' if !is_quoted => {
                word.extend(signs.next());
                has_word = true;
            }
            '\'' => (is_quoted, has_word) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if has_word {
                    words.push(std::mem::take(&mut word));
                }
                has_word = false;
            }
            _ => {
                word.push(sign);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word);
    }
    words
}

/// A call that a sentence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What the user is to be asked for before.
    pub person: Option<String>,
    pub tool: String,
    /// Whether the other arguments of the refused call stay.
    pub is_again: bool,
    pub arguments: Vec<(String, String)>,
    /// What is said of it behind the colon.
    pub words: String,
}

/// Reads a `suggested_action`; `None` where it is not of the grammar.
pub fn parse(action: &str) -> Option<Said> {
    const ASK: &str = "Ask your user to ";
    let (person, rest) = match action.strip_prefix(ASK) {
        Some(asked) => {
            let (person, _) = asked.split_once(". Call ")?;
            (Some(person.to_owned()), &asked[person.len() + 2..])
        }
        None => (None, action),
    };
    let rest = rest.strip_prefix("Call ")?;
    let (tool, rest) = word(rest, |c| c.is_ascii_lowercase() || matches!(c, '.' | '_' | '/'))?;
    let (is_again, rest) = match rest.strip_prefix(" again") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (arguments, rest) = arguments(rest)?;
    let said = Said {
        person,
        tool: tool.to_owned(),
        is_again,
        arguments,
        words: rest.trim_start_matches(": ").to_owned(),
    };
    (rest.is_empty() || rest.starts_with(": ")).then_some(said)
}

/// The first call that a message names.
pub fn find(message: &str) -> Option<Said> {
    let sentences = message.match_indices(". ").map(|(at, _)| at + 2);
    let mut sentences = std::iter::once(0).chain(sentences);
    sentences.find_map(|at| parse(&message[at..]))
}

fn arguments(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut joint = " with ";
    while let Some(begun) = rest.strip_prefix(joint) {
        let (name, begun) = word(begun, |c| c.is_ascii_lowercase() || c == '_')?;
        let (value, after) = quoted(begun.strip_prefix(" '")?)?;
        found.push((name.to_owned(), value));
        (rest, joint) = (after, " and ");
    }
    Some((found, rest))
}

fn word(text: &str, belongs: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// What stands before the closing quote, and what after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('\'')?;
        value.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Some((value, after)),
        }
    }
}
