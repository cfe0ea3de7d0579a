//! Texts that look like expressions to their author and are none: `{{ inputs.topic }}`, `${inputs.topic}`, or an expression
//! without anything around it that is all there is.

use super::super::{
    draft::StepDraft,
    expression::{Expression, Reference},
    finding::{Finding, Rule},
    grammar::is_template,
};

/// A part of a text that is an expression in other braces, or none.
pub(super) struct Lookalike {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The same as an expression.
    pub(super) meant: String,
    pub(super) references: Vec<Reference>,
}

/// How other languages put an expression into a text: how it opens and closes.
const BRACES: [(&str, &str); 2] = [("{{", "}}"), ("${", "}")];

/// How far the end of such an expression is looked for: a text may open thousands of braces and close none.
const EXPRESSION_ALIKE_BYTES_MAX: usize = 1000;

/// Every part of `text` that could be an expression; `names` stand for an item.
pub(super) fn parts(text: &str, names: &[&str]) -> Vec<Lookalike> {
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    if let Some(whole) = alike(trimmed, (start, start + trimmed.len()), names) {
        return vec![whole];
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let part = BRACES
            .iter()
            .find_map(|braces| braced(text, open, *braces, names));
        from = part.as_ref().map_or(open + 1, |part| part.end);
        // An expression is skipped as a whole.
        if text[..open].ends_with('$') && text[open..].starts_with("{{") {
            from = text[open..]
                .find("}}")
                .map_or(text.len(), |at| open + at + 2);
        } else {
            found.extend(part);
        }
    }
    found
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

/// The part that begins with the brace at `brace`, if it is between these.
fn braced(
    text: &str,
    brace: usize,
    (open, close): (&str, &str),
    names: &[&str],
) -> Option<Lookalike> {
    let start = brace.checked_sub(open.find('{')?)?;
    let inside = start + open.len();
    if !text.get(start..)?.starts_with(open) {
        return None;
    }
    let within = text.floor_char_boundary(inside + EXPRESSION_ALIKE_BYTES_MAX);
    let end = inside + text.get(inside..within)?.find(close)?;
    alike(text[inside..end].trim(), (start, end + close.len()), names)
}

/// The part of a text that says `inner`, if that is an expression with a path in it.
fn alike(inner: &str, (start, end): (usize, usize), names: &[&str]) -> Option<Lookalike> {
    // A cheap look first: most texts are prose.
    if !inner.contains(['.', '[']) || inner.contains("${{") || inner.contains('\n') {
        return None;
    }
    let expression = Expression::parse_with(inner, names).ok()?;
    let references = expression.references().to_vec();
    let has_paths = references
        .iter()
        .all(|reference| !reference.path.is_empty());
    (has_paths && !references.is_empty()).then(|| Lookalike {
        start,
        end,
        meant: format!("${{{{ {inner} }}}}"),
        references,
    })
}
