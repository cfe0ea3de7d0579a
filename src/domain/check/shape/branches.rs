//! Validates the `branches` that a step offers.

use super::{TextNode, check_entry_count, record, wrong_type};
use crate::{
    definition::Pattern,
    finding::{Finding, Rule},
    grammar::Record,
    limits,
    node::{Node, join},
};

/// Checks the `branches` of a step: each key is a pattern of the step's output.
pub(super) fn check_branch_patterns(
    found: &mut Vec<Finding>,
    node: &Node,
    path: &str,
    branch: &Record,
) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type(node, path, "a mapping"));
    };
    check_entry_count(
        found,
        node,
        path,
        (entries.len(), 1, limits::STEP_BRANCHES_MAX),
    );
    for entry in entries {
        let path = join(path, &entry.key);
        let key = TextNode {
            text: &entry.key,
            path: &path,
            place: entry.place,
        };
        found.extend(key.check_length(limits::BRANCH_PATTERN_BYTES_MAX));
        if let Err(violation) = Pattern::parse(&entry.key) {
            let finding = key.finding(Rule::IllFormedPattern, violation.message);
            found.push(finding.suggest(violation.expected));
        }
        record(found, &entry.value, &path, branch);
    }
}
