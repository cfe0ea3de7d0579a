//! Prints the answer of an operation: a list of objects as a table, text verbatim, anything else as JSON.

use serde_json::Value;

use crate::{
    Output,
    question::write_prompt,
    screen::{Screen, one_line, table_row, truncate_text},
    validate::format_count,
    value::{format_duration, json_text, list_items, text_field},
    visible::replace_hidden_chars,
};
use midex_domain::error::Result;

/// The maximum width of a column.
const COLUMN_WIDTH_MAX: usize = 40;
/// The width of the gap between two columns.
const COLUMN_GAP: usize = 2;

/// Prints to stderr how the call went. A payload that `is_written` to a file is not mentioned further.
pub(super) fn print_call_notes(answer: &Value, is_written: bool, out: &Output<'_>) -> Result<()> {
    if out.is_json {
        return Ok(());
    }
    let id = text_field(answer, "execution_id");
    let Some(status) = answer["status_code"].as_u64() else {
        let state = text_field(answer, "status");
        return write_prompt(&format!("{state}: `midex show {id}` says what it waits for\n"));
    };
    let duration = answer["duration_ms"].as_u64().map(format_duration).unwrap_or_default();
    let rows = match list_items(&answer["payload"]).len() {
        0 => String::new(),
        rows => format!(", {}", format_count(rows, "row")),
    };
    write_prompt(&format!("{status} in {duration}{rows} ({id})\n"))?;
    let notes = list_items(&answer["notes"]).iter().filter_map(Value::as_str);
    let omitted = PayloadTable::from_payload(&answer["payload"], &Screen::stdout())
        .map(|grid| grid.omitted_columns);
    let omitted = omitted.filter(|left| !left.is_empty());
    let omitted_note =
        omitted.map(|left| format!("columns left out: {}; --json has them", left.join(", ")));
    let extra_note = omitted_note.or_else(|| kept_artifact_line(&answer["artifact"]));
    notes
        .map(str::to_owned)
        .chain(extra_note.filter(|_| !is_written))
        .try_for_each(|note| write_prompt(&format!("note: {}\n", replace_hidden_chars(&note))))
}

/// The line about the payload, if it is kept as an artifact.
fn kept_artifact_line(artifact: &Value) -> Option<String> {
    artifact["uri"].as_str()?;
    let name = text_field(artifact, "name");
    let media_type = text_field(artifact, "content_type");
    let bytes = artifact["size_bytes"].as_u64().unwrap_or_default();
    Some(format!(
        "the payload is the artifact `{name}`, {media_type} of {}, kept with the execution; with --output FILE a call writes its payload to a file",
        format_count(usize::try_from(bytes).unwrap_or(usize::MAX), "byte")
    ))
}

/// The payload of the answer.
pub(super) fn render_payload(answer: &Value, screen: &Screen) -> String {
    match answer.get("payload") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => screen.indent_block(None, "", text),
        Some(payload) => match PayloadTable::from_payload(payload, screen) {
            Some(grid) => grid.render(screen),
            None => json_text(payload, true) + "\n",
        },
    }
}

/// A list of objects as a table.
struct PayloadTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The columns that do not fit, or that contain objects or lists.
    omitted_columns: Vec<String>,
}

impl PayloadTable {
    /// Lays out a table; `None` if the payload is not a list of objects, or no column can be shown.
    fn from_payload(payload: &Value, screen: &Screen) -> Option<Self> {
        let objects = payload.as_array()?.iter().map(Value::as_object);
        let objects = objects.collect::<Option<Vec<_>>>()?;
        let mut names: Vec<&String> = Vec::new();
        for name in objects.iter().flat_map(|object| object.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let is_scalar = |name: &str| {
            let mut values = objects.iter().filter_map(|object| object.get(name));
            !values.any(|value| value.is_object() || value.is_array())
        };
        let cells = |name: &str| -> Vec<String> {
            objects.iter().map(|object| format_cell(object.get(name))).collect()
        };
        let mut remaining_width = screen.columns();
        let (mut columns, mut cell_columns, mut omitted_columns) =
            (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let cells = cells(name);
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let needed_width = width.max(name.chars().count()).min(COLUMN_WIDTH_MAX) + COLUMN_GAP;
            // The first column is always shown.
            let fits = needed_width <= remaining_width || columns.is_empty();
            if !is_scalar(name) || !fits {
                omitted_columns.push(one_line(name));
                continue;
            }
            remaining_width = remaining_width.saturating_sub(needed_width);
            columns.push(truncate_text(&one_line(name), COLUMN_WIDTH_MAX));
            cell_columns.push(cells);
        }
        let rows = (0..objects.len())
            .map(|row_index| cell_columns.iter().map(|cells| cells[row_index].clone()).collect());
        let rows = rows.collect();
        (!columns.is_empty()).then_some(Self { columns, rows, omitted_columns })
    }

    fn render(self, screen: &Screen) -> String {
        let header: Vec<_> = self.columns.iter().map(String::as_str).collect();
        let mut table = screen.make_table(&header);
        for cells in self.rows {
            table.add_row(table_row(cells));
        }
        table.trim_fmt() + "\n"
    }
}

/// A scalar value in one line.
fn format_cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => one_line(text),
        Some(value) => one_line(&value.to_string()),
    };
    truncate_text(&text, COLUMN_WIDTH_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_objects_is_a_table_of_its_single_values() {
        let payload = json!([
            { "id": 1, "name": "a", "tags": ["x"], "note": "y".repeat(100) },
            { "id": 2, "open": true, "name": null, "tags": [] }
        ]);
        let grid = PayloadTable::from_payload(&payload, &Screen::stdout()).expect("a table");
        assert_eq!(grid.columns, ["id", "name", "note", "open"]);
        assert_eq!(grid.omitted_columns, ["tags"]);
        assert_eq!(grid.rows[1], ["2", "", "", "true"]);
        assert_eq!(grid.rows[0][2].chars().count(), COLUMN_WIDTH_MAX);
    }

    #[test]
    fn other_values_are_no_table() {
        for value in [json!([]), json!([1]), json!({ "a": 1 }), json!([{}]), json!([{ "a": [] }])] {
            assert!(PayloadTable::from_payload(&value, &Screen::stdout()).is_none(), "{value}");
        }
    }

    #[test]
    fn answer_cannot_control_terminal() {
        let answer = json!({ "payload": [{ "\u{1b}[31m": "\u{1b}[2J" }] });
        assert!(!render_payload(&answer, &Screen::stdout()).contains('\u{1b}'));
        let text = json!({ "payload": "a\u{1b}[2Jb" });
        assert!(!render_payload(&text, &Screen::stdout()).contains('\u{1b}'));
    }
}
