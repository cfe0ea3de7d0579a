//! The options that clients choose. A choice is recorded, and changes the execution only if the option leaves the
//! workflow.

use serde_json::json;

use super::{
    Decision, Event, Execution, Outcome, State, ValueReference, VisitId,
    decision::{DecideResult, Interrupt},
    judge::OpenTurn,
    transition::TransitionBuilder,
};
use crate::{
    error::{Code, Error, Violation},
    event::OptionChosen,
    failure::truncate_to_bytes,
    limits,
    offer::{CONTINUE_TOOL, OfferedOptions, StepOption},
};

/// An offered option that a client chose.
pub(super) struct TakenOption {
    offered_by: Option<VisitId>,
    option: StepOption,
}

impl TakenOption {
    /// Whether choosing it ends the execution as diverged.
    pub(super) const fn leaves_workflow(&self) -> bool {
        !self.option.continue_workflow
    }
}

impl Execution {
    /// Finds the offered option that a client names, by its id or by a tool name that no other option has.
    pub(super) fn find_chosen_option(
        &self,
        builder: &TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        choice: Option<&str>,
    ) -> DecideResult<Option<TakenOption>> {
        let Some(choice) = choice else {
            return Ok(None);
        };
        let mut options = builder.load_offered_options()?;
        let latest_offer = self.offers.iter().rfind(|offer| builder.follows_offer(offer, turn));
        options.push(TakenOption {
            offered_by: latest_offer.map(|offer| offer.visit_id.clone()),
            option: StepOption::new_continue_option(""),
        });
        if let Some(at) = options.iter().position(|known| known.option.id == choice) {
            return Ok(Some(options.swap_remove(at)));
        }
        let mut named = options.iter().enumerate();
        let mut named = named.by_ref().filter(|(_, known)| has_tool_name(&known.option, choice));
        match (named.next().map(|(at, _)| at), named.next().is_some()) {
            (Some(at), false) => Ok(Some(options.swap_remove(at))),
            (_, is_ambiguous) => {
                Err(self.unknown_choice_error(turn, choice, &options, is_ambiguous).into())
            }
        }
    }

    fn unknown_choice_error(
        &self,
        turn: &OpenTurn<'_>,
        choice: &str,
        all: &[TakenOption],
        is_ambiguous: bool,
    ) -> Error {
        let choice = truncate_to_bytes(choice, limits::WORD_BYTES_MAX);
        let shown = all.iter().take(limits::CHOICES_LISTED_MAX);
        let listed: Vec<_> = shown
            .clone()
            .map(|known| format!("`{}` (tool {})", known.option.id, known.option.tool_name))
            .collect();
        let listed = listed.join(", ");
        let message = if is_ambiguous {
            format!(
                "several options have the tool `{choice}`: name one by its id; offered are {listed}"
            )
        } else {
            format!("`{choice}` is not among what was offered: {listed}")
        };
        let choices =
            shown.map(|known| json!({ "id": known.option.id, "toolName": known.option.tool_name }));
        let choices: Vec<_> = choices.collect();
        self.step_error(Code::ChoiceUnknown, &turn.step.id, message)
            .with_context("choices", choices)
    }

    /// Handles a choice without a report, which is allowed only if it leaves the workflow.
    pub(super) fn leave_workflow(
        &self,
        mut builder: TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        chosen_option: Option<&TakenOption>,
    ) -> DecideResult<Decision> {
        if !chosen_option.is_some_and(TakenOption::leaves_workflow) {
            let message = "either `output` or `error` is required: only a choice that leaves the workflow \
                           (continueWorkflow false) stands alone";
            let error = self.step_error(Code::ArgumentsInvalid, &turn.step.id, message);
            let error = error.with_context("tool", CONTINUE_TOOL);
            let violation = Violation::new("/output", "required", message);
            return Err(error.with_violations(vec![violation]).into());
        }
        builder.record_chosen_option(turn, chosen_option);
        let consumed = Some(turn.consumed);
        builder.close_visit(&turn.visit_id(), turn.visit, Outcome::Voided, consumed);
        builder.finish_after_choice(chosen_option)
    }
}

/// Whether `choice` names the tool of this option. Clients that allow no dots in tool names know `workflow.next_step`
/// with an underscore.
fn has_tool_name(option: &StepOption, choice: &str) -> bool {
    let tool = option.tool_name.as_str();
    tool == choice || tool == CONTINUE_TOOL && choice == "workflow_next_step"
}

impl TransitionBuilder<'_> {
    /// Completes the transition. If the choice leaves the workflow, the execution ends as diverged, with the name of
    /// the tool as the reason.
    pub(super) fn finish_after_choice(
        mut self,
        chosen_option: Option<&TakenOption>,
    ) -> DecideResult<Decision> {
        if let Some(chosen) = chosen_option.filter(|chosen| chosen.leaves_workflow()) {
            self.abandon_or_diverge(State::Diverged)?;
            let text = chosen.option.tool_name.clone();
            self.push_event(Event::ReasonGiven { text });
        }
        Ok(self.into_decision(None))
    }

    /// All options that are offered now.
    fn load_offered_options(&self) -> DecideResult<Vec<TakenOption>> {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for offer in &self.execution.offers {
            match self.find_value(ValueReference::by_digest(offer.options)) {
                Ok(value) => {
                    all.extend(OfferedOptions::from_value(&value).options.into_iter().map(
                        |option| {
                            let offered_by = Some(offer.visit_id.clone());
                            TakenOption { offered_by, option }
                        },
                    ));
                }
                Err(need) => missing.push(need),
            }
        }
        if missing.is_empty() { Ok(all) } else { Err(Interrupt::MissingValues(missing)) }
    }

    /// Records the chosen option, together with everything that was offered.
    pub(super) fn record_chosen_option(
        &mut self,
        turn: &OpenTurn<'_>,
        chosen_option: Option<&TakenOption>,
    ) {
        let Some(TakenOption { offered_by, option }) = chosen_option else {
            return;
        };
        let earlier_offers = self.execution.offers.iter();
        // Offers of this transition did not exist when the client chose.
        let earlier_offers = earlier_offers.filter(|offer| offer.revision < self.row.revision);
        let offered = earlier_offers.map(|offer| offer.options).collect();
        self.push_event(Event::OptionChosen(Box::new(OptionChosen {
            visit_id: turn.visit_id(),
            offered_by: offered_by.clone(),
            option: option.id.clone(),
            pattern: option.pattern.clone(),
            tool_name: option.tool_name.clone(),
            offered,
        })));
    }
}
