//! The page of errors is the table of codes, written out.

use std::fmt::Write as _;

use midex_cli::advice::{documented_advice, documented_failure_advice};
use midex_domain::error::{Category, Code, Error, FailureCode};
use serde_json::json;

const HEAD: &str = "\
# Errors

<!-- Written from the tables in src/domain/error/code.rs and src/domain/error/failure.rs: `MIDEX_WRITE_DOCS=1 cargo test --test docs errors` writes it anew. -->

Every error of midex, over MCP, over HTTP and on the command line, has one of these codes as `error_code`. With it come its `category`, the stage at
which the call failed (`failure_stage`), whether the same call may succeed later (`retryable`), and the next call to make (`suggested_action`). Names that
the next call needs are in `context`; this page shows them in capitals. `violations` lists every broken rule at once. The last column is the advice of the
command line; `midex help errors CODE` prints it too.
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
    let error = NAMES
        .iter()
        .fold(Error::new(code, ""), |error, name| error.with_context(name, name.to_uppercase()));
    let error = error.with_context("address", "ADDRESS");
    error.suggested_action().replace('|', "\\|")
}

/// What a person types, with the names in capitals.
fn typed(code: Code) -> String {
    let text = documented_advice(code).join("; else: ");
    assert!(!text.contains('{'), "{code}: {text}");
    text.replace('|', "\\|")
}

const FAILURES: &str = "
## Failures

what a step or an execution failed with: `code` of `error` in its status and its history, `run.failure.code` in an expression, and a name for `retry.on`.
Some are names of refusals above too. Agents, activities and `fail` steps may report codes of their own besides.

| `code` | what it says | on the command line |
|---|---|---|
";

/// The table of failures.
fn failures() -> String {
    let mut page = FAILURES.to_owned();
    for code in FailureCode::ALL {
        let (what, next) = (code.description().trim(), documented_failure_advice(*code));
        assert!(!next.contains('{'), "{code}: {next}");
        writeln!(page, "| `{code}` | {what} | {} |", next.replace('|', "\\|")).unwrap();
    }
    page
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (category, what) in [
        (Category::Validation, "the request breaks a rule: sending it again will not help"),
        (Category::NotFound, "what is named does not exist"),
        (Category::Conflict, "what is named has moved on, or is somebody else's"),
        (Category::Execution, "the execution or the server cannot do it now"),
        (Category::Internal, "a fault of midex or of the machine"),
    ] {
        write!(page, "\n## {}\n\n{what}\n\n", word(category)).unwrap();
        page.push_str("| `error_code` | what it says | `failure_stage` | retryable | next | on the command line |\n|---|---|---|---|---|---|\n");
        for code in Code::ALL.iter().filter(|code| code.category() == category) {
            let (what, stage, next) =
                (code.description().trim(), word(code.stage()), next_call(*code));
            let retryable = if code.retryable() { "yes" } else { "no" };
            writeln!(
                page,
                "| `{code}` | {what} | {stage} | {retryable} | {next} | {} |",
                typed(*code)
            )
            .unwrap();
        }
    }
    page + &failures()
}

#[test]
fn the_page_of_errors_is_that_of_the_table() {
    super::hold("docs/errors.md", &page());
}

/// The class of a failure without a code of its own becomes its code, in capitals.
#[test]
fn every_class_of_a_failure_is_a_code_of_the_table_or_has_one() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut classes = 0;
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("OperationFailure::new(").skip(1) {
                let Some(class) = rest.trim_start().strip_prefix('"') else {
                    continue;
                };
                let class = class.split('"').next().unwrap();
                // The code is given with it, or a line below.
                let call: String = rest.chars().take(200).collect();
                let before = text.split(rest).next().unwrap();
                let of_struct = before.rsplit("OperationFailure {").next().unwrap();
                let has_code = call.contains(".with_code(") || of_struct.contains("code: Some(");
                classes += 1;
                assert!(
                    has_code || FailureCode::parse(&class.to_uppercase()).is_some(),
                    "{class} in {}",
                    path.display()
                );
            }
        }
    }
    assert!(classes > 10, "{classes}");
}
