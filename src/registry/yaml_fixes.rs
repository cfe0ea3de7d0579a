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

/// Adds to the finding of a syntax error the first fix with which `parse` succeeds, or fails on a later line.
pub(super) fn suggest_syntax_fix(
    text: &str,
    finding: Finding,
    parse: impl Fn(&str) -> Result<(), Box<Finding>>,
) -> Finding {
    if finding.rule != Rule::Syntax || finding.suggestion.is_some() {
        return finding;
    }
    if let Some(finding) = document_marker_finding(text, &parse) {
        return finding;
    }
    let improves = |remedy: &SyntaxFix| match parse(&apply_replacements(text, &remedy.changes)) {
        Ok(()) => true,
        Err(next) => next.line > finding.line,
    };
    let remedies =
        [fix_code_fence, fix_tabs, fix_bare_braces, fix_unquoted_template, fix_unquoted_value];
    let remedies = remedies.iter().filter_map(|remedy| remedy(text, &finding));
    match { remedies }.find(improves) {
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
    let (mut result, mut copied_to) = (String::with_capacity(text.len()), 0);
    for (start, old, new) in changes {
        result.push_str(&text[copied_to..*start]);
        result.push_str(new);
        copied_to = start + old.len();
    }
    result + &text[copied_to..]
}

/// A code fence of three backticks around the whole text, possibly with other words around it.
fn fix_code_fence(text: &str, _: &Finding) -> Option<SyntaxFix> {
    let fence_start = text.find("```").filter(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let start = fence_start + text[fence_start..].find('\n')? + 1;
    let end = text[start..].find("\n```").map_or(text.len(), |at| start + at + 1);
    let removal = |from: usize, to: usize| (from, text[from..to].to_owned(), String::new());
    Some(SyntaxFix {
        suggestion: "write it without the code fence around it, and nothing else".to_owned(),
        changes: vec![removal(0, start), removal(end, text.len())],
    })
}

/// The finding for a line `---` that ends the manifest or starts a second document.
fn document_marker_finding(
    text: &str,
    parse: &impl Fn(&str) -> Result<(), Box<Finding>>,
) -> Option<Finding> {
    let is_blank = |line: &&str| line.trim().is_empty() || line.starts_with(['#', '%', '-']);
    let head = text.split_inclusive('\n').take_while(is_blank);
    let head: usize = head.map(str::len).sum();
    let marker_offset = head + text[head..].find("\n---")? + 1;
    parse(&text[..marker_offset]).ok()?;
    let line = text[marker_offset..].split_inclusive('\n').next()?;
    let place = Place::from_bytes(text, marker_offset, marker_offset + line.len());
    let finding = |message| Finding::new(Rule::Syntax, "", place, message);
    if text[marker_offset + line.len()..].lines().all(|line| is_blank(&line)) {
        let hint = "remove the line `---`: it begins a document, and there is none";
        let finding = finding("the manifest ends with `---`").suggest(hint.to_owned());
        return Some(finding.edit_replace_bytes(
            Some(marker_offset),
            line.to_owned(),
            String::new(),
        ));
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
    let is_text = is_template || comment.starts_with(char::is_alphanumeric);
    if sign.len() == rest.len() || !is_text {
        return None;
    }
    let end = text.len() - sign.len() + 1 + comment.len();
    let full_value = text[place.start..end].to_owned();
    let message =
        format!("the text ends before ` #`, and `#{}` is a comment", shorten_text(comment));
    let finding = Finding::new(Rule::CutByComment, path, place, message);
    let quoted = quote_text(&full_value).filter(|_| !full_value.contains('\n'));
    let is_sure = quoted.is_some() && is_template;
    let shown_value = quoted.unwrap_or_else(|| full_value.clone());
    let hint = format!("put the whole text in quotes where that is a part of it: {shown_value}");
    let start = is_sure.then_some(place.start);
    Some(finding.suggest(hint).edit_replace_bytes(start, full_value, shown_value))
}

/// Tabs in the indentation of lines.
fn fix_tabs(text: &str, _: &Finding) -> Option<SyntaxFix> {
    let mut changes = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let blank = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        if blank.contains('\t') {
            changes.push((offset, blank.to_owned(), blank.replace('\t', "  ")));
        }
        offset += line.len();
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
        changes: vec![(line.value_offset, value.to_owned(), new)],
    })
}

/// `${{ … }}` inside `{ … }` or `[ … ]`, where YAML interprets its braces and commas.
fn fix_unquoted_template(text: &str, finding: &Finding) -> Option<SyntaxFix> {
    let line = KeyValueLine::from_text(text, finding.line)?;
    let mut changes = Vec::new();
    let mut search_start = 0;
    while let Some(template_start) =
        line.value[search_start..].find("${{").map(|at| search_start + at)
    {
        let template_end = template_start + line.value[template_start..].find("}}")? + 2;
        let (before, after) =
            (line.value[..template_start].trim_end(), line.value[template_end..].trim_start());
        let template = &line.value[template_start..template_end];
        if before.ends_with([':', ',', '[', '{'])
            && (after.is_empty() || after.starts_with([',', ']', '}']))
        {
            changes.push((
                line.value_offset + template_start,
                template.to_owned(),
                quote_text(template)?,
            ));
        }
        search_start = template_end;
    }
    let (_, _, first) = changes.first()?;
    Some(SyntaxFix { suggestion: format!("put it in quotes: {first}"), changes })
}

/// An unquoted text that YAML reads differently, such as one that contains `: `.
fn fix_unquoted_value(text: &str, finding: &Finding) -> Option<SyntaxFix> {
    let line = KeyValueLine::from_text(text, finding.line)?;
    let value = line.value.trim_end();
    if value.is_empty() || value.starts_with(['|', '>', '{', '[']) || line.is_continued {
        return None;
    }
    let new = quote_text(value)?;
    Some(SyntaxFix {
        suggestion: format!("put the text in quotes: `{}: {}`", line.key, shorten_text(&new)),
        changes: vec![(line.value_offset, value.to_owned(), new)],
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
    value_offset: usize,
    /// Whether the next line is indented deeper, so that the value continues there.
    is_continued: bool,
}

impl<'a> KeyValueLine<'a> {
    fn from_text(text: &'a str, number: usize) -> Option<Self> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let start: usize = lines.iter().take(number.checked_sub(1)?).map(|line| line.len()).sum();
        let line = lines.get(number - 1)?;
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
        let (key, rest) = line.split_once(':')?;
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let next_line = lines.iter().skip(number).find(|line| !line.trim().is_empty());
        Some(Self {
            value_offset: start + key.len() + 1 + blank,
            value: rest[blank..].trim_end_matches(['\r', '\n']),
            is_continued: next_line.is_some_and(|next| indent(next) > indent(line)),
            key: key.trim_start_matches([' ', '-']),
        })
    }
}
