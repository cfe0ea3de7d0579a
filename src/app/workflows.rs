//! The definitions that children of executions follow: those of the project that their root was started for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    catalog::BoxFuture, domain::Definition, engine::Workflows, error::Result, registry::Definitions,
};

/// The definitions of projects, as their callers have them.
#[derive(Debug)]
pub(super) struct OfProjects {
    /// Those of the process itself, for projects that nobody has called for yet.
    own: Arc<Definitions>,
    known: Mutex<BTreeMap<String, Arc<Definitions>>>,
}

impl OfProjects {
    pub(super) fn new(own: Arc<Definitions>) -> Self {
        Self {
            own,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Definitions>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of several windows of one project the one that came last counts.
    pub(super) fn set(&self, project: &str, definitions: Arc<Definitions>) {
        self.known().insert(project.to_owned(), definitions);
    }

    fn of(&self, project: Option<&str>) -> Arc<Definitions> {
        let known = project.and_then(|project| self.known().get(project).cloned());
        known.unwrap_or_else(|| self.own.clone())
    }
}

impl Workflows for OfProjects {
    fn find<'a>(
        &'a self,
        project: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let definitions = self.of(project);
        Box::pin(async move {
            let definition = definitions.find(name).await?;
            definitions.meets_requirements(&definition)?;
            Ok(definition)
        })
    }
}
