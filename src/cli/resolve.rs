//! `midex resolve`: records the outcome of a step that was interrupted by a stop of the server.

use serde_json::{Value, json};

use super::{
    Output,
    execution_id::{ExecutionChoice, run_with_named_or_picked},
    lifecycle::finish_change,
    link::{ServerLink, remove_nulls},
    picker::{PickerItem, pick_choice},
    question::{can_ask_person, write_prompt},
    run::{self, input::StdinLines},
    screen::one_line,
    waits::step_argument,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
    view::WaitView,
};
use midex_server::config::Config;

/// The executions that this command offers.
const EXECUTION_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex resolve", state: Some("open"), waits_for: Some("unknown") };

/// Which step of which execution, and what came of it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "midex resolve [EXECUTION] [STEP] [--retry|--failed <WHY>|--output <JSON>]"
)]
pub(super) struct ResolveArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The step that was interrupted; STEP[N] is item N of a `foreach`, counted from 1; without it, midex asks on a terminal
    #[arg(value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    verdict: VerdictArgs,
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
    if args.verdict.is_empty() && !can_ask_person() {
        let message = "nothing says whether the step took effect";
        return Err(Error::new(Code::UsageInvalid, message).with_action(
            "Find out whether it took effect, then add --output JSON if it did, --failed WHY if it failed, or --retry to do it again",
        ));
    }
    let apply = async |link: &mut ServerLink<'_>, id: &str| {
        let is_asked = args.verdict.is_empty();
        let named = (args.step.as_deref(), is_asked);
        let Some(mut arguments) = choose_attempt(link, id, named).await? else {
            return Ok(None);
        };
        let verdict = if is_asked {
            VerdictArgs::ask_verdict(link).await?
        } else {
            Some(args.verdict.clone())
        };
        let Some(verdict) = verdict else {
            return Ok(None);
        };
        verdict.add_to(&mut arguments)?;
        link.call("execution.resolve", arguments).await.map(Some)
    };
    let reply =
        run_with_named_or_picked(link, args.execution_id.as_deref(), EXECUTION_CHOICE, apply)
            .await?;
    Ok(reply.flatten())
}

/// The arguments that name the interrupted attempt: that of the named step, the only one, or the one that is picked at the terminal.
/// They name its visit and attempt too, so that a repeated call cannot resolve a later attempt. `None` if none was picked.
/// `is_asked`: the outcome is asked afterwards.
async fn choose_attempt(
    link: &mut ServerLink<'_>,
    id: &str,
    (step, is_asked): (Option<&str>, bool),
) -> Result<Option<Value>> {
    let status = link.fetch_status(id).await?;
    let unknown = status.waits.iter().filter(|wait| wait.waits_for == "unknown");
    let unknown: Vec<_> =
        unknown.map(|wait| (step_argument(&wait.step_name, wait.item), wait)).collect();
    let is_named = |(name, wait): &&(String, &WaitView)| {
        step.is_none_or(|step| step == name || step == wait.step_name)
    };
    let named: Vec<_> = unknown.iter().filter(is_named).collect();
    let (_, wait) = match named[..] {
        [] => return name_unmatched_step(id, (step, is_asked), &unknown),
        [attempt] => attempt,
        _ if !can_ask_person() => return Err(attempt_not_named_error(id, &unknown)),
        _ => {
            let choices = named.iter().map(|(name, _)| PickerItem {
                key: one_line(name),
                description: "it was cut off".to_owned(),
                question: String::new(),
            });
            let choices: Vec<_> = choices.collect();
            match pick_choice("step", &choices, link).await? {
                Some(index) => named[index],
                None => return Ok(None),
            }
        }
    };
    Ok(Some(remove_nulls(json!({
        "execution_id": id, "step_name": wait.step_name, "item": wait.item,
        "visit": wait.visit, "attempt": wait.attempt
    }))))
}

/// The arguments for a step that no interrupted attempt has: the tool says why there is none, or answers a repeated call.
///
/// # Errors
/// `USAGE_INVALID` if other steps were interrupted, if no step is named, and if the outcome would have to be asked.
fn name_unmatched_step(
    id: &str,
    (step, is_asked): (Option<&str>, bool),
    unknown: &[(String, &WaitView)],
) -> Result<Option<Value>> {
    match step {
        _ if !unknown.is_empty() => Err(attempt_not_named_error(id, unknown)),
        Some(step) if !is_asked => Ok(Some(json!({ "execution_id": id, "step_name": step }))),
        _ => {
            let message = format!("no step of '{id}' was cut off");
            Err(Error::new(Code::UsageInvalid, message)
                .with_context("execution_id", id)
                .with_action("Run `midex show {execution_id}`: it says what is waited for"))
        }
    }
}

fn attempt_not_named_error(id: &str, unknown: &[(String, &WaitView)]) -> Error {
    let names: Vec<_> = unknown.iter().map(|(name, _)| name.as_str()).collect();
    let message = format!("of '{id}', these were cut off: {}", names.join(", "));
    Error::new(Code::UsageInvalid, message)
        .with_context("execution_id", id)
        .with_context("step", names.first().copied().unwrap_or_default())
        .with_action("Name one after the execution: `midex resolve {execution_id} {step}`")
}

impl VerdictArgs {
    fn is_empty(&self) -> bool {
        !self.retry && self.failed.is_none() && self.output.is_none()
    }

    fn add_to(&self, arguments: &mut Value) -> Result<()> {
        if let Some(reason) = &self.failed {
            (arguments["verdict"], arguments["message"]) = (json!("failed"), json!(reason));
        } else if let Some(text) = &self.output {
            let output =
                run::inputs::parse_json_flag("--output", text, limits::OUTPUT_BYTES_MAX)?.1;
            (arguments["verdict"], arguments["output"]) = (json!("output"), output);
        } else {
            arguments["verdict"] = json!("retry");
        }
        Ok(())
    }

    /// Asks at the terminal whether the step took effect.
    async fn ask_verdict(link: &mut ServerLink<'_>) -> Result<Option<Self>> {
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
