//! Turns syntax faults of expressions into findings.

use super::super::{
    expression::{ExpressionFault, FaultKind},
    finding::{Finding, Rule},
};
use super::site::ExpressionSite;

/// The finding for a fault in a text. `full_path` is the path that the author probably meant, if known.
pub(super) fn fault_finding(
    site: &ExpressionSite<'_>,
    fault: &ExpressionFault,
    full_path: Option<String>,
) -> Finding {
    let rule = match fault.kind {
        FaultKind::UnknownName => Rule::UnknownReference,
        FaultKind::Limit => Rule::LimitExceeded,
        _ => Rule::IllFormedExpression,
    };
    let (place, text) = (site.place, site.text);
    let finding = Finding::new(rule, &site.path, place, fault.message.as_str()).narrow_to_part(
        place,
        text,
        fault.offset,
        fault.length,
    );
    if let Some(full_path) = full_path {
        let part = (fault.offset, fault.length);
        return finding
            .suggest(format!("did you mean `{full_path}`?"))
            .edit_replace_part(place, text, part, &full_path);
    }
    let finding = finding.suggest(fault.suggestion.clone());
    if let Some((part, literal)) = literal_template_edit(site, fault) {
        let finding = finding.suggest(format!(
            "give it as an input, or write `{literal}` where these signs are meant"
        ));
        return match text.get(fault.offset..fault.offset + fault.length) {
            Some("github" | "runner") => finding.edit_replace_part(place, text, part, &literal),
            Some("matrix") => finding.suggest("a `foreach` has its item as `item`".to_owned()),
            _ => finding,
        };
    }
    match &fault.edit {
        Some(edit) => {
            let part = (edit.start, edit.end.saturating_sub(edit.start));
            finding.edit_replace_part(place, text, part, &edit.replacement)
        }
        None => finding,
    }
}

/// The byte range of the template around an unknown name, and the expression that yields that template as literal text.
fn literal_template_edit(
    site: &ExpressionSite<'_>,
    fault: &ExpressionFault,
) -> Option<((usize, usize), String)> {
    let has_suggestion = fault.suggestion.as_ref().is_some_and(|hint| hint.starts_with("did you"));
    let is_unknown = fault.kind == FaultKind::UnknownName && !has_suggestion;
    let template_start = site.text.get(..fault.offset)?.rfind("${{").filter(|_| is_unknown)?;
    let template = site.text.get(template_start..)?;
    let template = &template[..template.find("}}")? + 2];
    let quote = ['\'', '"'].into_iter().find(|quote| !template.contains(*quote))?;
    let literal = format!("${{{{ {quote}{template}{quote} }}}}");
    Some(((template_start, template.len()), literal))
}
