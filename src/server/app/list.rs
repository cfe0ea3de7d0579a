//! Lists of executions, with filters given as text.

use midex_domain::{
    Sequence, State, WorkflowName,
    clock::Timestamp,
    error::{Code, Error, Result, Violation},
    label::Labels,
    limits,
    span::HumanDuration,
    view::PastPoint,
};
use midex_engine::store::{ListQuery, SearchText};

/// The filter for every project.
pub(super) const ALL_PROJECTS_FILTER: &str = "*";
/// The filter for every state that is not final.
pub(super) const OPEN_STATES_FILTER: &str = "open";

/// The filters of a list of executions, as the caller writes them.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// The name of a state, or `open` for executions that have not ended.
    pub state: Option<String>,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only of this project: `*` for all, `None` for the caller's own.
    pub project: Option<String>,
    /// Lists the calls of commands instead of executions of workflows.
    pub is_call_list: bool,
    /// Includes child executions.
    pub should_include_children: bool,
    /// Only those with all of these labels.
    pub labels: Labels,
    /// Only those that last moved since then: an instant, or a duration before now.
    pub since: Option<String>,
    /// Only those that last moved before then, in the same form.
    pub until: Option<String>,
    /// Only those whose id, inputs, reason or failure holds this text.
    pub text: Option<String>,
    /// The maximum number. [`limits::LIST_LIMIT_DEFAULT`] if `None`.
    pub limit: Option<usize>,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

impl ListRequest {
    /// The accepted values of `state`.
    pub fn states() -> Vec<&'static str> {
        let states = State::ALL.iter().map(|state| state.as_str());
        states.chain([OPEN_STATES_FILTER]).collect()
    }

    /// Converts the request to a store query. `project` is the project to list, `None` for all; `App::list` has resolved
    /// `self.project` and `self.calls` to it.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if a filter or the cursor is invalid.
    pub(super) fn into_query(self, project: Option<String>, now: Timestamp) -> Result<ListQuery> {
        let open_only = self.state.as_deref() == Some(OPEN_STATES_FILTER);
        let state = self.state.filter(|_| !open_only);
        Ok(ListQuery {
            state: state.map(|text| parse_state(&text)).transpose()?,
            open_only,
            roots_only: !self.should_include_children,
            workflow: self.workflow.map(|name| parse_workflow(&name)).transpose()?,
            project,
            labels: self.labels,
            since: self.since.map(|text| parse_instant("since", &text, now)).transpose()?,
            until: self.until.map(|text| parse_instant("until", &text, now)).transpose()?,
            text: self.text.as_deref().map(SearchText::new),
            before: self.cursor.map(|text| parse_cursor(&text)).transpose()?,
            limit: self.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT),
        })
    }
}

fn parse_state(text: &str) -> Result<State> {
    State::parse(text)
        .ok_or_else(|| invalid_filter_error("state", text, &ListRequest::states().join(", ")))
}

/// Parses the name of a workflow in a filter.
///
/// # Errors
/// `ARGUMENTS_INVALID`.
pub fn parse_workflow(text: &str) -> Result<WorkflowName> {
    WorkflowName::parse(text)
        .map_err(|error| invalid_filter_error("workflow_name", text, error.message()))
}

/// Parses an instant, or a duration before now.
fn parse_instant(name: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Ok(age) = text.parse::<HumanDuration>() {
        return Ok(now.minus(age.duration()));
    }
    match text.parse() {
        Ok(PastPoint::Time(time)) => Ok(time),
        _ => Err(invalid_filter_error(
            name,
            text,
            "2d or 12h for so long ago, or an instant like 2030-01-31T09:00:00Z",
        )),
    }
}

fn parse_cursor(text: &str) -> Result<Sequence> {
    text.parse()
        .map(Sequence)
        .map_err(|_| invalid_filter_error("cursor", text, "the next_cursor of the page before"))
}

fn invalid_filter_error(name: &str, value: &str, expected: &str) -> Error {
    let short_value: String = value.chars().take(60).collect();
    let message = format!("`{short_value}` cannot be the value of `{name}`; expected {expected}");
    let violation =
        Violation::new(format!("/{name}"), "enum", message.clone()).with_expected(expected);
    Error::new(Code::ArgumentsInvalid, message)
        .with_context("tool", "execution.list")
        .with_violations(vec![violation])
}
