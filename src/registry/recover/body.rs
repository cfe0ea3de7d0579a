//! Recovers a `do` that is directly in a step. It belongs below a `foreach`, and contains a step.

use super::{
    KeywordRewriter,
    values::{find_key_position, format_value, make_entry, make_mapping},
};
use midex_domain::{
    check::unknown_key_finding,
    grammar::{self, STEP_SHAPE},
    node::{DocumentNode, MappingEntry, NodeContent, join_path},
};

impl KeywordRewriter<'_> {
    /// A `do` next to `foreach`, or a `do` that contains the keys of the step. A `do` that is a text, in a step without
    /// `foreach` or with another kind, is handled by the table of foreign words.
    pub(super) fn recover_misplaced_body(&mut self, entries: &mut Vec<MappingEntry>, path: &str) {
        let has_other_kind =
            |entry: &MappingEntry| entry.key != "foreach" && grammar::is_step_kind(&entry.key);
        let Some(do_index) =
            find_key_position(entries, "do").filter(|_| !entries.iter().any(has_other_kind))
        else {
            return;
        };
        match find_key_position(entries, "foreach") {
            Some(each) => self.move_body_into_foreach(entries, path, (each, do_index)),
            None => self.unwrap_lone_body(entries, path, do_index),
        }
    }

    fn move_body_into_foreach(
        &mut self,
        entries: &mut Vec<MappingEntry>,
        path: &str,
        (each, at): (usize, usize),
    ) {
        let body = entries[at].value.clone();
        let list = &entries[each].value;
        if list.get("do").is_some() || body.as_text().is_none() && body.entries().is_none() {
            return;
        }
        let list_entry = match list.entries() {
            Some(_) => "write it below `foreach`, beside `in`".to_owned(),
            None => format!(
                "write `in: {}` below `foreach`, and this `do` beside it",
                format_value(list)
            ),
        };
        let hint = match body.as_text() {
            Some(_) => format!("{list_entry}: `do: {{ guidance: {} }}`", format_value(&body)),
            None => list_entry,
        };
        let finding = unknown_key_finding(STEP_SHAPE.label, &entries[at], join_path(path, "do"));
        self.findings.push(finding.suggest(hint).without_edit());
        let list = list.clone();
        entries[each].value = add_foreach_body(list, build_guidance_step(body));
        entries.remove(at);
    }

    /// Without a `foreach`, the keys in the `do` belong to the step itself.
    fn unwrap_lone_body(&mut self, entries: &mut Vec<MappingEntry>, path: &str, at: usize) {
        let body_entries = entries[at].value.entries().unwrap_or_default();
        let Some(kind) = body_entries.iter().find(|entry| grammar::is_step_kind(&entry.key)) else {
            return;
        };
        let hint = format!("write `{}` in the step itself: only a `foreach` has a `do`", kind.key);
        let finding = unknown_key_finding(STEP_SHAPE.label, &entries[at], join_path(path, "do"));
        self.findings.push(finding.suggest(hint).without_edit());
        let NodeContent::Map(body_entries) = entries.remove(at).value.content else {
            return;
        };
        for entry in body_entries {
            if find_key_position(entries, &entry.key).is_none() {
                entries.push(entry);
            }
        }
    }
}

/// Turns a text into a step of kind `guidance`.
fn build_guidance_step(body: DocumentNode) -> DocumentNode {
    match body.as_text() {
        Some(_) => make_mapping(body.place, vec![make_entry("guidance", body)]),
        None => body,
    }
}

/// Adds the body to the mapping of a `foreach`. A bare list becomes such a mapping.
fn add_foreach_body(list: DocumentNode, body: DocumentNode) -> DocumentNode {
    let (place, body) = (list.place, make_entry("do", body));
    match list.content {
        NodeContent::Map(mut entries) => {
            entries.push(body);
            make_mapping(place, entries)
        }
        _ => make_mapping(place, vec![make_entry("in", list), body]),
    }
}
