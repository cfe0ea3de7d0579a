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
    found: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    draft: &WorkflowDraft,
) -> Cow<'a, [StepDraft]> {
    let sections = &draft.sections;
    let mut steps = Cow::Borrowed(steps);
    let mut given: BTreeMap<&str, usize> = BTreeMap::new();
    let ids = steps.iter().enumerate().rev();
    let ids = ids.filter_map(|(position, step)| Some((step.id.clone()?.value, position)));
    // Of two steps with the same id the first one gets the section.
    let ids: BTreeMap<String, usize> = ids.collect();
    let known = ids.keys().map(|id| (id.to_lowercase(), id.as_str()));
    let known: BTreeMap<_, _> = known.collect();
    for heading in &draft.headings {
        let room = has_room_for_suggestions(found);
        found.extend(misspelt_heading_finding(heading, &known, room));
    }
    for section in sections {
        let at = &section.step;
        let Some(position) = ids.get(&at.value).copied() else {
            let message = format!("no step has the id `{}`", at.value);
            let mut finding = at.finding(Rule::UnknownSection, message);
            if has_room_for_suggestions(found) {
                let known = ids.keys().map(String::as_str);
                finding = finding.did_you_mean(at.place, &at.value, known);
            }
            found.push(finding);
            continue;
        };
        let instructions = steps[position].field("instructions");
        let taken = given.get(at.value.as_str()).copied();
        let taken = taken.or_else(|| instructions.map(|field| field.place.line));
        if let Some(line) = taken {
            let message =
                format!("step `{}` has its instructions on line {line} already", at.value);
            found.push(at.finding(Rule::DuplicateKey, message));
        } else if section.text.value.is_empty() {
            let message = format!("the section of step `{}` is empty", at.value);
            found.push(at.finding(Rule::EmptyValue, message));
        } else {
            given.insert(&at.value, at.place.line);
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
    let of_step = title.strip_prefix("step").map(|rest| rest.strip_prefix('s').unwrap_or(rest));
    let of_step = of_step.filter(|rest| !rest.starts_with(char::is_alphabetic));
    let name = of_step.unwrap_or(title);
    // Skip a number before the name, as in `Step 1: write`.
    let name = name.trim_start_matches(|c: char| !c.is_alphabetic());
    let id = ids.get(name);
    let is_other = of_step.is_some_and(|rest| rest.trim_start().starts_with(':')) && id.is_some();
    if of_step.is_none() && id.is_none() || heading.is_inside && !is_other {
        return None;
    }
    let message = "the heading is not that of a step, and what stands below it reaches nobody";
    let finding = heading.written.finding(Rule::UnknownSection, message);
    Some(match id {
        Some(id) => {
            let meant = format!("## step: {id}");
            let start = Some(heading.written.place.start);
            let finding = finding.suggest(format!("write `{meant}`"));
            finding.edit_replace_bytes(start, heading.written.value.clone(), meant)
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
