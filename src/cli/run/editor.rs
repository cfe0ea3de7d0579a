//! Lets the user write outputs in an editor.

use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
    process::Stdio,
};

use tokio::process::Command;

use super::{
    draft::AnswerDraft,
    input::{read_file, unusable_file_error},
    submission::{StepSubmission, parse_person_text},
};
use crate::{message_with_violations, screen::one_line, steps::OpenStep};
use midex_domain::{
    error::{Code, Error, Result, describe_io_error},
    limits,
    view::PreviousOutput,
};

/// The template below this line is not part of the output.
const TEMPLATE_CUT_LINE: &str = "# ------------------------ >8 ------------------------";

/// The user's editor.
pub(super) struct Editor {
    command: String,
    /// The last text that was refused.
    refused_text: Option<String>,
}

impl Editor {
    /// The editor that `VISUAL` or `EDITOR` names.
    ///
    /// # Errors
    /// `USAGE_INVALID` if neither does.
    pub(super) fn from_environment() -> Result<Self> {
        let read_variable = |name| env::var(name).ok().filter(|text| !text.trim().is_empty());
        let command = read_variable("VISUAL").or_else(|| read_variable("EDITOR"));
        Ok(Self {
            command: command.ok_or_else(|| {
                Error::new(
                    Code::UsageInvalid,
                    "--editor: neither VISUAL nor EDITOR names an editor",
                )
                .with_action("Set EDITOR, or leave --editor out; nothing was started")
            })?,
            refused_text: None,
        })
    }

    /// Opens the editor until its text parses as an output. `None` if the user leaves the text empty.
    ///
    /// # Errors
    /// The complaint itself if the user leaves a refused text unchanged; `FILE_UNUSABLE` if the editor fails.
    pub(super) async fn ask_for_output(
        &mut self,
        open_steps: &[OpenStep],
        complaint: Option<Error>,
        draft: &mut AnswerDraft,
    ) -> Result<Option<StepSubmission>> {
        let mut complaint = complaint;
        if complaint.is_none() {
            self.refused_text = None;
        }
        loop {
            let initial_text = self.refused_text.clone().unwrap_or_default();
            let reason = complaint.as_ref().map(message_with_violations).unwrap_or_default();
            let text =
                self.edit_text(&initial_text, &editor_template(&open_steps[0], &reason)).await?;
            if text.is_empty() || (complaint.is_some() && text == initial_text) {
                return match complaint {
                    Some(error) if !text.is_empty() => Err(error),
                    _ => Ok(None),
                };
            }
            self.refused_text = Some(text.clone());
            draft.begin_version();
            draft.text.clone_from(&text);
            match parse_person_text(&text, open_steps) {
                Ok(submission) => return Ok(Some(submission)),
                Err(error) => complaint = Some(error),
            }
        }
    }

    /// Opens the editor with `initial_text` above the template; returns the user's own text.
    async fn edit_text(&self, initial_text: &str, template: &str) -> Result<String> {
        let mut file = tempfile::Builder::new()
            .prefix("midex-")
            .suffix(".md")
            .tempfile()
            .map_err(|error| unwritable_file_error(&env::temp_dir(), error))?;
        write!(file, "{initial_text}\n{template}")
            .map_err(|error| unwritable_file_error(file.path(), error))?;
        self.run_editor(file.path()).await?;
        let text = read_file(file.path(), limits::FRAME_BYTES_MAX)?;
        Ok(text_above_template(&text))
    }

    /// Runs the editor through a shell, because the variable may hold arguments too.
    async fn run_editor(&self, path: &Path) -> Result<()> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{} \"$1\"", self.command))
            .arg("sh")
            .arg(path)
            .kill_on_drop(true);
        // If stdout is not a terminal it is reserved for data, so the editor draws on stderr.
        if !io::stdout().is_terminal() {
            command.stdout(Stdio::from(io::stderr()));
        }
        let status = command.status().await;
        let editor_error = |problem: String| {
            Error::new(Code::FileUnusable, format!("the editor `{}` {problem}", self.command))
                .with_action("Set EDITOR to a program that ends well, or leave --editor out")
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(editor_error(format!("ended with {status}"))),
            Err(error) => Err(editor_error("could not be started".into()).with_source(error)),
        }
    }
}

fn unwritable_file_error(path: &Path, error: io::Error) -> Error {
    let message = format!("{} cannot be written: {}", path.display(), describe_io_error(&error));
    unusable_file_error(path, message).with_source(error)
}

/// The comments below the user's text: instructions, and why the previous text was refused.
fn editor_template(step: &OpenStep, complaint: &str) -> String {
    let ready = &step.ready;
    let mut lines = vec![
        "Write the output of this step above the line. A text becomes its summary; what begins with".into(),
        "{ is JSON. Leave it empty to stop here. Comments below the line are ignored.".into(),
        String::new(),
    ];
    lines.extend(complaint.lines().map(str::to_owned));
    lines.push(format!(
        "[{}] {} ({}): {}",
        one_line(&ready.progress),
        one_line(step.name()),
        ready.agent_name.as_deref().unwrap_or("-"),
        ready.description
    ));
    for (name, value) in [
        ("inputs", step.inputs.as_ref()),
        ("input", step.input()),
        ("output_schema", ready.output_schema.as_ref()),
        ("example", ready.step.example.as_ref()),
    ] {
        lines.extend(value.map(|value| format!("{name}: {value}")));
    }
    for section in [
        previous_outputs_text(&ready.previous).as_str(),
        step.agent_content.as_deref().unwrap_or_default(),
        &ready.instructions,
    ] {
        lines.push(String::new());
        lines.extend(section.lines().map(str::to_owned));
    }
    let text = lines.join("\n");
    let commented = text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n");
    format!("{TEMPLATE_CUT_LINE}\n{}", commented.collect::<String>())
}

fn previous_outputs_text(previous: &[PreviousOutput]) -> String {
    let outputs = previous.iter();
    let outputs = outputs.map(|step| format!("{}: {}", one_line(&step.step_name), step.output));
    outputs.collect::<Vec<_>>().join("\n")
}

/// The user's text: everything above the cut line, and lines below it that are not comments, because an editor may
/// append text at the end.
fn text_above_template(text: &str) -> String {
    let mut is_below_cut = false;
    let mut own_lines = Vec::new();
    for line in text.lines() {
        if line.trim_end() == TEMPLATE_CUT_LINE {
            is_below_cut = true;
        } else if !(is_below_cut && line.starts_with('#')) {
            own_lines.push(line);
        }
    }
    own_lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_template_is_removed() {
        let step =
            json!({ "step_name": "a", "agent_content": "# Worker\nX", "description": "Do\nit" });
        let template = editor_template(&OpenStep::from_fields(&step), "wrong\n  a: b");
        assert_eq!(text_above_template(&template), "");
        assert_eq!(text_above_template(&format!("\n{template}")), "");
        assert_eq!(text_above_template(&format!("# Title\n\ntext\n{template}")), "# Title\n\ntext");
        assert_eq!(text_above_template(&format!("\n{template}added\n")), "added");
        assert_eq!(text_above_template("# only this\n"), "# only this");
    }
}
