//! Checks the expressions of a manifest: they must parse, and the values that they refer to must be able to exist. A
//! reference to a step that might run concurrently adds a dependency on that step.

mod existence;
mod failure;
mod reference;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::super::{
    draft::{RawField, StepDraft, WorkflowDraft},
    expression::{
        ALL_INPUTS_MEMORY_KEY, Expression, ExpressionFault, FaultKind, Reference, ReferenceRoot,
        Segment, Template,
    },
    finding::{Finding, Rule, has_room_for_suggestions},
    grammar::{self, ValueShape, has_template},
    node::DocumentNode,
};
use super::{
    commands::{OperationCalls, join_first_names},
    fault,
    flow::{FlowGraph, is_conditional},
    names::{self, UnknownName},
    not_evaluated, quotes,
    site::{ExpressionSite, collect_sites},
    suspicions::InputUses,
};
use reference::{collect_references, first_segment, suggest_memory_key};

/// The owner of an expression, which decides what it can refer to.
#[derive(Clone, Copy)]
struct Scope<'a> {
    owner: ExpressionOwner,
    /// Whether it is a hook or a compensation.
    is_hook_or_compensation: bool,
    /// The name of the item, inside a `foreach`.
    alias: Option<&'a str>,
    /// Whether the value is stored with the execution, like the inputs of a child or a final output.
    is_stored: bool,
}

impl<'a> Scope<'a> {
    /// The names that refer to the item of a `foreach`.
    fn item_names(&self) -> &[&'a str] {
        self.alias.as_slice()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ExpressionOwner {
    /// The choices of an input, before the execution begins.
    Inputs,
    /// The initial memory, before any step.
    Memory,
    /// The final output, after all steps.
    End,
    /// The step at this position; [`OwnOutputAccess`] says how the expression sees the step's own output.
    Step(usize, OwnOutputAccess),
}

/// How an expression of a step sees the output of that step.
#[derive(Clone, Copy, PartialEq)]
enum OwnOutputAccess {
    /// Not at all, because the expression decides whether the step runs.
    Never,
    /// As the output of the previous visit.
    PreviousVisit,
    /// As the output of the latest attempt.
    LatestAttempt,
}

/// Checks all expressions of the draft, and adds the dependencies that references imply to `flow`. Returns the inputs
/// that the expressions read.
pub(super) fn check_expressions(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    (secrets, calls): (Option<&BTreeSet<String>>, &OperationCalls),
    flow: &mut FlowGraph<'_>,
) -> InputUses {
    let mut checker = ExpressionChecker {
        uses: InputUses::default(),
        findings,
        flow,
        inputs: declared_input_names(draft),
        memory: names::memory_keys(draft, steps),
        secrets,
        calls,
        types: quotes::input_types(draft),
        undeclared_finding: None,
        steps,
    };
    for field in &draft.fields {
        let owner = match field.key.name {
            "inputs" => ExpressionOwner::Inputs,
            "memory" => ExpressionOwner::Memory,
            _ => ExpressionOwner::End,
        };
        let scope = Scope {
            owner,
            is_hook_or_compensation: field.key.name == "hooks",
            alias: None,
            is_stored: field.key.name == "final_output",
        };
        checker.check_field_expressions(field, scope);
    }
    for (position, step) in steps.iter().enumerate() {
        checker.check_step(position, step, None);
        if let Some(each) = &step.foreach_body {
            let alias = step.value("foreach").and_then(|node| node.get("as")?.as_text());
            checker.check_step(
                position,
                each,
                Some(alias.unwrap_or(grammar::FOREACH_ALIAS_DEFAULT)),
            );
        }
    }
    let inputs = checker.uses.inputs.iter().take(UNDECLARED_LISTED_MAX);
    let lines: Vec<_> = inputs.map(|name| format!("{name}: {{ type: string }}")).collect();
    let lines = format!("add `inputs: {{ {} }}` with the types that are meant", lines.join(", "));
    checker.findings.extend(checker.undeclared_finding.map(|one| one.suggest(lines)));
    checker.uses
}

/// The names of the inputs, if the draft declares any.
fn declared_input_names(draft: &WorkflowDraft) -> Option<Vec<&str>> {
    let inputs = draft.field("inputs")?.value.entries()?;
    Some(inputs.iter().map(|input| input.key.as_str()).collect())
}

struct ExpressionChecker<'f, 'a, 'd> {
    findings: &'f mut Vec<Finding>,
    flow: &'f mut FlowGraph<'a>,
    steps: &'d [StepDraft],
    inputs: Option<Vec<&'d str>>,
    /// The keys that memory may have; `None` if they are unknown.
    memory: Option<BTreeSet<&'d str>>,
    secrets: Option<&'d BTreeSet<String>>,
    calls: &'d OperationCalls,
    /// The declared types of the inputs.
    types: BTreeMap<&'d str, &'d str>,
    uses: InputUses,
    /// The first reference to an input, if the draft declares no inputs.
    undeclared_finding: Option<Finding>,
}

impl ExpressionChecker<'_, '_, '_> {
    fn check_step(&mut self, position: usize, step: &StepDraft, alias: Option<&str>) {
        if let Some(finding) = not_evaluated::description_expression_finding(step) {
            self.findings.retain(|one| one.path != finding.path);
            self.findings.push(finding);
        }
        for field in &step.fields {
            let access = match field.key.name {
                "if" | "when" | "join" => OwnOutputAccess::Never,
                "repeat" | "branches" | "hooks" | "compensate" => OwnOutputAccess::LatestAttempt,
                _ => OwnOutputAccess::PreviousVisit,
            };
            let owner = ExpressionOwner::Step(position, access);
            let scope = Scope {
                owner,
                is_hook_or_compensation: matches!(field.key.name, "hooks" | "compensate"),
                alias,
                is_stored: field.key.name == "title"
                    || field.key.name == "with" && step.find_field("workflow").is_some(),
            };
            self.check_field_expressions(field, scope);
        }
    }

    fn check_field_expressions(&mut self, field: &RawField, scope: Scope<'_>) {
        let mut sites = Vec::new();
        collect_sites(&mut sites, &field.value, &field.path, &field.key.shape);
        for site in sites {
            self.check_site(&site, scope);
            self.warn_foreign_syntax(&site, scope);
            if matches!(
                field.key.shape,
                ValueShape::Value
                    | ValueShape::Values
                    | ValueShape::ValuesOrTemplate
                    | ValueShape::Memory(_)
            ) {
                self.findings.extend(quotes::quoted_expression_finding(&site, &self.types));
            }
        }
    }

    fn check_site(&mut self, site: &ExpressionSite<'_>, scope: Scope<'_>) {
        if !site.is_condition && !has_template(site.text) {
            return;
        }
        if let Some(finding) = not_evaluated::braced_condition_finding(site, scope.item_names()) {
            return self.findings.push(finding);
        }
        let (references, faults) = collect_references(site, scope.item_names());
        for reference in &references {
            let count_before = self.findings.len();
            self.check_reference(site, scope, reference);
            if self.findings.len() == count_before && !self.is_own_item_output(scope, reference) {
                self.check_impossible_path(site, scope, reference);
            }
            if self.findings.len() == count_before
                && !self.check_failure_access(site, scope, &references, reference)
            {
                self.check_result_field(site, &references, reference);
                self.warn_uncertain_field(site, &references, reference);
                self.check_response_field(site, reference);
                self.warn_conditional_output(site, scope, &references, reference);
            }
        }
        for fault in &faults {
            let full_path = self.find_full_path(site, fault);
            self.findings.push(fault::fault_finding(site, fault, full_path));
        }
    }

    /// A full path for a bare name, if exactly one input, memory key or step has that name: `topic` becomes
    /// `inputs.topic`.
    fn find_full_path(
        &mut self,
        site: &ExpressionSite<'_>,
        fault: &ExpressionFault,
    ) -> Option<String> {
        if fault.kind != FaultKind::UnknownName {
            return None;
        }
        // The name may be meant as any input, so none counts as unused.
        self.uses.is_whole_read = true;
        let name = site.text.get(fault.offset..fault.offset + fault.length)?;
        let is_step = self.flow.step_position(name).is_some();
        let is_input = self.inputs.as_ref().is_some_and(|known| known.contains(&name));
        // Memory also has the output of each step under the step's id.
        let is_memory_key = self.memory.as_ref().is_some_and(|known| known.contains(name));
        let roots = [
            (ReferenceRoot::Inputs, is_input),
            (ReferenceRoot::Steps, is_step),
            (ReferenceRoot::Memory, is_memory_key && !is_step),
        ];
        let mut matching_roots = roots.iter().filter(|(_, is_there)| *is_there);
        let (root, _) = matching_roots.next()?;
        matching_roots.next().is_none().then(|| format!("{}.{name}", root.word()))
    }

    /// Adds a warning for each part of a text that looks like an expression in another syntax and is not evaluated.
    fn warn_foreign_syntax(&mut self, site: &ExpressionSite<'_>, scope: Scope<'_>) {
        if site.is_condition {
            return;
        }
        for candidate in not_evaluated::find_lookalikes(site.text, scope.item_names()) {
            let source = &site.text[candidate.start..candidate.end];
            let is_bare = !source.starts_with(['{', '$', '=']);
            let references = &candidate.references;
            let is_resolved = references.iter().all(|one| self.is_in_scope(scope, one));
            let replacement = match references.as_slice() {
                [] => self.find_input_path(&candidate.inner),
                _ => is_resolved.then_some(candidate.inner),
            };
            // Without delimiters this may be plain text with a dot in it; in `${…}` it may be a variable of a shell.
            if replacement.is_none() && (is_bare || source.starts_with("${")) {
                continue;
            }
            let message = format!(
                "`{source}` is passed on as it is: an expression stands between `${{{{` and `}}}}`"
            );
            let part = (candidate.start, candidate.end - candidate.start);
            let finding = Finding::new(Rule::LooksLikeExpression, &site.path, site.place, message)
                .narrow_to_part(site.place, site.text, part.0, part.1);
            self.findings.push(match replacement {
                Some(expression) => {
                    let template = format!("${{{{ {expression} }}}}");
                    finding
                        .suggest(format!("write `{template}`"))
                        .edit_replace_part(site.place, site.text, part, &template)
                }
                None => finding.suggest("write it as `${{ inputs.NAME }}`".to_owned()),
            });
        }
    }

    /// The path that a bare name means: `inputs.NAME` if there is such an input.
    fn find_input_path(&self, name: &str) -> Option<String> {
        let is_input = self.inputs.as_ref()?.contains(&name);
        is_input.then(|| format!("inputs.{name}"))
    }

    /// Whether the reference reads the output of the item itself, as `until` in `do` does.
    fn is_own_item_output(&self, scope: Scope<'_>, reference: &Reference) -> bool {
        let step = reference.step_id().and_then(|id| self.flow.step_position(&id));
        let own = step.map(|step| ExpressionOwner::Step(step, OwnOutputAccess::LatestAttempt));
        scope.alias.is_some() && own == Some(scope.owner)
    }

    /// Whether the first segment of the path exists in the scope.
    fn is_in_scope(&self, scope: Scope<'_>, reference: &Reference) -> bool {
        let Some(name) = first_segment(reference) else {
            return scope.alias.is_some();
        };
        match reference.root {
            ReferenceRoot::Inputs => {
                self.inputs.as_ref().is_none_or(|known| known.contains(&&*name))
            }
            ReferenceRoot::Memory => {
                self.memory.as_ref().is_none_or(|known| known.contains(&*name))
            }
            ReferenceRoot::Steps => self.flow.step_position(&name).is_some(),
            ReferenceRoot::Run => names::unknown_run_field(
                &reference.path,
                scope.is_hook_or_compensation,
                self.flow.step_ids(),
            )
            .is_none(),
            // Variables are written in capitals; a text such as `env.local` names a file.
            ReferenceRoot::Env | ReferenceRoot::Secrets => !name.contains(char::is_lowercase),
            ReferenceRoot::Item | ReferenceRoot::Index => scope.alias.is_some(),
        }
    }

    fn add_unknown_name_finding(
        &mut self,
        site: &ExpressionSite<'_>,
        reference: &Reference,
        unknown: &UnknownName<'_>,
        message: String,
    ) {
        let names_list = join_first_names(&unknown.known);
        let hint = (!names_list.is_empty()).then(|| format!("there are {names_list}"));
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        let known = unknown.known.iter().copied();
        self.findings.push(site.suggest_name(
            self.findings,
            finding.suggest(hint),
            reference,
            &unknown.name,
            known,
        ));
    }

    fn check_reference(
        &mut self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
    ) {
        match reference.root {
            root if scope.owner == ExpressionOwner::Inputs && root != ReferenceRoot::Inputs => {
                let message = format!(
                    "`{reference}` is not there yet when inputs are chosen: only other inputs are"
                );
                self.findings.push(site.reference_finding(
                    Rule::ReferenceTooEarly,
                    reference,
                    message,
                ));
            }
            ReferenceRoot::Item | ReferenceRoot::Index if scope.alias.is_none() => {
                let message = format!("`{reference}` is only there in what a `foreach` does");
                self.findings.push(site.reference_finding(
                    Rule::UnknownReference,
                    reference,
                    message,
                ));
            }
            ReferenceRoot::Inputs => self.check_input_reference(site, reference),
            ReferenceRoot::Memory => self.check_memory_reference(site, reference),
            ReferenceRoot::Secrets if scope.is_stored || site.is_stored => {
                let name = reference.secret_name().unwrap_or_default();
                let message = format!("the secret `{name}` would be kept here, and is not");
                let hint = "name it in the `with` or `body` of the step that sends it";
                let finding = site.reference_finding(Rule::MisplacedSecret, reference, message);
                self.findings.push(finding.suggest(hint.to_owned()));
            }
            ReferenceRoot::Secrets => self.check_secret_reference(site, reference),
            ReferenceRoot::Run => {
                if let Some(unknown) = names::unknown_run_field(
                    &reference.path,
                    scope.is_hook_or_compensation,
                    self.flow.step_ids(),
                ) {
                    let message =
                        format!("`{reference}` is nothing that an execution says of itself");
                    self.add_unknown_name_finding(site, reference, &unknown, message);
                }
            }
            ReferenceRoot::Steps => {
                if let Some(id) = reference.step_id() {
                    self.check_output_reference(site, scope, reference, &id);
                }
            }
            _ => {}
        }
    }

    fn check_input_reference(&mut self, site: &ExpressionSite<'_>, reference: &Reference) {
        match first_segment(reference) {
            Some(name) => drop(self.uses.inputs.insert(name.into_owned())),
            None => self.uses.is_whole_read = true,
        }
        let Some(name) = first_segment(reference) else {
            return;
        };
        let Some(known) = &self.inputs else {
            let message = format!("`{reference}` is read, and the manifest declares no inputs");
            let finding = || site.reference_finding(Rule::UndeclaredInput, reference, message);
            if !reference.is_guarded {
                self.undeclared_finding.get_or_insert_with(finding);
            }
            return;
        };
        if known.contains(&&*name) {
            return;
        }
        // A misspelled input may be meant as any of them, so none counts as unused.
        self.uses.is_whole_read = true;
        let message = format!("no input is called `{name}`");
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        self.findings.push(site.suggest_name(
            self.findings,
            finding,
            reference,
            &name,
            known.iter().copied(),
        ));
    }

    fn check_memory_reference(&mut self, site: &ExpressionSite<'_>, reference: &Reference) {
        self.uses.is_whole_read |=
            first_segment(reference).is_none_or(|name| name == ALL_INPUTS_MEMORY_KEY);
        let (Some(name), Some(known)) = (first_segment(reference), &self.memory) else {
            return;
        };
        if known.contains(&*name) {
            return;
        }
        let message = format!("nothing sets `memory.{name}`");
        let hint =
            format!("give it a first value, as `memory: {{ {name}: … }}`, or write it in a `set`");
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        let known = known.iter().copied();
        self.findings.push(site.suggest_name(
            self.findings,
            finding.suggest(hint),
            reference,
            &name,
            known,
        ));
    }

    /// Warns of a secret that the configuration does not name: it has no value when the step is entered.
    fn check_secret_reference(&mut self, site: &ExpressionSite<'_>, reference: &Reference) {
        let (Some(name), Some(known)) = (reference.secret_name(), self.secrets) else {
            return;
        };
        if known.contains(&*name) {
            return;
        }
        let message = format!("no secret is called `{name}` here");
        let hint = format!("name the environment variable that holds it: --secret-env {name}");
        let finding = site.reference_finding(Rule::UnknownSecret, reference, message);
        let known = known.iter().map(String::as_str);
        self.findings.push(site.suggest_name(
            self.findings,
            finding.suggest(hint),
            reference,
            &name,
            known,
        ));
    }

    fn check_output_reference(
        &mut self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
        id: &str,
    ) {
        let Some(referenced) = self.flow.step_position(id) else {
            let message = format!("no step has the id `{id}`");
            let finding = site.reference_finding(Rule::UnknownReference, reference, message);
            self.findings.push(site.suggest_name(
                self.findings,
                finding,
                reference,
                id,
                self.flow.step_ids(),
            ));
            return;
        };
        match scope.owner {
            ExpressionOwner::End | ExpressionOwner::Inputs => {}
            ExpressionOwner::Memory => {
                let message = format!("`{id}` cannot have been done when memory begins");
                self.findings.push(site.reference_finding(
                    Rule::ReferenceTooEarly,
                    reference,
                    message,
                ));
            }
            // A handler of a failure runs after the failed step anyway, so no dependency is added.
            ExpressionOwner::Step(position, _)
                if reference.is_error() && self.flow.is_on_error_handler(position, referenced) => {}
            ExpressionOwner::Step(position, access) => {
                self.ensure_step_order(site, reference, (referenced, position), access);
            }
        }
    }

    /// Ensures that the step at `first` runs before the step at `position`, which refers to its output.
    fn ensure_step_order(
        &mut self,
        site: &ExpressionSite<'_>,
        reference: &Reference,
        (referenced, position): (usize, usize),
        access: OwnOutputAccess,
    ) {
        let is_same_step = referenced == position;
        if is_same_step && access == OwnOutputAccess::LatestAttempt {
            return;
        }
        let order = self.flow.try_add_dependency(
            referenced,
            position,
            has_room_for_suggestions(self.findings),
        );
        let Some(is_loop) = order else {
            return;
        };
        let finding = if is_loop && access != OwnOutputAccess::Never {
            self.reset_output_finding(site, reference, (referenced, position))
        } else {
            let (first, then) = (self.flow.step_id(referenced), self.flow.step_id(position));
            let message = if is_same_step {
                format!("`{first}` has no output yet where this is asked")
            } else {
                format!(
                    "`{first}` cannot have been done when `{then}` is entered: it comes after it"
                )
            };
            site.reference_finding(Rule::ReferenceTooEarly, reference, message)
        };
        self.findings.push(finding);
    }

    /// The finding for an output that a loop resets: a jump back to a step also resets the steps after it, and their
    /// outputs. Memory is kept.
    fn reset_output_finding(
        &self,
        site: &ExpressionSite<'_>,
        reference: &Reference,
        (referenced, position): (usize, usize),
    ) -> Finding {
        let (id, then) = (self.flow.step_id(referenced), self.flow.step_id(position));
        let message = format!(
            "`{reference}` is never there when `{then}` is entered: whatever leads back to `{then}` resets `{id}` and its output"
        );
        let name = suggest_memory_key(reference);
        let replacement = if reference.is_guarded {
            format!("memory.{name}")
        } else {
            format!("memory.{name} | default('')")
        };
        let set = format!("set: {{ {name}: \"${{{{ {reference} }}}}\" }}");
        let finding = site.reference_finding(Rule::ForgottenOutput, reference, message).suggest(format!(
            "memory outlives the jump: write `{set}` in a step after `{id}`, and `{replacement}` here"
        ));
        let keep = format!("keep_{name}");
        let Some(next_step) = self
            .flow
            .implied_successor(referenced)
            .filter(|_| self.flow.step_position(&keep).is_none())
        else {
            return finding;
        };
        let part = (reference.offset, reference.length);
        finding
            .insert_before(next_step.place, &format!("{{ id: {keep}, {set} }}"))
            .edit_replace_part(site.place, site.text, part, &replacement)
    }
}

/// The most undeclared inputs that a finding lists.
const UNDECLARED_LISTED_MAX: usize = 12;

/// Whether the step runs only after a failure (`run_when: failed`).
fn is_failure_handler(step: &StepDraft) -> bool {
    step.value("run_when").and_then(DocumentNode::as_text) == Some("failed")
}

/// Whether an item of this `foreach` body may end without an output while the `foreach` continues.
fn may_lack_output(step: &StepDraft) -> bool {
    let continues_on_error =
        step.value("on_error").and_then(DocumentNode::as_text) == Some("continue");
    continues_on_error || step.read_value("optional") == Some(true) || is_conditional(step)
}
