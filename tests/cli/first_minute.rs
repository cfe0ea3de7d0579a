//! A new user's first minute, from an empty home: install, the host starts its server, the first workflow, a second window,
//! a context that is compacted, a server that is killed, and on.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use midex_test::{Client, Server, Shows, Words, client::offers};

/// A user with a host, midex installed in it, and two projects.
struct User(TempDir);

impl User {
    fn new() -> Self {
        let user = Self(tempfile::tempdir().unwrap());
        for project in ["one", "two"] {
            fs::create_dir_all(user.path(project).join(".git")).unwrap();
        }
        fs::create_dir(user.path("home")).unwrap();
        let installed = user.run("one", "install --client claude-code --with-hooks");
        installed.shows(".claude.json…settings.json");
        user
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    /// A program with this user's environment, started in a project.
    fn command(&self, program: &str, project: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path(project))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin");
        command
    }

    /// What a command of midex prints, which must succeed.
    fn run(&self, project: &str, args: impl Words) -> String {
        let mut command = self.command(midex_test::binary(), project);
        let args = args.words();
        let ran = command.args(&args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn json(&self, file: &str) -> Value {
        let text = fs::read_to_string(self.path("home").join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// A window of the host on a project: it starts the server that its configuration names.
    fn window(&self, project: &str) -> Server {
        let block = &self.json(".claude.json")["mcpServers"]["midex"];
        assert_eq!(block["type"], "stdio");
        let mut command = self.command(block["command"].as_str().unwrap(), project);
        let args = block["args"].as_array().unwrap();
        command.args(args.iter().map(|arg| arg.as_str().unwrap()));
        let mut server = Server::run(command);
        server.shake_hands();
        server
    }

    /// Runs the hooks of an event as the host does, by a shell: what the last of them answers.
    fn event(&self, project: &str, event: &str, told: &Value) -> Value {
        let groups = self.json(".claude/settings.json")["hooks"][event].take();
        let hook = &groups[0]["hooks"][0];
        assert_eq!((groups.as_array().unwrap().len(), &hook["type"]), (1, &json!("command")));
        let mut shell = self.command("/bin/sh", project);
        shell.args(["-c", hook["command"].as_str().unwrap()]);
        shell.env("CLAUDE_PROJECT_DIR", self.path(project));
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        serde_json::to_writer(shell.stdin.take().unwrap(), told).unwrap();
        let ran = shell.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        serde_json::from_slice(&ran.stdout).unwrap_or_default()
    }

    /// What a context gets that was compacted just now.
    fn compacted(&self, project: &str) -> String {
        let told = json!({
            "session_id": "s", "transcript_path": "/t", "cwd": self.path(project),
            "hook_event_name": "SessionStart", "source": "compact"
        });
        let answer = self.event(project, "SessionStart", &told);
        let context = answer["hookSpecificOutput"]["additionalContext"].as_str();
        context.unwrap_or_default().to_owned()
    }
}

/// Whether nothing was written into a project.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().flatten().all(|entry| entry.file_name() == ".git")
}

#[test]
fn the_host_starts_its_server_and_lists_what_can_be_done() {
    let user = User::new();
    let mut window = user.window("one");
    let tools = window.request("tools/list", json!({}));
    tools.to_string().shows("workflow.start…workflow.next_step…execution.resume");
    let workflows = window.read("midex://workflow/available_workflows").to_string();
    workflows.shows("bug-fix…code-review");
    // Nobody's project is touched, and no context hears of nothing.
    assert!(is_empty(&user.path("one")));
    assert_eq!(user.compacted("one"), "");
}

#[test]
fn the_first_workflow_goes_from_step_to_step() {
    let user = User::new();
    let mut window = user.window("one");
    let begun = window.begin("bug-fix", "first");
    assert_eq!(offers(&begun)[0].0, "diagnose");
    let next = window.finish(&begun["new_token"], "the cause");
    assert_eq!(offers(&next)[0].0, "fix");
}

#[test]
fn a_second_window_is_at_the_same_work_or_at_that_of_its_own_project() {
    let user = User::new();
    let mut first = user.window("one");
    first.begin("bug-fix", "first");
    let mut second = user.window("one");
    let resumed = second.done("execution.resume", json!({}));
    assert_eq!(resumed["execution_id"], "first");
    let mut other = user.window("two");
    assert_eq!(other.done("execution.resume", json!({}))["open_executions"], json!([]));
    other.begin("code-review", "other");
    user.compacted("two").shows("'other'");
    assert!(!user.compacted("one").contains("'other'"));
    let listed = first.done("execution.list", json!({}));
    assert_eq!(listed["executions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_compacted_context_goes_on_with_nothing_but_what_the_hook_says() {
    let user = User::new();
    let mut window = user.window("one");
    let begun = window.begin("bug-fix", "first");
    window.finish(&begun["new_token"], "the cause: February");
    let context = user.compacted("one");
    context.shows("'first' of workflow 'bug-fix'…the cause: February…'fix'");
    // The one call that it names, as it names it.
    let call = context.split("go on: ").nth(1).unwrap().lines().next().unwrap();
    let (tool, id) = call.split_once(" with execution_id ").unwrap();
    let task = window.done(tool, json!({ "execution_id": id.trim_matches('\'') }));
    task["agent_content"].as_str().unwrap().shows("# Implementer");
    window.finish(&task["continuation_token"], "fixed");
    user.compacted("one").shows("'verify'");
}

#[test]
fn the_end_of_a_turn_is_held_up_once() {
    let user = User::new();
    let mut window = user.window("one");
    window.begin("bug-fix", "first");
    let told = json!({ "session_id": "s", "hook_event_name": "Stop", "stop_hook_active": false });
    let answer = user.event("one", "Stop", &told);
    assert_eq!(answer["decision"], "block");
    answer["reason"].as_str().unwrap().shows("'diagnose'…execution.pause");
    assert_eq!(user.event("one", "Stop", &told), Value::Null);
}

#[test]
fn what_was_begun_outlives_every_window() {
    let user = User::new();
    let mut first = user.window("one");
    let begun = first.begin("bug-fix", "first");
    let mut second = user.window("one");
    second.status("first");
    first.kill();
    second.finish(&begun["new_token"], "the cause");
    second.kill();
    user.compacted("one").shows("'first'…'fix'");
    let mut third = user.window("one");
    let resumed = third.done("execution.resume", json!({ "execution_id": "first" }));
    assert_eq!(resumed["current_step"], "fix", "{resumed}");
    let said = user.run("one", "doctor");
    said.shows("ok    clients…claude-code…1 open");
    assert!(!said.contains("fail"), "{said}");
}

#[test]
fn what_was_installed_is_taken_out_again() {
    let user = User::new();
    user.run("one", "install --client claude-code --remove");
    assert_eq!(user.json(".claude.json")["mcpServers"], json!({}));
    assert!(!user.json(".claude/settings.json").to_string().contains("midex"));
}
