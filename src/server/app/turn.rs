//! What has to happen next in an execution: the one question that runs, tasks and everything else that leads an execution
//! to its end asks again and again.

use std::time::Duration;

use super::{App, question::UserQuestion};
use midex_domain::{
    ExecutionId,
    error::Result,
    execution::NextActor,
    view::{CurrentStep, StatusView},
};
use midex_engine::{LastTransition, Listener, TurnState};

/// What has to happen next. A wait of a child is one of its parent.
#[derive(Clone, Debug)]
pub enum Turn {
    /// Nothing: the execution has ended.
    Ended,
    /// A model has to do this step, which may be that of a child.
    Model(Box<CurrentStep>),
    /// A person has to answer these questions.
    Person {
        /// Every open question.
        questions: Vec<UserQuestion>,
        /// The step, which a model may answer with the user's words if the client cannot ask.
        step: Box<CurrentStep>,
    },
    /// The server works on it, or waits for a time.
    Server,
    /// Something outside has to happen. `message` and `waits` of the step say what, and name the call that does it.
    Outside(Box<CurrentStep>),
}

impl Turn {
    /// The open questions to the user: also those of an execution in which a model has to act first.
    pub fn list_questions(&self) -> Vec<UserQuestion> {
        match self {
            Self::Person { questions, .. } => questions.clone(),
            Self::Model(step) => UserQuestion::list_open(step),
            Self::Ended | Self::Server | Self::Outside(_) => Vec::new(),
        }
    }
}

/// The status of an execution, and what has to happen next in it.
#[derive(Clone, Debug)]
pub struct ExecutionTurn {
    /// The status, without its forks. Its `waits` contain those of the children in which somebody has to act.
    pub status: StatusView,
    /// What has to happen next.
    pub turn: Turn,
}

impl App {
    /// What has to happen next in an execution. While only the server works on it, waits for at most `timeout` and
    /// [`midex_domain::limits::WAIT_MAX`].
    ///
    /// # Errors
    /// As [`midex_engine::Engine::turn`].
    pub async fn turn(&self, id: &ExecutionId, timeout: Duration) -> Result<ExecutionTurn> {
        self.turn_after(id, timeout, None).await
    }

    /// Like [`App::turn`], after a call that made this transition.
    ///
    /// # Errors
    /// As [`App::turn`].
    pub async fn turn_after(
        &self,
        id: &ExecutionId,
        timeout: Duration,
        last: Option<&LastTransition>,
    ) -> Result<ExecutionTurn> {
        let engine = self.engine().await?;
        let TurnState { mut status, actor, steps } = engine.turn_after(id, timeout, last).await?;
        // A newer definition is not looked up, since no caller shows it.
        #[cfg(feature = "catalog")]
        {
            status = self.add_disabled_catalog_hints(status);
        }
        for step in steps.iter().filter(|step| step.execution_id != status.execution_id) {
            let waits = step.waits.iter().cloned();
            status.waits.extend(waits.map(|mut wait| {
                wait.execution_id = Some(step.execution_id.clone());
                wait
            }));
        }
        Ok(ExecutionTurn { status, turn: Turn::from_steps(actor, steps) })
    }

    /// Subscribes `listener` to the execution and to the children that it waits for.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::watch_turn`].
    pub async fn watch_turn(&self, id: &ExecutionId, listener: &Listener) -> Result<()> {
        self.engine().await?.watch_turn(id, listener).await
    }

    /// Whether a model was ever asked for a step of the execution or of a child: see
    /// [`midex_engine::Engine::was_model_asked`].
    ///
    /// # Errors
    /// As [`midex_engine::Engine::was_model_asked`].
    pub async fn was_model_asked(&self, id: &ExecutionId) -> Result<bool> {
        self.engine().await?.was_model_asked(id).await
    }
}

impl Turn {
    fn from_steps(actor: Option<NextActor>, steps: Vec<CurrentStep>) -> Self {
        let questions: Vec<_> = match actor {
            Some(NextActor::Person) => steps.iter().flat_map(UserQuestion::list_open).collect(),
            _ => Vec::new(),
        };
        let step = steps.into_iter().next().map(Box::new);
        match (actor, step) {
            (None, _) => Self::Ended,
            (Some(NextActor::Model), Some(step)) => Self::Model(step),
            // A model extracts the values from what the user said.
            (Some(NextActor::Person), Some(step)) if questions.is_empty() => Self::Model(step),
            (Some(NextActor::Person), Some(step)) => Self::Person { questions, step },
            (Some(NextActor::Outside), Some(step)) => Self::Outside(step),
            (Some(_), _) => Self::Server,
        }
    }
}
