//! The agents that workflows name, and their personas.

use std::collections::BTreeMap;

use maud::html;
use serde_json::Value;

use super::findings::finding_block;
use crate::{
    html::{block_of, line, workflow_link},
    page::PageContent,
    viewer::Viewer,
};
use midex_domain::{error::Result, limits, uri::encode_segment};

/// The address of the list of workflows, which changes when any of them does.
pub(super) const WORKFLOWS_URI: &str = "midex://workflow/available_workflows";

/// The workflows in which each agent acts.
async fn fetch_workflows_by_agent(viewer: &Viewer) -> Result<BTreeMap<String, Vec<String>>> {
    let workflows: Vec<Value> = viewer.source.read(WORKFLOWS_URI).await?;
    let mut agents = BTreeMap::<String, Vec<String>>::new();
    for workflow in &workflows {
        let name = workflow["name"].as_str().unwrap_or_default();
        let phases = workflow["phases"].as_array().into_iter().flatten();
        for agent in phases.filter_map(|phase| phase["agent"].as_str()) {
            let names = agents.entry(agent.to_owned()).or_default();
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
        }
    }
    Ok(agents)
}

pub(super) async fn render(viewer: &Viewer) -> Result<PageContent> {
    let agents = fetch_workflows_by_agent(viewer).await?;
    let list = html! {
        h1 { "Agents" }
        @if agents.is_empty() { p.note { "No workflow names an agent." } }
        ul.plain {
            @for (name, workflows) in &agents {
                li { a href={ "/agents/" (encode_segment(name)) } { (line(name)) } " " span.note { "in " @for workflow in workflows { (workflow_link(workflow)) " " } } }
            }
        }
    };
    Ok(PageContent::with_fragment("Agents", "agents", &list, vec![WORKFLOWS_URI.into()]))
}

pub(super) async fn render_agent(viewer: &Viewer, name: &str) -> Result<PageContent> {
    let uri = format!("midex://workflow/agent/{}", encode_segment(name));
    let agent: Value = viewer.source.read(&uri).await?;
    let workflows = fetch_workflows_by_agent(viewer).await?.remove(name).unwrap_or_default();
    let content = html! {
        h1 { (line(name)) }
        @if let Some(description) = agent["description"].as_str() { p { (line(description)) } }
        @for finding in agent["findings"].as_array().into_iter().flatten() {
            (finding_block(finding, None))
        }
        p { "Acts in " @for workflow in &workflows { (workflow_link(workflow)) " " } @if workflows.is_empty() { "no workflow" } }
        @if let Some(persona) = agent["content"].as_str() { (block_of(persona, limits::DASHBOARD_VALUES_CHARS_MAX)) }
    };
    Ok(PageContent::with_fragment(name, "agent", &content, vec![uri]))
}
