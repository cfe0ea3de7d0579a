//! Checks expressions about failures and polls: `steps.ID.error`, `run.failure`, `run.last`, and outputs of steps that
//! failed.

use super::{
    super::flow::run_when, ExpressionChecker, ExpressionOwner, ExpressionSite, Finding, Reference,
    ReferenceRoot, Rule, Scope,
};
use crate::expression::{ERROR_FIELDS, ERROR_KEY};

impl ExpressionChecker<'_, '_, '_> {
    /// Adds a finding for a failure that is read where nothing failed, or for an output that is read where its step
    /// failed. Returns true if the reference needs no further checks.
    pub(super) fn check_failure_access(
        &mut self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        references: &[Reference],
        reference: &Reference,
    ) -> bool {
        if let Some(finding) = self.misplaced_last_output_finding(site, scope, reference) {
            self.findings.push(finding);
            return true;
        }
        let is_guarded =
            references.iter().any(|other| other.is_guarded && other.is_prefix_of(reference));
        let step = reference.step_id().and_then(|id| self.flow.step_position(&id));
        let is_error = self.is_failure_of_step(scope, reference);
        let finding = match step {
            Some(step) if is_error => self.unknown_error_field_finding(site, reference, step),
            _ if is_guarded => None,
            Some(step) => self.failed_output_finding(site, scope, reference, step),
            None => self.check_run_failure(site, scope, reference),
        };
        let has_finding = finding.is_some();
        self.findings.extend(finding);
        has_finding || is_error || is_guarded && reference.is_error()
    }

    /// The finding for `run.last` outside of a step with `repeat`.
    fn misplaced_last_output_finding(
        &self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
    ) -> Option<Finding> {
        let is_last = !reference.path.is_empty() && reference.is_last_output();
        let has_repeat = match scope.owner {
            ExpressionOwner::Step(reader, _) => {
                let mut bodies = self.steps[reader].step_and_foreach_body();
                bodies.any(|step| step.find_field("repeat").is_some())
            }
            _ => false,
        };
        if !is_last || has_repeat {
            return None;
        }
        let message = format!("`{reference}` is only there in a step with `repeat`");
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        Some(finding.suggest("read the output of a step as `steps.ID`".to_owned()))
    }

    /// Whether the expression is evaluated only after the step failed, so that the step has no output.
    fn is_after_failure(&self, site: &ExpressionSite<'_>, scope: Scope<'_>, step: usize) -> bool {
        match scope.owner {
            ExpressionOwner::Step(reader, _) if scope.is_hook_or_compensation => {
                reader == step && site.path.contains(".on_failure")
            }
            ExpressionOwner::Step(reader, _) => {
                reader != step && self.flow.runs_on_failure(reader, step)
            }
            _ => false,
        }
    }

    /// Whether the path refers to the failure of a step. If no failure is implied, `error` is a field of the output.
    pub(super) fn is_failure_of_step(&self, scope: Scope<'_>, reference: &Reference) -> bool {
        let Some(step) = reference.step_id().and_then(|id| self.flow.step_position(&id)) else {
            return false;
        };
        let result = self.steps[step].find_field("result");
        let declared = result.and_then(|field| field.value.get("properties")?.get(ERROR_KEY));
        let is_after_failures = |reader: usize| {
            let draft = &self.steps[reader];
            let runs_on_failures = draft.is_failure_step || run_when(draft) == Some("failed");
            scope.is_hook_or_compensation
                || runs_on_failures
                || self.flow.is_on_error_handler(reader, step)
        };
        reference.is_error()
            && declared.is_none()
            && matches!(scope.owner, ExpressionOwner::Step(reader, _) if is_after_failures(reader))
    }

    fn unknown_error_field_finding(
        &self,
        site: &ExpressionSite<'_>,
        reference: &Reference,
        step: usize,
    ) -> Option<Finding> {
        let error_path = reference.path.get(2..).unwrap_or_default();
        let field = error_path.first()?.as_key();
        if ERROR_FIELDS.contains(&&*field) && (error_path.len() == 1 || field == "response_payload")
        {
            return None;
        }
        let message = format!("`{reference}` is nothing that a step fails with");
        let (id, fields) = (self.flow.step_id(step), ERROR_FIELDS.join("`, `"));
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        Some(finding.suggest(format!("`steps.{id}.{ERROR_KEY}` has `{fields}`")))
    }

    fn failed_output_finding(
        &self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
        step: usize,
    ) -> Option<Finding> {
        let is_foreach = self.steps[step].foreach_body.is_some();
        if !self.is_after_failure(site, scope, step) || is_foreach && reference.is_ended() {
            return None;
        }
        let id = self.flow.step_id(step);
        let message = format!(
            "`{reference}` is not there: this runs because `{id}` failed, which left no output"
        );
        let finding = site.reference_finding(Rule::FailedOutput, reference, message);
        Some(finding.suggest(format!(
            "what it failed with is `steps.{id}.{ERROR_KEY}.message`; or say what stands in for the output: `{reference} | default(…)`"
        )))
    }

    /// Checks `run.failure`, which is available in `on_failure` steps, hooks and compensations.
    fn check_run_failure(
        &self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
    ) -> Option<Finding> {
        let is_failure = reference.path.first().is_some_and(|first| first.as_key() == "failure");
        let reader = match scope.owner {
            ExpressionOwner::Step(reader, _) => Some(reader),
            _ => None,
        };
        let draft = reader.map(|asks| &self.steps[asks]);
        let is_there =
            scope.is_hook_or_compensation || draft.is_some_and(|draft| draft.is_failure_step);
        if reference.root != ReferenceRoot::Run || !is_failure || is_there {
            return None;
        }
        let failed_step = (0..self.steps.len())
            .find(|step| reader.is_some_and(|asks| self.flow.is_on_error_handler(asks, *step)));
        let runs_at_end = matches!(draft.and_then(run_when), Some("failed" | "finished"));
        let (rule, message) = if failed_step.is_none() && runs_at_end {
            (
                Rule::UncertainReference,
                "may be missing: a failure before this step may have been passed",
            )
        } else {
            (
                Rule::FailedOutput,
                "is not there: only `on_failure`, hooks and compensations know what an execution fails with",
            )
        };
        let id = failed_step.map_or("ID", |step| self.flow.step_id(step));
        let finding = site.reference_finding(rule, reference, format!("`{reference}` {message}"));
        Some(finding.suggest(format!(
            "what a step failed with is `steps.{id}.{ERROR_KEY}`; or say what stands in for it: `{reference} | default(…)`"
        )))
    }
}
