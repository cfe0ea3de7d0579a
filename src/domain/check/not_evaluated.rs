//! Finds texts that resemble expressions and are none: `{{ inputs.topic }}`, `${inputs.topic}`, or a bare expression
//! that is the whole text.

use super::super::{
    draft::StepDraft,
    expression::{Expression, Reference, ReferenceRoot},
    finding::{Finding, Rule},
    grammar::has_template,
};
use super::site::ExpressionSite;

/// A part of a text that is an expression in the delimiters of another language, or without delimiters.
pub(super) struct LookalikeExpression {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The text between the delimiters, with known names of other systems translated.
    pub(super) inner: String,
    /// The references in it; empty if it does not parse as an expression.
    pub(super) references: Vec<Reference>,
}

/// The opening and closing delimiters of other template languages.
const FOREIGN_DELIMITERS: [(&str, &str); 4] =
    [("={{", "}}"), ("{{", "}}"), ("$(", ")"), ("${", "}")];

/// How far the closing delimiter is searched, in bytes. A text may open thousands of braces and close none.
const EXPRESSION_ALIKE_BYTES_MAX: usize = 1000;

/// All parts of `text` that resemble expressions. `names` refer to the item of a `foreach`.
pub(super) fn find_lookalikes(text: &str, names: &[&str]) -> Vec<LookalikeExpression> {
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    // Most texts are prose: skip the parser unless the text has a dot or a bracket.
    if trimmed.contains(['.', '['])
        && let Some(lookalike) = parse_lookalike(trimmed, (start, start + trimmed.len()), names)
    {
        return vec![lookalike];
    }
    let mut lookalikes = Vec::new();
    let mut offset = 0;
    while let Some(open) = text[offset..].find(['{', '$', '=']).map(|at| offset + at) {
        let rest = &text[open..];
        if rest.starts_with("${{") {
            // An expression is skipped as a whole.
            offset = rest.find("}}").map_or(text.len(), |at| open + at + 2);
            continue;
        }
        let lookalike = FOREIGN_DELIMITERS
            .iter()
            .find_map(|signs| parse_delimited_lookalike(text, open, *signs, names));
        offset = lookalike.as_ref().map_or(open + 1, |part| part.end);
        lookalikes.extend(lookalike);
    }
    lookalikes
}

/// The finding for a condition that uses the delimiters of another language.
pub(super) fn braced_condition_finding(
    site: &ExpressionSite<'_>,
    names: &[&str],
) -> Option<Finding> {
    if !site.is_condition || !site.text.contains("{{") || has_template(site.text) {
        return None;
    }
    let mut suggestion = site.text.to_owned();
    for part in find_lookalikes(site.text, names).iter().rev() {
        suggestion.replace_range(part.start..part.end, &part.inner);
    }
    let message = "a condition is an expression by itself: it has no braces";
    let finding = Finding::new(Rule::IllFormedExpression, &site.path, site.place, message);
    let hint = format!("write `{suggestion}`, with texts in quotes: `… == 'word'`");
    Some(finding.suggest(hint))
}

/// A warning for an expression in the description of a step, where it is not evaluated.
pub(super) fn description_expression_finding(step: &StepDraft) -> Option<Finding> {
    let field = step.find_field("description")?;
    if !has_template(field.value.as_text()?) {
        return None;
    }
    let message = "`description` is shown as it is: an expression in it has no value";
    let place = field.value.place;
    let finding = Finding::new(Rule::LooksLikeExpression, &field.path, place, message);
    let is_task = step.find_field("agent").is_some() && step.find_field("instructions").is_none();
    Some(if is_task {
        finding.suggest_replacement(field.place, "description", "instructions")
    } else {
        finding.suggest("say it in what the step does, or pass the value in `with`".to_owned())
    })
}

/// The part that starts at byte `at` with these delimiters, if any.
fn parse_delimited_lookalike(
    text: &str,
    at: usize,
    (open, close): (&str, &str),
    names: &[&str],
) -> Option<LookalikeExpression> {
    let inner_start = at + open.len();
    if !text[at..].starts_with(open) {
        return None;
    }
    let limit = text.floor_char_boundary(inner_start + EXPRESSION_ALIKE_BYTES_MAX);
    let end = inner_start + text.get(inner_start..limit)?.find(close)?;
    let (inner, bounds) = (text[inner_start..end].trim(), (at, end + close.len()));
    parse_lookalike(inner, bounds, names).or_else(|| {
        let is_path = |c: char| c.is_alphanumeric() || "_-.$[]'\"".contains(c);
        let is_name = inner.starts_with(|c: char| c.is_alphabetic() || "_$".contains(c));
        let is_path_like = is_name && inner.chars().all(is_path);
        is_path_like.then(|| LookalikeExpression {
            start: bounds.0,
            end: bounds.1,
            inner: inner.to_owned(),
            references: Vec::new(),
        })
    })
}

/// The part with the text `inner`, if that parses as an expression that contains at least one reference.
fn parse_lookalike(
    inner: &str,
    (start, end): (usize, usize),
    names: &[&str],
) -> Option<LookalikeExpression> {
    if inner.contains("${{") || inner.contains('\n') {
        return None;
    }
    let inner = translate_foreign_path(inner);
    let expression = Expression::parse_with(&inner, names).ok()?;
    let references = expression.references().to_vec();
    let is_full_path = |one: &Reference| {
        !one.path.is_empty() || matches!(one.root, ReferenceRoot::Item | ReferenceRoot::Index)
    };
    (references.iter().all(is_full_path) && !references.is_empty()).then_some(LookalikeExpression {
        start,
        end,
        inner,
        references,
    })
}

/// Path fragments of Argo and n8n, with the equivalents of midex.
const FOREIGN_PATH_FRAGMENTS: [(&str, &str); 10] = [
    ("workflow.parameters.", "inputs."),
    ("inputs.parameters.", "inputs."),
    ("tasks.", "steps."),
    ("$json.", "inputs."),
    ("$node[\"", "steps."),
    ("$('", "steps."),
    ("\"].json.", "."),
    ("').item.json.", "."),
    (".outputs.result", ".summary"),
    (".outputs.parameters.", "."),
];

/// Translates a path of another system.
fn translate_foreign_path(path: &str) -> String {
    FOREIGN_PATH_FRAGMENTS.iter().fold(path.to_owned(), |path, (theirs, ours)| {
        let is_there = path.starts_with(theirs)
            || !theirs.starts_with(char::is_alphabetic) && path.contains(theirs);
        if is_there { path.replacen(theirs, ours, 1) } else { path }
    })
}
