//! Regular expressions of schemas, with linear time and bounded memory. They are those of ECMA-262, except for lookaround
//! and backreferences.
//!
//! A lazy DFA matches some bytes per nanosecond. The states that it builds depend on the text, so the budget is charged for
//! them. If it would build too many, the slower `PikeVM` takes over, whose cost is known beforehand.

use std::fmt::Write;

use regex_automata::{
    Input, MatchKind,
    hybrid::dfa::{self, Cache, DFA},
    nfa::thompson::{self, WhichCaptures, pikevm::PikeVM},
    util::syntax,
};

use crate::limits;

/// A compiled regular expression.
#[derive(Debug)]
pub(super) struct RegexPattern {
    dfa: DFA,
    pike_vm: PikeVM,
    /// The states of the NFA: the `PikeVM` may visit each of them for each byte of a text.
    state_count: u64,
}

/// The bytes of a text that cost one step.
const BYTES_PER_STEP: u64 = 16;
/// The visits of states that cost one step.
pub(super) const STATE_VISITS_PER_STEP: u64 = 4;
/// The least steps of a search.
const STEPS_PER_SEARCH: u64 = 3;
/// The steps of parsing a byte of an expression: classes are tables of Unicode.
const PARSE_STEPS_PER_BYTE: u64 = 8;
/// The steps of parsing a byte of an expression with flags, which may fold the case of each class.
const CASE_FOLD_STEPS_PER_BYTE: u64 = 500;
/// The most visits of states that parsing a byte of an expression is worth.
pub(super) const PARSE_STATES_PER_BYTE_MAX: u64 = CASE_FOLD_STEPS_PER_BYTE * STATE_VISITS_PER_STEP;
/// The deepest nesting of an expression.
const NESTING_MAX: u32 = 50;

/// Whether a text is a regular expression. It is only parsed, so one that would compile to too much counts too.
pub(super) fn is_pattern(text: &str) -> bool {
    text.len() <= limits::SCHEMA_PATTERN_BYTES_MAX && parse_regex(text).is_some()
}

/// An expression as its parser reads it.
pub(super) fn parse_regex(text: &str) -> Option<regex_syntax::hir::Hir> {
    let config = syntax::Config::new().nest_limit(NESTING_MAX);
    syntax::parse_with(&translate_ecma_regex(text), &config).ok()
}

/// The steps of [`is_pattern`].
pub(super) fn parsing_steps(text: &str) -> u64 {
    let bytes = text.len().min(limits::SCHEMA_PATTERN_BYTES_MAX) as u64;
    bytes * if has_flags(text) { CASE_FOLD_STEPS_PER_BYTE } else { PARSE_STEPS_PER_BYTE }
}

/// Whether an expression has flags, such as `(?i)`.
pub(super) fn has_flags(text: &str) -> bool {
    text.match_indices("(?").any(|(at, sign)| {
        let rest = &text[at + sign.len()..];
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') && !rest.starts_with("P<")
    })
}

impl RegexPattern {
    /// Compiles an expression; the error is a message for its author.
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        if pattern.len() > limits::SCHEMA_PATTERN_BYTES_MAX {
            let max_bytes = limits::SCHEMA_PATTERN_BYTES_MAX;
            return Err(format!("it has {} bytes, the limit is {max_bytes}", pattern.len()));
        }
        let mut compiler = thompson::Compiler::new();
        compiler.syntax(syntax::Config::new().nest_limit(NESTING_MAX));
        compiler.configure(
            thompson::Config::new()
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(limits::SCHEMA_PATTERN_MEMORY_BYTES_MAX)),
        );
        let nfa = compiler.build(&translate_ecma_regex(pattern)).map_err(|error| {
            if error.size_limit().is_some() {
                let max_bytes = limits::SCHEMA_PATTERN_MEMORY_BYTES_MAX;
                return format!("compiled it takes more than {max_bytes} bytes: repeat less");
            }
            build_error_message(pattern, &error)
        })?;
        let config = dfa::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .unicode_word_boundary(true)
            .cache_capacity(limits::SCHEMA_PATTERN_CACHE_BYTES_MAX)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(2));
        let to_message = |error: &dyn std::fmt::Display| error.to_string();
        Ok(Self {
            state_count: nfa.states().len() as u64,
            dfa: dfa::Builder::new()
                .configure(config)
                .build_from_nfa(nfa.clone())
                .map_err(|error| to_message(&error))?,
            pike_vm: PikeVM::new_from_nfa(nfa).map_err(|error| to_message(&error))?,
        })
    }

    /// The bytes of the compiled expression.
    pub(super) fn memory_bytes(&self) -> usize {
        self.dfa.get_nfa().memory_usage()
    }

    /// The most states that a byte of a text may have to be matched against.
    pub(super) fn states_per_byte_max(&self) -> u64 {
        self.state_count
    }

    /// A cache for [`Self::is_match`].
    pub(super) fn new_cache(&self) -> Cache {
        self.dfa.create_cache()
    }

    /// Whether the expression matches anywhere in the text, and the steps that the search took. The error is the steps that it
    /// would take, if they are more than `step_budget`.
    pub(super) fn is_match(
        &self,
        cache: &mut Cache,
        text: &str,
        step_budget: u64,
    ) -> Result<(bool, u64), u64> {
        let bytes = text.len() as u64;
        let cache_before = (cache.memory_usage(), cache.clear_count());
        let input = Input::new(text).earliest(true);
        let search_result = self.dfa.try_search_fwd(cache, &input);
        let cleared_bytes =
            (cache.clear_count() - cache_before.1) * limits::SCHEMA_PATTERN_CACHE_BYTES_MAX;
        let built_bytes =
            (cache.memory_usage() + cleared_bytes).saturating_sub(cache_before.0) as u64;
        let steps = STEPS_PER_SEARCH + bytes / BYTES_PER_STEP + built_bytes / STATE_VISITS_PER_STEP;
        if let Ok(found) = search_result {
            return Ok((found.is_some(), steps));
        }
        let steps = steps + bytes * self.state_count / STATE_VISITS_PER_STEP;
        if steps > step_budget {
            return Err(steps);
        }
        Ok((self.pike_vm.is_match(&mut self.pike_vm.create_cache(), text), steps))
    }
}

fn build_error_message(pattern: &str, error: &thompson::BuildError) -> String {
    let lookarounds = ["(?=", "(?!", "(?<=", "(?<!"];
    if lookarounds.iter().any(|look| pattern.contains(look)) {
        return "it looks around, which is not supported: say it in several patterns under `allOf`"
            .into();
    }
    let source = std::error::Error::source(error);
    let words = source.map_or_else(|| error.to_string(), ToString::to_string);
    // The parser draws the expression with a mark below it; the message comes last.
    let words = words.rsplit("error: ").next().unwrap_or_default();
    words.trim().to_owned()
}

/// Translates an expression of ECMA-262 to the syntax of the regex crate, whose classes are those of Unicode instead of
/// ASCII, and which has set operations within classes.
fn translate_ecma_regex(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => translate_escape(&mut out, &mut letters, in_class),
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // `[]` matches nothing and `[^]` everything, where other engines take the bracket for a member.
                if letters.next_if_eq(&']').is_some() {
                    in_class = false;
                    out.push_str("\\s&&\\S]");
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', letter]),
            '-' if in_class && letters.peek() == Some(&'-') => out.push_str("\\-"),
            letter => out.push(letter),
        }
    }
    out
}

fn translate_escape(
    out: &mut String,
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    in_class: bool,
) {
    match letters.next() {
        Some('d') if in_class => out.push_str("0-9"),
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') if in_class => out.push_str("A-Za-z0-9_"),
        Some('w') => out.push_str("[A-Za-z0-9_]"),
        Some('W') => out.push_str("[^A-Za-z0-9_]"),
        Some('s') => out.push_str("[\\s\\u{FEFF}]"),
        Some('S') => out.push_str("[^\\s\\u{FEFF}]"),
        Some('b') if in_class => out.push_str("\\x08"),
        Some('b') => out.push_str("(?-u:\\b)"),
        Some('0') => out.push_str("\\x00"),
        Some('c') => match letters.next_if(char::is_ascii_alphabetic) {
            Some(letter) => {
                let code = letter.to_ascii_uppercase() as u32 - u32::from(b'A') + 1;
                let _ = write!(out, "\\x{code:02X}");
            }
            None => out.push_str("\\c"),
        },
        Some(letter) => out.extend(['\\', letter]),
        None => out.push('\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        let pattern =
            RegexPattern::compile(pattern).unwrap_or_else(|fault| panic!("{pattern}: {fault}"));
        let found = pattern.is_match(&mut pattern.new_cache(), text, u64::MAX);
        found.expect("within the budget").0
    }

    #[test]
    fn expressions_mean_what_ecma_262_says() {
        for (pattern, yes, no) in [
            ("^\\d+$", "12", "१२"),
            ("^\\w+$", "a_1", "é"),
            ("^[\\w-]+$", "a-b", "a b"),
            ("^[\\d.]+$", "1.2", "a"),
            ("^\\W$", "é", "a"),
            ("^\\s$", "\u{feff}", "x"),
            ("^[[]$", "[", "a"),
            ("^[a&&b]+$", "&", "c"),
            ("^a\\/b$", "a/b", "ab"),
            ("\\bfoo\\b", "a foo é", "afoo"),
            ("^\\cA$", "\u{1}", "A"),
            ("^\\u00e9$", "é", "e"),
            ("^[^]$", "x", "xx"),
            ("b", "abc", "acc"),
            ("^(a|b)*a(a|b){12}$", "abababababbab", "ab"),
            ("^\\p{L}+$", "日本", "1"),
        ] {
            assert!(is_match(pattern, yes), "{pattern} {yes:?}");
            assert!(!is_match(pattern, no), "{pattern} {no:?}");
        }
    }

    #[test]
    fn is_pattern_accepts_any_parsable_text() {
        for (text, is_one, flags) in [
            ("^(?:a|b)+(?<name>c)(?P<other>d)$", true, false),
            ("(?i)\\p{L}", true, true),
            ("a(?s-i:b)", true, true),
            ("((a{100}){100}){100}", true, false),
            ("(a", false, false),
            ("(?=a)", false, false),
        ] {
            assert_eq!((is_pattern(text), has_flags(text)), (is_one, flags), "{text}");
        }
        assert!(parsing_steps("(?i)ab") > 10 * parsing_steps("(?:ab)"));
    }

    #[test]
    fn unsupported_patterns_are_refused() {
        for (pattern, words) in [
            ("(a{100}){100}{100}", "repeat less"),
            ("^(?!a)", "looks around"),
            ("(a", "unclosed group"),
            (&"a".repeat(limits::SCHEMA_PATTERN_BYTES_MAX + 1), "the limit is"),
        ] {
            let fault = RegexPattern::compile(pattern).expect_err(pattern);
            assert!(fault.contains(words), "{fault}");
        }
    }

    /// 2^15 states of the lazy automaton: it gives up, and the slower engine answers within the steps that are charged.
    #[test]
    fn automaton_growth_is_charged() {
        let pattern = RegexPattern::compile("(a|b)*a(a|b){14}c").expect("a pattern");
        let mut seed = 7_u32;
        let text: String = (0..200_000)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if seed & (1 << 20) == 0 { 'a' } else { 'b' }
            })
            .collect();
        let (found, steps) =
            pattern.is_match(&mut pattern.new_cache(), &text, u64::MAX).expect("steps enough");
        assert!(!found && steps > text.len() as u64, "{steps}");
        assert!(pattern.is_match(&mut pattern.new_cache(), &text, 1000).is_err());
    }
}
