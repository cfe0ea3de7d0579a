//! The table of a list. Cells without spaces are never broken. The others are wrapped between words and share the
//! remaining width; if that is too little, the last column is printed below the others.

use unicode_width::UnicodeWidthStr;

use crate::screen::{one_line, pad_text, truncate_text, wrap_line};

/// The width of the gap between two cells.
const CELL_GAP: usize = 2;
/// The indentation of a last cell that is printed below its row.
const LAST_CELL_INDENT: usize = 2;
/// The minimum width of a cell of several words beside the others.
const TEXT_COLUMN_WIDTH_MIN: usize = 24;

/// A table of at most `N` columns.
pub(super) struct Table<const N: usize> {
    /// The width of the terminal.
    terminal_width: usize,
    /// Whether a word that is wider than its column is truncated; it is not in output for programs.
    should_truncate: bool,
    visible_columns: [bool; N],
    /// The header and then the rows, each with the kept cells.
    rows: Vec<Vec<String>>,
}

impl<const N: usize> Table<N> {
    /// A table with these columns. Each is given with the width of the terminal from which on it is kept.
    pub(super) fn new(
        terminal_width: usize,
        should_truncate: bool,
        header: [(&str, usize); N],
    ) -> Self {
        let mut table = Self {
            terminal_width,
            should_truncate,
            visible_columns: header.map(|(_, min_width)| terminal_width >= min_width),
            rows: Vec::new(),
        };
        table.add_row(header.map(|(name, _)| name.to_owned()));
        table
    }

    pub(super) fn add_row(&mut self, cells: [String; N]) {
        let cells =
            cells.into_iter().zip(self.visible_columns).filter(|(_, is_visible)| *is_visible);
        let cells = cells.map(|(cell, _)| one_line(&cell));
        self.rows.push(cells.collect());
    }

    /// The table as text.
    pub(super) fn render(&self) -> String {
        let full_widths = self.fitted_widths(0);
        let below_count = usize::from(full_widths.is_none());
        let widths = full_widths.or_else(|| self.fitted_widths(below_count));
        let widths = widths.unwrap_or_else(|| self.natural_widths(below_count));
        // If the last column is printed below, its header is left out.
        let header = self.render_row(&self.rows[0][..widths.len()], &widths);
        let rows = self.rows[1..].iter().map(|cells| self.render_row(cells, &widths));
        rows.fold(header, |text, row| text + &row)
    }

    /// The widths that the columns need, except for the last `excluded` columns.
    fn natural_widths(&self, excluded: usize) -> Vec<usize> {
        let count = self.rows[0].len() - excluded;
        let width = |column: usize| self.rows.iter().map(|cells| cells[column].width()).max();
        (0..count).map(|column| width(column).unwrap_or(0)).collect()
    }

    /// The widths of the columns except for the last `excluded`; `None` if they do not fit.
    fn fitted_widths(&self, excluded: usize) -> Option<Vec<usize>> {
        let mut widths = self.natural_widths(excluded);
        let gaps = CELL_GAP * widths.len().saturating_sub(1);
        let mut remaining = self.terminal_width.checked_sub(gaps)?;
        let has_words =
            |column: usize| self.rows[1..].iter().any(|cells| cells[column].contains(' '));
        let (mut wrappable, fixed): (Vec<_>, Vec<_>) =
            (0..widths.len()).partition(|column| has_words(*column));
        for column in fixed {
            remaining = remaining.checked_sub(widths[column])?;
        }
        // Assign widths to the narrowest columns first, so that the wider ones share the rest.
        wrappable.sort_by_key(|column| widths[*column]);
        for (column, sharers) in wrappable.iter().zip((1..=wrappable.len()).rev()) {
            let share = remaining / sharers;
            if widths[*column] > share {
                widths[*column] = Some(share).filter(|share| *share >= TEXT_COLUMN_WIDTH_MIN)?;
            }
            remaining -= widths[*column];
        }
        Some(widths)
    }

    fn render_row(&self, cells: &[String], widths: &[usize]) -> String {
        let columns = cells.iter().zip(widths);
        let columns: Vec<_> = columns.map(|(cell, width)| self.cell_lines(cell, *width)).collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(0);
        let line = |line_index: usize| {
            let cells = columns.iter().zip(widths);
            let cells = cells.map(|(lines, width)| {
                pad_text(lines.get(line_index).map_or("", String::as_str), *width)
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(CELL_GAP));
            line.trim_end().to_owned() + "\n"
        };
        let mut text: String = (0..height).map(line).collect();
        for cell in &cells[widths.len()..] {
            let margin = " ".repeat(LAST_CELL_INDENT);
            let lines = wrap_line(cell, self.terminal_width.saturating_sub(LAST_CELL_INDENT));
            let lines = lines.iter().filter(|line| !line.is_empty());
            text.extend(lines.map(|line| format!("{margin}{line}\n")));
        }
        text
    }

    /// The lines of a cell. A word that is wider than its column may be truncated, unless it is the whole cell.
    fn cell_lines(&self, cell: &str, width: usize) -> Vec<String> {
        if cell.width() <= width || !cell.contains(' ') {
            return vec![cell.to_owned()];
        }
        let lines = wrap_line(cell, width);
        if !self.should_truncate {
            return lines;
        }
        lines.into_iter().map(|line| truncate_text(&line, width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_sample_table(width: usize) -> String {
        let mut table = Table::new(width, true, [("name", 0), ("source", 60), ("description", 0)]);
        for (name, about) in [
            ("release", "Release a version once a person has approved of it"),
            ("documentation-specialist", "Write"),
        ] {
            table.add_row([name, "shipped", about].map(str::to_owned));
        }
        table.render()
    }

    #[test]
    fn narrow_table_drops_columns() {
        assert_eq!(
            render_sample_table(100),
            "\
name                      source   description
release                   shipped  Release a version once a person has approved of it
documentation-specialist  shipped  Write
"
        );
        assert_eq!(
            render_sample_table(59),
            "\
name                      description
release                   Release a version once a person
                          has approved of it
documentation-specialist  Write
"
        );
        assert_eq!(
            render_sample_table(30),
            "\
name
release
  Release a version once a
  person has approved of it
documentation-specialist
  Write
"
        );
        for width in 1..200 {
            let table = render_sample_table(width);
            let is_word = |line: &str| !line.trim().contains(' ');
            let fits = |line: &str| line.width() <= width.max(14) || is_word(line);
            assert!(table.lines().all(fits), "{width}: {table}");
            assert!(table.contains("documentation-specialist"), "{width}: {table}");
        }
    }

    #[test]
    fn two_text_columns_share_the_width() {
        let mut table = Table::new(60, true, [("a", 0), ("b", 0), ("c", 0)]);
        let words = "one two three four five six seven eight";
        table.add_row(["x", words, words].map(str::to_owned));
        let rendering = table.render();
        assert_eq!(
            rendering,
            "\
a  b                            c
x  one two three four five six  one two three four five six
   seven eight                  seven eight
"
        );
    }
}
