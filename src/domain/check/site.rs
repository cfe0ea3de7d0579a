//! Collects the texts of a manifest that may hold expressions.

use super::super::{
    expression::Reference,
    finding::{Finding, Place, Rule, has_room_for_suggestions},
    grammar::{MappingShape, ValueShape, has_template},
    nearest::find_nearest,
    node::{DocumentNode, NodeContent, join_path},
};
use super::shape::is_binding;

/// A text that may contain expressions, or that is one.
pub(super) struct ExpressionSite<'a> {
    pub(super) text: &'a str,
    pub(super) path: String,
    pub(super) place: Place,
    /// Whether the text is a condition, which is an expression without delimiters.
    pub(super) is_condition: bool,
    /// Whether the value is stored in memory.
    pub(super) is_stored: bool,
}

impl ExpressionSite<'_> {
    /// A finding about a reference in this text.
    pub(super) fn reference_finding(
        &self,
        rule: Rule,
        reference: &Reference,
        message: String,
    ) -> Finding {
        Finding::new(rule, &self.path, self.place, message).narrow_to_part(
            self.place,
            self.text,
            reference.offset,
            reference.length,
        )
    }

    /// Suggests the nearest of `known` for `name`, a part of the reference; `findings` are the findings so far.
    pub(super) fn suggest_name<'k>(
        &self,
        findings: &[Finding],
        finding: Finding,
        reference: &Reference,
        name: &str,
        known: impl Iterator<Item = &'k str>,
    ) -> Finding {
        let nearest =
            has_room_for_suggestions(findings).then(|| find_nearest(name, known)).flatten();
        let Some(near) = nearest else {
            return finding;
        };
        let finding = finding.suggest(format!("did you mean `{near}`?"));
        let root = reference.root.word().len();
        let name_start = reference.offset + root;
        let rest = self.text.get(name_start..reference.offset + reference.length);
        match rest.and_then(|rest| rest.find(name)) {
            Some(at) => finding.edit_replace_part(
                self.place,
                self.text,
                (name_start + at, name.len()),
                near,
            ),
            None => finding,
        }
    }
}

/// Adds every text of `node` that may hold expressions.
pub(super) fn collect_sites<'a>(
    sites: &mut Vec<ExpressionSite<'a>>,
    node: &'a DocumentNode,
    path: &str,
    shape: &ValueShape,
) {
    match shape {
        ValueShape::Condition => add_site(sites, node, path, true),
        ValueShape::Template(_)
        | ValueShape::IdOrTemplate(_)
        | ValueShape::DurationOrTemplate
        | ValueShape::InstantOrTemplate
        | ValueShape::CountOrTemplate(..)
        | ValueShape::Tolerance(_)
        | ValueShape::Join => {
            add_site(sites, node, path, false);
        }
        // A plain text in place of a list has a finding of its own.
        ValueShape::Items if node.as_text().is_some_and(|text| !has_template(text)) => {}
        ValueShape::Value
        | ValueShape::Values
        | ValueShape::ValuesOrTemplate
        | ValueShape::Memory(_)
        | ValueShape::Items => {
            let first = sites.len();
            node.for_each_text(path, &mut |node, _, path| {
                add_site(sites, node, path, false);
            });
            for site in &mut sites[first..] {
                site.is_stored = matches!(shape, ValueShape::Memory(_));
            }
        }
        ValueShape::Bindings(_) => {
            let entries = node.entries().unwrap_or_default().iter();
            for entry in entries.filter(|entry| !is_binding(&entry.value)) {
                let path = join_path(path, &entry.key);
                collect_sites(sites, &entry.value, &path, &ValueShape::Value);
            }
        }
        ValueShape::Inputs(record) | ValueShape::Branches(record) => {
            for entry in node.entries().unwrap_or_default() {
                collect_field_sites(sites, &entry.value, &join_path(path, &entry.key), record);
            }
        }
        ValueShape::List(item_shape, ..) => {
            for (at, item) in node.items().unwrap_or_default().iter().enumerate() {
                collect_sites(sites, item, &format!("{path}[{at}]"), item_shape);
            }
        }
        ValueShape::Record(record) | ValueShape::FlagOr(record) => {
            collect_field_sites(sites, node, path, record);
        }
        ValueShape::TextOr(record) => match (&node.content, record.keys.first()) {
            (NodeContent::Text(_), Some(first)) => collect_sites(sites, node, path, &first.shape),
            _ => collect_field_sites(sites, node, path, record),
        },
        _ => {}
    }
}

fn collect_field_sites<'a>(
    sites: &mut Vec<ExpressionSite<'a>>,
    node: &'a DocumentNode,
    path: &str,
    record: &MappingShape,
) {
    for key in record.keys {
        if let Some(value) = node.get(key.name) {
            collect_sites(sites, value, &format!("{path}.{}", key.name), &key.shape);
        }
    }
}

fn add_site<'a>(
    sites: &mut Vec<ExpressionSite<'a>>,
    node: &'a DocumentNode,
    path: &str,
    is_condition: bool,
) {
    let text = node.as_text().filter(|text| !text.trim().is_empty());
    sites.extend(text.map(|text| ExpressionSite {
        text,
        path: path.to_owned(),
        place: node.place,
        is_condition,
        is_stored: false,
    }));
}
