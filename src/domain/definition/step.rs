//! One step of a workflow: who acts in it and how, when it is entered, and what follows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::{
    body::Body,
    id::{AgentName, StepId},
    span::Span,
};

/// One step of a workflow.
///
/// Texts and values that may hold `${{ … }}` are kept as they were written; a checked workflow's can all be compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its id, distinct within the workflow. What a `foreach` does has the id of the `foreach`.
    pub id: StepId,
    /// What it does, in a sentence.
    #[serde(default)]
    pub description: String,
    /// The steps that must be done before it, in authoring order.
    #[serde(default)]
    pub depends_on: Vec<StepId>,
    /// Who acts and how.
    pub kind: StepKind,
    /// What it asks for beyond the persona; may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// JSON Schema of the output; where none is declared, an object with a `summary` for an agent, anything for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// An output that would be accepted, to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// What is known of the output's fields: metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<Value>,
    /// The step is skipped where this expression does not hold.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// What the step works on; may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Map<String, Value>>,
    /// Attempts after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long one attempt of a server's step may take, and how long any other may stay open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Doing it again until something holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// Its failure is recorded and passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What follows its failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// Which ends of the steps before let it run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_when: RunWhen,
    /// What follows it instead of what depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// How often it may be entered; the workflow's limit where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
    /// How many of the steps before it are waited for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: Join,
    /// What becomes of the others once those are done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub losers: Losers,
    /// Its hooks, and what takes back its effect: each a step of a kind that the server does itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bodies: BTreeMap<Body, Self>,
    /// Of a hook: whether its failure is that of what it belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What it offers its client to do next, by its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
}

/// A call that a step offers where its output matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// `key.nested:value`, as it was written.
    pub pattern: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments; may hold expressions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Whether the workflow goes on where it is chosen.
    pub continue_workflow: bool,
}

/// Who acts in a step, and what on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The model takes a persona and works.
    Agent {
        /// Whose persona.
        agent: AgentName,
    },
    /// The model is told directly what to do.
    Guidance {
        /// What; may hold expressions.
        text: String,
    },
    /// The model calls a tool of its client's and brings the result back.
    Tool {
        /// The tool.
        name: String,
    },
    /// The user is asked for what is missing.
    Input {
        /// Names of the workflow's inputs.
        properties: Vec<String>,
        /// How.
        #[serde(default)]
        via: Via,
        /// Whether free text goes through extraction.
        #[serde(default)]
        reextract: bool,
    },
    /// The model takes values of inputs out of free text.
    Extract {
        /// The text; may hold expressions.
        from: String,
        /// Names of the workflow's inputs.
        properties: Vec<String>,
    },
    /// The server calls an HTTP operation.
    Run {
        /// The catalog.
        catalog: String,
        /// The operation.
        operation: String,
        /// The body; may hold expressions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
        /// Whether the author says that doing it twice is doing it once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotent: Option<bool>,
        /// How many further pages of a list are asked for, where they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paginate: Option<Paginate>,
        /// Whether the output is all that came back, status and headers too, and not its payload alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// The server runs an activity of its own process.
    Activity {
        /// Which.
        name: String,
        /// Whether the author says that doing it twice is doing it once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotent: Option<bool>,
    },
    /// Another workflow runs as a child of the execution; what it comes to is the output.
    Workflow {
        /// Its name.
        name: String,
    },
    /// The first arm that holds says what is next.
    Branch {
        /// The arms, in order; the last one may have no condition.
        arms: Vec<Arm>,
    },
    /// One step for each item of a list; the output is the list of theirs, in order.
    Foreach {
        /// The list: an expression.
        items: Value,
        /// What an item is called in expressions.
        alias: String,
        /// How many items are open at once.
        parallel: u32,
        /// What is done with each.
        body: Box<Step>,
    },
    /// A person approves.
    Gate {
        /// What is asked; may hold expressions.
        ask: String,
        /// Who may answer: names, for the record.
        #[serde(default)]
        approvers: Vec<String>,
        /// How long an answer is waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Span>,
    },
    /// Time passes, or something happens elsewhere.
    Wait(Wait),
    /// Memory is written.
    Set {
        /// Names with values; may hold expressions.
        entries: Map<String, Value>,
    },
    /// The execution fails.
    Fail {
        /// A stable name.
        code: String,
        /// Why; may hold expressions.
        message: String,
    },
}

/// What a `wait` waits for. Texts may hold expressions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A duration.
    For(String),
    /// An instant: RFC 3339.
    Until(String),
    /// `execution.signal` with this name.
    Signal(String),
}

/// How a user is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// By the client where it can, else by the model.
    #[default]
    Auto,
    /// By the client alone.
    Elicitation,
    /// By the model.
    Guidance,
}

/// One way a branch may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// It is taken where this holds; always where there is none.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Where it leads.
    pub next: Next,
}

/// Where control goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// To a step, maybe back.
    Step(StepId),
    /// To the end: nothing follows here.
    End,
}

/// What follows the failure of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The execution fails.
    #[default]
    Fail,
    /// It is recorded and passed.
    Continue,
    /// Control goes to this step.
    Step(StepId),
}

/// How many of the steps before are waited for: those count that ended as `run_when` asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All have come to an end.
    #[default]
    All,
    /// So many count.
    Quorum(u32),
}

/// What becomes of the steps that a join did not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Losers {
    /// They come to their end, which moves nothing.
    #[default]
    Finish,
    /// They are void.
    Cancel,
}

/// Which ends of the steps before let a step run; else it is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWhen {
    /// All are done, skipped, or failed and passed.
    #[default]
    Succeeded,
    /// All have come to an end, whichever.
    Finished,
    /// One has failed.
    Failed,
    /// The execution is failing: a step of the workflow's `on_failure`.
    Failing,
}

/// Attempts after a failure, each after a longer pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How many attempts there are in all.
    pub max_attempts: u32,
    /// The pause before the second attempt; it doubles from there on.
    pub backoff: Span,
    /// The longest pause.
    pub max_backoff: Span,
    /// Whether pauses are spread at random between half of them and the whole.
    pub jitter: bool,
    /// The classes or codes of failures after which another attempt is made; all that may pass where empty.
    #[serde(default)]
    pub on: Vec<String>,
}

/// Doing a step again until something holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// An expression that sees the output of the latest attempt as the step's own.
    pub until: String,
    /// The pause between attempts.
    pub every: Span,
    /// How long it may take in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How many attempts there are at most.
    pub max_attempts: u32,
}

/// What is as it would be without a word is not stored.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Join {
    /// The join that a file names.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            "any" => Some(Self::Quorum(1)),
            _ => {
                let count = text.strip_prefix("quorum(")?.strip_suffix(')')?;
                let count = count.trim().parse().ok().filter(|count| *count > 0)?;
                Some(Self::Quorum(count))
            }
        }
    }
}

impl Step {
    /// A step of this kind with nothing else said.
    pub fn new(id: StepId, kind: StepKind) -> Self {
        Self {
            id,
            description: String::new(),
            depends_on: Vec::new(),
            kind,
            instructions: None,
            result: None,
            example: None,
            output_contract: None,
            condition: None,
            with: None,
            retry: None,
            timeout: None,
            repeat: None,
            optional: false,
            on_error: OnError::Fail,
            run_when: RunWhen::Succeeded,
            next: None,
            max_visits: None,
            join: Join::All,
            losers: Losers::Finish,
            bodies: BTreeMap::new(),
            required: false,
            branches: Vec::new(),
        }
    }

    /// The step that acts: of a `foreach` the one that it does with each item.
    pub fn acting(&self) -> &Self {
        match &self.kind {
            StepKind::Foreach { body, .. } => body,
            _ => self,
        }
    }

    /// What it does with each item, where it is a `foreach`.
    pub fn each(&self) -> Option<&Self> {
        match &self.kind {
            StepKind::Foreach { body, .. } => Some(body),
            _ => None,
        }
    }

    /// Whether its good end leads elsewhere than to what depends on it.
    pub fn is_jumping(&self) -> bool {
        self.next.is_some() || matches!(self.kind, StepKind::Branch { .. })
    }

    /// The steps that control may go to from its good end, in order.
    pub fn jumps(&self) -> impl Iterator<Item = &StepId> {
        let arms = match &self.kind {
            StepKind::Branch { arms } => arms.as_slice(),
            _ => &[],
        };
        let nexts = arms.iter().map(|arm| &arm.next).chain(self.next.as_ref());
        nexts.filter_map(|next| match next {
            Next::Step(id) => Some(id),
            Next::End => None,
        })
    }

    /// The agent that acts, where one does; for each item where it is a `foreach`.
    pub fn agent(&self) -> Option<&AgentName> {
        match &self.kind {
            StepKind::Agent { agent } => Some(agent),
            StepKind::Foreach { body, .. } => body.agent(),
            _ => None,
        }
    }

    /// What the step asks for beyond the persona.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }
}

impl StepKind {
    /// The key that makes a step of this kind.
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

    /// The names of the inputs that it asks for, where it asks for any.
    pub fn asks_for(&self) -> Option<&[String]> {
        match self {
            Self::Input { properties, .. } | Self::Extract { properties, .. } => Some(properties),
            _ => None,
        }
    }

    /// Whether a model brings the output.
    pub const fn is_of_model(&self) -> bool {
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

/// How the pages of a list are gathered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paginate {
    /// How many its author takes at most. Without it a list with more than [`limits::CALL_PAGES`](crate::limits::CALL_PAGES)
    /// pages fails.
    pub max_pages: Option<u32>,
}
