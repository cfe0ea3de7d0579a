//! Lists of executions, asked for in the words of a caller.

use midex_domain::{
    Sequence, State, WorkflowName,
    error::{Code, Error, Result, Violation},
    limits,
};
use midex_engine::store::ListQuery;

/// The word for every project.
pub(super) const ALL_PROJECTS: &str = "*";
/// The word for every state that is not final.
pub(super) const OPEN: &str = "open";

/// Which executions a caller asks for, in the caller's words.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// One of the seven states, or `open` for those that have not ended.
    pub state: Option<String>,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only of this project; `*` for all, the caller's own where `None`.
    pub project: Option<String>,
    /// Whether the calls of commands are meant, and no executions of workflows.
    pub calls: bool,
    /// Whether children are meant too.
    pub children: bool,
    /// How many at most; [`limits::LIST_LIMIT_DEFAULT`] where `None`.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl ListRequest {
    /// The words that `state` may be.
    pub fn states() -> Vec<&'static str> {
        let states = State::ALL.iter().map(|state| state.as_str());
        states.chain([OPEN]).collect()
    }

    /// What the store is asked; `project` is the caller's own.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` where a word of the request means nothing.
    pub(super) fn query(self, project: Option<String>) -> Result<ListQuery> {
        let open_only = self.state.as_deref() == Some(OPEN);
        let state = self.state.filter(|_| !open_only);
        Ok(ListQuery {
            state: state.map(|text| parse_state(&text)).transpose()?,
            open_only,
            roots_only: !self.children,
            workflow: self
                .workflow
                .map(|name| parse_workflow(&name))
                .transpose()?,
            project,
            before: self.cursor.map(|text| parse_cursor(&text)).transpose()?,
            limit: self.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT),
        })
    }
}

fn parse_state(text: &str) -> Result<State> {
    State::parse(text).ok_or_else(|| bad("state", text, &ListRequest::states().join(", ")))
}

fn parse_workflow(text: &str) -> Result<WorkflowName> {
    WorkflowName::parse(text).map_err(|error| bad("workflow_name", text, error.message()))
}

fn parse_cursor(text: &str) -> Result<Sequence> {
    text.parse()
        .map(Sequence)
        .map_err(|_| bad("cursor", text, "the next_cursor of the page before"))
}

fn bad(name: &str, found: &str, expected: &str) -> Error {
    let shown: String = found.chars().take(60).collect();
    let message = format!("`{shown}` is no {name}");
    let violation = Violation::new(format!("/{name}"), "enum", message).expecting(expected);
    Error::new(
        Code::ArgumentsInvalid,
        format!("`{shown}` is no {name}; expected {expected}"),
    )
    .with("tool", "execution.list")
    .with_violations(vec![violation])
}
