//! Nodes of a workflow: functions of the state of an execution.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Activity, BoxFuture, Context, INPUT_INVALID, Outcome};
use midex_domain::{execution::OperationFailure, expression::ALL_INPUTS_MEMORY_KEY};

/// A function of the memory and the inputs of an execution. The engine writes the object that it returns to memory.
pub trait Node: Send + Sync {
    /// The values that it reads. Each field is the value in memory of this name, or else the output of the step of this name,
    /// or else the input.
    type State: DeserializeOwned + JsonSchema;

    /// The name by which an `activity` step asks for it.
    fn name(&self) -> &str;

    /// Computes the fields that change, as an object. Fields that are null stay as they are. It must not block for long: work
    /// that waits is an [`Activity`].
    ///
    /// # Errors
    /// The failure of the attempt. Nothing is written then.
    fn execute(&self, state: &Self::State) -> Outcome;
}

/// The activity that runs a node. It only computes, so that it may run twice.
#[derive(Debug)]
pub struct NodeActivity<N> {
    node: N,
    /// The names of the fields of its state.
    state_fields: Vec<String>,
}

/// Makes an activity of a node.
pub fn node<N: Node>(node: N) -> NodeActivity<N> {
    let schema = schemars::schema_for!(N::State);
    let properties = schema.get("properties").and_then(Value::as_object);
    let state_fields = properties.into_iter().flat_map(Map::keys).cloned().collect();
    NodeActivity { node, state_fields }
}

impl<N: Node> Activity for NodeActivity<N> {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let state = read_state::<N::State>(&self.state_fields, &context).await?;
            let update = self.node.execute(&state)?;
            for (name, value) in update.as_object().into_iter().flatten() {
                if !value.is_null() {
                    context.write_memory(name, value)?;
                }
            }
            Ok(update)
        })
    }
}

async fn read_state<S: DeserializeOwned>(
    names: &[String],
    context: &Context,
) -> Result<S, OperationFailure> {
    let inputs = context.read_memory(ALL_INPUTS_MEMORY_KEY).await?.unwrap_or_default();
    let mut fields = Map::new();
    for name in names {
        let stored = context.read_memory(name).await?.filter(|value| !value.is_null());
        let value = stored.or_else(|| inputs.get(name).cloned());
        fields.extend(value.map(|value| (name.clone(), value)));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        OperationFailure::new(
            INPUT_INVALID,
            format!("memory and inputs do not match the state of the node: {error}"),
        )
    })
}
