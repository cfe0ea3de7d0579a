//! Edits one table of a TOML file that people edit too. `toml_edit` keeps the comments and the order of everything else,
//! with one exception: it moves dotted keys with the same first part (`a.b`, `a.c`) next to each other.

use serde_json::{Map, Value};
use toml_edit::{Document, DocumentMut, Item, Table};

use super::uneditable_text_error;
use midex_domain::error::Result;

/// Marks a header that is removed from the text. The character cannot occur in TOML.
const REMOVED_HEADER_MARK: &str = "\0";

/// The table `[above.name]` as JSON, with null for values other than strings and arrays of strings. `None` if there is
/// no such table.
pub(super) fn read_table(text: &str, path: [&str; 2]) -> Result<Option<Value>> {
    let document = parse(text)?;
    let item = document.get(path[0]).and_then(|parent| parent.get(path[1]));
    let fields = |item: &Item| {
        let table = item.as_table_like()?;
        let fields = table
            .iter()
            .map(|(name, item)| (name.to_owned(), plain_value(item).unwrap_or_default()));
        Some(Value::Object(fields.collect()))
    };
    Ok(item.map(|item| fields(item).unwrap_or_default()))
}

/// The text with these fields in the table `[above.name]`, which is appended if missing, and without the fields
/// `removed_names`.
pub(super) fn set_fields(
    text: &str,
    path: [&str; 2],
    removed_names: &[&str],
    fields: &Map<String, Value>,
) -> Result<String> {
    let mut document = parse_editable(text, path)?;
    let new_table = Item::Table(make_last_table(&document));
    let parent = document.entry(path[0]).or_insert_with(|| {
        let mut new_parent = Table::new();
        new_parent.set_implicit(true);
        Item::Table(new_parent)
    });
    let Some(parent) = parent.as_table_mut() else {
        return Ok(text.to_owned());
    };
    let is_new = !parent.contains_key(path[1]);
    if let Some(table) = parent.entry(path[1]).or_insert(new_table).as_table_mut() {
        // A table that is only implied by the tables below it has no header in the text.
        table.set_implicit(false);
        for name in removed_names {
            if let Some(item) = table.get_mut(name) {
                remove_item(item);
            }
        }
        for (name, value) in fields {
            set_key(table, name, value);
        }
    }
    if is_new {
        document.set_trailing("");
    }
    Ok(document_text(text, &document))
}

/// The text without the table `[above.name]` and its subtables.
pub(super) fn remove_whole_table(text: &str, path: [&str; 2]) -> Result<String> {
    let mut document = parse_editable(text, path)?;
    let parent = document.get_mut(path[0]);
    let Some(item) = parent.and_then(|above| above.get_mut(path[1])) else {
        return Ok(text.to_owned());
    };
    remove_item(item);
    Ok(document_text(text, &document))
}

fn parse(text: &str) -> Result<Document<&str>> {
    Document::parse(text).map_err(|error| {
        let offset = error.span().unwrap_or_default().start;
        uneditable_text_error(offset, error.message())
    })
}

/// Parses the text. Fails if the table `[above.name]` is written in a notation that cannot be edited, such as an inline
/// table.
fn parse_editable(text: &str, path: [&str; 2]) -> Result<DocumentMut> {
    let document = parse(text)?;
    let wrong_type_error = |item: &Item, name: &str, expected: &str| {
        let offset = item.span().unwrap_or_default().start;
        uneditable_text_error(offset, format!("`{name}` is not {expected}"))
    };
    if let Some(parent) = document.get(path[0]) {
        if !parent.is_table() {
            return Err(wrong_type_error(parent, path[0], "a table under a header of its own"));
        }
        let is_editable = |item: &Item| item.as_table().is_some_and(|table| !table.is_dotted());
        if let Some(item) = parent.get(path[1]).filter(|item| !is_editable(item)) {
            let name = path.join(".");
            let expected = format!("a table under a header `[{name}]`");
            return Err(wrong_type_error(item, &name, &expected));
        }
    }
    Ok(document.into_mut())
}

/// A table for the end of the document, below the comments that stand there.
fn make_last_table(document: &DocumentMut) -> Table {
    let mut leading_text = document.trailing().as_str().unwrap_or_default().to_owned();
    if !leading_text.is_empty() && !leading_text.ends_with('\n') {
        leading_text.push('\n');
    }
    if !(document.is_empty() && leading_text.is_empty()) {
        leading_text.push('\n');
    }
    let mut table = Table::new();
    table.decor_mut().set_prefix(leading_text);
    table.set_position(Some(isize::MAX));
    table
}

/// Gives a key this value. A key that has it already keeps its text, and a comment behind it stays.
fn set_key(table: &mut Table, name: &str, value: &Value) {
    let mut new_value: toml_edit::Value = match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().unwrap_or_default().into(),
    };
    match table.get_mut(name) {
        Some(item) if plain_value(item).as_ref() == Some(value) => {}
        Some(Item::Value(old_value)) => {
            *new_value.decor_mut() = old_value.decor().clone();
            *old_value = new_value;
        }
        _ => {
            table.insert(name, Item::Value(new_value));
        }
    }
}

/// Removes a value, or a table with its subtables. The comments above a header stay.
fn remove_item(item: &mut Item) {
    match item {
        Item::Table(table) => remove_table(table),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(remove_table),
        _ => *item = Item::None,
    }
}

fn remove_table(table: &mut Table) {
    table.iter_mut().for_each(|(_, item)| remove_item(item));
    let decor = table.decor_mut();
    let comments = decor.prefix().and_then(|prefix| prefix.as_str());
    let comments = comments.unwrap_or_default().replace('\r', "");
    // The empty line that set the table apart goes with it.
    let detached = comments.strip_suffix('\n');
    let detached = detached.filter(|above| above.is_empty() || above.ends_with('\n'));
    let comments = detached.unwrap_or(&comments).to_owned();
    decor.set_prefix(comments);
    decor.set_suffix(REMOVED_HEADER_MARK);
}

/// The document as text, with the line ends of the text before.
fn document_text(text: &str, document: &DocumentMut) -> String {
    let result_text = document.to_string();
    let lines = result_text.split_inclusive('\n');
    let mut result_text: String =
        lines.filter(|line| !line.contains(REMOVED_HEADER_MARK)).collect();
    if !text.is_empty() && !text.ends_with('\n') {
        result_text.truncate(result_text.trim_end_matches('\n').len());
    }
    if text.contains("\r\n") {
        result_text = result_text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    result_text
}

/// A string or an array of strings as JSON; `None` for other values.
fn plain_value(item: &Item) -> Option<Value> {
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
    const BLOCK: &str = "[servers.midex]\ncommand = \"/x\"\nargs = [\"serve\"]";
    const OTHERS: &str = "[z]\r\nb = 1\r\na.b = 1\r\na.d = '''\r\n'''\r\n[a]\r\n[[y]]\r\n# e\r\n";

    #[test]
    fn table_is_changed_in_any_notation() {
        let fields = json!({ "command": "/x", "args": ["serve"] });
        let fields = fields.as_object().expect("an object");
        for (before, after, without) in [
            (
                "# a\n[servers.midex.env]\nA = 'b'\n",
                "BLOCK\n# a\n[servers.midex.env]\nA = 'b'\n",
                "# a\n",
            ),
            ("[servers.midex]", "BLOCK", ""),
            (
                "# a\n[ servers . 'midex' ] # h\nurl = 'u' # k\nargs = [\n 'a', # q\n] # r\n\n[z]",
                "# a\n[ servers . 'midex' ] # h\nargs = [\"serve\"] # r\ncommand = \"/x\"\n\n[z]",
                "# a\n\n[z]",
            ),
            (
                "[[servers.midex.env]]\nA = 1\n# b\n[z]\n[servers.midex.x]\ny.z = 1\n",
                "BLOCK\n[[servers.midex.env]]\nA = 1\n# b\n[z]\n[servers.midex.x]\ny.z = 1\n",
                "# b\n[z]\n",
            ),
            ("# a", "# a\n\nBLOCK", "# a"),
            ("# a\n\n", "# a\n\n\nBLOCK\n", "# a\n\n"),
            (OTHERS, &format!("{OTHERS}\nBLOCK\n"), OTHERS),
        ] {
            let changed = set_fields(before, PATH, &["url"], fields).expect("TOML");
            let mut after = after.replace("BLOCK", BLOCK);
            if before.contains('\r') {
                after = after.replace('\r', "").replace('\n', "\r\n");
            }
            assert_eq!(changed, after);
            let parsed = read_table(&changed, PATH).expect("TOML").expect("a table");
            let expected = (&json!("/x"), &Value::Null);
            assert_eq!((&parsed["command"], &parsed["url"]), expected);
            let repeated = set_fields(&changed, PATH, &["url"], fields).expect("TOML");
            assert_eq!(repeated, changed);
            assert_eq!(remove_whole_table(&changed, PATH).expect("TOML"), without);
        }
    }
}
