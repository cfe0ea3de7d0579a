//! The lexer: splits an expression into words, texts, numbers and signs, each with its place in the source.

use std::borrow::Cow;

use serde_json::Number;

use super::{
    fault::{ExpressionFault, FaultKind},
    segment::is_word_char,
};
use crate::{limits, truncate::truncate_to_chars};

/// Signs, the longest first, so that the longest match wins. Some are listed only so that the parser can refuse them by name.
const OPERATOR_SIGNS: &[&str] = &[
    "===", "!==", "**", "//", "==", "!=", "<=", ">=", "&&", "||", "??", "=>", "+", "-", "*", "/",
    "%", "~", "<", ">", "=", "!", "&", "|", "?", ":", ",", ".", "(", ")", "[", "]", "{", "}",
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A word; after a dot it may hold hyphens and begin with a digit.
    Word,
    Text(String),
    Number(Number),
    Sign(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExpressionToken {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl ExpressionToken {
    pub(super) fn span(&self) -> (usize, usize) {
        (self.start, self.end)
    }
}

/// The tokens of one expression, and where the expression ends.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) list: Vec<ExpressionToken>,
    /// The byte after the expression.
    pub(super) end: usize,
    /// Whether `}}` closed the expression.
    pub(super) is_closed: bool,
}

/// Reads the tokens of `source` from `start` to its end; with `is_braced`, to the `}}` that closes the expression.
pub(super) fn tokenize(
    source: &str,
    start: usize,
    is_braced: bool,
) -> Result<Tokens, ExpressionFault> {
    let mut lexer = Lexer { source, position: start, open_braces: 0, list: Vec::new() };
    loop {
        lexer.skip_white_space();
        lexer.check_token_length(start)?;
        let is_closed =
            is_braced && lexer.open_braces == 0 && lexer.remaining_text().starts_with("}}");
        if is_closed || lexer.remaining_text().is_empty() {
            return Ok(Tokens { end: lexer.position, list: lexer.list, is_closed });
        }
        let token = lexer.read_token()?;
        lexer.list.push(token);
    }
}

struct Lexer<'a> {
    source: &'a str,
    position: usize,
    /// The number of open braces of maps: their `}` does not close the expression.
    open_braces: usize,
    list: Vec<ExpressionToken>,
}

impl Lexer<'_> {
    fn remaining_text(&self) -> &str {
        &self.source[self.position..]
    }

    fn skip_white_space(&mut self) {
        self.position = self.source.len() - self.remaining_text().trim_start().len();
    }

    fn check_token_length(&self, start: usize) -> Result<(), ExpressionFault> {
        let limit_fault = |message: String| {
            let span = (start, self.position);
            Err(ExpressionFault::new(FaultKind::Limit, span, message))
        };
        if self.position - start > limits::EXPRESSION_BYTES_MAX {
            let max_bytes = limits::EXPRESSION_BYTES_MAX;
            return limit_fault(format!("the expression is longer than {max_bytes} bytes"));
        }
        if self.list.len() > limits::EXPRESSION_PARTS_MAX {
            let max_tokens = limits::EXPRESSION_PARTS_MAX;
            return limit_fault(format!("the expression has more than {max_tokens} parts"));
        }
        Ok(())
    }

    fn read_token(&mut self) -> Result<ExpressionToken, ExpressionFault> {
        let start = self.position;
        let first = self.remaining_text().chars().next().unwrap_or_default();
        let is_after_dot =
            matches!(self.list.last(), Some(token) if token.kind == TokenKind::Sign("."));
        let kind = if is_after_dot && is_word_char(first) {
            self.position += segment_length(self.remaining_text());
            TokenKind::Word
        } else if first.is_ascii_digit() {
            self.read_number()?
        } else if is_word_char(first) {
            self.position += matching_prefix_length(self.remaining_text(), is_word_char);
            TokenKind::Word
        } else if first == '"' || first == '\'' {
            self.read_text_literal(first)?
        } else {
            self.read_sign(first)?
        };
        Ok(ExpressionToken { kind, start, end: self.position })
    }

    fn read_sign(&mut self, first: char) -> Result<TokenKind, ExpressionFault> {
        let rest = self.remaining_text();
        let Some(sign) = OPERATOR_SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
            let span = (self.position, self.position + first.len_utf8());
            let message = format!("`{}` has no place in an expression", first.escape_debug());
            let fault = ExpressionFault::new(FaultKind::Syntax, span, message);
            return Err(match first {
                '‘' | '’' | '“' | '”' => {
                    fault.with_suggestion("write straight quotes: `'text'`")
                }
                _ => fault,
            });
        };
        self.position += sign.len();
        match *sign {
            "{" => self.open_braces += 1,
            "}" => self.open_braces = self.open_braces.saturating_sub(1),
            _ => {}
        }
        Ok(TokenKind::Sign(sign))
    }

    fn read_number(&mut self) -> Result<TokenKind, ExpressionFault> {
        let (start, digit) = (self.position, |c: char| c.is_ascii_digit());
        self.position += matching_prefix_length(self.remaining_text(), digit);
        let fraction =
            self.remaining_text().strip_prefix('.').map_or(0, |r| matching_prefix_length(r, digit));
        if fraction > 0 {
            self.position += 1 + fraction;
        }
        if let Some(rest) = self.remaining_text().strip_prefix(['e', 'E']) {
            let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            let digits = matching_prefix_length(unsigned, digit);
            if digits > 0 {
                self.position += 1 + rest.len() - unsigned.len() + digits;
            }
        }
        let text = &self.source[start..self.position];
        // JSON allows no leading zeros, so neither does an expression. serde_json keeps every digit that it reads.
        let number = serde_json::from_str::<Number>(text).ok();
        let exact = number.filter(|n| !n.is_f64() || text.contains(['.', 'e', 'E']));
        exact.map(TokenKind::Number).ok_or_else(|| {
            let message =
                format!("`{}` is not a number that JSON can hold", shorten_for_message(text));
            ExpressionFault::new(FaultKind::Syntax, (start, self.position), message)
        })
    }

    fn read_text_literal(&mut self, quote: char) -> Result<TokenKind, ExpressionFault> {
        let start = self.position;
        let mut text = String::new();
        self.position += quote.len_utf8();
        while let Some(letter) = self.remaining_text().chars().next() {
            self.position += letter.len_utf8();
            if letter == quote {
                return Ok(TokenKind::Text(text));
            }
            if self.position - start > limits::EXPRESSION_BYTES_MAX {
                break;
            }
            text.push(if letter == '\\' { self.read_escape()? } else { letter });
        }
        let message = format!("the text that begins here has no closing `{quote}`");
        let span = (start, start + quote.len_utf8());
        Err(ExpressionFault::new(FaultKind::Syntax, span, message))
    }

    /// Reads an escape after its backslash: the letter that it stands for.
    fn read_escape(&mut self) -> Result<char, ExpressionFault> {
        let start = self.position - 1;
        let letter = self.remaining_text().chars().next().unwrap_or_default();
        self.position += letter.len_utf8().min(self.remaining_text().len());
        let unescaped = match letter {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            '\\' | '\'' | '"' | '/' => Some(letter),
            'u' => self.read_unicode_escape(),
            _ => None,
        };
        unescaped.ok_or_else(|| {
            let message = "this is not an escape of a text";
            ExpressionFault::new(FaultKind::Syntax, (start, self.position), message)
                .with_suggestion("write `\\\\` for a backslash")
        })
    }

    /// Reads `XXXX` after `\u`, or a surrogate pair `XXXX\uXXXX`, as in JSON.
    fn read_unicode_escape(&mut self) -> Option<char> {
        let first = self.read_four_hex_digits()?;
        if let Some(letter) = char::from_u32(first) {
            return Some(letter);
        }
        self.remaining_text().strip_prefix("\\u")?;
        self.position += 2;
        let second = self.read_four_hex_digits()?;
        let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
        let high = first.checked_sub(0xD800).filter(|high| *high < 0x400)?;
        char::from_u32(0x10000 + (high << 10) + low)
    }

    fn read_four_hex_digits(&mut self) -> Option<u32> {
        let digits = self.remaining_text().get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        self.position += 4;
        Some(number)
    }
}

/// The number of bytes at the start of `text` whose letters are all `predicate`.
fn matching_prefix_length(text: &str, predicate: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !predicate(letter)).unwrap_or(text.len())
}

/// The length in bytes of the path segment at the start of `text`: a hyphen belongs to it if letters stand on both sides.
fn segment_length(text: &str) -> usize {
    let mut end = matching_prefix_length(text, is_word_char);
    loop {
        let hyphens = matching_prefix_length(&text[end..], |letter| letter == '-');
        let word_bytes = matching_prefix_length(&text[end + hyphens..], is_word_char);
        if hyphens == 0 || word_bytes == 0 {
            return end;
        }
        end += hyphens + word_bytes;
    }
}

/// The first 60 letters of a text, for a message.
pub(super) fn shorten_for_message(text: &str) -> Cow<'_, str> {
    truncate_to_chars(text, 60)
}
