//! `workflow.list`: the definition files, for authors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use midex_domain::{
    check::OperationLookup,
    error::{Error, Result},
    limits,
    truncate::{json_length, truncate_to_chars},
};
use midex_registry::{Registry, Source, WorkflowEntry};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// Names and descriptions
    brief: Option<bool>,
    #[schemars(length(max = 200))]
    query: Option<String>,
    #[schemars(extend("enum" = Source::SOURCE_NAMES[..=Source::Shipped as usize]))]
    source: Option<String>,
    #[schemars(
        range(min = 1, max = limits::LIST_LIMIT_MAX),
        extend("default" = limits::LIST_LIMIT_DEFAULT)
    )]
    limit: Option<usize>,
    #[schemars(length(max = 300), description = "The last next_cursor")]
    cursor: Option<String>,
}

/// A page of the files.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkflowList {
    workflows: Vec<Value>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<WorkflowList> {
    let page = ManifestPageFilter {
        is_brief: arguments.brief == Some(true),
        query: arguments.query.unwrap_or_default().to_lowercase(),
        source: arguments.source,
        limit: arguments.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT),
        after: arguments.cursor.as_deref().map(ManifestSortKey::parse).transpose()?,
    };
    app.with_registry(move |registry| page.build_page(registry)).await
}

/// The filters of a page of files.
struct ManifestPageFilter {
    /// Whether to return only names and descriptions, of workflows that can be started.
    is_brief: bool,
    /// Search words, in lowercase.
    query: String,
    source: Option<String>,
    limit: usize,
    after: Option<ManifestSortKey>,
}

/// The sort key of a file: its name, then its source. One directory may have several files of one name, which are
/// numbered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ManifestSortKey {
    name: String,
    source: usize,
    same_name_index: usize,
}

impl ManifestSortKey {
    fn parse(cursor: &str) -> Result<Self> {
        let mut parts = cursor.splitn(3, ' ');
        let mut number = || parts.next()?.parse().ok();
        let key = number().zip(number()).zip(parts.next());
        let key = key.map(|((source, of_same), name)| Self {
            name: name.to_owned(),
            source,
            same_name_index: of_same,
        });
        key.ok_or_else(invalid_cursor_error)
    }

    fn encode(&self) -> String {
        format!("{} {} {}", self.source, self.same_name_index, self.name)
    }
}

fn invalid_cursor_error() -> Error {
    let message = "the cursor is none of this list; expected the next_cursor of the page before";
    Error::argument_rule("/cursor", "format", message)
}

impl ManifestPageFilter {
    fn build_page(&self, registry: &Registry) -> WorkflowList {
        let mut files: Vec<_> = registry.workflows().map(|entry| (entry, None)).collect();
        files.extend(registry.hidden_workflows().map(|entry| {
            let nearer_entry = registry.workflow(&entry.name);
            (entry, nearer_entry)
        }));
        files.sort_by(|(a, _), (b, _)| (&a.name, a.source).cmp(&(&b.name, b.source)));
        let mut matches = Vec::new();
        for (index, (entry, nearer)) in files.iter().enumerate() {
            let is_same = |(other, _): &&(&WorkflowEntry, _)| {
                (&other.name, other.source) == (&entry.name, entry.source)
            };
            let same_name_index = files[..index].iter().rev().take_while(is_same).count();
            let key = ManifestSortKey {
                name: entry.name.clone(),
                source: entry.source as usize,
                same_name_index,
            };
            let is_listed = !self.is_brief || (nearer.is_none() && !entry.is_broken());
            if is_listed && self.matches(entry) {
                matches.push((key, *entry, *nearer));
            }
        }
        let total = matches.len();
        let mut remaining = matches
            .into_iter()
            .filter(|(key, ..)| self.after.as_ref().is_none_or(|after| key > after));
        let page: Vec<_> = remaining.by_ref().take(self.limit).collect();
        let workflows = fit_in_answer(&page, |(_, entry, nearer)| {
            if self.is_brief {
                summarize_workflow(entry)
            } else {
                describe_file(registry, entry, *nearer)
            }
        });
        let has_more = workflows.len() < page.len() || remaining.next().is_some();
        let last = page[..workflows.len()].last().filter(|_| has_more);
        WorkflowList { workflows, total, next_cursor: last.map(|(key, ..)| key.encode()) }
    }

    fn matches(&self, entry: &WorkflowEntry) -> bool {
        let is_source = |source: &String| *source == entry.source.as_str();
        self.source.as_ref().is_none_or(is_source)
            && entry.contains_words(self.query.split_whitespace())
    }
}

/// The longest prefix of the items that fits into one answer. Always at least one item, however large.
pub(super) fn fit_in_answer<T>(items: &[T], format_item: impl Fn(&T) -> Value) -> Vec<Value> {
    let (mut fitting_items, mut bytes) = (Vec::new(), 1_000);
    for item in items.iter().map(format_item) {
        bytes += json_length(&item) + 1;
        if bytes > limits::ANSWER_BYTES_MAX && !fitting_items.is_empty() {
            break;
        }
        fitting_items.push(item);
    }
    fitting_items
}

/// The short form of a workflow, for choosing one.
fn summarize_workflow(entry: &WorkflowEntry) -> Value {
    let workflow = entry.value.as_ref().map(|known| &known.workflow);
    let description = workflow.map_or("", |workflow| &workflow.description);
    json!({
        "workflow_id": entry.name,
        "description": truncate_to_chars(description, limits::BRIEF_CHARS_MAX),
    })
}

/// A file, as it is listed in the list of manifests.
pub(crate) fn describe_manifest(entry: &WorkflowEntry) -> Value {
    let workflow = entry.value.as_ref().map(|known| &known.workflow);
    json!({
        "workflow_id": entry.name,
        "title": workflow.and_then(|workflow| workflow.title.as_ref()),
        "description": workflow.map(|workflow| &workflow.description),
        "path": entry.path,
        "format": entry.format().as_str(),
        "version": entry.version.to_string(),
    })
}

/// The catalogs that it requires and that are missing.
fn find_missing_catalogs(
    entry: &WorkflowEntry,
    commands: Option<&dyn OperationLookup>,
) -> Vec<String> {
    let required = entry.value.iter().flat_map(|known| &known.workflow.requires);
    let missing =
        required.filter(|one| commands.is_some_and(|commands| !commands.is_requirement_met(one)));
    missing.map(|one| format!("catalog:{}", one.title.as_ref().unwrap_or(&one.vendor))).collect()
}

/// A file. `nearer` is the file that hides it, if any.
fn describe_file(
    registry: &Registry,
    entry: &WorkflowEntry,
    nearer: Option<&WorkflowEntry>,
) -> Value {
    let mut file_json = describe_manifest(entry);
    file_json["source"] = json!(entry.source);
    if let Some(metadata) = entry.metadata() {
        file_json["metadata"] = json!(metadata);
    }
    let needs = find_missing_catalogs(entry, registry.abilities().operation_lookup());
    if !needs.is_empty() {
        file_json["needs"] = json!(needs);
    }
    if let Some(nearer) = nearer {
        file_json["shadowed_by"] = json!({ "source": nearer.source, "path": nearer.path });
    }
    if !entry.findings.is_empty() {
        file_json["findings"] = json!(entry.findings);
    }
    file_json
}
