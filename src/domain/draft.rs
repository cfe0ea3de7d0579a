//! A definition file as it was parsed, with the place of everything in it. A draft may be wrong in any way; only
//! [`super::check`] makes a definition of it.

use serde::de::DeserializeOwned;

use super::{
    body::BodyKind,
    finding::{Finding, Place, Rule},
    grammar::{self, MappingKey, MappingShape, ValueShape},
    node::{DocumentNode, LocatedValue, join_path},
};

/// Which of the two ways of writing a workflow a file uses. They differ in their words, and in what
/// a step waits for when it does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkflowFormat {
    /// Markdown with front matter: `name`, `phases`, `phase`, `dependsOn`.
    Phases,
    /// A YAML or JSON manifest: `workflow`, `steps`, `id`, `depends_on`.
    Manifest,
}

impl WorkflowFormat {
    /// The keys of the workflow.
    pub fn workflow_shape(self) -> &'static MappingShape {
        match self {
            Self::Phases => &grammar::FRONT_MATTER_SHAPE,
            Self::Manifest => &grammar::MANIFEST_SHAPE,
        }
    }

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
    pub fn step_noun(self) -> &'static str {
        match self {
            Self::Phases => "phase",
            Self::Manifest => "step",
        }
    }
}

/// A workflow as a file has it.
#[derive(Clone, Debug)]
pub struct WorkflowDraft {
    /// How it is written.
    pub form: WorkflowFormat,
    /// The front matter or the manifest.
    pub document: DocumentNode,
    /// The keys of its record that it has, with their values; but for the steps, which follow.
    pub fields: Vec<RawField>,
    /// Its steps, if they are a list, those of `on_failure` last; items that are no mappings are left out.
    pub steps: Option<Vec<StepDraft>>,
    /// The hooks of the workflow.
    pub hooks: Vec<(BodyKind, StepDraft)>,
    /// The instructions that the sections of a Markdown body give to steps.
    pub sections: Vec<StepSection>,
    /// The other headings of the body.
    pub headings: Vec<MarkdownHeading>,
    /// The Markdown body, or the manifest's text.
    pub content: String,
}

/// A step as a file has it.
#[derive(Clone, Debug)]
pub struct StepDraft {
    /// Its path: `steps[2]`.
    pub path: String,
    /// Where it begins.
    pub place: Place,
    /// The id, if that is a text.
    pub id: Option<LocatedValue<String>>,
    /// The ids of the steps it depends on, if it states any.
    pub depends_on: Option<Vec<LocatedValue<String>>>,
    /// The keys of its record that it has, with their values.
    pub fields: Vec<RawField>,
    /// The body of a `foreach`, which is done for each item.
    pub foreach_body: Option<Box<Self>>,
    /// Its hooks, and what takes its effect back.
    pub bodies: Vec<(BodyKind, Self)>,
    /// Whether it is a step of the workflow's `on_failure`.
    pub is_failure_step: bool,
    /// Whether it is a hook or a compensation.
    pub is_hook_or_compensation: bool,
}

/// A key of a mapping with its value, unchecked.
#[derive(Clone, Debug)]
pub struct RawField {
    /// The key.
    pub key: &'static MappingKey,
    /// The path of the value.
    pub path: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub value: DocumentNode,
}

/// A section `## step: ID` of a Markdown file.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSection {
    /// The id in its heading.
    pub step: LocatedValue<String>,
    /// What stands below the heading.
    pub text: LocatedValue<String>,
}

/// A heading of a Markdown file that is no `## step: ID`.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkdownHeading {
    /// Its words.
    pub title: String,
    /// The lines as they are written.
    pub source: LocatedValue<String>,
    /// Whether a section takes it in.
    pub is_inside: bool,
}

/// An agent as a file has it.
#[derive(Clone, Debug)]
pub struct PersonaDraft {
    /// The front matter.
    pub front_matter: DocumentNode,
    /// The persona itself.
    pub content: LocatedValue<String>,
}

impl WorkflowDraft {
    /// The draft of `document`, written in this form; `content` becomes the text of the workflow.
    pub fn new(form: WorkflowFormat, document: DocumentNode, content: String) -> Self {
        let mut steps = read_steps(form, &document, form.steps_key());
        if let Some(steps) = &mut steps {
            let failure_steps = read_steps(form, &document, ON_FAILURE_KEY).unwrap_or_default();
            steps.extend(
                failure_steps.into_iter().map(|step| StepDraft { is_failure_step: true, ..step }),
            );
        }
        let fields = read_fields(form.workflow_shape(), &document, "");
        let hooks = fields.iter().find(|field| field.key.name == HOOKS_KEY);
        Self {
            form,
            hooks: hooks.map(|field| read_hooks(field, form)).unwrap_or_default(),
            fields,
            document,
            steps,
            sections: Vec::new(),
            headings: Vec::new(),
            content,
        }
    }

    /// The field with this key.
    pub fn field(&self, key: &str) -> Option<&RawField> {
        self.fields.iter().find(|field| field.key.name == key)
    }

    /// The names of the workflows of children, and of those that an expression may choose.
    pub fn child_workflow_names(&self) -> impl Iterator<Item = LocatedValue<String>> {
        let steps = self.steps.iter().flatten();
        let bodies = steps.flat_map(StepDraft::all_bodies_and_hooks);
        let hooks = self.hooks.iter().map(|(_, hook)| hook);
        let fields = bodies.chain(hooks);
        fields.flat_map(|step| {
            let fields = [CHILD_KEY, ALLOW_KEY].into_iter().filter_map(|key| step.find_field(key));
            fields.flat_map(RawField::value_texts)
        })
    }
}

/// The key of a step that begins a child.
const CHILD_KEY: &str = "workflow";
/// The key of the workflows that may be chosen as a child.
const ALLOW_KEY: &str = "allow";
/// The key of the steps that run once the execution is failing.
const ON_FAILURE_KEY: &str = "on_failure";
/// The key of hooks.
const HOOKS_KEY: &str = "hooks";
/// The key of what takes an effect back.
const COMPENSATE_KEY: &str = "compensate";

/// The list of steps under `key`.
fn read_steps(form: WorkflowFormat, document: &DocumentNode, key: &str) -> Option<Vec<StepDraft>> {
    let ValueShape::Steps(record) = form.workflow_shape().find_key(key)?.shape else {
        return None;
    };
    let items = document.get(key)?.items()?.iter().enumerate();
    let step = |(at, node): (usize, &DocumentNode)| {
        StepDraft::from_node(record, node, format!("{key}[{at}]"), form)
    };
    Some(items.filter_map(step).collect())
}

/// The hooks under a key.
fn read_hooks(field: &RawField, form: WorkflowFormat) -> Vec<(BodyKind, StepDraft)> {
    let hook = |body: BodyKind| {
        let path = format!("{}.{}", field.path, body.as_str());
        let node = field.value.get(body.as_str())?;
        let draft = StepDraft::from_node(&grammar::HOOK_SHAPE, node, path, form)?;
        Some((body, draft.mark_as_hook()))
    };
    let kinds = [BodyKind::OnSuccess, BodyKind::OnFailure, BodyKind::OnComplete];
    kinds.into_iter().filter_map(hook).collect()
}

impl StepDraft {
    fn mark_as_hook(self) -> Self {
        Self { is_hook_or_compensation: true, ..self }
    }

    fn from_node(
        record: &MappingShape,
        node: &DocumentNode,
        path: String,
        form: WorkflowFormat,
    ) -> Option<Self> {
        node.entries()?;
        let fields = read_fields(record, node, &path);
        let get = |key: &str| fields.iter().find(|field| field.key.name == key);
        let depends_on = get(form.depends_on_key()).or_else(|| get("dependsOn"));
        let foreach_body = get("foreach").and_then(|foreach| {
            let path = format!("{}.do", foreach.path);
            Self::from_node(record, foreach.value.get("do")?, path, form)
        });
        let compensation = get(COMPENSATE_KEY).and_then(|field| {
            let path = field.path.clone();
            let draft = Self::from_node(&grammar::COMPENSATION_SHAPE, &field.value, path, form)?;
            Some((BodyKind::Compensation, draft.mark_as_hook()))
        });
        let bodies = get(HOOKS_KEY).map(|field| read_hooks(field, form));
        let bodies = bodies.into_iter().flatten().chain(compensation).collect();
        Some(Self {
            bodies,
            is_failure_step: false,
            is_hook_or_compensation: false,
            place: node.place,
            id: get(form.id_key()).and_then(|field| field.value.located_text(&field.path)),
            depends_on: depends_on.map(RawField::value_texts),
            foreach_body: foreach_body.map(Box::new),
            fields,
            path,
        })
    }

    /// The field with this key.
    pub fn find_field(&self, key: &str) -> Option<&RawField> {
        self.fields.iter().find(|field| field.key.name == key)
    }

    /// The value under this key.
    pub fn value(&self, key: &str) -> Option<&DocumentNode> {
        self.find_field(key).map(|field| &field.value)
    }

    /// The value under this key as a `T`, where it is one.
    pub fn read_value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.value(key)?.deserialize_as()
    }

    /// The fields that make it a step of a kind, in the order of the file: exactly one in a valid step.
    pub fn kind_fields(&self) -> impl Iterator<Item = &RawField> {
        self.fields.iter().filter(|field| grammar::is_step_kind(field.key.name))
    }

    /// The step, and the body of a `foreach`.
    pub fn step_and_foreach_body(&self) -> impl Iterator<Item = &Self> {
        [self].into_iter().chain(self.foreach_body.as_deref())
    }

    /// The same, with their hooks and compensations.
    pub fn all_bodies_and_hooks(&self) -> impl Iterator<Item = &Self> {
        let bodies = self.step_and_foreach_body().flat_map(|step| &step.bodies);
        self.step_and_foreach_body().chain(bodies.map(|(_, draft)| draft))
    }
}

impl RawField {
    /// A finding about the key.
    pub fn key_finding(&self, rule: Rule, message: impl Into<String>) -> Finding {
        Finding::new(rule, &self.path, self.place, message)
    }

    /// A finding about the value.
    pub fn value_finding(&self, rule: Rule, message: impl Into<String>) -> Finding {
        self.value.new_finding(rule, &self.path, message)
    }

    /// The value as a list of texts: a text alone is one.
    fn value_texts(&self) -> Vec<LocatedValue<String>> {
        let single = self.value.located_text(&self.path);
        let items = self.value.items().unwrap_or_default().iter().enumerate();
        let items =
            items.filter_map(|(at, item)| item.located_text(&format!("{}[{at}]", self.path)));
        single.into_iter().chain(items).collect()
    }
}

/// The entries of `node` whose keys `record` defines, in the order of the file. A repeated key has its first entry.
/// Lists of steps are left out, because each step has its own fields.
fn read_fields(record: &MappingShape, node: &DocumentNode, path: &str) -> Vec<RawField> {
    let mut fields: Vec<RawField> = Vec::new();
    for entry in node.entries().unwrap_or_default() {
        let key = record.find_key(&entry.key);
        let Some(key) = key.filter(|key| !matches!(key.shape, ValueShape::Steps(_))) else {
            continue;
        };
        if fields.iter().all(|field| field.key.name != key.name) {
            fields.push(RawField {
                key,
                path: join_path(path, key.name),
                place: entry.place,
                value: entry.value.clone(),
            });
        }
    }
    fields
}
