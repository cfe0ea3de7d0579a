//! Who has to act next in an execution, without regard to its children.

use super::{Execution, StepState, Visit, WaitCondition, time::find_step_of_visit};
use crate::{
    definition::{Definition, InputChannel, Step, StepKind},
    input::Inputs,
};

/// The party that has to act next. If several can act, the first of these variants is named: a model that waits for
/// nobody before a person, and a person before work that goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextActor {
    /// A model: a step with a token is open.
    Model,
    /// A person: a gate is open, or a step whose questions a form can show.
    Person,
    /// The server: an operation, a timer, a retry or a child.
    Server,
    /// Somebody else: a signal, a catalog, a resume or the resolution of an unknown outcome is missing.
    Outside,
}

impl Execution {
    /// Who has to act next. `None` if the execution has ended, or waits for nothing but its children.
    pub fn next_actor(&self, definition: &Definition) -> Option<NextActor> {
        if self.has_ended() {
            return None;
        }
        if self.is_held_by_pause() {
            return Some(NextActor::Outside);
        }
        let visits = self.open_visits();
        visits
            .filter_map(|(at, step, visit)| find_actor_of_visit(definition, at, step, visit))
            .min()
    }

    /// True for a pause that the scheduler did not enter by itself: nothing in the execution can move it.
    pub fn is_held_by_pause(&self) -> bool {
        self.pauses.iter().any(|reason| !reason.is_set_by_scheduler())
    }

    /// Whether a step was ever open for a model. Once true, it stays true.
    pub fn was_model_asked(&self, definition: &Definition) -> bool {
        let steps = self.steps.iter().chain(&self.whole).enumerate();
        let mut visits = steps.flat_map(|(at, step)| {
            let visits = step.visits.iter().chain(&step.hook_visits).map(|visit| &**visit);
            visits.chain(step.items.iter()).map(move |visit| (at, &**step, visit))
        });
        // The items of earlier visits are not kept, but the calls that ended them are.
        let has_past_calls = self.steps.iter().any(|step| !step.past.is_empty());
        has_past_calls
            || visits.any(|(at, step, visit)| {
                visit.had_token()
                    && find_step_of_visit(definition, at, step, visit)
                        .is_some_and(|step| is_model_step(definition, step))
            })
    }
}

fn find_actor_of_visit(
    definition: &Definition,
    at: usize,
    step: &StepState,
    visit: &Visit,
) -> Option<NextActor> {
    Some(match visit.awaiting.as_ref()? {
        WaitCondition::Items { .. } | WaitCondition::Child { .. } => return None,
        WaitCondition::Model(_) => match find_step_of_visit(definition, at, step, visit) {
            Some(step) if !is_model_step(definition, step) => NextActor::Person,
            _ => NextActor::Model,
        },
        WaitCondition::Gate { .. } => NextActor::Person,
        WaitCondition::Operation { .. }
        | WaitCondition::Timer { .. }
        | WaitCondition::Retry { .. } => NextActor::Server,
        WaitCondition::Signal { .. }
        | WaitCondition::LiveSignal { .. }
        | WaitCondition::Unknown
        | WaitCondition::Deferred(_)
        | WaitCondition::OutputInvalid(_)
        | WaitCondition::Catalog { .. } => NextActor::Outside,
    })
}

/// Whether a model does the step. The questions of an `input` step are for the user, unless its author wants the model to
/// ask them or a form cannot show them.
fn is_model_step(definition: &Definition, step: &Step) -> bool {
    match &step.kind {
        StepKind::Agent { .. }
        | StepKind::Guidance { .. }
        | StepKind::Tool { .. }
        | StepKind::Extract { .. } => true,
        StepKind::Input { properties, via, .. } => {
            let inputs = definition.workflow.inputs.iter().flat_map(Inputs::iter);
            let mut requested = inputs.filter(|input| properties.contains(&input.key.to_string()));
            *via == InputChannel::Guidance || requested.any(|input| !input.fits_form())
        }
        _ => false,
    }
}
