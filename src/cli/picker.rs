//! Asks at the terminal for one of several items: prints a numbered list, and reads a number or a part of a name or
//! description.

use std::fmt::Write as _;

use super::{
    link::ServerLink,
    question::{asks_for_help, write_prompt},
    run::input::StdinLines,
    screen::{Screen, one_line, truncate_text},
};
use midex_domain::{error::Result, limits};

/// An item that can be picked.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The name, which can be typed to pick it.
    pub(super) key: String,
    /// The description, which can be typed in part to pick it.
    pub(super) about: String,
    /// The question that it waits with; empty if there is none.
    pub(super) question: String,
}

/// Asks for one of the items; `None` if none was picked. Of more than [`limits::PICKED_MAX`] items it shows the first
/// ones, and says so. An embedded server releases the store before the question, so that an interrupt leaves nothing
/// open.
pub(super) async fn pick(
    what: &str,
    choices: &[Choice],
    link: &mut ServerLink<'_>,
) -> Result<Option<usize>> {
    link.release_store().await?;
    let (shown, more) = choices.split_at(choices.len().min(limits::PICKED_MAX));
    let screen = Screen::stdout();
    write_prompt(&numbered_list(shown, screen.columns()))?;
    if !more.is_empty() {
        let words = format!("there are more: leave it, and name the {what} in the command");
        write_prompt(&screen.indent_block(None, "     ", &words))?;
    }
    let choices = shown;
    let mut input = StdinLines::stdin();
    for _ in 0..limits::PICK_ATTEMPTS_MAX {
        write_prompt(&format!("Which {what}? (number or part of a name; empty: none) "))?;
        let said = input.next_line(link).await?.unwrap_or_default();
        match find_choice(said.trim(), choices) {
            PickResult::Nothing => break,
            PickResult::One(at) => return Ok(Some(at)),
            PickResult::None if asks_for_help(said.trim()) => write_prompt(PICKER_HELP)?,
            PickResult::None => write_prompt("None of them is that.\n")?,
            PickResult::NoNumber => {
                write_prompt(&format!("The list goes from 1 to {}.\n", choices.len()))?;
            }
            PickResult::Several => write_prompt("Several of them have that.\n")?,
        }
    }
    write_prompt("Nothing was done.\n")?;
    Ok(None)
}

const PICKER_HELP: &str = "Type the number of one, or a part of its line that no other line has.
An empty line picks none.
";

fn numbered_list(choices: &[Choice], columns: usize) -> String {
    let mut text = String::new();
    for (at, choice) in choices.iter().enumerate() {
        let [key, about, question] =
            [&choice.key, &choice.about, &choice.question].map(|text| one_line(text));
        let colon = if question.is_empty() { "" } else { ": " };
        let line = format!("{:>3}  {key}  {about}{colon}{question}", at + 1);
        let _ = writeln!(text, "{}", truncate_text(line.trim_end(), columns));
    }
    text
}

#[derive(Debug, PartialEq, Eq)]
enum PickResult {
    Nothing,
    One(usize),
    None,
    /// Digits that are not a number of the list.
    NoNumber,
    Several,
}

/// Finds the item that the text denotes. Digits alone are a full name or a number of the list, but never a part of a
/// name: a mistyped number must not pick an item that happens to contain it.
fn find_choice(said: &str, choices: &[Choice]) -> PickResult {
    if said.is_empty() {
        return PickResult::Nothing;
    }
    if let Some(at) = choices.iter().position(|choice| choice.key == said) {
        return PickResult::One(at);
    }
    if said.bytes().all(|byte| byte.is_ascii_digit()) {
        return match said.parse::<usize>() {
            Ok(number @ 1..) if number <= choices.len() => PickResult::One(number - 1),
            _ => PickResult::NoNumber,
        };
    }
    match match_choices(choices, |choice| choice.key.contains(said)) {
        PickResult::None => match_choices(choices, |choice| choice.about.contains(said)),
        meant => meant,
    }
}

fn match_choices(choices: &[Choice], fits: impl Fn(&Choice) -> bool) -> PickResult {
    let mut fit = (0..choices.len()).filter(|at| fits(&choices[*at]));
    match (fit.next(), fit.next()) {
        (Some(at), None) => PickResult::One(at),
        (Some(_), Some(_)) => PickResult::Several,
        (None, _) => PickResult::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_by_number_name_or_part() {
        let choices = [
            ("exec_aab", "release, running"),
            ("exec_abc7", "bug-fix, running"),
            ("2", "bug-fix, paused"),
        ]
        .map(|(key, about)| Choice {
            key: key.to_owned(),
            about: about.to_owned(),
            question: "Which?".to_owned(),
        });
        for (said, expected) in [
            ("", PickResult::Nothing),
            ("1", PickResult::One(0)),
            // A full name takes precedence over a number.
            ("2", PickResult::One(2)),
            ("bc", PickResult::One(1)),
            ("ab", PickResult::Several),
            ("release", PickResult::One(0)),
            ("bug-fix", PickResult::Several),
            ("nothing", PickResult::None),
            ("?", PickResult::None),
            // Part of a name, but not a number of the list.
            ("7", PickResult::NoNumber),
            ("0", PickResult::NoNumber),
            ("4", PickResult::NoNumber),
            ("99999999999999999999999", PickResult::NoNumber),
        ] {
            assert_eq!(find_choice(said, &choices), expected, "{said}");
        }
    }

    #[test]
    fn choice_line_fits_and_is_escaped() {
        let one = Choice {
            key: "\u{1b}[2Ja".to_owned(),
            about: "x ".repeat(200),
            question: String::new(),
        };
        let shown = numbered_list(&[one], 60);
        assert!(!shown.contains('\u{1b}'));
        assert!(shown.lines().count() == 1 && shown.trim_end().chars().count() <= 60);
    }
}
