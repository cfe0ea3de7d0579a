//! `midex signal`: sends a signal to an execution.

use serde_json::{Value, json};

use super::{
    Output,
    execution_id::{ExecutionChoice, run_with_named_or_picked},
    lifecycle::finish_change,
    link::ServerLink,
    picker::{PickerItem, pick_choice},
    question::can_ask_person,
    run,
    screen::one_line,
    value::optional_text_line,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::config::Config;

/// The executions that this command offers.
const EXECUTION_CHOICE: ExecutionChoice =
    ExecutionChoice { command: "midex signal", state: Some("open"), waits_for: Some("signal") };

/// Which execution, which signal, and what comes with it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SignalArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The name of the signal that a step waits for; without it, midex asks on a terminal
    #[arg(value_name = "SIGNAL")]
    signal: Option<String>,
    /// The payload of the signal: any JSON value, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// The step that waits fails: a message, or a code and a message as CODE: MESSAGE
    #[arg(long, value_name = "[CODE:] MESSAGE", conflicts_with = "payload")]
    error: Option<String>,
    /// A sign of life: a step that waits with `alive` waits on
    #[arg(long, conflicts_with_all = ["payload", "error"])]
    alive: bool,
}

impl SignalArgs {
    /// What the signal says, as the arguments of the tool.
    fn content(&self) -> Result<(&'static str, Value)> {
        if let Some(text) = &self.error {
            let is_code_char = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let code = text.split_once(':').filter(|(code, _)| code.chars().all(is_code_char));
            return Ok((
                "error",
                match code {
                    Some((code, message)) if !code.is_empty() => {
                        json!({ "code": code, "message": message.trim() })
                    }
                    _ => json!({ "message": text }),
                },
            ));
        }
        if self.alive {
            return Ok(("alive", json!(true)));
        }
        let max_bytes = limits::SIGNAL_BYTES_MAX;
        let payload = self.payload.as_deref();
        let payload =
            payload.map(|text| run::inputs::parse_json_flag("--payload", text, max_bytes));
        Ok(("payload", payload.transpose()?.map_or(Value::Null, |(_, payload)| payload)))
    }
}

/// Calls `execution.signal` and prints its reply.
pub(super) async fn signal(
    args: SignalArgs,
    config: &Config,
    flags: &str,
    out: Output<'_>,
) -> Result<u8> {
    let content = args.content()?;
    let mut link = ServerLink::new(config);
    let answer = send_signal(&mut link, args, content).await;
    finish_change(link, answer, flags, out).await
}

async fn send_signal(
    link: &mut ServerLink<'_>,
    args: SignalArgs,
    (key, content): (&str, Value),
) -> Result<Option<Value>> {
    let apply = async |link: &mut ServerLink<'_>, id: &str| {
        let signal = match &args.signal {
            Some(signal) => signal.clone(),
            None => match pick_signal(link, id).await? {
                Some(signal) => signal,
                None => return Ok(None),
            },
        };
        let arguments = json!({ "execution_id": id, "signal": signal, key: &content });
        link.call("execution.signal", arguments).await.map(Some)
    };
    let reply =
        run_with_named_or_picked(link, args.execution_id.as_deref(), EXECUTION_CHOICE, apply)
            .await?;
    Ok(reply.flatten())
}

/// Asks at the terminal for one of the signals that the execution waits for; `None` if none was picked.
///
/// # Errors
/// `USAGE_INVALID` if there is no terminal, or if no step waits for a signal.
async fn pick_signal(link: &mut ServerLink<'_>, id: &str) -> Result<Option<String>> {
    let status = link.fetch_status(id).await?;
    let mut choices: Vec<PickerItem> = Vec::new();
    for wait in status.waits.iter().filter(|wait| wait.waits_for == "signal") {
        let key = optional_text_line(wait.signal.as_deref());
        if choices.iter().all(|choice| choice.key != key) {
            let description = format!("step {}", one_line(&wait.step_name));
            choices.push(PickerItem { key, description, question: String::new() });
        }
    }
    if choices.is_empty() {
        let message = format!("no step of '{id}' waits for a signal");
        return Err(signal_not_named_error(message, id)
            .with_action("Run `midex show {execution_id}`: it says what is waited for"));
    }
    if !can_ask_person() {
        let names: Vec<_> = choices.iter().map(|choice| choice.key.as_str()).collect();
        let message = format!("the signal is not named; there is {}", names.join(", "));
        return Err(
            signal_not_named_error(message, id).with_action("Give its name after the execution")
        );
    }
    let picked_index = pick_choice("signal", &choices, link).await?;
    Ok(picked_index.map(|index| choices[index].key.clone()))
}

fn signal_not_named_error(message: String, id: &str) -> Error {
    Error::new(Code::UsageInvalid, message).with_context("execution_id", id)
}
