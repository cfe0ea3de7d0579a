//! Validates the `branches` that a step offers.

use super::{TextNode, check_entry_count, check_record, wrong_type_finding};
use crate::{
    definition::OutputPattern,
    finding::{Finding, Rule},
    grammar::MappingShape,
    limits,
    node::{DocumentNode, join_path},
};

/// Checks the `branches` of a step: each key is a pattern of the step's output.
pub(super) fn check_branch_patterns(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    branch: &MappingShape,
) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    check_entry_count(findings, node, path, (entries.len(), 1, limits::STEP_BRANCHES_MAX));
    for entry in entries {
        let path = join_path(path, &entry.key);
        let key = TextNode { text: &entry.key, path: &path, place: entry.place };
        findings.extend(key.check_length(limits::BRANCH_PATTERN_BYTES_MAX));
        if let Err(violation) = OutputPattern::parse(&entry.key) {
            let finding = key.finding(Rule::IllFormedPattern, violation.message);
            findings.push(finding.suggest(violation.expected));
        }
        check_record(findings, &entry.value, &path, branch);
    }
}
