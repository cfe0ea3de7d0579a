//! `midex help`: the help of a command, or the meaning of an error code and what to do about it.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};
use serde_json::{Value, json};

use super::{
    Cli, EXIT_OK, Output,
    advice::{documented_advice, documented_failure_advice},
    completions::command_with_completers,
    config::add_file_key_to_help,
    groups::{HELP_COLUMNS_MAX, hide_global_argument, with_grouped_help},
    screen::Screen,
};
use midex_domain::{
    error::{Code, Error, FailureCode, Result},
    nearest::format_nearest_hint,
};

/// What help is wanted on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct HelpArgs {
    /// A command, optionally with a subcommand; `options`; or `errors`, optionally with an error code
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

/// The topics that are not commands.
const ERRORS_TOPIC: &str = "errors";
const OPTIONS_TOPIC: &str = "options";

/// The page of the options that every command takes.
fn options_page() -> String {
    let command = Cli::command();
    let args = command.get_arguments().filter(|arg| arg.is_global_set());
    let args = args.map(|arg| add_file_key_to_help(arg.clone().help_heading(None)));
    let mut page = Command::new("midex")
        .args(args)
        .disable_help_flag(true)
        .max_term_width(HELP_COLUMNS_MAX)
        .help_template("Options that every command takes:\n\n{options}\n");
    page.render_long_help().to_string()
}

/// Prints the help of a command, or of errors.
pub(super) fn help(args: &HelpArgs, mut out: Output<'_>) -> Result<u8> {
    match args.topic.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [OPTIONS_TOPIC] => out.write_unchanged(options_page())?,
        [ERRORS_TOPIC] => out.print_rows(code_rows, all_codes_page)?,
        [ERRORS_TOPIC, name] => {
            let meaning = CodeMeaning::from_code_name(name)?;
            out.print(|| meaning.to_json(), || meaning.render(&Screen::stdout()))?;
        }
        ref topic => out.write_unchanged(command_help(topic)?)?,
    }
    Ok(EXIT_OK)
}

fn command_help(topic: &[&str]) -> Result<String> {
    let mut command = with_grouped_help(command_with_completers()).mut_args(hide_global_argument);
    command.build();
    let mut current = &mut command;
    for name in topic {
        let names: Vec<_> =
            current.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        if !names.iter().any(|known| known == name) {
            return Err(unknown_command_error(topic, name, &names));
        }
        current = current
            .find_subcommand_mut(name)
            .ok_or_else(|| Error::internal("a command is lost"))?;
    }
    Ok(if topic.is_empty() {
        current.render_help().to_string()
    } else {
        current.render_long_help().to_string()
    })
}

fn unknown_command_error(topic: &[&str], name: &str, names: &[String]) -> Error {
    let topic = topic.join(" ");
    if CodeMeaning::from_code_name(&topic).is_ok() {
        let message = format!("`{topic}` is the code of an error, and no command");
        return Error::new(Code::UsageInvalid, message)
            .with_context("topic", topic)
            .with_action("Run `midex help errors {topic}`");
    }
    let nearest = format_nearest_hint(name, names.iter().map(String::as_str));
    let message = format!("there is no command `{topic}`{nearest}");
    Error::new(Code::UsageInvalid, message).with_action(
        "Run `midex help` for the commands, or `midex help errors` for the codes of errors",
    )
}

/// The meaning of a code: the refusal of a call, the failure of a step or execution, or both.
struct CodeMeaning {
    refusal: Option<Code>,
    failure: Option<FailureCode>,
    name: String,
}

impl CodeMeaning {
    fn from_code_name(name: &str) -> Result<Self> {
        let name = name.trim().to_uppercase().replace('-', "_");
        let (refusal, failure) = (Code::parse(&name), FailureCode::parse(&name));
        if refusal.is_none() && failure.is_none() {
            return Err(unknown_code_error(&name));
        }
        // `Code::parse` also accepts former names, so use the current one.
        let name = refusal.map_or(name, |code| code.as_str().to_owned());
        Ok(Self { refusal, failure, name })
    }

    fn to_json(&self) -> Value {
        match (self.refusal, self.failure) {
            (Some(code), Some(failure)) => {
                let mut row = refusal_code_json(code);
                row["as_failure"] = failure_code_json(failure);
                row
            }
            (Some(code), None) => refusal_code_json(code),
            (None, Some(failure)) => failure_code_json(failure),
            (None, None) => Value::Null,
        }
    }

    fn render(&self, screen: &Screen) -> String {
        let mut text = format!("{}\n", self.name);
        let has_both = self.refusal.is_some() && self.failure.is_some();
        if let Some(code) = self.refusal {
            let title = if has_both { "Of a refused call: " } else { "" };
            let exit = Error::new(code, "").exit_code();
            let retry = if code.retryable() {
                "the same command may succeed later"
            } else {
                "it is refused again until something is changed"
            };
            let about = format!(
                "{title}{} ({retry}; exit code {exit})",
                trim_description(code.description())
            );
            text += &render_meaning_part(&about, &documented_advice(code), screen);
        }
        if let Some(failure) = self.failure {
            let title = if has_both { "\n" } else { "" };
            let about = trim_description(failure.description());
            let about = format!("Of a step or an execution that failed: {about}");
            text += title;
            text += &render_meaning_part(&about, &[documented_failure_advice(failure)], screen);
        }
        text
    }
}

fn render_meaning_part(about: &str, what_to_do: &[String], screen: &Screen) -> String {
    let mut text = screen.indent_block(None, "  ", about);
    text += "\nWhat to do\n";
    for words in what_to_do {
        text += &screen.indent_block(None, "  ", words);
    }
    text
}

fn trim_description(description: &str) -> &str {
    description.trim()
}

fn unknown_code_error(name: &str) -> Error {
    let nearest = format_nearest_hint(name, code_names());
    let message = format!("no error has the code `{name}`{nearest}");
    Error::new(Code::UsageInvalid, message)
        .with_action("Run `midex help errors`: it lists the codes")
}

/// All code names, those of refusals first.
fn code_names() -> impl Iterator<Item = &'static str> {
    let refusals = Code::ALL.iter().map(|code| code.as_str());
    refusals.chain(failure_only_codes().map(FailureCode::as_str))
}

/// The failure codes that are not also codes of refusals.
fn failure_only_codes() -> impl Iterator<Item = FailureCode> {
    let codes = FailureCode::ALL.iter().copied();
    codes.filter(|code| Code::parse(code.as_str()).is_none())
}

fn code_rows() -> Vec<Value> {
    let code_json = |name: &str| CodeMeaning::from_code_name(name).map(|meaning| meaning.to_json());
    code_names().filter_map(|name| code_json(name).ok()).collect()
}

fn refusal_code_json(code: Code) -> Value {
    let error = Error::new(code, "");
    json!({
        "error_code": code.as_str(),
        "is_of": "call",
        "category": code.category(),
        "description": trim_description(code.description()),
        "retryable": code.retryable(),
        "exit_code": error.exit_code(),
        "what_to_do": documented_advice(code),
    })
}

fn failure_code_json(code: FailureCode) -> Value {
    json!({
        "error_code": code.as_str(),
        "is_of": "step",
        "description": trim_description(code.description()),
        "what_to_do": [documented_failure_advice(code)],
    })
}

fn all_codes_page() -> String {
    let width = code_names().map(str::len).max().unwrap_or_default();
    let mut text = String::new();
    for code in Code::ALL {
        let about = trim_description(code.description());
        let _ = writeln!(text, "{:<width$}  {about}", code.as_str());
    }
    text += "\nOf steps and executions that failed\n";
    for code in failure_only_codes() {
        let about = trim_description(code.description());
        let _ = writeln!(text, "{:<width$}  {about}", code.as_str());
    }
    text + "\n`midex help errors CODE` says what to do\n"
}
