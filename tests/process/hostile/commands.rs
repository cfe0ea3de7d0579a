//! What the commands and the server say in a repository that is not trusted, and how its user trusts it.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{CANARY, World};
use midex_test::{
    Client, Server, Shows, Words,
    project::{midex_at, text},
    terminal::Terminal,
};

const BUG_FIX: &str =
    "workflow: bug-fix\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n";
const NAMED: &str =
    "workflow: named\ndescription: d\nsteps:\n  - { id: a, run: 'shop orders:create' }\n";

impl World {
    fn command(&self, arguments: impl Words) -> Command {
        let mut command = midex_at(&self.path("repo"), &self.path("home"));
        command.args(arguments.words());
        command
    }

    pub(super) fn midex(&self, arguments: impl Words) -> Output {
        self.command(arguments).output().expect("midex runs")
    }

    fn trusted(&self) -> Vec<String> {
        let listed = self.midex("trust --list --json");
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        let projects = listed["projects"].as_array().expect("a list");
        projects.iter().map(|one| text(one).to_owned()).collect()
    }
}

fn said(output: &Output) -> String {
    let all = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    all.concat()
}

#[test]
fn a_command_in_a_pipe_is_refused_with_the_command_that_its_user_gives() {
    let world = World::new(&[("workflows/bug-fix.yaml", BUG_FIX)], &[]);
    let refused = world.midex("run bug-fix --input task=x");
    let repo = world.path("repo").display().to_string();
    assert!(!refused.status.success());
    said(&refused).shows(&[
        "is not trusted",
        "calls `shop orders:create`",
        &format!("midex trust {repo}"),
    ]);
    said(&world.midex("list")).shows("bug-fix…project (hides");
    assert_eq!(world.calls(), 0);
    let trusted = world.midex("trust");
    assert!(trusted.status.success(), "{}", said(&trusted));
    assert_eq!(world.trusted(), std::slice::from_ref(&repo));
    let ran = world.midex("run bug-fix --input task=x");
    assert!(ran.status.success(), "{}", said(&ran));
    let warned = String::from_utf8_lossy(&ran.stderr).into_owned();
    warned.shows("warning: `bug-fix` is the project's: it hides the shipped one");
    assert_eq!(world.calls(), 1);
    assert!(world.midex(&["trust", "--remove", &repo]).status.success());
    assert!(world.trusted().is_empty());
}

#[test]
fn on_a_terminal_its_user_is_asked() {
    let world = World::new(&[("workflows/named.yaml", NAMED)], &[]);
    let mut terminal = Terminal::open(world.command("run named"));
    let asked = terminal.expect("[y/N] ");
    asked.shows("Trust the project …Its workflow `named` calls `shop orders:create`");
    terminal.type_line("");
    terminal.end();
    assert!(world.calls() == 0 && world.trusted().is_empty());
    let mut terminal = Terminal::open(world.command("run named"));
    terminal.answer("[y/N] ", "y");
    terminal.ends(0);
    assert_eq!((world.calls(), world.trusted().len()), (1, 1));
}

#[test]
fn a_client_that_can_ask_its_user_does_so_and_nothing_that_an_agent_calls_trusts() {
    let world = World::new(&[("workflows/named.yaml", NAMED)], &[]);
    let mut plain = Server::run(world.command("serve"));
    plain.shake_hands();
    let start = |id: &str| json!({ "workflow_name": "named", "execution_id": id });
    let refused = plain.refused("workflow.start", start("a"));
    assert_eq!(refused["error_code"], "PROJECT_NOT_TRUSTED", "{refused}");
    text(&refused["suggested_action"]).shows("Ask your user…midex trust ");
    let refused = plain.refused("workflow.run", json!({ "workflow_id": "named" }));
    assert_eq!(refused["error_code"], "PROJECT_NOT_TRUSTED", "{refused}");
    let refused = plain.refused("command.run", json!({ "id": "workflow named" }));
    assert_eq!(refused["error_code"], "PROJECT_NOT_TRUSTED", "{refused}");
    let tools = plain.request("tools/list", json!({})).to_string();
    tools.lacks("midex trust…\"trust\"");

    let mut asking = Server::run(world.command("serve"));
    asking.shake_hands_with(&json!({ "elicitation": {} }));
    for (decision, is_trusted) in [("no", false), ("yes", true)] {
        let call = json!({ "name": "workflow.start", "arguments": start(decision) });
        let call = asking.post("tools/call", call);
        let question = asking.next_line();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        text(&question["params"]["message"]).shows("Trust the project…Its workflow `named` calls");
        let result = json!({ "action": "accept", "content": { "decision": decision } });
        asking.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
        let answer = asking.next_line();
        assert_eq!(answer["id"], call, "{answer}");
        assert_eq!(answer["result"]["isError"], !is_trusted, "{answer}");
        assert_eq!(world.trusted().len(), usize::from(is_trusted));
    }
}

#[test]
fn what_a_repository_configures_stays_in_it_and_is_not_its_user_s() {
    for workflows in ["OUTSIDE", "../outside", "~/.config/midex/catalogs/shop", "out", "out/deeper"]
    {
        let toml = format!(
            "workflows = \"{workflows}\"\nagents = \"{workflows}\"\ntrust = [\"/\"]\ndata-dir = \"/tmp/x\"\nallow-env = \"PATH\"\n\
             secret-env = \"PATH\"\nimport-from = [\"/\"]\nhttp = \"0.0.0.0:1\"\n[secrets.KEY]\nhosts = [\"evil.example\"]\n"
        );
        let world = World::new(&[("midex.toml", &toml)], &[("out", "OUTSIDE")]);
        let before = world.outside();
        let listed = world.midex("list --json");
        let shown = said(&listed);
        assert!(listed.status.success(), "{shown}");
        assert!(!shown.contains(CANARY) && !shown.contains("token"), "{shown}");
        shown.shows("`workflows` leads out of the project…`agents` leads out…only the user's file may set `trust`");
        for key in ["data-dir", "allow-env", "secret-env", "import-from", "http", "secret-host"] {
            shown.shows(&[&format!("only the user's file may set `{key}`")]);
        }
        assert!(world.outside() == before, "{workflows}");
    }
    // A directory of the project counts, and what lies in it is the project's.
    let world =
        World::new(&[("midex.toml", "workflows = \"tools\"\n"), ("tools/named.yaml", NAMED)], &[]);
    let refused = world.midex("run named");
    said(&refused).shows("is not trusted");
    // Named by its user it is the user's.
    let ran = world.midex("run named --workflows tools");
    assert!(ran.status.success(), "{}", said(&ran));
}

#[test]
fn a_configuration_that_is_no_file_or_too_large_keeps_nobody_waiting() {
    let world = World::new(&[("midex.toml", &"# x\n".repeat(1 << 18))], &[]);
    assert!(!world.midex("list").status.success());
    let path = world.path("repo/midex.toml");
    fs::remove_file(&path).expect("it is there");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    assert!(!world.midex("list").status.success());
}
