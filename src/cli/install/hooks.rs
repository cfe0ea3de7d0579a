//! The entries that run `midex hook` at the events of a host. Entries of other programs in the same lists are kept.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Fault,
    flags::shared,
    hosts::{Hooks, Shape},
    json,
};
use crate::command::quoted;

/// The event names that `midex hook` takes, in the order of [`Hooks::events`].
pub(super) const EVENTS: [&str; 2] = ["session-start", "stop"];

/// A program that a host starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) program: String,
    /// For a hook, only the arguments after the event name.
    pub(crate) args: Vec<String>,
}

impl Run {
    /// The shell command for an event.
    fn command(&self, event: &str) -> String {
        let words = [&self.program, "hook", event].map(str::to_owned);
        joined(&[&words[..], &self.args].concat())
    }

    /// Parses a command that [`Self::command`] can have written; `None` for any other, which belongs to another
    /// program.
    fn read(command: &str, event: &str) -> Option<Self> {
        let words = words(command);
        let (program, rest) = words.split_first()?;
        let args = rest.strip_prefix(&["hook".to_owned(), event.to_owned()])?;
        let run = Self {
            program: program.clone(),
            args: args.to_vec(),
        };
        let is_ours = run.is_midex() && shared(args) == args && run.command(event) == command;
        is_ours.then_some(run)
    }

    /// Whether the program is midex, at any path.
    pub(super) fn is_midex(&self) -> bool {
        let name = Path::new(&self.program).file_name();
        let here = std::env::current_exe().unwrap_or_default();
        name.is_some_and(|name| name == "midex" || Some(name) == here.file_name())
    }

    /// The data directory in the arguments, if they name one.
    pub(crate) fn data_dir(&self) -> Option<&str> {
        let of_flag = self.args.windows(2).find(|pair| pair[0] == "--data-dir");
        let mut args = self.args.iter();
        let joined = args.find_map(|arg| arg.strip_prefix("--data-dir="));
        of_flag.map(|pair| pair[1].as_str()).or(joined)
    }
}

/// Joins words into a shell command line.
pub(super) fn joined(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Splits a command line that [`joined`] has written into its words.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(chars.next()),
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words
}

/// The text with an entry that runs this program for each of [`EVENTS`]. Unless `added`, only existing entries are
/// updated.
pub(super) fn put(text: &str, hooks: &Hooks, run: &Run, added: bool) -> Result<String, Fault> {
    let mut text = text.to_owned();
    if let Some(version) = hooks.version.filter(|_| is_unversioned(&text)) {
        text = json::set(&text, &["version"], &json!(version))?;
    }
    for (index, (event, name)) in hooks.events.into_iter().zip(EVENTS).enumerate() {
        let command = run.command(name);
        let ours = ours(&json::read(&text)?, event, name);
        text = match ours.split_first() {
            None if !added => text,
            None => json::push(&text, &["hooks", event], &entry(hooks, index, &command))?,
            Some((first, others)) => {
                let text = without(&text, others)?;
                let first: Vec<_> = first.iter().map(String::as_str).collect();
                json::set(&text, &[&first[..], &["command"]].concat(), &json!(command))?
            }
        };
    }
    Ok(text)
}

/// The text without the entries that run midex.
pub(super) fn take(text: &str, hooks: &Hooks) -> Result<String, Fault> {
    let mut text = text.to_owned();
    for (event, name) in hooks.events.into_iter().zip(EVENTS) {
        let ours = ours(&json::read(&text)?, event, name);
        text = without(&text, &ours)?;
    }
    Ok(text)
}

/// The distinct programs of the entries that run midex.
pub(super) fn runs(text: &str, hooks: &Hooks) -> Result<Vec<Run>, Fault> {
    let (said, mut runs) = (json::read(text)?, Vec::new());
    for (event, name) in hooks.events.into_iter().zip(EVENTS) {
        for path in ours(&said, event, name) {
            let command = said.pointer(&format!("/{}/command", path.join("/")));
            let run = command.and_then(|it| Run::read(it.as_str()?, name));
            runs.extend(run.filter(|run| !runs.contains(run)));
        }
    }
    Ok(runs)
}

fn is_unversioned(text: &str) -> bool {
    json::read(text).is_ok_and(|said| said.get("version").is_none())
}

fn entry(hooks: &Hooks, index: usize, command: &str) -> Value {
    let handler = match hooks.shape {
        Shape::Bare => return json!({ "command": command }),
        Shape::Typed | Shape::Grouped => json!({ "type": "command", "command": command }),
    };
    match (hooks.shape, hooks.matcher.filter(|_| index == 0)) {
        (Shape::Grouped, Some(matcher)) => json!({ "matcher": matcher, "hooks": [handler] }),
        (Shape::Grouped, None) => json!({ "hooks": [handler] }),
        _ => handler,
    }
}

/// The paths of an event's entries that run midex, alone or in a group.
fn ours(said: &Value, event: &str, name: &str) -> Vec<Vec<String>> {
    let is_ours = |entry: &Value| {
        let command = entry["command"].as_str();
        command.is_some_and(|command| Run::read(command, name).is_some())
    };
    let mut found = Vec::new();
    for (index, entry) in said["hooks"][event]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = ["hooks", event, &index.to_string()].map(str::to_owned);
        if is_ours(entry) {
            found.push(path.to_vec());
        }
        for (index, handler) in entry["hooks"].as_array().into_iter().flatten().enumerate() {
            if is_ours(handler) {
                found.push([&path[..], &["hooks".to_owned(), index.to_string()]].concat());
            }
        }
    }
    found
}

/// The text without the entries at these paths, and without groups that become empty.
fn without(text: &str, paths: &[Vec<String>]) -> Result<String, Fault> {
    let mut text = text.to_owned();
    // From the last to the first, so that the indexes of the earlier entries stay valid.
    for path in paths.iter().rev() {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        text = json::unset(&text, &path)?;
        let group = &path[..3.min(path.len())];
        let said = json::read(&text)?;
        let handlers = said.pointer(&format!("/{}/hooks", group.join("/")));
        if path.len() > 3
            && handlers
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty)
        {
            text = json::unset(&text, group)?;
        }
    }
    Ok(text)
}
