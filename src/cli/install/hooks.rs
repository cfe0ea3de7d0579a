//! The entries that run `midex hook` at the events of a host. Entries of other programs in the same lists are kept.

use std::path::Path;

use jsonc_parser::cst::{CstArray, CstObject, CstRootNode};
use serde_json::{Value, json};

use super::{
    flags::shared_arguments,
    hosts::{HookShape, HostHooks},
    json,
};
use crate::command::quoted;
use midex_domain::error::Result;

/// The event names that `midex hook` takes, in the order of [`HostHooks::events`].
pub(super) const HOOK_EVENTS: [&str; 2] = ["session-start", "stop"];

/// A program that a host starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookProgram {
    pub(crate) program: String,
    /// For a hook, only the arguments after the event name.
    pub(crate) args: Vec<String>,
}

impl HookProgram {
    /// The shell command for an event.
    fn shell_command(&self, event: &str) -> String {
        let words = [&self.program, "hook", event].map(str::to_owned);
        join_shell_words(&[&words[..], &self.args].concat())
    }

    /// Parses a command that [`Self::shell_command`] can have written; `None` for any other, which belongs to another
    /// program.
    fn parse_command(command: &str, event: &str) -> Option<Self> {
        let words = split_shell_words(command);
        let (program, rest) = words.split_first()?;
        let args = rest.strip_prefix(&["hook".to_owned(), event.to_owned()])?;
        let parsed = Self { program: program.clone(), args: args.to_vec() };
        let is_midex_hook = parsed.is_midex()
            && shared_arguments(args) == args
            && parsed.shell_command(event) == command;
        is_midex_hook.then_some(parsed)
    }

    /// Whether the program is midex, at any path.
    pub(super) fn is_midex(&self) -> bool {
        let name = Path::new(&self.program).file_name();
        let own_path = std::env::current_exe().unwrap_or_default();
        name.is_some_and(|name| name == "midex" || Some(name) == own_path.file_name())
    }

    /// The data directory in the arguments, if they name one.
    pub(crate) fn data_dir(&self) -> Option<&str> {
        let flag_pair = self.args.windows(2).find(|pair| pair[0] == "--data-dir");
        let mut args = self.args.iter();
        let inline_value = args.find_map(|arg| arg.strip_prefix("--data-dir="));
        flag_pair.map(|pair| pair[1].as_str()).or(inline_value)
    }
}

/// Joins words into a shell command line.
pub(super) fn join_shell_words(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Splits a command line that [`join_shell_words`] has written into its words.
fn split_shell_words(line: &str) -> Vec<String> {
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

/// The text with an entry that runs this program for each of [`HOOK_EVENTS`]. Unless `should_add`, only existing entries are
/// updated.
pub(super) fn add_hooks(
    text: &str,
    hooks: &HostHooks,
    program: &HookProgram,
    should_add: bool,
) -> Result<String> {
    let root = json::parse(text)?;
    let content = json::ensure_root_object(&root);
    if let Some(version) = hooks.version
        && json::find_field(&content, "version").is_none()
    {
        json::set_field(&content, "version", &json!(version));
    }
    for (index, (event, name)) in hooks.events.into_iter().zip(HOOK_EVENTS).enumerate() {
        let command = program.shell_command(name);
        let mut own_entries = find_midex_entries(&root, event, name).into_iter();
        if let Some(first) = own_entries.next() {
            json::set_field(&first.object, "command", &json!(command));
            own_entries.for_each(HookEntry::remove);
        } else if should_add {
            let events = json::ensure_object(&content, "hooks")?;
            let entries = json::ensure_array(&events, event)?;
            json::append_value(&entries, &build_hook_entry(hooks, index, &command));
        }
    }
    Ok(root.to_string())
}

/// The text without the entries that run midex.
pub(super) fn remove_hooks(text: &str, hooks: &HostHooks) -> Result<String> {
    let root = json::parse(text)?;
    for (event, name) in hooks.events.into_iter().zip(HOOK_EVENTS) {
        find_midex_entries(&root, event, name).into_iter().for_each(HookEntry::remove);
    }
    Ok(root.to_string())
}

/// The distinct programs of the entries that run midex.
pub(super) fn list_hook_programs(text: &str, hooks: &HostHooks) -> Result<Vec<HookProgram>> {
    let (root, mut programs) = (json::parse(text)?, Vec::new());
    for (event, name) in hooks.events.into_iter().zip(HOOK_EVENTS) {
        for entry in find_midex_entries(&root, event, name) {
            if !programs.contains(&entry.program) {
                programs.push(entry.program);
            }
        }
    }
    Ok(programs)
}

fn build_hook_entry(hooks: &HostHooks, index: usize, command: &str) -> Value {
    let handler = match hooks.shape {
        HookShape::CommandOnly => return json!({ "command": command }),
        HookShape::Typed | HookShape::Grouped => json!({ "type": "command", "command": command }),
    };
    match (hooks.shape, hooks.matcher.filter(|_| index == 0)) {
        (HookShape::Grouped, Some(matcher)) => json!({ "matcher": matcher, "hooks": [handler] }),
        (HookShape::Grouped, None) => json!({ "hooks": [handler] }),
        _ => handler,
    }
}

/// An entry that runs midex at an event.
struct HookEntry {
    object: CstObject,
    program: HookProgram,
    /// The group that holds it, and the list of this group.
    group: Option<(CstObject, CstArray)>,
}

impl HookEntry {
    /// Removes the entry, and a group that becomes empty.
    fn remove(self) {
        self.object.remove();
        if let Some((group, list)) = self.group
            && list.elements().is_empty()
        {
            group.remove();
        }
    }
}

/// An event's entries that run midex, alone or in a group.
fn find_midex_entries(root: &CstRootNode, event: &str, name: &str) -> Vec<HookEntry> {
    let find_list = |object: &CstObject, name| json::find_field(object, name)?.array_value();
    let list_objects = |list: &CstArray| {
        let items = list.elements().into_iter();
        items.filter_map(|item| item.as_object())
    };
    let parse_entry = |object: CstObject, group| {
        let command = json::find_field(&object, "command")?.to_serde_value()?;
        let program = HookProgram::parse_command(command.as_str()?, name)?;
        Some(HookEntry { object, program, group })
    };
    let content = root.object_value();
    let events = content.and_then(|content| json::find_field(&content, "hooks")?.object_value());
    let entries = events.and_then(|events| find_list(&events, event));
    let mut matched = Vec::new();
    for group in entries.iter().flat_map(list_objects) {
        matched.extend(parse_entry(group.clone(), None));
        let Some(handlers) = find_list(&group, "hooks") else {
            continue;
        };
        let parse_in_group =
            |handler| parse_entry(handler, Some((group.clone(), handlers.clone())));
        matched.extend(list_objects(&handlers).filter_map(parse_in_group));
    }
    matched
}
