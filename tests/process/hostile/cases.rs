//! What a repository's workflows do before and after their user trusts it.

use std::time::Duration;

use midex_domain::{
    ExecutionId,
    error::{Code, Error},
};
use midex_server::app::App;

use super::{CANARY, World};

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

/// A repository: its files and links, the workflow that is started, and what becomes of that.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    &'static str,
    Start,
);

const POST: &str =
    "workflow: post\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n";
const CHILD: &str = "workflow: parent\ndescription: d\nsteps:\n  - { id: a, workflow: post }\n";

const CASES: &[Case] = &[
    (
        "a shipped name is taken for calls with the user's catalog",
        &[(
            "workflows/bug-fix.yaml",
            "workflow: bug-fix\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n",
        )],
        &[],
        "bug-fix",
        Refused,
    ),
    (
        "a call that changes something",
        &[("workflows/post.yaml", POST)],
        &[],
        "post",
        Refused,
    ),
    (
        "a call that deletes",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:delete', with: { order: '1' } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a safe call with a secret",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:list', with: { q: '${{ secrets.PATH }}' } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a safe call with a header of the file's own",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:list', with: { X-Note: mine } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a call of a catalog that is not there yet",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, guidance: g }\n  - { id: b, run: 'later orders:list' }\n",
        )],
        &[],
        "x",
        Unknown,
    ),
    (
        "an item of a list",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - id: a\n    foreach: { in: ['1'], do: { run: 'shop orders:delete', with: { order: '${{ item }}' } } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a hook of a step",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - id: a\n    set: { b: 1 }\n    hooks: { on_success: { run: 'shop orders:create' } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a hook of the workflow",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nhooks: { on_complete: { run: 'shop orders:create' } }\nsteps:\n  - { id: a, set: { b: 1 } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a step that follows a failure",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, fail: { code: no, message: m } }\non_failure:\n  - { id: b, run: 'shop orders:create' }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a compensation",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - id: a\n    set: { b: 1 }\n    compensate: { run: 'shop orders:create' }\n  - { id: c, fail: { code: no, message: m } }\n",
        )],
        &[],
        "x",
        Refused,
    ),
    (
        "a child",
        &[
            ("workflows/parent.yaml", CHILD),
            ("workflows/post.yaml", POST),
        ],
        &[],
        "parent",
        Fails,
    ),
    (
        "a child that is retried",
        &[
            (
                "workflows/parent.yaml",
                "workflow: parent\ndescription: d\nsteps:\n  - { id: a, workflow: post, retry: { max_attempts: 3, backoff: 1s } }\n",
            ),
            ("workflows/post.yaml", POST),
        ],
        &[],
        "parent",
        Fails,
    ),
    (
        "a child of a child",
        &[
            (
                "workflows/top.yaml",
                "workflow: top\ndescription: d\nsteps:\n  - { id: a, workflow: parent }\n",
            ),
            ("workflows/parent.yaml", CHILD),
            ("workflows/post.yaml", POST),
        ],
        &[],
        "top",
        Fails,
    ),
    (
        "a hook that begins a child",
        &[
            (
                "workflows/x.yaml",
                "workflow: x\ndescription: d\nsteps:\n  - id: a\n    set: { b: 1 }\n    hooks: { on_success: { workflow: post, required: true } }\n",
            ),
            ("workflows/post.yaml", POST),
        ],
        &[],
        "x",
        Fails,
    ),
    (
        "an heir of a base that calls",
        &[
            ("workflows/post.yaml", POST),
            (
                "workflows/heir.yaml",
                "workflow: heir\ndescription: d\nextends: post\n",
            ),
        ],
        &[],
        "heir",
        Refused,
    ),
    (
        "a directory that its own configuration would name is none of the tests in this process",
        &[("tools/x.yaml", POST)],
        &[],
        "post",
        Unknown,
    ),
    (
        "tools that are exposed",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nexpose: { tools: true }\nsteps:\n  - { id: a, run: 'shop orders:create' }\n",
        )],
        &[],
        "x",
        Unknown,
    ),
    (
        "a workflow of a model alone",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, guidance: g }\n",
        )],
        &[],
        "x",
        Begins,
    ),
    (
        "a step that waits, one that branches and one that sets",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: s, set: { b: 1 } }\n  - { id: w, wait: { for: 1h } }\n",
        )],
        &[],
        "x",
        Begins,
    ),
    (
        "guidance that only speaks of secrets",
        &[(
            "workflows/x.yaml",
            "workflow: x\ndescription: d\nsteps:\n  - { id: a, guidance: 'never show secrets' }\n",
        )],
        &[],
        "x",
        Begins,
    ),
    (
        "a persona of the repository in a workflow of a model",
        &[(
            "agents/reviewer.md",
            "---\nname: reviewer\ndescription: d\n---\nMine.\n",
        )],
        &[],
        "code-review",
        Begins,
    ),
    (
        "workflows that are a link to elsewhere",
        &[],
        &[("workflows", "OUTSIDE")],
        "token",
        Unknown,
    ),
    (
        "agents that are a link to elsewhere",
        &[],
        &[("agents", "OUTSIDE")],
        "hosts",
        Unknown,
    ),
    (
        "a link back into the user's home",
        &[],
        &[("workflows", "../home/.config/midex/catalogs/shop")],
        "shop",
        Unknown,
    ),
    (
        "a file that is a link to elsewhere",
        &[],
        &[("workflows/token.yaml", "OUTSIDE/token.yaml")],
        "token",
        Unknown,
    ),
    (
        "a name with the escapes of a terminal",
        &[(
            "workflows/\u{1b}[31mx.yaml",
            "workflow: \"\\e[31mx\"\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n",
        )],
        &[],
        "\u{1b}[31mx",
        Unknown,
    ),
];

fn id() -> ExecutionId {
    ExecutionId::parse("e").expect("an id")
}

/// What became of a start, and all that was said.
async fn started(app: &App, workflow: &str) -> (Start, String, Option<Error>) {
    match app.start(workflow, Some(id()), None, None).await {
        Err(error) => {
            let start = if error.code() == Code::ProjectNotTrusted {
                Refused
            } else {
                Unknown
            };
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
            let start = if status.state == "failed" {
                Fails
            } else {
                Begins
            };
            (start, said, None)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_repository_brings_does_nothing_outside_until_it_is_trusted() {
    let mut wrong = Vec::new();
    for (what, files, links, workflow, expected) in CASES {
        let world = World::new(files, links);
        let before = world.outside();
        let app = world.app();
        // Its user may look at all of it.
        let listed = app.registry().await.expect("a registry");
        let workflows: Vec<_> = listed.all_workflows().collect();
        let agents: Vec<_> = listed.agents().collect();
        let mut said = format!("{workflows:?}{agents:?}");
        let (start, reply, error) = started(&app, workflow).await;
        said += &reply;
        app.stop().await.expect("an end");
        if start != *expected {
            wrong.push(format!(
                "{what}: {start:?} instead of {expected:?}: {reply}"
            ));
        }
        if let Some(error) = error.filter(|error| error.code() == Code::ProjectNotTrusted) {
            let command = format!("midex trust {}", world.path("repo").display());
            assert!(
                error.suggested_action().contains(&command),
                "{what}: {error:?}"
            );
        }
        if start == Fails {
            assert!(said.contains("PROJECT_NOT_TRUSTED"), "{what}: {said}");
        }
        assert_eq!(world.calls(), 0, "{what}");
        assert!(
            world.outside() == before,
            "{what}: a file outside has changed"
        );
        assert!(!said.contains(CANARY), "{what}: {said}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_repository_calls_and_a_trust_that_is_taken_back_ends() {
    let world = World::new(
        &[
            ("workflows/post.yaml", POST),
            ("workflows/parent.yaml", CHILD),
        ],
        &[],
    );
    let app = world.app();
    let trust = world.config().trust;
    assert_eq!(started(&app, "post").await.0, Refused);
    // A parent, a sibling and a directory below are other projects.
    for other in ["", "outside", "repo/workflows"] {
        trust.set(&world.path(other), true).expect("a directory");
        assert_eq!(started(&app, "post").await.0, Refused, "{other}");
        assert!(trust.set(&world.path(other), false).expect("a list"));
    }
    trust.set(&world.path("repo"), true).expect("a directory");
    let begun = app.start("parent", Some(id()), None, None).await;
    begun.expect("a start");
    let mut status = app.status(&id()).await.expect("a status");
    while status.state == "running" {
        let longest = Duration::from_secs(20);
        let moved = app.wait(&id(), Some(status.revision), longest).await;
        (status, _) = moved.expect("a move");
    }
    assert_eq!((status.state.as_str(), world.calls()), ("completed", 1));
    assert!(trust.set(&world.path("repo"), false).expect("a list"));
    assert_eq!(started(&app, "post").await.0, Refused);
    app.stop().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_effects_a_refusal_names_some_and_counts_the_others() {
    let most = midex_domain::limits::EFFECTS_SHOWN_MAX;
    for (count, rest) in [(most, None), (most + 1, Some("and 1 more"))] {
        let steps =
            (0..count).map(|n| format!("  - {{ id: s{n}, run: 'shop parts{n}:create' }}\n"));
        let text = format!(
            "workflow: x\ndescription: d\nsteps:\n{}",
            steps.collect::<String>()
        );
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
