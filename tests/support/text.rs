//! Command lines, parts of texts and tables, written as text.

/// The words of a command line: a list of them, or a text that spaces divide, though not between two `'`.
pub trait Words: Sized {
    fn words(self) -> Vec<String>;

    /// The same with further words.
    fn and(self, more: impl Words) -> Vec<String> {
        [self.words(), more.words()].concat()
    }
}

impl Words for &str {
    fn words(self) -> Vec<String> {
        let parts = self.split('\'').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split(' ').filter(|word| !word.is_empty()).collect(),
            _ => vec![part],
        });
        words.map(str::to_owned).collect()
    }
}

impl Words for &&str {
    fn words(self) -> Vec<String> {
        (*self).words()
    }
}

impl Words for &String {
    fn words(self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<S: AsRef<str>> Words for &[S] {
    fn words(self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<str>, const N: usize> Words for &[S; N] {
    fn words(self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<S: AsRef<str>> Words for &Vec<S> {
    fn words(self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl Words for Vec<String> {
    fn words(self) -> Vec<String> {
        self
    }
}

/// Parts of a text, which may stand there in any order: a list of them, or a text that `…` divides.
pub trait Parts {
    fn parts(&self) -> Vec<&str>;
}

impl Parts for &str {
    fn parts(&self) -> Vec<&str> {
        self.split('…').collect()
    }
}

impl Parts for &String {
    fn parts(&self) -> Vec<&str> {
        self.split('…').collect()
    }
}

impl<S: AsRef<str>> Parts for &[S] {
    fn parts(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<S: AsRef<str>, const N: usize> Parts for &[S; N] {
    fn parts(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

/// What a text is held to.
pub trait Shows {
    /// It has each of these parts.
    fn shows(&self, parts: impl Parts);
    /// It has none of these parts.
    fn lacks(&self, parts: impl Parts);
}

impl Shows for str {
    #[track_caller]
    fn shows(&self, parts: impl Parts) {
        crate::assert_has(self, parts);
    }

    #[track_caller]
    fn lacks(&self, parts: impl Parts) {
        for part in parts.parts() {
            assert!(!self.contains(part), "`{part}` stands in\n{self}");
        }
    }
}

/// Reads a table whose cells are separated by ` | `, one row per line; `\n` in a cell is a line break. For cells with
/// quotes; [`rows`](crate::rows) takes any text.
pub fn table<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| {
        // The first and the last cell may be empty.
        let line = format!(" {} ", line.trim());
        let cells = line.split(" | ").map(|cell| cell.trim().replace("\\n", "\n"));
        let cells: Vec<_> = cells.collect();
        cells.try_into().unwrap_or_else(|cells| panic!("not {N} cells: {cells:?}"))
    })
}
