//! The environment variables that executions may see: those that the program of their project allowed.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use midex_domain::limits;

/// Environment variables by name.
pub type EnvironmentVariables = BTreeMap<String, String>;

type EnvironmentsByProject = BTreeMap<String, Arc<EnvironmentVariables>>;

/// The environment variables that the executions of each project may see. Several programs share one engine, and none
/// sees variables that only another one allowed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Environments {
    default_environment: Arc<EnvironmentVariables>,
    by_project: Arc<RwLock<EnvironmentsByProject>>,
}

impl Environments {
    /// The variables for executions of projects without variables of their own.
    pub fn default_for_all_projects(environment: EnvironmentVariables) -> Self {
        Self { default_environment: Arc::new(environment), by_project: Arc::default() }
    }

    /// Sets the variables that the executions of `project` see from now on. An empty set changes nothing. If there are
    /// more than [`limits::ENVIRONMENTS_MAX`] projects, another one is forgotten.
    pub fn set(&self, project: &str, environment: Arc<EnvironmentVariables>) {
        insert_environment(&mut self.write(), project, environment);
    }

    /// Whether the executions of `project` see exactly these variables. If none were set for the project yet, sets
    /// them.
    pub fn claim_project(&self, project: &str, environment: &Arc<EnvironmentVariables>) -> bool {
        // One lock for both: of two callers that claim a project at once only one may set its variables.
        let mut all = self.write();
        if let Some(known) = all.get(project) {
            return known == environment;
        }
        insert_environment(&mut all, project, environment.clone());
        true
    }

    /// The variables that an execution of this project sees.
    pub fn environment_of_project(&self, project: Option<&str>) -> Arc<EnvironmentVariables> {
        let all = self.read();
        let project_environment = project.and_then(|project| all.get(project));
        project_environment.unwrap_or(&self.default_environment).clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, EnvironmentsByProject> {
        self.by_project.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, EnvironmentsByProject> {
        self.by_project.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert_environment(
    all: &mut EnvironmentsByProject,
    project: &str,
    environment: Arc<EnvironmentVariables>,
) {
    if environment.is_empty() {
        return;
    }
    all.insert(project.to_owned(), environment);
    if all.len() > limits::ENVIRONMENTS_MAX
        && let Some(evicted) = all.keys().find(|other| *other != project).cloned()
    {
        all.remove(&evicted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_variable(value: &str) -> EnvironmentVariables {
        EnvironmentVariables::from([("NAME".to_owned(), value.to_owned())])
    }

    #[test]
    fn a_project_sees_its_own_and_no_other_one() {
        let all = Environments::default_for_all_projects(one_variable("everywhere"));
        all.set("a", Arc::new(one_variable("a")));
        assert_eq!(*all.environment_of_project(Some("a")), one_variable("a"));
        assert_eq!(*all.environment_of_project(Some("b")), one_variable("everywhere"));
        assert_eq!(*all.environment_of_project(None), one_variable("everywhere"));
        // A second program of the same project, which allows no variables.
        all.set("a", Arc::default());
        assert_eq!(*all.environment_of_project(Some("a")), one_variable("a"));
    }

    #[test]
    fn a_project_is_claimed_once() {
        let all = Environments::default();
        assert!(all.claim_project("a", &Arc::new(one_variable("a"))));
        assert!(all.claim_project("a", &Arc::new(one_variable("a"))));
        assert!(!all.claim_project("a", &Arc::new(one_variable("b"))));
        assert_eq!(*all.environment_of_project(Some("a")), one_variable("a"));
    }

    #[test]
    fn beyond_the_limit_an_older_project_is_dropped() {
        let all = Environments::default();
        for number in 0..=limits::ENVIRONMENTS_MAX {
            all.set(&format!("{number:05}"), Arc::new(one_variable("x")));
        }
        let kept = (0..=limits::ENVIRONMENTS_MAX)
            .filter(|number| !all.environment_of_project(Some(&format!("{number:05}"))).is_empty());
        assert_eq!(kept.count(), limits::ENVIRONMENTS_MAX);
        let last = format!("{:05}", limits::ENVIRONMENTS_MAX);
        assert_eq!(*all.environment_of_project(Some(&last)), one_variable("x"));
    }
}
