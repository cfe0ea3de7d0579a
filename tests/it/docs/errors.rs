//! The page of errors is the table of codes, written out.

use std::fmt::Write as _;

use midex::error::{Category, Code, Error};
use serde_json::json;

const HEAD: &str = "\
# Errors

<!-- Written from the table in src/error/code.rs: `MIDEX_WRITE_DOCS=1 cargo test --test it docs::errors` writes it anew. -->

Every refusal of midex, over MCP, HTTP and on the command line, carries one of these codes as `error_code`, with its `category`, how far the call came
(`failure_stage`), whether the same call may succeed later (`retryable`), and in `suggested_action` the one right next call. Where a next call needs a
name, it is in `context`; here it is in capitals. What breaks a rule is listed in `violations`, all at once. The last column is what the command line says
in its place; `midex help errors CODE` shows it too.
";

/// What a next call may need, in capitals.
const NAMES: [&str; 9] = [
    "execution_id",
    "workflow",
    "workflow_id",
    "path",
    "tool",
    "tools",
    "data_dir",
    "limit",
    "needed_mib",
];

fn word(value: impl serde::Serialize) -> String {
    let word = json!(value);
    word.as_str().unwrap().to_owned()
}

fn next_call(code: Code) -> String {
    let error = NAMES.iter().fold(Error::new(code, ""), |error, name| {
        error.with(name, name.to_uppercase())
    });
    let error = error.with("address", "ADDRESS");
    error.suggested_action().replace('|', "\\|")
}

/// What a person types, with the names in capitals.
fn typed(code: Code) -> String {
    let mut text = code.typed().join("; else: ");
    for name in NAMES
        .iter()
        .copied()
        .chain(["nearest", "words", "address", "host"])
    {
        text = text.replace(&format!("{{{name}}}"), &name.to_uppercase());
    }
    assert!(!text.contains('{'), "{code}: {text}");
    text.replace('|', "\\|")
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (category, what) in [
        (
            Category::Validation,
            "the request breaks a rule: sending it again will not help",
        ),
        (Category::NotFound, "what is named does not exist"),
        (
            Category::Conflict,
            "what is named has moved on, or is somebody else's",
        ),
        (
            Category::Execution,
            "the execution or the server cannot do it now",
        ),
        (Category::Internal, "a fault of midex or of the machine"),
    ] {
        write!(page, "\n## {}\n\n{what}\n\n", word(category)).unwrap();
        page.push_str("| `error_code` | what it says | `failure_stage` | retryable | next | on the command line |\n|---|---|---|---|---|---|\n");
        for code in Code::ALL.iter().filter(|code| code.category() == category) {
            let (what, stage, next) = (
                code.description().trim(),
                word(code.stage()),
                next_call(*code),
            );
            let retryable = if code.retryable() { "yes" } else { "no" };
            writeln!(
                page,
                "| `{code}` | {what} | {stage} | {retryable} | {next} | {} |",
                typed(*code)
            )
            .unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_errors_is_that_of_the_table() {
    super::hold("docs/errors.md", &page());
}
