//! Checks one step: its id, its kind, and that every field has an effect in a step of that kind.

use std::collections::BTreeMap;

use super::{
    super::{
        body::BodyKind,
        definition::{Step, StepKind},
        draft::{RawField, StepDraft, WorkflowFormat},
        finding::{Finding, Rule},
        grammar::{self, KeyRole, ValueShape, has_template},
        id::{AgentName, StepId},
        nearest::find_nearest,
        node::{DocumentNode, NodeContent},
        span::HumanDuration,
    },
    AgentFileState, KnownAgents, KnownNames, ServerCapabilities,
    commands::values::check_constant_input,
    kind,
    shape::has_shape,
};
use crate::{
    error::{failure_class_and_code_names, normalize_failure_name},
    limits,
};

/// A finding for each id that an earlier step has.
pub(super) fn check_duplicate_ids(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    form: WorkflowFormat,
) {
    let mut first_lines: BTreeMap<&str, usize> = BTreeMap::new();
    for step_id in steps.iter().filter_map(|step| step.id.as_ref()) {
        let Some(line) = first_lines.get(step_id.value.as_str()) else {
            first_lines.insert(&step_id.value, step_id.place.line);
            continue;
        };
        let message = format!(
            "{} id `{}` is taken: it first stands on line {line}",
            form.step_noun(),
            step_id.value
        );
        let hint = format!("give each {} an id of its own", form.step_noun());
        findings.push(step_id.new_finding(Rule::DuplicateStep, message).suggest(hint));
    }
}

/// Checks one step and builds its definition; `depends_on` are its dependencies.
pub(super) fn check_step(
    findings: &mut Vec<Finding>,
    draft: &StepDraft,
    form: WorkflowFormat,
    depends_on: Vec<StepId>,
    known: KnownNames<'_>,
) -> Option<Step> {
    let id = draft.id.as_ref();
    let id = id.and_then(|at| StepId::parse(&at.value).ok());
    // The body of a `foreach` is checked even if the step has no valid id that it could share.
    let body_id = id.clone().or_else(|| StepId::parse("step").ok());
    if let (Some(each), Some(foreach)) = (&draft.foreach_body, draft.value("foreach")) {
        findings.extend(passed_failure_finding(each, foreach));
    }
    let each = match (&draft.foreach_body, body_id) {
        (Some(each), Some(id)) => check_foreach_body(findings, each, id, known),
        _ => None,
    };
    let kind = check_and_build_kind(findings, draft, form, known, each);
    let pseudo_step = StepId::workflow_pseudo_step();
    let bodies = check_hooks_and_compensation(
        findings,
        &draft.bodies,
        id.as_ref().unwrap_or(pseudo_step),
        known,
    );
    Some(Step { depends_on, bodies, ..kind::set_common_fields(Step::new(id?, kind?), draft) })
}

/// Checks the hooks and the compensation of a step with this id.
pub(super) fn check_hooks_and_compensation(
    findings: &mut Vec<Finding>,
    drafts: &[(BodyKind, StepDraft)],
    id: &StepId,
    known: KnownNames<'_>,
) -> BTreeMap<BodyKind, Step> {
    let body = |(body, draft): &(BodyKind, StepDraft)| {
        let kind = check_and_build_kind(findings, draft, WorkflowFormat::Manifest, known, None)?;
        let step = kind::set_common_fields(Step::new(id.clone(), kind), draft);
        Some((*body, set_hook_defaults(step, *body, draft)))
    };
    drafts.iter().filter_map(body).collect()
}

fn set_hook_defaults(step: Step, body: BodyKind, draft: &StepDraft) -> Step {
    if body == BodyKind::Compensation {
        return step;
    }
    Step {
        required: draft.read_value("required").unwrap_or_default(),
        timeout: step.timeout.or(Some(HumanDuration::from_duration(limits::HOOK_TIMEOUT))),
        ..step
    }
}

/// Checks the body of a `foreach`.
fn check_foreach_body(
    findings: &mut Vec<Finding>,
    draft: &StepDraft,
    id: StepId,
    known: KnownNames<'_>,
) -> Option<Step> {
    let kind = check_and_build_kind(findings, draft, WorkflowFormat::Manifest, known, None);
    let bodies = check_hooks_and_compensation(findings, &draft.bodies, &id, known);
    check_foreach_body_fields(findings, draft);
    Some(Step { bodies, ..kind::set_common_fields(Step::new(id, kind?), draft) })
}

/// The finding for an item whose failure `do` passes, where `tolerate` counts failures.
fn passed_failure_finding(each: &StepDraft, foreach: &DocumentNode) -> Option<Finding> {
    foreach.get("tolerate")?;
    let passes = each.value("on_error").and_then(DocumentNode::as_text) == Some("continue");
    let field = each
        .find_field("on_error")
        .filter(|_| passes)
        .or(each.find_field("optional").filter(|_| each.read_value("optional") == Some(true)))?;
    let key = field.key.name;
    let message = format!("`{key}` has no effect beside `tolerate`, which counts every failure");
    let finding = field.key_finding(Rule::ConflictingKeys, message);
    Some(finding.suggest("keep one of them".to_owned()))
}

/// Adds a finding for each field that has no effect in the body of a `foreach`.
fn check_foreach_body_fields(findings: &mut Vec<Finding>, draft: &StepDraft) {
    for field in &draft.fields {
        if let Some(alternative) = field.key.foreach_advice {
            let message = format!("`{}` has no effect in what a `foreach` does", field.key.name);
            let finding = field.key_finding(Rule::NoEffect, message);
            findings.push(finding.suggest(alternative.to_owned()));
        }
    }
    let jump = draft.find_field("on_error").and_then(|field| Some((field, field.value.as_text()?)));
    if let Some((field, text)) = jump.filter(|(_, text)| !grammar::ON_ERROR_WORDS.contains(text)) {
        let message = format!("`on_error` cannot lead to `{text}` from inside a `foreach`");
        let hint = "write fail or continue here, and the step at the `foreach`";
        let finding = field.value_finding(Rule::NoEffect, message);
        findings.push(finding.suggest(hint.to_owned()));
    }
}

/// Checks the rules between the fields of a step, and builds its kind.
fn check_and_build_kind(
    findings: &mut Vec<Finding>,
    draft: &StepDraft,
    form: WorkflowFormat,
    known: KnownNames<'_>,
    each: Option<Step>,
) -> Option<StepKind> {
    let kind_field = find_kind_field(findings, draft, form);
    let idle_finding = |field| idle_field_finding(field, kind_field?);
    findings.extend(draft.fields.iter().filter_map(idle_finding));
    if let Some(field) = draft.find_field("activity") {
        findings.extend(unknown_activity_finding(field, known.abilities));
        let inputs = &known.abilities.activity_inputs;
        if let Some(schema) = field.value.as_text().and_then(|name| inputs.get(name)) {
            check_constant_input(findings, draft, schema);
        }
    }
    check_field_pairs(findings, draft);
    findings.extend(child_choice_finding(draft));
    if let Some(kind) = kind_field {
        findings.extend(unknown_failure_findings(draft, kind.key.name));
    }
    match kind_field?.key.name {
        "agent" => {
            check_agent(findings, kind_field?, known.agents).map(|agent| StepKind::Agent { agent })
        }
        key => kind::build_step_kind(draft, key, each),
    }
}

/// The finding for a field that has no effect in a step of this kind.
fn idle_field_finding(field: &RawField, kind: &RawField) -> Option<Finding> {
    let KeyRole::Field { kinds, instead, .. } = field.key.role else {
        return None;
    };
    // A kind that is not implemented yet has its own finding.
    if field.key.applies_to_kind(kind.key.name) || kind.key.is_planned() {
        return None;
    }
    let (key, kind) = (field.key.name, kind.key.name);
    let message = format!("`{key}` has no effect on a step with `{kind}`");
    let hint = instead
        .map_or_else(|| format!("it belongs to steps with {}", kinds.join(", ")), str::to_owned);
    Some(field.key_finding(Rule::NoEffect, message).suggest(hint))
}

/// The finding for a child that is chosen at run time, and for values that one expression yields: only a child can have
/// those.
fn child_choice_finding(draft: &StepDraft) -> Option<Finding> {
    let child = draft.find_field("workflow");
    let one_expression = |field: &&RawField| field.value.as_text().is_some_and(has_template);
    if let Some(with) = draft.find_field("with").filter(one_expression)
        && child.is_none()
    {
        let message = "`with` is one expression, and only a child takes all its values from one";
        let finding = with.value_finding(Rule::NotATemplate, message);
        return Some(finding.suggest("write each value under its name".to_owned()));
    }
    let (child, allow) = (child?, draft.find_field("allow"));
    match (one_expression(&child), allow) {
        (true, None) => {
            let message = "no expression is evaluated in `workflow` without `allow`";
            let hint = "list the workflows that it may choose: `allow: [one, two]`; or choose a step with `branch`";
            Some(child.value_finding(Rule::NotATemplate, message).suggest(hint.to_owned()))
        }
        (false, Some(allow)) => {
            let message = "`allow` is for a `workflow` that is an expression; this one is a name";
            let hint = "remove `allow`, or choose the child with `${{ … }}`";
            Some(allow.key_finding(Rule::NotATemplate, message).suggest(hint.to_owned()))
        }
        _ => None,
    }
}

/// Checks the rules between pairs of fields.
fn check_field_pairs(findings: &mut Vec<Finding>, draft: &StepDraft) {
    for (one, other) in grammar::EXCLUSIVE_FIELD_PAIRS {
        if draft.find_field(one).is_some()
            && let Some(other) = draft.find_field(other)
        {
            let message = format!("`{}` and `{one}` cannot both be given", other.key.name);
            let finding = other.key_finding(Rule::ConflictingKeys, message);
            findings.push(finding.suggest("keep one of them".to_owned()));
        }
    }
    if draft.find_field("depends_on").is_some()
        && let Some(other) = draft.find_field("dependsOn")
    {
        let message = "`dependsOn` says again what another key says";
        findings.push(other.key_finding(Rule::DuplicateKey, message));
    }
    check_backoff_bounds(findings, draft);
}

fn check_backoff_bounds(findings: &mut Vec<Finding>, draft: &StepDraft) {
    let Some(retry) = draft.find_field("retry") else {
        return;
    };
    if let Some(node) = retry.value.get("factor")
        && let NodeContent::Number(number, written) = &node.content
        && let max = f64::from(limits::RETRY_FACTOR_MAX)
        && !number.as_f64().is_some_and(|factor| (1.0..=max).contains(&factor))
    {
        let message = format!("`factor` must be a number from 1 to {max}, this is {written}");
        let path = format!("{}.factor", retry.path);
        findings.push(node.new_finding(Rule::OutOfRange, &path, message));
    }
    let span = |key: &str| retry.value.deserialize_key::<HumanDuration>(key);
    let max_backoff = retry.value.get("max_backoff").zip(span("max_backoff"));
    if let (Some(backoff), Some((node, max_backoff))) = (span("backoff"), max_backoff)
        && max_backoff < backoff
    {
        let message =
            format!("`max_backoff` of {max_backoff} is shorter than `backoff` of {backoff}");
        let path = format!("{}.max_backoff", retry.path);
        findings.push(node.new_finding(Rule::OutOfRange, &path, message));
    }
}

/// Names for "any failure" in other systems.
const ANY_FAILURE_WORDS: [&str; 6] = ["all", "any", "always", "error", "errors", "exception"];

/// The findings for names in `retry.on` that match no failure of this kind of step. The failures of operations are
/// known. Models, activities and children may report codes of their own, so for those only probable misspellings are
/// reported.
fn unknown_failure_findings(draft: &StepDraft, kind: &str) -> Vec<Finding> {
    let on = draft.value("retry").and_then(|retry| retry.get("on"));
    let nodes = on.and_then(DocumentNode::items).unwrap_or_default().iter().enumerate();
    let finding = |(at, node): (usize, &DocumentNode)| {
        let word = node.as_text().filter(|word| normalize_failure_name(word).is_none())?;
        let is_misspelling = ANY_FAILURE_WORDS.contains(&&*word.to_lowercase())
            || find_nearest(word, failure_class_and_code_names()).is_some();
        if !has_shape(node, &ValueShape::Failure) || kind != "run" && !is_misspelling {
            return None;
        }
        let message = format!("no failure has the code or the class `{word}`");
        let hint = "name a status (503), a class (5xx, timeout, connection) or a code of docs/errors.md; without `on` all are meant that may pass";
        let path = format!("{}.retry.on[{at}]", draft.path);
        let finding = node.new_finding(Rule::UnknownFailure, &path, message);
        Some(finding.suggest(hint.to_owned()).did_you_mean(
            node.place,
            word,
            failure_class_and_code_names(),
        ))
    };
    nodes.filter_map(finding).collect()
}

/// The field that determines the kind of the step. A second one, or none, is a finding.
fn find_kind_field<'a>(
    findings: &mut Vec<Finding>,
    draft: &'a StepDraft,
    form: WorkflowFormat,
) -> Option<&'a RawField> {
    let mut kinds = draft.kind_fields();
    let first = kinds.next();
    // A phase must have an `agent`; the grammar checks that.
    if first.is_none() && form == WorkflowFormat::Manifest {
        let (message, hint) = if draft.is_hook_or_compensation {
            ("nothing says what the server does", "add `run`, `activity`, `workflow` or `set`")
        } else {
            (
                "the step does not say who acts",
                "add `agent: NAME`, `guidance: TEXT` or another kind",
            )
        };
        let finding = Finding::new(Rule::MissingKind, &draft.path, draft.place, message);
        findings.push(finding.suggest(hint.to_owned()));
    }
    let first = first?;
    for extra in kinds {
        let message = format!("a step has one kind: this one has `{}` already", first.key.name);
        let finding = extra.key_finding(Rule::SeveralKinds, message);
        findings.push(finding.suggest("make it two steps".to_owned()));
    }
    Some(first)
}

fn check_agent(
    findings: &mut Vec<Finding>,
    field: &RawField,
    agents: &KnownAgents,
) -> Option<AgentName> {
    let text = field.value.as_text()?;
    let name = AgentName::parse(text).ok()?;
    match agents.get(name.as_str()) {
        Some(AgentFileState::Usable) => Some(name),
        Some(AgentFileState::Broken) => {
            let message = format!("the file of agent `{name}` has findings of its own");
            findings.push(field.value_finding(Rule::InvalidPersona, message));
            None
        }
        None => {
            let known = agents.keys().map(String::as_str);
            let message = format!("no agent is called `{name}`");
            let finding = field.value_finding(Rule::MissingPersona, message);
            let finding = finding.suggest(format!(
                "say in `guidance` what is to be done, or have `agents/{name}.md` written"
            ));
            findings.push(finding.did_you_mean(field.value.place, text, known));
            None
        }
    }
}

/// The finding for an activity that the server does not provide.
fn unknown_activity_finding(field: &RawField, abilities: &ServerCapabilities) -> Option<Finding> {
    let name = field.value.as_text()?;
    let known = &abilities.activities;
    // A value that is no valid name has a finding already.
    if known.contains(name) || !has_shape(&field.value, &field.key.shape) {
        return None;
    }
    let finding = |message: String| field.value_finding(Rule::UnknownActivity, message);
    if known.is_empty() {
        let message = format!("no activity is called `{name}`: this server has none");
        let hint = "activities are brought by programs that embed midex: run this workflow with the one that has it, or have the model do it with `guidance: TEXT`";
        return Some(finding(message).suggest(hint.to_owned()));
    }
    let known = known.iter().map(String::as_str);
    let finding = finding(format!("no activity is called `{name}`"))
        .suggest("give the server an activity with this name".to_owned());
    Some(finding.did_you_mean(field.value.place, name, known))
}
