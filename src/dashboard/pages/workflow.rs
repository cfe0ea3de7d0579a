//! The page of a workflow: its text, its graph, its runs, and the form that starts it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{execution::graph_figure, findings::finding_block, forms};
use crate::{
    act::{INPUT_PREFIX, TEXT_KIND},
    html::{block_of, duration, execution_link, facts, line, state, time, value, workflow_path},
    page::{Fragment, PageContent},
    source::EXECUTIONS_URI,
    viewer::Viewer,
};
use midex_domain::{
    clock::Timestamp,
    error::{Code, Result},
    limits,
    uri::encode_segment,
    view::{ExecutionPage, ExecutionRow, GraphView},
};

/// The inputs of a workflow, as `workflow.preview_inputs` has them.
#[derive(Deserialize)]
struct WorkflowInputs {
    inputs: Vec<Value>,
}

pub(super) async fn render(viewer: &Viewer, name: &str) -> Result<PageContent> {
    let uri = format!("midex://workflow/workflow_details/{}", encode_segment(name));
    let details = match viewer.source.read::<Value>(&uri).await {
        // An execution of another project keeps a definition whose file this project may not have.
        Err(error) if error.code() == Code::WorkflowNotFound => Value::Null,
        details => details?,
    };
    let arguments = json!({ "workflow_id": name });
    // A file with findings has neither inputs nor a graph.
    let inputs =
        viewer.source.query::<WorkflowInputs>("workflow.preview_inputs", arguments.clone()).await;
    let graph = find_graph(viewer, name).await;
    let file = viewer.source.query::<Value>("workflow.get", arguments).await;
    let text = file.as_ref().ok().and_then(|file| file["content"].as_str());
    let filter =
        json!({ "workflow_name": name, "project": "*", "limit": limits::DASHBOARD_ROWS_MAX });
    let runs: ExecutionPage = viewer.source.query("execution.list", filter).await?;
    let fragments = vec![
        Fragment::new("head", &head(name, &details, text, &runs.executions)),
        Fragment::new(
            "start",
            &html! { @if let Ok(inputs) = &inputs { (start_form(viewer, name, &inputs.inputs)) } },
        ),
        Fragment::new(
            "graph",
            &html! { @if let Ok(graph) = &graph { (graph_figure(graph, &|_| None, &format!("/graph{}", workflow_path(name)))) } },
        ),
        Fragment::new("steps", &phases(&details)),
        Fragment::new("runs", &run_list(&runs.executions)),
        Fragment::new(
            "file",
            &html! {
                @if let Some(text) = text {
                    details data-key="file" { summary { h2 { "File" } } (block_of(text, limits::DASHBOARD_VALUES_CHARS_MAX)) }
                }
            },
        ),
    ];
    Ok(PageContent { title: name.to_owned(), fragments, topics: vec![uri, EXECUTIONS_URI.into()] })
}

/// The graph of a workflow, as its file is now.
pub(super) async fn find_graph(viewer: &Viewer, name: &str) -> Result<GraphView> {
    viewer.source.query("workflow.graph", json!({ "workflow_id": name })).await
}

fn head(name: &str, details: &Value, file: Option<&str>, runs: &[ExecutionRow]) -> Markup {
    let text = |field: &str| details[field].as_str();
    let findings = details["findings"].as_array();
    let durations = completed_durations(runs);
    let percentile = |share: usize| {
        let rank = (durations.len() * share).div_ceil(100).max(1) - 1;
        durations.get(rank).map(|took| html! { (duration(*took)) })
    };
    html! {
        h1 { (line(name)) }
        @if details.is_null() { p.note { "The project in which the dashboard was started has no workflow of this name. These are its runs in all projects." } }
        @if let Some(description) = text("description") { p { (line(description)) } }
        (facts(vec![
            ("Version", text("version").map(line)),
            ("Source", text("source").map(line)),
            ("Half of the latest runs took at most", percentile(50)),
            ("95 % of them at most", percentile(95)),
        ]))
        @for finding in findings.into_iter().flatten() { (finding_block(finding, file)) }
    }
}

/// How long the completed ones took, in order.
fn completed_durations(runs: &[ExecutionRow]) -> Vec<u64> {
    let milliseconds = |row: &ExecutionRow| {
        let [began, ended] =
            [&row.started_at, &row.updated_at].map(|time| time.parse::<Timestamp>().ok());
        u64::try_from(ended?.since(began?).as_millis()).ok()
    };
    let completed = runs.iter().filter(|row| row.state == "completed");
    let mut durations: Vec<_> = completed.filter_map(milliseconds).collect();
    durations.sort_unstable();
    durations
}

/// The form that starts the workflow, made from its inputs. It has the id of the new execution, so that a form that is sent
/// twice starts one.
fn start_form(viewer: &Viewer, name: &str, inputs: &[Value]) -> Markup {
    let id =
        format!("{}-{:08x}", name.chars().take(40).collect::<String>(), viewer.ids.random() >> 96);
    let fields = html! {
        (forms::hidden("workflow_name", name))
        input type="hidden" name="execution_id" value=(id) data-fixed="1";
        @for input in inputs { (input_field(input)) }
        @if inputs.is_empty() { label { "Inputs, as a JSON object" textarea name="inputs" rows="3" placeholder="{}" {} } }
        button.primary { "Start" }
    };
    html! {
        @if !viewer.is_read_only {
            details data-key="start" { summary { h2 { "Start it" } } (forms::form(viewer, "start", &workflow_path(name), &fields)) }
        }
    }
}

fn input_field(input: &Value) -> Markup {
    let text = |field: &str| input[field].as_str();
    let name = text("name").unwrap_or_default();
    let field = format!("{INPUT_PREFIX}{name}");
    let kind = text("type").unwrap_or_default();
    let is_required = input["required"] == true;
    let rules = &input["rules"];
    // Any other default is found when the execution starts, so its field is left empty.
    let literal = (input["default"]["from"] == "literal").then(|| &input["default"]["value"]);
    let default = match literal {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if kind == TEXT_KIND => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    html! {
        input type="hidden" name={ "kind." (name) } value=(kind);
        label {
            span { (line(text("label").unwrap_or(name))) @if is_required { " (required)" } }
            @if let Some(choices) = rules["enum"].as_array() {
                select name=(field) required[is_required] {
                    @if !is_required || default.is_none() { option value="" { "" } }
                    @for choice in choices {
                        @let written = choice.as_str().filter(|_| kind == TEXT_KIND).map_or_else(|| choice.to_string(), str::to_owned);
                        option value=(written) selected[default.as_deref() == Some(&*written)] { (line(&written)) }
                    }
                }
            } @else if kind == "boolean" {
                select name=(field) required[is_required] {
                    option value="" { "" }
                    option value="true" selected[default.as_deref() == Some("true")] { "yes" }
                    option value="false" selected[default.as_deref() == Some("false")] { "no" }
                }
            } @else if kind == "integer" || kind == "number" {
                input name=(field) type="number" step=(if kind == "integer" { "1" } else { "any" }) min=[rules["minimum"].as_f64()] max=[rules["maximum"].as_f64()] value=[default] required[is_required];
            } @else if kind == TEXT_KIND {
                textarea name=(field) rows="2" required[is_required] placeholder=[text("example")] { (default.unwrap_or_default()) }
            } @else {
                textarea name=(field) rows="3" required[is_required] placeholder={ "JSON: " (kind) } { (default.unwrap_or_default()) }
            }
            @if let Some(description) = text("description") { span.note { (line(description)) } }
        }
    }
}

fn phases(details: &Value) -> Markup {
    let phases = details["phases"].as_array();
    html! {
        @if let Some(phases) = phases {
            h2 { "Steps" }
            ol {
                @for phase in phases {
                    li {
                        strong { (line(phase["phase"].as_str().unwrap_or_default())) } " " (line(phase["description"].as_str().unwrap_or_default()))
                        @if let Some(agent) = phase["agent"].as_str() { " " span.note { a href={ "/agents/" (encode_segment(agent)) } { (line(agent)) } } }
                    }
                }
            }
        }
        @if details["metadata"].is_object() { details data-key="metadata" { summary { "Metadata" } (value(&details["metadata"])) } }
    }
}

fn run_list(runs: &[ExecutionRow]) -> Markup {
    html! {
        h2 { "Runs" }
        @if runs.is_empty() { p.note { "It was not started yet." } }
        ul.plain {
            @for row in runs.iter().take(limits::DASHBOARD_NOW_ROWS_MAX) {
                li { (state(&row.state)) " " (execution_link(&row.execution_id)) " " span.note { (time(&row.updated_at)) } }
            }
        }
    }
}
