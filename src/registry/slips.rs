//! Suggests fixes for texts that are not valid YAML, such as a code fence around them, tabs, or values that need
//! quotes. A fix is suggested only if the text then parses completely, or farther than before. Also warns about valid
//! YAML that is cut off by an unintended comment.

use midex_domain::finding::{Finding, Place, Rule};

/// A replacement in a text: its offset, the old text, and the new text.
type TextReplacement = (usize, String, String);

/// A suggested fix for a text.
struct SyntaxFix {
    suggestion: String,
    changes: Vec<TextReplacement>,
}

/// Adds to the finding of a syntax error the first fix with which `read` succeeds, or fails on a later line.
pub(super) fn suggest_syntax_fix(
    text: &str,
    finding: Finding,
    read: impl Fn(&str) -> Result<(), Box<Finding>>,
) -> Finding {
    if finding.rule != Rule::Syntax || finding.suggestion.is_some() {
        return finding;
    }
    if let Some(finding) = document_marker_finding(text, &read) {
        return finding;
    }
    let gets_farther = |remedy: &SyntaxFix| match read(&apply_replacements(text, &remedy.changes)) {
        Ok(()) => true,
        Err(next) => next.line > finding.line,
    };
    let remedies =
        [fix_code_fence, fix_tabs, fix_bare_braces, fix_unquoted_template, fix_unquoted_value];
    let remedies = remedies.iter().filter_map(|remedy| remedy(text, &finding));
    match { remedies }.find(gets_farther) {
        Some(remedy) => remedy
            .changes
            .into_iter()
            .fold(finding, |finding, (start, old, new)| {
                finding.edit_replace_bytes(Some(start), old, new)
            })
            .suggest(remedy.suggestion),
        None => finding,
    }
}

fn apply_replacements(text: &str, changes: &[TextReplacement]) -> String {
    let (mut all, mut from) = (String::with_capacity(text.len()), 0);
    for (start, old, new) in changes {
        all.push_str(&text[from..*start]);
        all.push_str(new);
        from = start + old.len();
    }
    all + &text[from..]
}

/// A code fence of three backticks around the whole text, possibly with other words around it.
fn fix_code_fence(text: &str, _: &Finding) -> Option<SyntaxFix> {
    let open = text.find("```").filter(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let start = open + text[open..].find('\n')? + 1;
    let end = text[start..].find("\n```").map_or(text.len(), |at| start + at + 1);
    let cut = |from: usize, to: usize| (from, text[from..to].to_owned(), String::new());
    Some(SyntaxFix {
        suggestion: "write it without the code fence around it, and nothing else".to_owned(),
        changes: vec![cut(0, start), cut(end, text.len())],
    })
}

/// The finding for a line `---` that ends the manifest or starts a second document.
fn document_marker_finding(
    text: &str,
    read: &impl Fn(&str) -> Result<(), Box<Finding>>,
) -> Option<Finding> {
    let is_blank = |line: &&str| line.trim().is_empty() || line.starts_with(['#', '%', '-']);
    let head = text.split_inclusive('\n').take_while(is_blank);
    let head: usize = head.map(str::len).sum();
    let at = head + text[head..].find("\n---")? + 1;
    read(&text[..at]).ok()?;
    let line = text[at..].split_inclusive('\n').next()?;
    let place = Place::of_bytes(text, at, at + line.len());
    let finding = |message| Finding::new(Rule::Syntax, "", place, message);
    if text[at + line.len()..].lines().all(|line| is_blank(&line)) {
        let hint = "remove the line `---`: it begins a document, and there is none";
        let finding = finding("the manifest ends with `---`").suggest(hint.to_owned());
        return Some(finding.edit_replace_bytes(Some(at), line.to_owned(), String::new()));
    }
    let hint = "put what follows into a file of its own";
    let message = "a second document begins here, and a file holds one manifest";
    Some(finding(message).suggest(hint.to_owned()))
}

/// The warning for an unquoted text that a ` #` cuts off, if the comment looks like part of the text: it starts with a
/// word directly after the `#`, or contains an expression.
pub(super) fn comment_cut_warning(
    text: &str,
    place: Place,
    value: &str,
    path: &str,
) -> Option<Finding> {
    let mut rest = text.get(place.start..)?;
    // In a quoted or block scalar, the source does not contain the words of the value one after another.
    for word in value.split_whitespace() {
        rest = rest.trim_start().strip_prefix(word)?;
    }
    let sign = rest.trim_start_matches([' ', '\t']);
    let comment = sign.strip_prefix('#')?.lines().next()?.trim_end();
    let is_template = comment.contains("${{");
    let is_meant = is_template || comment.starts_with(char::is_alphanumeric);
    if sign.len() == rest.len() || !is_meant {
        return None;
    }
    let end = text.len() - sign.len() + 1 + comment.len();
    let whole = text[place.start..end].to_owned();
    let message =
        format!("the text ends before ` #`, and `#{}` is a comment", shorten_text(comment));
    let finding = Finding::new(Rule::CutByComment, path, place, message);
    let quoted = quote_text(&whole).filter(|_| !whole.contains('\n'));
    let is_sure = quoted.is_some() && is_template;
    let shown = quoted.unwrap_or_else(|| whole.clone());
    let hint = format!("put the whole text in quotes where that is a part of it: {shown}");
    let start = is_sure.then_some(place.start);
    Some(finding.suggest(hint).edit_replace_bytes(start, whole, shown))
}

/// Tabs in the indentation of lines.
fn fix_tabs(text: &str, _: &Finding) -> Option<SyntaxFix> {
    let mut changes = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let blank = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        if blank.contains('\t') {
            changes.push((at, blank.to_owned(), blank.replace('\t', "  ")));
        }
        at += line.len();
    }
    (!changes.is_empty()).then(|| SyntaxFix {
        suggestion: "indent with spaces: YAML takes no tabs there".to_owned(),
        changes,
    })
}

/// `{{ … }}` as a value: without `$` and quotes, YAML reads it as a mapping.
fn fix_bare_braces(text: &str, finding: &Finding) -> Option<SyntaxFix> {
    let line = KeyValueLine::from_text(text, finding.line)?;
    let value = line.value.trim_end();
    let inner = value.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let new = if ["if", "when", "until"].contains(&line.key) {
        inner.to_owned()
    } else {
        quote_text(&format!("${{{{ {inner} }}}}"))?
    };
    Some(SyntaxFix {
        suggestion: format!("write `{new}`: braces without quotes are a mapping"),
        changes: vec![(line.value_at, value.to_owned(), new)],
    })
}

/// `${{ … }}` inside `{ … }` or `[ … ]`, where YAML interprets its braces and commas.
fn fix_unquoted_template(text: &str, finding: &Finding) -> Option<SyntaxFix> {
    let line = KeyValueLine::from_text(text, finding.line)?;
    let mut changes = Vec::new();
    let mut from = 0;
    while let Some(open) = line.value[from..].find("${{").map(|at| from + at) {
        let close = open + line.value[open..].find("}}")? + 2;
        let (before, after) = (line.value[..open].trim_end(), line.value[close..].trim_start());
        let template = &line.value[open..close];
        if before.ends_with([':', ',', '[', '{'])
            && (after.is_empty() || after.starts_with([',', ']', '}']))
        {
            changes.push((line.value_at + open, template.to_owned(), quote_text(template)?));
        }
        from = close;
    }
    let (_, _, first) = changes.first()?;
    Some(SyntaxFix { suggestion: format!("put it in quotes: {first}"), changes })
}

/// An unquoted text that YAML reads differently, such as one that contains `: `.
fn fix_unquoted_value(text: &str, finding: &Finding) -> Option<SyntaxFix> {
    let line = KeyValueLine::from_text(text, finding.line)?;
    let value = line.value.trim_end();
    if value.is_empty() || value.starts_with(['|', '>', '{', '[']) || line.goes_on {
        return None;
    }
    let new = quote_text(value)?;
    Some(SyntaxFix {
        suggestion: format!("put the text in quotes: `{}: {}`", line.key, shorten_text(&new)),
        changes: vec![(line.value_at, value.to_owned(), new)],
    })
}

fn quote_text(text: &str) -> Option<String> {
    let quote = ['"', '\''].into_iter().find(|quote| !text.contains(*quote))?;
    (!text.contains('\\')).then(|| format!("{quote}{text}{quote}"))
}

/// A text, shortened for a suggestion.
fn shorten_text(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…{}", &text[..end], &text[..1]),
        None => text.to_owned(),
    }
}

/// A line of the form `key: value`.
struct KeyValueLine<'a> {
    key: &'a str,
    value: &'a str,
    /// The offset of the value in the whole text.
    value_at: usize,
    /// Whether the next line is indented deeper, so that the value continues there.
    goes_on: bool,
}

impl<'a> KeyValueLine<'a> {
    fn from_text(text: &'a str, number: usize) -> Option<Self> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let start: usize = lines.iter().take(number.checked_sub(1)?).map(|line| line.len()).sum();
        let line = lines.get(number - 1)?;
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
        let (key, rest) = line.split_once(':')?;
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let next = lines.iter().skip(number).find(|line| !line.trim().is_empty());
        Some(Self {
            value_at: start + key.len() + 1 + blank,
            value: rest[blank..].trim_end_matches(['\r', '\n']),
            goes_on: next.is_some_and(|next| indent(next) > indent(line)),
            key: key.trim_start_matches([' ', '-']),
        })
    }
}
