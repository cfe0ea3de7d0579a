//! Which execution a person means: its id, the beginning of one, a part of one, `@last` or `@last-failed`; where nothing was
//! said, a terminal is asked.

use serde_json::{Value, json};

use super::{
    link::{Link, given},
    picker::{Choice, pick},
    question::is_possible,
    value::{field, list},
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    limits,
};

/// The execution of this project that moved last.
pub(super) const LAST: &str = "@last";
/// The one that moved last of those that failed.
pub(super) const LAST_FAILED: &str = "@last-failed";
/// What ids begin with that midex makes.
const MADE: &str = "exec_";
/// How many characters follow.
const MADE_CHARS: usize = 26;
/// Shorter parts of ids than this are not looked for, except at the beginning.
const PART_CHARS_MIN: usize = 4;

/// The command that asks for an execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    /// As it is typed, without an execution.
    pub(super) command: &'static str,
    /// The state of the executions that it is for, as `execution.list` takes it.
    pub(super) state: &'static str,
    /// What they wait for, where it is only for those.
    pub(super) waits_for: Option<&'static str>,
}

/// Does what a command does with the execution that `said` means; without words, with the one that is picked on a terminal.
/// `None` if nothing was picked.
///
/// # Errors
/// As [`with`]; `USAGE_INVALID` where nothing was said and nobody can be asked.
pub(super) async fn with_or_picked<T>(
    link: &mut Link<'_>,
    said: Option<&str>,
    asks: Asks,
    act: impl AsyncFn(&mut Link<'_>, &str) -> Result<T>,
) -> Result<Option<T>> {
    match said {
        Some(said) => with(link, said, act).await.map(Some),
        None if !is_possible() => Err(unsaid(asks)),
        None => match picked(link, asks).await? {
            Some(id) => act(link, &id).await.map(Some),
            None => Ok(None),
        },
    }
}

/// Does what a command does with the execution that `said` means: first with that as an id; where there is none of this id,
/// with the one that it means as a word, as the beginning of an id, or as a part of one, in every project.
///
/// # Errors
/// `EXECUTION_NOT_FOUND` with the nearest; `USAGE_INVALID` with those that it fits, where it fits several; what `act` is
/// refused with.
pub(super) async fn with<T>(
    link: &mut Link<'_>,
    said: &str,
    act: impl AsyncFn(&mut Link<'_>, &str) -> Result<T>,
) -> Result<T> {
    if said.trim().is_empty() {
        return Err(empty());
    }
    match act(link, said).await {
        Err(unknown) if is_unknown(&unknown) && !is_whole(said) => {
            let id = meant(link, said, unknown).await?;
            act(link, &id).await
        }
        done => done,
    }
}

/// The id of the execution that is meant by what is no id.
pub(super) async fn meant(link: &mut Link<'_>, said: &str, unknown: Error) -> Result<String> {
    match of_word(link, said).await? {
        Some(id) => Ok(id),
        None => only(link, said, unknown).await,
    }
}

/// The execution that a word means, as `@last`; `None` where it is no word but an id or a part of one.
///
/// # Errors
/// `USAGE_INVALID` where there is no such word; `EXECUTION_NOT_FOUND` where no execution is meant.
pub(super) async fn of_word(link: &mut Link<'_>, said: &str) -> Result<Option<String>> {
    match said {
        LAST => newest(link, None).await.map(Some),
        LAST_FAILED => newest(link, Some("failed")).await.map(Some),
        word if word.starts_with('@') => Err(no_word(word)),
        _ => Ok(None),
    }
}

pub(super) fn is_unknown(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ExecutionNotFound | Code::ResourceNotFound
    )
}

fn is_whole(said: &str) -> bool {
    let made = said.strip_prefix(MADE);
    made.is_some_and(|rest| {
        rest.len() == MADE_CHARS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The execution of this project, in this state, that moved last.
pub(super) async fn newest(link: &mut Link<'_>, state: Option<&str>) -> Result<String> {
    let mut found = gather(asking(link), state, 1).await?;
    let found = found.pop().ok_or_else(|| none_of(state))?;
    Ok(field(&found, "execution_id"))
}

/// Whether this project has an execution in this state.
pub(super) async fn has_any(link: &mut Link<'_>, state: &str) -> Result<bool> {
    let found = gather(asking(link), Some(state), 1).await?;
    Ok(!found.is_empty())
}

/// The one execution whose id begins with `part`, else the one whose id has it.
async fn only(link: &mut Link<'_>, part: &str, unknown: Error) -> Result<String> {
    let mut fits = Fits::default();
    let arguments = json!({ "project": "*", "children": true, "limit": limits::LIST_LIMIT_MAX });
    let is_whole = walk(asking(link), arguments, |row| fits.take(row, part)).await?;
    let Fits { begin, have } = fits;
    let mut fit = if begin.is_empty() { have } else { begin };
    match fit.len() {
        0 if is_whole => Err(unknown),
        0 => {
            let looked = limits::NAMED_PAGES_MAX * limits::LIST_LIMIT_MAX;
            let message = format!("{}; looked at the last {looked}", unknown.message());
            Err(unknown.with_message(message))
        }
        1 => Ok(field(&fit.swap_remove(0), "execution_id")),
        _ => Err(several(part, &fit)),
    }
}

/// The executions that a part of an id fits.
#[derive(Default)]
struct Fits {
    /// Those whose id begins with it.
    begin: Vec<Value>,
    /// Those that have it elsewhere.
    have: Vec<Value>,
}

impl Fits {
    /// Looks at one more execution; false once enough are known.
    fn take(&mut self, row: &Value, part: &str) -> bool {
        let id = row["execution_id"].as_str().unwrap_or_default();
        let bare = id.strip_prefix(MADE).unwrap_or(id);
        if id.starts_with(part) || bare.starts_with(part) {
            self.begin.push(row.clone());
        } else if part.chars().count() >= PART_CHARS_MIN
            && id.contains(part)
            && self.have.len() <= limits::NAMED_SHOWN_MAX
        {
            self.have.push(row.clone());
        }
        self.begin.len() <= limits::NAMED_SHOWN_MAX
    }
}

/// Asks for one page of executions.
fn asking<'a>(link: &'a mut Link<'_>) -> impl AsyncFnMut(Value) -> Result<Value> + 'a {
    async move |arguments| link.call("execution.list", arguments).await
}

/// At most so many executions of this project in this state, the one that moved last first.
async fn gather(
    ask: impl AsyncFnMut(Value) -> Result<Value>,
    state: Option<&str>,
    most: usize,
) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    let arguments = given(json!({ "state": state, "limit": most }));
    walk(ask, arguments, |row| {
        rows.push(row.clone());
        rows.len() < most
    })
    .await?;
    Ok(rows)
}

/// Shows `take` the executions of a list, page by page, until it has enough; false if there are more pages than are read.
async fn walk(
    mut ask: impl AsyncFnMut(Value) -> Result<Value>,
    mut arguments: Value,
    mut take: impl FnMut(&Value) -> bool,
) -> Result<bool> {
    for _ in 0..limits::NAMED_PAGES_MAX {
        let mut page = ask(arguments.clone()).await?;
        if !list(&page["executions"]).iter().all(&mut take) {
            return Ok(true);
        }
        match page["next_cursor"].take() {
            cursor @ Value::String(_) => arguments["cursor"] = cursor,
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Asks which execution of this project is meant.
async fn picked(link: &mut Link<'_>, asks: Asks) -> Result<Option<String>> {
    // One more than is shown says that there are more.
    let most = match asks.waits_for {
        Some(_) => limits::LIST_LIMIT_MAX,
        None => limits::PICKED_MAX + 1,
    };
    let mut rows = gather(asking(link), Some(asks.state), most).await?;
    if rows.is_empty() {
        return Err(none_of(Some(asks.state)));
    }
    if let Some(what) = asks.waits_for {
        rows = waiting(link, rows, what).await?;
        if rows.is_empty() {
            return Err(none_waits());
        }
    }
    let choice = |row: &Value| Choice {
        key: field(row, "execution_id"),
        about: about(row),
        question: String::new(),
    };
    let choices: Vec<_> = rows.iter().map(choice).collect();
    let picked = pick("execution", &choices, link).await?;
    Ok(picked.map(|at| choices[at].key.clone()))
}

/// Those that wait for this.
async fn waiting(link: &mut Link<'_>, rows: Vec<Value>, what: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for row in rows {
        let status = link
            .read_of("workflow_status", &field(&row, "execution_id"))
            .await?;
        if list(&status["waits"])
            .iter()
            .any(|wait| wait["waits_for"] == what)
        {
            found.push(row);
        }
    }
    Ok(found)
}

fn none_waits() -> Error {
    let message = "no execution of this project waits for that";
    Error::new(Code::ExecutionNotFound, message).with_action(
        "Run `midex list executions --state open`, and `midex show` one: it says what it waits for",
    )
}

/// What is said of an execution beside its id.
fn about(row: &Value) -> String {
    let parts = ["workflow_name", "state", "current_step"].map(|name| field(row, name));
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn several(part: &str, fit: &[Value]) -> Error {
    let shown = &fit[..fit.len().min(limits::NAMED_SHOWN_MAX)];
    let more = if fit.len() > shown.len() {
        ", these among them"
    } else {
        ""
    };
    let violation =
        |row: &Value| Violation::new(field(row, "execution_id"), "ambiguous", about(row));
    Error::new(
        Code::UsageInvalid,
        format!("'{part}' fits several executions{more}"),
    )
    .with("execution_id", part)
    .with_violations(shown.iter().map(violation).collect())
    .with_action("Type more of the id")
}

fn none_of(state: Option<&str>) -> Error {
    let (message, action) = match state {
        None => (
            "this project has no executions".to_owned(),
            "Run `midex list executions --all-projects` and name one of them, or begin one with `midex run`",
        ),
        Some(state) => (
            format!("this project has no execution that is {state}"),
            "Run `midex list executions`: it shows what there is",
        ),
    };
    Error::new(Code::ExecutionNotFound, message).with_action(action)
}

fn no_word(word: &str) -> Error {
    let message = format!("no execution is called '{word}'");
    Error::new(Code::ExecutionNotFound, message)
        .with("execution_id", word)
        .with_action(
            "Type @last for the execution that moved last, or @last-failed for the last that failed",
        )
}

fn empty() -> Error {
    Error::new(Code::UsageInvalid, "the id of the execution is empty")
        .with_action("Type an id or the beginning of one, @last or @last-failed")
}

fn unsaid(asks: Asks) -> Error {
    let command = asks.command;
    let message = format!(
        "`{command}` needs an execution: its id or the beginning of it, {LAST} or {LAST_FAILED}"
    );
    Error::new(Code::UsageInvalid, message)
        .with("state", asks.state)
        .with_action(
            "Run `midex list executions --state {state}` for the ids, and name one behind the command",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(part: &str, ids: &[&str]) -> (usize, usize) {
        let mut fits = Fits::default();
        for id in ids {
            fits.take(&json!({ "execution_id": id }), part);
        }
        (fits.begin.len(), fits.have.len())
    }

    #[test]
    fn a_part_fits_at_the_beginning_and_elsewhere_from_four_characters_on() {
        let ids = ["exec_01kaaaazzzz", "exec_01kaaabyyyy", "release-4"];
        assert_eq!(fits("exec_01kaaaa", &ids), (1, 0));
        assert_eq!(fits("01kaaa", &ids), (2, 0));
        assert_eq!(fits("zzzz", &ids), (0, 1));
        assert_eq!(fits("zzz", &ids), (0, 0));
        assert_eq!(fits("r", &ids), (1, 0));
    }

    #[test]
    fn enough_is_known_one_past_what_is_shown() {
        let mut fits = Fits::default();
        let mut looked = 1;
        while fits.take(&json!({ "execution_id": format!("a{looked}") }), "a") {
            looked += 1;
        }
        assert_eq!(looked, limits::NAMED_SHOWN_MAX + 1);
        let error = several("a", &fits.begin);
        assert_eq!(error.violations().len(), limits::NAMED_SHOWN_MAX);
        assert!(error.message().ends_with("these among them"));
    }

    #[test]
    fn no_more_pages_are_read_and_no_more_rows_gathered_than_the_limits_say() {
        let row = json!({ "execution_id": "x" });
        let page = json!({ "executions": [row.clone(), row], "next_cursor": "more" });
        let mut asked = 0;
        let ask = async |_: Value| {
            asked += 1;
            Ok(page.clone())
        };
        let is_whole = tokio_test::block_on(walk(ask, json!({}), |_| true)).unwrap();
        assert!(!is_whole);
        assert_eq!(asked, limits::NAMED_PAGES_MAX);
        let ask = async |_: Value| Ok(page.clone());
        let rows = tokio_test::block_on(gather(ask, None, limits::PICKED_MAX)).unwrap();
        assert_eq!(rows.len(), limits::PICKED_MAX);
        let rows = tokio_test::block_on(gather(ask, None, 3)).unwrap();
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn ids_that_midex_makes_are_known_by_their_form() {
        assert!(is_whole("exec_01k00000000000000000000000"));
        assert!(!is_whole("exec_01k0000000000000000000000"));
        assert!(!is_whole("exec_01k0000000000000000000000 "));
        assert!(!is_whole("p"));
    }
}
