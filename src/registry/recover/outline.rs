//! Recovers documents with another structure: everything nested below one key, inputs as a list or a JSON Schema, or
//! steps keyed by id.

use super::{
    KeywordRewriter, is_oversized_mapping,
    values::{find_key_position, make_entry, make_mapping, parse_plain_value},
};
use midex_domain::{
    check::wrong_type_finding,
    finding::{Finding, Rule},
    grammar::foreign::{self, Counterpart},
    input::InputType,
    node::{DocumentNode, MappingEntry, NodeContent},
};

impl KeywordRewriter<'_> {
    /// `workflow: { name: …, steps: … }`: moves the keys to the top level.
    pub(super) fn hoist_nested_workflow(&mut self, entries: &mut Vec<MappingEntry>) {
        let (key, record) = (self.form.name_key(), self.form.workflow_shape());
        let Some(index) = find_key_position(entries, key) else {
            return;
        };
        let NodeContent::Map(nested_entries) = &entries[index].value.content else {
            return;
        };
        let is_nested_workflow =
            nested_entries.iter().any(|entry| record.find_key(&entry.key).is_some());
        if !is_nested_workflow || is_oversized_mapping(nested_entries) {
            return;
        }
        let name = nested_entries.iter().find(|entry| ["name", "id"].contains(&entry.key.as_str()));
        let name = name.and_then(|entry| entry.value.as_text()).unwrap_or("NAME");
        let hint = format!("write `{key}: {name}`, and the other keys beside it, at the top");
        self.findings.push(wrong_type_finding(&entries[index].value, key, "a text").suggest(hint));
        let NodeContent::Map(nested_entries) = entries.remove(index).value.content else {
            return;
        };
        for mut entry in nested_entries {
            if ["name", "id"].contains(&entry.key.as_str()) {
                key.clone_into(&mut entry.key);
            }
            if find_key_position(entries, &entry.key).is_none() {
                entries.push(entry);
            }
        }
    }

    /// `inputs` written as a JSON Schema, or as a list.
    pub(super) fn recover_inputs_shape(&mut self, node: &mut DocumentNode, path: &str) {
        let properties = node.get("properties").filter(|_| {
            let kind = node.get("type").and_then(DocumentNode::as_text);
            kind == Some("object")
        });
        if let Some(NodeContent::Map(inputs)) = properties.map(|node| node.content.clone()) {
            let name = inputs.first().map_or("NAME", |entry| entry.key.as_str());
            let message = "`inputs` are a mapping from names, and not a JSON Schema";
            let finding = Finding::new(Rule::WrongType, path, node.place, message);
            let hint = format!(
                "write each property as an input: `{name}: {{ type: … }}`; what is not required says `optional: true`"
            );
            self.findings.push(finding.suggest(hint));
            node.content = NodeContent::Map(inputs);
        } else if let NodeContent::List(items) = &node.content {
            let mut finding = wrong_type_finding(node, path, "a mapping")
                .suggest("write a mapping from names: `NAME: { type: string }`".to_owned());
            let mut entries = Vec::new();
            for item in items {
                let (entry, new_finding) = name_list_item(item, finding, &["name", "id", "key"]);
                finding = new_finding;
                entries.extend(entry);
            }
            self.findings.push(finding);
            node.content = NodeContent::Map(entries);
        }
    }

    /// `topic: string`: an input written as only its type.
    pub(super) fn recover_type_only_input(&mut self, node: &mut DocumentNode, path: &str) {
        let NodeContent::Text(text) = &node.content else {
            return;
        };
        let input_type = InputType::NAMES.iter().copied().find(|kind| kind == text);
        let Some(kind) = input_type.or_else(|| foreign::find_value_counterpart("type", text))
        else {
            return;
        };
        let (text, place) = (text.clone(), node.place);
        let finding = wrong_type_finding(node, path, "a mapping");
        let finding = finding.suggest(format!("write `{{ type: {kind} }}`"));
        let finding =
            self.add_wrapping_edit(finding, node, "type: ", (kind != text).then_some(kind));
        self.findings.push(finding);
        *node = make_mapping(place, vec![make_entry("type", parse_plain_value(kind, place))]);
    }

    /// Steps written as a mapping from their ids.
    pub(super) fn recover_steps_mapping(&mut self, node: &mut DocumentNode, path: &str) {
        let id_key = self.form.id_key();
        // `dag: { tasks: […] }` and similar: a mapping with nothing but the list.
        if let [entry] = node.entries().unwrap_or_default()
            && matches!(
                foreign::find_key_counterpart(self.form.workflow_shape().label, &entry.key, |_| {
                    false
                }),
                Some(Counterpart::Key(["steps"]))
            )
            && entry.value.items().is_some()
        {
            *node = entry.value.clone();
        }
        let NodeContent::Map(entries) = &node.content else {
            return;
        };
        let are_steps = entries.iter().all(|entry| entry.value.entries().is_some());
        let Some(first) = entries.first().filter(|_| are_steps) else {
            return;
        };
        let hint = format!("write a list: `- {id_key}: {}`", first.key);
        let mut finding = wrong_type_finding(node, path, "a list").suggest(hint);
        let mut steps = Vec::new();
        for step in entries {
            let step_entries = step.value.entries().unwrap_or_default();
            let is_block = step_entries.first().is_some_and(|first| {
                first.place.line > step.place.line && first.place.column == step.place.column + 2
            });
            let old = format!("{}:", step.key);
            let start = is_block.then_some(step.place.start);
            finding = finding.edit_replace_bytes(start, old, format!("- {id_key}: {}", step.key));
            let mut content = vec![make_entry(id_key, parse_plain_value(&step.key, step.place))];
            content[0].place = step.place;
            content.extend(step_entries.iter().filter(|entry| entry.key != id_key).cloned());
            steps.push(make_mapping(step.place, content));
        }
        self.findings.push(finding);
        node.content = NodeContent::List(steps);
    }
}

/// Converts a list item into an entry under the name that it contains. Returns the entry, and the finding with the
/// matching edit.
fn name_list_item(
    item: &DocumentNode,
    finding: Finding,
    keys: &[&str],
) -> (Option<MappingEntry>, Finding) {
    if let NodeContent::Text(name) = &item.content {
        let entry = MappingEntry {
            place: item.place,
            ..make_entry(name, make_mapping(item.place, Vec::new()))
        };
        return (Some(entry), finding.without_edit());
    }
    let entries = item.entries().unwrap_or_default();
    let index = entries.iter().position(|entry| keys.contains(&entry.key.as_str()));
    let Some((index, name)) = index.and_then(|at| Some((at, entries[at].value.as_text()?))) else {
        return (None, finding.without_edit());
    };
    let first = &entries[index];
    // Only for a block list that is indented below its key. At the key's own indentation, the edited entry would no
    // longer be nested in it.
    let is_block = index == 0
        && first.place.column > 3
        && entries.len() > 1
        && entries[1].place.line > first.place.line;
    let start = first.place.start.checked_sub(2).filter(|_| is_block);
    let finding =
        finding.edit_replace_bytes(start, format!("- {}: {name}", first.key), format!("{name}:"));
    let rest = entries
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
        .map(|(_, entry)| entry.clone());
    let entry = MappingEntry {
        place: first.place,
        ..make_entry(name, make_mapping(item.place, rest.collect()))
    };
    (Some(entry), finding)
}
