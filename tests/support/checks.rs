//! What tests look at most often, in one line each.

use serde_json::Value;

use crate::Parts;

/// What `part` is of each item.
pub fn list_of<'a, T, U>(items: &'a [T], part: impl FnMut(&'a T) -> U) -> Vec<U> {
    items.iter().map(part).collect()
}

/// Holds a text to have each of these parts.
#[track_caller]
pub fn assert_has(text: &str, parts: impl Parts) {
    for part in parts.parts() {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

/// Holds an answer to these fields, each by its name or by its path as `/path/0/name`; of one that it does not have the
/// value is null.
#[track_caller]
pub fn has_fields(answer: &Value, fields: Value) {
    for (name, expected) in fields.as_object().expect("fields") {
        let path = answer.pointer(name).unwrap_or(&Value::Null);
        let field = if name.starts_with('/') { path } else { &answer[name] };
        assert_eq!(field, expected, "`{name}` of {answer}");
    }
}

/// Holds a refusal to this code.
#[track_caller]
pub fn has_code(refusal: &Value, code: &str) {
    assert_eq!(refusal["error_code"], code, "{refusal}");
}

/// Holds a text of an answer to have these words.
#[track_caller]
pub fn says(text: &Value, words: impl AsRef<str>) {
    let has = |text: &str| text.contains(words.as_ref());
    assert!(text.as_str().is_some_and(has), "`{}` is missing in {text}", words.as_ref());
}

/// Reads a table whose cells are JSON strings, separated by commas, one row per line. For cells with line breaks, spaces
/// at an end or ` | `; [`table`](crate::table) is easier to read where cells contain quotes.
#[track_caller]
pub fn rows<const N: usize>(table: &str) -> Vec<[&'static str; N]> {
    let rows = table.lines().filter(|row| !row.trim().is_empty());
    let rows = rows.map(|row| {
        let cells: Vec<String> = serde_json::from_str(&format!("[{row}]")).expect(row);
        let cells = cells.into_iter().map(|cell| &*cell.leak());
        let cells: Result<_, Vec<_>> = cells.collect::<Vec<_>>().try_into();
        cells.unwrap_or_else(|cells| panic!("{} cells in {row}", cells.len()))
    });
    rows.collect()
}
