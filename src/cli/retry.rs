//! `midex retry`, `rewind` and `fork`: a second chance for an execution.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    command::{execution_id_flag, insert_flags},
    execution_id::{ExecutionChoice, run_with_named_or_picked},
    lifecycle::finish_change,
    link::{ServerLink, parse_reply, remove_nulls},
    run::inputs::parse_json_flag,
    value::list_items,
    visible::replace_hidden_chars,
};
use midex_domain::{error::Result, execution::StepFate, limits, view::ForkView};
use midex_server::config::Config;

const RETRY_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex retry", state: Some("failed"), waits_for: None };
const FORK_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex fork", state: None, waits_for: None };
const REWIND_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex rewind", state: Some("open"), waits_for: None };

/// Which execution, and from where.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RetryArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// Begin at this earlier step, instead of the one that failed
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Follow the workflow's file as it is now, instead of the definition that the execution started with
    #[arg(long)]
    with_current_file: bool,
    /// Repeat interrupted work whose outcome is unknown: it may then take effect twice
    #[arg(long)]
    again: bool,
}

/// Which execution, and what the new one does differently.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ForkArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The first step to do again
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Fork the execution as it was at this revision
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    /// Inputs to replace: a JSON object, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// Values in memory to replace: a JSON object, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    memory: Option<String>,
    /// The id of the new execution
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Follow the workflow's file as it is now, instead of the definition that the execution started with
    #[arg(long)]
    with_current_file: bool,
    /// Repeat interrupted work whose outcome is unknown: it may then take effect twice
    #[arg(long)]
    again: bool,
    /// Only show what would become of each step
    #[arg(long)]
    dry_run: bool,
}

/// Which execution, and to which step.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RewindArgs {
    /// The execution: its id, the beginning of its id, or @last
    #[arg(value_name = "EXECUTION")]
    execution_id: String,
    /// The step to do again, with everything after it
    #[arg(value_name = "STEP")]
    step: String,
    /// The reason; it is stored, and shown in the status
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// First run what these steps declare to take their effects back
    #[arg(long)]
    compensate: bool,
}

/// Retries an execution and prints the fate of each step and the next command.
pub(super) async fn retry(
    args: RetryArgs,
    config: &Config,
    flags: &str,
    out: Output<'_>,
) -> Result<u8> {
    let tool = if args.again { "execution.retry_unknown" } else { "execution.retry" };
    let arguments = json!({
        "from_step": args.from,
        "definition": args.with_current_file.then_some("current"),
    });
    let source = (args.execution_id.as_deref(), RETRY_CHOICE);
    call_fork_tool(ServerLink::new(config), source, (tool, arguments), flags, out).await
}

/// Forks an execution and prints the fate of each step and the next command.
pub(super) async fn fork(
    args: ForkArgs,
    config: &Config,
    flags: &str,
    out: Output<'_>,
) -> Result<u8> {
    let object = |flag: &str, text: &Option<String>| {
        let text = text.as_deref();
        let parsed = text.map(|text| parse_json_flag(flag, text, limits::INPUTS_BYTES_MAX));
        parsed.transpose().map(|parsed| parsed.map(|(_, value)| value))
    };
    let (inputs, memory) = (object("--inputs", &args.inputs)?, object("--memory", &args.memory)?);
    let arguments = json!({
        "from_step": args.from,
        "revision": args.revision,
        "inputs": inputs,
        "memory": memory,
        "new_execution_id": args.id,
        "definition": args.with_current_file.then_some("current"),
        "dry_run": args.dry_run.then_some(true),
    });
    let tool = if args.again { "execution.fork_unknown" } else { "execution.fork" };
    let source = (args.execution_id.as_deref(), FORK_CHOICE);
    call_fork_tool(ServerLink::new(config), source, (tool, arguments), flags, out).await
}

/// Rewinds an execution, and prints its state and what stays in the world.
pub(super) async fn rewind(
    args: RewindArgs,
    config: &Config,
    flags: &str,
    out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let call = async |link: &mut ServerLink<'_>, id: &str| {
        let arguments = json!({
            "execution_id": id,
            "to_step": args.step,
            "reason": args.reason,
            "compensate": args.compensate.then_some(true),
        });
        let mut answer = link.call("execution.rewind", remove_nulls(arguments)).await?;
        let join = |list: &Value| {
            let names = list_items(list).iter().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(", ")
        };
        let (again, left) = (join(&answer["done_again"]), join(&answer["not_undone"]));
        let mut message =
            format!("Execution '{id}' is back at '{}'; done again: {again}", args.step);
        if !left.is_empty() {
            let _ = write!(
                message,
                "\nNot taken back, so undo it by hand if it must not stand: {left}"
            );
        }
        answer["message"] = json!(message);
        Ok(answer)
    };
    let named = Some(args.execution_id.as_str());
    let answer = run_with_named_or_picked(&mut link, named, REWIND_CHOICE, call).await;
    finish_change(link, answer, flags, out).await
}

/// Calls a tool that forks the named execution, or the one that a person picks, and prints its reply.
async fn call_fork_tool(
    mut link: ServerLink<'_>,
    (named, choice): (Option<&str>, ExecutionChoice),
    (tool, arguments): (&'static str, Value),
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let arguments = remove_nulls(arguments);
    let call = async |link: &mut ServerLink<'_>, id: &str| {
        let mut arguments = arguments.clone();
        arguments["execution_id"] = json!(id);
        link.call(tool, arguments).await
    };
    let answer = run_with_named_or_picked(&mut link, named, choice, call).await;
    link.close_and_log().await;
    let Some(answer) = answer? else {
        return Ok(EXIT_FINDINGS);
    };
    let text = describe_fork(&answer, flags)?;
    out.print(|| answer, || text).map(|()| EXIT_OK)
}

/// Formats the reply of a fork as text: the fate of each step and the next command.
fn describe_fork(answer: &Value, flags: &str) -> Result<String> {
    let id = answer["execution_id"].as_str().unwrap_or_default();
    let is_plan = answer.get("fork").is_none();
    let fork: ForkView = parse_reply(if is_plan { answer } else { &answer["fork"] }.clone())?;
    let mut text = String::new();
    if let Some(origin) = &fork.forked_from {
        let source = &origin.execution_id;
        let line = format!("Execution '{id}' continues '{source}'");
        let _ = writeln!(text, "{}", replace_hidden_chars(&line));
    }
    for (fate, title) in [
        (StepFate::Kept, "kept"),
        (StepFate::OpenAgain, "done again"),
        (StepFate::New, "new"),
        (StepFate::Removed, "removed"),
        (StepFate::OutputInvalid, "output does not fit"),
    ] {
        let steps = fork.steps.iter().filter(|step| step.fate == fate);
        let steps: Vec<_> = steps
            .map(|step| match &step.why {
                Some(why) => format!("{} ({why})", step.step),
                None => step.step.to_string(),
            })
            .collect();
        if !steps.is_empty() {
            let line = format!("  {title}: {}", steps.join(", "));
            let _ = writeln!(text, "{}", replace_hidden_chars(&line));
        }
    }
    let mut is_refused = false;
    for step in fork.steps.iter().filter(|step| step.fate == StepFate::OutputInvalid) {
        is_refused = true;
        for violation in &step.violations {
            let line = format!("    {}{}: {}", step.step, violation.path, violation.message);
            let _ = writeln!(text, "{}", replace_hidden_chars(&line));
        }
    }
    if is_refused {
        text += "  so it would be refused: add --from with the first of these steps, which is then done again\n";
    }
    for left in &fork.not_compensated {
        let _ = writeln!(text, "  not taken back: {}", replace_hidden_chars(left));
    }
    if !is_plan {
        let command = insert_flags(&format!("midex run {}", execution_id_flag(id)), flags);
        let _ = writeln!(text, "To go on: {}", replace_hidden_chars(&command));
    }
    Ok(text)
}
