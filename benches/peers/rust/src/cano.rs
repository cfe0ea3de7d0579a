//! cano with its checkpoints in redb. A checkpoint says which step is next; what steps came to is not kept.

use std::{path::Path, sync::Arc};

use cano::{RedbCheckpointStore, prelude::*};

use super::{Result, STEPS};

/// The next step, by its number; the workflow ends behind the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stage(u32);

struct Work {
    at: u32,
}

#[task(state = Stage)]
impl Work {
    async fn run_bare(&self) -> std::result::Result<TaskResult<Stage>, CanoError> {
        std::hint::black_box(super::work(self.at));
        Ok(TaskResult::Single(Stage(self.at + 1)))
    }
}

pub(crate) struct Cano(Workflow<Stage>);

impl Cano {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let store = RedbCheckpointStore::new(directory.join("cano.redb"))?;
        let steps = (0..STEPS).fold(Workflow::bare(), |workflow, at| {
            workflow.register(Stage(at), Work { at })
        });
        let workflow = steps.add_exit_state(Stage(STEPS));
        Ok(Self(workflow.with_checkpoint_store(Arc::new(store))))
    }
}

impl super::Engine for Cano {
    async fn run(&self, name: String) -> Result<()> {
        let workflow = self.0.clone().with_workflow_id(name);
        let cancellation = CancellationToken::disabled();
        match workflow.orchestrate(Stage(0), cancellation).await? {
            Stage(STEPS) => Ok(()),
            other => Err(format!("it ended at {other:?}").into()),
        }
    }
}
