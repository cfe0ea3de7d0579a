//! Advice for people: sentences of the error table. A part in brackets is left out if the error lacks a name in it, so
//! one sentence serves with and without the name.

/// A word, quoted for a shell if need be.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Removes the brackets: a bracketed part stays if `has` knows every name (`{name}`) in it. Brackets without a name are
/// part of the sentence.
pub(super) fn with_parts(words: &str, has: impl Fn(&str) -> bool) -> String {
    let mut whole = String::new();
    let mut rest = words;
    while let Some((before, part, after)) = first_part(rest) {
        whole.push_str(before);
        if names(part).all(&has) {
            whole.push_str(part);
        }
        rest = after;
    }
    whole + rest
}

/// Splits at the first brackets that contain a name: the text before, between and after them.
fn first_part(words: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + words[from..].find('[')?;
        let close = open + words[open..].find(']')?;
        let part = &words[open + 1..close];
        if part.contains('{') {
            return Some((&words[..open], part, &words[close + 1..]));
        }
        from = close + 1;
    }
}

fn names(part: &str) -> impl Iterator<Item = &str> {
    part.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
}

/// The sentence for documentation, with placeholder names in capitals: `{path}` becomes `PATH`.
pub(super) fn in_capitals(words: &str) -> String {
    let words = with_parts(words, |_| true);
    let mut parts = words.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) => text.extend([name.to_uppercase().as_str(), rest]),
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_its_name_is_left_out() {
        let words = "Run `midex validate[ {path}]`[, {a} and {b}]: see `[secrets.NAME]`[: {limit}]";
        let of = |known: &[&str]| with_parts(words, |name| known.contains(&name));
        assert_eq!(of(&[]), "Run `midex validate`: see `[secrets.NAME]`");
        assert_eq!(
            of(&["path", "a"]),
            "Run `midex validate {path}`: see `[secrets.NAME]`"
        );
        assert_eq!(
            in_capitals(words),
            "Run `midex validate PATH`, A and B: see `[secrets.NAME]`: LIMIT"
        );
    }
}
