//! One step of a workflow: its kind, the conditions under which it is entered, and the steps that follow it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    super::{
        body::BodyKind,
        id::{AgentName, StepId},
        span::HumanDuration,
    },
    policy::{InterruptPolicy, RepeatPolicy, RetryPolicy},
};

/// One step of a workflow.
///
/// Texts and values that may hold `${{ … }}` are kept as written. Every expression of a checked workflow compiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The step's id, unique within the workflow. The body of a `foreach` has the id of the `foreach`.
    pub id: StepId,
    /// A one-sentence description.
    #[serde(default)]
    pub description: String,
    /// The title of a visit, worked out when the step is entered (`title`); may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The steps that must be done before it, in authoring order.
    #[serde(default)]
    pub depends_on: Vec<StepId>,
    /// The kind of the step with its fields.
    pub kind: StepKind,
    /// Additional task text next to the persona; may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// JSON Schema of the output. Without one, an `agent` or `guidance` step must return an object with a `summary`,
    /// and the output of a tool or of the server is not validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// An example output that satisfies the schema, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// Metadata about the fields of the output. Nothing evaluates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<Value>,
    /// Condition for entering the step (`if`): the step is skipped if the expression is false.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The input of the step (`with`); may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Map<String, Value>>,
    /// JSON Schema of `with`, which the model is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// Retry policy of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// What happens to an attempt of the server that a crash cut off. `None` repeats work that is safe to repeat, and
    /// asks otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<InterruptPolicy>,
    /// Time limit: of each attempt if the server does the step, else of the whole visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    /// Loop policy (`repeat`): run the step again until a condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatPolicy>,
    /// Whether the workflow continues after a failure of the step. The failure is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The reaction to a failure of the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// The outcomes of its predecessors under which the step runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_when: RunWhen,
    /// Jump target after success, instead of the steps that depend on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<JumpTarget>,
    /// The steps that are cancelled when it completes: open visits are voided, pending steps are skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<StepId>,
    /// The most visits of the step in one execution; `None` means the limit of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
    /// The number of predecessors that the step waits for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: JoinRule,
    /// Handling of the predecessors that are still open once the join is satisfied.
    #[serde(default, skip_serializing_if = "is_default")]
    pub losers: LoserPolicy,
    /// Hooks and the compensation of the step. Each is a step of a kind that the server does without a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bodies: BTreeMap<BodyKind, Self>,
    /// For a hook: if true, its failure fails the step or the workflow that it belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Tool calls that the step offers to its client, selected by its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<BranchOffer>,
}

/// A tool call that a step offers if its output matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchOffer {
    /// The pattern as written: `key.nested:value`.
    pub pattern: String,
    /// The name of the offered tool.
    pub tool_name: String,
    /// The arguments of the call; may hold expressions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Whether the execution continues after the client chooses this branch. If false, the choice ends it as diverged.
    pub continue_workflow: bool,
}

/// The kind of a step, which determines who acts, with the fields that belong to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A model works in the role of a persona.
    Agent {
        /// The name of the agent whose persona the model takes on.
        agent: AgentName,
    },
    /// A model follows instructions without a persona.
    Guidance {
        /// The instructions; may hold expressions.
        text: String,
    },
    /// A model calls a tool of its own client and returns the result.
    Tool {
        /// The name of the tool.
        name: String,
    },
    /// The user is asked for values of inputs that are missing.
    Input {
        /// Names of the workflow's inputs.
        properties: Vec<String>,
        /// The channel through which the user is asked.
        #[serde(default)]
        via: InputChannel,
        /// Whether the user may answer in free text, from which a model then extracts the values.
        #[serde(default)]
        reextract: bool,
    },
    /// A model extracts values of inputs from free text.
    Extract {
        /// The text; may hold expressions.
        from: String,
        /// Names of the workflow's inputs.
        properties: Vec<String>,
    },
    /// The server calls an HTTP operation of a catalog.
    Run {
        /// The name of the catalog.
        catalog: String,
        /// The name of the operation.
        operation: String,
        /// The request body; may hold expressions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
        /// Whether the author declares the call idempotent; `None` if the file does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotent: Option<bool>,
        /// Pagination: the server also requests the pages that follow the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paginate: Option<PaginateOptions>,
        /// Whether the output is the whole response with status and headers, instead of its payload alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// The server runs an activity of the program that embeds midex.
    Activity {
        /// The name of the activity.
        name: String,
        /// Whether the author declares the activity idempotent; `None` if the file does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotent: Option<bool>,
    },
    /// Another workflow runs as a child execution; its final output is the output of the step.
    Workflow {
        /// The name of the workflow; may be an expression that yields one of `allow`.
        name: String,
        /// The workflows that an expression may choose; `*` stands for every one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow: Vec<String>,
    },
    /// Control goes to the target of the first arm whose condition is true.
    Branch {
        /// The arms, in order; the last one may have no condition.
        arms: Vec<BranchArm>,
    },
    /// The body runs once for each item of a list; the output is the list of the outputs, in the order of the items.
    Foreach {
        /// The list, usually an expression that yields one.
        items: Value,
        /// The name of the current item in expressions (`as`).
        alias: String,
        /// The most items that are open at the same time.
        parallel: u32,
        /// How many items must succeed for it to complete: a number, or an expression that yields one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        enough: Option<Value>,
        /// How many items may fail: a number, a share of the list such as `20%`, or an expression that yields one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tolerate: Option<Value>,
        /// The step that runs for each item.
        body: Box<Step>,
    },
    /// A person approves.
    Gate {
        /// The question that the person is asked; may hold expressions.
        ask: String,
        /// Names of the approvers. They are recorded and shown, and not enforced.
        #[serde(default)]
        approvers: Vec<String>,
        /// Time limit for the answer; `None` means that the gate never expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<HumanDuration>,
    },
    /// The step waits for a duration, an instant or a signal.
    Wait(WaitTrigger),
    /// The step writes values to the memory of the execution.
    Set {
        /// The values by name; may hold expressions.
        entries: Map<String, Value>,
    },
    /// The execution fails.
    Fail {
        /// The failure code.
        code: String,
        /// The failure message; may hold expressions.
        message: String,
    },
}

/// The entry of `allow` that allows every workflow.
pub const ANY_WORKFLOW: &str = "*";

/// The condition that ends a `wait`. Each text may hold expressions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitTrigger {
    /// A duration.
    For(String),
    /// An instant in RFC 3339 format.
    Until(String),
    /// A signal of this name, sent with `execution.signal`.
    Signal(String),
    /// The same, where the sender must give a sign of life at least this often.
    LiveSignal {
        /// The name of the signal.
        signal: String,
        /// The longest time between two signs of life.
        alive: HumanDuration,
    },
}

/// The channel through which a user is asked for inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputChannel {
    /// The client asks its user if it can (elicitation), else the model asks.
    #[default]
    Auto,
    /// Only the client asks, by elicitation.
    Elicitation,
    /// Only the model asks.
    Guidance,
}

/// One arm of a `branch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchArm {
    /// The condition of the arm; an arm without one is always taken.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The target of the arm.
    pub next: JumpTarget,
}

/// The target of a jump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JumpTarget {
    /// A step, which may be an earlier one.
    Step(StepId),
    /// The end of this path: no step follows.
    End,
    /// The end of the execution: steps that are open are voided.
    Stop,
}

impl JumpTarget {
    /// The target as a manifest names it: the id of the step, `$end` or `$stop`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Step(id) => id.as_str(),
            Self::End => "$end",
            Self::Stop => "$stop",
        }
    }
}

/// The reaction to the failure of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The execution fails.
    #[default]
    Fail,
    /// The failure is recorded and the workflow continues.
    Continue,
    /// Control goes to this step.
    Step(StepId),
}

/// The number of predecessors that a step waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinRule {
    /// The step waits until all predecessors have ended.
    #[default]
    All,
    /// The step waits until this many predecessors have ended with an outcome that `run_when` accepts.
    Quorum(u32),
    /// The same, with the number that this expression yields.
    QuorumOf(String),
}

/// Handling of the predecessors that a join did not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoserPolicy {
    /// They run to their end, which has no effect on control flow.
    #[default]
    Finish,
    /// They are cancelled: their visits are voided.
    Cancel,
}

/// The outcomes of its predecessors under which a step runs; otherwise it is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWhen {
    /// All predecessors were completed or skipped, or failed with a failure that is tolerated.
    #[default]
    Succeeded,
    /// All predecessors have ended, with any outcome.
    Finished,
    /// At least one predecessor has failed.
    Failed,
    /// The execution is failing. Steps of the workflow's `on_failure` have this value.
    Failing,
}

/// Skips a field that has its default value, so that the stored form of a definition stays short.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JoinRule {
    /// Parses `all`, `any` or `quorum(N)`, where `N` is a number above 0 or `${{ … }}`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            "any" => Some(Self::Quorum(1)),
            _ => {
                let count = text.strip_prefix("quorum(")?.strip_suffix(')')?.trim();
                if count.starts_with("${{") && count.ends_with("}}") {
                    return Some(Self::QuorumOf(count.to_owned()));
                }
                let count = count.parse().ok().filter(|count| *count > 0)?;
                Some(Self::Quorum(count))
            }
        }
    }
}

impl Step {
    /// A step of this kind with all other fields at their defaults.
    pub fn new(id: StepId, kind: StepKind) -> Self {
        Self {
            id,
            description: String::new(),
            title: None,
            depends_on: Vec::new(),
            kind,
            instructions: None,
            result: None,
            example: None,
            output_contract: None,
            condition: None,
            with: None,
            input_schema: None,
            retry: None,
            interrupted: None,
            timeout: None,
            repeat: None,
            optional: false,
            on_error: OnError::Fail,
            run_when: RunWhen::Succeeded,
            next: None,
            cancel: Vec::new(),
            max_visits: None,
            join: JoinRule::All,
            losers: LoserPolicy::Finish,
            bodies: BTreeMap::new(),
            required: false,
            branches: Vec::new(),
        }
    }

    /// The step that does the work: the body of a `foreach`, else the step itself.
    pub fn acting_step(&self) -> &Self {
        match &self.kind {
            StepKind::Foreach { body, .. } => body,
            _ => self,
        }
    }

    /// `enough` and `tolerate` of a `foreach`, as an object of those that it has; `None` if it has neither.
    pub(crate) fn declared_thresholds(&self) -> Option<Value> {
        let StepKind::Foreach { enough, tolerate, .. } = &self.kind else {
            return None;
        };
        let thresholds = [("enough", enough), ("tolerate", tolerate)].into_iter();
        let declared = thresholds.filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let declared: Map<_, _> = declared.collect();
        (!declared.is_empty()).then_some(Value::Object(declared))
    }

    /// Whether it is a gate, or does a gate for each item.
    pub fn asks_for_approval(&self) -> bool {
        matches!(self.acting_step().kind, StepKind::Gate { .. })
    }

    /// The body of a `foreach`; `None` for other kinds.
    pub fn foreach_body(&self) -> Option<&Self> {
        match &self.kind {
            StepKind::Foreach { body, .. } => Some(body),
            _ => None,
        }
    }

    /// Whether the step jumps after success (`next` or `branch`) instead of releasing its dependents.
    pub fn has_success_jump(&self) -> bool {
        self.next.is_some() || matches!(self.kind, StepKind::Branch { .. })
    }

    /// The steps that this step may jump to after success, in authoring order.
    pub fn jump_targets(&self) -> impl Iterator<Item = &StepId> {
        self.jumps().filter_map(|next| match next {
            JumpTarget::Step(id) => Some(id),
            JumpTarget::End | JumpTarget::Stop => None,
        })
    }

    /// Whether the step may end the execution with `$stop`.
    pub fn may_stop_execution(&self) -> bool {
        self.jumps().any(|next| *next == JumpTarget::Stop)
    }

    /// The jumps after success: those of the arms, then `next`.
    fn jumps(&self) -> impl Iterator<Item = &JumpTarget> {
        let arms = match &self.kind {
            StepKind::Branch { arms } => arms.as_slice(),
            _ => &[],
        };
        arms.iter().map(|arm| &arm.next).chain(self.next.as_ref())
    }

    /// The agent of the step, or of the body of a `foreach`; `None` if no agent acts.
    pub fn agent_name(&self) -> Option<&AgentName> {
        match &self.kind {
            StepKind::Agent { agent } => Some(agent),
            StepKind::Foreach { body, .. } => body.agent_name(),
            _ => None,
        }
    }

    /// The additional task text of the step, if it has any.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }
}

impl StepKind {
    /// The workflows among which an expression chooses the child; `None` if the child is named, or there is none.
    pub fn child_choices(&self) -> Option<&[String]> {
        match self {
            Self::Workflow { allow, .. } if !allow.is_empty() => Some(allow),
            _ => None,
        }
    }

    /// The manifest key of this kind.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Agent { .. } => "agent",
            Self::Guidance { .. } => "guidance",
            Self::Tool { .. } => "tool",
            Self::Input { .. } => "input",
            Self::Extract { .. } => "extract",
            Self::Run { .. } => "run",
            Self::Activity { .. } => "activity",
            Self::Workflow { .. } => "workflow",
            Self::Branch { .. } => "branch",
            Self::Foreach { .. } => "foreach",
            Self::Gate { .. } => "gate",
            Self::Wait(_) => "wait",
            Self::Set { .. } => "set",
            Self::Fail { .. } => "fail",
        }
    }

    /// The names of the inputs that the step asks for; `None` for kinds that ask for none.
    pub fn requested_inputs(&self) -> Option<&[String]> {
        match self {
            Self::Input { properties, .. } | Self::Extract { properties, .. } => Some(properties),
            _ => None,
        }
    }

    /// Whether a model hands in the output of a step of this kind.
    pub const fn is_answered_by_model(&self) -> bool {
        matches!(
            self,
            Self::Agent { .. }
                | Self::Guidance { .. }
                | Self::Tool { .. }
                | Self::Input { .. }
                | Self::Extract { .. }
        )
    }
}

/// Pagination of a `run` step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaginateOptions {
    /// The most pages to request. `None` means that a list with more than
    /// [`limits::CALL_PAGES`](crate::limits::CALL_PAGES) pages fails.
    pub max_pages: Option<u32>,
}
