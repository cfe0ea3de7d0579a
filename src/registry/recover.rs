//! Error recovery: replaces the keywords of other systems before a document is checked. A key that midex does not know,
//! but another system does, gets a finding, and the tree is rewritten to the midex form. So one mistake gives one
//! finding, and the rest of the file is checked as if it had been written correctly. Other unknown keys are left for
//! the check to refuse.

mod body;
mod outline;
mod values;

use midex_domain::{
    check::unknown_key_finding,
    draft::WorkflowFormat,
    finding::{Finding, Rule, has_room_for_suggestions},
    grammar::{
        self, MappingShape, STEP_SHAPE, ValueShape,
        foreign::{self, Counterpart},
    },
    nearest::find_nearest,
    node::{DocumentNode, MappingEntry, NodeContent, join_path},
};

/// Rewrites a document, adding a finding for each change.
struct KeywordRewriter<'f> {
    findings: &'f mut Vec<Finding>,
    form: WorkflowFormat,
    /// Whether the file is JSON. Keys then need quotes, so edits that wrap a value into a mapping are left to the
    /// author.
    is_json: bool,
}

/// Returns the document with the keywords of other systems replaced, and adds a finding for each.
pub(super) fn replace_foreign_keywords(
    findings: &mut Vec<Finding>,
    document: &DocumentNode,
    form: WorkflowFormat,
) -> DocumentNode {
    let mut root = document.clone();
    let has_quoted_key =
        |entry: &MappingEntry| entry.place.end - entry.place.start > entry.key.len();
    let is_json = root.entries().is_some_and(|all| all.iter().all(has_quoted_key));
    let mut reader = KeywordRewriter { findings, form, is_json };
    if let NodeContent::Map(entries) = &mut root.content {
        reader.hoist_nested_workflow(entries);
        reader.recover_record(entries, "", form.workflow_shape());
    }
    root
}

/// Whether a mapping has more keys than any valid one. Recovery compares each key with all others, so skip such a
/// mapping.
fn is_oversized_mapping(entries: &[MappingEntry]) -> bool {
    entries.len() > midex_domain::limits::KEYS_RECOVERED_MAX
}

impl KeywordRewriter<'_> {
    /// Rewrites the keys of a mapping, then its values.
    fn recover_record(
        &mut self,
        entries: &mut Vec<MappingEntry>,
        path: &str,
        record: &'static MappingShape,
    ) {
        if is_oversized_mapping(entries) {
            return;
        }
        let is_step = record.label == STEP_SHAPE.label;
        if is_step {
            self.recover_agent_mapping(entries, path);
            self.recover_misplaced_body(entries, path);
        }
        self.recover_keys(entries, path, record);
        if is_step {
            self.recover_outcome_condition(entries, path);
            self.recover_type_key(entries, path);
            self.recover_foreign_loop(entries, path);
            self.recover_body_beside_foreach(entries, path);
        }
        self.recover_plain_values(entries, path, record.label);
        for entry in entries {
            let path = join_path(path, &entry.key);
            match (entry.key.as_str(), record.find_key(&entry.key)) {
                ("branch", Some(_)) if is_step => self.recover_branch(&mut entry.value, &path),
                ("depends_on", Some(_)) if is_step => {
                    self.split_joined_ids(&mut entry.value, &path);
                }
                (_, Some(key)) => self.recover_value(&mut entry.value, &path, &key.shape),
                (_, None) => {}
            }
        }
    }

    /// Rewrites a value, if its shape has keys.
    fn recover_value(&mut self, node: &mut DocumentNode, path: &str, shape: &ValueShape) {
        match (shape, &mut node.content) {
            (ValueShape::Condition, NodeContent::Bool(value)) => {
                node.content = NodeContent::Text(value.to_string());
            }
            (ValueShape::Branches(record), NodeContent::Map(entries)) => {
                for entry in entries {
                    let path = join_path(path, &entry.key);
                    self.recover_value(&mut entry.value, &path, &ValueShape::Record(record));
                }
            }
            (ValueShape::Inputs(record), _) => self.recover_inputs(node, path, record),
            (ValueShape::Steps(record), _) => self.recover_steps(node, path, record),
            (
                ValueShape::Record(record)
                | ValueShape::TextOr(record)
                | ValueShape::FlagOr(record),
                NodeContent::Map(entries),
            ) => {
                self.recover_record(entries, path, record);
            }
            (ValueShape::ForeachBody, NodeContent::List(_)) => self.recover_body_list(node, path),
            (ValueShape::ForeachBody, NodeContent::Map(entries)) => {
                self.recover_record(entries, path, &STEP_SHAPE);
            }
            (ValueShape::List(of, ..), NodeContent::List(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.recover_value(item, &format!("{path}[{index}]"), of);
                }
            }
            _ => {}
        }
    }

    fn recover_inputs(
        &mut self,
        node: &mut DocumentNode,
        path: &str,
        record: &'static MappingShape,
    ) {
        self.recover_inputs_shape(node, path);
        let NodeContent::Map(inputs) = &mut node.content else {
            return;
        };
        for entry in inputs {
            let path = join_path(path, &entry.key);
            self.recover_type_only_input(&mut entry.value, &path);
            self.recover_value(&mut entry.value, &path, &ValueShape::Record(record));
        }
    }

    fn recover_steps(
        &mut self,
        node: &mut DocumentNode,
        path: &str,
        record: &'static MappingShape,
    ) {
        self.recover_steps_mapping(node, path);
        let NodeContent::List(steps) = &mut node.content else {
            return;
        };
        for (index, step) in steps.iter_mut().enumerate() {
            self.recover_value(step, &format!("{path}[{index}]"), &ValueShape::Record(record));
        }
    }

    /// Rewrites the keys of one mapping.
    fn recover_keys(
        &mut self,
        entries: &mut Vec<MappingEntry>,
        path: &str,
        shape: &'static MappingShape,
    ) {
        // A text key becomes the kind `guidance`, or `instructions` if the step has another kind. So rewrite other keys
        // first.
        for is_last in [false, true] {
            let mut index = 0;
            while index < entries.len() {
                let old_len = entries.len();
                let mut site = KeySite { entries, index, path, shape };
                if site.is_rewritten_in_pass(is_last) {
                    self.recover_key(&mut site);
                }
                index += usize::from(entries.len() == old_len);
            }
        }
    }

    fn recover_key(&mut self, site: &mut KeySite<'_>) {
        let Some(counterpart) = site.find_counterpart() else {
            self.correct_misspelled_key(site);
            return;
        };
        match *counterpart {
            Counterpart::Key(keys) => {
                if let Some(key) = keys.iter().find(|key| site.is_key_free(key)) {
                    self.rename_key(site, key);
                }
            }
            Counterpart::TextOrAdvice(key, words) => {
                if site.entry().value.as_text().is_some() && site.is_key_free(key) {
                    self.rename_key(site, key);
                } else if site.entries.iter().any(|entry| grammar::is_step_kind(&entry.key)) {
                    self.remove_entry(site, words);
                } else {
                    self.add_key_finding(site, words);
                    replace_by_placeholder_kind(&mut site.entries[site.index]);
                }
            }
            Counterpart::KeyOrAdvice(key, words) => {
                let is_schema = |word: &&str| site.entry().value.get(word).is_some();
                if JSON_SCHEMA_KEYWORDS.iter().any(is_schema) && site.is_key_free(key) {
                    self.rename_key(site, key);
                } else {
                    self.remove_entry(site, words);
                }
            }
            Counterpart::NestedKey(outer, inner) => self.nest_entry(site, (outer, inner), None),
            Counterpart::PlusOne(outer, inner) => {
                let count_hint = site.entry().value.as_count().map(|count| (count + 1).to_string());
                match (outer, count_hint) {
                    (Some(outer), more) => self.nest_entry(site, (outer, inner), more.as_deref()),
                    (None, Some(more)) => self.replace_entry(site, inner, &more),
                    (None, None) => {}
                }
            }
            Counterpart::Quantity(key, unit) => match site.entry().value.as_count() {
                Some(count) => self.replace_entry(site, key, &format!("{count}{unit}")),
                None if site.is_key_free(key) => self.rename_key(site, key),
                None => {}
            },
            Counterpart::FlagValue(when, key, word) => match site.entry().value.content {
                NodeContent::Bool(value) if value == when => self.replace_entry(site, key, word),
                NodeContent::Bool(_) => self.remove_entry(site, default_flag_hint(key)),
                _ => {}
            },
            Counterpart::Advice(words) => self.remove_entry(site, words),
            Counterpart::KindAdvice(words) => {
                self.add_key_finding(site, words);
                replace_by_placeholder_kind(&mut site.entries[site.index]);
            }
        }
    }

    /// Corrects a key that looks like a misspelled known key.
    fn correct_misspelled_key(&mut self, site: &mut KeySite<'_>) {
        if !has_room_for_suggestions(self.findings) {
            return;
        }
        let entry = site.entry();
        let nearest = find_nearest(&entry.key, site.shape.keys.iter().map(|key| key.name));
        if let Some(near) = nearest.filter(|near| site.is_key_free(near)) {
            self.findings.push(site.unknown_key_finding().suggest_replacement(
                entry.place,
                &entry.key,
                near,
            ));
            site.set_key(near);
        }
    }

    /// Renames a key and keeps its value.
    fn rename_key(&mut self, site: &mut KeySite<'_>, key: &str) {
        let entry = site.entry();
        self.findings.push(site.unknown_key_finding().suggest_replacement(
            entry.place,
            &entry.key,
            key,
        ));
        site.set_key(key);
    }

    /// Replaces both the key and the value.
    fn replace_entry(&mut self, site: &mut KeySite<'_>, key: &str, value: &str) {
        let finding = site.unknown_key_finding().suggest(format!("write `{key}: {value}`"));
        if !site.is_key_free(key) {
            self.findings.push(finding);
            site.entries.remove(site.index);
            return;
        }
        let entry = site.entry();
        let finding = finding.edit_replace(entry.place, &entry.key, Some(key));
        let old = values::format_short_value(&entry.value).unwrap_or_default();
        let new = if self.is_json && value.parse::<f64>().is_err() && value != "true" {
            format!("\"{value}\"")
        } else {
            value.to_owned()
        };
        self.findings.push(finding.edit_rewrite_unquoted(entry.value.place, &old, &new));
        site.set_key(key);
        let entry = &mut site.entries[site.index];
        entry.value = values::parse_plain_value(value, entry.value.place);
    }

    /// Adds the finding for a key that has no counterpart in midex.
    fn add_key_finding(&mut self, site: &KeySite<'_>, words: &str) {
        let id = site.entries.iter().find(|entry| entry.key == "id");
        let id = id.and_then(|entry| entry.value.as_text()).unwrap_or("ID");
        self.findings.push(site.unknown_key_finding().suggest(words.replace("{id}", id)));
    }

    /// Like [`Self::add_key_finding`], and removes the entry from the tree. There is no edit that removes it from the file, since
    /// the author may have meant something by it.
    fn remove_entry(&mut self, site: &mut KeySite<'_>, words: &str) {
        self.add_key_finding(site, words);
        site.entries.remove(site.index);
    }

    /// `sleep: 5m` becomes `wait: { for: 5m }`. If the outer mapping exists already, the entry is moved into it.
    fn nest_entry(
        &mut self,
        site: &mut KeySite<'_>,
        (outer, inner): (&str, &str),
        value: Option<&str>,
    ) {
        let entry = site.entry();
        let shown_value = value.map_or_else(|| values::format_value(&entry.value), str::to_owned);
        let mut inner_entry = entry.clone();
        inner.clone_into(&mut inner_entry.key);
        if let Some(value) = value {
            inner_entry.value = values::parse_plain_value(value, inner_entry.value.place);
        }
        if site.is_key_free(outer) {
            let finding = site
                .unknown_key_finding()
                .suggest(format!("write `{outer}: {{ {inner}: {shown_value} }}`"));
            let finding = finding.edit_replace(entry.place, &entry.key, Some(outer));
            let inner_prefix = format!("{inner}: ");
            self.findings.push(self.add_wrapping_edit(finding, &entry.value, &inner_prefix, value));
            site.set_key(outer);
            let entry = &mut site.entries[site.index];
            entry.value = values::make_mapping(entry.place, vec![inner_entry]);
            return;
        }
        let hint = format!("write it inside `{outer}`: `{inner}: {shown_value}`");
        self.findings.push(site.unknown_key_finding().suggest(hint));
        site.entries.remove(site.index);
        let existing_entry = site.entries.iter_mut().find(|entry| entry.key == outer);
        if let Some(NodeContent::Map(existing_entries)) =
            existing_entry.map(|entry| &mut entry.value.content)
            && existing_entries.iter().all(|entry| entry.key != inner)
        {
            existing_entries.push(inner_entry);
        }
    }

    /// Adds an edit to the finding that wraps a one-line value into a mapping that starts with `before`. `value`, if
    /// given, replaces the value.
    fn add_wrapping_edit(
        &self,
        finding: Finding,
        node: &DocumentNode,
        before: &str,
        value: Option<&str>,
    ) -> Finding {
        if self.is_json {
            // In JSON, keys need quotes, so this edit is left to the author.
            return finding.without_edit();
        }
        let (opening, closing) = (format!("{{ {before}"), " }");
        if let (Some(text), None) = (values::find_unquoted_text(node), value) {
            let quoted = format!("{opening}{}{closing}", values::format_value(node));
            return finding.edit_rewrite_unquoted(node.place, text, &quoted);
        }
        match (values::format_short_value(node), value) {
            (Some(old), Some(value)) => finding.edit_rewrite_unquoted(
                node.place,
                &old,
                &format!("{opening}{value}{closing}"),
            ),
            (written, _) => {
                let written = written.filter(|_| node.items().is_none());
                finding.edit_wrap(node.place, written, &opening, closing)
            }
        }
    }
}

/// The entry of a mapping that is being rewritten.
struct KeySite<'e> {
    entries: &'e mut Vec<MappingEntry>,
    index: usize,
    path: &'e str,
    shape: &'static MappingShape,
}

impl KeySite<'_> {
    fn entry(&self) -> &MappingEntry {
        &self.entries[self.index]
    }

    fn find_counterpart(&self) -> Option<&'static Counterpart> {
        let has_key = |key: &str| self.entries.iter().any(|entry| entry.key == key);
        foreign::find_key_counterpart(self.shape.label, &self.entry().key, has_key)
    }

    /// Whether the key is rewritten in this pass.
    fn is_rewritten_in_pass(&self, is_last: bool) -> bool {
        let counterpart = self.find_counterpart();
        let is_in_last_pass =
            matches!(counterpart, Some(Counterpart::Key(keys)) if keys.contains(&"instructions"));
        let key = &self.entry().key;
        let is_first =
            || self.entries.iter().position(|entry| entry.key == *key) == Some(self.index);
        (self.shape.find_key(key).is_none() || is_in_last_pass)
            && is_in_last_pass == is_last
            && is_first()
    }

    /// Whether the mapping can still take `key`. A step can have only one kind.
    fn is_key_free(&self, key: &str) -> bool {
        let is_kind = self.shape.label == STEP_SHAPE.label && grammar::is_step_kind(key);
        let conflicts = |entry: &MappingEntry| {
            entry.key == key || (is_kind && grammar::is_step_kind(&entry.key))
        };
        !self.entries.iter().any(conflicts)
    }

    fn set_key(&mut self, key: &str) {
        key.clone_into(&mut self.entries[self.index].key);
    }

    /// The finding for the key: an unknown key, or a second kind.
    fn unknown_key_finding(&self) -> Finding {
        let entry = self.entry();
        let path = join_path(self.path, &entry.key);
        if self.shape.find_key(&entry.key).is_none() {
            return unknown_key_finding(self.shape.label, entry, path);
        }
        let message = "a step has one kind: this one has another one".to_owned();
        Finding::new(Rule::SeveralKinds, path, entry.place, message)
    }
}

/// Keywords that identify a value as a JSON Schema.
const JSON_SCHEMA_KEYWORDS: [&str; 8] =
    ["type", "properties", "required", "items", "enum", "oneOf", "anyOf", "$ref"];

/// The hint for a flag that only states the default.
fn default_flag_hint(key: &str) -> &'static str {
    match key {
        "optional" => "remove it: inputs are required unless they say `optional: true`",
        _ => "remove it: so it is without it",
    }
}

/// Turns the entry into a placeholder kind, so that the step does not also get a finding for a missing kind.
fn replace_by_placeholder_kind(entry: &mut MappingEntry) {
    "guidance".clone_into(&mut entry.key);
    entry.value.content = NodeContent::Text("…".to_owned());
}
