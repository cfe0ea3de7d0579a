//! "Did you mean": the known name that is nearest to one that is not known.

/// So many letters a word has that a program may replace by a near one: of shorter ones too many are near.
const SURE_LETTERS: usize = 5;

/// Whether `near` may be written for `name` by a program.
pub fn is_sure(name: &str, near: &str) -> bool {
    let wanted = fold(name);
    wanted.len() >= SURE_LETTERS || wanted == fold(near)
}

/// The nearest of `known` to `name`, if it is near enough to be what was meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(name);
    // A third of the letters may differ: enough for a slip, too little for another word. Of a short word one may.
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

/// The words of a suggestion.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|nearest| format!("did you mean `{nearest}`?"))
}

/// `dependsOn`, `depends-on` and `depends_on` are one word in three spellings.
pub fn fold(text: &str) -> Vec<char> {
    text.chars()
        .take(64)
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    // Row 0 and column 0 count how many letters there are to insert or delete.
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
