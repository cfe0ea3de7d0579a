//! `midex help`: the help of a command, or what an error means and what to do about it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{EXIT_OK, Output, completions::completed, screen::Screen};
use crate::{
    domain::nearest::hint,
    error::{Code, Error, Result},
};

/// What help is wanted on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct HelpArgs {
    /// A command, with its own commands behind it; or `errors`, with the code of an error behind it
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

/// The topic that is no command.
const ERRORS: &str = "errors";

/// Prints the help of a command, or of errors.
pub(super) fn help(args: &HelpArgs, mut out: Output<'_>) -> Result<u8> {
    match args.topic.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ERRORS] => out.rows(|| Code::ALL.iter().map(|code| row(*code)).collect(), all)?,
        [ERRORS, name] => {
            let code = code(name)?;
            out.print(|| row(code), || one(code, &Screen::stdout()))?;
        }
        ref topic => out.write(of_command(topic)?)?,
    }
    Ok(EXIT_OK)
}

fn of_command(topic: &[&str]) -> Result<String> {
    let mut command = completed();
    command.build();
    let mut found = &mut command;
    for name in topic {
        let names: Vec<_> = found
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        if !names.iter().any(|known| known == name) {
            let nearest = hint(name, names.iter().map(String::as_str));
            let message = format!("there is no command `{}`{nearest}", topic.join(" "));
            return Err(Error::new(Code::UsageInvalid, message).with_action(
                "Run `midex help` for the commands, or `midex help errors` for the codes of errors",
            ));
        }
        found = found
            .find_subcommand_mut(name)
            .ok_or_else(|| Error::internal("a command is lost"))?;
    }
    Ok(format!("{}", found.render_long_help()))
}

fn code(name: &str) -> Result<Code> {
    let name = name.to_uppercase().replace('-', "_");
    Code::parse(&name).ok_or_else(|| {
        let nearest = hint(&name, Code::ALL.iter().map(|code| code.as_str()));
        let message = format!("no error has the code `{name}`{nearest}");
        Error::new(Code::UsageInvalid, message)
            .with_action("Run `midex help errors`: it lists the codes")
    })
}

/// What a person does next, with what a command would have filled in written in capitals.
fn typed(code: Code) -> Vec<String> {
    let sentences = code.typed().iter();
    sentences
        .map(|words| {
            let mut parts = words.split('{');
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                match part.split_once('}') {
                    Some((name, rest)) => text.extend([name.to_uppercase().as_str(), rest]),
                    None => text.push_str(part),
                }
            }
            text
        })
        .collect()
}

fn row(code: Code) -> Value {
    let error = Error::new(code, "");
    json!({
        "error_code": code.as_str(),
        "category": code.category(),
        "description": code.description().trim(),
        "retryable": code.retryable(),
        "exit_code": error.exit_code(),
        "what_to_do": typed(code),
    })
}

fn all() -> String {
    let width = Code::ALL.iter().map(|code| code.as_str().len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for code in Code::ALL {
        let about = code.description().trim();
        let _ = writeln!(text, "{:<width$}  {about}", code.as_str());
    }
    text + "\n`midex help errors CODE` says what to do\n"
}

fn one(code: Code, screen: &Screen) -> String {
    let exit = Error::new(code, "").exit_code();
    let retry = if code.retryable() {
        "the same command may succeed later"
    } else {
        "the same command will be refused again"
    };
    let mut text = format!("{code}\n");
    let about = format!("{} ({retry}; exit code {exit})", code.description().trim());
    text += &screen.block(None, "  ", &about);
    text += "\nWhat to do\n";
    for words in typed(code) {
        text += &screen.block(None, "  ", &words);
    }
    text
}
