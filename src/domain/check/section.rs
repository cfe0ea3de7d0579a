//! The sections of a Markdown manifest, each of which holds the instructions of one step.

use std::{borrow::Cow, collections::BTreeMap};

use super::super::{
    draft::{MarkdownHeading, RawField, StepDraft, StepSection, WorkflowDraft},
    finding::{Finding, Rule, has_room_for_suggestions},
    grammar,
    node::{DocumentNode, NodeContent},
};

/// Returns the steps with the instructions from their sections.
pub(super) fn add_section_instructions<'a>(
    findings: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    draft: &WorkflowDraft,
) -> Cow<'a, [StepDraft]> {
    let sections = &draft.sections;
    let mut steps = Cow::Borrowed(steps);
    let mut section_lines: BTreeMap<&str, usize> = BTreeMap::new();
    let ids = steps.iter().enumerate().rev();
    let ids = ids.filter_map(|(position, step)| Some((step.id.clone()?.value, position)));
    // Of two steps with the same id the first one gets the section.
    let ids: BTreeMap<String, usize> = ids.collect();
    let lowercase_ids = ids.keys().map(|id| (id.to_lowercase(), id.as_str()));
    let lowercase_ids: BTreeMap<_, _> = lowercase_ids.collect();
    for heading in &draft.headings {
        let has_room = has_room_for_suggestions(findings);
        findings.extend(misspelt_heading_finding(heading, &lowercase_ids, has_room));
    }
    for section in sections {
        let step_id = &section.step;
        let Some(position) = ids.get(&step_id.value).copied() else {
            let message = format!("no step has the id `{}`", step_id.value);
            let mut finding = step_id.new_finding(Rule::UnknownSection, message);
            if has_room_for_suggestions(findings) {
                let known = ids.keys().map(String::as_str);
                finding = finding.did_you_mean(step_id.place, &step_id.value, known);
            }
            findings.push(finding);
            continue;
        };
        let instructions = steps[position].find_field("instructions");
        let previous_line = section_lines.get(step_id.value.as_str()).copied();
        let previous_line = previous_line.or_else(|| instructions.map(|field| field.place.line));
        if let Some(line) = previous_line {
            let message =
                format!("step `{}` has its instructions on line {line} already", step_id.value);
            findings.push(step_id.new_finding(Rule::DuplicateKey, message));
        } else if section.text.value.is_empty() {
            let message = format!("the section of step `{}` is empty", step_id.value);
            findings.push(step_id.new_finding(Rule::EmptyValue, message));
        } else {
            section_lines.insert(&step_id.value, step_id.place.line);
            let fields = &mut steps.to_mut()[position].fields;
            fields.extend(instructions_field(section));
        }
    }
    steps
}

/// The finding for a heading that resembles `## step: ID` and is none, so that the text below it would belong to no
/// step. It either begins with `step` or is a step id. Inside a section only a heading of the form `step: ID` counts.
fn misspelt_heading_finding(
    heading: &MarkdownHeading,
    ids: &BTreeMap<String, &str>,
    has_room: bool,
) -> Option<Finding> {
    let title = heading.title.to_lowercase();
    let title = title.trim_matches(|c: char| !c.is_alphanumeric());
    let after_step_word =
        title.strip_prefix("step").map(|rest| rest.strip_prefix('s').unwrap_or(rest));
    let after_step_word = after_step_word.filter(|rest| !rest.starts_with(char::is_alphabetic));
    let name = after_step_word.unwrap_or(title);
    // Skip a number before the name, as in `Step 1: write`.
    let name = name.trim_start_matches(|c: char| !c.is_alphabetic());
    let id = ids.get(name);
    let is_step_heading =
        after_step_word.is_some_and(|rest| rest.trim_start().starts_with(':')) && id.is_some();
    if after_step_word.is_none() && id.is_none() || heading.is_inside && !is_step_heading {
        return None;
    }
    let message = "the heading is not that of a step, and what stands below it reaches nobody";
    let finding = heading.source.new_finding(Rule::UnknownSection, message);
    Some(match id {
        Some(id) => {
            let replacement = format!("## step: {id}");
            let start = Some(heading.source.place.start);
            let finding = finding.suggest(format!("write `{replacement}`"));
            finding.edit_replace_bytes(start, heading.source.value.clone(), replacement)
        }
        None if has_room => {
            let ids: Vec<_> = ids.values().copied().collect();
            let ids = ids.join("`, `## step: ");
            finding.suggest(format!("write it as that of one of the steps: `## step: {ids}`"))
        }
        None => finding,
    })
}

fn instructions_field(section: &StepSection) -> Option<RawField> {
    let at = &section.step;
    Some(RawField {
        key: grammar::STEP_SHAPE.find_key("instructions")?,
        path: at.path.clone(),
        place: at.place,
        value: DocumentNode {
            content: NodeContent::Text(section.text.value.clone()),
            place: section.text.place,
        },
    })
}
