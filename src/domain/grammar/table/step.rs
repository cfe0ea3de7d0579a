//! The keys of steps and of phases: who acts in a step, and the fields around that, each with the kinds that act on it.

use super::{
    END_TARGET, Id, Key, ON_ERROR, Record, Role, Shape,
    beside::{COMPENSATION, EFFECTS, HOOKS},
    bodies::{
        ARM, CONTRACT, EXTRACT, FAIL, FOREACH, GATE, INPUT, NAME, OFFERED_BRANCH_SHAPE, PAGINATE,
        REPEAT, RETRY, TEXT, WAIT,
    },
    field_key, key, kind, planned_key, record, required_key,
};
use crate::limits;

/// The values of `run_when`.
const RUN_WHEN: &[&str] = &["succeeded", "finished", "failed"];

/// The values of `losers`.
const LOSERS: &[&str] = &["finish", "cancel"];

/// The kinds whose output a model produces freely; they may declare an `example`.
const MODEL: &[&str] = &["agent", "guidance", "tool"];
const INSTRUCTED_KINDS: &[&str] = &["agent", "guidance", "tool", "input", "extract"];
const WORK_KINDS: &[&str] = &["agent", "guidance", "tool", "run", "activity", "workflow"];
const RETRYABLE_KINDS: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "workflow",
];
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
    shape: Shape,
    what: &'static str,
    kinds: &'static [&'static str],
    instead: &'static str,
) -> Key {
    let instead = Some(instead);
    Key {
        role: Role::Field { kinds, instead },
        ..key(name, shape, what)
    }
}

/// A key that is refused in the body of a `foreach`.
const fn forbid_in_foreach(key: Key, why: &'static str) -> Key {
    Key {
        not_each: Some(why),
        ..key
    }
}

/// Advice for a key that belongs to the `foreach` step itself.
const FOREACH_STEP_ADVICE: &str = "say it of the `foreach` itself";
const DEPENDS_ON: Key = forbid_in_foreach(
    key(
        "depends_on",
        Shape::Ids,
        "The steps that must be done before; without it that is the step above, and [] is none",
    ),
    FOREACH_STEP_ADVICE,
);
const STEP_DESCRIPTION: Key = key(
    "description",
    Shape::FreeText(limits::DESCRIPTION_BYTES_MAX),
    "What the step does, in a sentence",
);
const ESCALATION_ADVICE: &str =
    "give the step a `timeout`, and an `on_error` that leads to a step for a person";

/// A step of a manifest.
pub static STEP: Record = record(
    "a step",
    &[
        forbid_in_foreach(
            required_key("id", Shape::Id(Id::Step), "The id of the step"),
            "it is known by the id of the `foreach`",
        ),
        STEP_DESCRIPTION,
        DEPENDS_ON,
        // The spelling of front matter.
        Key {
            name: "dependsOn",
            ..DEPENDS_ON
        },
        kind(
            "agent",
            Shape::Id(Id::Agent),
            "The agent whose persona the model takes for this step",
        ),
        kind("guidance", TEXT, "What the model is told to do"),
        kind(
            "tool",
            NAME,
            "The tool of its client that the model calls, bringing the result back",
        ),
        kind(
            "input",
            Shape::Record(&INPUT),
            "The user is asked for inputs that are missing",
        ),
        kind(
            "extract",
            Shape::Record(&EXTRACT),
            "The model takes inputs out of free text",
        ),
        kind(
            "run",
            Shape::Operation,
            "The HTTP operation that the server calls: a catalog and an operation of it",
        ),
        kind(
            "activity",
            NAME,
            "The activity of its own process that the server runs",
        ),
        forbid_in_foreach(
            kind(
                "branch",
                Shape::List(&Shape::Record(&ARM), 1, limits::BRANCH_ARMS_MAX),
                "The first arm that holds says what is next",
            ),
            "say `if` in `do`, or branch after the `foreach`: an item leads nowhere",
        ),
        forbid_in_foreach(
            kind(
                "foreach",
                Shape::Record(&FOREACH),
                "One step for each item of a list; the output is the list of theirs",
            ),
            "make one list of all items in a step before, and go through that",
        ),
        kind(
            "gate",
            Shape::TextOr(&GATE),
            "A person approves; a text alone is what is asked",
        ),
        kind(
            "wait",
            Shape::Record(&WAIT),
            "Time passes, or something happens elsewhere",
        ),
        kind("set", Shape::Memory(1), "Memory is written"),
        kind("fail", Shape::Record(&FAIL), "The execution ends as failed"),
        kind(
            "workflow",
            Shape::Id(Id::Workflow),
            "The workflow that runs as a child of the execution",
        ),
        field_key(
            "instructions",
            Shape::Template(limits::STEP_TEXT_BYTES_MAX),
            "What the step asks for beyond that; in a Markdown file also the section `## step: ID`",
            INSTRUCTED_KINDS,
        ),
        field_key(
            "result",
            Shape::Schema,
            "JSON Schema of the output; without it the output of an agent is an object with a summary",
            WORK_KINDS,
        ),
        field_key(
            "example",
            Shape::Data,
            "An output that would be accepted, to show",
            MODEL,
        ),
        field_key(
            "output_contract",
            Shape::Record(&CONTRACT),
            "What is known of the output: for readers, not enforced",
            WORK_KINDS,
        ),
        field_key("with", Shape::Values, "What the step works on", WORK_KINDS),
        field_key("body", Shape::Value, "The body of the request", &["run"]),
        field_key(
            "paginate",
            Shape::Record(&PAGINATE),
            "The pages of a list are gathered into one",
            &["run"],
        ),
        field_key(
            "idempotent",
            Shape::Flag,
            "Whether doing it twice is doing it once",
            EFFECTS,
        ),
        field_key(
            "if",
            Shape::Condition,
            "The step is skipped where this does not hold",
            ALL_STEP_KINDS,
        ),
        field_key("when", Shape::Condition, "The same as `if`", ALL_STEP_KINDS),
        field_key(
            "retry",
            Shape::Record(&RETRY),
            "Attempts after a failure, or at a valid output",
            RETRYABLE_KINDS,
        ),
        field_key_with_advice(
            "timeout",
            Shape::Span,
            "How long one attempt of the server may take, or how long the step may stay open",
            TIMEOUT_KINDS,
            "a gate has `expires`",
        ),
        field_key_with_advice(
            "repeat",
            Shape::Record(&REPEAT),
            "Doing it again until something holds",
            EFFECTS,
            "a branch that leads back repeats any step",
        ),
        field_key(
            "optional",
            Shape::Flag,
            "Its failure is recorded and passed",
            FALLIBLE_KINDS,
        ),
        field_key(
            "on_error",
            Shape::Target(ON_ERROR),
            "What follows its failure: fail, continue or a step",
            FALLIBLE_KINDS,
        ),
        forbid_in_foreach(
            field_key(
                "run_when",
                Shape::Choice(RUN_WHEN),
                "Which ends of the steps before let it run",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key_with_advice(
                "next",
                Shape::Target(&[END_TARGET]),
                "What follows it instead of what depends on it",
                CONTINUING_KINDS,
                "each arm of a branch has its own, and nothing follows `fail`",
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "max_visits",
                Shape::Count(1, limits::VISITS_MAX),
                "How often it may be entered; the workflow's limit without it",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key_with_advice(
                "hooks",
                Shape::Record(&HOOKS),
                "What the server does at the end of the step, before anything follows",
                CONTINUING_KINDS,
                "a branch only chooses: write the hooks at the steps around it",
            ),
            FOREACH_STEP_ADVICE,
        ),
        field_key_with_advice(
            "compensate",
            Shape::Record(&COMPENSATION),
            "What takes the effect of the step back where the execution fails",
            CONTINUING_KINDS,
            "there is nothing to take back",
        ),
        forbid_in_foreach(
            field_key(
                "join",
                Shape::Join,
                "How many of the steps before must be done: all, any or quorum(N)",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "losers",
                Shape::Choice(LOSERS),
                "What becomes of the steps that `join` does not wait for: finish or cancel; finish without it",
                ALL_STEP_KINDS,
            ),
            FOREACH_STEP_ADVICE,
        ),
        forbid_in_foreach(
            field_key(
                "branches",
                Shape::Branches(&OFFERED_BRANCH_SHAPE),
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
pub static PHASE: Record = record(
    "a phase",
    &[
        required_key("phase", Shape::Id(Id::Step), "The id of the phase"),
        required_key(
            "agent",
            Shape::Id(Id::Agent),
            "The agent whose persona the model takes for this step",
        ),
        STEP_DESCRIPTION,
        key(
            "dependsOn",
            Shape::Ids,
            "The phases that must be done before; once one phase says so, those that do not are ready from the start",
        ),
        key(
            "allowParallel",
            Shape::Flag,
            "Whether others may be open beside it; false is accepted where the order sees to that",
        ),
    ],
);

/// Pairs of fields that have the same or contrary meanings: a step may have only one of each pair.
pub const EXCLUSIVE_FIELD_PAIRS: &[(&str, &str)] = &[("if", "when"), ("optional", "on_error")];
