//! The keys of steps and of phases: who acts in a step, and the fields around that, each with the kinds that act on it.

use super::{
    IdKind, KeyRole, MappingKey, MappingShape, NEXT_WORDS, ON_ERROR_WORDS, ValueShape,
    bodies::{
        BRANCH_ARM_SHAPE, EXTRACT_SHAPE, FAIL_SHAPE, FOREACH_SHAPE, GATE_SHAPE, INPUT_SHAPE,
        NAME_SHAPE, OFFERED_BRANCH_SHAPE, OUTPUT_CONTRACT_SHAPE, PAGINATE_SHAPE, REPEAT_SHAPE,
        RETRY_SHAPE, STEP_TEXT_SHAPE, WAIT_SHAPE,
    },
    field_key,
    hooks::{COMPENSATION_SHAPE, EFFECT_KINDS, HOOKS_SHAPE},
    kind_key, new_mapping_shape, optional_key, planned_key, required_key,
};
use crate::limits;

/// The values of `run_when`.
const RUN_WHEN_WORDS: &[&str] = &["succeeded", "finished", "failed"];

/// The values of `interrupted`.
const INTERRUPTED_WORDS: &[&str] = &["again", "fail", "ask"];

/// The values of `losers`.
const LOSERS_WORDS: &[&str] = &["finish", "cancel"];

/// The kinds whose output a model produces freely; they may declare an `example`.
const MODEL_KINDS: &[&str] = &["agent", "guidance", "tool"];
const INSTRUCTED_KINDS: &[&str] = &["agent", "guidance", "tool", "input", "extract"];
const WORK_KINDS: &[&str] = &["agent", "guidance", "tool", "run", "activity", "workflow"];
const REPEATABLE_KINDS: &[&str] = &["agent", "guidance", "tool", "run", "activity", "workflow"];
const RETRYABLE_KINDS: &[&str] =
    &["agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow"];
const OFFERING_KINDS: &[&str] = &["agent", "guidance", "tool", "input", "extract", "activity"];
const TIMEOUT_KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "foreach",
    "wait",
];
const FALLIBLE_KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "branch",
    "foreach", "gate", "wait", "set",
];
const CONTINUING_KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "foreach",
    "gate", "wait", "set",
];
pub(in super::super) const ALL_STEP_KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow", "branch",
    "foreach", "gate", "wait", "set", "fail",
];

/// A field with advice for the kinds on which it has no effect.
const fn field_key_with_advice(
    name: &'static str,
    shape: ValueShape,
    description: &'static str,
    kinds: &'static [&'static str],
    advice: &'static str,
) -> MappingKey {
    let instead = Some(advice);
    MappingKey { role: KeyRole::Field { kinds, instead }, ..optional_key(name, shape, description) }
}

/// A key that is refused in the body of a `foreach`.
const fn forbid_in_foreach(key: MappingKey, advice: &'static str) -> MappingKey {
    MappingKey { foreach_advice: Some(advice), ..key }
}

/// Advice for a key that belongs to the `foreach` step itself.
const FOREACH_STEP_ADVICE: &str = "say it of the `foreach` itself";
const DEPENDS_ON_KEY: MappingKey = forbid_in_foreach(
    optional_key(
        "depends_on",
        ValueShape::Ids,
        "The steps that must be done before; without it that is the step above, and [] is none",
    ),
    FOREACH_STEP_ADVICE,
);
const STEP_DESCRIPTION_KEY: MappingKey = optional_key(
    "description",
    ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX),
    "What the step does, in a sentence",
);
const ESCALATION_ADVICE: &str =
    "give the step a `timeout`, and an `on_error` that leads to a step for a person";

/// A step of a manifest.
pub static STEP_SHAPE: MappingShape = new_mapping_shape(
    "a step",
    &[
        forbid_in_foreach(
            required_key("id", ValueShape::Id(IdKind::Step), "The id of the step"),
            "it is known by the id of the `foreach`",
        ),
        STEP_DESCRIPTION_KEY,
        optional_key(
            "title",
            ValueShape::Template(limits::DESCRIPTION_BYTES_MAX),
            "What the step is called where it is shown; worked out when it is entered",
        ),
        DEPENDS_ON_KEY,
        // The spelling of front matter.
        MappingKey { name: "dependsOn", ..DEPENDS_ON_KEY },
        kind_key(
            "agent",
            ValueShape::Id(IdKind::Agent),
            "The agent whose persona the model takes for this step",
        ),
        kind_key("guidance", STEP_TEXT_SHAPE, "What the model is told to do"),
        kind_key(
            "tool",
            NAME_SHAPE,
            "The tool of its client that the model calls, bringing the result back",
        ),
        kind_key(
            "input",
            ValueShape::Record(&INPUT_SHAPE),
            "The user is asked for inputs that are missing",
        ),
        kind_key(
            "extract",
            ValueShape::Record(&EXTRACT_SHAPE),
            "The model takes inputs out of free text",
        ),
        kind_key(
            "run",
            ValueShape::Operation,
            "The HTTP operation that the server calls: a catalog and an operation of it",
        ),
        kind_key("activity", NAME_SHAPE, "The activity of its own process that the server runs"),
        forbid_in_foreach(
            kind_key(
                "branch",
                ValueShape::List(
                    &ValueShape::Record(&BRANCH_ARM_SHAPE),
                    1,
                    limits::BRANCH_ARMS_MAX,
                ),
                "The first arm that holds says what is next",
            ),
            "say `if` in `do`, or branch after the `foreach`: an item leads nowhere",
        ),
        forbid_in_foreach(
            kind_key(
                "foreach",
                ValueShape::Record(&FOREACH_SHAPE),
                "One step for each item of a list; the output is the list of theirs",
            ),
            "make one list of all items in a step before, and go through that",
        ),
        kind_key(
            "gate",
            ValueShape::TextOr(&GATE_SHAPE),
            "A person approves; a text alone is what is asked",
        ),
        kind_key(
            "wait",
            ValueShape::Record(&WAIT_SHAPE),
            "Time passes, or something happens elsewhere",
        ),
        kind_key("set", ValueShape::Memory(1), "Memory is written"),
        kind_key("fail", ValueShape::Record(&FAIL_SHAPE), "The execution ends as failed"),
        kind_key(
            "workflow",
            ValueShape::IdOrTemplate(IdKind::Workflow),
            "The workflow that runs as a child of the execution; `${{ … }}` chooses one that `allow` names",
        ),
        field_key(
            "allow",
            ValueShape::List(
                &ValueShape::Name(limits::WORKFLOW_NAME_BYTES_MAX),
                1,
                limits::CHILD_CHOICES_MAX,
            ),
            "The workflows that `workflow: ${{ … }}` may choose; `*` allows every one",
            &["workflow"],
        ),
        field_key(
            "instructions",
            ValueShape::Template(limits::STEP_TEXT_BYTES_MAX),
            "What the step asks for beyond that; in a Markdown file also the section `## step: ID`",
            INSTRUCTED_KINDS,
        ),
        field_key(
            "result",
            ValueShape::Schema,
            "JSON Schema of the output; without it the output of an agent is an object with a summary",
            WORK_KINDS,
        ),
        field_key(
            "example",
            ValueShape::Data,
            "An output that would be accepted, to show",
            MODEL_KINDS,
        ),
        field_key(
            "output_contract",
            ValueShape::Record(&OUTPUT_CONTRACT_SHAPE),
            "What is known of the output: for readers, not enforced",
            WORK_KINDS,
        ),
        field_key("with", ValueShape::ValuesOrTemplate, "What the step works on", WORK_KINDS),
        field_key(
            "input_schema",
            ValueShape::Schema,
            "JSON Schema of `with`, which the model is shown",
            &["guidance", "tool"],
        ),
        field_key("body", ValueShape::Value, "The body of the request", &["run"]),
        field_key(
            "paginate",
            ValueShape::Record(&PAGINATE_SHAPE),
            "The pages of a list are gathered into one",
            &["run"],
        ),
        field_key(
            "idempotent",
            ValueShape::Flag,
            "Whether doing it twice is doing it once",
            EFFECT_KINDS,
        ),
        field_key(
            "if",
            ValueShape::Condition,
            "The step is skipped where this does not hold",
            ALL_STEP_KINDS,
        ),
        field_key("when", ValueShape::Condition, "The same as `if`", ALL_STEP_KINDS),
        field_key(
            "retry",
            ValueShape::Record(&RETRY_SHAPE),
            "Attempts after a failure, or at a valid output",
            RETRYABLE_KINDS,
        ),
        field_key(
            "interrupted",
            ValueShape::Choice(INTERRUPTED_WORDS),
            "What becomes of an attempt that a crash cut off: again, fail or ask; without it again where that is safe, else ask",
            EFFECT_KINDS,
        ),
        field_key_with_advice(
            "timeout",
            ValueShape::Duration,
            "How long one attempt of the server may take, or how long the step may stay open",
            TIMEOUT_KINDS,
            "a gate has `expires`",
        ),
        field_key_with_advice(
            "repeat",
            ValueShape::Record(&REPEAT_SHAPE),
            "Doing it again until something holds",
            REPEATABLE_KINDS,
            "a branch that leads back repeats any step",
        ),
        field_key(
            "optional",
            ValueShape::Flag,
            "Its failure is recorded and passed",
            FALLIBLE_KINDS,
        ),
        field_key(
            "on_error",
            ValueShape::Target(ON_ERROR_WORDS),
            "What follows its failure: fail, continue or a step",
            FALLIBLE_KINDS,
        ),
        forbid_in_foreach(
            field_key(
                "run_when",
                ValueShape::Choice(RUN_WHEN_WORDS),
                "Which ends of the steps before let it run",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key_with_advice(
                "next",
                ValueShape::Target(NEXT_WORDS),
                "What follows it instead of what depends on it: a step, $end for nothing, $stop for the end of all",
                CONTINUING_KINDS,
                "each arm of a branch has its own, and nothing follows `fail`",
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key_with_advice(
                "cancel",
                ValueShape::List(&ValueShape::Id(IdKind::Step), 1, limits::DEPENDENCIES_MAX),
                "The steps that are cancelled when it completes, if they have not ended",
                CONTINUING_KINDS,
                "cancel in the step that an arm leads to",
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "max_visits",
                ValueShape::Count(1, limits::VISITS_MAX),
                "How often it may be entered; the workflow's limit without it",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key_with_advice(
                "hooks",
                ValueShape::Record(&HOOKS_SHAPE),
                "What the server does at the end of the step, before anything follows",
                CONTINUING_KINDS,
                "a branch only chooses: write the hooks at the steps around it",
            ),
            FOREACH_STEP_ADVICE,
        ),
        field_key_with_advice(
            "compensate",
            ValueShape::Record(&COMPENSATION_SHAPE),
            "What takes the effect of the step back where the execution fails",
            CONTINUING_KINDS,
            "there is nothing to take back",
        ),
        forbid_in_foreach(
            field_key(
                "join",
                ValueShape::Join,
                "How many of the steps before must be done: all, any or quorum(N)",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "losers",
                ValueShape::Choice(LOSERS_WORDS),
                "What becomes of the steps that `join` does not wait for: finish or cancel; finish without it",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "branches",
                ValueShape::Branches(&OFFERED_BRANCH_SHAPE),
                "What the client may call next where the output matches: patterns `key.nested:value`, each with a tool",
                OFFERING_KINDS,
            ),
            "an item leads nowhere: offer it in a step after the `foreach`",
        ),
        planned_key("stall_after", ESCALATION_ADVICE),
        planned_key("escalate", ESCALATION_ADVICE),
    ],
);

/// A phase of a workflow in front matter.
pub static PHASE_SHAPE: MappingShape = new_mapping_shape(
    "a phase",
    &[
        required_key("phase", ValueShape::Id(IdKind::Step), "The id of the phase"),
        required_key(
            "agent",
            ValueShape::Id(IdKind::Agent),
            "The agent whose persona the model takes for this step",
        ),
        STEP_DESCRIPTION_KEY,
        optional_key(
            "dependsOn",
            ValueShape::Ids,
            "The phases that must be done before; once one phase says so, those that do not are ready from the start",
        ),
        optional_key(
            "allowParallel",
            ValueShape::Flag,
            "Whether others may be open beside it; false is accepted where the order sees to that",
        ),
    ],
);

/// Pairs of fields that have the same or contrary meanings: a step may have only one of each pair.
pub const EXCLUSIVE_FIELD_PAIRS: &[(&str, &str)] = &[("if", "when"), ("optional", "on_error")];
