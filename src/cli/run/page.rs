//! Prints a run: the steps, what was submitted for them, and how the run ended; or each reply as JSON.

use std::{collections::HashSet, io::Write as _};

use serde_json::Value;

use super::submission::{Report, Submission};
use crate::{
    cli::{
        Output,
        screen::{Screen, Style, cut, one_line},
        value::{duration, field, fields, final_output_faults, gist, json_text},
        visible::visible,
    },
    error::Result,
};

/// The margin of the text that a model would be given.
const MARGIN: &str = "  │ ";
/// The margin of the other lines of a step.
const INDENT: &str = "  ";

/// The printed page of a run, and what is on it already.
pub(super) struct Page<'a> {
    out: Output<'a>,
    screen: Screen,
    /// The visits that were shown.
    steps: HashSet<String>,
    /// The agents whose personas were shown.
    agents: HashSet<String>,
    /// The last message about what the execution waits for.
    waited: String,
}

impl<'a> Page<'a> {
    pub(super) fn new(out: Output<'a>) -> Self {
        Self {
            out,
            screen: Screen::stdout(),
            steps: HashSet::new(),
            agents: HashSet::new(),
            waited: String::new(),
        }
    }

    /// Whether the page is JSON.
    pub(super) fn json(&self) -> bool {
        self.out.json
    }

    /// Prints that the execution was started.
    pub(super) fn started(&mut self, reply: &Value, inputs: Option<&Value>) -> Result<()> {
        let name = self.bold(reply, "workflow_name");
        let mut text = format!("Started {name} as {}\n", field(reply, "execution_id"));
        if let Some(inputs) = inputs {
            text += &self.line("inputs", &gist(inputs));
        }
        self.reply(reply, &text)
    }

    /// Prints that an existing execution goes on.
    pub(super) fn resumed(&mut self, reply: &Value, status: &Value) -> Result<()> {
        let name = self.bold(status, "workflow_name");
        let text = format!(
            "Going on with {} of {name}, {} of {} steps done\n",
            field(status, "execution_id"),
            status["steps"]["completed"],
            status["steps"]["total"]
        );
        self.reply(reply, &text)
    }

    /// Prints a step: what to do, and as which agent. Each visit is printed once.
    pub(super) fn step(&mut self, step: &Value) -> Result<()> {
        let visit = format!(
            "{} {} {} {}",
            step["step_name"], step["visit"], step["attempt"], step["item"]
        );
        if self.json() || !self.steps.insert(visit) {
            return Ok(());
        }
        let text = self.step_text(step);
        self.out.write(text)
    }

    fn step_text(&mut self, step: &Value) -> String {
        let agent = field(step, "agent_name");
        let title = format!("[{}] {}", field(step, "progress"), field(step, "step_name"));
        let title = self.screen.paint(Style::Bold, &title);
        let by = if agent.is_empty() {
            String::new()
        } else {
            format!(" ({agent})")
        };
        let description = field(step, "description");
        let what = if description.is_empty() {
            description
        } else {
            format!(": {description}")
        };
        let mut text = format!("\n{title}{by}{what}\n\n");
        let dim = |text: &str| self.screen.block(Some(Style::Dim), MARGIN, text);
        if !agent.is_empty() && self.agents.contains(&agent) {
            text += &dim(&format!("(the persona of {agent} as above)\n"));
        } else if !agent.is_empty() {
            let persona = step["agent_content"].as_str().unwrap_or_default();
            text += &dim(&format!("{persona}\n"));
        }
        text += &dim(step["instructions"].as_str().unwrap_or_default());
        text.push('\n');
        if let Some(input) = step.get("input") {
            text += &dim(&format!("input: {}\n", json_text(input, true)));
        }
        if let Some(schema) = step.get("output_schema").filter(|schema| !schema.is_null()) {
            text += &self.line("output schema", &one_line(&schema.to_string()));
        }
        for before in step["previous"].as_array().into_iter().flatten() {
            let name = format!("previous {}", field(before, "step_name"));
            text += &self.line(&name, &gist(&before["output"]));
        }
        self.agents.insert(agent);
        text
    }

    /// Prints, once, what the execution waits for if no step is open.
    pub(super) fn waits(&mut self, current: &Value) -> Result<()> {
        let said = current["message"].as_str().unwrap_or_default();
        if self.json() || said.is_empty() || self.waited == said {
            return Ok(());
        }
        said.clone_into(&mut self.waited);
        // The part of the message that tells a model what to call is of no use to people.
        let what = said.split(". Call ").next().unwrap_or_default();
        let what = what.rsplit_once("now: ").map_or(what, |(_, what)| what);
        self.out.write(format!("\n{}\n", one_line(what)))
    }

    /// Prints a submission that no person wrote.
    pub(super) fn submission(&mut self, submission: &Submission) -> Result<()> {
        if submission.is_by_person {
            return Ok(());
        }
        let text = match &submission.report {
            Report::Output(output) => self.line("output", &gist(output)),
            Report::Error(error) => self.line("error", &field(error, "message")),
        };
        self.text(&text)
    }

    /// Prints a submission that was not recorded, so that its text is not lost.
    pub(super) fn not_recorded(submission: &Submission) {
        let (Report::Output(value) | Report::Error(value)) = &submission.report;
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "not recorded: {}", json_text(value, false));
    }

    /// Prints how the execution ended.
    pub(super) fn ended(&mut self, status: &Value) -> Result<()> {
        let state = status["state"].as_str().unwrap_or_default();
        let mut text = format!("\n{}{}\n", self.screen.state(state), outcome(status));
        let reason = field(status, "reason");
        if !reason.is_empty() {
            text += &self.line("reason", &reason);
        }
        let took = status["duration_ms"].as_u64().map(duration);
        let (done, total) = (&status["steps"]["completed"], &status["steps"]["total"]);
        text += &self.line(
            "steps",
            &format!("{done} of {total} in {}", took.unwrap_or_default()),
        );
        if !status["final_output"].is_null() {
            for line in fields(&status["final_output"]) {
                text += &self.screen.block(None, INDENT, &line);
            }
        }
        for line in final_output_faults(status) {
            text += &self.screen.block(None, INDENT, &line);
        }
        text += &self.line(
            "more",
            &format!("midex show {}", field(status, "execution_id")),
        );
        self.text(&text)
    }

    /// Prints why the run stops, and the commands that go on.
    pub(super) fn stopped(&mut self, why: &str, commands: &[String]) -> Result<()> {
        let mut text = String::new();
        if !why.is_empty() {
            text.extend(["\n", &visible(why), "\n"]);
        }
        if let Some((first, rest)) = commands.split_first() {
            text.extend(["To go on: ", &visible(first), "\n"]);
            for command in rest {
                text.extend(["    then: ", &visible(command), "\n"]);
            }
        }
        if self.json() {
            let mut stderr = anstream::stderr().lock();
            let _ = write!(stderr, "{}", text.trim_start());
            return Ok(());
        }
        self.out.write(text)
    }

    fn bold(&self, value: &Value, name: &str) -> String {
        self.screen.paint(Style::Bold, &field(value, name))
    }

    /// A named line, cut to the width.
    fn line(&self, name: &str, text: &str) -> String {
        let room = self
            .screen
            .columns()
            .saturating_sub(INDENT.len() + name.len() + 2);
        let name = self.screen.paint(Style::Dim, &format!("{name}:"));
        format!("{INDENT}{name} {}\n", cut(text, room))
    }

    /// Prints a reply: as JSON in one line, or as `text`.
    pub(super) fn reply(&mut self, reply: &Value, text: &str) -> Result<()> {
        if self.json() {
            return self.out.write(json_text(reply, false) + "\n");
        }
        self.out.write(text)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if self.json() {
            return Ok(());
        }
        self.out.write(text)
    }
}

/// The outcome of an execution, after its state: the error, or the success.
fn outcome(status: &Value) -> String {
    let error = &status["error"];
    let (step, message) = (field(error, "step_name"), field(error, "message"));
    match status["state"].as_str() {
        Some("completed") if error.is_null() => ": Workflow completed successfully".into(),
        _ if error.is_null() => String::new(),
        _ if step.is_empty() => format!(": {message}"),
        _ => format!(": step '{step}': {message}"),
    }
}
