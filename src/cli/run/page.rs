//! What a run shows: the steps with what to do, what was handed in, and how it ended; or each reply as JSON.

use std::{collections::HashSet, io::Write};

use serde_json::Value;

use super::handed::{Report, Submission};
use crate::{
    cli::{
        screen::{Screen, Style, cut, one_line},
        unwritable,
        value::{duration, field, fields, gist, json_text},
        visible::visible,
    },
    error::Result,
};

/// What stands before the text that a model would be given.
const MARGIN: &str = "  │ ";
/// What stands before other lines of a step.
const INDENT: &str = "  ";

/// Stdout, as a reader or as a program takes it.
pub(super) struct Page<'a> {
    out: &'a mut dyn Write,
    screen: Screen,
    json: bool,
    /// The visits that were shown.
    steps: HashSet<String>,
    /// The agents whose personas were shown.
    agents: HashSet<String>,
    /// What was last said to be waited for.
    waited: String,
}

impl<'a> Page<'a> {
    pub(super) fn new(json: bool, out: &'a mut dyn Write) -> Self {
        Self {
            out,
            screen: Screen::stdout(),
            json,
            steps: HashSet::new(),
            agents: HashSet::new(),
            waited: String::new(),
        }
    }

    /// The execution was started.
    pub(super) fn started(&mut self, reply: &Value, inputs: Option<&Value>) -> Result<()> {
        let name = self.bold(reply, "workflow_name");
        let mut text = format!("Started {name} as {}\n", field(reply, "execution_id"));
        if let Some(inputs) = inputs {
            text += &self.line("inputs", &gist(inputs));
        }
        self.reply(reply, &text)
    }

    /// The execution was there before.
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

    /// A step was accepted.
    pub(super) fn replied(&mut self, reply: &Value) -> Result<()> {
        self.reply(reply, "")
    }

    /// What to do, as whom. Each visit is shown once.
    pub(super) fn step(&mut self, step: &Value) -> Result<()> {
        let visit = format!(
            "{} {} {} {}",
            step["step_name"], step["visit"], step["attempt"], step["item"]
        );
        if self.json || !self.steps.insert(visit) {
            return Ok(());
        }
        let text = self.step_text(step);
        self.write(&text)
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

    /// Nothing is to be done now: says once what is waited for.
    pub(super) fn waits(&mut self, current: &Value) -> Result<()> {
        let said = current["message"].as_str().unwrap_or_default();
        if self.json || said.is_empty() || self.waited == said {
            return Ok(());
        }
        said.clone_into(&mut self.waited);
        // How a model is told of it is nothing for people.
        let what = said.split(". Call ").next().unwrap_or_default();
        let what = what.rsplit_once("now: ").map_or(what, |(_, what)| what);
        let text = format!("\n{}\n", one_line(what));
        self.write(&text)
    }

    /// What is handed in.
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

    /// What a person wrote must not be lost with the call that failed.
    pub(super) fn not_recorded(submission: &Submission) {
        let (Report::Output(value) | Report::Error(value)) = &submission.report;
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "not recorded: {}", json_text(value, false));
    }

    /// The execution has ended.
    pub(super) fn ended(&mut self, status: &Value) -> Result<()> {
        let state = status["state"].as_str().unwrap_or_default();
        let mut text = format!("\n{}", self.screen.state(state));
        let error = &status["error"];
        if error.is_null() {
            text += match state {
                "completed" => ": Workflow completed successfully\n",
                _ => "\n",
            };
        } else {
            let step = field(error, "step_name");
            let step = if step.is_empty() {
                step
            } else {
                format!("step '{step}': ")
            };
            text.extend([": ", &step, &field(error, "message"), "\n"]);
        }
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
        for fault in status["final_output_error"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let part = fault["part"].as_str().unwrap_or("final_output");
            let line = format!("{part} could not be computed: {}", field(fault, "message"));
            text += &self.screen.block(None, INDENT, &line);
        }
        text += &self.line(
            "more",
            &format!("midex show {}", field(status, "execution_id")),
        );
        self.text(&text)
    }

    /// It ends here, and these commands go on.
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
        if self.json {
            let mut stderr = anstream::stderr().lock();
            let _ = write!(stderr, "{}", text.trim_start());
            return Ok(());
        }
        self.write(&text)
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

    /// A reply: as JSON, or as this text.
    fn reply(&mut self, reply: &Value, text: &str) -> Result<()> {
        if self.json {
            let line = json_text(reply, false) + "\n";
            return self.write(&line);
        }
        self.write(text)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if self.json { Ok(()) } else { self.write(text) }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written.and_then(|()| self.out.flush()).map_err(unwritable)
    }
}
