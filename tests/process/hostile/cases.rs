//! What a repository's workflows do before and after their user trusts it.

use std::time::Duration;

use midex_domain::{
    ExecutionId,
    error::{Code, Error},
};
use midex_server::app::App;

use super::{CANARY, World};
use midex_test::{Shows, table};

/// What becomes of a start while the project is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It is refused.
    Refused,
    /// It begins, and what it names is refused: the execution fails.
    Fails,
    /// It begins.
    Begins,
    /// There is no such workflow.
    Unknown,
}
use Start::{Begins, Fails, Refused, Unknown};

/// The workflow of other files that calls a service, and one that begins it as a child.
const POST: &str =
    "{ workflow: post, description: d, steps: [{ id: a, run: 'shop orders:create' }] }";
const PARENT: &str = "{ workflow: parent, description: d, steps: [{ id: a, workflow: post }] }";

/// What becomes of a start, the workflow that is started, what is tried, and what the repository has, divided by ` + `: the keys
/// of that workflow, `post` or `parent`, `PATH = TEXT`, and a link as `PATH -> TARGET`.
const CASES: &str = r#"
    Refused | bug-fix | a shipped name is taken for calls with the user's catalog | steps: [{ id: a, run: 'shop orders:create' }]
    Refused | post | a call that changes something | post
    Refused | x | a call that deletes | steps: [{ id: a, run: 'shop orders:delete', with: { order: '1' } }]
    Refused | x | a safe call with a secret | steps: [{ id: a, run: 'shop orders:list', with: { q: '${{ secrets.PATH }}' } }]
    Refused | x | a safe call with a header of the file's own | steps: [{ id: a, run: 'shop orders:list', with: { X-Note: mine } }]
    Unknown | x | a call of a catalog that is not there yet | steps: [{ id: a, guidance: g }, { id: b, run: 'later orders:list' }]
    Refused | x | an item of a list | steps: [{ id: a, foreach: { in: ['1'], do: { run: 'shop orders:delete', with: { order: '${{ item }}' } } } }]
    Refused | x | a hook of a step | steps: [{ id: a, set: { b: 1 }, hooks: { on_success: { run: 'shop orders:create' } } }]
    Refused | x | a hook of the workflow | hooks: { on_complete: { run: 'shop orders:create' } }, steps: [{ id: a, set: { b: 1 } }]
    Refused | x | a step that follows a failure | steps: [{ id: a, fail: { code: no, message: m } }], on_failure: [{ id: b, run: 'shop orders:create' }]
    Refused | x | a compensation | steps: [{ id: a, set: { b: 1 }, compensate: { run: 'shop orders:create' } }, { id: c, fail: { code: no, message: m } }]
    Fails | parent | a child | parent + post
    Fails | parent | a child that is retried | steps: [{ id: a, workflow: post, retry: { max_attempts: 3, backoff: 1s } }] + post
    Fails | top | a child of a child | steps: [{ id: a, workflow: parent }] + parent + post
    Fails | x | a hook that begins a child | steps: [{ id: a, set: { b: 1 }, hooks: { on_success: { workflow: post, required: true } } }] + post
    Refused | heir | an heir of a base that calls | extends: post + post
    Unknown | post | a directory that its own configuration would name | tools/x.yaml = POST
    Refused | x | tools that are exposed | expose: { tools: true }, steps: [{ id: a, run: 'shop orders:create' }]
    Begins | x | a workflow of a model alone | steps: [{ id: a, guidance: g }]
    Begins | x | a step that sets and one that waits | steps: [{ id: s, set: { b: 1 } }, { id: w, wait: { for: 1h } }]
    Begins | x | guidance that only speaks of secrets | steps: [{ id: a, guidance: 'never show secrets' }]
    Begins | code-review | a persona of the repository | agents/reviewer.md = ---\nname: reviewer\ndescription: d\n---\nMine.\n
    Unknown | token | workflows that are a link to elsewhere | workflows -> OUTSIDE
    Unknown | hosts | agents that are a link to elsewhere | agents -> OUTSIDE
    Unknown | shop | a link back into the user's home | workflows -> ../home/.config/midex/catalogs/shop
    Unknown | token | a file that is a link to elsewhere | workflows/token.yaml -> OUTSIDE/token.yaml
    Unknown | <ESC>[31mx | a name with the escapes of a terminal | workflows/<ESC>[31mx.yaml = workflow: "\e[31mx"\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n
"#;

/// The repository of a case.
fn world(workflow: &str, repository: &str) -> World {
    let (mut files, mut links) = (Vec::new(), Vec::new());
    for part in repository.split(" + ") {
        if let Some((path, target)) = part.split_once(" -> ") {
            links.push((path, target));
        } else if let Some((path, text)) = part.split_once(" = ") {
            files.push((path.to_owned(), text.replace("POST", POST)));
        } else {
            let (name, text) = match part {
                "post" => (part, POST.to_owned()),
                "parent" => (part, PARENT.to_owned()),
                keys => (workflow, format!("{{ workflow: {workflow}, description: d, {keys} }}")),
            };
            files.push((format!("workflows/{name}.yaml"), text));
        }
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    World::new(&files, &links)
}

fn id() -> ExecutionId {
    ExecutionId::parse("e").expect("an id")
}

/// What became of a start, and all that was said.
async fn started(app: &App, workflow: &str) -> (Start, String, Option<Error>) {
    match app.start(workflow, Some(id()), None, None).await {
        Err(error) => {
            let is_refused = error.code() == Code::ProjectNotTrusted;
            let start = if is_refused { Refused } else { Unknown };
            (start, format!("{error:?}"), Some(error))
        }
        Ok(reply) => {
            let said = format!("{reply:?}");
            let mut status = app.status(&id()).await.expect("a status");
            // Children are begun by a task of their own.
            while status.state == "running"
                && status.waits.iter().any(|wait| wait.waits_for == "child")
            {
                let since = Some(status.revision);
                let longest = Duration::from_secs(20);
                (status, _) = app.wait(&id(), since, longest).await.expect("a move");
            }
            let said = format!("{said}{status:?}");
            let has_failed = status.state == "failed";
            let start = if has_failed { Fails } else { Begins };
            (start, said, None)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_repository_brings_does_nothing_outside_until_it_is_trusted() {
    let mut wrong = Vec::new();
    for row in table(CASES) {
        let [expected, workflow, what, repository] =
            row.map(|cell| cell.replace("<ESC>", "\u{1b}"));
        let world = world(&workflow, &repository);
        let before = world.outside();
        let app = world.app();
        // Its user may look at all of it.
        let listed = app.registry().await.expect("a registry");
        let workflows: Vec<_> = listed.all_workflows().collect();
        let agents: Vec<_> = listed.agents().collect();
        let mut said = format!("{workflows:?}{agents:?}");
        let (start, reply, error) = started(&app, &workflow).await;
        said += &reply;
        app.stop().await.expect("an end");
        if format!("{start:?}") != expected {
            wrong.push(format!("{what}: {start:?} instead of {expected}: {reply}"));
        }
        if let Some(error) = error.filter(|error| error.code() == Code::ProjectNotTrusted) {
            let command = format!("midex trust {}", world.path("repo").display());
            error.suggested_action().shows(&command);
        }
        if start == Fails {
            assert!(said.contains("PROJECT_NOT_TRUSTED"), "{what}: {said}");
        }
        assert_eq!(world.calls(), 0, "{what}");
        assert!(world.outside() == before, "{what}: a file outside has changed");
        assert!(!said.contains(CANARY), "{what}: {said}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_repository_calls_and_a_trust_that_is_taken_back_ends() {
    let world =
        World::new(&[("workflows/post.yaml", POST), ("workflows/parent.yaml", PARENT)], &[]);
    let app = world.app();
    let trust = world.config().trust;
    assert_eq!(started(&app, "post").await.0, Refused);
    // A parent, a sibling and a directory below are other projects.
    for other in ["", "outside", "repo/workflows"] {
        trust.set_trusted(&world.path(other), true).expect("a directory");
        assert_eq!(started(&app, "post").await.0, Refused, "{other}");
        assert!(trust.set_trusted(&world.path(other), false).expect("a list"));
    }
    trust.set_trusted(&world.path("repo"), true).expect("a directory");
    let begun = app.start("parent", Some(id()), None, None).await;
    begun.expect("a start");
    let mut status = app.status(&id()).await.expect("a status");
    while status.state == "running" {
        let longest = Duration::from_secs(20);
        let moved = app.wait(&id(), Some(status.revision), longest).await;
        (status, _) = moved.expect("a move");
    }
    assert_eq!((status.state.as_str(), world.calls()), ("completed", 1));
    assert!(trust.set_trusted(&world.path("repo"), false).expect("a list"));
    assert_eq!(started(&app, "post").await.0, Refused);
    app.stop().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_effects_a_refusal_names_some_and_counts_the_others() {
    let most = midex_domain::limits::EFFECTS_SHOWN_MAX;
    for (count, rest) in [(most, None), (most + 1, Some("and 1 more"))] {
        let steps =
            (0..count).map(|n| format!("  - {{ id: s{n}, run: 'shop parts{n}:create' }}\n"));
        let text = format!("workflow: x\ndescription: d\nsteps:\n{}", steps.collect::<String>());
        let world = World::new(&[("workflows/x.yaml", &text)], &[]);
        let app = world.app();
        let (start, said, error) = started(&app, "x").await;
        assert_eq!(start, Refused, "{said}");
        let message = error.expect("a refusal").message().to_owned();
        assert_eq!(message.matches("calls `").count(), most, "{message}");
        assert_eq!(message.contains(" more"), rest.is_some(), "{message}");
        assert!(rest.is_none_or(|rest| message.contains(rest)), "{message}");
        app.stop().await.expect("an end");
    }
}
