//! Faults in the text of an expression as findings.

use super::super::{
    expression::{ExpressionFault, FaultKind},
    finding::{Finding, Rule},
};
use super::site::Site;

/// The finding for a fault in a text. `meant` is what the author meant by the faulty name, where that is known.
pub(super) fn finding(site: &Site<'_>, fault: &ExpressionFault, meant: Option<String>) -> Finding {
    let rule = match fault.kind {
        FaultKind::UnknownName => Rule::UnknownReference,
        FaultKind::Limit => Rule::LimitExceeded,
        _ => Rule::IllFormedExpression,
    };
    let (place, text) = (site.place, site.text);
    let finding = Finding::new(rule, &site.path, place, fault.message.as_str()).within(
        place,
        text,
        fault.offset,
        fault.length,
    );
    if let Some(meant) = meant {
        let part = (fault.offset, fault.length);
        return finding
            .suggest(format!("did you mean `{meant}`?"))
            .replace_within(place, text, part, &meant);
    }
    let finding = finding.suggest(fault.suggestion.clone());
    match &fault.edit {
        Some(edit) => {
            let part = (edit.start, edit.end.saturating_sub(edit.start));
            finding.replace_within(place, text, part, &edit.replacement)
        }
        None => finding,
    }
}
