//! Following the disk: every change arrives by itself, whatever way it is made.

use midex_registry::LiveDefinitions;
use tokio::{sync::watch, time::timeout};

use super::*;
use midex_test::PATIENCE;

/// A project whose definitions are followed.
struct Followed {
    project: Project,
    definitions: LiveDefinitions,
    definitions_dir: PathBuf,
    changes: watch::Receiver<u64>,
    settled: usize,
}

impl Followed {
    async fn new(project: Project) -> Self {
        let path = project.0.path().to_owned();
        Self::at(project, &path).await
    }

    /// The project is reached by this path.
    async fn at(project: Project, path: &Path) -> Self {
        let definitions = LiveDefinitions::new(places_of(path));
        let changes = definitions.change_counter();
        definitions.start_watching();
        let mut followed =
            Self { project, definitions, definitions_dir: path.to_owned(), changes, settled: 0 };
        followed.settle().await;
        followed
    }

    /// Waits until nothing is left to be read by chance, so that what comes next must be noticed.
    async fn settle(&mut self) {
        self.settled += 1;
        let name = format!("settled-{}", self.settled);
        let text = format!("---\nname: {name}\ndescription: d\n---\nYou.\n");
        fs::create_dir_all(self.definitions_dir.join("agents")).unwrap();
        fs::write(self.definitions_dir.join(format!("agents/{name}.md")), text).unwrap();
        let settled = |registry: &Registry| registry.agent(&name).is_some();
        self.until("an agent to wait for", settled).await;
    }

    fn path(&self, path: &str) -> PathBuf {
        self.project.path(path)
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        self.project.write(path, text);
    }

    /// Waits until the background has loaded what is expected; nothing here asks for it.
    async fn until(&mut self, what: &str, holds: impl Fn(&Registry) -> bool) {
        while !holds(&self.definitions.last_loaded_registry()) {
            let change = timeout(PATIENCE, self.changes.changed()).await;
            assert!(change.is_ok(), "{what}: it was never noticed");
        }
    }

    /// Waits until the workflow `w` says this of itself.
    async fn until_w_is(&mut self, description: &str) {
        let holds = |registry: &Registry| described(registry).as_deref() == Some(description);
        self.until(description, holds).await;
    }

    async fn until_w_is_gone(&mut self) {
        let holds = |registry: &Registry| registry.workflow("w").is_none();
        self.until("w is gone", holds).await;
    }
}

fn described(registry: &Registry) -> Option<String> {
    let definition = registry.definition("w").ok()?;
    Some(definition.workflow.description.clone())
}

/// The workflow `w` that says this of itself.
fn w(description: &str) -> String {
    format!("---\nname: w\ndescription: {description}\nphases:\n{PHASE}---\n# Body\n")
}

fn persona(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\nYou.\n")
}

#[tokio::test]
async fn a_file_is_followed_from_its_making_to_its_end() {
    let mut followed = Followed::new(Project::new(&[])).await;
    let version = *followed.changes.borrow();
    followed.write("workflows/w.md", &w("made"));
    followed.until_w_is("made").await;
    assert!(*followed.changes.borrow() > version);
    followed.write("workflows/w.md", &w("changed"));
    followed.until_w_is("changed").await;
    followed.write("workflows/w.md", "# broken\n");
    let stale = |registry: &Registry| registry.workflow("w").unwrap().is_stale();
    followed.until("w is stale", stale).await;
    assert_eq!(described(&followed.definitions.last_loaded_registry()).unwrap(), "changed");
    followed.write("workflows/w.md", &w("mended"));
    followed.until_w_is("mended").await;
    followed.rename("workflows/w.md", "workflows/x.md");
    let moved = |registry: &Registry| {
        let path = registry.workflow("w").and_then(|entry| entry.path.clone());
        path.is_some_and(|path| path.ends_with("x.md"))
    };
    followed.until("its file has another name", moved).await;
    fs::remove_file(followed.path("workflows/x.md")).unwrap();
    followed.until_w_is_gone().await;
    followed.write("agents/mine.md", &persona("mine"));
    let agent = |registry: &Registry| registry.agent("mine").is_some();
    followed.until("an agent", agent).await;
}

/// As editors do: the new text beside the file, then over it; and the old one aside first.
#[tokio::test]
async fn a_file_may_be_replaced_by_a_rename() {
    let project = Project::new(&[("workflows/w.md", &w("old"))]);
    let mut followed = Followed::new(project).await;
    for description in ["one", "two", "three"] {
        followed.write("workflows/.w.md.tmp", &w(description));
        followed.rename("workflows/.w.md.tmp", "workflows/w.md");
        followed.until_w_is(description).await;
    }
    for description in ["four", "five"] {
        followed.rename("workflows/w.md", "workflows/w.md~");
        followed.write("workflows/w.md", &w(description));
        followed.until_w_is(description).await;
    }
    // From outside the directory, where nobody looks.
    followed.write("elsewhere/w.md", &w("six"));
    followed.rename("elsewhere/w.md", "workflows/w.md");
    followed.until_w_is("six").await;
}

#[tokio::test]
async fn a_directory_may_be_made_after_the_start() {
    let project = Project::new(&[]);
    fs::remove_dir(project.path("workflows")).unwrap();
    let mut followed = Followed::new(project).await;
    assert_eq!(followed.definitions.last_loaded_registry().sources().workflows, []);
    followed.write("workflows/w.md", &w("made"));
    followed.until_w_is("made").await;
    followed.write("workflows/w.md", &w("changed"));
    followed.until_w_is("changed").await;
    // One below it, one below that, and a file in it later on.
    fs::remove_file(followed.path("workflows/w.md")).unwrap();
    followed.until_w_is_gone().await;
    followed.settle().await;
    followed.write("workflows/deep/er/w.md", &w("deep"));
    followed.until_w_is("deep").await;
    followed.write("workflows/deep/er/w.md", &w("deeper"));
    followed.until_w_is("deeper").await;
}

#[tokio::test]
async fn a_directory_may_go_and_come_back() {
    let project = Project::new(&[("workflows/w.md", &w("old"))]);
    let mut followed = Followed::new(project).await;
    for round in ["one", "two", "three"] {
        fs::remove_dir_all(followed.path("workflows")).unwrap();
        followed.until_w_is_gone().await;
        followed.settle().await;
        followed.write("workflows/w.md", &w(round));
        followed.until_w_is(round).await;
        // At once: the watch of the old directory must not pass for one of the new.
        fs::remove_dir_all(followed.path("workflows")).unwrap();
        followed.write("workflows/w.md", &w(&format!("{round} at once")));
        followed.until_w_is(&format!("{round} at once")).await;
        followed.write("workflows/w.md", &w(&format!("{round} again")));
        followed.until_w_is(&format!("{round} again")).await;
    }
}

#[tokio::test]
async fn a_directory_may_be_renamed() {
    let project = Project::new(&[("workflows/a/w.md", &w("old"))]);
    let mut followed = Followed::new(project).await;
    followed.rename("workflows/a", "workflows/b");
    let moved = |registry: &Registry| {
        let path = registry.workflow("w").and_then(|entry| entry.path.clone());
        path.is_some_and(|path| path.ends_with("b/w.md"))
    };
    followed.until("it lies in the other", moved).await;
    followed.write("workflows/b/w.md", &w("in b"));
    followed.until_w_is("in b").await;
    followed.rename("workflows", "kept");
    followed.until_w_is_gone().await;
    followed.settle().await;
    followed.write("kept/b/w.md", &w("kept"));
    followed.rename("kept", "workflows");
    followed.until_w_is("kept").await;
    followed.write("workflows/b/w.md", &w("back"));
    followed.until_w_is("back").await;
}

#[tokio::test]
async fn the_project_itself_may_go_and_come_back() {
    let home = Project::new(&[]);
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("deep/project");
    fs::create_dir_all(&path).unwrap();
    let mut followed = Followed::at(home, &path).await;
    for round in ["one", "two"] {
        fs::create_dir_all(path.join("workflows")).unwrap();
        fs::write(path.join("workflows/w.md"), w(round)).unwrap();
        followed.until_w_is(round).await;
        fs::remove_dir_all(outer.path().join("deep")).unwrap();
        followed.until_w_is_gone().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_may_be_a_link() {
    use std::os::unix::fs::symlink;
    let project = Project::new(&[("one/w.md", &w("one")), ("two/w.md", &w("two"))]);
    fs::remove_dir(project.path("workflows")).unwrap();
    symlink("one", project.path("workflows")).unwrap();
    let mut followed = Followed::new(project).await;
    followed.until_w_is("one").await;
    followed.write("one/w.md", &w("one changed"));
    followed.until_w_is("one changed").await;
    // The link leads elsewhere, from one moment to the next.
    symlink("two", followed.path("next")).unwrap();
    followed.rename("next", "workflows");
    followed.until_w_is("two").await;
    followed.write("two/w.md", &w("two changed"));
    followed.until_w_is("two changed").await;
    // What it leads to goes and comes back.
    fs::remove_dir_all(followed.path("two")).unwrap();
    followed.until_w_is_gone().await;
    followed.settle().await;
    followed.write("two/w.md", &w("two again"));
    followed.until_w_is("two again").await;
}

/// As a release is switched: a link above the directory.
#[cfg(unix)]
#[tokio::test]
async fn the_way_to_a_directory_may_hold_a_link() {
    use std::os::unix::fs::symlink;
    let project =
        Project::new(&[("one/workflows/w.md", &w("one")), ("two/workflows/w.md", &w("two"))]);
    symlink("one", project.path("current")).unwrap();
    let path = project.path("current");
    let mut followed = Followed::at(project, &path).await;
    followed.until_w_is("one").await;
    followed.settle().await;
    symlink("two", followed.path("next")).unwrap();
    followed.rename("next", "current");
    followed.until_w_is("two").await;
    followed.write("two/workflows/w.md", &w("two changed"));
    followed.until_w_is("two changed").await;
}

/// A link to a file that is not read under its own name.
#[cfg(unix)]
#[tokio::test]
async fn what_a_link_leads_to_is_followed() {
    use std::os::unix::fs::symlink;
    let project = Project::new(&[("workflows/_kept/w.md", &w("old"))]);
    symlink("_kept/w.md", project.path("workflows/w.md")).unwrap();
    let mut followed = Followed::new(project).await;
    followed.until_w_is("old").await;
    followed.write("workflows/_kept/w.md", &w("new"));
    followed.until_w_is("new").await;
}

#[tokio::test]
async fn a_flood_of_changes_ends_in_the_right_state() {
    let project = Project::new(&[("workflows/w.md", &w("old"))]);
    let mut followed = Followed::new(project).await;
    let before = *followed.changes.borrow();
    for number in 0..1000 {
        followed.write("workflows/w.md", &w(&format!("number {number}")));
        followed.write(
            &format!("workflows/d{}/x{number}.md", number % 10),
            &w("x").replace("name: w", &format!("name: x{number}")),
        );
    }
    followed.until_w_is("number 999").await;
    let all = |registry: &Registry| {
        let own: Vec<_> = registry.workflows().filter(|entry| entry.path.is_some()).collect();
        own.len() == 1001 && own.iter().all(|entry| entry.findings.is_empty())
    };
    followed.until("all thousand and one are there", all).await;
    let loads = *followed.changes.borrow() - before;
    assert!(loads < 500, "{loads} loads for 2,000 writes");
    followed.write("workflows/w.md", &w("after the flood"));
    followed.until_w_is("after the flood").await;
}
