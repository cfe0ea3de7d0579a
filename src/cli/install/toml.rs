//! Edits one table of a TOML text that people edit too. All other bytes are kept, as in [`super::json`].

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, Item, Table};

use super::{
    Fault,
    json::{line_start, newline, spliced},
};

/// The table `[above.name]` as JSON, with null for values other than strings and arrays of strings. `None` if there is
/// no such table.
pub(super) fn read(text: &str, path: [&str; 2]) -> Result<Option<Value>, Fault> {
    let document = parse(text)?;
    let item = document.get(path[0]).and_then(|above| above.get(path[1]));
    let fields = |item: &Item| {
        let table = item.as_table_like()?;
        let fields = table
            .iter()
            .map(|(name, item)| (name.to_owned(), plain(item).unwrap_or_default()));
        Some(Value::Object(fields.collect()))
    };
    Ok(item.map(|item| fields(item).unwrap_or_default()))
}

/// The text with these fields in the table `[above.name]`, which is appended if missing, and without the fields
/// `others`.
pub(super) fn set(
    text: &str,
    path: [&str; 2],
    others: &[&str],
    fields: &Map<String, Value>,
) -> Result<String, Fault> {
    let text = without(text, path, others)?;
    let document = parse(&text)?;
    // A table that is only implied by the tables below it has no header in the text.
    let table = table(&document, path)?.filter(|table| !table.is_implicit());
    let edits = table.map(|table| edits(&text, table, fields));
    let text = edits.map_or_else(
        || appended(&text, path, fields),
        |edits| {
            let edit = |text: String, (at, with): &Edit| spliced(&text, at.clone(), with);
            edits.iter().rev().fold(text.clone(), edit)
        },
    );
    parse(&text).map(|_| text.clone())
}

/// The text without these fields of the table, in any notation: plain, dotted, or as a table below it.
fn without(text: &str, path: [&str; 2], fields: &[&str]) -> Result<String, Fault> {
    let document = parse(text)?;
    let Some(table) = table(&document, path)? else {
        return Ok(text.to_owned());
    };
    let mut found = Vec::new();
    for name in fields {
        field(text, table, name, &mut found);
    }
    Ok(cut(text, found))
}

/// Collects the lines of a field of a table.
fn field(text: &str, table: &Table, name: &str, found: &mut Vec<Range<usize>>) {
    match table.get_key_value(name) {
        Some((_, Item::Table(below))) if below.is_dotted() => {
            below
                .iter()
                .for_each(|(name, _)| field(text, below, name, found));
        }
        Some((_, Item::Table(below))) => regions(text, below, found),
        Some((key, item)) => found.push(lines(text, span(key.span()).start..span(item.span()).end)),
        None => {}
    }
}

/// A range of the text, and its replacement.
type Edit = (Range<usize>, String);

/// The edits that give a table these fields, in the order of the text.
fn edits(text: &str, table: &Table, fields: &Map<String, Value>) -> Vec<Edit> {
    let newline = newline(text);
    let (mut edits, mut missing) = (Vec::new(), String::new());
    for (name, value) in fields {
        match table.get(name) {
            Some(item) if plain(item).as_ref() == Some(value) => {}
            Some(item) => edits.push((span(item.span()), value.to_string())),
            None => missing.extend([name.as_str(), " = ", &value.to_string(), newline]),
        }
    }
    let header = lines(text, span(table.span())).end;
    if !text[..header].ends_with('\n') && !missing.is_empty() {
        missing = format!("{newline}{}", missing.trim_end());
    }
    edits.push((header..header, missing));
    edits.sort_by_key(|(stretch, _)| (stretch.start, stretch.end));
    edits
}

/// The text without the table `[above.name]` and its subtables.
pub(super) fn unset(text: &str, path: [&str; 2]) -> Result<String, Fault> {
    let document = parse(text)?;
    let Some(table) = table(&document, path)? else {
        return Ok(text.to_owned());
    };
    let mut cuts = Vec::new();
    regions(text, table, &mut cuts);
    Ok(cut(text, cuts))
}

/// The text without these lines. If a cut begins with a header, the empty line above it is removed too.
fn cut(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let cut = |text: String, cut: &Range<usize>| {
        let newline = newline(&text);
        let apart = format!("{newline}{newline}");
        let is_header = text[cut.start..].trim_start().starts_with('[');
        let is_apart = is_header && text[..cut.start].ends_with(&apart);
        let start = cut.start - if is_apart { newline.len() } else { 0 };
        spliced(&text, start..cut.end, "")
    };
    let without = cuts.iter().rev().fold(text.to_owned(), cut);
    let had_end = text.ends_with('\n');
    if had_end {
        without
    } else {
        without.trim_end_matches(['\r', '\n']).to_owned()
    }
}

fn parse(text: &str) -> Result<Document<&str>, Fault> {
    Document::parse(text).map_err(|error| Fault {
        at: span(error.span()).start,
        says: error.message().to_owned(),
    })
}

/// The table `[above.name]`; fails if it is written in a notation that cannot be edited, such as an inline table.
fn table<'a>(document: &'a Document<&str>, path: [&str; 2]) -> Result<Option<&'a Table>, Fault> {
    let Some(above) = document.get(path[0]) else {
        return Ok(None);
    };
    let not_a = |item: &Item, name: &str, wanted: &str| Fault {
        at: span(item.span()).start,
        says: format!("`{name}` is not {wanted}"),
    };
    if !above.is_table() {
        return Err(not_a(above, path[0], "a table under a header of its own"));
    }
    let name = path.join(".");
    match above.get(path[1]) {
        None => Ok(None),
        Some(Item::Table(table)) if !table.is_dotted() && table.span().is_some() => Ok(Some(table)),
        Some(item) => Err(not_a(
            item,
            &name,
            &format!("a table under a header `[{name}]`"),
        )),
    }
}

fn appended(text: &str, path: [&str; 2], fields: &Map<String, Value>) -> String {
    let newline = newline(text);
    let mut table = format!("[{}]", path.join("."));
    for (name, value) in fields {
        table.extend([newline, name, " = ", &value.to_string()]);
    }
    match text {
        "" => format!("{table}{newline}"),
        text if text.ends_with('\n') => format!("{text}{newline}{table}{newline}"),
        // Keep the end of the file without a line end.
        text => format!("{text}{newline}{newline}{table}"),
    }
}

/// Collects the lines of a table and its subtables.
fn regions(text: &str, table: &Table, found: &mut Vec<Range<usize>>) {
    if let Some(header) = table.span().filter(|_| !table.is_implicit()) {
        let ends = table.iter().filter(|(_, item)| item.is_value());
        let end = ends.map(|(_, item)| span(item.span()).end).max();
        found.push(lines(text, header.start..end.unwrap_or(header.end)));
    }
    for (_, item) in table {
        match item {
            Item::Table(below) => regions(text, below, found),
            Item::ArrayOfTables(all) => all.iter().for_each(|below| regions(text, below, found)),
            _ => {}
        }
    }
}

/// The range extended to whole lines.
fn lines(text: &str, stretch: Range<usize>) -> Range<usize> {
    let start = line_start(text, stretch.start);
    let end = text[stretch.end..]
        .find('\n')
        .map_or(text.len(), |newline| stretch.end + newline + 1);
    start..end
}

fn span(span: Option<Range<usize>>) -> Range<usize> {
    span.unwrap_or_default()
}

/// A string or an array of strings as JSON; `None` for other values.
fn plain(item: &Item) -> Option<Value> {
    if let Some(items) = item.as_array() {
        let strings = items.iter().map(|item| item.as_str().map(Value::from));
        return strings.collect::<Option<Vec<_>>>().map(Value::Array);
    }
    item.as_str().map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATH: [&str; 2] = ["servers", "midex"];

    #[test]
    fn a_table_is_changed_wherever_and_however_it_stands() {
        let fields = json!({ "command": "/x", "args": ["serve"] });
        let fields = fields.as_object().expect("an object");
        let new = "[servers.midex]\ncommand = \"/x\"\nargs = [\"serve\"]";
        for (before, after) in [
            (
                "[servers.midex.env]\nA = 'b'\n".to_owned(),
                format!("[servers.midex.env]\nA = 'b'\n\n{new}\n"),
            ),
            ("[servers.midex]".to_owned(), new.to_owned()),
            (
                "[ servers . 'midex' ] # h\nurl = 'u' # k\nargs = [\n 'a', # q\n]\n\n[z]"
                    .to_owned(),
                "[ servers . 'midex' ] # h\ncommand = \"/x\"\nargs = [\"serve\"]\n\n[z]".to_owned(),
            ),
        ] {
            let changed = set(&before, PATH, &["url"], fields).expect("TOML");
            assert_eq!(changed, after);
            let said = read(&changed, PATH).expect("TOML").expect("a table");
            assert_eq!(
                (&said["command"], &said["url"]),
                (&json!("/x"), &Value::Null)
            );
            assert_eq!(
                set(&changed, PATH, &["url"], fields).expect("TOML"),
                changed
            );
            let without = unset(&changed, PATH).expect("TOML");
            assert!(
                !without.contains("midex") && without.contains("[z]") == before.contains("[z]"),
                "{without}"
            );
        }
    }
}
