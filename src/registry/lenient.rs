//! Reads agent front matter that is not valid YAML, as hosts read it: each line that starts with a key begins an entry,
//! and the following lines belong to it.

use super::yaml;
use midex_domain::{
    finding::{Finding, Place, Rule},
    node::{DocumentNode, MappingEntry, NodeContent},
};

/// The keys that hosts know. Only these end a description, since its examples may contain lines such as `user: "look"`.
const HOST_KEYS: &str = " name description tools disallowedTools allowed-tools model color permissionMode mcpServers hooks skills memory \
    effort maxTurns background isolation initialPrompt tags version ";

/// The lines of one entry.
struct EntryLines<'a> {
    key: &'a str,
    /// The byte offset of the key.
    start: usize,
    text: &'a str,
}

/// Reads the front matter line by line. Returns it with a warning that it is not valid YAML, and with edits that fix
/// it, if they do. `None` if it has no `name`.
pub(super) fn read_front_matter(front: &str) -> Option<(DocumentNode, Finding)> {
    let lines = split_entries(front);
    let _ = lines.iter().find(|one| one.key == "name")?;
    let (mut entries, mut edited_entries, mut fixed_text) =
        (Vec::new(), Vec::new(), String::from("---\n"));
    for one in &lines {
        let place = Place::from_bytes(front, one.start, one.start + one.key.len());
        let content = one.parse_as_yaml();
        let text = match content {
            Some(_) => one.text.to_owned(),
            None => one.to_valid_yaml(),
        };
        fixed_text.push_str(&text);
        edited_entries.extend(content.is_none().then_some((one, text)));
        let content = content.unwrap_or_else(|| NodeContent::Text(one.value_text()));
        entries.push(MappingEntry {
            key: one.key.to_owned(),
            place,
            value: DocumentNode { content, place },
        });
    }
    let keys: Vec<_> = edited_entries.iter().map(|(one, _)| one.key).collect();
    let message = format!(
        "this is no YAML: `{}` is taken as the text up to the next key, as hosts do",
        keys.join("`, `")
    );
    let first = edited_entries.first().map_or(0, |(one, _)| one.start);
    let place = Place::from_bytes(front, first, first);
    let mut warning = Finding::new(Rule::Syntax, "", place, message).as_warning();
    if yaml::parse(&fixed_text).is_ok() {
        for (one, new) in edited_entries {
            warning = warning.edit_replace_bytes(Some(one.start), one.text.to_owned(), new);
        }
        warning = warning.suggest("write it as a text of YAML".to_owned());
    }
    let content = NodeContent::Map(entries);
    let place = Place::START;
    Some((DocumentNode { content, place }, warning))
}

/// The entries between the fences. If a key repeats, its first line counts.
fn split_entries(front: &str) -> Vec<EntryLines<'_>> {
    let mut key_starts: Vec<(&str, usize)> = Vec::new();
    let mut offset = 0;
    for (number, line) in front.split_inclusive('\n').enumerate() {
        if let Some(key) = parse_key(line).filter(|_| number > 0) {
            let is_new = key_starts.iter().all(|(known, _)| *known != key);
            let is_in_description =
                key_starts.last().is_some_and(|(last, _)| *last == "description");
            if is_new && (!is_in_description || HOST_KEYS.contains(&format!(" {key} "))) {
                key_starts.push((key, offset));
            }
        }
        offset += line.len();
    }
    let entry_ends = key_starts.iter().skip(1).map(|(_, start)| *start);
    let entry_ends: Vec<_> = entry_ends.chain([front.len()]).collect();
    let lines = key_starts.into_iter().zip(entry_ends);
    lines.map(|((key, start), end)| EntryLines { key, start, text: &front[start..end] }).collect()
}

fn parse_key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let has_key_form = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (has_key_form && (rest.trim().is_empty() || rest.starts_with([' ', '\t']))).then_some(key)
}

impl EntryLines<'_> {
    /// The value, if these lines are one valid YAML entry; for `name` and `description`, only if it is a text.
    fn parse_as_yaml(&self) -> Option<NodeContent> {
        let node = yaml::parse(self.text).ok()?;
        let [entry] = node.entries()? else {
            return None;
        };
        let is_plain_text =
            !["name", "description"].contains(&self.key) || entry.value.as_text().is_some();
        (entry.key == self.key && is_plain_text).then(|| entry.value.content.clone())
    }

    /// The value as text.
    fn value_text(&self) -> String {
        let rest = self.text[self.key.len() + 1..].trim();
        let lines = rest.lines().map(|line| {
            let line = line.trim_end();
            line.strip_prefix("  ").unwrap_or(line)
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let quoted = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        quoted.map_or(text.clone(), str::to_owned)
    }

    /// The entry, rewritten as valid YAML.
    fn to_valid_yaml(&self) -> String {
        let lines = self.value_text();
        let lines = lines.lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("  {line}\n"),
        });
        format!("{}: |2-\n{}", self.key, lines.collect::<String>())
    }
}
