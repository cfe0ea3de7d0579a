//! The check of the open executions, as `midex doctor` prints it.

use super::{CheckResult, NAMED_EXECUTIONS_MAX, Value, text_field};

/// Reports an execution whose activity no process provides, else one that is overdue, else the paused executions.
pub(super) fn check_executions(open: &[Value], stuck: &[Value]) -> CheckResult {
    const CHECK_NAME: &str = "executions";
    let waiting = stuck.iter().find(|stuck| stuck["activity"].is_string());
    if let Some(waiting) = waiting {
        let (id, activity) = (text_field(waiting, "execution_id"), text_field(waiting, "activity"));
        return CheckResult::warn(
            CHECK_NAME,
            format!("{id} waits for the activity `{activity}`, which no process here has"),
            "start the program that has it, or run `midex abandon EXECUTION`",
        );
    }
    let overdue = stuck.iter().find(|stuck| stuck["due"].is_string());
    if let Some(overdue) = overdue {
        let (id, due) = (text_field(overdue, "execution_id"), text_field(overdue, "due"));
        return CheckResult::warn(
            CHECK_NAME,
            format!("{id} should have moved at {due}"),
            format!("run `midex show {id}`: it says what it waits for"),
        );
    }
    let paused = open.iter().filter(|execution| execution["state"] == "paused");
    let paused: Vec<_> = paused.map(|execution| text_field(execution, "execution_id")).collect();
    if paused.is_empty() {
        return CheckResult::ok(CHECK_NAME, format!("{} open", open.len()));
    }
    let shown_ids = &paused[..paused.len().min(NAMED_EXECUTIONS_MAX)];
    CheckResult::warn(
        CHECK_NAME,
        format!("{} open, {} of them paused: {}", open.len(), paused.len(), shown_ids.join(", ")),
        "run `midex show EXECUTION`: it says what each waits for",
    )
}
