//! Middleware: code of the program around every run of an activity.

use std::{fmt, sync::Arc};

use super::{Activity, BoxFuture, Context, Outcome};

/// Code around every run of an activity. It runs in the attempt, never in the actor of the execution: it may refuse the
/// run, change the input or the outcome, or measure. The time limit of the step includes it, and a panic is a failure of
/// the attempt.
pub trait Middleware: Send + Sync + fmt::Debug {
    /// Runs the attempt, or fails it. `next.run(context)` is the rest: the middleware after this one, and the activity.
    ///
    /// # Errors
    /// As [`Activity::run`].
    fn run<'a>(&'a self, context: Context, next: NextRun<'a>) -> BoxFuture<'a, Outcome>;
}

/// The rest of a run: the middleware after the present one, and the activity. It can be run once.
pub struct NextRun<'a> {
    remaining: &'a [Arc<dyn Middleware>],
    activity: &'a dyn Activity,
}

impl fmt::Debug for NextRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextRun")
            .field("remaining", &self.remaining)
            .field("activity", &self.activity.name())
            .finish()
    }
}

impl<'a> NextRun<'a> {
    pub(crate) fn new(remaining: &'a [Arc<dyn Middleware>], activity: &'a dyn Activity) -> Self {
        Self { remaining, activity }
    }

    /// The name of the activity.
    pub fn activity_name(&self) -> &'a str {
        self.activity.name()
    }

    /// Runs the rest with this context.
    ///
    /// # Errors
    /// As [`Activity::run`].
    pub fn run(self, context: Context) -> BoxFuture<'a, Outcome> {
        match self.remaining.split_first() {
            Some((first, remaining)) => first.run(context, Self { remaining, ..self }),
            None => self.activity.run(context),
        }
    }
}
