//! The file formats of workflow definitions.

use std::path::Path;

use super::{files, markdown};

/// The file format of a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Markdown with front matter.
    #[default]
    Markdown,
    /// A YAML manifest.
    Yaml,
    /// A JSON manifest.
    Json,
}

impl Format {
    /// The names of the formats in calls.
    pub const NAMES: [&str; 3] = ["yaml", "json", "markdown"];

    /// The name of the format in calls.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => Self::NAMES[0],
            Self::Json => Self::NAMES[1],
            Self::Markdown => Self::NAMES[2],
        }
    }

    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Yaml, Self::Json, Self::Markdown];
        all.into_iter().find(|format| format.as_str() == name)
    }

    /// The format of a file, by its extension.
    pub fn from_path(path: &Path) -> Self {
        match files::lowercase_extension(path).as_str() {
            "md" => Self::Markdown,
            "json" => Self::Json,
            _ => Self::Yaml,
        }
    }

    /// The format of a text, detected from its beginning: Markdown has front matter, JSON starts with a brace.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        if markdown::has_closed_front_matter(text) {
            Self::Markdown
        } else if text.trim_start().starts_with('{') {
            Self::Json
        } else {
            Self::Yaml
        }
    }

    /// The media type of the format.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown",
            Self::Yaml => "application/yaml",
            Self::Json => "application/json",
        }
    }

    /// The file extension of the format.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }
}
