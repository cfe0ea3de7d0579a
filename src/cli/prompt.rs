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
    Edited(LineEditor),
}

impl Prompt {
    /// A prompt on standard input. Lines are edited if stdin, stdout and stderr are terminals that support it.
    pub(super) fn stdin() -> Self {
        let terminals =
            [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
        let edited = terminals.iter().all(|is| *is) && !is_dumb_terminal();
        if edited { Self::Edited(LineEditor::start()) } else { Self::Plain(StdinLines::stdin()) }
    }

    /// Asks for a line; `choices` complete a begun word. If the line is slow to arrive, the embedded server releases
    /// the store.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` past [`limits::FRAME_BYTES_MAX`]; `FILE_UNUSABLE` where standard input cannot be read.
    pub(super) async fn read_line(
        &mut self,
        asked: &str,
        choices: &[String],
        link: &mut ServerLink<'_>,
    ) -> Result<PromptInput> {
        match self {
            Self::Plain(input) => {
                question::write_prompt(asked)?;
                let typed = input.next_line(link).await?;
                Ok(typed.map_or(PromptInput::End, |typed| {
                    PromptInput::Line(typed.trim_end_matches(['\n', '\r']).to_owned())
                }))
            }
            Self::Edited(editing) => editing.read_line(asked, choices, link).await,
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
    asked: mpsc::Sender<(String, Vec<String>)>,
    typed: channel::UnboundedReceiver<Result<PromptInput>>,
}

impl LineEditor {
    fn start() -> Self {
        stop::install_stop_handlers();
        let (asked, questions) = mpsc::channel::<(String, Vec<String>)>();
        let (answers, typed) = channel::unbounded_channel();
        std::thread::spawn(move || {
            let mut editor = make_editor();
            let printer = editor.as_mut().ok().and_then(|it| it.create_external_printer().ok());
            if let Some(printer) = printer {
                stop::set_redraw_printer(Box::new(printer));
            }
            for (asked, choices) in questions {
                let typed = match &mut editor {
                    Ok(editor) => stop::run_reading(|| read_edited_line(editor, &asked, choices)),
                    Err(error) => Err(unreadable_input_error(&error.to_string())),
                };
                if answers.send(typed).is_err() {
                    return;
                }
            }
        });
        Self { asked, typed }
    }

    async fn read_line(
        &mut self,
        asked: &str,
        choices: &[String],
        link: &mut ServerLink<'_>,
    ) -> Result<PromptInput> {
        let gone = || unreadable_input_error("its reader has ended");
        let question = (asked.to_owned(), choices.to_vec());
        self.asked.send(question).map_err(|_| gone())?;
        let typed = tokio::select! {
            typed = self.typed.recv() => typed,
            () = tokio::time::sleep(limits::OUTPUT_LINE_GRACE) => {
                link.release_store().await?;
                self.typed.recv().await
            }
        };
        typed.ok_or_else(gone)?
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
    asked: &str,
    choices: Vec<String>,
) -> Result<PromptInput> {
    if let Some(helper) = editor.helper_mut() {
        helper.0 = choices;
    }
    match editor.readline(asked) {
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

fn unreadable_input_error(why: &str) -> Error {
    let message = format!("the terminal cannot be read: {why}");
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
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..at];
        let fits = self.0.iter().filter(|choice| choice.starts_with(begun));
        Ok((0, fits.cloned().collect()))
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
