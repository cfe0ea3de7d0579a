//! Asks for confirmation before actions that cannot be undone. Works only at a terminal; a script passes a flag
//! instead.

use std::io::{self, IsTerminal, Write as _};

use super::{link::ServerLink, run::input::StdinLines, unwritable_output_error};
use midex_domain::error::{Code, Error, Result};

/// Asks a question; true if the answer is yes. `flag` is the flag that a script passes instead.
///
/// # Errors
/// `USAGE_INVALID` if there is no terminal.
pub(super) async fn ask_yes_or_no(
    question: &str,
    flag: &'static str,
    link: &mut ServerLink<'_>,
) -> Result<bool> {
    if !can_ask_person() {
        let message = format!("there is no terminal to ask on: {question}");
        return Err(Error::new(Code::UsageInvalid, message)
            .with_context("flag", flag)
            .with_action("Add {flag} if that is meant; nothing was done"));
    }
    write_prompt(&format!("{question} [y]es, anything else does nothing: "))?;
    let answer = StdinLines::stdin().next_line(link).await?.unwrap_or_default();
    let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if !is_yes {
        write_prompt("Nothing was done.\n")?;
    }
    Ok(is_yes)
}

/// Whether an answer asks for help.
pub(super) fn asks_for_help(answer: &str) -> bool {
    ["?", "help"].contains(&answer)
}

/// Whether stdin and stderr are terminals, so that a person can be asked.
pub(super) fn can_ask_person() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Writes to stderr without adding a line end.
pub(super) fn write_prompt(text: &str) -> Result<()> {
    let mut stderr = anstream::stderr().lock();
    let result = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    result.map_err(unwritable_output_error)
}
