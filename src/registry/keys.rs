//! The keys that definition files may have: those that are read, and those that are planned. A planned
//! key is refused until something acts on it, so that no file means more than it does.

use crate::domain::nearest::did_you_mean;

/// The kind keys of a step, first the one that midex acts on.
pub(super) const KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "branch",
    "foreach", "gate", "wait", "set", "fail",
];

/// The keys of one kind of mapping.
pub(super) struct Keys {
    /// What the mapping is, for messages.
    pub(super) what: &'static str,
    /// Those that are read.
    pub(super) read: &'static [&'static str],
    /// Those that are planned and refused until they work.
    pub(super) planned: &'static [&'static str],
}

/// Of a workflow in Markdown.
pub(super) const FRONT_MATTER: Keys = Keys {
    what: "the front matter of a workflow",
    read: &["name", "description", "tags", "complexity", "phases"],
    planned: &[],
};

/// Of one of its phases.
pub(super) const PHASE: Keys = Keys {
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

/// Of a workflow in YAML or JSON.
pub(super) const MANIFEST: Keys = Keys {
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

/// Of one of its steps.
pub(super) const STEP: Keys = Keys {
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

/// Of an agent; it may have any others besides.
pub(super) const PERSONA: Keys = Keys {
    what: "the front matter of an agent",
    read: &["name", "description", "tags", "version"],
    planned: &[],
};

impl Keys {
    /// Whether the mapping has this key, now or later.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.read.contains(&key) || self.planned.contains(&key)
    }

    /// What an unknown key may have been meant to be.
    pub(super) fn hint(&self, key: &str) -> Option<String> {
        let known = self.read.iter().chain(self.planned).copied();
        did_you_mean(key, known).or_else(|| {
            (MANIFEST.knows(key) || STEP.knows(key))
                .then(|| "only manifests (`.yaml`, `.json`) have it".to_owned())
        })
    }
}
