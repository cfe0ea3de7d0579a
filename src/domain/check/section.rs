//! The sections of a Markdown manifest: each gives one step its instructions.

use std::{borrow::Cow, collections::BTreeMap};

use super::super::{
    draft::{RawField, Section, StepDraft},
    finding::{Finding, Rule, has_room},
    grammar,
    node::{Content, Node},
};

/// The steps with the instructions that sections give them.
pub(super) fn with_instructions<'a>(
    found: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    sections: &[Section],
) -> Cow<'a, [StepDraft]> {
    let mut steps = Cow::Borrowed(steps);
    let mut given: BTreeMap<&str, usize> = BTreeMap::new();
    let ids = steps.iter().enumerate().rev();
    let ids = ids.filter_map(|(position, step)| Some((step.id.clone()?.value, position)));
    // Of two steps with one id the first has the section.
    let ids: BTreeMap<String, usize> = ids.collect();
    for section in sections {
        let at = &section.step;
        let Some(position) = ids.get(&at.value).copied() else {
            let message = format!("no step has the id `{}`", at.value);
            let mut finding = at.finding(Rule::UnknownSection, message);
            if has_room(found) {
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
            let message = format!(
                "step `{}` has its instructions on line {line} already",
                at.value
            );
            found.push(at.finding(Rule::DuplicateKey, message));
        } else if section.text.value.is_empty() {
            let message = format!("the section of step `{}` is empty", at.value);
            found.push(at.finding(Rule::EmptyValue, message));
        } else {
            given.insert(&at.value, at.place.line);
            let fields = &mut steps.to_mut()[position].fields;
            fields.extend(self::instructions(section));
        }
    }
    steps
}

fn instructions(section: &Section) -> Option<RawField> {
    let at = &section.step;
    Some(RawField {
        key: grammar::STEP.key("instructions")?,
        path: at.path.clone(),
        place: at.place,
        value: Node {
            content: Content::Text(section.text.value.clone()),
            place: section.text.place,
        },
    })
}
