//! Builders for workflows that a program defines in code. They only assemble the JSON of a manifest: the check of definition
//! files reports every mistake, so a builder refuses nothing.

use serde_json::{Map, Value, json};

use midex_domain::{draft::WorkflowFormat, grammar::STEPS_KEY, id::StepId};

/// Defines methods that set the key of their own name.
macro_rules! key_methods {
    ($($(#[doc = $doc:literal])* $key:ident: $value:ty;)*) => {$(
        $(#[doc = $doc])*
        #[must_use]
        pub fn $key(self, value: impl Into<$value>) -> Self {
            self.set(stringify!($key), Into::<$value>::into(value))
        }
    )*};
}

/// Defines constructors of steps of the kind of their own name.
macro_rules! kind_constructors {
    ($new:ident($value:ty): $($(#[doc = $doc:literal])* $kind:ident;)*) => {$(
        $(#[doc = $doc])*
        pub fn $kind(value: impl Into<$value>) -> Self {
            Self::$new(stringify!($kind), value)
        }
    )*};
}

/// A workflow that a program defines in code, with the keys of a manifest.
///
/// ```
/// use midex_registry::{StepBuilder as Step, WorkflowBuilder as Workflow};
/// use serde_json::json;
///
/// let workflow = Workflow::new("sum")
///     .description("Add two numbers")
///     .input("one", json!({ "type": "number" }))
///     .step(Step::activity("add").with(json!({ "one": "${{ inputs.one }}", "other": 1 })))
///     .final_output("${{ steps.add }}");
/// assert_eq!(workflow.to_json()["steps"][0]["id"], "add");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowBuilder {
    manifest: Map<String, Value>,
}

impl WorkflowBuilder {
    /// A workflow with this name and without steps.
    pub fn new(name: impl Into<String>) -> Self {
        let name_key = WorkflowFormat::Manifest.name_key();
        Self { manifest: Map::new() }.set(name_key, name.into())
    }

    key_methods! {
        /// The purpose of the workflow, in a sentence.
        description: String;
        /// The final output of a completed execution; may hold `${{ … }}`.
        final_output: Value;
        /// The time limit of an execution, such as `2h`.
        timeout: String;
    }

    /// Declares an input, after those that are declared already: an object such as `{"type": "string"}`.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, declaration: impl Into<Value>) -> Self {
        let inputs = self.manifest.entry("inputs").or_insert(Value::Null);
        if !inputs.is_object() {
            *inputs = json!({});
        }
        inputs[name.into()] = declaration.into();
        self
    }

    /// Adds a step after those that are there already. It depends on the step above unless it says otherwise.
    #[must_use]
    pub fn step(self, step: StepBuilder) -> Self {
        self.push_step(STEPS_KEY, step)
    }

    /// Adds a step that runs once the execution is failing.
    #[must_use]
    pub fn on_failure(self, step: StepBuilder) -> Self {
        self.push_step("on_failure", step)
    }

    fn push_step(mut self, key: &str, step: StepBuilder) -> Self {
        let steps = self.manifest.entry(key).or_insert(Value::Null);
        match steps {
            Value::Array(steps) => steps.push(step.into_listed()),
            _ => *steps = json!([step.into_listed()]),
        }
        self
    }

    /// Sets any key of a manifest; `midex schema` lists them. A key that is set again keeps the last value.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.manifest.insert(key.into(), value.into());
        self
    }

    /// The manifest. Written to a file, it is the same workflow.
    pub fn to_json(&self) -> Value {
        Value::Object(self.manifest.clone())
    }
}

/// A step of a workflow that a program defines in code, with the keys of a step of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepBuilder {
    /// The id that the step gets in a list of steps, unless its keys have one.
    default_id: Option<String>,
    keys: Map<String, Value>,
}

impl StepBuilder {
    /// A step of any kind, such as `StepBuilder::new("set", json!({ "count": 0 }))`. It needs an [`id`](Self::id).
    pub fn new(kind: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { default_id: None, keys: Map::new() }.set(kind, value)
    }

    /// A step whose id is `name`, if that is a valid id.
    fn new_named(kind: &str, name: impl Into<String>) -> Self {
        let name = name.into();
        let default_id = StepId::parse(&name).is_ok().then(|| name.clone());
        Self { default_id, ..Self::new(kind, name) }
    }

    kind_constructors! { new_named(String):
        /// A model takes on the persona of this agent. The id of the step is the name of the agent.
        agent;
        /// The process runs this activity. The id of the step is the name of the activity.
        activity;
        /// This workflow runs as a child. The id of the step is the name of the workflow, unless that is `${{ … }}`.
        workflow;
        /// A model calls this tool of its client. The id of the step is the name of the tool.
        tool;
    }

    kind_constructors! { new(Value):
        /// A model follows these instructions without a persona. The step needs an [`id`](Self::id).
        guidance;
        /// The server calls an operation of a catalog: `"CATALOG OPERATION"`. The step needs an [`id`](Self::id).
        run;
        /// A person approves: the question, or an object with `ask`. The step needs an [`id`](Self::id).
        gate;
        /// Time passes or a signal comes, such as `{"for": "10m"}`. The step needs an [`id`](Self::id).
        wait;
    }

    /// Does `body` for each item of `items`, a list or `${{ … }}`. The step needs an [`id`](Self::id), which its body has
    /// not.
    pub fn foreach(items: impl Into<Value>, body: Self) -> Self {
        Self::new("foreach", json!({ "in": items.into(), "do": Value::from(body) }))
    }

    key_methods! {
        /// The id of the step, in the place of that of its constructor.
        id: String;
        /// What the step does, in a sentence.
        description: String;
        /// What the step works on: an object, or `${{ … }}`.
        with: Value;
        /// What the step asks for beyond its persona.
        instructions: String;
        /// JSON Schema of the output.
        result: Value;
        /// The condition without which the step is skipped.
        when: Value;
        /// The attempts after a failure, such as `{"max_attempts": 3}`.
        retry: Value;
        /// How long one attempt of the server may take, or how long the step may stay open, such as `30s`.
        timeout: String;
        /// What follows a failure: `fail`, `continue` or the id of a step.
        on_error: String;
        /// What follows the step, in the place of the steps that depend on it: the id of a step, or `$end`.
        next: String;
    }

    /// The ids of the steps that must be done before. An empty list lets the step begin at once.
    #[must_use]
    pub fn depends_on(self, ids: &[&str]) -> Self {
        self.set(WorkflowFormat::Manifest.depends_on_key(), ids)
    }

    /// Sets any key of a step; `midex schema` lists them. A key that is set again keeps the last value.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.keys.insert(key.into(), value.into());
        self
    }

    /// The step as an item of a list of steps, whose items have ids.
    fn into_listed(self) -> Value {
        let id_key = WorkflowFormat::Manifest.id_key();
        let mut step = Map::new();
        step.extend(self.default_id.map(|id| (id_key.to_owned(), Value::String(id))));
        step.extend(self.keys);
        Value::Object(step)
    }
}

/// The step as the body of another one, such as a hook or a compensation. It has an id only if [`StepBuilder::id`] gave it
/// one.
impl From<StepBuilder> for Value {
    fn from(step: StepBuilder) -> Self {
        Self::Object(step.keys)
    }
}

#[cfg(test)]
mod tests {
    use midex_domain::grammar::{MANIFEST_SHAPE, STEP_SHAPE};

    use super::*;

    /// A key that the grammar renames must not stay behind in a builder.
    #[test]
    fn every_key_of_a_builder_is_in_the_grammar() {
        let steps = [
            StepBuilder::agent("a"),
            StepBuilder::activity("a"),
            StepBuilder::workflow("a"),
            StepBuilder::tool("a"),
            StepBuilder::guidance("a"),
            StepBuilder::run("a b"),
            StepBuilder::gate("a"),
            StepBuilder::wait("a"),
            StepBuilder::foreach("a", StepBuilder::agent("a")),
        ];
        let all_keys = |step: StepBuilder| {
            let step = step.id("a").description("a").with("a").instructions("a").result("a");
            let step = step.when("a").retry("a").timeout("a").on_error("a").next("a");
            step.depends_on(&["a"])
        };
        let mut workflow = WorkflowBuilder::new("w").description("d").final_output(1).timeout("1s");
        for step in steps {
            for key in all_keys(step.clone()).keys.keys() {
                assert!(STEP_SHAPE.find_key(key).is_some(), "{key}");
            }
            workflow = workflow.input("a", json!({})).step(step.clone()).on_failure(step);
        }
        for key in workflow.manifest.keys() {
            assert!(MANIFEST_SHAPE.find_key(key).is_some(), "{key}");
        }
    }

    #[test]
    fn only_listed_steps_get_an_id_from_their_name() {
        let body = StepBuilder::activity("add").with(json!({ "n": "${{ item }}" }));
        let all = StepBuilder::foreach("${{ inputs.list }}", body).id("all");
        let named = StepBuilder::agent("not an id");
        let workflow = WorkflowBuilder::new("w").step(all).step(named);
        let expected = json!({ "workflow": "w", "steps": [
            {
                "foreach": {
                    "in": "${{ inputs.list }}",
                    "do": { "activity": "add", "with": { "n": "${{ item }}" } },
                },
                "id": "all",
            },
            { "agent": "not an id" },
        ] });
        assert_eq!(workflow.to_json(), expected);
    }
}
