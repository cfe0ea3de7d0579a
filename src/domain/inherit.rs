//! Merges a manifest with the one that it extends, before anything is checked: what comes out is checked as one document. Each
//! part keeps its place, and the place says of which file it is.

mod findings;

use std::collections::BTreeMap;

pub use self::findings::HeirOrigins;
use super::{
    check::wrong_type_finding,
    draft::{StepSection, WorkflowFormat},
    finding::{Finding, Place, Rule},
    grammar::{EXTENDS_KEY, INSERT_KEY, INSERT_PLACE_KEYS, REMOVE_KEY, STEPS_KEY},
    node::{DocumentNode, MappingEntry, NodeContent},
};

/// An heir merged with its base.
#[derive(Debug)]
pub struct MergedManifest {
    /// The document. It has the keys of the heir, also those that only refer to the base.
    pub document: DocumentNode,
    /// What of it the heir says, for the findings of its check.
    pub origins: HeirOrigins,
}

/// The steps that an heir removes, with the path and the place where it says so.
type RemovedSteps = BTreeMap<String, (String, Place)>;

/// A step, with its path where it is of the heir.
type StepWithPath = (DocumentNode, Option<String>);

/// A step of the base, and what the heir puts around it.
struct BaseStepSlot {
    inserted_before: Vec<StepWithPath>,
    /// The step, or the heir's in its place; `None` once it is removed.
    step: Option<StepWithPath>,
    inserted_after: Vec<StepWithPath>,
}

/// The base as the heir is told of it.
struct BaseSteps<'a> {
    name: &'a str,
    slots: Vec<BaseStepSlot>,
    /// The steps of the heir that have no place among those of the base; each has a finding.
    unplaced: Vec<StepWithPath>,
}

/// Merges `heir` with the document of its base, adding a finding for all that the heir says of steps that the base has not.
/// The heir's own keys win; its steps replace those of the same ids, and are inserted and removed where it says so.
pub fn merge_with_base(
    findings: &mut Vec<Finding>,
    heir: &DocumentNode,
    (name, base): (&str, &DocumentNode),
) -> MergedManifest {
    let base = as_base_node(base);
    let extends = heir.get(EXTENDS_KEY).map_or(heir.place, |node| node.place);
    let slot = |node: &DocumentNode| BaseStepSlot {
        inserted_before: Vec::new(),
        step: Some((node.clone(), None)),
        inserted_after: Vec::new(),
    };
    let slots = base.get(STEPS_KEY).and_then(DocumentNode::items).unwrap_or_default();
    let mut steps =
        BaseSteps { name, slots: slots.iter().map(slot).collect(), unplaced: Vec::new() };
    steps.insert_steps(findings, heir);
    findings.extend(steps_not_a_list_finding(heir));
    steps.replace_steps(findings, heir);
    let removed = steps.remove_steps(findings, heir);
    let (list, paths): (Vec<_>, Vec<_>) = steps.into_step_list().into_iter().unzip();
    MergedManifest {
        document: build_merged_document(heir, &base, list, extends),
        origins: HeirOrigins { paths, removed, extends },
    }
}

/// Takes the instructions that steps have of a base out of them where a section of the heir's Markdown has others.
pub fn drop_overridden_instructions(document: &mut DocumentNode, sections: &[StepSection]) {
    for_each_section_step(document, sections, |entries, _| {
        let is_inherited = |entry: &MappingEntry| entry.place.origin > 0;
        entries.retain(|entry| entry.key != INSTRUCTIONS_KEY || !is_inherited(entry));
    });
}

/// Puts the sections of a Markdown manifest into its steps, as their instructions.
pub fn merge_sections_into_steps(document: &mut DocumentNode, sections: &[StepSection]) {
    for_each_section_step(document, sections, |entries, section| {
        entries.push(MappingEntry {
            key: INSTRUCTIONS_KEY.to_owned(),
            place: section.step.place,
            value: DocumentNode {
                content: NodeContent::Text(section.text.value.clone()),
                place: section.text.place,
            },
        });
    });
}

const INSTRUCTIONS_KEY: &str = "instructions";

/// Calls `update` with every section that has a step, and the entries of that step.
fn for_each_section_step(
    document: &mut DocumentNode,
    sections: &[StepSection],
    update: impl Fn(&mut Vec<MappingEntry>, &StepSection),
) {
    let steps = find_entry_mut(document, STEPS_KEY).map(|entry| &mut entry.value.content);
    let Some(NodeContent::List(steps)) = steps else {
        return;
    };
    for section in sections {
        let is_section_step = |step: &&mut DocumentNode| step_id(step) == Some(&section.step.value);
        let step = steps.iter_mut().find(is_section_step);
        if let Some(NodeContent::Map(entries)) = step.map(|step| &mut step.content) {
            update(entries, section);
        }
    }
}

/// The document without the keys that only speak of its base.
pub fn remove_inheritance_keys(document: &DocumentNode) -> DocumentNode {
    let mut stripped = document.clone();
    if let NodeContent::Map(entries) = &mut stripped.content {
        entries
            .retain(|entry| ![EXTENDS_KEY, INSERT_KEY, REMOVE_KEY].contains(&entry.key.as_str()));
    }
    stripped
}

impl BaseSteps<'_> {
    /// Puts the steps of `insert` before or after the steps that it names.
    fn insert_steps(&mut self, findings: &mut Vec<Finding>, heir: &DocumentNode) {
        let ids: Vec<_> = self.step_ids().map(str::to_owned).collect();
        for (at, item) in list_items(heir, INSERT_KEY).iter().enumerate() {
            let path = format!("{INSERT_KEY}[{at}]");
            let mut steps = Vec::new();
            for (number, step) in list_items(item, STEPS_KEY).iter().enumerate() {
                let path = format!("{path}.{STEPS_KEY}[{number}]");
                let duplicate_id = step_id(step).filter(|id| ids.iter().any(|known| known == id));
                match duplicate_id {
                    Some(id) => findings.push(self.duplicate_id_finding(step, id, &path)),
                    None => steps.push((step.clone(), Some(path))),
                }
            }
            match self.find_anchor_step(findings, item, &path) {
                Some((slot, true)) => slot.inserted_before.extend(steps),
                Some((slot, false)) => slot.inserted_after.extend(steps),
                None => self.unplaced.extend(steps),
            }
        }
    }

    fn duplicate_id_finding(&self, step: &DocumentNode, id: &str, path: &str) -> Finding {
        let message = format!("`{id}` is the id of a step of `{}` already", self.name);
        let node = step.get("id").unwrap_or(step);
        let finding = node.new_finding(Rule::DuplicateStep, &format!("{path}.id"), message);
        finding.suggest(format!("give it another id, or replace `{id}` under `{STEPS_KEY}`"))
    }

    /// The step that an item of `insert` names, and whether it goes before it.
    fn find_anchor_step(
        &mut self,
        findings: &mut Vec<Finding>,
        item: &DocumentNode,
        path: &str,
    ) -> Option<(&mut BaseStepSlot, bool)> {
        let keys = INSERT_PLACE_KEYS.map(|key| (key, item.get(key)));
        let (key, node) = match keys {
            [(_, Some(before)), (_, Some(_))] => {
                let message = format!("{path} says both `before` and `after`");
                let finding = before.new_finding(Rule::ConflictingKeys, path, message);
                findings.push(finding.suggest("leave one of them out".to_owned()));
                return None;
            }
            [(key, Some(node)), _] | [_, (key, Some(node))] => (key, node),
            _ => {
                item.entries()?;
                let message =
                    format!("{path} does not say where: it has no `before` and no `after`");
                let finding = item.new_finding(Rule::MissingKey, path, message);
                findings
                    .push(finding.suggest("write `after: ID` with a step of the base".to_owned()));
                return None;
            }
        };
        let anchor_id = node.as_text()?;
        let at = self.step_position(anchor_id);
        if at.is_none() {
            findings.push(self.missing_base_step_finding(
                node,
                anchor_id,
                &format!("{path}.{key}"),
            ));
        }
        at.map(|at| (&mut self.slots[at], key == INSERT_PLACE_KEYS[0]))
    }

    /// Puts the heir's steps in the place of those of the same ids.
    fn replace_steps(&mut self, findings: &mut Vec<Finding>, heir: &DocumentNode) {
        for (at, step) in list_items(heir, STEPS_KEY).iter().enumerate() {
            let path = format!("{STEPS_KEY}[{at}]");
            let at = step_id(step).and_then(|id| self.step_position(id));
            let replacement = (step.clone(), Some(path.clone()));
            match at.map(|at| &mut self.slots[at].step) {
                Some(Some(slot)) if slot.1.is_none() => *slot = replacement,
                // A second one of the same id: the check tells of it.
                Some(_) => self.unplaced.push(replacement),
                None => {
                    findings.extend(self.nothing_to_replace_finding(step, &path));
                    self.unplaced.push(replacement);
                }
            }
        }
    }

    /// The finding for a step whose id the base has not; one without an id has another.
    fn nothing_to_replace_finding(&self, step: &DocumentNode, path: &str) -> Option<Finding> {
        let finding =
            self.missing_base_step_finding(step.get("id")?, step_id(step)?, &format!("{path}.id"));
        let advice =
            format!("put a new step under `{INSERT_KEY}`, with `after: ID` or `before: ID`");
        let hint = match &finding.suggestion {
            Some(near) => format!("{near} Else {advice}"),
            None => advice,
        };
        Some(finding.suggest(hint))
    }

    /// Leaves out the steps of `remove`.
    fn remove_steps(&mut self, findings: &mut Vec<Finding>, heir: &DocumentNode) -> RemovedSteps {
        let mut removed = RemovedSteps::new();
        for (at, node) in list_items(heir, REMOVE_KEY).iter().enumerate() {
            let (Some(id), path) = (node.as_text(), format!("{REMOVE_KEY}[{at}]")) else {
                continue;
            };
            if removed.contains_key(id) {
                continue;
            }
            let Some(at) = self.step_position(id) else {
                findings.push(self.missing_base_step_finding(node, id, &path));
                continue;
            };
            let step = &mut self.slots[at].step;
            if let Some((_, Some(replacement_path))) = step {
                let message =
                    format!("`{id}` is removed here, and `{replacement_path}` replaces it");
                let finding = node.new_finding(Rule::Contradiction, &path, message);
                findings.push(finding.suggest("leave out one of the two".to_owned()));
            } else {
                *step = None;
                removed.insert(id.to_owned(), (path, node.place));
            }
        }
        for slot in &mut self.slots {
            if let Some((step, None)) = &mut slot.step {
                drop_removed_dependencies(findings, step, &removed, self.name);
            }
        }
        removed
    }

    fn step_ids(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter_map(BaseStepSlot::id)
    }

    fn step_position(&self, id: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.id() == Some(id))
    }

    fn missing_base_step_finding(&self, node: &DocumentNode, id: &str, path: &str) -> Finding {
        let message = format!("`{}` has no step `{id}`", self.name);
        let finding = node.new_finding(Rule::NotInBase, path, message);
        finding.did_you_mean(node.place, id, self.step_ids())
    }

    /// The steps in the order of the result, without those that were removed.
    fn into_step_list(self) -> Vec<StepWithPath> {
        let slot_steps = |slot: BaseStepSlot| {
            slot.inserted_before.into_iter().chain(slot.step).chain(slot.inserted_after)
        };
        let slots = self.slots.into_iter().flat_map(slot_steps);
        slots.chain(self.unplaced).collect()
    }
}

impl BaseStepSlot {
    fn id(&self) -> Option<&str> {
        step_id(&self.step.as_ref()?.0)
    }
}

/// The finding for `steps` that are no list of steps: those of the base stand then.
fn steps_not_a_list_finding(heir: &DocumentNode) -> Option<Finding> {
    let steps = heir.get(STEPS_KEY)?;
    match steps.items() {
        None => Some(wrong_type_finding(steps, STEPS_KEY, "a list")),
        Some([]) => {
            let message = format!("`{STEPS_KEY}` is empty");
            let finding = steps.new_finding(Rule::NoSteps, STEPS_KEY, message);
            Some(finding.suggest("leave it out: the steps of the base stand".to_owned()))
        }
        Some(_) => None,
    }
}

/// Takes the dependencies of a step on those that are removed out of it, with a finding for each.
fn drop_removed_dependencies(
    findings: &mut Vec<Finding>,
    step: &mut DocumentNode,
    removed: &RemovedSteps,
    base: &str,
) {
    let name = step_id(step).unwrap_or("?").to_owned();
    let mut is_removed = |node: &DocumentNode| {
        let removed_step = node.as_text().and_then(|id| Some((id, removed.get(id)?)));
        let Some((id, (path, place))) = removed_step else {
            return false;
        };
        let message = format!("step `{name}` of `{base}` depends on `{id}`, which is removed here");
        let finding = Finding::new(Rule::RemovedDependency, path, *place, message);
        findings.push(finding.suggest(format!(
            "replace `{name}` under `{STEPS_KEY}` by one that does not depend on `{id}`"
        )));
        true
    };
    for key in ["depends_on", "dependsOn"] {
        match find_entry_mut(step, key).map(|entry| &mut entry.value.content) {
            Some(NodeContent::List(ids)) => ids.retain(|id| !is_removed(id)),
            Some(content @ NodeContent::Text(_)) => {
                let id_node = DocumentNode { content: content.clone(), place: Place::START };
                if is_removed(&id_node) {
                    *content = NodeContent::List(Vec::new());
                }
            }
            _ => {}
        }
    }
}

/// The heir's entries and those of the base that it has not, with these steps.
fn build_merged_document(
    heir: &DocumentNode,
    base: &DocumentNode,
    steps: Vec<DocumentNode>,
    extends: Place,
) -> DocumentNode {
    let NodeContent::Map(heir_entries) = &heir.content else {
        return heir.clone();
    };
    let mut entries = heir_entries.clone();
    let is_inherited = |entry: &&MappingEntry| {
        let heir_keys =
            [WorkflowFormat::Manifest.name_key(), EXTENDS_KEY, INSERT_KEY, REMOVE_KEY, STEPS_KEY];
        !heir_keys.contains(&entry.key.as_str())
            && heir_entries.iter().all(|one| one.key != entry.key)
    };
    let inherited = base.entries().unwrap_or_default().iter();
    entries.extend(inherited.filter(is_inherited).cloned());
    let list = |place| DocumentNode { content: NodeContent::List(steps), place };
    match entries.iter_mut().find(|entry| entry.key == STEPS_KEY) {
        Some(entry) => entry.value = list(entry.value.place),
        None => entries.push(MappingEntry {
            key: STEPS_KEY.to_owned(),
            place: extends,
            value: list(extends),
        }),
    }
    DocumentNode { content: NodeContent::Map(entries), place: heir.place }
}

/// The same node as one of a base.
fn as_base_node(node: &DocumentNode) -> DocumentNode {
    fn raise_origin(node: &mut DocumentNode) {
        node.place.origin = node.place.origin.saturating_add(1);
        match &mut node.content {
            NodeContent::List(items) => items.iter_mut().for_each(raise_origin),
            NodeContent::Map(entries) => {
                for entry in entries {
                    entry.place.origin = entry.place.origin.saturating_add(1);
                    raise_origin(&mut entry.value);
                }
            }
            _ => {}
        }
    }
    let mut base = node.clone();
    raise_origin(&mut base);
    base
}

fn step_id(step: &DocumentNode) -> Option<&str> {
    step.get("id")?.as_text()
}

fn list_items<'a>(node: &'a DocumentNode, key: &str) -> &'a [DocumentNode] {
    node.get(key).and_then(DocumentNode::items).unwrap_or_default()
}

fn find_entry_mut<'a>(node: &'a mut DocumentNode, key: &str) -> Option<&'a mut MappingEntry> {
    match &mut node.content {
        NodeContent::Map(entries) => entries.iter_mut().find(|entry| entry.key == key),
        _ => None,
    }
}
