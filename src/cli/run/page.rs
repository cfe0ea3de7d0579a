//! Prints a run: its steps, what was submitted for them, and how it ended. With JSON output, prints each reply.

use std::{collections::HashSet, fmt::Write as _, io::Write as _};

use serde_json::Value;

use super::{
    EndedExecution,
    submission::{StepReport, StepSubmission},
};
use crate::{
    Output,
    command::{insert_flags, quote_operand},
    continuation::find_continuation,
    link::is_final_state,
    screen::{Screen, TextStyle, one_line, truncate_text},
    show::end_effects_section,
    steps::OpenStep,
    value::{
        field_lines, final_output_faults, format_duration, json_text, list_items, one_line_summary,
        optional_text_line as in_line, text_field,
    },
    visible::replace_hidden_chars,
    waits,
};
use midex_domain::{
    clock::{Clock, SystemClock},
    error::Result,
    view::{AdvanceReply, CurrentStep, StatusView, StepView},
};

/// The margin of text from the workflow's author.
const AUTHOR_TEXT_MARGIN: &str = "  │ ";
/// The margin of the other lines of a step.
const STEP_LINE_INDENT: &str = "  ";

/// The printed output of a run, and a record of what is printed already.
pub(super) struct RunPage<'a> {
    out: Output<'a>,
    screen: Screen,
    /// The flags that a follow-up command needs to reach the same executions.
    flags: &'a str,
    /// The visits that were shown.
    steps: HashSet<String>,
    /// The agents whose personas were shown.
    agents: HashSet<String>,
    /// Whether personas are printed in full.
    has_personas: bool,
    /// The waits that were printed last, to print them only when they change.
    last_waits: String,
    /// The execution that the last printed reply reports as ended.
    ended_id: Option<String>,
}

impl<'a> RunPage<'a> {
    pub(super) fn new(out: Output<'a>, has_personas: bool, flags: &'a str) -> Self {
        Self {
            out,
            flags,
            screen: Screen::stdout(),
            steps: HashSet::new(),
            agents: HashSet::new(),
            has_personas,
            last_waits: String::new(),
            ended_id: None,
        }
    }

    /// Whether the output is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.out.is_json
    }

    /// Prints that the execution was started.
    pub(super) fn print_started(
        &mut self,
        reply: &Value,
        execution: &AdvanceReply,
        inputs: Option<&Value>,
    ) -> Result<()> {
        let name = self.paint_bold(&execution.workflow_name);
        let id = one_line(&execution.execution_id);
        let text = format!("Started {name} as {id}\n{}", self.inputs_text(inputs));
        self.print_reply(reply, &execution.execution_id, &execution.workflow_state, &text)
    }

    /// The inputs of the execution, one value a line.
    fn inputs_text(&self, inputs: Option<&Value>) -> String {
        let Some(Value::Object(fields)) = inputs else {
            return String::new();
        };
        let line = |(name, value): (&String, &Value)| {
            self.named_line(&one_line(name), &one_line_summary(value))
        };
        fields.iter().filter(|(_, value)| !value.is_null()).map(line).collect()
    }

    /// Prints that an existing execution continues, and its inputs.
    pub(super) fn print_resumed(
        &mut self,
        reply: &Value,
        status: &StatusView,
        inputs: Option<&Value>,
    ) -> Result<()> {
        let name = self.paint_bold(&status.workflow_name);
        let (id, steps) = (one_line(&status.execution_id), &status.steps);
        let done = format!("{} of {} steps done", steps.completed, steps.total);
        let text = if is_final_state(&status.state) {
            format!("{id} of {name} has ended, {done}\n")
        } else {
            format!("Going on with {id} of {name}, {done}\n")
        };
        let text = text + &self.inputs_text(inputs);
        self.print_reply(reply, &status.execution_id, &status.state, &text)
    }

    /// Prints a step: what to do, and as which agent. Each visit is printed once.
    pub(super) fn print_step(&mut self, step: &OpenStep) -> Result<()> {
        if self.is_json() || !self.steps.insert(step.turn_key()) {
            return Ok(());
        }
        let text = self.step_text(step);
        self.out.write_unchanged(text)
    }

    fn step_text(&mut self, step: &OpenStep) -> String {
        let ready = &step.ready;
        let agent = in_line(ready.agent_name.as_deref());
        let title = format!(
            "[{}] {}{}{}",
            one_line(&ready.progress),
            one_line(step.name()),
            item_suffix(&ready.step),
            attempt_suffix(&ready.step)
        );
        let title = self.screen.paint(TextStyle::Bold, &title);
        let agent_suffix = if agent.is_empty() { String::new() } else { format!(" ({agent})") };
        let mut text = format!("\n{title}{agent_suffix}\n");
        text += &self.screen.indent_block(None, STEP_LINE_INDENT, &ready.description);
        if !agent.is_empty() {
            text += &self.persona_text(step, &agent);
        }
        text += &self.screen.indent_block(None, AUTHOR_TEXT_MARGIN, &ready.instructions);
        // The properties of an `input` step are asked one by one, so they are not listed here.
        if let Some(input) = step.input().filter(|_| step.kind() != "input") {
            text += &self.named_line("input", "");
            text += &self.screen.indent_block(None, AUTHOR_TEXT_MARGIN, &json_text(input, true));
        }
        for previous in &ready.previous {
            let name = format!("before, {}", one_line(&previous.step_name));
            text += &self.named_line(&name, &one_line_summary(&previous.output));
        }
        text += &self.expected_output_text(step);
        self.agents.insert(agent);
        text
    }

    /// The persona of an agent: its first line of prose, or the full text with `--persona`.
    fn persona_text(&self, step: &OpenStep, agent: &str) -> String {
        let persona = step.agent_content.as_deref().unwrap_or_default();
        if self.agents.contains(agent) || persona.is_empty() {
            return String::new();
        }
        if self.has_personas {
            return self.screen.indent_block(Some(TextStyle::Dim), AUTHOR_TEXT_MARGIN, persona);
        }
        let words =
            persona.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let words = one_line(words.unwrap_or_default());
        self.named_line("persona (--persona shows it)", &words)
    }

    /// The form of the output, if the step declares one and its values are not asked one by one.
    fn expected_output_text(&self, step: &OpenStep) -> String {
        let schema = step.ready.output_schema.as_ref();
        let Some(schema) = schema.filter(|_| step.kind() != "input") else {
            return String::new();
        };
        let names = schema["properties"].as_object().map(|properties| {
            let required = list_items(&schema["required"]);
            let name = |name: &String| {
                let mark = if required.contains(&Value::from(name.as_str())) { "" } else { "?" };
                format!("{}{mark}", one_line(name))
            };
            properties.keys().map(name).collect::<Vec<_>>().join(", ")
        });
        let expected = names.unwrap_or_else(|| one_line(&schema.to_string()));
        self.named_line("expected", &expected)
    }

    /// Prints the description of a workflow before its inputs are asked for.
    pub(super) fn print_inputs_intro(&mut self, name: &str, description: &str) -> Result<()> {
        let text = format!("{}\n", self.paint_bold(name));
        self.print_text(&(text + &self.screen.indent_block(None, STEP_LINE_INDENT, description)))
    }

    /// Prints that the run continues with a child execution.
    pub(super) fn print_child(&mut self, id: &str) -> Result<()> {
        self.print_text(&format!("\nIts child {} is next\n", replace_hidden_chars(id)))
    }

    /// Prints how a child execution ended.
    pub(super) fn print_child_end(&mut self, status: &StatusView) -> Result<()> {
        let id = one_line(&status.execution_id);
        let state = self.screen.paint_state(&status.state);
        self.print_text(&format!("\nThe child {id} is {state}{}\n", outcome_text(status)))
    }

    /// Prints, once, what the execution waits for if no step is open, and the commands that answer it.
    pub(super) fn print_waits(&mut self, current: &CurrentStep) -> Result<()> {
        let now = SystemClock.now();
        let mut text = String::new();
        let mut waits_key = String::new();
        for wait in &current.waits {
            text += &self.screen.indent_block(None, "", &waits::describe_wait(wait, now, true));
            // Compare the waits without the remaining time, which changes constantly.
            let _ = write!(waits_key, "{wait:?}");
            if let Some(action) = waits::find_wait_action(wait, (&current.execution_id, &[]), now) {
                let command = insert_flags(&replace_hidden_chars(&action.command), self.flags);
                let _ = writeln!(text, "{STEP_LINE_INDENT}{command}");
            }
        }
        if self.is_json() || text.is_empty() || self.last_waits == waits_key {
            return Ok(());
        }
        self.last_waits = waits_key;
        self.out.write_unchanged(format!("\n{text}"))
    }

    /// Prints a submission, unless a person typed it.
    pub(super) fn print_submission(&mut self, submission: &StepSubmission) -> Result<()> {
        if submission.is_by_person {
            return Ok(());
        }
        let text = match &submission.report {
            StepReport::Output(output) => self.named_line("output", &one_line_summary(output)),
            StepReport::Error(error) => self.named_line("error", &text_field(error, "message")),
        };
        self.print_text(&text)
    }

    /// Prints how the execution ended, and which of its effects were compensated.
    pub(super) fn print_end(&mut self, execution: &EndedExecution) -> Result<()> {
        let status = &execution.status;
        if self.is_json() {
            // The server may have run further steps after the last reply.
            let is_printed = self.ended_id.as_ref() == Some(&status.execution_id);
            return if is_printed {
                Ok(())
            } else {
                self.print_reply(&execution.reply, &status.execution_id, &status.state, "")
            };
        }
        let state = self.screen.paint_state(&status.state);
        let mut text = format!("\n{state}{}\n", outcome_text(status));
        let reason = in_line(status.reason.as_deref());
        if !reason.is_empty() {
            text += &self.named_line("reason", &reason);
        }
        let duration = status.duration_ms.map(format_duration);
        let (completed, total) = (status.steps.completed, status.steps.total);
        text += &self.named_line(
            "steps",
            &format!("{completed} of {total} in {}", duration.unwrap_or_default()),
        );
        let output = status.final_output.as_ref().map(field_lines).unwrap_or_default();
        for line in output.into_iter().chain(final_output_faults(status)) {
            text += &self.screen.indent_block(None, STEP_LINE_INDENT, &line);
        }
        for line in end_effects_section(status, &execution.history, &self.screen).lines() {
            let _ = writeln!(text, "{STEP_LINE_INDENT}{line}");
        }
        let command = format!("midex show {}", quote_operand(&status.execution_id));
        text += &self.named_line("more", &insert_flags(&command, self.flags));
        if let Some(action) = find_continuation(status) {
            text += &self.named_line("retry", &insert_flags(&action.command, self.flags));
        }
        self.print_text(&text)
    }

    /// Prints why the run stops, and the commands that continue it.
    pub(super) fn print_stop(&mut self, reason: &str, commands: &[String]) -> Result<()> {
        let mut text = String::new();
        if !reason.is_empty() {
            text.push('\n');
            text += &self.screen.indent_block(None, "", reason);
        }
        if let Some((first, rest)) = commands.split_first() {
            text.extend(["To go on: ", &replace_hidden_chars(first), "\n"]);
            for command in rest {
                text.extend(["    then: ", &replace_hidden_chars(command), "\n"]);
            }
        }
        if self.is_json() {
            let mut stderr = anstream::stderr().lock();
            let _ = write!(stderr, "{}", text.trim_start());
            return Ok(());
        }
        self.out.write_unchanged(text)
    }

    fn paint_bold(&self, name: &str) -> String {
        self.screen.paint(TextStyle::Bold, &one_line(name))
    }

    /// A named line, cut to the width.
    fn named_line(&self, name: &str, text: &str) -> String {
        let columns = self.screen.columns().saturating_sub(STEP_LINE_INDENT.len() + name.len() + 2);
        let name = self.screen.paint(TextStyle::Dim, &format!("{name}:"));
        format!("{STEP_LINE_INDENT}{name} {}\n", truncate_text(text, columns))
    }

    /// Prints a reply about the execution `id` in `state`: as one line of JSON, or as `text`.
    pub(super) fn print_reply(
        &mut self,
        reply: &Value,
        id: &str,
        state: &str,
        text: &str,
    ) -> Result<()> {
        if self.is_json() {
            self.ended_id = is_final_state(state).then(|| id.to_owned());
            return self.out.write_unchanged(json_text(reply, false) + "\n");
        }
        self.out.write_unchanged(text)
    }

    fn print_text(&mut self, text: &str) -> Result<()> {
        if self.is_json() {
            return Ok(());
        }
        self.out.write_unchanged(text)
    }
}

/// ` (item 2 of 6)` for a step inside a `foreach`; else empty.
fn item_suffix(step: &StepView) -> String {
    let total_suffix = step.items.map(|items| format!(" of {items}"));
    step.item.map_or_else(String::new, |item| {
        format!(" (item {}{})", item + 1, total_suffix.unwrap_or_default())
    })
}

/// ` (attempt 2)` for a repeated attempt; else empty.
fn attempt_suffix(step: &StepView) -> String {
    match step.attempt {
        number @ 2.. => format!(" (attempt {number})"),
        _ => String::new(),
    }
}

/// The error of an execution, or a success message, to print after its state.
fn outcome_text(status: &StatusView) -> String {
    let Some(error) = &status.error else {
        return match status.state.as_str() {
            "completed" => ": Workflow completed successfully".into(),
            _ => String::new(),
        };
    };
    let message = one_line(&error.message);
    match &error.step_name {
        Some(step) => format!(": step '{}': {message}", one_line(step)),
        None => format!(": {message}"),
    }
}
