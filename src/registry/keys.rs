//! The keys that definition files may have: those that are read, and those that are planned. A planned
//! key is refused until something acts on it, so that no file means more than it does.

use crate::domain::nearest::did_you_mean;

/// The kind keys of a step, those that are planned among them.
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
        "inputs",
        "steps",
        "memory",
        "final_output",
        "timeout",
        "limits",
    ],
    planned: &["on_failure", "requires", "expose", "extends"],
};

/// Of one of its steps.
pub(super) const STEP: Keys = Keys {
    what: "a step",
    read: &[
        "id",
        "description",
        "depends_on",
        "dependsOn",
        "agent",
        "guidance",
        "tool",
        "input",
        "extract",
        "run",
        "activity",
        "branch",
        "foreach",
        "gate",
        "wait",
        "set",
        "fail",
        "instructions",
        "result",
        "example",
        "output_contract",
        "with",
        "body",
        "idempotent",
        "if",
        "when",
        "retry",
        "timeout",
        "repeat",
        "optional",
        "on_error",
        "run_when",
        "next",
        "max_visits",
    ],
    planned: &[
        "workflow",
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

    /// What to write instead of an unknown key.
    pub(super) fn hint(&self, key: &str) -> Option<String> {
        let known = self.read.iter().chain(self.planned).copied();
        did_you_mean(key, known).or_else(|| {
            let beside = [FRONT_MATTER.what, PHASE.what].contains(&self.what);
            (beside && (MANIFEST.knows(key) || STEP.knows(key)))
                .then(|| "only manifests (`.yaml`, `.json`) have it".to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::grammar;

    #[test]
    fn every_key_of_the_grammar_is_read_and_no_other() {
        let of = |keys: &[&'static str], first: &[&'static str], grammar: Vec<&'static str>| {
            let expected: Vec<_> = first.iter().copied().chain(grammar).collect();
            assert_eq!(keys, expected);
        };
        let kinds = grammar::KINDS.iter().map(|kind| kind.key.name);
        let fields = grammar::FIELDS.iter().map(|field| field.key.name);
        of(
            STEP.read,
            &["id", "description", "depends_on", "dependsOn"],
            kinds.clone().chain(fields).collect(),
        );
        let workflow = grammar::WORKFLOW.iter().map(|key| key.name).collect();
        of(MANIFEST.read, &MANIFEST.read[..8], workflow);
        // What a foreign word leads to is known where it stands.
        let records = [
            &grammar::INPUT,
            &grammar::EXTRACT,
            &grammar::ARM,
            &grammar::FOREACH,
            &grammar::GATE,
            &grammar::WAIT,
            &grammar::FAIL,
            &grammar::RETRY,
            &grammar::REPEAT,
            &grammar::LIMITS,
        ];
        let keys = [&MANIFEST, &STEP, &PHASE, &super::super::inputs::INPUT];
        let keys = keys.iter().chain(&[&super::super::inputs::VALIDATE]);
        for (place, key) in grammar::foreign::targets() {
            let known = keys
                .clone()
                .any(|keys| keys.what == place && keys.knows(key));
            let said = |record: &&&grammar::Record| record.what == place;
            let mut said = records.iter().filter(said).flat_map(|record| record.keys);
            assert!(known || said.any(|said| said.name == key), "{place}: {key}");
        }
        for kind in KINDS {
            assert!(
                STEP.planned.contains(kind) != kinds.clone().any(|known| known == *kind),
                "{kind}"
            );
        }
    }
}
