//! Parses resource URIs. Path variables are percent-encoded; a query consists of `name=value` pairs.

use std::{collections::HashMap, fmt, ops::RangeInclusive, str::FromStr, vec};

use super::{SKILL_URI_PREFIX, unknown_resource_error};
use midex_domain::{
    ExecutionId, StepId,
    error::{Code, Error, Result, Violation},
    label::Labels,
    limits,
    telemetry::EventType,
    uri,
    view::{PastPoint, Reader},
};
use midex_server::app::ListRequest;

/// The resource that a URI names.
#[derive(Debug)]
pub(super) enum ResourceAddress {
    AvailableWorkflows(WorkflowPageFilter),
    Limits,
    WorkflowDetails(String),
    /// An agent: from the current files, or as it is stored with an execution.
    Agent(String, Option<ExecutionId>),
    Executions(ListRequest),
    CurrentStep(ExecutionId, Reader),
    WorkflowStatus(ExecutionId),
    /// The current step and the status at a point in the past.
    PastStep(ExecutionId, PastPoint),
    PastStatus(ExecutionId, PastPoint),
    /// The steps with their states.
    Graph(ExecutionId),
    FinalOutput(ExecutionId),
    StepHistory(ExecutionId, Option<StepId>),
    WorkflowArtifacts(ExecutionId, Option<StepId>),
    /// The content of the artifact of this id or name, from an offset up to a limit, in bytes.
    Artifact(ExecutionId, String, u64, usize),
    /// The latest events, up to a limit: of one execution, or of all; of one type, or of all.
    Telemetry(Option<ExecutionId>, Option<EventType>, usize),
    Spec,
    Schema,
    Errors,
    Manifests(WorkflowPageFilter),
    /// The text of a workflow's file.
    Manifest(String),
    CommandCatalog(WorkflowPageFilter),
    ProviderCatalog,
    Skill(SkillName),
}

/// A definition that is served as a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillName {
    Workflow(String),
    Agent(String),
}

impl SkillName {
    /// The URI of the skill. Valid skill names need no encoding.
    pub(super) fn uri(&self) -> String {
        match self {
            Self::Workflow(name) => format!("{SKILL_URI_PREFIX}workflow/{name}/SKILL.md"),
            Self::Agent(name) => format!("{SKILL_URI_PREFIX}agent/{name}/SKILL.md"),
        }
    }
}

/// The filters of a page of workflows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WorkflowPageFilter {
    /// The maximum number of workflows.
    pub(super) limit: usize,
    /// Only workflows after the one of this name.
    pub(super) after: Option<String>,
    /// Only workflows that contain all of these words.
    pub(super) query: Option<String>,
}

impl Default for WorkflowPageFilter {
    fn default() -> Self {
        Self { limit: limits::WORKFLOWS_LISTED_MAX, after: None, query: None }
    }
}

impl WorkflowPageFilter {
    /// The URI of the page after the workflow `last`, for the list at this address.
    pub(super) fn next_page_uri(&self, address: &str, last: &str) -> String {
        let mut next =
            format!("{address}?limit={}&after={}", self.limit, uri::encode_segment(last));
        if let Some(query) = &self.query {
            next.extend(["&query=", &uri::encode_segment(query)]);
        }
        next
    }
}

impl ResourceAddress {
    /// The address that `make` makes of the values in the path of `address`, and of its query.
    ///
    /// # Errors
    /// `RESOURCE_NOT_FOUND` if it names no resource; `ARGUMENTS_INVALID` if its query is invalid.
    pub(super) fn parse_kind(
        address: &str,
        values: Vec<&str>,
        make: fn(&mut Variables<'_>) -> Result<Self>,
    ) -> Result<Self> {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        let mut variables = Variables {
            address,
            path: values.into_iter(),
            query: parse_query(query).ok_or_else(|| unknown_resource_error(address))?,
        };
        // Accept `part` in any query: it selects a part of the text, not another resource.
        variables.take_number("part", 0..=usize::MAX)?;
        let parsed_address = make(&mut variables)?;
        // Refuse pairs that were not consumed, since the resource does not know their names.
        match variables.query.into_keys().next() {
            Some(name) => {
                Err(query_value_error(&name, &name, "a name that this resource's query has"))
            }
            None => Ok(parsed_address),
        }
    }
}

/// The pairs of a query. `None` if one is malformed or repeated.
fn parse_query(query: &str) -> Option<HashMap<String, String>> {
    let mut pairs = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (uri::decode_segment(name)?, uri::decode_segment(value)?);
        if pairs.insert(name, value).is_some() {
            return None;
        }
    }
    Some(pairs)
}

/// The values of the variables in an address that are not consumed yet.
pub(super) struct Variables<'a> {
    address: &'a str,
    /// Those in the path, in order, still encoded.
    path: vec::IntoIter<&'a str>,
    query: HashMap<String, String>,
}

impl Variables<'_> {
    /// The next variable in the path, not decoded: a skill's name.
    pub(super) fn take_name(&mut self) -> Result<String> {
        let name = self.path.next().map(str::to_owned);
        name.ok_or_else(|| unknown_resource_error(self.address))
    }

    /// The next variable in the path, as `parse` takes it. There is no resource of a malformed one.
    fn take_variable<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
        let text = self.path.next().and_then(uri::decode_segment);
        let parsed = text.and_then(|text| parse(&text));
        parsed.ok_or_else(|| unknown_resource_error(self.address))
    }

    pub(super) fn take_text(&mut self) -> Result<String> {
        self.take_variable(|text| Some(text.to_owned()))
    }

    pub(super) fn take_execution(&mut self) -> Result<ExecutionId> {
        self.take_variable(|text| ExecutionId::parse(text).ok())
    }

    pub(super) fn take_step(&mut self) -> Result<StepId> {
        self.take_variable(|text| StepId::parse(text).ok())
    }

    fn take_query_value(&mut self, name: &str) -> Option<String> {
        self.query.remove(name)
    }

    fn take_number<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let Some(text) = self.take_query_value(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let expected = || format!("a {name} from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| query_value_error(name, &text, &expected()))
    }

    pub(super) fn take_agent(&mut self) -> Result<ResourceAddress> {
        let id = self.take_query_value("execution_id").map(|id| ExecutionId::parse(&id));
        let id = id.transpose().map_err(|_| unknown_resource_error(self.address))?;
        Ok(ResourceAddress::Agent(self.take_text()?, id))
    }

    pub(super) fn take_telemetry(&mut self, id: Option<ExecutionId>) -> Result<ResourceAddress> {
        let event_type = self.take_query_value("event_type").map(|text| {
            let names = EventType::ALL.iter().map(|kind| kind.as_str());
            let expected = format!("an event_type: {}", names.collect::<Vec<_>>().join(", "));
            EventType::parse(&text).ok_or_else(|| query_value_error("event_type", &text, &expected))
        });
        let event_type = event_type.transpose()?;
        let limit = self.take_number("limit", 1..=limits::TELEMETRY_LIMIT_MAX)?;
        let limit = limit.unwrap_or(limits::TELEMETRY_LIMIT_DEFAULT);
        Ok(ResourceAddress::Telemetry(id, event_type, limit))
    }

    pub(super) fn take_artifact(&mut self) -> Result<ResourceAddress> {
        let (id, artifact) = (self.take_execution()?, self.take_text()?);
        let offset = self.take_number("offset", 0..=u64::MAX)?.unwrap_or(0);
        let limit = self.take_number("limit", 1..=limits::ARTIFACT_SHOWN_BYTES_MAX)?;
        let limit = limit.unwrap_or(limits::ARTIFACT_SHOWN_BYTES_DEFAULT);
        Ok(ResourceAddress::Artifact(id, artifact, offset, limit))
    }

    fn take_reader(&mut self) -> Result<Reader> {
        match self.take_query_value("reader").as_deref() {
            None => Ok(Reader::Model),
            Some("person") => Ok(Reader::Person),
            Some("worker") => Ok(Reader::Worker),
            Some(text) => Err(query_value_error("reader", text, "a reader: person or worker")),
        }
    }

    pub(super) fn take_current_step(&mut self) -> Result<ResourceAddress> {
        let id = self.take_execution()?;
        match self.take_past_point()? {
            Some(point) => Ok(ResourceAddress::PastStep(id, point)),
            None => Ok(ResourceAddress::CurrentStep(id, self.take_reader()?)),
        }
    }

    fn take_past_point(&mut self) -> Result<Option<PastPoint>> {
        let Some(text) = self.take_query_value("at") else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|expected| query_value_error("at", &text, expected))
    }

    pub(super) fn take_status(&mut self) -> Result<ResourceAddress> {
        let id = self.take_execution()?;
        if let Some(point) = self.take_past_point()? {
            return Ok(ResourceAddress::PastStatus(id, point));
        }
        match self.take_query_value("graph").as_deref() {
            None => Ok(ResourceAddress::WorkflowStatus(id)),
            Some("true") => Ok(ResourceAddress::Graph(id)),
            Some(text) => Err(query_value_error("graph", text, "true")),
        }
    }

    pub(super) fn take_page(&mut self) -> Result<WorkflowPageFilter> {
        let limit = self.take_number("limit", 1..=limits::WORKFLOWS_LISTED_MAX)?;
        Ok(WorkflowPageFilter {
            limit: limit.unwrap_or(limits::WORKFLOWS_LISTED_MAX),
            after: self.take_query_value("after"),
            query: self.take_query_value("query"),
        })
    }

    pub(super) fn take_list(&mut self) -> Result<ListRequest> {
        Ok(ListRequest {
            state: self.take_query_value("state"),
            workflow: self.take_query_value("workflow"),
            project: self.take_query_value("project"),
            labels: Labels::new(),
            since: self.take_query_value("since"),
            until: self.take_query_value("until"),
            text: self.take_query_value("text"),
            is_call_list: false,
            should_include_children: self.take_query_value("children").as_deref() == Some("true"),
            limit: self.take_number("limit", 1..=limits::LIST_LIMIT_MAX)?,
            cursor: self.take_query_value("cursor"),
        })
    }
}

fn query_value_error(name: &str, value: &str, expected: &str) -> Error {
    let found: String = value.chars().take(60).collect();
    let name: String = name.chars().take(60).collect();
    let message = format!("`{found}` is not {expected}");
    let violation =
        Violation::new(format!("/{name}"), "query", message.clone()).with_expected(expected);
    Error::new(Code::ArgumentsInvalid, message)
        .with_context("tool", "resources/read")
        .with_violations(vec![violation])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::WORKFLOW_URI_PREFIX;

    fn parse_error_code(address: &str) -> Option<Code> {
        let is_whole = address.contains("://");
        let root = if is_whole { "" } else { WORKFLOW_URI_PREFIX };
        let parsed = ResourceAddress::parse(&format!("{root}{address}"));
        parsed.err().map(|error| error.code())
    }

    #[test]
    fn an_address_has_a_query_and_encoded_variables() {
        for address in [
            "available_workflows?limit=10&after=bug-fix&query=code%20review",
            "agent/reviewer?execution_id=exec_001",
            "workflow_status/a%20b%2Fc",
            "step_history/%D0%BA%D0%BB%D1%8E%D1%87",
            "artifact/exec_001/a%2Fb.md?offset=10&limit=5",
            "executions?state=open&workflow=w&limit=5&cursor=7&project=*",
            "telemetry?event_type=error&limit=1",
        ] {
            assert_eq!(parse_error_code(address), None, "{address}");
        }
    }

    #[test]
    fn unknown_address_is_not_found() {
        for address in [
            "",
            "nothing",
            "current_step",
            "current_step/",
            "current_step/%ff",
            "available_workflows/x",
            "workflow_artifacts/a/b/c d",
            "artifact/a",
            "step_history/%0a",
            "current_step/x?a=1&a=2",
            "midex://authoring/",
            "midex://authoring/manifest",
            "midex://authoring/spec/x",
            "midex://authoring/spec?limit=1",
            "midex://authoring/limits",
            "skill://workflow/bug-fix",
            "skill://bug-fix/SKILL.md",
            "skill://workflow/SKILL.md",
        ] {
            assert!(parse_error_code(address).is_some(), "{address}");
        }
        assert_eq!(parse_error_code("agent/a?execution_id=%0a"), Some(Code::ResourceNotFound));
        assert_eq!(parse_error_code("available_workflows?limit=201"), Some(Code::ArgumentsInvalid));
        assert_eq!(parse_error_code("current_step/x?y=1"), Some(Code::ArgumentsInvalid));
        assert_eq!(parse_error_code("telemetry?limit=0"), Some(Code::ArgumentsInvalid));
        assert_eq!(parse_error_code("telemetry?event_type=x"), Some(Code::ArgumentsInvalid));
        assert_eq!(parse_error_code("artifact/a/1?limit=99999999"), Some(Code::ArgumentsInvalid));
        assert_eq!(parse_error_code("artifact/a/1?offset=-1"), Some(Code::ArgumentsInvalid));
        assert!(ResourceAddress::parse("http://elsewhere/current_step/x").is_err());
    }
}
