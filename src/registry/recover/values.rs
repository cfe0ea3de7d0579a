//! Recovers values of another type whose meaning is clear, such as a number in place of a mapping, or a mapping in
//! place of a list.

use serde_json::Value;

use super::{KeywordRewriter, is_oversized_mapping};
use midex_domain::{
    check::{unknown_key_finding, wrong_type_finding},
    finding::{Finding, Place, Rule},
    grammar::{
        self, BRANCH_ARM_SHAPE, STEP_SHAPE, ValueShape,
        foreign::{self, BareScalar, Counterpart, ReplacementEntries},
        has_template,
    },
    node::{DocumentNode, MappingEntry, NodeContent, join_path},
    span::HumanDuration,
};

impl KeywordRewriter<'_> {
    /// `agent: { name: … }`: the agent's name, and keys that belong to the step itself.
    pub(super) fn recover_agent_mapping(&mut self, entries: &mut Vec<MappingEntry>, path: &str) {
        let Some(index) = find_key_position(entries, "agent") else {
            return;
        };
        let NodeContent::Map(agent_entries) = &entries[index].value.content else {
            return;
        };
        if is_oversized_mapping(agent_entries) {
            return;
        }
        let is_name = |entry: &&MappingEntry| ["name", "id"].contains(&entry.key.as_str());
        let Some(name) =
            agent_entries.iter().find(is_name).filter(|name| name.value.as_text().is_some())
        else {
            return;
        };
        let node = &entries[index].value;
        let text = name.value.as_text().unwrap_or_default();
        let finding = wrong_type_finding(node, &join_path(path, "agent"), "a text")
            .suggest(format!("write `agent: {text}`"));
        let is_editable = agent_entries.len() == 1 && !self.is_json;
        let old = format!("{{ {}: {text} }}", name.key);
        let start = is_editable.then_some(node.place.start);
        self.findings.push(finding.edit_replace_bytes(start, old, text.to_owned()));
        let name = name.value.clone();
        let NodeContent::Map(agent_entries) =
            std::mem::replace(&mut entries[index].value, name).content
        else {
            return;
        };
        for entry in agent_entries {
            if !is_name(&&entry) && find_key_position(entries, &entry.key).is_none() {
                entries.push(entry);
            }
        }
    }

    /// `if: failure()`: a condition on the outcome of earlier steps, which midex writes as `run_when`.
    pub(super) fn recover_outcome_condition(&mut self, entries: &mut [MappingEntry], path: &str) {
        if find_key_position(entries, "run_when").is_some() {
            return;
        }
        for entry in entries {
            let is_condition = ["if", "when"].contains(&entry.key.as_str());
            let Some(text) = entry.value.as_text().filter(|_| is_condition) else {
                continue;
            };
            let inner = text.trim().trim_start_matches("${{").trim_end_matches("}}").trim();
            let Some(counterpart) = foreign::find_value_counterpart(&entry.key, inner) else {
                continue;
            };
            let message = format!(
                "`{inner}` is no expression: what the steps before came to is said by `run_when`"
            );
            let place = entry.value.place;
            let finding = Finding::new(
                Rule::IllFormedExpression,
                join_path(path, &entry.key),
                place,
                message,
            );
            self.findings.push(
                finding
                    .suggest(format!("write `run_when: {counterpart}`"))
                    .edit_replace(entry.place, &entry.key, Some("run_when"))
                    .edit_replace(place, text, Some(counterpart)),
            );
            "run_when".clone_into(&mut entry.key);
            entry.value = parse_plain_value(counterpart, place);
            return;
        }
    }

    /// `type: guidance`: midex gives each kind of step its own key.
    pub(super) fn recover_type_key(&mut self, entries: &mut Vec<MappingEntry>, path: &str) {
        let Some(type_index) =
            find_key_position(entries, "type").or_else(|| find_key_position(entries, "kind"))
        else {
            return;
        };
        let existing_kind = entries.iter().find(|entry| grammar::is_step_kind(&entry.key));
        let existing_kind = existing_kind.map(|entry| entry.key.clone());
        let kind = entries[type_index]
            .value
            .as_text()
            .and_then(|text| foreign::find_value_counterpart("kind", text));
        let Some(kind_name) = existing_kind.as_deref().or(kind) else {
            let finding = unknown_key_finding(
                STEP_SHAPE.label,
                &entries[type_index],
                join_path(path, &entries[type_index].key),
            );
            let hint = "the kind is a key: `guidance: TEXT`, `agent: NAME`, `tool: NAME`, or `run: CATALOG OPERATION` for a call of an imported catalog";
            self.findings.push(finding.suggest(hint.to_owned()));
            return super::replace_by_placeholder_kind(&mut entries[type_index]);
        };
        let entry = &entries[type_index];
        let mut finding = unknown_key_finding(STEP_SHAPE.label, entry, join_path(path, &entry.key));
        let body = find_key_position(entries, "instructions")
            .filter(|_| kind_name == "guidance" && existing_kind.is_none());
        finding = match (&existing_kind, body) {
            (Some(there), _) => finding.suggest(format!("remove it: `{there}` is the kind")),
            (None, Some(body)) => {
                let finding = finding.suggest(
                    "remove it, and write `guidance` for `instructions`: the key is the kind"
                        .to_owned(),
                );
                finding.edit_replace(entries[body].place, "instructions", Some("guidance"))
            }
            (None, None) => finding.suggest(format!("write `{kind_name}: …`: the key is the kind")),
        };
        // Remove the entry if it only repeats the kind of the step, or if `instructions` becomes its kind `guidance`.
        if existing_kind.as_deref().is_none_or(|there| kind == Some(there))
            && (existing_kind.is_some() || body.is_some())
        {
            let next_place = entries.get(type_index + 1).map(|next| next.place);
            finding = finding.edit_remove_entry(entry.place, next_place, entry.value.place);
        }
        self.findings.push(finding);
        match (existing_kind, body) {
            (None, Some(body)) => "guidance".clone_into(&mut entries[body].key),
            (None, None) => super::replace_by_placeholder_kind(&mut entries[type_index]),
            _ => {}
        }
        if entries[type_index].key != "guidance" {
            entries.remove(type_index);
        }
    }

    /// `withItems: […]` of another system, next to the kind of the step: rewritten to `foreach`.
    pub(super) fn recover_foreign_loop(&mut self, entries: &mut [MappingEntry], path: &str) {
        let is_loop = |entry: &&mut MappingEntry| {
            let counterpart =
                foreign::find_key_counterpart(STEP_SHAPE.label, &entry.key, |_| false);
            let is_list = entry.value.entries().is_none() && entry.key != "foreach";
            is_list && matches!(counterpart, Some(Counterpart::Key(["foreach"])))
        };
        if let Some(entry) = entries.iter_mut().find(is_loop) {
            let finding = unknown_key_finding(STEP_SHAPE.label, entry, join_path(path, &entry.key));
            self.findings.push(finding.suggest("write `foreach`".to_owned()));
            "foreach".clone_into(&mut entry.key);
        }
    }

    /// `foreach: ${{ … }}` with the work for each item next to it instead of in its `do`.
    pub(super) fn recover_body_beside_foreach(
        &mut self,
        entries: &mut Vec<MappingEntry>,
        path: &str,
    ) {
        let Some(foreach_index) = find_key_position(entries, "foreach") else {
            return;
        };
        let is_body_key = |entry: &MappingEntry| {
            let kind = STEP_SHAPE.find_key(&entry.key).filter(|key| key.is_step_kind());
            let is_kind =
                kind.is_some_and(|kind| kind.foreach_advice.is_none() && !kind.is_planned());
            let fields = ["instructions", "result", "example", "output_contract", "with"];
            is_kind || fields.contains(&entry.key.as_str())
        };
        let is_alone = entries[foreach_index].value.entries().is_none();
        if !is_alone
            || !entries.iter().any(|entry| grammar::is_step_kind(&entry.key) && is_body_key(entry))
        {
            return;
        }
        let list = entries[foreach_index].value.clone();
        let list_text = format_value(&list);
        let finding = wrong_type_finding(&list, &join_path(path, "foreach"), "a mapping");
        let hint = format!(
            "write `in: {list_text}` below `foreach`, and what is done with each item below `do`"
        );
        self.findings.push(finding.suggest(hint).without_edit());
        let place = entries[foreach_index].place;
        let (body, rest): (Vec<_>, Vec<_>) =
            std::mem::take(entries).into_iter().partition(is_body_key);
        *entries = rest;
        if let Some(foreach_index) = find_key_position(entries, "foreach") {
            let body_mapping = make_mapping(place, body);
            entries[foreach_index].value =
                make_mapping(place, vec![make_entry("in", list), make_entry("do", body_mapping)]);
        }
    }

    /// A `do` that is a list: it must be a single step. The first one is kept and checked.
    pub(super) fn recover_body_list(&mut self, node: &mut DocumentNode, path: &str) {
        let finding = wrong_type_finding(node, path, "a mapping");
        let NodeContent::List(items) = &mut node.content else {
            return;
        };
        let hint = "it is one step, without a dash; several steps for each item are a workflow of their own: `do: { workflow: NAME, with: { … } }`";
        let finding = finding.suggest(hint.to_owned());
        let first = (!items.is_empty()).then(|| items.remove(0));
        let is_alone = items.is_empty();
        let start = { first.as_ref() }.and_then(|one| one.place.start.checked_sub(2));
        let finding = finding.edit_replace_bytes(
            start.filter(|_| is_alone),
            "- ".to_owned(),
            "  ".to_owned(),
        );
        self.findings.push(finding);
        if let Some(mut first) = first {
            // If there are several steps, drop the id of the first one: the ids belong into the sub-workflow that the
            // hint suggests.
            if let NodeContent::Map(entries) = &mut first.content {
                entries.retain(|entry| is_alone || entry.key != "id");
            }
            *node = first;
            self.recover_value(node, path, &ValueShape::ForeachBody);
        }
    }

    /// A plain value in place of a mapping.
    pub(super) fn recover_plain_values(
        &mut self,
        entries: &mut [MappingEntry],
        path: &str,
        place: &'static str,
    ) {
        for entry in entries {
            let Some(bare) = foreign::find_bare_scalar(place, &entry.key) else {
                continue;
            };
            let is_other = matches!(entry.value.content, NodeContent::Map(_) | NodeContent::Null);
            let is_expected = match (bare.key, &entry.value.content) {
                ("retry", content) => matches!(content, NodeContent::Number(..)),
                ("do", content) => matches!(content, NodeContent::Text(_)),
                ("input" | "default", _) => true,
                (_, content) => !matches!(content, NodeContent::List(_) | NodeContent::Bool(_)),
            };
            if is_expected && !is_other {
                self.wrap_plain_value(&mut entry.value, &join_path(path, bare.key), bare);
            }
        }
    }

    fn wrap_plain_value(&mut self, node: &mut DocumentNode, path: &str, bare: &BareScalar) {
        // A bare number means seconds, and a single name means a list of one.
        let replacement = match (bare.key, &node.content) {
            ("wait", NodeContent::Number(..)) => node.as_count().map(|count| format!("{count}s")),
            ("wait", NodeContent::Text(text)) if text.parse::<HumanDuration>().is_err() => {
                HumanDuration::guess_duration(text).map(|span| span.to_string())
            }
            ("input", NodeContent::Text(name)) => Some(format!("[{name}]")),
            _ => None,
        };
        let rows = match (bare.key, &node.content) {
            ("wait", NodeContent::Text(text)) => build_wait_entries(text),
            _ => bare.entries,
        };
        let format_row = |value: &str| {
            let formatted_rows = rows.iter();
            let formatted_rows =
                formatted_rows.map(|(key, given)| format!("{key}: {}", given.unwrap_or(value)));
            formatted_rows.collect::<Vec<_>>().join(", ")
        };
        let expected = match bare.key {
            "default" => "a mapping with `from`",
            _ => "a mapping",
        };
        let value = replacement.clone().unwrap_or_else(|| format_value(node));
        let finding = wrong_type_finding(node, path, expected)
            .suggest(format!("write `{{ {} }}`", format_row(&value)));
        let finding =
            self.add_wrapping_edit(finding, node, &format_row(""), replacement.as_deref());
        self.findings.push(finding);
        let value = match (bare.key, &replacement) {
            ("input", Some(_)) => {
                DocumentNode { content: NodeContent::List(vec![node.clone()]), ..node.clone() }
            }
            (_, Some(span)) => parse_plain_value(span, node.place),
            _ => node.clone(),
        };
        let entries = rows.iter().map(|(key, given)| {
            make_entry(
                key,
                given.map_or_else(|| value.clone(), |given| parse_plain_value(given, node.place)),
            )
        });
        *node = make_mapping(node.place, entries.collect());
    }

    /// `depends_on: "a, b"`: several ids in one text.
    pub(super) fn split_joined_ids(&mut self, node: &mut DocumentNode, path: &str) {
        let Some(text) = node.as_text().filter(|text| text.contains(',')) else {
            return;
        };
        let names: Vec<_> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let list = if self.is_json {
            format!("[\"{}\"]", names.join("\", \""))
        } else {
            format!("[{}]", names.join(", "))
        };
        let message = "`depends_on` must be a list, or the id of one step";
        let finding = Finding::new(Rule::WrongType, path, node.place, message);
        self.findings.push(
            finding.suggest(format!("write `{list}`")).edit_rewrite_quoted(node.place, text, &list),
        );
        let items = names.iter().map(|name| DocumentNode {
            content: NodeContent::Text((*name).to_owned()),
            place: node.place,
        });
        node.content = NodeContent::List(items.collect());
    }

    /// The arms of a branch. A single arm may be written as a mapping, and the last one may have an `else`.
    pub(super) fn recover_branch(&mut self, node: &mut DocumentNode, path: &str) {
        if let NodeContent::Map(entries) = &node.content {
            let hint = "write a list of arms: `- if: CONDITION` with `next: STEP` below it, and last `- next: STEP`";
            self.findings.push(wrong_type_finding(node, path, "a list").suggest(hint.to_owned()));
            let arms = build_arms(entries, node.place);
            node.content = NodeContent::List(arms);
        }
        let NodeContent::List(arms) = &mut node.content else {
            return;
        };
        let mut last_arm = None;
        let count = arms.len();
        for (index, arm) in arms.iter_mut().enumerate() {
            let path = format!("{path}[{index}]");
            self.recover_value(arm, &path, &ValueShape::Record(&BRANCH_ARM_SHAPE));
            last_arm = self.recover_else(arm, &path, index + 1 == count).or(last_arm);
        }
        arms.extend(last_arm);
    }

    /// Turns an `else` next to `if` into an arm of its own.
    fn recover_else(
        &mut self,
        arm: &mut DocumentNode,
        path: &str,
        is_last: bool,
    ) -> Option<DocumentNode> {
        let NodeContent::Map(entries) = &mut arm.content else {
            return None;
        };
        find_key_position(entries, "if")?;
        let words = ["else", "otherwise", "default"];
        let index = entries.iter().position(|entry| words.contains(&entry.key.as_str()))?;
        let mut entry = entries.remove(index);
        let target = entry.value.as_text().unwrap_or("STEP").to_owned();
        let finding =
            unknown_key_finding(BRANCH_ARM_SHAPE.label, &entry, join_path(path, &entry.key));
        let hint = format!("write an arm of its own below: `- next: {target}`");
        let first = entries.first().map_or(entry.place, |first| first.place);
        let own_line = first.line < entry.place.line && first.column == entry.place.column;
        let is_plain = is_last && own_line && index == entries.len();
        let start = entry.place.start.checked_sub(2).filter(|_| is_plain);
        let (old, new) = (format!("  {}", entry.key), "- next".to_owned());
        self.findings.push(finding.suggest(hint).edit_replace_bytes(start, old, new));
        "next".clone_into(&mut entry.key);
        Some(make_mapping(entry.place, vec![entry]))
    }
}

/// The entries for a `wait` that is only a text: a duration, an instant, or otherwise the name of a signal.
fn build_wait_entries(text: &str) -> ReplacementEntries {
    let is_duration =
        || text.parse::<HumanDuration>().is_ok() || HumanDuration::guess_duration(text).is_some();
    let is_number = || text.starts_with(|c: char| c.is_ascii_digit());
    if text.parse::<jiff::Timestamp>().is_ok() {
        &[("until", None)]
    } else if has_template(text) || is_duration() || is_number() {
        &[("for", None)]
    } else {
        &[("signal", None)]
    }
}

/// The arms that a mapping in place of their list describes.
fn build_arms(entries: &[MappingEntry], place: Place) -> Vec<DocumentNode> {
    let lists = entries.iter().filter_map(|entry| entry.value.items());
    let mut arms: Vec<_> = lists.flatten().cloned().collect();
    let is_else =
        |entry: &&MappingEntry| ["else", "default", "otherwise"].contains(&entry.key.as_str());
    let is_condition = |entry: &&MappingEntry| !is_else(entry) && entry.value.as_text().is_some();
    let rename = |entry: &MappingEntry| {
        let key = match entry.key.as_str() {
            "condition" | "when" | "if" => "if",
            _ => "next",
        };
        MappingEntry { key: key.to_owned(), ..entry.clone() }
    };
    let cases = entries.iter().find(|entry| entry.key == "cases");
    if let Some(cases) = cases.and_then(|cases| cases.value.entries()) {
        // Each case leads to a step if the value equals its key. The condition itself is not recovered.
        let case = |one: &MappingEntry| {
            vec![make_entry("if", parse_plain_value("true", one.place)), rename(one)]
        };
        return cases.iter().map(|one| make_mapping(place, case(one))).collect();
    }
    let conditional_arms: Vec<_> = entries.iter().filter(is_condition).map(rename).collect();
    if !conditional_arms.is_empty() {
        arms.push(make_mapping(place, conditional_arms));
    }
    let last = entries.iter().filter(is_else).map(|entry| make_mapping(place, vec![rename(entry)]));
    arms.extend(last);
    arms
}

pub(super) fn find_key_position(entries: &[MappingEntry], key: &str) -> Option<usize> {
    entries.iter().position(|entry| entry.key == key)
}

pub(super) fn make_entry(key: &str, value: DocumentNode) -> MappingEntry {
    MappingEntry { key: key.to_owned(), place: value.place, value }
}

pub(super) fn make_mapping(place: Place, entries: Vec<MappingEntry>) -> DocumentNode {
    DocumentNode { content: NodeContent::Map(entries), place }
}

/// The node that a plain value is parsed to.
pub(super) fn parse_plain_value(text: &str, place: Place) -> DocumentNode {
    let content = match (text, text.parse::<u64>()) {
        ("true", _) => NodeContent::Bool(true),
        (_, Ok(number)) => NodeContent::Number(number.into(), text.to_owned()),
        _ => NodeContent::Text(text.to_owned()),
    };
    DocumentNode { content, place }
}

/// A value, written for a suggestion.
pub(super) fn format_value(node: &DocumentNode) -> String {
    match &node.content {
        NodeContent::Text(text) if !is_plain_yaml(text) => Value::String(text.clone()).to_string(),
        NodeContent::List(items) => {
            let items: Vec<_> = items.iter().map(format_value).collect();
            format!("[{}]", items.join(", "))
        }
        _ => format_short_value(node).unwrap_or_else(|| "…".to_owned()),
    }
}

/// The text of a node that is written without quotes, and would need them inside `{ … }`.
pub(super) fn find_unquoted_text(node: &DocumentNode) -> Option<&str> {
    let text = node.as_text()?;
    let is_bare = node.place.end.checked_sub(node.place.start) == Some(text.len());
    (is_bare && !is_plain_yaml(text)).then_some(text)
}

/// Whether a text needs no quotes in YAML, even inside `{ … }`.
fn is_plain_yaml(text: &str) -> bool {
    let is_sign = |c: char| c.is_alphanumeric() || " _-./$".contains(c);
    let is_word = !["true", "false", "null", "~"].contains(&text) && text.parse::<f64>().is_err();
    text.chars().all(is_sign) && is_word && text.trim() == text && !text.is_empty()
}

/// A short plain value as it is written, or a list of such values. `None` for mappings and long texts.
pub(super) fn format_short_value(node: &DocumentNode) -> Option<String> {
    match &node.content {
        NodeContent::Text(text) if !text.contains('\n') && text.len() <= 80 => Some(text.clone()),
        NodeContent::Number(_, written) => Some(written.clone()),
        NodeContent::Bool(value) => Some(value.to_string()),
        NodeContent::List(items) => {
            let items: Option<Vec<_>> = items.iter().map(format_short_value).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        _ => None,
    }
}
