//! A page: fragments of HTML, and the frame around them.

use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{DOCTYPE, Markup, html};

use crate::viewer::Viewer;
use midex_domain::visible::replace_hidden_chars;

/// What a page shows.
pub(crate) struct PageContent {
    pub(crate) title: String,
    pub(crate) fragments: Vec<Fragment>,
    /// The resources whose changes change the page; empty if it never changes.
    pub(crate) topics: Vec<String>,
}

/// A part of a page that is replaced as a whole when it changes.
pub(crate) struct Fragment {
    /// Unique on the page, and the same whenever the page is rendered.
    pub(crate) id: &'static str,
    pub(crate) html: String,
    /// The id with a digest of the HTML. A browser sends those that it has.
    version: String,
}

impl Fragment {
    pub(crate) fn new(id: &'static str, content: &Markup) -> Self {
        let html = html! { section id=(id) { (content) } }.into_string();
        let mut hasher = DefaultHasher::new();
        html.hash(&mut hasher);
        let version = format!("{id}:{:016x}", hasher.finish());
        Self { id, html, version }
    }
}

impl PageContent {
    /// A page with one fragment.
    pub(crate) fn with_fragment(
        title: impl Into<String>,
        id: &'static str,
        content: &Markup,
        topics: Vec<String>,
    ) -> Self {
        Self { title: title.into(), fragments: vec![Fragment::new(id, content)], topics }
    }

    /// The versions of the fragments, by which the stream finds those that a browser has not.
    pub(crate) fn version(&self) -> String {
        let versions = self.fragments.iter().map(|fragment| fragment.version.as_str());
        versions.collect::<Vec<_>>().join(",")
    }

    /// The fragments that a browser with this version of the page has not. `None` if it has other fragments, and so needs the
    /// whole page.
    pub(crate) fn changed_since(&self, version: &str) -> Option<Vec<&Fragment>> {
        let known: Vec<_> = version.split(',').collect();
        let is_same =
            |(known, fragment): (&&str, &Fragment)| known.split(':').next() == Some(fragment.id);
        let has_same_ids =
            known.len() == self.fragments.len() && known.iter().zip(&self.fragments).all(is_same);
        has_same_ids.then(|| {
            let pairs = known.into_iter().zip(&self.fragments);
            let changed = pairs.filter(|(known, fragment)| *known != fragment.version);
            changed.map(|(_, fragment)| fragment).collect()
        })
    }

    /// The whole document.
    pub(crate) fn render(&self, viewer: &Viewer, path: &str) -> Markup {
        let is_live = !self.topics.is_empty();
        html! {
            (DOCTYPE)
            html lang="en" {
                (document_head(&self.title, &html! { script src="/script.js" defer {} }))
                body data-version=[is_live.then(|| self.version())] {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        strong { "midex" }
                        nav aria-label="Pages" {
                            @for (address, name) in PAGES {
                                @let is_here = if *address == "/" { path == "/" } else { path.starts_with(address) };
                                a href=(address) aria-current=[is_here.then_some("page")] { (name) }
                            }
                        }
                        @if viewer.is_read_only { span.note { "read-only" } }
                    }
                    p #offline role="status" hidden {}
                    main #main {
                        @for fragment in &self.fragments { (maud::PreEscaped(&fragment.html)) }
                    }
                }
            }
        }
    }
}

/// The head of a document, with `extra` at its end.
pub(crate) fn document_head(title: &str, extra: &Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (replace_hidden_chars(title)) " · midex" }
            link rel="icon" href="/icon.svg";
            link rel="stylesheet" href="/style.css";
            (extra)
        }
    }
}

/// The pages of the navigation.
const PAGES: &[(&str, &str)] = &[
    ("/", "Now"),
    ("/executions", "Executions"),
    ("/workflows", "Workflows"),
    ("/agents", "Agents"),
    ("/catalogs", "Catalogs"),
    ("/server", "Server"),
];
