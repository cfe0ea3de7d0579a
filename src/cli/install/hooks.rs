//! The entries by which a host runs `midex hook` at events of its own. Entries of others in the same lists stay.

use serde_json::{Value, json};

use super::{
    Fault,
    hosts::{Hooks, Shape},
    json,
};

/// What `midex hook` is told of the event, in the order of [`Hooks::events`].
pub(super) const EVENTS: [&str; 2] = ["session-start", "stop"];

/// The text with an entry of each of these commands, one for each of [`EVENTS`].
pub(super) fn put(text: &str, hooks: &Hooks, commands: &[String; 2]) -> Result<String, Fault> {
    let mut text = text.to_owned();
    if let Some(version) = hooks.version.filter(|_| is_unversioned(&text)) {
        text = json::set(&text, &["version"], &json!(version))?;
    }
    for (index, command) in commands.iter().enumerate() {
        let event = hooks.events[index];
        let ours = ours(&json::read(&text)?, event, EVENTS[index], command);
        text = match ours.split_first() {
            None => json::push(&text, &["hooks", event], &entry(hooks, index, command))?,
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
pub(super) fn take(text: &str, hooks: &Hooks, program: &str) -> Result<String, Fault> {
    let mut text = text.to_owned();
    for (event, name) in hooks.events.into_iter().zip(EVENTS) {
        let ours = ours(&json::read(&text)?, event, name, program);
        text = without(&text, &ours)?;
    }
    Ok(text)
}

/// The programs that the entries run which run midex, each once.
pub(super) fn programs(said: &Value, hooks: &Hooks) -> Vec<String> {
    let mut programs = Vec::new();
    for (event, name) in hooks.events.into_iter().zip(EVENTS) {
        for path in ours(said, event, name, "midex") {
            let command = said.pointer(&format!("/{}/command", path.join("/")));
            let command = command.and_then(Value::as_str).unwrap_or_default();
            let program = unquoted(command.split(" hook ").next().unwrap_or_default());
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
    }
    programs
}

/// A word without what [`quoted`](crate::cli::command::quoted) put around it.
fn unquoted(word: &str) -> String {
    let inner = word
        .strip_prefix('\'')
        .and_then(|word| word.strip_suffix('\''));
    inner.map_or_else(|| word.to_owned(), |inner| inner.replace(r"'\''", "'"))
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

/// The paths of the entries of an event that run midex, by whichever path, alone or in a group.
fn ours(said: &Value, event: &str, name: &str, command: &str) -> Vec<Vec<String>> {
    let program = command.split(" hook ").next().unwrap_or(command);
    let is_ours = |entry: &Value| {
        let command = entry["command"].as_str().unwrap_or_default();
        let (by, rest) = command.split_once(" hook ").unwrap_or_default();
        let is_event = rest == name || rest.starts_with(&format!("{name} "));
        is_event && (by == program || by.contains("midex"))
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

/// The text without the entries at these paths, and without the groups that they leave empty.
fn without(text: &str, paths: &[Vec<String>]) -> Result<String, Fault> {
    let mut text = text.to_owned();
    // From the end, so that the numbers of those before stay.
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
