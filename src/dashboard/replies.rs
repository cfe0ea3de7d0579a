//! Replies that are no pages: refusals, and pages without navigation.

use maud::{Markup, html};

use crate::{
    html::line,
    page::{PageContent, document_head},
    viewer::Viewer,
};
use midex_domain::error::Error;
use midex_http::{
    refusal::http_status,
    web::{Html, IntoResponse, Response},
};

/// A page that says what went wrong, with a link back.
pub(crate) fn error_response(viewer: &Viewer, error: &Error, back: &str) -> Response {
    let page = PageContent::with_fragment(
        error.code().as_str(),
        "error",
        &error_details(error, back),
        Vec::new(),
    );
    let html = page.render(viewer, "").into_string();
    (http_status(error.code()), Html(html)).into_response()
}

fn error_details(error: &Error, back: &str) -> Markup {
    html! {
        h1 { "That did not work" }
        p.problem { (line(error.message())) }
        @if !error.violations().is_empty() {
            ul {
                @for violation in error.violations() {
                    li { code { (line(&violation.path)) } " " (line(&violation.message)) }
                }
            }
        }
        @if let Some(owner) = error.context("owner").and_then(serde_json::Value::as_str) {
            p { "Use the dashboard of the server at " code { (line(owner)) } ", or the commands on its machine." }
        }
        p.note { "Code " code { (error.code().as_str()) } }
        p { a.button href=(back) { "Back" } }
    }
}

/// A refusal before anybody came in.
pub(crate) fn refuse(error: &Error) -> Response {
    let text = html! { p { (line(error.message())) } };
    (http_status(error.code()), Html(plain_page("Refused", &text).into_string())).into_response()
}

/// A page without navigation.
pub(crate) fn plain_page(title: &str, content: &Markup) -> Markup {
    html! {
        (maud::DOCTYPE)
        html lang="en" {
            (document_head(title, &html! {}))
            body { main { h1 { (title) } (content) } }
        }
    }
}
