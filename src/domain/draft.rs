//! What a definition file says, with the place of everything it says. A draft may be wrong in any
//! way; only [`super::check`] makes something of it that may be run.

use serde_json::{Map, Value};

use super::{
    finding::Place,
    input::draft::InputDraft,
    node::{At, Node},
};

/// What a file says about one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field<T> {
    /// Nothing.
    #[default]
    Absent,
    /// Something of the wrong type: there is a finding about it already.
    Broken,
    /// A value.
    Given(At<T>),
}

impl<T> Field<T> {
    /// The value, where there is one.
    pub fn given(&self) -> Option<&At<T>> {
        match self {
            Self::Given(at) => Some(at),
            Self::Absent | Self::Broken => None,
        }
    }
}

/// Which of the two ways of writing a workflow a file uses. They differ in their words, and in what
/// a step waits for when it does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Markdown with front matter: `name`, `phases`, `phase`, `dependsOn`.
    Phases,
    /// A YAML or JSON manifest: `workflow`, `steps`, `id`, `depends_on`.
    Manifest,
}

impl StepDraft {
    /// What is said under this key.
    pub fn said(&self, key: &str) -> Option<&Said> {
        self.said.iter().find(|said| said.key == key)
    }
}

impl Form {
    /// The key of the workflow's name.
    pub fn name_key(self) -> &'static str {
        match self {
            Self::Phases => "name",
            Self::Manifest => "workflow",
        }
    }

    /// The key of the list of steps.
    pub fn steps_key(self) -> &'static str {
        match self {
            Self::Phases => "phases",
            Self::Manifest => "steps",
        }
    }

    /// The key of a step's id.
    pub fn id_key(self) -> &'static str {
        match self {
            Self::Phases => "phase",
            Self::Manifest => "id",
        }
    }

    /// The key of what a step waits for.
    pub fn depends_on_key(self) -> &'static str {
        match self {
            Self::Phases => "dependsOn",
            Self::Manifest => "depends_on",
        }
    }

    /// What one step is called.
    pub fn step_word(self) -> &'static str {
        match self {
            Self::Phases => "phase",
            Self::Manifest => "step",
        }
    }
}

/// What a file says about a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowDraft {
    /// How it is written.
    pub form: Form,
    /// Where the document begins: the place of what is missing.
    pub place: Place,
    /// The name.
    pub name: Field<String>,
    /// The title.
    pub title: Field<String>,
    /// What it is for.
    pub description: Field<String>,
    /// The author's version.
    pub version: Field<String>,
    /// Words to find it by.
    pub tags: Field<Vec<At<String>>>,
    /// How much care it asks for.
    pub complexity: Field<String>,
    /// What it is to be told at its start.
    pub inputs: Field<Vec<InputDraft>>,
    /// The steps.
    pub steps: Field<Vec<StepDraft>>,
    /// What else a manifest says: the keys of [`super::grammar::WORKFLOW`].
    pub said: Vec<Said>,
    /// The instructions that the sections of a Markdown body give to steps.
    pub sections: Vec<Section>,
    /// The Markdown body, or the manifest's text.
    pub content: String,
}

/// What a file says about one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDraft {
    /// Its path: `steps[2]`.
    pub path: String,
    /// Where it begins.
    pub place: Place,
    /// The id.
    pub id: Field<String>,
    /// Every kind key it has, also those that midex cannot act on yet.
    pub kinds: Vec<At<String>>,
    /// Whose persona, where it is an agent's step.
    pub agent: Field<String>,
    /// What it does.
    pub description: Field<String>,
    /// What it waits for.
    pub depends_on: Field<Vec<At<String>>>,
    /// Whether others may run beside it.
    pub allow_parallel: Field<bool>,
    /// What else a step of a manifest says: the keys of [`super::grammar`], kinds other than `agent` and fields.
    pub said: Vec<Said>,
    /// What is done with each item, where it is a `foreach`.
    pub each: Option<Box<Self>>,
}

/// One key of a manifest with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The key.
    pub key: &'static str,
    /// The path of the value.
    pub path: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub value: Node,
}

/// A section `## step: ID` of a Markdown file.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The id in its heading.
    pub step: At<String>,
    /// What stands below the heading.
    pub text: At<String>,
}

/// What a file says about an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonaDraft {
    /// Where the document begins.
    pub place: Place,
    /// The name.
    pub name: Field<String>,
    /// What it is for.
    pub description: Field<String>,
    /// Words to find it by.
    pub tags: Field<Vec<At<String>>>,
    /// The author's version.
    pub version: Field<String>,
    /// The persona itself.
    pub content: At<String>,
    /// The keys that midex does not use.
    pub extra: Map<String, Value>,
}
