//! `midex approve`: a person answers the question of a gate. It requires a terminal, so that merely running the command
//! answers nothing. A terminal does not prove that a person answers: any process of this user can open one, or use the
//! control socket. The history therefore records who answered, through which channel, and the digest of the question
//! that was shown.

use serde_json::{Value, json};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    execution_id::run_with_execution,
    lifecycle::print_continue_command,
    link::{ServerLink, is_final_state, remove_nulls},
    picker::{PickerItem, pick_choice},
    prompt::{Prompt, PromptInput},
    question::{asks_for_help, can_ask_person, write_prompt},
    screen::Screen,
    visible::replace_hidden_chars,
    waits::step_argument,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
    view::{GateView, WaitView},
};
use midex_server::config::Config;

/// The message if no gate is open.
const NO_OPEN_GATES_MESSAGE: &str = "Nothing waits for an approval in this project.\n";

/// Which gate of which execution.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ApproveArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, the open gates of this project are listed
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The gate, if several are open; STEP[N] is the gate of item N of a `foreach`, counted from 1
    #[arg(value_name = "STEP", requires = "execution_id")]
    step: Option<String>,
    /// The name of the person who answers, stored in the history
    #[arg(
        long = "as",
        value_name = "NAME",
        help = "The name of the person who answers, stored in the history [default: the user's name]"
    )]
    name: Option<String>,
    /// A comment on the answer, stored in the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

/// A gate that waits for an answer.
struct OpenGate {
    execution_id: String,
    workflow_name: String,
    wait: WaitView,
    gate: GateView,
}

/// Asks the question of a gate and sends the answer; without an execution, lists all open gates.
pub(super) async fn approve(
    args: ApproveArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let result = match args.execution_id.clone() {
        Some(execution_arg) => answer_gate(&mut link, &execution_arg, args, flags, &mut out).await,
        None if can_ask_person() && !out.is_json => {
            pick_and_answer_gate(&mut link, args, flags, &mut out).await
        }
        None => print_open_gates(&mut link, &mut out).await,
    };
    link.close_and_log().await;
    result
}

/// Asks which of the open gates to answer, and then its question.
async fn pick_and_answer_gate(
    link: &mut ServerLink<'_>,
    args: ApproveArgs,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    let mut gates = fetch_open_gates(link).await?;
    if gates.is_empty() {
        return out.write_unchanged(NO_OPEN_GATES_MESSAGE).map(|()| EXIT_OK);
    }
    let choices: Vec<_> = gates.iter().map(OpenGate::to_choice).collect();
    match pick_choice("gate", &choices, link).await? {
        Some(index) => ask_all_gates(link, &[gates.swap_remove(index)], &args, flags, out).await,
        None => Ok(EXIT_FINDINGS),
    }
}

async fn print_open_gates(link: &mut ServerLink<'_>, out: &mut Output<'_>) -> Result<u8> {
    let gates = fetch_open_gates(link).await?;
    let json = || gates.iter().map(OpenGate::to_json).collect();
    let text = || match gates.as_slice() {
        [] => NO_OPEN_GATES_MESSAGE.to_owned(),
        gates => gates.iter().map(OpenGate::summary_line).collect(),
    };
    out.print_rows(json, text).map(|()| EXIT_OK)
}

/// The gates of this project that wait for an answer.
async fn fetch_open_gates(link: &mut ServerLink<'_>) -> Result<Vec<OpenGate>> {
    let arguments = json!({ "state": "open", "limit": limits::LIST_LIMIT_MAX });
    let mut gates = Vec::new();
    for execution in link.list_executions(arguments).await?.executions {
        gates.extend(fetch_execution_gates(link, &execution.execution_id).await?);
    }
    Ok(gates)
}

async fn fetch_execution_gates(link: &mut ServerLink<'_>, id: &str) -> Result<Vec<OpenGate>> {
    let status = link.fetch_status(id).await?;
    let gate = |wait: WaitView| {
        Some(OpenGate {
            execution_id: id.to_owned(),
            workflow_name: status.workflow_name.clone(),
            gate: wait.gate.clone()?,
            wait,
        })
    };
    Ok(status.waits.into_iter().filter_map(gate).collect())
}

async fn answer_gate(
    link: &mut ServerLink<'_>,
    execution_arg: &str,
    args: ApproveArgs,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    let fetch_gates = async |link: &mut ServerLink<'_>, id: &str| {
        let gates = fetch_execution_gates(link, id).await?;
        Ok((id.to_owned(), gates))
    };
    let (id, gates) = run_with_execution(link, execution_arg, fetch_gates).await?;
    let id = id.as_str();
    match filter_gates_by_step(gates, id, args.step.as_deref()) {
        Ok(gates) if !can_ask_person() => Err(no_terminal_error(id, &gates)),
        Ok(gates) => ask_all_gates(link, &gates, &args, flags, out).await,
        Err(error) if error.code() == Code::GateNotOpen => {
            let message = already_approved_message(link, id, args.step.as_deref()).await?;
            let Some(message) = message else {
                return Err(ended_execution_error(link, id, error).await?);
            };
            let answer = json!({ "success": true, "execution_id": id, "message": message });
            out.print_reply(&answer).map(|()| EXIT_OK)
        }
        Err(error) => Err(error),
    }
}

/// The refusal, with a message that the execution has ended if it has.
async fn ended_execution_error(
    link: &mut ServerLink<'_>,
    id: &str,
    refusal: Error,
) -> Result<Error> {
    let state = link.fetch_status(id).await?.state;
    if !is_final_state(&state) {
        return Ok(refusal);
    }
    let message = format!("execution '{id}' has ended, as {state}: nothing of it waits any more");
    Ok(refusal
        .with_message(message)
        .with_action("Run `midex show {execution_id}`: it shows the result of every step"))
}

/// The message that the gate was approved already, and by whom. `None` if it was not, or if its last visit was
/// rejected.
async fn already_approved_message(
    link: &mut ServerLink<'_>,
    id: &str,
    step: Option<&str>,
) -> Result<Option<String>> {
    let history = link.fetch_history(id).await?;
    let answer = history.iter().rev().find_map(|visit| {
        let gate_name = step_argument(&visit.step_name, visit.item);
        let is_meant = is_named_gate(&visit.step_name, &gate_name, step);
        let gate_answer = visit.answered.as_ref().filter(|_| is_meant)?;
        Some((gate_name, gate_answer))
    });
    let approval = answer.filter(|(_, gate_answer)| gate_answer.approved);
    Ok(approval.map(|(step, gate_answer)| {
        format!("gate '{step}' of '{id}' is approved already, by {}", gate_answer.by)
    }))
}

/// Asks the questions of these gates one after the other, and sends each answer.
async fn ask_all_gates(
    link: &mut ServerLink<'_>,
    gates: &[OpenGate],
    args: &ApproveArgs,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    let mut code = EXIT_OK;
    for (index, gate) in gates.iter().enumerate() {
        // An earlier answer may have ended the execution, and closed its gates.
        let is_open = index == 0 || {
            let current_gates = fetch_execution_gates(link, &gate.execution_id).await?;
            current_gates.iter().any(|open| open.wait == gate.wait)
        };
        if is_open {
            code = code.max(ask_and_answer_gate(link, gate, args.clone(), out).await?);
        }
    }
    if let (EXIT_OK, Some(last)) = (code, gates.last()) {
        return print_continue_command(link, &last.execution_id, flags, out).await;
    }
    Ok(code)
}

/// Asks the question of the gate, and sends the answer.
async fn ask_and_answer_gate(
    link: &mut ServerLink<'_>,
    gate: &OpenGate,
    args: ApproveArgs,
    out: &mut Output<'_>,
) -> Result<u8> {
    let decision = ask_gate_question(link, gate, &mut Prompt::stdin(), args.comment).await?;
    let Some((approved, comment)) = decision else {
        write_prompt("Left open.\n")?;
        return Ok(EXIT_FINDINGS);
    };
    let approver = args.name.unwrap_or_else(user_name);
    let answer = send_answer(link, gate, approved, approver, comment).await?;
    out.print_reply(&answer).map(|()| EXIT_OK)
}

/// Asks the question of an execution's first open gate at the prompt of another command; true if it was answered.
pub(super) async fn ask_at_prompt(
    link: &mut ServerLink<'_>,
    id: &str,
    input: &mut Prompt,
) -> Result<bool> {
    let Some(gate) = fetch_execution_gates(link, id).await?.into_iter().next() else {
        return Ok(false);
    };
    let Some((approved, reason)) = ask_gate_question(link, &gate, input, None).await? else {
        return Ok(false);
    };
    send_answer(link, &gate, approved, user_name(), reason).await.map(|_| true)
}

async fn send_answer(
    link: &mut ServerLink<'_>,
    gate: &OpenGate,
    approved: bool,
    approver: String,
    comment: Option<String>,
) -> Result<Value> {
    let wait = &gate.wait;
    let arguments = remove_nulls(json!({
        "execution_id": gate.execution_id, "step_name": wait.step_name, "visit": wait.visit,
        "shown": gate.gate.shown, "approved": approved, "by": approver, "comment": comment
    }));
    link.call("execution.approve", arguments).await
}

/// The gates that `step` names, or all that are open.
fn filter_gates_by_step(
    gates: Vec<OpenGate>,
    id: &str,
    step: Option<&str>,
) -> Result<Vec<OpenGate>> {
    let is_selected =
        |gate: &OpenGate| is_named_gate(&gate.wait.step_name, &gate.gate_name(), step);
    let selected: Vec<_> = gates.into_iter().filter(is_selected).collect();
    if selected.is_empty() {
        let message = format!("nothing of execution '{id}' waits for this approval");
        return Err(Error::new(Code::GateNotOpen, message)
            .with_context("execution_id", id)
            .with_action("Run `midex approve` to list what is asked"));
    }
    Ok(selected)
}

/// Whether the gate of `step` that is called `name` is the named one: `STEP`, or `STEP[N]` for item N, from 1.
fn is_named_gate(step: &str, name: &str, argument: Option<&str>) -> bool {
    argument.is_none_or(|named| step == named || name == named)
}

fn no_terminal_error(id: &str, gates: &[OpenGate]) -> Error {
    let message = "an approval is given on a terminal: there is none to show the question on";
    let names: Vec<_> = gates.iter().map(OpenGate::gate_name).collect();
    Error::new(Code::UsageInvalid, message)
        .with_context("execution_id", id)
        .with_context("gates", names.join(", "))
        .with_action(match gates {
            [_] => "Run `midex approve {execution_id}` in a terminal of your own",
            _ => "Run `midex approve {execution_id}` in a terminal of your own: it asks for {gates}, one after the other",
        })
}

/// Asks a person for the answer, and for the reason of a rejection. `None` if they leave the gate open.
async fn ask_gate_question(
    link: &mut ServerLink<'_>,
    gate: &OpenGate,
    input: &mut Prompt,
    comment: Option<String>,
) -> Result<Option<(bool, Option<String>)>> {
    write_prompt(&gate.question_page())?;
    let question = "Approve? [y]es, [r]eject, anything else leaves it open: ";
    let mut answer = read_answer_line(question, input, link).await?.unwrap_or_default();
    while asks_for_help(&answer) {
        write_prompt(
            "  yes lets it go on, reject asks why and fails the step; what you say is recorded with your name\n",
        )?;
        answer = read_answer_line(question, input, link).await?.unwrap_or_default();
    }
    if matches!(answer.to_lowercase().as_str(), "n" | "no") {
        // "No" is ambiguous: it may mean a rejection, or to leave the gate open.
        let question = "Not approved. [r]eject it, or leave it [o]pen: ";
        answer = read_answer_line(question, input, link).await?.unwrap_or_default();
    }
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(Some((true, comment))),
        "r" | "reject" if comment.is_some() => Ok(Some((false, comment))),
        "r" | "reject" => {
            let reason = read_answer_line("Why? (may be left empty): ", input, link).await?;
            Ok(reason.map(|why| (false, Some(why).filter(|why| !why.is_empty()))))
        }
        _ => Ok(None),
    }
}

/// Reads a line; `None` for Ctrl-C and Ctrl-D.
async fn read_answer_line(
    question: &str,
    input: &mut Prompt,
    link: &mut ServerLink<'_>,
) -> Result<Option<String>> {
    Ok(match input.read_line(question, &[], link).await? {
        PromptInput::Line(line) => Some(line.trim().to_owned()),
        PromptInput::End | PromptInput::Interrupt => None,
    })
}

/// The user name from the environment.
pub(super) fn user_name() -> String {
    let variables = ["USER", "LOGNAME"].into_iter();
    let name = variables.filter_map(|name| std::env::var(name).ok()).find(|name| !name.is_empty());
    name.unwrap_or_else(|| "somebody at this terminal".into())
}

impl OpenGate {
    fn to_json(&self) -> Value {
        let mut gate = json!(self.wait);
        (gate["execution_id"], gate["workflow_name"]) =
            (json!(self.execution_id), json!(self.workflow_name));
        gate
    }

    fn gate_name(&self) -> String {
        step_argument(&self.wait.step_name, self.wait.item)
    }

    fn to_choice(&self) -> PickerItem {
        PickerItem {
            key: self.execution_id.clone(),
            description: format!("{}, {}", self.workflow_name, self.gate_name()),
            question: self.gate.ask.clone(),
        }
    }

    fn summary_line(&self) -> String {
        let first_line = self.gate.ask.lines().next().unwrap_or_default();
        let parts =
            [self.execution_id.as_str(), &self.gate_name(), first_line].map(replace_hidden_chars);
        parts.join("  ") + "\n"
    }

    /// The question, with everything that the answer is bound to: the gate, its execution and workflow, and its
    /// approvers.
    fn question_page(&self) -> String {
        let mut text = format!(
            "Gate '{}' of execution '{}' (workflow '{}')\n",
            replace_hidden_chars(&self.gate_name()),
            replace_hidden_chars(&self.execution_id),
            replace_hidden_chars(&self.workflow_name)
        );
        let approvers = self.gate.approvers.iter();
        let approvers: Vec<_> = approvers.map(|name| replace_hidden_chars(name)).collect();
        if !approvers.is_empty() {
            text.extend(["To be answered by: ", &approvers.join(", "), "\n"]);
        }
        if let Some(deadline) = &self.wait.due {
            text.extend(["Until: ", &replace_hidden_chars(deadline), "\n"]);
        }
        text.push('\n');
        text += &Screen::stdout().indent_block(None, "  ", &self.gate.ask);
        text.push('\n');
        text
    }
}
