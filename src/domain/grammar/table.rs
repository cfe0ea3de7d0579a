//! The table itself: every mapping of a definition file, from its top down to the bodies of kinds.

mod bodies;
mod hooks;
mod step;

pub use self::{
    bodies::BRANCH_ARM_SHAPE,
    hooks::{COMPENSATION_SHAPE, HOOK_SHAPE},
    step::{EXCLUSIVE_FIELD_PAIRS, PHASE_SHAPE, STEP_SHAPE},
};
#[cfg(test)]
pub(super) use self::{
    bodies::{FOREACH_SHAPE, REPEAT_SHAPE, RETRY_SHAPE},
    step::ALL_STEP_KINDS,
};
use super::{IdKind, KeyRole, MappingKey, MappingShape, ValueShape};
use crate::{
    input::{DefaultFrom, InputType, ON_MISSING_VALUES},
    limits,
};

const fn optional_key(
    name: &'static str,
    shape: ValueShape,
    description: &'static str,
) -> MappingKey {
    MappingKey {
        name,
        shape,
        required: false,
        alternative_key: None,
        required_key: None,
        description,
        unbuilt_advice: None,
        foreach_advice: None,
        role: KeyRole::Plain,
    }
}

const fn required_key(
    name: &'static str,
    shape: ValueShape,
    description: &'static str,
) -> MappingKey {
    MappingKey { required: true, ..optional_key(name, shape, description) }
}

const fn kind_key(name: &'static str, shape: ValueShape, description: &'static str) -> MappingKey {
    MappingKey { role: KeyRole::Kind, ..optional_key(name, shape, description) }
}

/// A key that has an effect on steps of these kinds.
const fn field_key(
    name: &'static str,
    shape: ValueShape,
    description: &'static str,
    kinds: &'static [&'static str],
) -> MappingKey {
    let instead = None;
    MappingKey { role: KeyRole::Field { kinds, instead }, ..optional_key(name, shape, description) }
}

/// A reserved key that is refused until it is implemented; `advice` is the alternative until then.
const fn planned_key(name: &'static str, advice: &'static str) -> MappingKey {
    MappingKey { unbuilt_advice: Some(advice), ..optional_key(name, ValueShape::Planned, "") }
}

const fn new_mapping_shape(label: &'static str, keys: &'static [MappingKey]) -> MappingShape {
    MappingShape { label, keys, exactly_one: false, is_open: false }
}

/// A key that has an effect only together with `extends`.
const fn inheritable_key(name: &'static str, shape: ValueShape, what: &'static str) -> MappingKey {
    MappingKey { required_key: Some(EXTENDS_KEY), ..optional_key(name, shape, what) }
}

/// The key that names the base of a manifest.
pub const EXTENDS_KEY: &str = "extends";
/// The key with the steps that an heir inserts into those of its base.
pub const INSERT_KEY: &str = "insert";
/// The key with the steps of the base that an heir removes.
pub const REMOVE_KEY: &str = "remove";
/// The key for the steps of a manifest.
pub const STEPS_KEY: &str = "steps";
/// The keys for the place of an insertion: before or after a step of the base.
pub const INSERT_PLACE_KEYS: [&str; 2] = ["before", "after"];

/// The key for the warnings that the author of a manifest accepts.
pub const ACCEPT_KEY: &str = "accept";
/// The warnings that an author may accept.
const ACCEPTABLE_WARNINGS: &[&str] = &["mutation_without_gate"];

/// The target that ends the path that leads to it, where a step id is expected.
pub const END_TARGET: &str = "$end";
/// The target that ends the execution at once, where a step id is expected.
pub const STOP_TARGET: &str = "$stop";
/// The values of `next` other than step ids.
pub const NEXT_WORDS: &[&str] = &[END_TARGET, STOP_TARGET];
/// The values of `on_error` other than step ids.
pub const ON_ERROR_WORDS: &[&str] = &["fail", "continue"];
/// The default name of the item of a `foreach`.
pub const FOREACH_ALIAS_DEFAULT: &str = "item";

/// The values of `complexity`.
const COMPLEXITY_WORDS: &[&str] = &["simple", "moderate", "high"];

/// The values of `compensate_when`.
const COMPENSATE_WHEN_WORDS: &[&str] = &["failed", "abandoned"];

/// `limits:` of a workflow.
pub(super) static LIMITS_SHAPE: MappingShape = new_mapping_shape(
    "`limits`",
    &[
        optional_key(
            "max_steps",
            ValueShape::Count(1, limits::EXECUTION_VISITS_MAX),
            "How many visits all steps may have together",
        ),
        optional_key(
            "max_visits",
            ValueShape::Count(1, limits::VISITS_MAX),
            "How often a step may be entered where it does not say itself; 100 without it",
        ),
    ],
);

const INPUT_ENUM_KEY: MappingKey = optional_key(
    "enum",
    ValueShape::List(&ValueShape::NotNull, 0, limits::INPUT_ENUM_MAX),
    "The values that it may have",
);

/// `validate:` of an input.
pub static VALIDATE_SHAPE: MappingShape = new_mapping_shape(
    "`validate`",
    &[
        optional_key(
            "required",
            ValueShape::Flag,
            "Inputs are required unless they say `optional: true`; this may say so again",
        ),
        INPUT_ENUM_KEY,
        optional_key(
            "pattern",
            ValueShape::FreeText(limits::INPUT_PATTERN_BYTES_MAX),
            "A regular expression that is found in it; anchored only where it says so",
        ),
        optional_key("min_length", ValueShape::NonNegativeInteger, "The fewest characters"),
        optional_key("max_length", ValueShape::NonNegativeInteger, "The most characters"),
        optional_key("min", ValueShape::Number, "The least number"),
        optional_key("max", ValueShape::Number, "The greatest number"),
    ],
);

/// `default:` of an input.
pub static DEFAULT_SHAPE: MappingShape = new_mapping_shape(
    "`default`",
    &[
        required_key(
            "from",
            ValueShape::Choice(DefaultFrom::NAMES),
            "Where the value comes from: from here, from an environment variable that the server lets in, from the execution before, from the output of another workflow",
        ),
        optional_key(
            "value",
            ValueShape::NotNull,
            "The value, the name of the environment variable, or the workflow whose output it is",
        ),
    ],
);

const fn input_text_key(name: &'static str, description: &'static str) -> MappingKey {
    optional_key(name, ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX), description)
}

/// `select:` of an input.
static SELECT_SHAPE: MappingShape = new_mapping_shape(
    "`select`",
    &[
        optional_key("value_field", FIELD_NAME_SHAPE, "The field that becomes the value"),
        optional_key("display_field", FIELD_NAME_SHAPE, "The field that a person reads"),
        optional_key("id_field", FIELD_NAME_SHAPE, "The field that tells two objects apart"),
    ],
);
const FIELD_NAME_SHAPE: ValueShape = ValueShape::Text(limits::WORD_BYTES_MAX);

/// The binding of a provider argument.
static BINDING_SHAPE: MappingShape = new_mapping_shape(
    "a binding of a provider's argument",
    &[
        required_key("from_input", ValueShape::Id(IdKind::Input), "The input that it comes from"),
        planned_key("from_step", "write `from_input`: inputs are chosen before any step is done"),
        optional_key(
            "path",
            ValueShape::Text(limits::EXPRESSION_BYTES_MAX),
            "Where in that input's value it stands: `owner.id`",
        ),
        optional_key("required", ValueShape::Flag, "Whether the provider cannot do without it"),
        optional_key(
            "on_missing",
            ValueShape::Choice(ON_MISSING_VALUES),
            "What happens where it has no value: somebody is asked, it is left out, or it is an error. Without it an error where `required`, else somebody is asked",
        ),
    ],
);

/// An input that a workflow declares.
pub static DECLARED_INPUT_SHAPE: MappingShape = new_mapping_shape(
    "an input",
    &[
        input_text_key("name", "What people call it"),
        input_text_key("description", "What it is, in a sentence"),
        optional_key(
            "type",
            ValueShape::Choice(InputType::NAMES),
            "The type of its value; without it that is not looked at",
        ),
        INPUT_ENUM_KEY,
        optional_key(
            "validate",
            ValueShape::Record(&VALIDATE_SHAPE),
            "What else its value must satisfy",
        ),
        optional_key(
            "optional",
            ValueShape::Flag,
            "Whether it may be left out although it has no default: it is null then",
        ),
        optional_key(
            "default",
            ValueShape::Record(&DEFAULT_SHAPE),
            "Where its value comes from when it is not given",
        ),
        input_text_key("placeholder", "What an empty field shows"),
        input_text_key("hint", "A word of help"),
        optional_key("example", ValueShape::NotNull, "What a value may look like"),
        optional_key(
            "provider",
            ValueShape::Operation,
            "The operation that lists the choices: a catalog and an operation of it",
        ),
        optional_key(
            "provider_args",
            ValueShape::Bindings(&BINDING_SHAPE),
            "What the provider is given, by argument; expressions in it read other inputs",
        ),
        optional_key(
            "select",
            ValueShape::Record(&SELECT_SHAPE),
            "Which fields of what the provider lists count",
        ),
        planned_key("mode", "write `type: array`: then several of the choices may be taken"),
        planned_key("join", "write `${{ inputs.NAME | join(', ') }}` where one text is needed"),
        optional_key(
            "cache_ttl_sec",
            ValueShape::Count(0, limits::PROVIDER_CACHE_TTL_S_MAX),
            "How many seconds a list of choices is used again; without it the provider is called each time",
        ),
        planned_key(
            "on_error",
            "leave it out: a value can be given even if the choices are not listed",
        ),
        optional_key(
            "depends_on",
            ValueShape::Bindings(&BINDING_SHAPE),
            "The same for arguments that `provider_args` does not name. Which inputs the choices depend on is known without it",
        ),
    ],
);

const DESCRIPTION_KEY: MappingKey = optional_key(
    "description",
    ValueShape::Text(limits::DESCRIPTION_BYTES_MAX),
    "What it is for, in a sentence",
);
const TAGS_KEY: MappingKey = optional_key(
    "tags",
    ValueShape::List(&ValueShape::Text(limits::TAG_BYTES_MAX), 0, limits::TAGS_MAX),
    "Words to find it by",
);
const VERSION_KEY: MappingKey = optional_key(
    "version",
    ValueShape::Version,
    "The author's version: any text, or a number as it is written",
);
const METADATA_KEY: MappingKey = optional_key(
    "metadata",
    ValueShape::Scalars(limits::METADATA_ENTRIES_MAX),
    "What else people want to know of it, such as `author` and `created_at`: kept and shown, and nothing acts on it",
);
/// The key for the labels of executions.
pub const LABELS_KEY: &str = "labels";
const WORKFLOW_LABELS_KEY: MappingKey = optional_key(
    LABELS_KEY,
    ValueShape::Scalars(limits::LABELS_MAX),
    "What its executions are found by, beside what a start adds: `midex list executions --label NAME=VALUE`",
);
const COMPLEXITY_KEY: MappingKey = optional_key(
    "complexity",
    ValueShape::Choice(COMPLEXITY_WORDS),
    "How much care the workflow asks for",
);
const WORKFLOW_NAME_HELP: &str = "The name that the workflow is started by";

/// A catalog under `requires:`.
pub(super) static CATALOG_SHAPE: MappingShape = new_mapping_shape(
    "a catalog of `requires`",
    &[
        required_key(
            "vendor",
            ValueShape::Text(limits::WORD_BYTES_MAX),
            "Whose operations they are",
        ),
        optional_key(
            "title",
            ValueShape::Text(limits::WORD_BYTES_MAX),
            "What the catalog is called, where the vendor has several",
        ),
        optional_key(
            "source",
            ValueShape::Text(limits::DESCRIPTION_BYTES_MAX),
            "Where its document is: a path or a URL",
        ),
        optional_key("source_type", ValueShape::Choice(&["path", "url"]), "Which of both that is"),
        optional_key(
            "version",
            ValueShape::Version,
            "The version that the author had; nothing compares it",
        ),
    ],
);

/// `requires:` of a workflow.
pub(super) static REQUIRES_SHAPE: MappingShape = new_mapping_shape(
    "`requires`",
    &[optional_key(
        "catalogs",
        ValueShape::List(&ValueShape::Record(&CATALOG_SHAPE), 0, limits::CATALOGS_MAX),
        "The catalogs whose operations its steps call",
    )],
);

/// The key for what the server offers for a workflow.
pub const EXPOSE_KEY: &str = "expose";
/// The values of `pace`.
pub const PACE_WORDS: [&str; 2] = ["run", "step"];

/// `tools:` of `expose`.
static EXPOSED_TOOLS_SHAPE: MappingShape = new_mapping_shape(
    "`tools`",
    &[
        optional_key(
            "prefix",
            ValueShape::Word,
            "What the names of the tools begin with; the name of the workflow without it",
        ),
        optional_key(
            "pace",
            ValueShape::Choice(&PACE_WORDS),
            "When a call answers: `run`, once a model or a person has to act or the execution has ended; `step`, also after each step of the server",
        ),
    ],
);

/// `orchestrator:` of `expose`.
static ORCHESTRATOR_SHAPE: MappingShape = new_mapping_shape(
    "`orchestrator`",
    &[
        required_key(
            "tool_id",
            ValueShape::Name(limits::TOOL_NAME_BYTES_MAX),
            "The name of the tool",
        ),
        optional_key(
            "title",
            ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX),
            "Its title for people; that of the workflow without it",
        ),
        optional_key(
            "description",
            ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX),
            "Its description for models; that of the workflow without it",
        ),
    ],
);

/// `utilities:` of `expose`.
static UTILITIES_SHAPE: MappingShape = new_mapping_shape(
    "`utilities`",
    &[optional_key(
        "prefix",
        ValueShape::Name(limits::TOOL_NAME_BYTES_MAX),
        "What the names of the tools begin with, before a `-`; without it they have no prefix",
    )],
);

/// `expose:` of a workflow.
static EXPOSE_SHAPE: MappingShape = new_mapping_shape(
    "`expose`",
    &[
        optional_key(
            "tools",
            ValueShape::FlagOr(&EXPOSED_TOOLS_SHAPE),
            "Tools of its own: PREFIX_start, PREFIX_continue and PREFIX_status",
        ),
        optional_key(
            "orchestrator",
            ValueShape::Record(&ORCHESTRATOR_SHAPE),
            "One tool that leads a model through the workflow, with a prompt for each step",
        ),
        optional_key(
            "utilities",
            ValueShape::FlagOr(&UTILITIES_SHAPE),
            "Tools that ask the user for properties and extract them from a text, for the orchestrator",
        ),
    ],
);

/// An item of `insert`.
pub static INSERT_ITEM_SHAPE: MappingShape = new_mapping_shape(
    "an item of `insert`",
    &[
        optional_key(
            INSERT_PLACE_KEYS[0],
            ValueShape::Id(IdKind::Step),
            "The step of the base that they come before in the list",
        ),
        optional_key(
            INSERT_PLACE_KEYS[1],
            ValueShape::Id(IdKind::Step),
            "The step of the base that they come after in the list",
        ),
        required_key(
            STEPS_KEY,
            ValueShape::Steps(&STEP_SHAPE),
            "The steps, whose ids the base has not",
        ),
    ],
);

const INPUTS_KEY: MappingKey = optional_key(
    "inputs",
    ValueShape::Inputs(&DECLARED_INPUT_SHAPE),
    "What the workflow is to be told at its start, in this order; without this key any object is taken, and {} takes nothing",
);

/// A workflow in YAML or JSON. Without a description it is valid, with a warning.
pub static MANIFEST_SHAPE: MappingShape = new_mapping_shape(
    "a workflow manifest",
    &[
        required_key("workflow", ValueShape::Id(IdKind::Workflow), WORKFLOW_NAME_HELP),
        optional_key(
            "title",
            ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX),
            "A title for people",
        ),
        DESCRIPTION_KEY,
        VERSION_KEY,
        TAGS_KEY,
        COMPLEXITY_KEY,
        METADATA_KEY,
        WORKFLOW_LABELS_KEY,
        INPUTS_KEY,
        MappingKey {
            alternative_key: Some(EXTENDS_KEY),
            ..required_key(
                STEPS_KEY,
                ValueShape::Steps(&STEP_SHAPE),
                "The steps, in the order in which they are shown; beside `extends` those that replace the steps of the same ids",
            )
        },
        optional_key(
            "memory",
            ValueShape::Memory(0),
            "What memory holds at the start; may refer to inputs",
        ),
        optional_key("final_output", ValueShape::Value, "What a completed execution comes to"),
        optional_key(
            "timeout",
            ValueShape::Duration,
            "How long an execution may run, pauses not counted",
        ),
        optional_key("limits", ValueShape::Record(&LIMITS_SHAPE), "How much it may do"),
        optional_key(
            ACCEPT_KEY,
            ValueShape::List(
                &ValueShape::Choice(ACCEPTABLE_WARNINGS),
                0,
                ACCEPTABLE_WARNINGS.len(),
            ),
            "The warnings that its author has thought about and accepts",
        ),
        optional_key(
            "on_failure",
            ValueShape::Steps(&STEP_SHAPE),
            "Steps that run once the execution is failing, before it has failed",
        ),
        optional_key(
            "hooks",
            ValueShape::Record(&hooks::HOOKS_SHAPE),
            "What the server does at the end of the execution, before its final state",
        ),
        optional_key(
            "compensate_when",
            ValueShape::List(&ValueShape::Choice(COMPENSATE_WHEN_WORDS), 0, 2),
            "At which ends `compensate` of steps takes their effects back: failed, abandoned; failed alone without it",
        ),
        optional_key(
            "requires",
            ValueShape::Record(&REQUIRES_SHAPE),
            "What it needs of the server that runs it",
        ),
        optional_key(
            EXPOSE_KEY,
            ValueShape::Record(&EXPOSE_SHAPE),
            "What the server offers its clients for this workflow",
        ),
        optional_key(
            EXTENDS_KEY,
            ValueShape::Id(IdKind::Workflow),
            "The workflow whose keys count wherever this file has not its own",
        ),
        inheritable_key(
            INSERT_KEY,
            ValueShape::List(&ValueShape::Record(&INSERT_ITEM_SHAPE), 1, limits::STEPS_MAX),
            "Steps that stand among those of the workflow that it extends",
        ),
        inheritable_key(
            REMOVE_KEY,
            ValueShape::List(&ValueShape::Id(IdKind::Step), 1, limits::STEPS_MAX),
            "The ids of steps of the workflow that it extends, which are left out",
        ),
    ],
);

/// The front matter of a workflow in Markdown.
pub static FRONT_MATTER_SHAPE: MappingShape = new_mapping_shape(
    "the front matter of a workflow",
    &[
        required_key("name", ValueShape::Id(IdKind::Workflow), WORKFLOW_NAME_HELP),
        MappingKey { required: true, ..DESCRIPTION_KEY },
        TAGS_KEY,
        COMPLEXITY_KEY,
        METADATA_KEY,
        INPUTS_KEY,
        required_key(
            "phases",
            ValueShape::Steps(&PHASE_SHAPE),
            "The phases, in the order in which they are shown",
        ),
    ],
);

/// The front matter of an agent that is written for a host. Other keys have no effect.
pub static HOST_PERSONA_SHAPE: MappingShape = MappingShape {
    is_open: true,
    ..new_mapping_shape(
        "the front matter of an agent",
        &[
            required_key("name", ValueShape::Id(IdKind::Agent), AGENT_NAME_HELP),
            MappingKey {
                required: true,
                shape: ValueShape::Text(limits::HOST_DESCRIPTION_BYTES_MAX),
                ..DESCRIPTION_KEY
            },
        ],
    )
};

const AGENT_NAME_HELP: &str = "The name that steps refer to the agent by";

/// The front matter of an agent. Further keys are allowed.
pub static PERSONA_SHAPE: MappingShape = MappingShape {
    is_open: true,
    ..new_mapping_shape(
        "the front matter of an agent",
        &[
            required_key("name", ValueShape::Id(IdKind::Agent), AGENT_NAME_HELP),
            MappingKey { required: true, ..DESCRIPTION_KEY },
            TAGS_KEY,
            VERSION_KEY,
        ],
    )
};
