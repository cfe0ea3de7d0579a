//! The table itself: every mapping of a definition file, from its top down to the bodies of kinds.

mod beside;
mod bodies;
mod step;

pub use self::{
    beside::{COMPENSATION, HOOK},
    bodies::ARM,
    step::{EXCLUSIVE_FIELD_PAIRS, PHASE, STEP},
};
#[cfg(test)]
pub(super) use self::{
    bodies::{FOREACH, REPEAT, RETRY},
    step::ALL_STEP_KINDS,
};
use super::{Id, Key, Record, Role, Shape};
use crate::{
    input::{DefaultFrom, InputType, ON_MISSING_VALUES},
    limits,
};

const fn key(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        name,
        shape,
        required: false,
        unless: None,
        beside: None,
        what,
        unbuilt: None,
        not_each: None,
        role: Role::Plain,
    }
}

const fn required_key(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        required: true,
        ..key(name, shape, what)
    }
}

const fn kind(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        role: Role::Kind,
        ..key(name, shape, what)
    }
}

/// A key that has an effect on steps of these kinds.
const fn field_key(
    name: &'static str,
    shape: Shape,
    what: &'static str,
    kinds: &'static [&'static str],
) -> Key {
    let instead = None;
    Key {
        role: Role::Field { kinds, instead },
        ..key(name, shape, what)
    }
}

/// A reserved key that is refused until it is implemented; `instead` is the alternative until then.
const fn planned_key(name: &'static str, instead: &'static str) -> Key {
    Key {
        unbuilt: Some(instead),
        ..key(name, Shape::Planned, "")
    }
}

const fn record(what: &'static str, keys: &'static [Key]) -> Record {
    Record {
        what,
        keys,
        exactly_one: false,
        is_open: false,
    }
}

/// A key that has an effect only together with `extends`.
const fn heir_key(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        beside: Some(EXTENDS),
        ..key(name, shape, what)
    }
}

/// The key that names the base of a manifest.
pub const EXTENDS: &str = "extends";
/// The key with the steps that an heir inserts into those of its base.
pub const INSERT: &str = "insert";
/// The key with the steps of the base that an heir removes.
pub const REMOVE: &str = "remove";
/// The key for the steps of a manifest.
pub const STEPS: &str = "steps";
/// The keys for the place of an insertion: before or after a step of the base.
pub const INSERT_AT: [&str; 2] = ["before", "after"];

/// The key for the warnings that the author of a manifest accepts.
pub const ACCEPT: &str = "accept";
/// The warnings that an author may accept.
const ACCEPTABLE_WARNINGS: &[&str] = &["mutation_without_gate"];

/// The target that means the end of the execution, where a step id is expected.
pub const END_TARGET: &str = "$end";
/// The values of `on_error` other than step ids.
pub const ON_ERROR: &[&str] = &["fail", "continue"];
/// The default name of the item of a `foreach`.
pub const FOREACH_ALIAS_DEFAULT: &str = "item";

/// The values of `complexity`.
const COMPLEXITY: &[&str] = &["simple", "moderate", "high"];

/// The values of `compensate_when`.
const COMPENSATE_WHEN: &[&str] = &["failed", "abandoned"];

const NO_EFFECT_ADVICE: &str = "leave it out: nothing would act on it";

/// `limits:` of a workflow.
pub(super) static LIMITS: Record = record(
    "`limits`",
    &[
        key(
            "max_steps",
            Shape::Count(1, limits::EXECUTION_VISITS_MAX),
            "How many visits all steps may have together",
        ),
        key(
            "max_visits",
            Shape::Count(1, limits::VISITS_MAX),
            "How often a step may be entered where it does not say itself; 100 without it",
        ),
    ],
);

const INPUT_VALUES: Key = key(
    "enum",
    Shape::List(&Shape::NotNull, 0, limits::INPUT_ENUM_MAX),
    "The values that it may have",
);

/// `validate:` of an input.
pub static VALIDATE: Record = record(
    "`validate`",
    &[
        key(
            "required",
            Shape::Flag,
            "Inputs are required unless they say `optional: true`; this may say so again",
        ),
        INPUT_VALUES,
        key(
            "pattern",
            Shape::FreeText(limits::INPUT_PATTERN_BYTES_MAX),
            "A regular expression that is found in it; anchored only where it says so",
        ),
        key("min_length", Shape::Whole, "The fewest characters"),
        key("max_length", Shape::Whole, "The most characters"),
        key("min", Shape::Number, "The least number"),
        key("max", Shape::Number, "The greatest number"),
    ],
);

/// `default:` of an input.
pub static DEFAULT: Record = record(
    "`default`",
    &[
        required_key(
            "from",
            Shape::Choice(DefaultFrom::NAMES),
            "Where the value comes from: from here, from an environment variable that the server lets in, from the execution before, from the output of another workflow",
        ),
        key(
            "value",
            Shape::NotNull,
            "The value, the name of the environment variable, or the workflow whose output it is",
        ),
    ],
);

const fn input_words(name: &'static str, what: &'static str) -> Key {
    key(name, Shape::FreeText(limits::DESCRIPTION_BYTES_MAX), what)
}

/// `select:` of an input.
static SELECT: Record = record(
    "`select`",
    &[
        key("value_field", FIELD, "The field that becomes the value"),
        key("display_field", FIELD, "The field that a person reads"),
        key("id_field", FIELD, "The field that tells two objects apart"),
    ],
);
const FIELD: Shape = Shape::Text(limits::WORD_BYTES_MAX);

/// The binding of a provider argument.
static BINDING: Record = record(
    "a binding of a provider's argument",
    &[
        required_key(
            "from_input",
            Shape::Id(Id::Input),
            "The input that it comes from",
        ),
        planned_key(
            "from_step",
            "write `from_input`: inputs are chosen before any step is done",
        ),
        key(
            "path",
            Shape::Text(limits::EXPRESSION_BYTES_MAX),
            "Where in that input's value it stands: `owner.id`",
        ),
        key(
            "required",
            Shape::Flag,
            "Whether the provider cannot do without it",
        ),
        key(
            "on_missing",
            Shape::Choice(ON_MISSING_VALUES),
            "What happens where it has no value: somebody is asked, it is left out, or it is an error. Without it an error where `required`, else somebody is asked",
        ),
    ],
);

/// An input that a workflow declares.
pub static DECLARED_INPUT_SHAPE: Record = record(
    "an input",
    &[
        input_words("name", "What people call it"),
        input_words("description", "What it is, in a sentence"),
        key(
            "type",
            Shape::Choice(InputType::NAMES),
            "The type of its value; without it that is not looked at",
        ),
        INPUT_VALUES,
        key(
            "validate",
            Shape::Record(&VALIDATE),
            "What else its value must satisfy",
        ),
        key(
            "optional",
            Shape::Flag,
            "Whether it may be left out although it has no default: it is null then",
        ),
        key(
            "default",
            Shape::Record(&DEFAULT),
            "Where its value comes from when it is not given",
        ),
        input_words("placeholder", "What an empty field shows"),
        input_words("hint", "A word of help"),
        key("example", Shape::NotNull, "What a value may look like"),
        key(
            "provider",
            Shape::Operation,
            "The operation that lists the choices: a catalog and an operation of it",
        ),
        key(
            "provider_args",
            Shape::Bindings(&BINDING),
            "What the provider is given, by argument; expressions in it read other inputs",
        ),
        key(
            "select",
            Shape::Record(&SELECT),
            "Which fields of what the provider lists count",
        ),
        planned_key("mode", NO_EFFECT_ADVICE),
        planned_key("join", NO_EFFECT_ADVICE),
        planned_key("cache_ttl_sec", NO_EFFECT_ADVICE),
        planned_key("on_error", NO_EFFECT_ADVICE),
        key(
            "depends_on",
            Shape::Bindings(&BINDING),
            "The same for arguments that `provider_args` does not name. Which inputs the choices depend on is known without it",
        ),
    ],
);

const DESCRIPTION: Key = key(
    "description",
    Shape::Text(limits::DESCRIPTION_BYTES_MAX),
    "What it is for, in a sentence",
);
const TAGS: Key = key(
    "tags",
    Shape::List(&Shape::Text(limits::TAG_BYTES_MAX), 0, limits::TAGS_MAX),
    "Words to find it by",
);
const VERSION: Key = key(
    "version",
    Shape::Version,
    "The author's version: any text, or a number as it is written",
);
const METADATA: Key = key(
    "metadata",
    Shape::Scalars(limits::METADATA_ENTRIES_MAX),
    "What else people want to know of it, such as `author` and `created_at`: kept and shown, and nothing acts on it",
);
const COMPLEXITY_KEY: Key = key(
    "complexity",
    Shape::Choice(COMPLEXITY),
    "How much care the workflow asks for",
);
const WORKFLOW_NAME: &str = "The name that the workflow is started by";

/// A catalog under `requires:`.
pub(super) static CATALOG: Record = record(
    "a catalog of `requires`",
    &[
        required_key(
            "vendor",
            Shape::Text(limits::WORD_BYTES_MAX),
            "Whose operations they are",
        ),
        key(
            "title",
            Shape::Text(limits::WORD_BYTES_MAX),
            "What the catalog is called, where the vendor has several",
        ),
        key(
            "source",
            Shape::Text(limits::DESCRIPTION_BYTES_MAX),
            "Where its document is: a path or a URL",
        ),
        key(
            "source_type",
            Shape::Choice(&["path", "url"]),
            "Which of both that is",
        ),
        key(
            "version",
            Shape::Version,
            "The version that the author had; nothing compares it",
        ),
    ],
);

/// `requires:` of a workflow.
pub(super) static REQUIRES: Record = record(
    "`requires`",
    &[key(
        "catalogs",
        Shape::List(&Shape::Record(&CATALOG), 0, limits::CATALOGS_MAX),
        "The catalogs whose operations its steps call",
    )],
);

/// An item of `insert`.
pub static INSERT_ITEM_SHAPE: Record = record(
    "an item of `insert`",
    &[
        key(
            INSERT_AT[0],
            Shape::Id(Id::Step),
            "The step of the base that they come before in the list",
        ),
        key(
            INSERT_AT[1],
            Shape::Id(Id::Step),
            "The step of the base that they come after in the list",
        ),
        required_key(
            STEPS,
            Shape::Steps(&STEP),
            "The steps, whose ids the base has not",
        ),
    ],
);

const INPUTS: Key = key(
    "inputs",
    Shape::Inputs(&DECLARED_INPUT_SHAPE),
    "What the workflow is to be told at its start, in this order; without this key any object is taken, and {} takes nothing",
);

/// A workflow in YAML or JSON. Without a description it is valid, with a warning.
pub static MANIFEST: Record = record(
    "a workflow manifest",
    &[
        required_key("workflow", Shape::Id(Id::Workflow), WORKFLOW_NAME),
        key(
            "title",
            Shape::FreeText(limits::DESCRIPTION_BYTES_MAX),
            "A title for people",
        ),
        DESCRIPTION,
        VERSION,
        TAGS,
        COMPLEXITY_KEY,
        METADATA,
        INPUTS,
        Key {
            unless: Some(EXTENDS),
            ..required_key(
                STEPS,
                Shape::Steps(&STEP),
                "The steps, in the order in which they are shown; beside `extends` those that replace the steps of the same ids",
            )
        },
        key(
            "memory",
            Shape::Memory(0),
            "What memory holds at the start; may refer to inputs",
        ),
        key(
            "final_output",
            Shape::Value,
            "What a completed execution comes to",
        ),
        key(
            "timeout",
            Shape::Span,
            "How long an execution may run, pauses not counted",
        ),
        key("limits", Shape::Record(&LIMITS), "How much it may do"),
        key(
            ACCEPT,
            Shape::List(
                &Shape::Choice(ACCEPTABLE_WARNINGS),
                0,
                ACCEPTABLE_WARNINGS.len(),
            ),
            "The warnings that its author has thought about and accepts",
        ),
        key(
            "on_failure",
            Shape::Steps(&STEP),
            "Steps that run once the execution is failing, before it has failed",
        ),
        key(
            "hooks",
            Shape::Record(&beside::HOOKS),
            "What the server does at the end of the execution, before its final state",
        ),
        key(
            "compensate_when",
            Shape::List(&Shape::Choice(COMPENSATE_WHEN), 0, 2),
            "At which ends `compensate` of steps takes their effects back: failed, abandoned; failed alone without it",
        ),
        key(
            "requires",
            Shape::Record(&REQUIRES),
            "What it needs of the server that runs it",
        ),
        planned_key("expose", NO_EFFECT_ADVICE),
        key(
            EXTENDS,
            Shape::Id(Id::Workflow),
            "The workflow whose keys count wherever this file has not its own",
        ),
        heir_key(
            INSERT,
            Shape::List(&Shape::Record(&INSERT_ITEM_SHAPE), 1, limits::STEPS_MAX),
            "Steps that stand among those of the workflow that it extends",
        ),
        heir_key(
            REMOVE,
            Shape::List(&Shape::Id(Id::Step), 1, limits::STEPS_MAX),
            "The ids of steps of the workflow that it extends, which are left out",
        ),
    ],
);

/// The front matter of a workflow in Markdown.
pub static FRONT_MATTER: Record = record(
    "the front matter of a workflow",
    &[
        required_key("name", Shape::Id(Id::Workflow), WORKFLOW_NAME),
        Key {
            required: true,
            ..DESCRIPTION
        },
        TAGS,
        COMPLEXITY_KEY,
        METADATA,
        INPUTS,
        required_key(
            "phases",
            Shape::Steps(&PHASE),
            "The phases, in the order in which they are shown",
        ),
    ],
);

/// The front matter of an agent that is written for a host. Other keys have no effect.
pub static HOST_PERSONA: Record = Record {
    is_open: true,
    ..record(
        "the front matter of an agent",
        &[
            required_key("name", Shape::Id(Id::Agent), AGENT_NAME),
            Key {
                required: true,
                shape: Shape::Text(limits::HOST_DESCRIPTION_BYTES_MAX),
                ..DESCRIPTION
            },
        ],
    )
};

const AGENT_NAME: &str = "The name that steps refer to the agent by";

/// The front matter of an agent. Further keys are allowed.
pub static PERSONA: Record = Record {
    is_open: true,
    ..record(
        "the front matter of an agent",
        &[
            required_key("name", Shape::Id(Id::Agent), AGENT_NAME),
            Key {
                required: true,
                ..DESCRIPTION
            },
            TAGS,
            VERSION,
        ],
    )
};
