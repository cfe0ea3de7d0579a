//! Texts that look like expressions to their author and are none: `{{ inputs.topic }}`, `${inputs.topic}`, or an expression
//! without anything around it that is all there is.

use super::super::{
    draft::StepDraft,
    expression::{Expression, Reference, Root},
    finding::{Finding, Rule},
    grammar::is_template,
};
use super::site::Site;

/// A part of a text that is an expression in the signs of another language, or in none.
pub(super) struct Lookalike {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The text between the delimiters, with known names of other systems translated.
    pub(super) inner: String,
    /// The paths in it; none where it is no expression of ours.
    pub(super) references: Vec<Reference>,
}

/// How other languages put an expression into a text: how it opens and closes.
const SIGNS: [(&str, &str); 4] = [("={{", "}}"), ("{{", "}}"), ("$(", ")"), ("${", "}")];

/// How far the end of such an expression is looked for: a text may open thousands of braces and close none.
const EXPRESSION_ALIKE_BYTES_MAX: usize = 1000;

/// Every part of `text` that could be an expression; `names` stand for an item.
pub(super) fn parts(text: &str, names: &[&str]) -> Vec<Lookalike> {
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    // A cheap look first: most texts are prose.
    if trimmed.contains(['.', '['])
        && let Some(whole) = alike(trimmed, (start, start + trimmed.len()), names)
    {
        return vec![whole];
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find(['{', '$', '=']).map(|at| from + at) {
        let rest = &text[open..];
        if rest.starts_with("${{") {
            // An expression is skipped as a whole.
            from = rest.find("}}").map_or(text.len(), |at| open + at + 2);
            continue;
        }
        let part = SIGNS
            .iter()
            .find_map(|signs| signed(text, open, *signs, names));
        from = part.as_ref().map_or(open + 1, |part| part.end);
        found.extend(part);
    }
    found
}

/// The finding for a condition with parts in the braces of another language.
pub(super) fn braced_condition(site: &Site<'_>, names: &[&str]) -> Option<Finding> {
    if !site.is_condition || !site.text.contains("{{") || is_template(site.text) {
        return None;
    }
    let mut meant = site.text.to_owned();
    for part in parts(site.text, names).iter().rev() {
        meant.replace_range(part.start..part.end, &part.inner);
    }
    let message = "a condition is an expression by itself: it has no braces";
    let finding = Finding::new(Rule::IllFormedExpression, &site.path, site.place, message);
    let hint = format!("write `{meant}`, with texts in quotes: `… == 'word'`");
    Some(finding.suggest(hint))
}

/// A warning of an expression in the description of a step: that is shown as it is.
pub(super) fn described(step: &StepDraft) -> Option<Finding> {
    let field = step.field("description")?;
    if !is_template(field.value.text()?) {
        return None;
    }
    let message = "`description` is shown as it is: an expression in it has no value";
    let place = field.value.place;
    let finding = Finding::new(Rule::LooksLikeExpression, &field.path, place, message);
    let is_task = step.field("agent").is_some() && step.field("instructions").is_none();
    Some(if is_task {
        finding.is_called(field.place, "description", "instructions")
    } else {
        finding.suggest("say it in what the step does, or pass the value in `with`".to_owned())
    })
}

/// The part that opens at the byte `open`, if it is between these signs.
fn signed(text: &str, at: usize, (open, close): (&str, &str), names: &[&str]) -> Option<Lookalike> {
    let inside = at + open.len();
    if !text[at..].starts_with(open) {
        return None;
    }
    let within = text.floor_char_boundary(inside + EXPRESSION_ALIKE_BYTES_MAX);
    let end = inside + text.get(inside..within)?.find(close)?;
    let (inner, bounds) = (text[inside..end].trim(), (at, end + close.len()));
    alike(inner, bounds, names).or_else(|| {
        let is_path = |c: char| c.is_alphanumeric() || "_-.$[]'\"".contains(c);
        let is_name = inner.starts_with(|c: char| c.is_alphabetic() || "_$".contains(c));
        let is_any = is_name && inner.chars().all(is_path);
        is_any.then(|| Lookalike {
            start: bounds.0,
            end: bounds.1,
            inner: inner.to_owned(),
            references: Vec::new(),
        })
    })
}

/// The part of a text that says `inner`, if that is an expression with a path in it.
fn alike(inner: &str, (start, end): (usize, usize), names: &[&str]) -> Option<Lookalike> {
    if inner.contains("${{") || inner.contains('\n') {
        return None;
    }
    let inner = in_our_words(inner);
    let expression = Expression::parse_with(&inner, names).ok()?;
    let references = expression.references().to_vec();
    let is_whole =
        |one: &Reference| !one.path.is_empty() || matches!(one.root, Root::Item | Root::Index);
    (references.iter().all(is_whole) && !references.is_empty()).then_some(Lookalike {
        start,
        end,
        inner,
        references,
    })
}

/// What paths of Argo and n8n begin with and have in them, and what ours have there.
const WORDS: [(&str, &str); 10] = [
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

/// A path of another system as one of ours.
fn in_our_words(path: &str) -> String {
    WORDS.iter().fold(path.to_owned(), |path, (theirs, ours)| {
        let is_there = path.starts_with(theirs)
            || !theirs.starts_with(char::is_alphabetic) && path.contains(theirs);
        if is_there {
            path.replacen(theirs, ours, 1)
        } else {
            path
        }
    })
}
