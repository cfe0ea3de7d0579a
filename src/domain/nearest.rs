//! "Did you mean": finds the known name that is most similar to an unknown one.

/// The least letters of a word that a program may replace with a similar one: too many short words are similar.
const SURE_LETTERS: usize = 5;

/// Whether `near` is so certain that a program may replace `name` with it.
pub fn is_sure(name: &str, near: &str) -> bool {
    let wanted = fold(name);
    wanted.len() >= SURE_LETTERS || wanted == fold(near)
}

/// The one of `known` that is most similar to `name`, if it is similar enough to be what was meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(name);
    // A third of the letters may differ, one in a short word: enough for a misspelling, too few for another word.
    let far = if wanted.len() < SURE_LETTERS {
        1
    } else {
        wanted.len() / 3 + 1
    };
    known
        .into_iter()
        .filter(|known| *known != name && known.chars().count().abs_diff(wanted.len()) <= far)
        .map(|known| (distance(&wanted, &fold(known)), known))
        .filter(|(distance, known)| *distance <= far && *distance < known.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The suggestion of the one of `known` that is most similar to `name`.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|nearest| format!("did you mean `{nearest}`?"))
}

/// The same as the end of a message; empty where none is similar.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(name, known).map_or_else(String::new, |hint| format!("; {hint}"))
}

/// Normalizes a name: `dependsOn`, `depends-on` and `depends_on` are the same word in three spellings.
pub fn fold(text: &str) -> Vec<char> {
    text.chars()
        .take(64)
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    // Row 0 and column 0 are the distances from and to the empty word.
    let row = |i: usize| -> Vec<usize> { (i..=i + b.len()).collect() };
    let mut rows: Vec<_> = (0..=a.len()).map(row).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let known = ["architect", "implementer", "reviewer", "depends_on", "gate"];
        for (name, expected) in [
            ("architct", Some("architect")),
            ("implmenter", Some("implementer")),
            ("reveiwer", Some("reviewer")),
            ("Reviewer", Some("reviewer")),
            ("depends-on", Some("depends_on")),
            ("dependsOn", Some("depends_on")),
            ("debugger", None),
            ("x", None),
            ("name", None),
            ("agte", Some("gate")),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest("b", ["a"]), None);
        assert!(
            !is_sure("agte", "gate") && is_sure("Gate", "gate") && is_sure("reveiwer", "reviewer")
        );
    }
}
