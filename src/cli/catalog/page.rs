//! The text output of `midex catalog`.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{OperationListing, schema::find_value_type};
use crate::{
    command::quoted,
    screen::{Screen, TextStyle, table_row},
    value::{list_items, text_field},
    visible::replace_hidden_chars,
};
use midex_domain::schema::follow_references;

/// The prefix of lines below a title.
const INDENT: &str = "  ";
/// The gap between a name and its description.
const NAME_GAP: &str = "  ";
/// The width of the field names.
const NAME_COLUMN_WIDTH: usize = 9;

/// The table of all catalogs.
pub(super) fn catalog_table(catalogs: &[Value]) -> String {
    let screen = Screen::stdout();
    if catalogs.is_empty() {
        let words =
            "no catalogs; `midex catalog add FILE --title TITLE` makes one of an OpenAPI document";
        return screen.indent_block(None, "", words);
    }
    let mut table = screen.make_table(&["catalog", "state", "commands", "called at", "title"]);
    for catalog in catalogs {
        table.add_row(table_row([
            text_field(catalog, "catalog_id"),
            catalog_state(catalog).to_owned(),
            catalog["operations"].to_string(),
            text_field(catalog, "base_url"),
            text_field(catalog, "title"),
        ]));
    }
    table.trim_fmt() + "\n"
}

/// The state of a catalog: whether its commands can be called.
pub(crate) fn catalog_state(catalog: &Value) -> &'static str {
    match list_items(&catalog["findings"]) {
        [] if catalog["enabled"] == false => "disabled",
        [] => "usable",
        _ if catalog["operations"] != 0 => "refused",
        _ => "broken",
    }
}

/// A catalog, and the first of its commands.
pub(super) fn catalog_page(catalog: &Value, listing: &OperationListing, screen: &Screen) -> String {
    let id = text_field(catalog, "catalog_id");
    let mut text = name_and_description(&id, &text_field(catalog, "title"), screen);
    let import_text =
        format!("{}, {}", text_field(catalog, "source"), text_field(catalog, "imported_at"));
    let count = &catalog["operations"];
    let count = match text_field(catalog, "document_version") {
        version if version.is_empty() => count.to_string(),
        version => format!("{count}, of version {version} of the document"),
    };
    text += &name_value_lines(
        &[
            ("state", catalog_state(catalog).to_owned()),
            ("about", text_field(catalog, "description")),
            ("vendor", text_field(catalog, "vendor")),
            ("called at", text_field(catalog, "base_url")),
            ("or at", other_base_urls(catalog)),
            ("allowed", join_texts(&catalog["allow"])),
            ("headers", headers_line(catalog)),
            ("needs", required_credentials(&catalog["schemes"])),
            ("sent to", join_texts(&catalog["origins"])),
            ("document", import_text),
            ("commands", count),
        ],
        screen,
    );
    for finding in list_items(&catalog["findings"]) {
        text += &screen.indent_block(
            Some(TextStyle::Bad),
            INDENT,
            finding.as_str().unwrap_or_default(),
        );
    }
    if !listing.commands.is_empty() {
        let _ = write!(text, "\n{}", command_table(&listing.commands, screen));
    }
    if let Some(note) = listing.more_commands_note() {
        text += &screen.indent_block(Some(TextStyle::Dim), "", &note);
    }
    text
}

/// A name and its description, on one line if it fits.
fn name_and_description(name: &str, about: &str, screen: &Screen) -> String {
    let title = screen.paint(TextStyle::Bold, name);
    if name.width() + NAME_GAP.width() + about.width() <= screen.columns() {
        return format!("{title}{NAME_GAP}{about}").trim_end().to_owned() + "\n";
    }
    format!("{title}\n{}", screen.indent_block(None, INDENT, about))
}

/// The other base URLs that the document lists.
fn other_base_urls(catalog: &Value) -> String {
    let base_urls = list_items(&catalog["base_urls"]).iter();
    let other_urls = base_urls.filter(|url| **url != catalog["base_url"]);
    join_texts(&other_urls.cloned().collect())
}

fn headers_line(catalog: &Value) -> String {
    let format_header = |header: &Value| {
        format!("{} ({})", text_field(header, "name"), text_field(header, "source"))
    };
    let headers: Vec<_> = list_items(&catalog["headers"]).iter().map(format_header).collect();
    headers.join(", ")
}

/// The credentials that the document requires, and the source of each.
pub(super) fn required_credentials(schemes: &Value) -> String {
    let format_scheme = |scheme: &Value| {
        let source = scheme["source"].as_str().unwrap_or("not set");
        let source = if source == "literal" { "in the catalog's file" } else { source };
        format!(
            "{} ({}): {}",
            text_field(scheme, "name"),
            text_field(scheme, "what"),
            replace_hidden_chars(source)
        )
    };
    let credentials: Vec<_> = list_items(schemes).iter().map(format_scheme).collect();
    credentials.join(", ")
}

/// The texts of a list, separated by commas.
pub(super) fn join_texts(value: &Value) -> String {
    let words: Vec<_> =
        list_items(value).iter().filter_map(Value::as_str).map(replace_hidden_chars).collect();
    words.join(", ")
}

/// Names and values, one a line; empty values are left out.
fn name_value_lines(pairs: &[(&str, String)], screen: &Screen) -> String {
    let mut text = String::new();
    let non_empty = pairs.iter().filter(|(_, value)| !value.is_empty());
    for (name, value) in non_empty {
        text += &screen.named_value(name, NAME_COLUMN_WIDTH, value);
    }
    text
}

/// The table of commands.
pub(crate) fn command_table(commands: &[Value], screen: &Screen) -> String {
    let mut table = screen.make_table(&["command", "class", "what it does"]);
    for command in commands {
        let summary = match text_field(command, "summary") {
            summary if command["uncallable"].is_string() => format!("(cannot be called) {summary}"),
            summary => summary,
        };
        table.add_row(table_row([
            text_field(command, "id"),
            text_field(command, "class"),
            summary,
        ]));
    }
    table.trim_fmt() + "\n"
}

/// The full description of one command.
pub(super) fn command_page(command: &Value, screen: &Screen) -> String {
    let id = text_field(command, "id");
    let http_call =
        format!("{} {}", text_field(command, "http_method"), text_field(command, "path"));
    let about = format!("{}{NAME_GAP}{}", text_field(command, "class"), http_call.trim());
    let mut text = name_and_description(&id, about.trim(), screen);
    let [summary, description] = ["summary", "description"].map(|name| text_field(command, name));
    text += &screen.indent_block(None, INDENT, &summary);
    if description != summary {
        let description = command["description"].as_str().unwrap_or_default();
        text += &screen.indent_block(None, INDENT, description);
    }
    if let Some(reason) = command["uncallable"].as_str() {
        text += &screen.indent_block(
            Some(TextStyle::Bad),
            INDENT,
            &format!("It cannot be called: {reason}"),
        );
    }
    let credentials = required_credentials(&command["credentials"]);
    if !credentials.is_empty() {
        text += &screen.indent_block(None, INDENT, &format!("It needs {credentials}"));
    }
    let rows = argument_rows(command);
    if !rows.is_empty() {
        let mut table = screen.make_table(&["argument", "in", "type", "", "what it is"]);
        for cells in rows {
            table.add_row(table_row(cells));
        }
        let _ = write!(text, "\n{}\n", table.trim_fmt());
    }
    let _ = writeln!(text, "\n{}", screen.paint(TextStyle::Dim, &example_call(command)));
    text
}

/// One row per argument, and per field of the body.
fn argument_rows(command: &Value) -> Vec<[String; 5]> {
    let row = |name: &str, place: &str, schema: &Value, root: &Value, required: bool| {
        let is_required = if required { "required" } else { "" };
        let description = text_field(schema, "description");
        [
            replace_hidden_chars(name),
            replace_hidden_chars(place),
            describe_type(schema, root),
            is_required.to_owned(),
            description,
        ]
    };
    let arguments = list_items(&command["arguments"]).iter().map(|argument| {
        let name = argument["name"].as_str().unwrap_or_default();
        // The arguments of a workflow have their own `schema`.
        let declared_schema = command["input_schema"]["properties"].get(name);
        let schema = declared_schema.unwrap_or(&argument["schema"]);
        let place = argument["in"].as_str().unwrap_or("input");
        row(name, place, schema, schema, argument["required"] == true)
    });
    let root = &command["body_schema"];
    let body = follow_references(root, root);
    // If the body is optional, none of its fields is required.
    let is_body_required = command["body"]["required"] == true;
    let required = Some(list_items(&body["required"])).filter(|_| is_body_required);
    let required = required.unwrap_or_default();
    let fields = body["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, schema)| {
        row(name, "body", schema, root, required.iter().any(|one| one == name))
    });
    let mut rows: Vec<_> = arguments.chain(fields).collect();
    if command["body"].is_object() && body["properties"].is_null() {
        let mut body_row = row("--body", "body", body, root, command["body"]["required"] == true);
        body_row[2] = text_field(&command["body"], "media_type");
        rows.push(body_row);
    }
    rows
}

/// The type of a value in a few words, or its choices.
fn describe_type(schema: &Value, root: &Value) -> String {
    let choices = list_items(&schema["enum"]).iter();
    let choices = choices
        .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), replace_hidden_chars));
    match choices.collect::<Vec<_>>() {
        choices if choices.is_empty() => find_value_type(schema, root)
            .map_or_else(String::new, |kind| replace_hidden_chars(&kind)),
        choices => choices.join("|"),
    }
}

/// An example call with the required arguments.
fn example_call(command: &Value) -> String {
    let with_flags = command["example"]["arguments"]["with"].as_object();
    let with_flags = with_flags.into_iter().flatten();
    let with_flags = with_flags.map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!(" --with {}", quoted(&replace_hidden_chars(&format!("{name}={value}"))))
    });
    let body = match &command["example"]["arguments"]["body"] {
        Value::Null => String::new(),
        body if body.to_string().len() > EXAMPLE_BODY_BYTES_MAX => " --body @FILE".to_owned(),
        body => format!(" --body {}", quoted(&replace_hidden_chars(&body.to_string()))),
    };
    format!(
        "midex call {}{}{body}",
        quoted(&text_field(command, "id")),
        with_flags.collect::<String>()
    )
}

/// The maximum size of a body in an example.
const EXAMPLE_BODY_BYTES_MAX: usize = 400;

/// The preview of an import.
pub(super) fn import_preview(answer: &Value, screen: &Screen) -> String {
    let catalog = &answer["catalog"];
    let mut text = name_and_description(
        &text_field(catalog, "catalog_id"),
        &text_field(catalog, "title"),
        screen,
    );
    text += &name_value_lines(
        &[
            ("vendor", text_field(catalog, "vendor")),
            ("called at", text_field(catalog, "base_url")),
            ("or at", other_base_urls(catalog)),
            ("commands", answer["projected_command_count"].to_string()),
            (
                "choices",
                format!(
                    "{} commands list choices for arguments",
                    answer["provider_contract_count"]
                ),
            ),
            ("groups", join_texts(&answer["projected_group_prefixes"])),
        ],
        screen,
    );
    let changes = document_changes(&answer["changes"], screen);
    if !changes.is_empty() {
        let _ = write!(text, "\nBeside the catalog that is there:\n{changes}");
    }
    let _ = write!(text, "\n{}", command_table(list_items(&answer["command_preview"]), screen));
    if answer["command_preview_truncated"] == true {
        let shown_count = list_items(&answer["command_preview"]).len() as u64;
        let total = answer["projected_command_count"].as_u64();
        let hidden_count = total.unwrap_or_default().saturating_sub(shown_count);
        let note =
            format!("{hidden_count} more, which `midex catalog show` lists once it is imported");
        let _ = writeln!(text, "{}", screen.paint(TextStyle::Dim, &note));
    }
    let next_hint = "Nothing was written: `midex catalog add` with the same arguments imports it";
    text + "\n" + &screen.indent_block(None, "", next_hint)
}

/// The changes in a new version of the document.
pub(super) fn document_changes(changes: &Value, screen: &Screen) -> String {
    let entries = |key: &str| list_items(&changes[key]);
    let line = |style, mark: &str, text: String| {
        let prefix = format!("{mark} ");
        screen.hanging_block((&prefix, prefix.len()), Some(style), &text)
    };
    let mut text = String::new();
    for (key, style, mark) in [("added", TextStyle::Good, "+"), ("removed", TextStyle::Bad, "-")] {
        for id in entries(key) {
            text += &line(style, mark, replace_hidden_chars(id.as_str().unwrap_or_default()));
        }
    }
    for change in entries("changed") {
        text += &line(
            TextStyle::Bold,
            "~",
            format!("{}: {}", text_field(change, "id"), join_texts(&change["what"])),
        );
    }
    for broken_step in entries("breaks") {
        let [workflow, step, reason] =
            ["workflow_id", "step_id", "why"].map(|name| text_field(broken_step, name));
        text += &line(
            TextStyle::Bad,
            "!",
            format!("step `{step}` of workflow `{workflow}` breaks: {reason}"),
        );
    }
    text
}

/// The headers of a catalog, and the addresses that they are sent to.
pub(super) fn headers_page(answer: &Value, screen: &Screen) -> String {
    let id = text_field(answer, "catalog_id");
    let headers = list_items(&answer["headers"]);
    let paragraph = |words: &str| screen.indent_block(None, "", words);
    if headers.is_empty() {
        return paragraph(&format!("The catalog `{id}` sends no headers of its own"));
    }
    let mut text = paragraph(&format!("With every call the catalog `{id}` sends:"));
    let mut table = screen.make_table(&["name", "value"]);
    let mut names = BTreeSet::new();
    for header in headers {
        let source = text_field(header, "source");
        names.extend(
            source.split(", ").filter_map(|name| name.strip_prefix("env:")).map(str::to_owned),
        );
        let value_text = if source == "literal" {
            "as it stands in the catalog's file".to_owned()
        } else {
            format!("with the secret {source}")
        };
        table.add_row(table_row([text_field(header, "name"), value_text]));
    }
    text += &(table.trim_fmt() + "\n");
    let origins = join_texts(&answer["origins"]);
    let destination_note = match origins.as_str() {
        "" => format!("They go nowhere yet: run `midex catalog base-url {id} URL`"),
        origins => format!("They go to {origins}, and nowhere else"),
    };
    text += &paragraph(&destination_note);
    for name in names {
        text += &paragraph(&format!(
            "The value of {name} stays in the environment of the server: list it with --secret-env {name}; where it is not set there, a line {name}=VALUE of the user's file `secrets` is used"
        ));
    }
    text
}
