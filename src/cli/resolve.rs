//! `midex resolve`: records the outcome of a step that was interrupted by a stop of the server.

use serde_json::{Value, json};

use super::{
    Output,
    execution_id::{ExecutionChoice, run_with_named_or_picked},
    lifecycle::finish_change,
    link::ServerLink,
    picker::{PickerItem, pick_choice},
    question::{can_ask_person, write_prompt},
    run::{self, input::StdinLines},
    signal::pick_wait,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
    view::WaitView,
};
use midex_server::config::Config;

/// The executions that this command offers.
const EXECUTION_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex resolve", state: "open", waits_for: Some("unknown") };

/// Which step of which execution, and what came of it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "midex resolve [EXECUTION] [STEP] [--retry|--failed <WHY>|--output <JSON>]"
)]
pub(super) struct ResolveArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The step that was interrupted; without it, midex asks on a terminal
    #[arg(value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    verdict: VerdictArgs,
    /// The item, counted from 0, if the step is a fan-out and several items were interrupted
    #[arg(long, value_name = "N")]
    item: Option<u32>,
}

/// What came of it; without it a terminal is asked.
#[derive(Clone, Debug, clap::Args)]
#[group(multiple = false)]
struct VerdictArgs {
    /// The work did not take effect: run it again
    #[arg(long)]
    retry: bool,
    /// The work failed, for this reason
    #[arg(long, value_name = "WHY")]
    failed: Option<String>,
    /// The work took effect, with this output: any JSON value, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    output: Option<String>,
}

/// Calls `execution.resolve` and prints its reply.
pub(super) async fn resolve(
    args: ResolveArgs,
    config: &Config,
    flags: &str,
    out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let answer = resolve_after_asking(args, &mut link).await;
    finish_change(link, answer, flags, out).await
}

/// Resolves the step after asking for missing arguments; `None` if a question was not answered.
async fn resolve_after_asking(
    args: ResolveArgs,
    link: &mut ServerLink<'_>,
) -> Result<Option<Value>> {
    let mut verdict = args.verdict;
    if verdict.is_empty() {
        match VerdictArgs::ask_verdict(link).await? {
            Some(answer) => verdict = answer,
            None => return Ok(None),
        }
    }
    let mut arguments = match (verdict.failed, verdict.output) {
        (Some(reason), _) => json!({ "verdict": "failed", "message": reason }),
        (_, Some(text)) => {
            let output =
                run::inputs::parse_json_flag("--output", &text, limits::OUTPUT_BYTES_MAX)?.1;
            json!({ "verdict": "output", "output": output })
        }
        _ => json!({ "verdict": "retry" }),
    };
    if let Some(item) = args.item {
        arguments["item"] = json!(item);
    }
    let apply = async |link: &mut ServerLink<'_>, id: &str| {
        let step = match &args.step {
            Some(step) => step.clone(),
            None => match pick_wait(link, id, "unknown").await? {
                Some(step) => step,
                None => return Ok(None),
            },
        };
        let arguments = arguments.clone();
        let call = call_for_attempt(link, id, &step, args.item, arguments);
        call.await.map(Some)
    };
    let reply =
        run_with_named_or_picked(link, args.execution_id.as_deref(), EXECUTION_CHOICE, apply)
            .await?;
    Ok(reply.flatten())
}

impl VerdictArgs {
    fn is_empty(&self) -> bool {
        !self.retry && self.failed.is_none() && self.output.is_none()
    }

    /// Asks at the terminal whether the step took effect.
    async fn ask_verdict(link: &mut ServerLink<'_>) -> Result<Option<Self>> {
        if !can_ask_person() {
            let message = "nothing says whether the step took effect";
            return Err(Error::new(Code::UsageInvalid, message).with_action(
                "Find out whether it took effect, then add --output JSON if it did, --failed WHY if it failed, or --retry to do it again",
            ));
        }
        let choices = [
            ("output", "it took effect: its output is asked next"),
            ("failed", "it failed: the reason is asked next"),
            ("retry", "it took no effect: it is done again"),
        ];
        let choices = choices.map(|(key, about)| PickerItem {
            key: key.to_owned(),
            description: about.to_owned(),
            question: String::new(),
        });
        let Some(index) = pick_choice("answer", &choices, link).await? else {
            return Ok(None);
        };
        let mut verdict = Self { retry: index == 2, failed: None, output: None };
        if !verdict.retry {
            write_prompt(["Its output (JSON, or @FILE): ", "Why did it fail? "][index])?;
            let Some(answer) = StdinLines::stdin().next_line(link).await? else {
                return Ok(None);
            };
            let text = if index == 0 { &mut verdict.output } else { &mut verdict.failed };
            *text = Some(answer.trim().to_owned());
        }
        Ok(Some(verdict))
    }
}

/// Calls the tool with the current visit and attempt, so that a repeated call cannot resolve a later attempt.
async fn call_for_attempt(
    link: &mut ServerLink<'_>,
    id: &str,
    step: &str,
    item: Option<u32>,
    mut arguments: Value,
) -> Result<Value> {
    (arguments["execution_id"], arguments["step_name"]) = (json!(id), json!(step));
    let status = link.fetch_status(id).await?;
    let is_match = |wait: &&WaitView| {
        let is_item = item.is_none() || wait.item == item;
        wait.waits_for == "unknown" && wait.step_name == step && is_item
    };
    let matches: Vec<_> = status.waits.iter().filter(is_match).collect();
    // If no attempt matches, or several do, the tool refuses the call with a message.
    if let [wait] = matches.as_slice() {
        (arguments["visit"], arguments["attempt"]) = (json!(wait.visit), json!(wait.attempt));
    }
    link.call("execution.resolve", arguments).await
}
