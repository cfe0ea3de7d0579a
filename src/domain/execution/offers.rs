//! Offers: the options that steps give their client for the next call. An offer lasts until a step that follows is
//! done, or until one of its options is chosen.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    BodyKind, Event, Execution, StepStatus, VisitId,
    decision::{DecideResult, Interrupt},
    judge::OpenTurn,
    scope::VisitScope,
    transition::TransitionBuilder,
};
use crate::{
    definition::{BranchOffer, StepKind},
    document::Digest,
    error::Violation,
    id::StepId,
    limits,
    offer::{
        OfferedOptions, OptionSource, STEP_OPTION_PRIORITY, SUGGESTIONS_KEY, SplitOutput,
        StepOption, SuggestedCall, split_suggestions,
    },
};

/// The options that one step offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The visit whose output the options are computed from.
    pub visit_id: VisitId,
    /// The revision that made the offer.
    pub revision: u64,
    /// The options: an [`OfferedOptions`], stored by digest.
    pub options: Digest,
}

impl Execution {
    /// The current offers of its steps, oldest first.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Adds an offer, which replaces an earlier offer of the same step.
    pub(super) fn add_offer(&mut self, revision: u64, visit_id: &VisitId, options: Digest) {
        self.offers.retain(|offer| offer.visit_id.step() != visit_id.step());
        self.offers.push(Offer { visit_id: visit_id.clone(), revision, options });
        let excess_count = self.offers.len().saturating_sub(limits::OFFERS_MAX);
        self.offers.drain(..excess_count);
    }
}

impl TransitionBuilder<'_> {
    /// Like [`Self::split_suggestions`], for a visit of the server. Hooks and compensations suggest nothing.
    pub(super) fn split_server_suggestions(
        &self,
        position: usize,
        visit_id: &VisitId,
        output: &Value,
    ) -> Option<SplitOutput> {
        let is_work = visit_id.body == BodyKind::Work;
        is_work.then(|| self.split_suggestions(position, output))?
    }

    /// Separates an output from the calls that it suggests; `None` if it suggests none or the step may not. The items
    /// of a `foreach` may not, because no step follows an item.
    pub(super) fn split_suggestions(&self, position: usize, output: &Value) -> Option<SplitOutput> {
        let can_suggest = matches!(
            self.step(position).kind,
            StepKind::Agent { .. }
                | StepKind::Guidance { .. }
                | StepKind::Tool { .. }
                | StepKind::Activity { .. }
        );
        can_suggest.then(|| split_suggestions(output))?
    }

    /// The violations of a model's output, including malformed suggestions. If the schema itself declares
    /// `toolCallSuggestions`, it is applied to the output with them, else to the output without them.
    pub(super) fn find_model_output_violations(
        &self,
        position: usize,
        value: &Value,
        split_output: Option<&SplitOutput>,
    ) -> Vec<Violation> {
        let schema = self.context.definition.output_schema(position);
        let Some(split_output) = split_output else {
            return schema.find_violations(value);
        };
        let result = self.step(position).acting_step().result.as_ref();
        let declares_suggestions =
            result.is_some_and(|result| result["properties"].get(SUGGESTIONS_KEY).is_some());
        let mut violations =
            schema.find_violations(if declares_suggestions { value } else { &split_output.output });
        violations.extend(split_output.suggestions.clone().err().unwrap_or_default());
        violations
    }

    /// Offers the options of a step that the server executed. No model could correct malformed suggestions, so they are
    /// left out, and the offer says why.
    pub(super) fn offer_server_step_options(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        output: &Value,
        split_output: Option<&SplitOutput>,
    ) -> DecideResult<()> {
        if visit_id.body != BodyKind::Work {
            return Ok(());
        }
        let mut offered = OfferedOptions::default();
        let suggestions = match split_output.map(|taken| &taken.suggestions) {
            None => None,
            Some(Ok(suggestions)) => Some(suggestions.clone()),
            Some(Err(violations)) => {
                let first = violations.first();
                let why =
                    first.map(|violation| format!("{}: {}", violation.path, violation.message));
                let why = why.unwrap_or_default();
                offered.add_omission_note(&format!("what '{}' suggests: {why}", visit_id.step()));
                None
            }
        };
        self.offer_collected_options(offered, position, visit_id, output, suggestions)
    }

    /// Offers the options of a step with this output: its matching branches and its suggestions.
    pub(super) fn offer_options(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        output: &Value,
        suggestions: Option<Vec<SuggestedCall>>,
    ) -> DecideResult<()> {
        let offered = OfferedOptions::default();
        self.offer_collected_options(offered, position, visit_id, output, suggestions)
    }

    fn offer_collected_options(
        &mut self,
        mut offered: OfferedOptions,
        position: usize,
        visit_id: &VisitId,
        output: &Value,
        suggestions: Option<Vec<SuggestedCall>>,
    ) -> DecideResult<()> {
        let step = self.step(position);
        let has_no_options =
            step.branches.is_empty() && suggestions.is_none() && offered.is_empty();
        if has_no_options && self.execution.offers.is_empty() {
            return Ok(());
        }
        let compiled = &self.context.definition.compiled_step(position).branches;
        for (branch, compiled) in step.branches.iter().zip(compiled) {
            if compiled.pattern.matches(output) {
                let scope =
                    VisitScope { own_output: Some(output), ..VisitScope::for_visit(visit_id) };
                let parameters = self.render_template(&compiled.parameters, &scope);
                add_branch_option(&mut offered, &step.id, branch, parameters)?;
            }
        }
        for suggestion in suggestions.unwrap_or_default() {
            let option = build_suggested_option(&step.id, offered.options.len(), suggestion);
            let what = format!("the suggestion of {}", option.tool_name);
            offered.add_option(option, &what);
        }
        if offered.is_empty() {
            self.withdraw_offers(vec![step.id.clone()]);
            return Ok(());
        }
        let (max_bytes, what) = (limits::INPUTS_BYTES_MAX, "list of options");
        let options = self.store_value_by_digest(json!(offered), max_bytes, what)?;
        let visit_id = visit_id.clone();
        self.push_event(Event::OptionsOffered { visit_id, options });
        Ok(())
    }

    /// Withdraws the offers that this turn follows, because its step is done.
    pub(super) fn withdraw_followed_offers(&mut self, turn: &OpenTurn<'_>) {
        let followed_offers =
            self.execution.offers.iter().filter(|offer| self.follows_offer(offer, turn));
        let followed_steps: Vec<_> =
            followed_offers.map(|offer| offer.visit_id.step().clone()).collect();
        self.withdraw_offers(followed_steps);
    }

    /// Withdraws the offers of steps that are pending again.
    pub(super) fn withdraw_offers_of_pending_steps(&mut self) {
        let steps = self.execution.steps.iter();
        let pending = steps.filter(|step| step.status == StepStatus::Pending);
        let pending: Vec<_> = pending.map(|step| step.id.clone()).collect();
        self.withdraw_offers(pending);
    }

    fn withdraw_offers(&mut self, mut steps: Vec<StepId>) {
        let offers = &self.execution.offers;
        steps.retain(|step| offers.iter().any(|offer| offer.visit_id.step() == step));
        if !steps.is_empty() {
            self.push_event(Event::OptionsWithdrawn { steps });
        }
    }

    /// Whether a turn follows an offer: it was opened in the same transition, or later at a step that control can reach
    /// from the offering step.
    pub(super) fn follows_offer(&self, offer: &Offer, turn: &OpenTurn<'_>) -> bool {
        let opened = turn.visit.opened_revision;
        opened == offer.revision || opened > offer.revision && self.can_reach(offer, turn.position)
    }

    /// Whether control can reach the step at `position` from the step that made the offer.
    fn can_reach(&self, offer: &Offer, position: usize) -> bool {
        let definition = self.context.definition;
        let from = definition.graph().step_position(offer.visit_id.step());
        from.is_some_and(|from| definition.is_reachable(from, position))
    }
}

/// The id of the next option of a step.
fn build_option_id(step: &StepId, option_count: usize) -> String {
    format!("{step}.{}", option_count + 1)
}

/// Adds a matching branch as an option. A branch whose parameters cannot be evaluated is left out with a note, so that
/// the output of the step is not lost.
fn add_branch_option(
    offered: &mut OfferedOptions,
    step: &StepId,
    branch: &BranchOffer,
    parameters: DecideResult<Value>,
) -> DecideResult<()> {
    let what = format!("branch `{}` of '{step}'", branch.pattern);
    let parameters = match parameters {
        Ok(Value::Object(parameters)) => parameters,
        Ok(_) => serde_json::Map::new(),
        Err(Interrupt::Failed(failure)) => {
            offered.add_omission_note(&format!("{what}: {}", failure.message));
            return Ok(());
        }
        Err(interrupt) => return Err(interrupt),
    };
    let option = StepOption {
        id: build_option_id(step, offered.options.len()),
        tool_name: branch.tool_name.clone(),
        parameters,
        priority: STEP_OPTION_PRIORITY,
        condition: None,
        pattern: Some(branch.pattern.clone()),
        from: OptionSource::Step,
        continue_workflow: branch.continue_workflow,
    };
    offered.add_option(option, &what);
    Ok(())
}

fn build_suggested_option(
    step: &StepId,
    option_count: usize,
    suggestion: SuggestedCall,
) -> StepOption {
    StepOption {
        id: build_option_id(step, option_count),
        tool_name: suggestion.tool_name,
        parameters: suggestion.parameters,
        priority: suggestion.priority,
        condition: suggestion.condition,
        pattern: None,
        from: OptionSource::Suggestion,
        continue_workflow: true,
    }
}
