//! Values of a manifest held against the shapes of the grammar.

use super::super::{
    finding::{Finding, Place, Rule},
    grammar::{Key, Record, Shape, foreign, is_template},
    id::StepId,
    nearest::did_you_mean,
    node::{Content, Entry, Node},
    span::Span,
};
use crate::limits;

/// The finding for a value of another type than `expected`.
pub fn wrong_type(node: &Node, path: &str, expected: &str) -> Finding {
    let what = path.rsplit('.').next().unwrap_or(path);
    let what = if what.is_empty() {
        "the document".to_owned()
    } else {
        format!("`{what}`")
    };
    let message = format!("{what} must be {expected}, this is {}", node.kind());
    let finding =
        Finding::new(Rule::WrongType, path, node.place, message).expected(expected, node.kind());
    match written(node, expected) {
        Some((old, new)) => finding
            .suggest(format!("write {new}"))
            .rewrite(node.place, &old, &new),
        None => finding,
    }
}

/// How a value is written, and how it would have to be.
fn written(node: &Node, expected: &str) -> Option<(String, String)> {
    match &node.content {
        Content::Number(_, written) if expected.starts_with("a text") => {
            Some((written.clone(), format!("\"{written}\"")))
        }
        Content::Bool(value) if expected.starts_with("a text") => {
            Some((value.to_string(), format!("\"{value}\"")))
        }
        Content::Number(_, written) if expected.starts_with("a duration") => {
            Some((written.clone(), format!("{written}s")))
        }
        Content::Text(text)
            if expected.starts_with("a list") && !text.contains(['\n', ':', '#', '{', '[']) =>
        {
            Some((text.clone(), format!("[{text}]")))
        }
        Content::Text(text)
            if expected.starts_with("a whole number") && text.parse::<u32>().is_ok() =>
        {
            Some((format!("\"{text}\""), text.clone()))
        }
        Content::Text(text)
            if expected.starts_with("`true`") && ["true", "false"].contains(&text.as_str()) =>
        {
            Some((format!("\"{text}\""), text.clone()))
        }
        _ => None,
    }
}

/// A finding for everything in `node` that is not as `shape` says.
pub(super) fn conform(found: &mut Vec<Finding>, node: &Node, path: &str, shape: &Shape) {
    match shape {
        // Schemas are looked at together, for what they may come to is counted for all of them.
        Shape::Value | Shape::Data | Shape::Step | Shape::Schema => {}
        Shape::Flag => {
            if !matches!(node.content, Content::Bool(_)) {
                found.push(wrong_type(node, path, "`true` or `false`"));
            }
        }
        Shape::Count(min, max) => count(found, node, path, *min, *max),
        Shape::Values => {
            if node.entries().is_none() {
                found.push(wrong_type(node, path, "a mapping"));
            }
        }
        Shape::Memory(min) => memory(found, node, path, *min),
        Shape::Items => items(found, node, path),
        Shape::List(of, min, max) => list(found, node, path, (of, *min, *max)),
        Shape::Record(keys) => record(found, node, path, keys),
        Shape::TextOr(keys) => match (&node.content, keys.keys.first()) {
            (Content::Text(_), Some(first)) => conform(found, node, path, &first.shape),
            (Content::Map(_), _) => record(found, node, path, keys),
            _ => found.push(wrong_type(node, path, "a text or a mapping")),
        },
        _ => textual(found, node, path, shape),
    }
}

/// What kind of text a shape asks for, as a message names it.
fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Span | Shape::SpanOrTemplate => "a duration such as 10s",
        Shape::InstantOrTemplate => "a text such as \"2030-01-31T09:00:00Z\"",
        Shape::Operation => "a text: a catalog and an operation",
        _ => "a text",
    }
}

fn textual(found: &mut Vec<Finding>, node: &Node, path: &str, shape: &Shape) {
    let Some(text) = node.text() else {
        found.push(wrong_type(node, path, expected(shape)));
        return;
    };
    let at = Words {
        text,
        path,
        place: node.place,
    };
    if text.trim().is_empty() {
        let key = at.key();
        found.push(at.finding(Rule::EmptyValue, format!("{key} is empty")));
        return;
    }
    found.extend(match shape {
        Shape::Text(max) | Shape::Template(max) => at.at_most(*max),
        Shape::Condition => at.at_most(limits::EXPRESSION_BYTES_MAX),
        Shape::Name(max) => at.name().or_else(|| at.at_most(*max)),
        Shape::Word => at.word().or_else(|| at.at_most(limits::WORD_BYTES_MAX)),
        Shape::Operation => at
            .operation()
            .or_else(|| at.at_most(limits::WORD_BYTES_MAX)),
        Shape::SpanOrTemplate | Shape::InstantOrTemplate if is_template(text) => {
            at.at_most(limits::EXPRESSION_BYTES_MAX)
        }
        Shape::Span | Shape::SpanOrTemplate => at.span(),
        Shape::InstantOrTemplate => at.instant(),
        Shape::Choice(words) => at.choice(words),
        Shape::Target(words) => at.target(words),
        _ => None,
    });
}

/// A text with its place.
#[derive(Clone, Copy)]
struct Words<'a> {
    text: &'a str,
    path: &'a str,
    place: Place,
}

impl Words<'_> {
    fn finding(self, rule: Rule, message: String) -> Finding {
        Finding::new(rule, self.path, self.place, message)
    }

    fn key(self) -> String {
        format!("`{}`", self.path.rsplit('.').next().unwrap_or(self.path))
    }

    fn at_most(self, max: usize) -> Option<Finding> {
        let bytes = self.text.len();
        let message = || format!("{} has {bytes} bytes, the limit is {max}", self.key());
        (bytes > max).then(|| {
            self.finding(Rule::LimitExceeded, message())
                .expected(format!("at most {max} bytes"), format!("{bytes} bytes"))
        })
    }

    fn name(self) -> Option<Finding> {
        let odd = self.text.contains(char::is_control) || self.text.trim() != self.text;
        odd.then(|| {
            let message = format!(
                "{} may hold no control characters, and no white space around it",
                self.key()
            );
            self.finding(Rule::IllFormedName, message).replace(
                self.place,
                self.text,
                Some(self.text.trim()),
            )
        })
    }

    fn word(self) -> Option<Finding> {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let sound =
            self.text.chars().all(letter) && !self.text.starts_with(|c: char| c.is_ascii_digit());
        (!sound).then(|| {
            let message = format!("`{}` is no word that an expression can use", self.text);
            self.finding(Rule::IllFormedName, message)
                .suggest("use letters, digits and `_`, beginning with no digit".to_owned())
        })
    }

    fn operation(self) -> Option<Finding> {
        let words = self.text.split_whitespace().count();
        let odd = |c: char| c.is_control() && !c.is_whitespace();
        (words < 2 || self.text.contains(odd)).then(|| {
            let message = format!("`{}` does not name a catalog and an operation", self.text);
            self.finding(Rule::IllFormedName, message).suggest(
                "write the catalog, a space and the operation, such as `render services:list`"
                    .to_owned(),
            )
        })
    }

    fn span(self) -> Option<Finding> {
        match self.text.parse::<Span>() {
            Ok(span) if span.duration().is_zero() => {
                let message = format!("{} must be longer than nothing", self.key());
                Some(self.finding(Rule::OutOfRange, message))
            }
            Ok(_) => None,
            Err(fault) => {
                let finding = self.finding(Rule::IllFormedDuration, fault.to_string());
                Some(match Span::meant(self.text) {
                    Some(span) => finding.suggest(format!("write {span}")).replace(
                        self.place,
                        self.text,
                        Some(&span.to_string()),
                    ),
                    None => finding,
                })
            }
        }
    }

    fn instant(self) -> Option<Finding> {
        let fault = self.text.parse::<jiff::Timestamp>().err()?;
        let message = format!("`{}` is not an instant: {fault}", self.text);
        Some(
            self.finding(Rule::IllFormedInstant, message).suggest(
                "write date, time and offset, such as \"2030-01-31T09:00:00Z\"".to_owned(),
            ),
        )
    }

    fn choice(self, words: &[&'static str]) -> Option<Finding> {
        if words.contains(&self.text) {
            return None;
        }
        let message = format!("`{}` is not one of {}", self.text, words.join(", "));
        let finding = self
            .finding(Rule::UnknownValue, message)
            .expected(words.join(", "), self.text);
        Some(meant(
            finding,
            self.path,
            self.place,
            self.text,
            words.iter().copied(),
        ))
    }

    /// What is no word and could not be the id of any step; whether there is such a step is for the flow to say.
    fn target(self, words: &[&'static str]) -> Option<Finding> {
        if words.contains(&self.text) {
            return None;
        }
        let error = StepId::parse(self.text).err()?;
        Some(
            self.finding(Rule::IllFormedName, error.message().to_owned())
                .did_you_mean(self.place, self.text, words.iter().copied()),
        )
    }
}

/// Suggests what the foreign word `text` stands for under the last key of `path`, else the nearest of `known`.
pub(super) fn meant<'a>(
    finding: Finding,
    path: &str,
    place: Place,
    text: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Finding {
    let key = path.rsplit('.').next().unwrap_or(path);
    match foreign::value(key, text) {
        Some(meant) => finding.is_called(place, text, meant),
        None => finding.did_you_mean(place, text, known),
    }
}

fn count(found: &mut Vec<Finding>, node: &Node, path: &str, min: u32, max: u32) {
    let expected = format!("a whole number from {min} to {max}");
    let Content::Number(number, written) = &node.content else {
        found.push(wrong_type(node, path, &expected));
        return;
    };
    let within = |number: u64| (u64::from(min)..=u64::from(max)).contains(&number);
    match node.count() {
        Some(number) if within(number) => {}
        Some(_) => found.push(out_of_range(node, path, &expected, written)),
        None if number.as_f64().is_some_and(|number| number < 0.0) => {
            found.push(out_of_range(node, path, &expected, written));
        }
        None => found.push(
            Finding::new(
                Rule::WrongType,
                path,
                node.place,
                format!("`{written}` is not a whole number"),
            )
            .expected(expected, written.as_str()),
        ),
    }
}

fn out_of_range(node: &Node, path: &str, expected: &str, written: &str) -> Finding {
    let key = path.rsplit('.').next().unwrap_or(path);
    let message = format!("`{key}` must be {expected}, this is {written}");
    Finding::new(Rule::OutOfRange, path, node.place, message).expected(expected, written)
}

/// How many there may be.
fn amount(
    found: &mut Vec<Finding>,
    node: &Node,
    path: &str,
    (count, min, max): (usize, usize, usize),
) {
    let key = path.rsplit('.').next().unwrap_or(path);
    if count < min {
        let message = format!("`{key}` is empty");
        found.push(Finding::new(Rule::EmptyValue, path, node.place, message));
    } else if count > max {
        let message = format!("there are {count} `{key}`, the limit is {max}");
        let finding = Finding::new(Rule::LimitExceeded, path, node.place, message);
        found.push(finding.expected(format!("at most {max}"), count.to_string()));
    }
}

fn memory(found: &mut Vec<Finding>, node: &Node, path: &str, min: usize) {
    let Some(entries) = node.entries() else {
        found.push(wrong_type(node, path, "a mapping"));
        return;
    };
    amount(
        found,
        node,
        path,
        (entries.len(), min, limits::MEMORY_ENTRIES_MAX),
    );
    for entry in entries {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let sound =
            entry.key.chars().all(letter) && !entry.key.starts_with('-') && !entry.key.is_empty();
        if !sound || entry.key.len() > limits::MEMORY_NAME_BYTES_MAX {
            let message = format!(
                "`{}` cannot be a name in memory: letters, digits, `_` and `-`, at most {}",
                entry.key,
                limits::MEMORY_NAME_BYTES_MAX
            );
            let path = format!("{path}.{}", entry.key);
            found.push(Finding::new(
                Rule::IllFormedName,
                path,
                entry.place,
                message,
            ));
        }
    }
}

fn items(found: &mut Vec<Finding>, node: &Node, path: &str) {
    match &node.content {
        Content::List(_) => {}
        Content::Text(text) if is_template(text) => {
            let at = Words {
                text,
                path,
                place: node.place,
            };
            found.extend(at.at_most(limits::EXPRESSION_BYTES_MAX));
        }
        Content::Text(text) => {
            let message = "`in` must be a list, or an expression that gives one";
            let template = format!("${{{{ {text} }}}}");
            found.push(
                Finding::new(Rule::WrongType, path, node.place, message)
                    .expected("a list or ${{ … }}", "a text")
                    .suggest(format!("write {template}"))
                    .rewrite(node.place, text, &format!("\"{template}\"")),
            );
        }
        _ => found.push(wrong_type(node, path, "a list or ${{ … }}")),
    }
}

fn list(found: &mut Vec<Finding>, node: &Node, path: &str, (of, min, max): (&Shape, usize, usize)) {
    let Some(items) = node.items() else {
        let expected = match of {
            Shape::Name(_) => "a list of texts",
            _ => "a list",
        };
        found.push(wrong_type(node, path, expected));
        return;
    };
    amount(found, node, path, (items.len(), min, max));
    for (at, item) in items.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let again = item.text().is_some()
            && items[..at]
                .iter()
                .any(|before| before.text() == item.text());
        if again {
            let message = format!("`{}` is named twice", item.text().unwrap_or_default());
            found.push(Finding::new(
                Rule::DuplicateValue,
                &path,
                item.place,
                message,
            ));
        }
        conform(found, item, &path, of);
    }
}

fn record(found: &mut Vec<Finding>, node: &Node, path: &str, record: &Record) {
    let Some(entries) = node.entries() else {
        found.push(wrong_type(node, path, "a mapping"));
        return;
    };
    let mut there = Vec::new();
    for entry in entries {
        let path = format!("{path}.{}", entry.key);
        match record.keys.iter().find(|key| key.name == entry.key) {
            None => found.push(unknown(entry, path, record)),
            // The second of two entries with one key is a finding already.
            Some(key) if there.contains(&key.name) => {}
            Some(key) => {
                there.push(key.name);
                conform(found, &entry.value, &path, &key.shape);
            }
        }
    }
    absent(found, node, path, record, &there);
}

/// The finding for a key that the mapping called `what` does not have.
pub fn unknown_key(what: &str, entry: &Entry, path: impl Into<String>) -> Finding {
    let message = format!("{what} has no key `{}`", entry.key);
    Finding::new(Rule::UnknownKey, path, entry.place, message)
}

fn unknown(entry: &Entry, path: String, record: &Record) -> Finding {
    let known = || record.keys.iter().map(|key| key.name);
    let finding = unknown_key(record.what, entry, path);
    if did_you_mean(&entry.key, known()).is_some() {
        return finding.did_you_mean(entry.place, &entry.key, known());
    }
    let all: Vec<_> = known().collect();
    finding.suggest(format!("its keys are {}", all.join(", ")))
}

fn absent(found: &mut Vec<Finding>, node: &Node, path: &str, record: &Record, there: &[&str]) {
    let missing = |key: &&Key| key.required && !there.contains(&key.name);
    for key in record.keys.iter().filter(missing) {
        let message = format!("{} has no `{}`", record.what, key.name);
        let path = format!("{path}.{}", key.name);
        found.push(Finding::new(Rule::MissingKey, path, node.place, message));
    }
    if !record.exactly_one || there.len() == 1 {
        return;
    }
    let all: Vec<_> = record
        .keys
        .iter()
        .map(|key| format!("`{}`", key.name))
        .collect();
    let message = format!("{} has one of {}", record.what, all.join(", "));
    let rule = if there.is_empty() {
        Rule::MissingKey
    } else {
        Rule::ConflictingKeys
    };
    found.push(Finding::new(rule, path, node.place, message));
}
