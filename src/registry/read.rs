//! From a tree to a draft: which keys there are, what type each has, and what to say of the others.
//! Whether the values make sense is for [`crate::domain::check`] to say.

use std::collections::HashMap;

use crate::domain::{
    draft::{Field, Form, PersonaDraft, StepDraft, WorkflowDraft},
    finding::{Finding, Rule},
    nearest::did_you_mean,
    node::{At, Content, Entry, Node},
};

/// The kind keys of a step, first the one that midex acts on.
const KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "branch",
    "foreach", "gate", "wait", "set", "fail",
];

/// The keys of one kind of mapping.
struct Keys {
    /// What the mapping is, for messages.
    what: &'static str,
    /// Those that are read.
    read: &'static [&'static str],
    /// Those that are planned and refused until they work.
    planned: &'static [&'static str],
}

const FRONT_MATTER: Keys = Keys {
    what: "the front matter of a workflow",
    read: &["name", "description", "tags", "complexity", "phases"],
    planned: &[],
};

const PHASE: Keys = Keys {
    what: "a phase",
    read: &[
        "phase",
        "agent",
        "description",
        "dependsOn",
        "allowParallel",
    ],
    planned: &[],
};

const MANIFEST: Keys = Keys {
    what: "a workflow manifest",
    read: &[
        "workflow",
        "title",
        "description",
        "version",
        "tags",
        "complexity",
        "steps",
    ],
    planned: &[
        "inputs",
        "memory",
        "final_output",
        "on_failure",
        "requires",
        "timeout",
        "limits",
        "expose",
        "extends",
    ],
};

const STEP: Keys = Keys {
    what: "a step",
    read: &[
        "id",
        "agent",
        "description",
        "instructions",
        "depends_on",
        "dependsOn",
        "result",
    ],
    planned: &[
        "guidance",
        "tool",
        "input",
        "extract",
        "run",
        "activity",
        "workflow",
        "branch",
        "foreach",
        "gate",
        "wait",
        "set",
        "fail",
        "example",
        "body",
        "idempotent",
        "if",
        "when",
        "with",
        "output_contract",
        "retry",
        "timeout",
        "repeat",
        "optional",
        "on_error",
        "run_when",
        "next",
        "max_visits",
        "hooks",
        "join",
        "stall_after",
        "escalate",
        "compensate",
        "branches",
    ],
};

const PERSONA: Keys = Keys {
    what: "the front matter of an agent",
    read: &["name", "description", "tags", "version"],
    planned: &[],
};

/// What the front matter and the body of a Markdown file say about a workflow.
pub(super) fn front_matter(front: &Node, body: &str) -> (WorkflowDraft, Vec<Finding>) {
    workflow(Form::Phases, &FRONT_MATTER, front, body)
}

/// What a manifest says about a workflow.
pub(super) fn manifest(document: &Node, text: &str) -> (WorkflowDraft, Vec<Finding>) {
    workflow(Form::Manifest, &MANIFEST, document, text)
}

/// What the front matter and the body of a Markdown file say about an agent.
pub(super) fn persona(front: &Node, body: At<String>) -> (PersonaDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let mut map = Mapping::new(found, front, "", &PERSONA);
    let draft = PersonaDraft {
        place: front.place,
        name: map.take(found, "name", text),
        description: map.take(found, "description", text),
        tags: map.take(found, "tags", texts),
        version: map.take(found, "version", scalar),
        content: body,
        extra: map
            .entries
            .iter()
            .map(|entry| (entry.key.clone(), entry.value.to_json()))
            .collect(),
    };
    (draft, findings)
}

fn workflow(
    form: Form,
    keys: &'static Keys,
    document: &Node,
    content: &str,
) -> (WorkflowDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let mut map = Mapping::new(found, document, "", keys);
    let draft = WorkflowDraft {
        form,
        place: document.place,
        name: map.take(found, form.name_key(), text),
        title: map.take(found, "title", text),
        description: map.take(found, "description", text),
        version: map.take(found, "version", scalar),
        tags: map.take(found, "tags", texts),
        complexity: map.take(found, "complexity", text),
        steps: map.take(found, form.steps_key(), |found, node, path| {
            steps(found, node, path, form)
        }),
        content: content.to_owned(),
    };
    map.refuse_rest(found);
    (draft, findings)
}

fn steps(found: &mut Vec<Finding>, node: &Node, path: &str, form: Form) -> Option<Vec<StepDraft>> {
    let Content::List(items) = &node.content else {
        found.push(wrong_type(node, path, "a list"));
        return None;
    };
    let steps = items.iter().enumerate().map(|(at, item)| {
        let path = format!("{path}[{at}]");
        step(found, item, &path, form)
    });
    Some(steps.collect())
}

fn step(found: &mut Vec<Finding>, node: &Node, path: &str, form: Form) -> StepDraft {
    let keys = match form {
        Form::Phases => &PHASE,
        Form::Manifest => &STEP,
    };
    let mut map = Mapping::new(found, node, path, keys);
    let kinds = map.kinds();
    let depends_on = map.take(found, form.depends_on_key(), text_or_texts);
    let draft = StepDraft {
        place: node.place,
        id: map.take(found, form.id_key(), text),
        kinds,
        agent: map.take(found, "agent", text),
        description: map.take(found, "description", text),
        instructions: map.take(found, "instructions", text),
        depends_on: match depends_on {
            // A manifest may also use the other form's spelling; with both, that one is a duplicate.
            Field::Absent => map.take(found, "dependsOn", text_or_texts),
            said => said,
        },
        allow_parallel: map.take(found, "allowParallel", boolean),
        result: map.take(found, "result", |_, node, _| Some(node.clone())),
        path: path.to_owned(),
    };
    map.refuse_rest(found);
    draft
}

/// A mapping that is being read: its entries are taken one by one, and what stays is refused.
struct Mapping<'a> {
    path: &'a str,
    keys: &'static Keys,
    entries: Vec<&'a Entry>,
    /// The node is no mapping, which has been said: nothing in it is missing.
    broken: bool,
}

impl<'a> Mapping<'a> {
    fn new(found: &mut Vec<Finding>, node: &'a Node, path: &'a str, keys: &'static Keys) -> Self {
        let mut entries: Vec<&Entry> = Vec::new();
        let broken = if let Content::Map(all) = &node.content {
            let mut first: HashMap<&str, usize> = HashMap::new();
            for entry in all {
                if let Some(line) = first.get(entry.key.as_str()) {
                    found.push(twice(entry, path, *line));
                } else {
                    first.insert(&entry.key, entry.place.line);
                    entries.push(entry);
                }
            }
            false
        } else {
            found.push(wrong_type(node, path, "a mapping"));
            true
        };
        Self {
            path,
            keys,
            entries,
            broken,
        }
    }

    /// Takes the value of `key`, if it is one of the mapping's keys and there.
    fn take<T>(
        &mut self,
        found: &mut Vec<Finding>,
        key: &str,
        read: impl FnOnce(&mut Vec<Finding>, &Node, &str) -> Option<T>,
    ) -> Field<T> {
        if self.broken {
            return Field::Broken;
        }
        let position = self.entries.iter().position(|entry| entry.key == key);
        let Some(position) = position.filter(|_| self.keys.read.contains(&key)) else {
            return Field::Absent;
        };
        let node = &self.entries.remove(position).value;
        let path = join(self.path, key);
        match read(found, node, &path) {
            None => Field::Broken,
            Some(value) => Field::Given(At {
                value,
                path,
                place: node.place,
            }),
        }
    }

    /// The kind keys that are there, in the order of the file.
    fn kinds(&self) -> Vec<At<String>> {
        self.entries
            .iter()
            .filter(|entry| KINDS.contains(&entry.key.as_str()) && self.keys.knows(&entry.key))
            .map(|entry| At {
                value: entry.key.clone(),
                path: join(self.path, &entry.key),
                place: entry.place,
            })
            .collect()
    }

    /// A finding for every entry that was not taken.
    fn refuse_rest(self, found: &mut Vec<Finding>) {
        for entry in self.entries {
            let (key, path) = (entry.key.as_str(), join(self.path, &entry.key));
            let finding = if self.keys.planned.contains(&key) {
                let message = format!("`{key}` is not supported yet");
                Finding::new(Rule::NotSupportedYet, path, entry.place, message)
                    .suggest("remove it: nothing would act on it".to_owned())
            } else if self.keys.read.contains(&key) {
                let message = format!("`{key}` says again what another key says");
                Finding::new(Rule::DuplicateKey, path, entry.place, message)
            } else {
                let message = format!("{} has no key `{key}`", self.keys.what);
                Finding::new(Rule::UnknownKey, path, entry.place, message)
                    .suggest(self.keys.hint(key))
            };
            found.push(finding);
        }
    }
}

impl Keys {
    fn knows(&self, key: &str) -> bool {
        self.read.contains(&key) || self.planned.contains(&key)
    }

    fn hint(&self, key: &str) -> Option<String> {
        let known = self.read.iter().chain(self.planned).copied();
        did_you_mean(key, known).or_else(|| {
            (MANIFEST.knows(key) || STEP.knows(key))
                .then(|| "only manifests (`.yaml`, `.json`) have it".to_owned())
        })
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn twice(entry: &Entry, path: &str, first_line: usize) -> Finding {
    let message = format!("`{}` stands twice: first on line {first_line}", entry.key);
    Finding::new(
        Rule::DuplicateKey,
        join(path, &entry.key),
        entry.place,
        message,
    )
}

fn wrong_type(node: &Node, path: &str, expected: &str) -> Finding {
    let what = path.rsplit('.').next().unwrap_or(path);
    let what = if what.is_empty() {
        "the document".to_owned()
    } else {
        format!("`{what}`")
    };
    let message = format!("{what} must be {expected}, this is {}", node.kind());
    let hint = match &node.content {
        Content::Number(_, written) if expected == "a text" => Some(format!("write \"{written}\"")),
        Content::Bool(value) if expected == "a text" => Some(format!("write \"{value}\"")),
        Content::Text(text) if expected.starts_with("a list") => Some(format!("write [{text}]")),
        _ => None,
    };
    Finding::new(Rule::WrongType, path, node.place, message)
        .expected(expected, node.kind())
        .suggest(hint)
}

fn text(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<String> {
    if let Content::Text(text) = &node.content {
        return Some(text.clone());
    }
    found.push(wrong_type(node, path, "a text"));
    None
}

/// A text, or a number as it was written: `version: 1.10`.
fn scalar(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<String> {
    match &node.content {
        Content::Number(_, written) => Some(written.clone()),
        _ => text(found, node, path),
    }
}

fn boolean(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<bool> {
    if let Content::Bool(value) = node.content {
        return Some(value);
    }
    found.push(wrong_type(node, path, "`true` or `false`"));
    None
}

/// The texts of a list. One that is no text is a finding, and the others stay.
fn texts(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<At<String>>> {
    let Content::List(items) = &node.content else {
        found.push(wrong_type(node, path, "a list of texts"));
        return None;
    };
    let texts = items.iter().enumerate().filter_map(|(at, item)| {
        let path = format!("{path}[{at}]");
        text(found, item, &path).map(|value| At {
            value,
            path,
            place: item.place,
        })
    });
    Some(texts.collect())
}

fn text_or_texts(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<At<String>>> {
    match &node.content {
        Content::Text(value) => Some(vec![At {
            value: value.clone(),
            path: path.to_owned(),
            place: node.place,
        }]),
        _ => texts(found, node, path),
    }
}
