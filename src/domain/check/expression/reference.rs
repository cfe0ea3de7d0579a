//! The references in an expression, and the names that they begin and end with.

use super::{Cow, Expression, ExpressionFault, ExpressionSite, Reference, Segment, Template};

/// A memory key for the output that the reference reads: the last name of its path.
pub(super) fn suggest_memory_key(reference: &Reference) -> String {
    let last = reference.path.iter().rev().find_map(|segment| match segment {
        Segment::Key(key) => Some(key.as_str()),
        Segment::Index(_) => None,
    });
    let last = last.unwrap_or("kept");
    let letters = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    letters.collect()
}

/// The first segment of a path, as a name.
pub(super) fn first_segment(reference: &Reference) -> Option<Cow<'_, str>> {
    reference.path.first().map(Segment::as_key)
}

/// The references in a text, as far as it parses, and its faults.
pub(super) fn collect_references(
    site: &ExpressionSite<'_>,
    names: &[&str],
) -> (Vec<Reference>, Vec<ExpressionFault>) {
    if site.is_condition {
        Expression::collect_condition_references(site.text, names)
    } else {
        Template::collect_references(site.text, names)
    }
}
