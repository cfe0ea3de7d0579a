//! "Did you mean": finds the known name that is most similar to an unknown one.

/// The least letters of a word that a similar one is suggested for: too many short words are similar.
const SUGGESTION_LETTERS_MIN: usize = 5;

/// The one of `candidates` that is most similar to `name`, if it is similar enough to be what was meant.
pub fn find_nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = normalize_name(name);
    // A third of the letters may differ: enough for a misspelling, too few for another word.
    let max_distance = if wanted.len() < SUGGESTION_LETTERS_MIN { 0 } else { wanted.len() / 3 + 1 };
    let (mut distance_limit, mut nearest) = (max_distance, None);
    for candidate in candidates {
        let letters = candidate.chars().count();
        if candidate == name || letters.abs_diff(wanted.len()) > max_distance {
            continue;
        }
        if let Some(distance) =
            edit_distance_up_to(&wanted, &normalize_name(candidate), distance_limit)
            && distance < letters
        {
            nearest = Some(candidate);
            // Of two that are as similar the first is meant.
            match distance.checked_sub(1) {
                Some(lower_limit) => distance_limit = lower_limit,
                None => break,
            }
        }
    }
    nearest
}

/// The suggestion of the one of `candidates` that is most similar to `name`.
pub fn suggest_nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    find_nearest(name, candidates).map(|nearest| format!("did you mean `{nearest}`?"))
}

/// The same as the end of a message; empty where none is similar.
pub fn format_nearest_hint<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    suggest_nearest(name, candidates).map_or_else(String::new, |hint| format!("; {hint}"))
}

/// Normalizes a name: `dependsOn`, `depends-on` and `depends_on` are the same word in three spellings.
pub fn normalize_name(text: &str) -> Vec<char> {
    text.chars()
        .take(64)
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The Damerau-Levenshtein distance, where it is at most `max_distance`: insertions, deletions, replacements and swaps of neighbours.
/// Words that differ more are told apart after some letters.
fn edit_distance_up_to(a: &[char], b: &[char], max_distance: usize) -> Option<usize> {
    const DISTANCE_INFINITE: usize = usize::MAX / 2;
    if a.len().abs_diff(b.len()) > max_distance {
        return None;
    }
    // The two rows of the matrix above the one that is made. Row 0 is the distances from the empty word.
    let mut row_before_previous = vec![DISTANCE_INFINITE; b.len() + 1];
    let mut previous_row: Vec<_> = (0..=b.len()).collect();
    let mut row = row_before_previous.clone();
    for i in 1..=a.len() {
        row.fill(DISTANCE_INFINITE);
        row[0] = i;
        // Farther from the diagonal all are more than `most`.
        let columns = i.saturating_sub(max_distance).max(1)..=(i + max_distance).min(b.len());
        for j in columns {
            let replacement_distance = previous_row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut distance = replacement_distance.min(previous_row[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                distance = distance.min(row_before_previous[j - 2] + 1);
            }
            row[j] = distance;
        }
        if row.iter().chain(&previous_row).all(|distance| *distance > max_distance) {
            return None;
        }
        std::mem::swap(&mut row_before_previous, &mut previous_row);
        std::mem::swap(&mut previous_row, &mut row);
    }
    previous_row.pop().filter(|distance| *distance <= max_distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_match_and_other_words_do_not() {
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
            ("agte", None),
            ("GATE", Some("gate")),
            ("", None),
        ] {
            assert_eq!(find_nearest(name, known), expected, "{name}");
        }
        assert_eq!(find_nearest("b", ["a"]), None);
    }
}
