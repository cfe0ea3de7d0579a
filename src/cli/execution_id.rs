//! Resolves the execution that a person names: by its id, the beginning or a part of an id, `@last` or `@last-failed`.
//! If none is named, asks at the terminal.

use serde_json::{Value, json};

use super::{
    link::{ServerLink, remove_nulls},
    picker::{PickerItem, pick_choice},
    question::can_ask_person,
    screen::one_line,
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    limits,
    view::{ExecutionPage, ExecutionRow},
};

/// The execution of this project that changed last.
pub(super) const LAST_WORD: &str = "@last";
/// The failed execution of this project that changed last.
pub(super) const LAST_FAILED_WORD: &str = "@last-failed";
/// The prefix of generated ids.
const GENERATED_ID_PREFIX: &str = "exec_";
/// The number of characters after the prefix.
const GENERATED_ID_CHARS: usize = 26;
/// The minimum length of a part that is searched for inside ids. Shorter texts match only at the beginning.
const ID_PART_CHARS_MIN: usize = 4;

/// A command that takes an execution, and the executions that it offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExecutionChoice {
    /// The command as it is typed, without the execution.
    pub(super) command: &'static str,
    /// The state of the executions that it offers, as `execution.list` takes it; `None` for all.
    pub(super) state: Option<&'static str>,
    /// What the executions must wait for, if it offers only those.
    pub(super) waits_for: Option<&'static str>,
}

/// Runs `action` with the execution that `execution_arg` names or, without `execution_arg`, with the one that is picked at the terminal.
/// `None` if none was picked.
///
/// # Errors
/// As [`run_with_execution`]; `USAGE_INVALID` if no execution is named and there is no terminal to ask.
pub(super) async fn run_with_named_or_picked<T>(
    link: &mut ServerLink<'_>,
    execution_arg: Option<&str>,
    request: ExecutionChoice,
    action: impl AsyncFn(&mut ServerLink<'_>, &str) -> Result<T>,
) -> Result<Option<T>> {
    match execution_arg {
        Some(execution_arg) => run_with_execution(link, execution_arg, action).await.map(Some),
        None if !can_ask_person() => Err(execution_required_error(request)),
        None => match pick_execution(link, request).await? {
            Some(id) => action(link, &id).await.map(Some),
            None => Ok(None),
        },
    }
}

/// Runs `action` with the execution that `execution_arg` names. It is tried as a complete id first. If there is no such execution,
/// it is resolved as a word, as the beginning of an id, or as a part of an id, in every project.
///
/// # Errors
/// `EXECUTION_NOT_FOUND` with the nearest id; `USAGE_INVALID` with the matching ids if there are several; the errors of
/// `action`.
pub(super) async fn run_with_execution<T>(
    link: &mut ServerLink<'_>,
    execution_arg: &str,
    action: impl AsyncFn(&mut ServerLink<'_>, &str) -> Result<T>,
) -> Result<T> {
    if execution_arg.trim().is_empty() {
        return Err(empty_id_error());
    }
    match action(link, execution_arg).await {
        Err(error) if is_unknown_execution(&error) && !is_complete_id(execution_arg) => {
            let id = resolve_id(link, execution_arg, error).await?;
            action(link, &id).await
        }
        result => result,
    }
}

/// Resolves a text that is not a complete id; returns the error `not_found` if nothing matches. The id of a deleted execution
/// names no other one that begins with it, so a repeated `midex delete` deletes nothing else.
pub(super) async fn resolve_id(
    link: &mut ServerLink<'_>,
    text: &str,
    not_found: Error,
) -> Result<String> {
    if not_found.code() == Code::ExecutionDeleted {
        return Err(not_found);
    }
    match resolve_word(link, text).await? {
        Some(id) => Ok(id),
        None => find_only_match(link, text, not_found).await,
    }
}

/// Resolves a word such as `@last`; `None` if the text is no word but an id or a part of one.
///
/// # Errors
/// `USAGE_INVALID` for an unknown word; `EXECUTION_NOT_FOUND` if there is no such execution.
pub(super) async fn resolve_word(link: &mut ServerLink<'_>, text: &str) -> Result<Option<String>> {
    match text {
        LAST_WORD => find_newest_execution(link, None).await.map(Some),
        LAST_FAILED_WORD => find_newest_execution(link, Some("failed")).await.map(Some),
        word if word.starts_with('@') => Err(unknown_word_error(word)),
        _ => Ok(None),
    }
}

pub(super) fn is_unknown_execution(error: &Error) -> bool {
    error.code().is_missing_execution() || error.code() == Code::ResourceNotFound
}

fn is_complete_id(text: &str) -> bool {
    let generated = text.strip_prefix(GENERATED_ID_PREFIX);
    generated.is_some_and(|rest| {
        rest.len() == GENERATED_ID_CHARS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The execution of this project in this state that changed last.
pub(super) async fn find_newest_execution(
    link: &mut ServerLink<'_>,
    state: Option<&str>,
) -> Result<String> {
    let newest = gather_executions(make_page_reader(link), state, 1).await?.pop();
    Ok(newest.ok_or_else(|| no_execution_in_state_error(state))?.execution_id)
}

/// Whether this project has an execution in this state.
pub(super) async fn has_execution_in_state(link: &mut ServerLink<'_>, state: &str) -> Result<bool> {
    let rows = gather_executions(make_page_reader(link), Some(state), 1).await?;
    Ok(!rows.is_empty())
}

/// The only execution whose id begins with `part`, else the only one whose id contains it.
async fn find_only_match(
    link: &mut ServerLink<'_>,
    part: &str,
    not_found: Error,
) -> Result<String> {
    let mut matches = PartMatches::default();
    let arguments = json!({ "project": "*", "children": true, "limit": limits::LIST_LIMIT_MAX });
    let is_complete =
        walk_pages(make_page_reader(link), arguments, |row| matches.add_if_matching(row, part))
            .await?;
    let PartMatches { prefix_matches: begin, inner_matches: have } = matches;
    let mut candidates = if begin.is_empty() { have } else { begin };
    match candidates.len() {
        0 if is_complete => Err(not_found),
        0 => {
            let searched_count = limits::NAMED_PAGES_MAX * limits::LIST_LIMIT_MAX;
            let message = format!("{}; looked at the last {searched_count}", not_found.message());
            Err(not_found.with_message(message))
        }
        1 => Ok(candidates.swap_remove(0).execution_id),
        _ => Err(ambiguous_id_error(part, &candidates)),
    }
}

/// The executions that match a part of an id.
#[derive(Default)]
struct PartMatches {
    /// Executions whose id begins with the part, with or without the generated prefix.
    prefix_matches: Vec<ExecutionRow>,
    /// Executions whose id contains the part elsewhere.
    inner_matches: Vec<ExecutionRow>,
}

impl PartMatches {
    /// Checks one more execution; false once there are too many matches to name.
    fn add_if_matching(&mut self, row: ExecutionRow, part: &str) -> bool {
        let id = &row.execution_id;
        let short_id = id.strip_prefix(GENERATED_ID_PREFIX).unwrap_or(id);
        if id.starts_with(part) || short_id.starts_with(part) {
            self.prefix_matches.push(row);
        } else if part.chars().count() >= ID_PART_CHARS_MIN
            && id.contains(part)
            && self.inner_matches.len() <= limits::NAMED_SHOWN_MAX
        {
            self.inner_matches.push(row);
        }
        self.prefix_matches.len() <= limits::NAMED_SHOWN_MAX
    }
}

/// A function that reads one page of executions.
fn make_page_reader<'a>(
    link: &'a mut ServerLink<'_>,
) -> impl AsyncFnMut(Value) -> Result<ExecutionPage> + 'a {
    async move |arguments| link.list_executions(arguments).await
}

/// At most `limit` executions of this project in this state, the last changed first.
async fn gather_executions(
    fetch_page: impl AsyncFnMut(Value) -> Result<ExecutionPage>,
    state: Option<&str>,
    limit: usize,
) -> Result<Vec<ExecutionRow>> {
    let mut rows = Vec::new();
    let arguments = remove_nulls(json!({ "state": state, "limit": limit }));
    walk_pages(fetch_page, arguments, |row| {
        rows.push(row);
        rows.len() < limit
    })
    .await?;
    Ok(rows)
}

/// Passes the executions of a list to `visit_row`, page by page, until it returns false. Returns false if pages remain
/// beyond the limit.
async fn walk_pages(
    mut fetch_page: impl AsyncFnMut(Value) -> Result<ExecutionPage>,
    mut arguments: Value,
    mut visit_row: impl FnMut(ExecutionRow) -> bool,
) -> Result<bool> {
    for _ in 0..limits::NAMED_PAGES_MAX {
        let page = fetch_page(arguments.clone()).await?;
        if !page.executions.into_iter().all(&mut visit_row) {
            return Ok(true);
        }
        match page.next_cursor {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// Asks which execution of this project to use.
async fn pick_execution(
    link: &mut ServerLink<'_>,
    request: ExecutionChoice,
) -> Result<Option<String>> {
    // Read one more than is shown, to know whether there are more.
    let limit = match request.waits_for {
        Some(_) => limits::LIST_LIMIT_MAX,
        None => limits::PICKED_MAX + 1,
    };
    let mut rows = gather_executions(make_page_reader(link), request.state, limit).await?;
    if request.waits_for.is_some() {
        // Calls of `midex call` are not among the executions.
        let arguments = json!({ "state": request.state, "limit": limit, "calls": true });
        let arguments = remove_nulls(arguments);
        rows.extend(link.list_executions(arguments).await?.executions);
    }
    if rows.is_empty() {
        return Err(no_execution_in_state_error(request.state));
    }
    if let Some(wait_type) = request.waits_for {
        rows = filter_waiting(link, rows, wait_type).await?;
        if rows.is_empty() {
            return Err(nothing_waits_error());
        }
    }
    let choice = |row: &ExecutionRow| PickerItem {
        key: one_line(&row.execution_id),
        description: describe_execution(row),
        question: String::new(),
    };
    let choices: Vec<_> = rows.iter().map(choice).collect();
    let picked_index = pick_choice("execution", &choices, link).await?;
    Ok(picked_index.map(|index| choices[index].key.clone()))
}

/// The executions among `rows` that wait for `wait_type`.
async fn filter_waiting(
    link: &mut ServerLink<'_>,
    rows: Vec<ExecutionRow>,
    wait_type: &str,
) -> Result<Vec<ExecutionRow>> {
    let mut waiting = Vec::new();
    for row in rows {
        let waits = link.fetch_status(&row.execution_id).await?.waits;
        if waits.iter().any(|wait| wait.waits_for == wait_type) {
            waiting.push(row);
        }
    }
    Ok(waiting)
}

fn nothing_waits_error() -> Error {
    let message = "no execution or call of this project waits for that";
    Error::new(Code::ExecutionNotFound, message).with_action(
        "Run `midex list executions --state open` or `midex list calls`, and `midex show` one: it says what it waits for",
    )
}

/// The description of an execution beside its id.
fn describe_execution(row: &ExecutionRow) -> String {
    let step = row.current_step.as_deref().unwrap_or_default();
    let parts = [row.workflow_name.as_str(), &row.state, step].map(one_line);
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn ambiguous_id_error(part: &str, matches: &[ExecutionRow]) -> Error {
    let named_rows = &matches[..matches.len().min(limits::NAMED_SHOWN_MAX)];
    let more_note = if matches.len() > named_rows.len() { ", these among them" } else { "" };
    let violation = |row: &ExecutionRow| {
        Violation::new(one_line(&row.execution_id), "ambiguous", describe_execution(row))
    };
    Error::new(Code::UsageInvalid, format!("'{part}' fits several executions{more_note}"))
        .with_context("execution_id", part)
        .with_violations(named_rows.iter().map(violation).collect())
        .with_action("Type more of the id")
}

fn no_execution_in_state_error(state: Option<&str>) -> Error {
    let (message, action) = match state {
        None => (
            "this project has no executions".to_owned(),
            "Run `midex list executions --all-projects` and name one of them, or begin one with `midex run`",
        ),
        Some(state) => (
            format!("this project has no execution that is {state}"),
            "Run `midex list executions`: it lists the executions",
        ),
    };
    Error::new(Code::ExecutionNotFound, message).with_action(action)
}

fn unknown_word_error(word: &str) -> Error {
    let message = format!("no execution is called '{word}'");
    Error::new(Code::ExecutionNotFound, message).with_context("execution_id", word).with_action(
        "Type @last for the execution that moved last, or @last-failed for the last that failed",
    )
}

pub(super) fn empty_id_error() -> Error {
    Error::new(Code::UsageInvalid, "the id of the execution is empty")
        .with_action("Type an id or the beginning of one, @last or @last-failed")
}

fn execution_required_error(request: ExecutionChoice) -> Error {
    let command = request.command;
    let message = format!(
        "`{command}` needs an execution: its id or the beginning of it, {LAST_WORD} or {LAST_FAILED_WORD}"
    );
    let error = Error::new(Code::UsageInvalid, message);
    match request.state {
        Some(state) => error.with_context("state", state).with_action(
            "Run `midex list executions --state {state}` for the ids, and name one behind the command",
        ),
        None => error.with_action(
            "Run `midex list executions` for the ids, and name one behind the command",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution_row(id: &str) -> ExecutionRow {
        let row = json!({
            "execution_id": id, "workflow_name": "w", "state": "running", "started_at": "", "updated_at": ""
        });
        serde_json::from_value(row).expect("a row")
    }

    fn match_part(part: &str, ids: &[&str]) -> (usize, usize) {
        let mut matches = PartMatches::default();
        for id in ids {
            matches.add_if_matching(execution_row(id), part);
        }
        (matches.prefix_matches.len(), matches.inner_matches.len())
    }

    #[test]
    fn id_part_matches_from_four_chars() {
        let ids = ["exec_01kaaaazzzz", "exec_01kaaabyyyy", "release-4"];
        assert_eq!(match_part("exec_01kaaaa", &ids), (1, 0));
        assert_eq!(match_part("01kaaa", &ids), (2, 0));
        assert_eq!(match_part("zzzz", &ids), (0, 1));
        assert_eq!(match_part("zzz", &ids), (0, 0));
        assert_eq!(match_part("r", &ids), (1, 0));
    }

    #[test]
    fn matching_stops_past_the_limit() {
        let mut matches = PartMatches::default();
        let mut count = 1;
        while matches.add_if_matching(execution_row(&format!("a{count}")), "a") {
            count += 1;
        }
        assert_eq!(count, limits::NAMED_SHOWN_MAX + 1);
        let error = ambiguous_id_error("a", &matches.prefix_matches);
        assert_eq!(error.violations().len(), limits::NAMED_SHOWN_MAX);
        assert!(error.message().ends_with("these among them"));
    }

    #[test]
    fn pages_and_rows_are_limited() {
        let page = ExecutionPage {
            executions: vec![execution_row("x"), execution_row("x")],
            next_cursor: Some("more".to_owned()),
        };
        let mut request_count = 0;
        let fetch_page = async |_: Value| {
            request_count += 1;
            Ok(page.clone())
        };
        let is_complete =
            tokio_test::block_on(walk_pages(fetch_page, json!({}), |_| true)).unwrap();
        assert!(!is_complete);
        assert_eq!(request_count, limits::NAMED_PAGES_MAX);
        let fetch_page = async |_: Value| Ok(page.clone());
        let rows =
            tokio_test::block_on(gather_executions(fetch_page, None, limits::PICKED_MAX)).unwrap();
        assert_eq!(rows.len(), limits::PICKED_MAX);
        let rows = tokio_test::block_on(gather_executions(fetch_page, None, 3)).unwrap();
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn generated_ids_are_recognized() {
        assert!(is_complete_id("exec_01k00000000000000000000000"));
        assert!(!is_complete_id("exec_01k0000000000000000000000"));
        assert!(!is_complete_id("exec_01k0000000000000000000000 "));
        assert!(!is_complete_id("p"));
    }
}
