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
pub(super) struct PickerItem {
    /// The name, which can be typed to pick it.
    pub(super) key: String,
    /// The description, which can be typed in part to pick it.
    pub(super) description: String,
    /// The question that it waits with; empty if there is none.
    pub(super) question: String,
}

/// Asks for one of the items; `None` if none was picked. Of more than [`limits::PICKED_MAX`] items it shows the first
/// ones, and says so. An embedded server releases the store before the question, so that an interrupt leaves nothing
/// open.
pub(super) async fn pick_choice(
    noun: &str,
    choices: &[PickerItem],
    link: &mut ServerLink<'_>,
) -> Result<Option<usize>> {
    link.release_store().await?;
    let (listed, hidden) = choices.split_at(choices.len().min(limits::PICKED_MAX));
    let screen = Screen::stdout();
    write_prompt(&format_numbered_list(listed, screen.columns()))?;
    if !hidden.is_empty() {
        let words = format!("there are more: leave it, and name the {noun} in the command");
        write_prompt(&screen.indent_block(None, "     ", &words))?;
    }
    let choices = listed;
    let mut input = StdinLines::stdin();
    for _ in 0..limits::PICK_ATTEMPTS_MAX {
        write_prompt(&format!("Which {noun}? (number or part of a name; empty: none) "))?;
        let answer = input.next_line(link).await?.unwrap_or_default();
        match find_choice(answer.trim(), choices) {
            PickResult::Empty => break,
            PickResult::Picked(index) => return Ok(Some(index)),
            PickResult::NoMatch if asks_for_help(answer.trim()) => write_prompt(PICKER_HELP)?,
            PickResult::NoMatch => write_prompt("None of them is that.\n")?,
            PickResult::OutOfRange => {
                write_prompt(&format!("The list goes from 1 to {}.\n", choices.len()))?;
            }
            PickResult::Ambiguous => write_prompt("Several of them have that.\n")?,
        }
    }
    write_prompt("Nothing was done.\n")?;
    Ok(None)
}

const PICKER_HELP: &str = "Type the number of one, or a part of its line that no other line has.
An empty line picks none.
";

fn format_numbered_list(choices: &[PickerItem], columns: usize) -> String {
    let mut text = String::new();
    for (index, choice) in choices.iter().enumerate() {
        let [key, about, question] =
            [&choice.key, &choice.description, &choice.question].map(|text| one_line(text));
        let colon = if question.is_empty() { "" } else { ": " };
        let line = format!("{:>3}  {key}  {about}{colon}{question}", index + 1);
        let _ = writeln!(text, "{}", truncate_text(line.trim_end(), columns));
    }
    text
}

#[derive(Debug, PartialEq, Eq)]
enum PickResult {
    Empty,
    Picked(usize),
    NoMatch,
    /// Digits that are not a number of the list.
    OutOfRange,
    Ambiguous,
}

/// Finds the item that the text denotes. Digits alone are a full name or a number of the list, but never a part of a
/// name: a mistyped number must not pick an item that happens to contain it.
fn find_choice(answer: &str, choices: &[PickerItem]) -> PickResult {
    if answer.is_empty() {
        return PickResult::Empty;
    }
    if let Some(index) = choices.iter().position(|choice| choice.key == answer) {
        return PickResult::Picked(index);
    }
    if answer.bytes().all(|byte| byte.is_ascii_digit()) {
        return match answer.parse::<usize>() {
            Ok(number @ 1..) if number <= choices.len() => PickResult::Picked(number - 1),
            _ => PickResult::OutOfRange,
        };
    }
    match match_choices(choices, |choice| choice.key.contains(answer)) {
        PickResult::NoMatch => match_choices(choices, |choice| choice.description.contains(answer)),
        result => result,
    }
}

fn match_choices(choices: &[PickerItem], is_match: impl Fn(&PickerItem) -> bool) -> PickResult {
    let mut indices = (0..choices.len()).filter(|at| is_match(&choices[*at]));
    match (indices.next(), indices.next()) {
        (Some(index), None) => PickResult::Picked(index),
        (Some(_), Some(_)) => PickResult::Ambiguous,
        (None, _) => PickResult::NoMatch,
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
        .map(|(key, about)| PickerItem {
            key: key.to_owned(),
            description: about.to_owned(),
            question: "Which?".to_owned(),
        });
        for (answer, expected) in [
            ("", PickResult::Empty),
            ("1", PickResult::Picked(0)),
            // A full name takes precedence over a number.
            ("2", PickResult::Picked(2)),
            ("bc", PickResult::Picked(1)),
            ("ab", PickResult::Ambiguous),
            ("release", PickResult::Picked(0)),
            ("bug-fix", PickResult::Ambiguous),
            ("nothing", PickResult::NoMatch),
            ("?", PickResult::NoMatch),
            // Part of a name, but not a number of the list.
            ("7", PickResult::OutOfRange),
            ("0", PickResult::OutOfRange),
            ("4", PickResult::OutOfRange),
            ("99999999999999999999999", PickResult::OutOfRange),
        ] {
            assert_eq!(find_choice(answer, &choices), expected, "{answer}");
        }
    }

    #[test]
    fn choice_line_fits_and_is_escaped() {
        let choice = PickerItem {
            key: "\u{1b}[2Ja".to_owned(),
            description: "x ".repeat(200),
            question: String::new(),
        };
        let list = format_numbered_list(&[choice], 60);
        assert!(!list.contains('\u{1b}'));
        assert!(list.lines().count() == 1 && list.trim_end().chars().count() <= 60);
    }
}
