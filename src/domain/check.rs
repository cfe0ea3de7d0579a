//! Checks a draft and builds a definition from it. All findings are reported, in no particular order. The result has a
//! workflow or persona only if all findings are warnings.

mod answer;
mod asking;
mod beside;
mod change;
mod commands;
mod doubt;
mod expression;
mod fault;
mod flow;
mod input;
mod kind;
mod known;
mod lookalike;
mod names;
mod order;
mod quoted;
mod schema;
mod section;
mod shape;
mod site;
mod step;

use std::collections::BTreeSet;

pub use self::{
    commands::{
        Argument, BodyFields, OperationLookup, OperationLookupResult, OperationSignature,
        enable_catalog_call, is_argument_required,
    },
    known::{AgentFileState, KnownAgents, KnownNames, OperationsSnapshot, ServerCapabilities},
    shape::{unknown_key_finding, wrong_type_finding},
};
use super::{
    definition::{Persona, Step, Workflow},
    draft::{PersonaDraft, StepDraft, WorkflowDraft, WorkflowFormat},
    finding::{Finding, Rule, is_broken},
    grammar,
    id::StepId,
    node::DocumentNode,
    schema::PatternQuota,
};
use crate::limits;

/// Checks a workflow against the known names.
pub fn check_workflow(
    draft: &WorkflowDraft,
    known: KnownNames<'_>,
) -> (Option<Workflow>, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    shape::check_record(found, &draft.document, "", draft.form.workflow_record());
    found.extend(missing_description_finding(draft));
    let mut quota = PatternQuota::default();
    let inputs = input::check_inputs(found, draft, &mut quota);
    input::provider::check_providers(found, draft, known.abilities.operation_lookup());
    commands::check_requirements(found, draft, known.abilities.operation_lookup());
    let steps = check_steps(found, draft, known, &mut quota);
    let hooks = beside::check_hooks(found, draft, known);
    keep_one_finding_per_template(found);
    let accepted: Vec<String> =
        draft.document.deserialize_key(grammar::ACCEPT_KEY).unwrap_or_default();
    found.retain(|one| !accepted.iter().any(|rule| rule == one.rule.as_str()));
    if is_broken(&findings) {
        return (None, findings);
    }
    let document = &draft.document;
    let title: Option<String> = document.deserialize_key("title");
    let name = document.deserialize_key(draft.form.name_key());
    let limit = |key| document.get("limits")?.get(key)?.as_u32();
    let workflow = name.zip(steps).map(|(name, steps)| Workflow {
        name,
        description: document
            .deserialize_key("description")
            .or_else(|| title.clone())
            .unwrap_or_default(),
        title,
        version: document.get("version").and_then(DocumentNode::text_or_number),
        tags: document.deserialize_key("tags").unwrap_or_default(),
        complexity: document.deserialize_key("complexity"),
        metadata: document.deserialize_key("metadata").unwrap_or_default(),
        content: draft.content.clone(),
        inputs,
        steps,
        memory: document.deserialize_key("memory").unwrap_or_default(),
        final_output: document.get("final_output").map(DocumentNode::to_json),
        timeout: document.deserialize_key("timeout"),
        max_visits: limit("max_visits"),
        max_steps: limit("max_steps"),
        requires: commands::required_catalogs(draft),
        bodies: hooks,
        compensate_when: beside::read_compensate_when(draft),
    });
    debug_assert!(workflow.is_some(), "a draft without errors is a workflow");
    (workflow, findings)
}

/// Removes other findings at the path of an expression that is not evaluated, because the text is wrong as a whole.
fn keep_one_finding_per_template(found: &mut Vec<Finding>) {
    let told: BTreeSet<_> = { found.iter() }
        .filter(|one| one.rule == Rule::NotATemplate)
        .map(|one| one.path.clone())
        .collect();
    found.retain(|one| one.rule == Rule::NotATemplate || !told.contains(&one.path));
}

/// Checks only the shapes of a draft's own keys, for a draft that cannot be merged with its base.
pub fn check_shapes(draft: &WorkflowDraft) -> Vec<Finding> {
    let mut findings = Vec::new();
    shape::check_record(&mut findings, &draft.document, "", draft.form.workflow_record());
    findings
}

/// Checks an agent. `of_host` is the path of the file if the agent is written for a host.
pub fn check_persona(
    draft: &PersonaDraft,
    of_host: Option<String>,
) -> (Option<Persona>, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let record = match of_host {
        Some(_) => &grammar::HOST_PERSONA_SHAPE,
        None => &grammar::PERSONA_SHAPE,
    };
    shape::check_record(found, &draft.front, "", record);
    if draft.content.value.trim().is_empty() {
        let (place, message) = (draft.content.place, "the file has no text after its front matter");
        let finding = Finding::new(Rule::EmptyPersona, "", place, message);
        found.push(finding.suggest("write the persona below the closing `---`".to_owned()));
    }
    if is_broken(&findings) {
        return (None, findings);
    }
    let document = &draft.front;
    let others = document.entries().unwrap_or_default().iter();
    let others = others.filter(|entry| record.find_key(&entry.key).is_none());
    let name = document.deserialize_key("name").zip(document.deserialize_key("description"));
    let persona = name.map(|(name, description): (_, String)| Persona {
        name,
        description: description[..description.floor_char_boundary(limits::DESCRIPTION_BYTES_MAX)]
            .to_owned(),
        file: of_host,
        tags: document.deserialize_key("tags").unwrap_or_default(),
        version: document.get("version").and_then(DocumentNode::text_or_number),
        content: draft.content.value.clone(),
        extra: others.map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
    });
    debug_assert!(persona.is_some(), "a draft without errors is an agent");
    (persona, findings)
}

/// The warning for a manifest without a description. In front matter the key is required.
fn missing_description_finding(draft: &WorkflowDraft) -> Option<Finding> {
    let is_mapping = draft.document.entries().is_some();
    if !is_mapping || draft.form != WorkflowFormat::Manifest || draft.field("description").is_some()
    {
        return None;
    }
    let message = "`description` is missing: an agent chooses a workflow by these words";
    let place = draft.document.place;
    let finding = Finding::new(Rule::MissingDescription, "description", place, message);
    Some(finding.suggest("say in a sentence what the workflow is for".to_owned()))
}

/// The steps of a draft; `None` if one of them is broken.
fn check_steps(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    known: KnownNames<'_>,
    quota: &mut PatternQuota,
) -> Option<Vec<Step>> {
    let list = draft.steps.as_ref()?;
    if list.len() > limits::STEPS_MAX {
        return None;
    }
    let list = section::add_section_instructions(found, list, draft);
    step::check_duplicate_ids(found, &list, draft.form);
    let order = order::resolve_dependencies(found, &list, draft.form);
    let mut flow = flow::FlowGraph::from_steps(found, &list, order);
    flow.check_arms_and_reachability(found);
    beside::check_joins_and_run_when(found, &list, &flow);
    asking::check_asked_properties(found, draft, &list);
    schema::check_result_schemas(found, &list, quota);
    let calls = commands::check_run_steps(found, draft, &list, known.abilities.operation_lookup());
    let secrets = known.abilities.secrets.as_ref();
    let uses = expression::check_expressions(found, draft, &list, (secrets, &calls), &mut flow);
    change::check_side_effects(found, &list, (&calls, known.abilities), &flow);
    doubt::warn_unused_inputs(found, draft, &list, &uses);
    doubt::warn_short_loops(found, draft, &list, &flow);
    let steps: Vec<_> = list
        .iter()
        .zip(flow.dependencies())
        .map(|(step, before)| {
            let before = before.iter().filter_map(|before| step_id_at(&list, before.position));
            let made = step::check_step(found, step, draft.form, before.collect(), known);
            made.map(|made| beside::set_run_when_failing(made, step))
        })
        .collect();
    steps.into_iter().collect()
}

fn step_id_at(steps: &[StepDraft], position: usize) -> Option<StepId> {
    StepId::parse(&steps[position].id.as_ref()?.value).ok()
}
