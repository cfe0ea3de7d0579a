//! Characters that would control a terminal, or cannot be seen. A file, an output, an id or a name must neither move the cursor
//! nor look like another one.

/// `text` with U+FFFD in place of every control character and every invisible one.
pub fn replace_hidden_chars(text: &str) -> String {
    let to_visible = |(c, is_hidden)| if is_hidden { '\u{fffd}' } else { c };
    mark_hidden_chars(text).map(to_visible).collect()
}

/// The characters of `text`, each with whether it is hidden. The joiners U+200C and U+200D are not where they shape what stands
/// around them: in scripts whose letters join, and in emoji.
pub fn mark_hidden_chars(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut previous = None;
    text.char_indices().map(move |(at, c)| {
        let mut neighbours = previous.into_iter().chain(text[at..].chars().nth(1));
        let is_joiner = matches!(c, '\u{200c}' | '\u{200d}') && neighbours.clone().count() == 2;
        previous = Some(c);
        (c, is_hidden(c) && !(is_joiner && neighbours.all(is_shaped_by_joiner)))
    })
}

/// Whether a joiner beside it shapes it: letters and marks of scripts from Arabic on, and emoji with their variation selector.
fn is_shaped_by_joiner(c: char) -> bool {
    let may_join = matches!(
        c,
        '\u{600}'..='\u{1cff}'
            | '\u{2190}'..='\u{2bff}'
            | '\u{a800}'..='\u{abff}'
            | '\u{fb50}'..='\u{fefc}'
            | '\u{10a00}'..='\u{11fff}'
            | '\u{1f000}'..='\u{1faff}'
    );
    may_join && !is_hidden(c)
}

/// Whether a character is a control character or invisible, whatever stands around it.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Whether a character takes no room or changes its neighbours: Unicode's `Default_Ignorable_Code_Point`, the separators of
/// lines and paragraphs, and interlinear annotation marks. The variation selectors 15 and 16, which make a sign text or
/// emoji, count as visible: people write them.
pub fn is_invisible(c: char) -> bool {
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
    fn hidden_characters_are_replaced() {
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
            let shown = replace_hidden_chars(&format!("a{hidden}b"));
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
            "می\u{200c}خواهم",
            "ශ්\u{200d}රී",
            "അവന്\u{200d}റെ",
            "👩\u{200d}💻",
            "❤\u{fe0f}\u{200d}🔥",
            "👩🏽\u{200d}⚕\u{fe0f}",
        ] {
            assert_eq!(replace_hidden_chars(plain), plain);
        }
        for (joined, shown) in [
            ("می\u{200c}", "می\u{fffd}"),
            ("\u{200d}م", "\u{fffd}م"),
            ("م\u{200c}\u{200c}م", "م\u{fffd}\u{fffd}م"),
            ("م\u{200b}م", "م\u{fffd}م"),
            ("👩\u{200d}a", "👩\u{fffd}a"),
        ] {
            assert_eq!(replace_hidden_chars(joined), shown);
        }
    }
}
