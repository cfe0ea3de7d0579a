//! Checks a draft and builds a definition from it. All findings are reported, in no particular order. The result has a
//! workflow or persona only if all findings are warnings.

mod answer;
mod change;
mod commands;
mod environment;
mod expose;
mod expression;
mod fault;
mod flow;
mod hooks;
mod input;
mod kind;
mod labels;
mod names;
mod not_evaluated;
mod order;
mod questions;
mod quotes;
mod schema;
mod section;
mod shape;
mod site;
mod step;
mod suspicions;

use std::collections::BTreeSet;

pub use self::{
    commands::{
        Argument, BodyFields, OperationLookup, OperationLookupResult, OperationSignature,
        enable_catalog_call, is_argument_required,
    },
    environment::{
        AgentFileState, KnownAgents, KnownNames, OperationsSnapshot, ServerCapabilities,
    },
    expose::RESERVED_PREFIXES,
    shape::{check_memory_name, unknown_key_finding, wrong_type_finding},
};
use super::{
    definition::{Persona, Step, Workflow},
    draft::{PersonaDraft, StepDraft, WorkflowDraft, WorkflowFormat},
    finding::{Finding, Rule, has_errors},
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
    let sink = &mut findings;
    shape::check_record(sink, &draft.document, "", draft.form.workflow_shape());
    sink.extend(missing_description_finding(draft));
    labels::check_labels(sink, &draft.document);
    let mut quota = PatternQuota::default();
    let inputs = input::check_inputs(sink, draft, &mut quota);
    input::provider::check_providers(sink, draft, known.abilities.operation_lookup());
    commands::check_requirements(sink, draft, known.abilities.operation_lookup());
    let steps = check_steps(sink, draft, known, &mut quota);
    let hooks = hooks::check_hooks(sink, draft, known);
    let (exposed_tools, orchestrator) = expose::check_exposed_tools(sink, draft);
    keep_one_finding_per_template(sink);
    let accepted: Vec<String> =
        draft.document.deserialize_key(grammar::ACCEPT_KEY).unwrap_or_default();
    sink.retain(|one| !accepted.iter().any(|rule| rule == one.rule.as_str()));
    if has_errors(&findings) {
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
        labels: labels::read_labels(document),
        content: draft.content.clone(),
        inputs,
        steps,
        memory: document.deserialize_key("memory").unwrap_or_default(),
        final_output: document.get("final_output").map(DocumentNode::to_json),
        timeout: document.deserialize_key("timeout"),
        max_visits: limit("max_visits"),
        max_steps: limit("max_steps"),
        requires: commands::parse_required_catalogs(draft),
        exposed_tools,
        orchestrator,
        bodies: hooks,
        compensate_when: hooks::read_compensate_when(draft),
    });
    debug_assert!(workflow.is_some(), "a draft without errors is a workflow");
    (workflow, findings)
}

/// Removes other findings at the path of an expression that is not evaluated, because the text is wrong as a whole.
fn keep_one_finding_per_template(findings: &mut Vec<Finding>) {
    let reported_paths: BTreeSet<_> = { findings.iter() }
        .filter(|one| one.rule == Rule::NotATemplate)
        .map(|one| one.path.clone())
        .collect();
    findings.retain(|one| one.rule == Rule::NotATemplate || !reported_paths.contains(&one.path));
}

/// Checks only the shapes of a draft's own keys, for a draft that cannot be merged with its base.
pub fn check_shapes(draft: &WorkflowDraft) -> Vec<Finding> {
    let mut findings = Vec::new();
    shape::check_record(&mut findings, &draft.document, "", draft.form.workflow_shape());
    findings
}

/// Checks an agent. `host_file` is the path of the file if the agent is written for a host.
pub fn check_persona(
    draft: &PersonaDraft,
    host_file: Option<String>,
) -> (Option<Persona>, Vec<Finding>) {
    let mut findings = Vec::new();
    let sink = &mut findings;
    let record = match host_file {
        Some(_) => &grammar::HOST_PERSONA_SHAPE,
        None => &grammar::PERSONA_SHAPE,
    };
    shape::check_record(sink, &draft.front_matter, "", record);
    if draft.content.value.trim().is_empty() {
        let (place, message) = (draft.content.place, "the file has no text after its front matter");
        let finding = Finding::new(Rule::EmptyPersona, "", place, message);
        sink.push(finding.suggest("write the persona below the closing `---`".to_owned()));
    }
    if has_errors(&findings) {
        return (None, findings);
    }
    let document = &draft.front_matter;
    let extra_entries = document.entries().unwrap_or_default().iter();
    let extra_entries = extra_entries.filter(|entry| record.find_key(&entry.key).is_none());
    let name = document.deserialize_key("name").zip(document.deserialize_key("description"));
    let persona = name.map(|(name, description): (_, String)| Persona {
        name,
        description: description[..description.floor_char_boundary(limits::DESCRIPTION_BYTES_MAX)]
            .to_owned(),
        file: host_file,
        tags: document.deserialize_key("tags").unwrap_or_default(),
        version: document.get("version").and_then(DocumentNode::text_or_number),
        content: draft.content.value.clone(),
        extra: extra_entries.map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
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
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    known: KnownNames<'_>,
    quota: &mut PatternQuota,
) -> Option<Vec<Step>> {
    let list = draft.steps.as_ref()?;
    if list.len() > limits::STEPS_MAX {
        return None;
    }
    let list = section::add_section_instructions(findings, list, draft);
    step::check_duplicate_ids(findings, &list, draft.form);
    let order = order::resolve_dependencies(findings, &list, draft.form);
    let mut flow = flow::FlowGraph::from_steps(findings, &list, order);
    flow.check_arms_and_reachability(findings);
    hooks::check_joins_and_run_when(findings, &list, &flow);
    questions::check_requested_inputs(findings, draft, &list);
    schema::check_step_schemas(findings, &list, quota);
    let calls =
        commands::check_run_steps(findings, draft, &list, known.abilities.operation_lookup());
    let secrets = known.abilities.secrets.as_ref();
    let uses = expression::check_expressions(findings, draft, &list, (secrets, &calls), &mut flow);
    change::check_side_effects(findings, &list, (&calls, known.abilities), &flow);
    suspicions::warn_unused_inputs(findings, draft, &list, &uses);
    suspicions::warn_short_loops(findings, draft, &list, &flow);
    let steps: Vec<_> = list
        .iter()
        .zip(flow.dependencies())
        .map(|(step, dependencies)| {
            let predecessors =
                dependencies.iter().filter_map(|before| step_id_at(&list, before.position));
            let checked =
                step::check_step(findings, step, draft.form, predecessors.collect(), known);
            checked.map(|made| hooks::set_run_when_failing(made, step))
        })
        .collect();
    steps.into_iter().collect()
}

fn step_id_at(steps: &[StepDraft], position: usize) -> Option<StepId> {
    StepId::parse(&steps[position].id.as_ref()?.value).ok()
}
