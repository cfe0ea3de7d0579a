//! Starter files: valid definitions, with comments that describe further options.

use std::fmt::Write;

use serde_json::json;

use super::{Format, files, validate::DefinitionKind};
use midex_domain::{
    error::{Code, Error, Result},
    id::{AgentName, WorkflowName},
    limits,
};

/// A definition that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionTemplate {
    kind: DefinitionKind,
    name: String,
    format: Format,
    description: String,
    /// The text, if the definition is a copy of another one.
    copied_text: Option<String>,
}

impl DefinitionTemplate {
    /// A starter workflow.
    pub fn new_workflow(name: &WorkflowName, format: Format) -> Self {
        Self {
            kind: DefinitionKind::Workflow,
            name: name.as_str().to_owned(),
            format,
            description: "Say in one sentence what this workflow achieves".to_owned(),
            copied_text: None,
        }
    }

    /// A starter agent.
    pub fn new_agent(name: &AgentName) -> Self {
        Self {
            kind: DefinitionKind::Agent,
            name: name.as_str().to_owned(),
            format: Format::Markdown,
            description: "Say in one sentence what this agent does and hands over".to_owned(),
            copied_text: None,
        }
    }

    /// A copy of another workflow. Its text contains the new name already.
    pub(super) fn new_copy(name: &WorkflowName, format: Format, text: String) -> Self {
        Self { copied_text: Some(text), ..Self::new_workflow(name, format) }
    }

    /// Sets the description: one line of at most [`limits::DESCRIPTION_BYTES_MAX`].
    pub fn with_description(self, description: &str) -> Result<Self> {
        let fault = if description.trim().is_empty() {
            "is empty".to_owned()
        } else if description.contains(char::is_control) {
            "must be one line without control characters".to_owned()
        } else if description.len() > limits::DESCRIPTION_BYTES_MAX {
            let (bytes, max) = (description.len(), limits::DESCRIPTION_BYTES_MAX);
            format!("has {bytes} bytes, the limit is {max}")
        } else {
            let description = description.to_owned();
            return Ok(Self { description, ..self });
        };
        let error = Error::new(Code::UsageInvalid, format!("the description {fault}"));
        Err(error.with_action("Give a --description of one line, or none"))
    }

    /// The kind of definition.
    pub fn kind(&self) -> DefinitionKind {
        self.kind
    }

    /// The name of the definition.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file name: the name of the definition, if it is a valid file name.
    pub fn file_name(&self) -> Result<String> {
        files::build_file_name(&self.name, self.format.extension())
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        if let Some(text) = &self.copied_text {
            return text.clone();
        }
        match (self.kind, self.format) {
            (DefinitionKind::Agent, _) => self.fill_template(include_str!("template/agent.md")),
            (_, Format::Markdown) => self.fill_template(include_str!("template/workflow.md")),
            (_, Format::Yaml) => self.fill_template(include_str!("template/workflow.yaml")),
            (_, Format::Json) => self.render_json(),
        }
    }

    fn fill_template(&self, template: &str) -> String {
        let placeholder_value = |part| match part {
            "name" => format_yaml_scalar(&self.name),
            "description" => format_yaml_scalar(&self.description),
            "title" => self.name.clone(),
            text => text.to_owned(),
        };
        template.split('@').map(placeholder_value).collect()
    }

    fn render_json(&self) -> String {
        let manifest = json!({
            "workflow": self.name,
            "description": self.description,
            "version": "0.1.0",
            "tags": [],
            "complexity": "moderate",
            "steps": [
                {
                    "id": "plan",
                    "agent": "architect",
                    "description": "Settle what to do, in what order, and how to tell that it is done"
                },
                {
                    "id": "work",
                    "agent": "implementer",
                    "description": "Do what the plan says, in small steps that each leave things working",
                    "depends_on": ["plan"]
                },
                {
                    "id": "check",
                    "agent": "reviewer",
                    "description": "Compare the result with the request and the plan, and say what is missing",
                    "depends_on": ["work"]
                }
            ]
        });
        format!("{manifest:#}\n")
    }
}

/// A text as a YAML scalar on one line: plain if it cannot be misread, otherwise in quotes.
fn format_yaml_scalar(text: &str) -> String {
    if is_plain_scalar(text) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Characters that YAML does not count as printable, or that some readers treat as line ends.
            '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// Whether every YAML reader reads the text as itself: only ASCII letters, digits and a few characters without special
/// meaning, and not a word for a boolean, null or a number.
fn is_plain_scalar(text: &str) -> bool {
    const RESERVED_WORDS: &[&str] =
        &["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"];
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " -_.,;/()'".contains(c))
        && !text.ends_with(' ')
        && !RESERVED_WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Registry, Sources, check_text};
    use midex_domain::node::NodeContent;

    #[test]
    fn a_value_is_quoted_only_where_it_must_be() {
        for plain in ["bug-fix", "Find the cause, remove it", "it's (all) a/b; c"] {
            assert_eq!(format_yaml_scalar(plain), plain);
        }
        for (text, quoted) in [
            ("1.10", "\"1.10\""),
            ("No", "\"No\""),
            ("a: b #c", "\"a: b #c\""),
            ("say \"\\\"", r#""say \"\\\"""#),
            ("\u{feff}é\u{2028}", "\"\\ufeffé\\u2028\""),
        ] {
            assert_eq!(format_yaml_scalar(text), quoted);
        }
    }

    #[test]
    fn commented_examples_are_valid() {
        let name = WorkflowName::parse("w").unwrap();
        let text = DefinitionTemplate::new_workflow(&name, Format::Yaml).text();
        let shown = |line: &str| {
            line.strip_prefix("#  ").map_or_else(|| line.to_owned(), |rest| format!("  {rest}"))
        };
        let shown: Vec<_> = text.lines().map(shown).collect();
        let registry = Registry::load(&Sources::default());
        let (workflow, findings) = check_text("w.yaml", &shown.join("\n"), &registry);
        assert_eq!(findings, []);
        let kinds: Vec<_> = workflow.unwrap().steps.iter().map(|step| step.kind.as_str()).collect();
        assert_eq!(kinds, ["agent", "agent", "agent", "branch", "gate", "wait", "agent"]);
    }

    proptest! {
        #[test]
        fn every_value_is_read_back_as_it_was(any in any::<String>(), signs in "[ -~]{0,12}", word in "[a-zA-Z.,' 0-9_-]{0,8}") {
            for text in [any, signs, word] {
                let document = super::super::yaml::parse(&format!("key: {}\n", format_yaml_scalar(&text))).unwrap();
                let NodeContent::Map(entries) = document.content else { panic!("{text:?}") };
                prop_assert_eq!(&entries[0].value.content, &NodeContent::Text(text));
            }
        }
    }
}
