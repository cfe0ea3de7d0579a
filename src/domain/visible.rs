//! Replaces characters that would control a terminal or cannot be seen on it. A file, an output, an id or a name must
//! neither move the cursor nor look like another one.

/// `text` with U+FFFD in place of every control character and every invisible one.
pub(super) fn visible(text: &str) -> String {
    let shown = |c| if is_hidden(c) { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Whether a character is a control character or invisible.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Whether a character takes no room or changes its neighbours: Unicode's `Default_Ignorable_Code_Point`, the separators of
/// lines and paragraphs, and interlinear annotation marks. The variation selectors 15 and 16, which make a sign text or
/// emoji, count as visible: people write them.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_and_what_can_stays() {
        for hidden in [
            "\u{1b}",
            "\t",
            "\u{9b}",
            "\u{200b}",
            "\u{200d}",
            "\u{202e}",
            "\u{2066}",
            "\u{2028}",
            "\u{feff}",
            "\u{ad}",
            "\u{e0041}",
            "\u{e0100}",
            "\u{3164}",
        ] {
            let shown = visible(&format!("a{hidden}b"));
            assert_eq!(shown, "a\u{fffd}b", "{}", hidden.escape_unicode());
        }
        for plain in [
            "grüße",
            "日本語",
            "نص",
            "✔\u{fe0f}",
            "e\u{301}",
            "a\u{a0}b",
            "🦀",
        ] {
            assert_eq!(visible(plain), plain);
        }
    }
}
