//! What a terminal shows after all that was written to it: enough of one for what midex and its line editor write.

use std::str::Chars;

use unicode_width::UnicodeWidthStr;

/// The lines of a terminal that is wide and high enough.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Shown {
    /// What it shows after this.
    pub(crate) fn of(written: &str) -> Self {
        let mut shown = Self::default();
        let mut rest = written.chars();
        while let Some(letter) = rest.next() {
            match letter {
                '\u{1b}' => shown.sequence(&mut rest),
                '\r' => shown.column = 0,
                '\n' => (shown.row, shown.column) = (shown.row + 1, 0),
                '\u{8}' => shown.column = shown.column.saturating_sub(1),
                '\u{7}' => {}
                letter => shown.put(letter),
            }
        }
        shown
    }

    /// Its lines, without blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
        self.lines.iter().map(line).collect()
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines().into_iter();
        lines.map(|line| line + "\n").collect()
    }

    fn line(&mut self) -> &mut Vec<char> {
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, Vec::new());
        }
        &mut self.lines[self.row]
    }

    fn put(&mut self, letter: char) {
        let at = self.column;
        let line = self.line();
        if line.len() <= at {
            line.resize(at + 1, ' ');
        }
        line[at] = letter;
        self.column += 1;
    }

    fn sequence(&mut self, rest: &mut Chars<'_>) {
        if rest.next() != Some('[') {
            return;
        }
        let mut count = String::new();
        let Some(end) = rest.find(|c| {
            let is_end = c.is_ascii_alphabetic();
            count.extend(Some(*c).filter(|_| !is_end));
            is_end
        }) else {
            return;
        };
        let number: usize = count.parse().unwrap_or(1);
        let column = self.column;
        match end {
            'A' => self.row = self.row.saturating_sub(number),
            'B' => self.row += number,
            'C' => self.column += number,
            'D' => self.column = column.saturating_sub(number),
            'G' => self.column = number.saturating_sub(1),
            'H' => (self.row, self.column) = (0, 0),
            'K' => self.line().truncate(column),
            'J' => {
                self.line().truncate(column);
                self.lines.truncate(self.row + 1);
            }
            _ => {}
        }
    }
}

/// Whether a line does not fit a terminal of so many columns, though it could be broken: more than one long word is too much.
pub(crate) fn too_wide(line: &str, columns: usize) -> bool {
    let longest = line.split_whitespace().map(UnicodeWidthStr::width).max();
    let longest = longest.unwrap_or(0);
    let is_word = longest > columns / 2 && line.width() - longest <= columns / 2;
    line.width() > columns && !is_word
}

/// Lines that are known not to be broken yet: the command that shows them (every one where it is empty), and how they begin.
const KNOWN: &[(&str, &str)] = &[
    ("", "error["),
    ("", "  help:"),
    ("new", "Next:"),
    ("catalog", "Catalog `"),
    ("catalog", "Remove the catalog"),
    ("catalog", "Take the new"),
    ("prune", "Remove "),
    ("catalog", "The catalog `"),
    ("validate", ""),
    ("doctor", ""),
    ("demo", ""),
    ("serve", ""),
];

/// Whether this line of a command is one of them.
pub(crate) fn is_known(args: &str, line: &str) -> bool {
    let is_of = |command: &str| args.starts_with(command);
    let is_it = |(command, begins): &(&str, &str)| is_of(command) && line.starts_with(begins);
    KNOWN.iter().any(is_it)
}

#[test]
fn what_was_written_over_is_not_shown() {
    let shown = Shown::of("one\r\ntwo\r\u{1b}[Kthree\n\u{1b}[1Afour\u{8}\u{8}\u{1b}[31mX\u{1b}[0m");
    assert_eq!(shown.lines(), ["one", "foXre"]);
    assert!(too_wide("one two three", 9) && !too_wide("a /a/long/path", 9));
}
