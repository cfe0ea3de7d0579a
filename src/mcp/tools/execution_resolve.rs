//! `execution.resolve`: records the outcome of work that was interrupted.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, count, execution, execution_approve::step, execution_id_schema,
    lifecycle::Changed, shape_of, step_name_schema, text, unfit, view,
};
use midex_domain::{
    error::{Error, Result},
    execution::{Resolution, Verdict},
    limits,
};
use midex_server::app::App;

const NAME: &str = "execution.resolve";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "execution_id": execution_id_schema(),
        "step_name": step_name_schema(),
        "visit": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
        "attempt": { "type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "With visit: of this attempt alone" },
        "item": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        "verdict": {
            "enum": ["retry", "output", "failed"],
            "description": "retry: it took no effect; output: it did, and came to output; failed: for message"
        },
        "output": {},
        "message": { "type": "string", "minLength": 1, "maxLength": limits::COMMENT_BYTES_MAX }
    });
    ToolSpec::new(
        (
            NAME,
            "Resolve work",
            "For outcome_unknown: work that may not be done twice was cut off. Find out what came of it, with the user where \
             in doubt, and say so.",
        ),
        || acts(false, true, false),
        (
            properties,
            &["execution_id", "step_name", "verdict"],
            shape_of::<Changed>(),
        ),
        |app, arguments| Box::pin(resolve(app, arguments)),
    )
}

async fn resolve(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let id = execution(&arguments, NAME)?;
    let (output, message) = (arguments.remove("output"), text(&arguments, "message"));
    let verdict = match (text(&arguments, "verdict"), output) {
        (Some("retry"), None) => Verdict::Retry,
        (Some("output"), Some(output)) => Verdict::Output(Arc::new(output)),
        (Some("failed"), None) => Verdict::Failed(message.unwrap_or("it failed").to_owned()),
        (Some("output"), None) => return Err(of_output("the verdict `output` needs output")),
        _ => return Err(of_output("output belongs to the verdict `output` alone")),
    };
    let (visit, attempt) = (count(&arguments, "visit"), count(&arguments, "attempt"));
    let resolution = Resolution {
        step: step(&arguments, NAME)?,
        item: count(&arguments, "item"),
        attempt: visit.zip(attempt),
        verdict,
    };
    let status = app.command(&id, resolution).await?;
    let message = format!("Execution '{id}' is {}", status.state);
    view(&Changed::of(status, message))
}

fn of_output(message: &str) -> Error {
    unfit(NAME, "/output", "dependentRequired", message)
}
