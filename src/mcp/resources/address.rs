//! Parses resource URIs. Path variables are percent-encoded; a query consists of `name=value` pairs.

use std::{collections::HashMap, fmt, ops::RangeInclusive, str::FromStr};

use super::{AUTHORING, ROOT, SKILL, unknown};
use midex_domain::{
    ExecutionId, StepId,
    error::{Code, Error, Result, Violation},
    limits,
    telemetry::EventType,
    uri,
    view::Reader,
};
use midex_server::app::ListRequest;

/// The resource that a URI names.
#[derive(Debug)]
pub(super) enum Address {
    AvailableWorkflows(Page),
    Limits,
    WorkflowDetails(String),
    /// An agent: from the current files, or as it is stored with an execution.
    Agent(String, Option<ExecutionId>),
    Executions(ListRequest),
    CurrentStep(ExecutionId, Reader),
    WorkflowStatus(ExecutionId),
    /// The steps with their states.
    Graph(ExecutionId),
    StepHistory(ExecutionId, Option<StepId>),
    WorkflowArtifacts(ExecutionId, Option<StepId>),
    Artifact {
        id: ExecutionId,
        artifact: String,
        offset: u64,
        limit: usize,
    },
    Telemetry {
        id: Option<ExecutionId>,
        event_type: Option<EventType>,
        limit: usize,
    },
    Authors(ForAuthors),
    Skill(SkillName),
}

/// Resources for authors.
#[derive(Debug)]
pub(super) enum ForAuthors {
    Spec,
    Schema,
    Errors,
    Manifests(Page),
    /// The text of a workflow's file.
    Manifest(String),
    CommandCatalog(Page),
    ProviderCatalog,
}

/// A definition that is served as a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillName {
    Workflow(String),
    Agent(String),
}

impl SkillName {
    /// Parses `workflow/NAME/SKILL.md` or `agent/NAME/SKILL.md`. Valid skill names need no decoding.
    fn parse(path: &str) -> Option<Self> {
        let (kind, name) = path.strip_suffix("/SKILL.md")?.split_once('/')?;
        match kind {
            "workflow" => Some(Self::Workflow(name.to_owned())),
            "agent" => Some(Self::Agent(name.to_owned())),
            _ => None,
        }
    }

    /// The URI of the skill.
    pub(super) fn uri(&self) -> String {
        match self {
            Self::Workflow(name) => format!("{SKILL}workflow/{name}/SKILL.md"),
            Self::Agent(name) => format!("{SKILL}agent/{name}/SKILL.md"),
        }
    }
}

/// The filters of a page of workflows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The maximum number of workflows.
    pub(super) limit: usize,
    /// Only workflows after the one of this name.
    pub(super) after: Option<String>,
    /// Only workflows that contain all of these words.
    pub(super) query: Option<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            limit: limits::WORKFLOWS_LISTED_MAX,
            after: None,
            query: None,
        }
    }
}

impl Page {
    /// The URI of the page after the workflow `last`, for the list at this address.
    pub(super) fn next(&self, address: &str, last: &str) -> String {
        let mut next = format!("{address}?limit={}&after={}", self.limit, uri::encode(last));
        if let Some(query) = &self.query {
            next.extend(["&query=", &uri::encode(query)]);
        }
        next
    }
}

/// Parses the path and the query after a URI prefix.
type Of = fn(&str, Option<&str>, &mut Query) -> Option<Result<Address>>;

impl Address {
    /// Parses a URI.
    ///
    /// # Errors
    /// `RESOURCE_NOT_FOUND` if it names no resource; `ARGUMENTS_INVALID` if its query is invalid.
    pub(super) fn parse(address: &str) -> Result<Self> {
        if let Some(path) = address.strip_prefix(SKILL) {
            let skill = SkillName::parse(path).map(Self::Skill);
            return skill.ok_or_else(|| unknown(address));
        }
        let below = |root, of: Of| Some((address.strip_prefix(root)?, of));
        let found = below(ROOT, Self::of).or_else(|| below(AUTHORING, Self::for_authors));
        let (rest, of) = found.ok_or_else(|| unknown(address))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = Query::parse(query).ok_or_else(|| unknown(address))?;
        // Accept `part` in any query: it selects a part of the text, not another resource.
        query.number("part", 0..=usize::MAX)?;
        let (kind, arguments) = match path.split_once('/') {
            Some((kind, arguments)) => (kind, Some(arguments)),
            None => (path, None),
        };
        let parsed = of(kind, arguments, &mut query).ok_or_else(|| unknown(address))??;
        query.finish()?;
        Ok(parsed)
    }

    fn for_authors(kind: &str, arguments: Option<&str>, query: &mut Query) -> Option<Result<Self>> {
        let parsed = match (kind, arguments) {
            ("spec", None) => Ok(ForAuthors::Spec),
            ("schema", None) => Ok(ForAuthors::Schema),
            ("errors", None) => Ok(ForAuthors::Errors),
            ("manifests", None) => query.page().map(ForAuthors::Manifests),
            ("manifest", Some(id)) => Ok(ForAuthors::Manifest(uri::decode(id)?)),
            ("command-catalog", None) => query.page().map(ForAuthors::CommandCatalog),
            ("provider-catalog", None) => Ok(ForAuthors::ProviderCatalog),
            _ => return None,
        };
        Some(parsed.map(Self::Authors))
    }

    /// `None` if there is no resource of this kind with such arguments, which includes a malformed id.
    fn of(kind: &str, arguments: Option<&str>, query: &mut Query) -> Option<Result<Self>> {
        let one = || arguments.and_then(uri::decode);
        let execution = || one().and_then(|text| ExecutionId::parse(&text).ok());
        let two = || {
            let (id, rest) = arguments?.split_once('/')?;
            Some((
                ExecutionId::parse(&uri::decode(id)?).ok()?,
                uri::decode(rest)?,
            ))
        };
        Some(match (kind, arguments) {
            ("available_workflows", None) => query.page().map(Self::AvailableWorkflows),
            ("limits", None) => Ok(Self::Limits),
            ("executions", None) => query.list().map(Self::Executions),
            ("telemetry", None) => query.telemetry(None),
            ("workflow_details", Some(_)) => Ok(Self::WorkflowDetails(one()?)),
            ("agent", Some(_)) => {
                let keeper = query.text("execution_id");
                let keeper = keeper.map(|text| ExecutionId::parse(&text).ok());
                match keeper {
                    Some(None) => return None,
                    keeper => Ok(Self::Agent(one()?, keeper.flatten())),
                }
            }
            ("current_step", Some(_)) => {
                let id = execution()?;
                query.reader().map(|reader| Self::CurrentStep(id, reader))
            }
            ("workflow_status", Some(_)) => {
                let id = execution()?;
                query.graph().map(|is_graph| {
                    if is_graph {
                        Self::Graph(id)
                    } else {
                        Self::WorkflowStatus(id)
                    }
                })
            }
            ("step_history", Some(all)) if !all.contains('/') => {
                Ok(Self::StepHistory(execution()?, None))
            }
            ("step_history", Some(_)) => {
                let (id, step) = two()?;
                Ok(Self::StepHistory(id, Some(StepId::parse(&step).ok()?)))
            }
            ("telemetry", Some(_)) => query.telemetry(Some(execution()?)),
            ("workflow_artifacts", Some(all)) if !all.contains('/') => {
                Ok(Self::WorkflowArtifacts(execution()?, None))
            }
            ("workflow_artifacts", Some(_)) => {
                let (id, step) = two()?;
                Ok(Self::WorkflowArtifacts(
                    id,
                    Some(StepId::parse(&step).ok()?),
                ))
            }
            ("artifact", Some(_)) => {
                let (id, artifact) = two()?;
                query.artifact(id, artifact)
            }
            _ => return None,
        })
    }
}

/// The query pairs that are not consumed yet.
struct Query(HashMap<String, String>);

impl Query {
    /// `None` if a pair is malformed or repeated.
    fn parse(text: &str) -> Option<Self> {
        let mut pairs = HashMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            if pairs
                .insert(uri::decode(name)?, uri::decode(value)?)
                .is_some()
            {
                return None;
            }
        }
        Some(Self(pairs))
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let expected = || format!("a {name} from {} to {}", range.start(), range.end());
        number
            .map(Some)
            .ok_or_else(|| bad(name, &text, &expected()))
    }

    fn telemetry(&mut self, id: Option<ExecutionId>) -> Result<Address> {
        let event_type = self.text("event_type").map(|text| {
            EventType::parse(&text).ok_or_else(|| {
                bad(
                    "event_type",
                    &text,
                    &format!("an event_type: {}", names().join(", ")),
                )
            })
        });
        let limit = self.number("limit", 1..=limits::TELEMETRY_LIMIT_MAX)?;
        let limit = limit.unwrap_or(limits::TELEMETRY_LIMIT_DEFAULT);
        Ok(Address::Telemetry {
            id,
            event_type: event_type.transpose()?,
            limit,
        })
    }

    fn artifact(&mut self, id: ExecutionId, artifact: String) -> Result<Address> {
        let offset = self.number("offset", 0..=u64::MAX)?.unwrap_or(0);
        let limit = self.number("limit", 1..=limits::ARTIFACT_SHOWN_BYTES_MAX)?;
        let limit = limit.unwrap_or(limits::ARTIFACT_SHOWN_BYTES_DEFAULT);
        Ok(Address::Artifact {
            id,
            artifact,
            offset,
            limit,
        })
    }

    fn reader(&mut self) -> Result<Reader> {
        match self.text("reader").as_deref() {
            None => Ok(Reader::Model),
            Some("person") => Ok(Reader::Person),
            Some("worker") => Ok(Reader::Worker),
            Some(text) => Err(bad("reader", text, "a reader: person or worker")),
        }
    }

    fn graph(&mut self) -> Result<bool> {
        match self.text("graph").as_deref() {
            None => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(bad("graph", text, "true")),
        }
    }

    fn page(&mut self) -> Result<Page> {
        let limit = self.number("limit", 1..=limits::WORKFLOWS_LISTED_MAX)?;
        Ok(Page {
            limit: limit.unwrap_or(limits::WORKFLOWS_LISTED_MAX),
            after: self.text("after"),
            query: self.text("query"),
        })
    }

    fn list(&mut self) -> Result<ListRequest> {
        Ok(ListRequest {
            state: self.text("state"),
            workflow: self.text("workflow"),
            project: self.text("project"),
            calls: false,
            children: self.text("children").as_deref() == Some("true"),
            limit: self.number("limit", 1..=limits::LIST_LIMIT_MAX)?,
            cursor: self.text("cursor"),
        })
    }

    /// Refuses pairs that were not consumed, since the resource does not know their names.
    fn finish(self) -> Result<()> {
        let left = self.0.into_keys().next();
        left.map_or(Ok(()), |name| {
            Err(bad(&name, &name, "a name that this resource's query has"))
        })
    }
}

fn names() -> Vec<&'static str> {
    EventType::ALL.iter().map(|kind| kind.as_str()).collect()
}

fn bad(name: &str, found: &str, expected: &str) -> Error {
    let found: String = found.chars().take(60).collect();
    let name: String = name.chars().take(60).collect();
    let message = format!("`{found}` is not {expected}");
    let violation =
        Violation::new(format!("/{name}"), "query", message.clone()).expecting(expected);
    Error::new(Code::ArgumentsInvalid, message)
        .with("tool", "resources/read")
        .with_violations(vec![violation])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(address: &str) -> Option<Code> {
        let is_whole = address.contains("://");
        let root = if is_whole { "" } else { ROOT };
        let parsed = Address::parse(&format!("{root}{address}"));
        parsed.err().map(|error| error.code())
    }

    #[test]
    fn every_address_of_the_documents_is_one() {
        for address in [
            "available_workflows",
            "available_workflows?limit=10&after=bug-fix&query=code%20review",
            "limits",
            "workflow_details/feature-development",
            "agent/reviewer",
            "agent/reviewer?execution_id=exec_001",
            "current_step/exec_001",
            "workflow_status/a%20b%2Fc",
            "step_history/%D0%BA%D0%BB%D1%8E%D1%87",
            "step_history/exec_001/design",
            "workflow_artifacts/exec_001",
            "workflow_artifacts/exec_001/design",
            "artifact/exec_001/1",
            "artifact/exec_001/a%2Fb.md?offset=10&limit=5",
            "executions",
            "executions?state=open&workflow=w&limit=5&cursor=7&project=*",
            "telemetry?event_type=error&limit=1",
            "telemetry/exec_001",
            "midex://authoring/spec",
            "midex://authoring/schema",
            "midex://authoring/errors",
            "midex://authoring/manifests?limit=10&after=bug-fix",
            "midex://authoring/manifest/bug-fix",
            "midex://authoring/command-catalog?query=code%20review",
            "midex://authoring/provider-catalog",
            "skill://workflow/bug-fix/SKILL.md",
            "skill://agent/reviewer/SKILL.md",
        ] {
            assert_eq!(code(address), None, "{address}");
        }
    }

    #[test]
    fn what_names_nothing_is_not_found() {
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
            assert!(code(address).is_some(), "{address}");
        }
        assert_eq!(
            code("agent/a?execution_id=%0a"),
            Some(Code::ResourceNotFound)
        );
        assert_eq!(
            code("available_workflows?limit=201"),
            Some(Code::ArgumentsInvalid)
        );
        assert_eq!(code("current_step/x?y=1"), Some(Code::ArgumentsInvalid));
        assert_eq!(code("telemetry?limit=0"), Some(Code::ArgumentsInvalid));
        assert_eq!(code("telemetry?event_type=x"), Some(Code::ArgumentsInvalid));
        assert_eq!(
            code("artifact/a/1?limit=99999999"),
            Some(Code::ArgumentsInvalid)
        );
        assert_eq!(code("artifact/a/1?offset=-1"), Some(Code::ArgumentsInvalid));
        assert!(Address::parse("http://elsewhere/current_step/x").is_err());
    }
}
