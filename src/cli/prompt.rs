//! Reads lines that a person types, with editing, history and completion if the terminal supports them. Ctrl-C and
//! Ctrl-D are reported as answers, so that the caller can say what was not done.

pub(super) mod stop;

use std::{
    io::{self, IsTerminal},
    sync::mpsc,
};

use rustyline::{
    Context, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::MemHistory, validate::Validator,
};
use tokio::sync::mpsc as channel;

use super::{link::ServerLink, question, run::input::StdinLines};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The result of reading a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptInput {
    /// A line without its line end; pasted text may hold several lines.
    Line(String),
    /// Ctrl-D, or the end of standard input.
    End,
    /// Ctrl-C.
    Interrupt,
}

/// The reader of a person's input.
pub(super) enum Prompt {
    /// Reads plain lines: the terminal cannot edit, or stdin, stdout and stderr are not all terminals.
    Plain(StdinLines),
    Editor(LineEditor),
}

impl Prompt {
    /// A prompt on standard input. Lines are edited if stdin, stdout and stderr are terminals that support it.
    pub(super) fn stdin() -> Self {
        let are_terminals =
            [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
        let can_edit = are_terminals.iter().all(|is_terminal| *is_terminal) && !is_dumb_terminal();
        if can_edit { Self::Editor(LineEditor::start()) } else { Self::Plain(StdinLines::stdin()) }
    }

    /// Asks for a line; `choices` complete a begun word. If the line is slow to arrive, the embedded server releases
    /// the store.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` past [`limits::FRAME_BYTES_MAX`]; `FILE_UNUSABLE` where standard input cannot be read.
    pub(super) async fn read_line(
        &mut self,
        question: &str,
        choices: &[String],
        link: &mut ServerLink<'_>,
    ) -> Result<PromptInput> {
        match self {
            Self::Plain(input) => {
                question::write_prompt(question)?;
                let line = input.next_line(link).await?;
                Ok(line.map_or(PromptInput::End, |typed| {
                    PromptInput::Line(typed.trim_end_matches(['\n', '\r']).to_owned())
                }))
            }
            Self::Editor(editor) => editor.read_line(question, choices, link).await,
        }
    }
}

/// Whether `TERM` names a terminal that can only print.
fn is_dumb_terminal() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    ["", "dumb", "cons25", "emacs"].contains(&term.as_str())
}

/// A line editor on a thread of its own, because it blocks while it waits for keys.
pub(super) struct LineEditor {
    question_sender: mpsc::Sender<(String, Vec<String>)>,
    line_receiver: channel::UnboundedReceiver<Result<PromptInput>>,
}

impl LineEditor {
    fn start() -> Self {
        stop::install_stop_handlers();
        let (question_sender, question_receiver) = mpsc::channel::<(String, Vec<String>)>();
        let (line_sender, line_receiver) = channel::unbounded_channel();
        std::thread::spawn(move || {
            let mut editor = make_editor();
            let printer = editor.as_mut().ok().and_then(|it| it.create_external_printer().ok());
            if let Some(printer) = printer {
                stop::set_redraw_printer(Box::new(printer));
            }
            for (question, choices) in question_receiver {
                let line = match &mut editor {
                    Ok(editor) => {
                        stop::run_reading(|| read_edited_line(editor, &question, choices))
                    }
                    Err(error) => Err(unreadable_input_error(&error.to_string())),
                };
                if line_sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { question_sender, line_receiver }
    }

    async fn read_line(
        &mut self,
        question: &str,
        choices: &[String],
        link: &mut ServerLink<'_>,
    ) -> Result<PromptInput> {
        let reader_error = || unreadable_input_error("its reader has ended");
        let question = (question.to_owned(), choices.to_vec());
        self.question_sender.send(question).map_err(|_| reader_error())?;
        let line = tokio::select! {
            typed = self.line_receiver.recv() => typed,
            () = tokio::time::sleep(limits::OUTPUT_LINE_GRACE) => {
                link.release_store().await?;
                self.line_receiver.recv().await
            }
        };
        line.ok_or_else(reader_error)?
    }
}

/// Restores the terminal if the command ends while a line is read.
impl Drop for LineEditor {
    fn drop(&mut self) {
        stop::restore_terminal();
    }
}

fn make_editor() -> rustyline::Result<Editor<ChoiceCompleter, MemHistory>> {
    let config = rustyline::Config::builder()
        .max_history_size(limits::PROMPT_HISTORY_MAX)?
        .completion_type(rustyline::CompletionType::List)
        .auto_add_history(true)
        .history_ignore_space(true)
        .bracketed_paste(true)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(ChoiceCompleter::default()));
    Ok(editor)
}

fn read_edited_line(
    editor: &mut Editor<ChoiceCompleter, MemHistory>,
    question: &str,
    choices: Vec<String>,
) -> Result<PromptInput> {
    if let Some(helper) = editor.helper_mut() {
        helper.0 = choices;
    }
    match editor.readline(question) {
        Ok(line) if line.len() > limits::FRAME_BYTES_MAX => {
            let limit = format!("at most {} bytes", limits::FRAME_BYTES_MAX);
            let message = format!("what was typed is too long: {limit}");
            Err(Error::new(Code::LimitExceeded, message).with_context("limit", limit))
        }
        Ok(line) => Ok(PromptInput::Line(line)),
        Err(ReadlineError::Eof) => Ok(PromptInput::End),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Ok(PromptInput::Interrupt),
        Err(error) => Err(unreadable_input_error(&error.to_string())),
    }
}

fn unreadable_input_error(reason: &str) -> Error {
    let message = format!("the terminal cannot be read: {reason}");
    Error::new(Code::FileUnusable, message).with_context("path", "stdin").with_action(
        "Run the command again, with `TERM=dumb` if this terminal takes no line editing",
    )
}

/// The choices that complete a begun word.
#[derive(Default)]
struct ChoiceCompleter(Vec<String>);

impl Completer for ChoiceCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let prefix = &line[..cursor];
        let matches = self.0.iter().filter(|choice| choice.starts_with(prefix));
        Ok((0, matches.cloned().collect()))
    }
}

/// Offers no hints. The editor calls this first after it has set the terminal, so it is the place to adjust the modes.
impl Hinter for ChoiceCompleter {
    type Hint = String;

    fn hint(&self, _: &str, _: usize, _: &Context<'_>) -> Option<String> {
        stop::set_raw_modes();
        None
    }
}

impl Highlighter for ChoiceCompleter {}

impl Validator for ChoiceCompleter {}

impl Helper for ChoiceCompleter {}
