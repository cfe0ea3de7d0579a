//! Checks whether a referenced value always exists: attributes, keys of a `set`, fields of an output, and outputs of
//! steps that may be skipped.

use std::borrow::Cow;

use super::{
    super::{
        super::{
            draft::StepDraft,
            expression::{ENDED_FIELDS, Reference, ReferenceRoot, Segment},
            finding::Rule,
            node::DocumentNode,
        },
        answer::{self, ResponsePathResult},
        flow::is_conditional,
        names::{self, SchemaPathResult, UnknownName},
        site::ExpressionSite,
    },
    ExpressionChecker, ExpressionOwner, Scope, first_segment, is_failure_handler, may_lack_output,
};

impl<'d> ExpressionChecker<'_, '_, 'd> {
    /// Adds a finding for a path that cannot exist: an attribute of a scalar, or a key that a `set` does not write.
    pub(super) fn check_impossible_path(
        &mut self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        reference: &Reference,
    ) {
        if self.is_failure_of_step(scope, reference) {
            return;
        }
        let steps = self.steps;
        let step = reference.step_id().and_then(|id| self.flow.step_position(&id));
        let step = step.and_then(|at| steps.get(at));
        let at = usize::from(reference.root != ReferenceRoot::Index);
        let Some(segment) = reference.path.get(at) else {
            return;
        };
        let name = segment.as_key();
        if let Some(set) = step.and_then(|step| step.value("set")?.entries())
            && set.iter().all(|entry| entry.key != name)
        {
            let message = format!("the step does not set `{name}`");
            let known = set.iter().map(|entry| entry.key.as_str()).collect();
            let name = name.into_owned();
            return self.add_unknown_name_finding(
                site,
                reference,
                &UnknownName { name, known },
                message,
            );
        }
        let is_foreach = step.is_some_and(|step| step.foreach_body.is_some());
        if is_foreach && reference.is_ended() {
            return self.check_ended_field(site, reference);
        }
        let kind = match reference.root {
            ReferenceRoot::Inputs => {
                first_segment(reference).and_then(|name| self.types.get(&*name).copied())
            }
            ReferenceRoot::Steps if is_foreach => Some("array"),
            ReferenceRoot::Index => Some("integer"),
            _ => None,
        };
        let Some(kind) = kind.filter(|kind| *kind != "object") else {
            return;
        };
        let is_list = kind == "array";
        if matches!(segment, Segment::Index(_)) && (is_list || kind == "string") {
            return;
        }
        let prefix = reference.path_prefix(at);
        let hint = match &*name {
            "length" | "size" | "count" => format!("write `{prefix} | length`"),
            _ if is_list => format!(
                "write `{prefix} | map(attribute='{name}')` for that of every item, or `{prefix}[0].{name}` for the first"
            ),
            _ => format!("write `{prefix}`"),
        };
        let message = format!("`{reference}` cannot be there: `{prefix}` is of type {kind}");
        let finding = site.reference_finding(Rule::UnknownReference, reference, message);
        self.findings.push(finding.suggest(hint));
    }

    /// Adds a finding for a path below `steps.ID.ended` that is none of its counts.
    fn check_ended_field(&mut self, site: &ExpressionSite<'_>, reference: &Reference) {
        let path = reference.path.get(2..).unwrap_or_default();
        let Some(name) = path.first().map(Segment::as_key) else {
            return;
        };
        if path.len() == 1 && ENDED_FIELDS.contains(&&*name) {
            return;
        }
        let message = format!("`{reference}` is no count of how items ended");
        let unknown = UnknownName { name: name.into_owned(), known: ENDED_FIELDS.to_vec() };
        self.add_unknown_name_finding(site, reference, &unknown, message);
    }

    /// Warns of a field that an output may lack: any field but `summary` if the step declares no `result`, and fields
    /// of an item that may have failed or been skipped.
    pub(super) fn warn_uncertain_field(
        &mut self,
        site: &ExpressionSite<'_>,
        references: &[Reference],
        reference: &Reference,
    ) {
        let is_guarded = |other: &Reference| other.is_guarded && other.is_prefix_of(reference);
        let Some((_, step, path)) = self.find_referenced_step(reference) else {
            return;
        };
        let prefix_len = reference.path.len() - path.len();
        let has_kind = |kind: &&str| step.find_field(kind).is_some();
        let has_only_summary =
            ["agent", "guidance", "tool"].iter().any(has_kind) && !has_kind(&"result");
        let name = path.first().map(Segment::as_key);
        let name = name.filter(|name| has_only_summary && name != "summary");
        let (reason, hint) = match name {
            _ if references.iter().any(is_guarded) => return,
            Some(name) => (
                "without a `result` only the summary is sure",
                format!(
                    "read `{}.summary`, or give the step a `result` that requires `{name}`",
                    reference.path_prefix(prefix_len)
                ),
            ),
            None if prefix_len == 2 && may_lack_output(step) => (
                "the item may be passed over",
                format!("say what stands in for it: `{reference} | default(…)`"),
            ),
            None => return,
        };
        let message = format!("`{reference}` may be missing: {reason}");
        let finding = site.reference_finding(Rule::UncertainReference, reference, message);
        self.findings.push(finding.suggest(hint));
    }

    /// Checks a referenced field against the `result` of its step.
    pub(super) fn check_result_field(
        &mut self,
        site: &ExpressionSite<'_>,
        references: &[Reference],
        reference: &Reference,
    ) {
        let Some((step, schema, path)) = self.find_output_schema(reference) else {
            return;
        };
        match names::follow_schema_path(schema, path) {
            SchemaPathResult::Possible => {}
            SchemaPathResult::Impossible(unknown) => {
                let message = format!(
                    "`{reference}` cannot be there: the `result` of `{step}` allows no `{}`",
                    unknown.name
                );
                self.add_unknown_name_finding(site, reference, &unknown, message);
            }
            SchemaPathResult::Optional(unknown) => {
                let is_guarded =
                    |other: &&Reference| other.is_guarded && other.is_prefix_of(reference);
                if references.iter().any(|other| is_guarded(&other)) {
                    return;
                }
                let name = &unknown.name;
                let message = format!(
                    "`{reference}` may be missing: the `result` of `{step}` does not require `{name}`"
                );
                let hint = format!(
                    "add `{name}` to `required` there, or say what stands in for it: `{reference} | default(…)`"
                );
                let finding = site.reference_finding(Rule::UncertainReference, reference, message);
                let finding = finding.suggest(hint);
                let known = unknown.known.iter().copied();
                self.findings.push(site.suggest_name(
                    self.findings,
                    finding,
                    reference,
                    name,
                    known,
                ));
            }
        }
    }

    /// Warns of a reference to the output of a step that may be skipped or runs only after a failure, if the referring
    /// step always runs, or if the final output refers to it.
    pub(super) fn warn_conditional_output(
        &mut self,
        site: &ExpressionSite<'_>,
        scope: Scope<'_>,
        references: &[Reference],
        reference: &Reference,
    ) {
        let step_position = reference.step_id().and_then(|id| self.flow.step_position(&id));
        let Some(step_position) = step_position else { return };
        let position = match scope.owner {
            ExpressionOwner::Step(position, _) => position,
            ExpressionOwner::End if !scope.is_hook_or_compensation => self.steps.len(),
            _ => return,
        };
        let is_guarded = |other: &Reference| other.is_guarded && other.is_prefix_of(reference);
        let is_skippable = |step: &StepDraft| is_conditional(step) || is_failure_handler(step);
        let is_conditional_reader = |step: &StepDraft| {
            step.is_failure_step || step.step_and_foreach_body().any(is_skippable)
        };
        // A branch between the two steps may test whether the first one ran.
        let between = self.steps.get(step_position + 1..position).unwrap_or_default();
        let reader = self.steps.get(position);
        let step = &self.steps[step_position];
        if step_position == position
            || !is_skippable(step)
            || reader.is_some_and(is_conditional_reader)
            || reader.is_some() && between.iter().any(|step| step.find_field("branch").is_some())
            || references.iter().any(is_guarded)
        {
            return;
        }
        let id = self.flow.step_id(step_position);
        let reason = if is_conditional(step) {
            "is skipped where its `if` does not hold"
        } else {
            "runs only where a step before it failed"
        };
        let message = format!("`{reference}` may be missing: `{id}` {reason}");
        let default_hint = format!("say what stands in for it: `{reference} | default(…)`");
        let hint = match reader {
            Some(_) => format!("give this step an `if` too, or {default_hint}"),
            None => default_hint,
        };
        let finding = site.reference_finding(Rule::DependsOnConditional, reference, message);
        self.findings.push(finding.suggest(hint));
    }

    /// Checks a referenced field against the response schema of the operation.
    pub(super) fn check_response_field(
        &mut self,
        site: &ExpressionSite<'_>,
        reference: &Reference,
    ) {
        let answer = self.find_referenced_step(reference).and_then(|(_, step, path)| {
            let is_gathered = step.find_field("paginate").is_some();
            let answer =
                ResponsePathResult::new(self.calls.operation_of_step(step)?, is_gathered, path)?;
            // With a declared `result`, that schema decides which fields exist.
            step.find_field("result").is_none().then_some((step, answer))
        });
        if let Some((step, answer)) = answer {
            let finding = answer::undeclared_path_finding(site, reference, step, &answer);
            self.findings.extend(finding);
        }
    }

    /// The declared schema of the output that a reference reads, with the id of the step and the path below the output.
    fn find_output_schema<'r>(
        &self,
        reference: &'r Reference,
    ) -> Option<(String, &'d DocumentNode, &'r [Segment])> {
        let (id, step, path) = self.find_referenced_step(reference)?;
        Some((id.into_owned(), &step.find_field("result")?.value, path))
    }

    /// The step whose output a reference reads, with its id and the path below the output. The output of a `foreach` is
    /// a list.
    fn find_referenced_step<'r>(
        &self,
        reference: &'r Reference,
    ) -> Option<(Cow<'r, str>, &'d StepDraft, &'r [Segment])> {
        let id = reference.step_id()?;
        let step = self.steps.get(self.flow.step_position(&id)?)?;
        match (&step.foreach_body, reference.path.get(1)) {
            (None, _) => Some((id, step, &reference.path[1..])),
            (Some(each), Some(Segment::Index(_))) => Some((id, each, &reference.path[2..])),
            _ => None,
        }
    }
}
