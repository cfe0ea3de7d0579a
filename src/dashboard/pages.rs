//! The pages, each a function of what the server answers.

mod agents;
mod catalogs;
mod execution;
mod executions;
mod findings;
mod forms;
mod now;
mod server;
mod visits;
mod waits;
mod workflow;
mod workflows;

use std::{collections::HashMap, fmt::Display};

use crate::{page::PageContent, viewer::Viewer};
use midex_domain::{
    error::{Code, Error, Result},
    uri::decode_segment,
};
use midex_http::web::{Query, Uri};

/// The query of a page's address.
pub(super) struct PageQuery(HashMap<String, String>);

impl PageQuery {
    /// The value of a parameter; `None` if it is missing or empty.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Draws the picture at an address as an SVG file: `/graph` or `/timeline`, then the path of a page.
///
/// # Errors
/// `RESOURCE_NOT_FOUND` for an address of no picture; the errors of the tools that the picture needs.
pub(crate) async fn draw(viewer: &Viewer, uri: &Uri) -> Result<String> {
    let (segments, query) = parse_address(uri)?;
    let segments: Vec<_> = segments.iter().map(String::as_str).collect();
    let graph = match segments.as_slice() {
        ["timeline", "executions", id] => {
            let view = execution::load_execution(viewer, id, &query).await?;
            return Ok(execution::draw_whole_timeline(viewer, id, &view));
        }
        ["graph", "executions", id] => execution::load_execution(viewer, id, &query).await?.graph,
        ["graph", "workflows", name] => Some(workflow::find_graph(viewer, name).await?),
        _ => None,
    };
    let graph = graph.ok_or_else(|| not_found_error(uri))?;
    // A large graph takes a good part of a second.
    let drawn = tokio::task::spawn_blocking(move || midex_picture::svg(&graph)).await;
    drawn.map_err(|error| Error::internal("the graph was not drawn").with_source(error))
}

/// The decoded segments of a path, and the query.
fn parse_address(uri: &Uri) -> Result<(Vec<String>, PageQuery)> {
    let query = Query::try_from_uri(uri).map_err(|_| not_found_error(uri))?;
    let segments: Option<_> = uri.path().split('/').skip(1).map(decode_segment).collect();
    Ok((segments.ok_or_else(|| not_found_error(uri))?, PageQuery(query.0)))
}

fn not_found_error(address: impl Display) -> Error {
    let address: String = address.to_string().chars().take(100).collect();
    Error::new(Code::ResourceNotFound, format!("there is no page {address}"))
}

/// Renders the page at an address: a path, with a query if there is one.
///
/// # Errors
/// `RESOURCE_NOT_FOUND` for an address of no page; the errors of the tools that the page calls.
pub(crate) async fn render(viewer: &Viewer, address: &str) -> Result<PageContent> {
    let uri: Uri = address.parse().map_err(|_| not_found_error(address))?;
    let (segments, query) = parse_address(&uri)?;
    let segments: Vec<_> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        [""] => now::render(viewer).await,
        ["executions"] => executions::render(viewer, &query).await,
        ["executions", id] => execution::render(viewer, id, &query).await,
        ["executions", id, "visits", step] => visits::render_step(viewer, id, step, &query).await,
        ["executions", id, "definition"] => execution::render_definition(viewer, id).await,
        ["executions", id, "artifacts", number] => {
            execution::render_artifact(viewer, id, number).await
        }
        ["workflows"] => workflows::render(viewer, &query).await,
        ["workflows", name] => workflow::render(viewer, name).await,
        ["agents"] => agents::render(viewer).await,
        ["agents", name] => agents::render_agent(viewer, name).await,
        ["catalogs"] => catalogs::render(viewer).await,
        ["server"] => server::render(viewer).await,
        _ => Err(not_found_error(address)),
    }
}
