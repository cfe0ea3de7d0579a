//! A page: fragments of HTML, and the frame around them.

use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{DOCTYPE, Markup, html};

use crate::viewer::Viewer;
use midex_domain::visible::replace_hidden_chars;

/// What a page shows.
pub(crate) struct Page {
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
}

impl Fragment {
    pub(crate) fn new(id: &'static str, content: &Markup) -> Self {
        Self { id, html: html! { section id=(id) { (content) } }.into_string() }
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.html.hash(&mut hasher);
        hasher.finish()
    }
}

impl Page {
    /// What the browser has of the page, by which the stream finds the fragments that differ.
    pub(crate) fn version(&self) -> String {
        let digests =
            self.fragments.iter().map(|part| format!("{}:{:016x}", part.id, part.digest()));
        digests.collect::<Vec<_>>().join(",")
    }

    /// The fragments that a browser with this version of the page has not. `None` if it needs the whole page anew, because it
    /// has other fragments.
    pub(crate) fn changed_since(&self, version: &str) -> Option<Vec<&Fragment>> {
        let known: Vec<_> = version.split(',').filter_map(|part| part.split_once(':')).collect();
        let same_ids = known.len() == self.fragments.len()
            && known.iter().zip(&self.fragments).all(|((id, _), fragment)| *id == fragment.id);
        let differs = |(_, digest): &(&str, &str), fragment: &Fragment| {
            *digest != format!("{:016x}", fragment.digest())
        };
        same_ids.then(|| {
            let pairs = known.iter().zip(&self.fragments);
            pairs
                .filter(|(known, fragment)| differs(known, fragment))
                .map(|(_, fragment)| fragment)
                .collect()
        })
    }

    /// The whole document.
    pub(crate) fn render(&self, viewer: &Viewer, path: &str) -> Markup {
        let is_live = !self.topics.is_empty();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (replace_hidden_chars(&self.title)) " · midex" }
                    link rel="icon" href="/icon.svg";
                    link rel="stylesheet" href="/style.css";
                    script src="/script.js" defer {}
                }
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

/// The pages of the navigation.
const PAGES: &[(&str, &str)] = &[
    ("/", "Now"),
    ("/executions", "Executions"),
    ("/workflows", "Workflows"),
    ("/agents", "Agents"),
    ("/catalogs", "Catalogs"),
    ("/server", "Server"),
];
