//! The page of an execution: its state and waits, graph, timeline, steps, inputs, result, artifacts and events.

use std::collections::HashSet;

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::{
    PageQuery, forms,
    visits::{failure, visit_links, visit_list},
    waits::{reason_sentence, wait_list},
};
use crate::{
    html::{
        block, block_of, duration, execution_link, execution_path, facts, labels, line, state,
        step_path, time, value, value_of, workflow_link,
    },
    page::{Fragment, PageContent},
    viewer::Viewer,
};
use midex_domain::{
    error::Result,
    format::format_bytes,
    limits,
    uri::{encode_segment, execution_uri},
    view::{
        ArtifactContent, ArtifactView, CurrentStep, ExecutionView, GraphNode, GraphView,
        HistoryRow, TelemetryEvent,
    },
};
use midex_mcp::client::remove_nulls;

/// The execution as it is, or as it was at the revision or time that the query names.
pub(super) async fn load_execution(
    viewer: &Viewer,
    id: &str,
    query: &PageQuery,
) -> Result<ExecutionView> {
    let arguments = remove_nulls(json!({ "execution_id": id, "at": query.get("at") }));
    viewer.source.query("execution.show", arguments).await
}

pub(super) async fn render(viewer: &Viewer, id: &str, query: &PageQuery) -> Result<PageContent> {
    let at = query.get("at");
    let view = load_execution(viewer, id, query).await?;
    let status = &view.status;
    let back = execution_path(&status.execution_id);
    // Nothing can be done in the past.
    let is_past = at.is_some();
    let steps: Vec<String> =
        view.graph.iter().flat_map(|graph| &graph.nodes).map(|node| node.id.clone()).collect();
    // The query of pictures beside the page: a past state, or the present one, which has another address after each change.
    let moment = match at {
        Some(_) => format!("?at={}", status.revision),
        None => format!("?revision={}", status.revision),
    };
    // Inputs that are shortened or purged cannot be edited.
    let current = &view.current_step;
    let is_whole = current.inputs_uri.is_none() && current.purged.is_empty();
    let whole_inputs = current.inputs.as_ref().filter(|_| is_whole);
    let mut fragments = vec![
        Fragment::new("head", &head(viewer, &view, at)),
        Fragment::new(
            "waits",
            &html! { @if !is_past { (wait_list(viewer, status, &back)) (people_steps(viewer, &view.current_step, &back)) } },
        ),
        Fragment::new(
            "act",
            &html! { @if !is_past { (forms::execution_actions(viewer, status, (&steps, whole_inputs), &back)) } },
        ),
        Fragment::new(
            "graph",
            &html! { @if let Some(graph) = &view.graph { (draw_graph(graph, id, &moment)) } },
        ),
        Fragment::new("timeline", &draw_timeline(viewer, &view, (id, &moment))),
        Fragment::new("steps", &visit_list(id, &view.history)),
        Fragment::new("values", &values(&view)),
        Fragment::new("artifacts", &artifact_list(id, &view.artifacts)),
    ];
    if !is_past {
        let uri = format!("{}?limit=25", execution_uri("telemetry", id));
        let events: Vec<TelemetryEvent> = viewer.source.read(&uri).await.unwrap_or_default();
        fragments.push(Fragment::new("events", &event_list(&events)));
    }
    let topics = if is_past { Vec::new() } else { vec![execution_uri("workflow_status", id)] };
    Ok(PageContent { title: id.to_owned(), fragments, topics })
}

fn head(viewer: &Viewer, view: &ExecutionView, at: Option<&str>) -> Markup {
    let status = &view.status;
    let steps = &status.steps;
    html! {
        h1 { (line(&status.execution_id)) " " (state(&status.state)) }
        @if let Some(at) = at {
            p.problem { "As it was at " (line(at)) " (revision " (status.revision) "). " a href=(execution_path(&status.execution_id)) { "As it is now" } }
        }
        p.reason { (reason_sentence(status, viewer.now())) }
        @if status.imported && !view.effects.is_empty() {
            p { "A fork of it:" }
            ul { @for effect in &view.effects { li { (line(effect)) } } }
        }
        (facts(vec![
            ("Workflow", Some(html! { (workflow_link(&status.workflow_name)) @if let Some(version) = &status.definition.version { " " (line(version)) } })),
            ("Steps", Some(html! { (steps.completed) " of " (steps.total) " done" @if steps.running > 0 { ", " (steps.running) " open" } @if steps.failed > 0 { ", " (steps.failed) " failed" } @if steps.skipped > 0 { ", " (steps.skipped) " skipped" } })),
            ("Started", Some(time(&status.started_at))),
            ("Moved", status.completed_at.is_none().then(|| time(&status.updated_at))),
            ("Ended", status.completed_at.as_deref().map(time)),
            ("Took", status.duration_ms.map(|took| html! { (duration(took)) })),
            ("Ending", status.ending.as_deref().map(line)),
            ("Reason", status.reason.as_deref().map(line)),
            ("Project", status.project.as_deref().map(line)),
            ("Labels", (!status.labels.is_empty()).then(|| labels(&status.labels))),
            ("Child of", status.parent.as_deref().map(execution_link)),
            ("Fork of", status.forked_from.as_ref().map(|origin| html! { (execution_link(&origin.execution_id)) ", as it was at revision " (origin.revision) })),
            ("Forks", (!status.forks.is_empty()).then(|| links(&status.forks))),
            ("Children", (!status.children.is_empty()).then(|| links(&status.children.iter().map(|child| child.execution_id.clone()).collect::<Vec<_>>()))),
            ("Definition", Some(html! {
                a href={ (execution_path(&status.execution_id)) "/definition" } { "as it runs" } ", "
                code { (line(status.definition.digest.get(..12).unwrap_or(&status.definition.digest))) "…" }
                @if let Some(newer) = &status.definition.newer {
                    ". " strong { "The file has changed since the start" }
                    @if let Some(version) = &newer.version { " (version " (line(version)) ")" }
                }
            })),
            ("Revision", Some(html! { (status.revision) })),
        ]))
        @if let Some(error) = &status.error { (failure(error)) }
        @for left in &status.not_compensated { p.problem { "Not taken back: " (value(&json!(left))) } }
        @for left in &status.hook_failures { p.problem { "A hook failed: " (value(&json!(left))) } }
    }
}

fn links(ids: &[String]) -> Markup {
    html! { @for id in ids { (execution_link(id)) " " } }
}

/// The open steps of agents and of the user, with their instructions.
fn people_steps(viewer: &Viewer, current: &CurrentStep, back: &str) -> Markup {
    html! {
        @for step in current.open_steps() {
            @let is_for_user = step.step.kind == "input";
            details.visit data-key={ "open-" (step.step_name) } open[is_for_user] {
                summary {
                    (state("running")) " " strong { (line(&step.step_name)) } " "
                    span.note { @if is_for_user { "only you may answer" } @else { "an agent works on it" @if let Some(agent) = &step.agent_name { " as " (line(agent)) } } }
                }
                (block(&step.instructions))
                @if is_for_user { (forms::answer_form(viewer, &step, back)) }
            }
        }
    }
}

fn draw_graph(graph: &GraphView, id: &str, moment: &str) -> Markup {
    let link = |node: &GraphNode| {
        let is_entered = node.standing.as_ref().is_some_and(|standing| standing.visits > 0);
        is_entered.then(|| step_path(id, &node.id))
    };
    let picture = format!("/graph{}{moment}", execution_path(id));
    graph_figure(graph, &link, &picture)
}

/// A graph. A large one is a picture beside the page, at the address `picture`, and a very large one only a link to it.
pub(super) fn graph_figure(
    graph: &GraphView,
    link: &dyn Fn(&GraphNode) -> Option<String>,
    picture: &str,
) -> Markup {
    let count = graph.nodes.len();
    let is_shown = count <= limits::DASHBOARD_GRAPH_NODES_MAX;
    let drawing = is_shown.then(|| midex_picture::inline_svg(graph, link));
    let drawing = drawing.filter(|drawing| drawing.len() <= limits::DASHBOARD_PICTURE_BYTES_MAX);
    html! {
        h2 { "Graph" }
        @if let Some(drawing) = &drawing {
            div.scroll tabindex="0" role="region" aria-label="Graph of the steps" { (PreEscaped(drawing)) }
        } @else {
            p { a href=(picture) { "Picture of the graph" } ", which has " (count) " steps" }
            @if is_shown {
                div.scroll tabindex="0" role="region" aria-label="Graph of the steps" { img src=(picture) alt={ "Graph of " (count) " steps; the list below has each" }; }
            }
        }
    }
}

/// The timeline of the latest visits, with a link to the picture of all if there are more. An open page gets it anew after
/// each change, so it has few bytes.
fn draw_timeline(viewer: &Viewer, view: &ExecutionView, (id, moment): (&str, &str)) -> Markup {
    let history = &view.history;
    let listed = &history[history.len().saturating_sub(limits::DASHBOARD_VISITS_MAX)..];
    let listed: HashSet<_> = listed.iter().map(midex_picture::visit_anchor).collect();
    let mut shown = history.len().min(limits::DASHBOARD_TIMELINE_VISITS_MAX);
    let links = visit_links(id, history, history.len() - shown);
    let link = |row: &HistoryRow| {
        let anchor = midex_picture::visit_anchor(row);
        if listed.contains(&anchor) { format!("#{anchor}") } else { links(row) }
    };
    let drawing = loop {
        let rows = &history[history.len() - shown..];
        let drawing = midex_picture::timeline(rows, viewer.now(), &link);
        if drawing.len() <= limits::DASHBOARD_PICTURE_BYTES_MAX || shown <= 1 {
            break drawing;
        }
        shown /= 2;
    };
    html! {
        @if !history.is_empty() {
            h2 { "Timeline" }
            @if shown < history.len() {
                p.note { "The latest " (shown) " of " (history.len()) " visits. " a href={ "/timeline" (execution_path(id)) (moment) } { "Timeline of all visits" } }
            }
            div.scroll tabindex="0" role="region" aria-label="Timeline of the steps" { (PreEscaped(drawing)) }
        }
    }
}

/// The picture of all visits, whose bars lead to the pages of their steps.
pub(super) fn draw_whole_timeline(viewer: &Viewer, id: &str, view: &ExecutionView) -> String {
    midex_picture::timeline_file(&view.history, viewer.now(), &visit_links(id, &view.history, 0))
}

fn values(view: &ExecutionView) -> Markup {
    let output = view.final_output.as_ref().or(view.status.final_output.as_ref());
    html! {
        @if let Some(inputs) = &view.current_step.inputs {
            details data-key="inputs" { summary { h2 { "Inputs" } } (value(inputs)) }
        }
        @if let Some(output) = output {
            details data-key="output" open { summary { h2 { "Result" } } (value(output)) }
        }
        @for failure in &view.status.final_output_error { p.problem { (value(&json!(failure))) } }
    }
}

fn artifact_list(id: &str, artifacts: &[ArtifactView]) -> Markup {
    html! {
        @if !artifacts.is_empty() {
            h2 { "Artifacts" }
            ul.plain {
                @for artifact in artifacts {
                    li {
                        a href={ (execution_path(id)) "/artifacts/" (artifact.id) } { (line(&artifact.name)) } " "
                        span.note { (line(&artifact.artifact_type)) ", " (format_bytes(artifact.size_bytes)) ", of " (line(&artifact.step_name)) }
                    }
                }
            }
        }
    }
}

fn event_list(events: &[TelemetryEvent]) -> Markup {
    html! {
        @if !events.is_empty() {
            details data-key="events" {
                summary { h2 { "Events" } }
                ul.plain {
                    @for event in events.iter().rev() {
                        li {
                            (time(&event.created_at)) " " strong { (line(event.event_type.as_str())) } " "
                            @if let Some(step) = &event.step_name { (line(step)) " " }
                            @if !event.metadata.is_null() { span.note { (line(&event.metadata.to_string())) } }
                        }
                    }
                }
            }
        }
    }
}

/// The page of the definition that an execution follows: the file as it was at the start.
pub(super) async fn render_definition(viewer: &Viewer, id: &str) -> Result<PageContent> {
    let arguments = json!({ "execution_id": id });
    let definition: Value = viewer.source.query("execution.definition", arguments).await?;
    let personas = definition["personas"].as_object();
    let html = html! {
        h1 { "Definition of " (execution_link(id)) }
        p { "What the execution follows, whatever becomes of the files." }
        h2 { "Workflow" }
        (value_of(&definition["workflow"], limits::DASHBOARD_VALUES_CHARS_MAX))
        @for (name, persona) in personas.into_iter().flatten() {
            h2 { "Agent " (line(name)) }
            @if let Some(content) = persona["content"].as_str() { (block(content)) }
        }
    };
    Ok(PageContent::with_fragment(format!("Definition of {id}"), "definition", &html, Vec::new()))
}

/// The page of an artifact: its content, as text.
pub(super) async fn render_artifact(
    viewer: &Viewer,
    id: &str,
    number: &str,
) -> Result<PageContent> {
    let address = format!("{}/{}", execution_uri("artifact", id), encode_segment(number));
    let uri = format!("{address}?limit={}", limits::ARTIFACT_SHOWN_BYTES_MAX);
    let content: ArtifactContent = viewer.source.read(&uri).await?;
    let artifact = &content.artifact;
    let html = html! {
        h1 { (line(&artifact.name)) }
        p { "Artifact " (artifact.id) " of " (execution_link(id)) }
        (facts(vec![
            ("Step", Some(line(&artifact.step_name))),
            ("Type", Some(line(&artifact.content_type))),
            ("Size", Some(html! { (format_bytes(artifact.size_bytes)) })),
            ("SHA-256", artifact.sha256.as_deref().map(|digest| html! { code { (line(digest)) } })),
        ]))
        @match &content.content {
            Some(text) => (block_of(text, limits::DASHBOARD_VALUES_CHARS_MAX)),
            None => p.note { "It is not text. " code { "midex export" } " writes it into a bundle, with its execution." },
        }
        @if content.next_offset.is_some() { p.note { "This is its beginning." } }
    };
    Ok(PageContent::with_fragment(artifact.name.clone(), "artifact", &html, Vec::new()))
}
