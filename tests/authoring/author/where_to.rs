//! Where the tools of authors write, and that doctor and list say why.

use std::fs;

use serde_json::{Value, json};

use super::TRIAGE;
use midex_test::{Client, Server, assert_has, project::Project};

/// A server of the project with these variables and flags.
fn serve(project: &Project, variables: &[(&str, &str)], flags: &[&str]) -> Server {
    let mut command = project.command(&[&["serve"], flags].concat());
    command.envs(variables.iter().copied());
    let mut server = Server::run(command);
    server.shake_hands();
    server
}

/// What a command of the project prints.
fn said(project: &Project, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = project.command(arguments);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

fn path(answer: &Value) -> &str {
    answer["path"].as_str().unwrap()
}

#[test]
fn the_environment_or_a_flag_says_where_and_doctor_and_list_say_why() {
    let project = Project::new(&[]);
    let registry = project.path("registry/registry.json").display().to_string();
    let named = project.path("named").display().to_string();
    let config = ("REGISTRY_CONFIG_PATH", &*registry);
    let of_project = ["--author-to", "project"];
    for (variables, flags, directory, source, why) in [
        (&[][..], &[][..], "home/.config/midex/workflows", "user", "the user's directory"),
        (&[config], &[], "registry/workflows", "registry", "REGISTRY_CONFIG_PATH"),
        (
            &[config, ("REGISTRY_WORKFLOWS_PATH", &named)],
            &[],
            "named",
            "registry",
            "REGISTRY_WORKFLOWS_PATH",
        ),
        (
            &[("REGISTRY_WORKFLOWS_PATH", "~/of home")],
            &[],
            "home/of home",
            "registry",
            "REGISTRY_WORKFLOWS_PATH",
        ),
        (
            &[("REGISTRY_WORKFLOWS_PATH", "$HOME/more")],
            &[],
            "home/more",
            "registry",
            "REGISTRY_WORKFLOWS_PATH",
        ),
        (&[config], &of_project, "workflows", "project", "--author-to project"),
    ] {
        let directory = project.path(directory);
        let mut server = serve(&project, variables, flags);
        let saved = server.done("workflow.save", json!({ "manifest": TRIAGE }));
        assert_eq!(path(&saved), directory.join("triage.yaml").display().to_string());
        let got = server.done("workflow.get", json!({ "workflow_id": "triage" }));
        assert_eq!(got["source"], source);
        let line = format!("agents write workflows into {} ({why})", directory.display());
        for command in ["doctor", "list"] {
            let said = said(&project, variables, &[&[command], flags].concat());
            assert_has(&said, &[&line]);
        }
        fs::remove_dir_all(directory).unwrap();
        server.close();
    }
    for variable in ["REGISTRY_WORKFLOWS_PATH", "REGISTRY_CONFIG_PATH"] {
        let said = said(&project, &[(variable, "relative/w")], &["list"]);
        assert_has(&said, &[variable, "must be an absolute path", "relative/w"]);
    }
}

#[test]
fn the_registry_s_directory_comes_between_the_flag_and_the_project() {
    let text = |words: &str| TRIAGE.replace("Sort a bug report", words);
    let project = Project::new(&[
        ("flag/triage.yaml", &text("flag")),
        ("named/triage.yaml", &text("registry")),
        ("workflows/triage.yaml", &text("project")),
    ]);
    let (flag, named) = (project.path("flag"), project.path("named"));
    let variables = [("REGISTRY_WORKFLOWS_PATH", named.to_str().unwrap())];
    let mut server = serve(&project, &variables, &[]);
    assert_eq!(server.available("triage")["description"], "registry");
    // It is the first: so nothing hides what is saved there, and it is what the tools write.
    let saved = server.done("workflow.save", json!({ "manifest": text("new"), "overwrite": true }));
    assert_eq!(saved["warnings"], json!([]));
    assert_eq!(server.available("triage")["description"], "new");
    let mut flagged = serve(&project, &variables, &["--workflows", flag.to_str().unwrap()]);
    assert_eq!(flagged.available("triage")["description"], "flag");
    let saved =
        flagged.done("workflow.save", json!({ "manifest": text("newer"), "overwrite": true }));
    assert_eq!(saved["warnings"][0]["rule"], "shadowed_name", "{saved}");
    let listed = flagged.done("workflow.list", json!({ "query": "triage" }));
    let sources: Vec<_> =
        listed["workflows"].as_array().unwrap().iter().map(|one| one["source"].clone()).collect();
    assert_eq!(sources, ["flag", "registry", "project"]);
}

#[test]
fn a_relay_s_caller_writes_where_its_own_process_was_told() {
    let project = Project::new(&[]);
    let [one, two] = ["one", "two"].map(|name| project.path(name).display().to_string());
    let mut owner = serve(&project, &[("REGISTRY_WORKFLOWS_PATH", &one)], &[]);
    owner.done("execution.list", json!({}));
    let mut relay = serve(&project, &[("REGISTRY_WORKFLOWS_PATH", &two)], &[]);
    let mut plain = serve(&project, &[], &[]);
    let mut own = serve(&project, &[], &["--author-to", "project"]);
    for (client, directory) in [
        (&mut relay, "two"),
        (&mut plain, "home/.config/midex/workflows"),
        (&mut own, "workflows"),
        (&mut owner, "one"),
    ] {
        let saved = client.done("workflow.save", json!({ "manifest": TRIAGE }));
        let path = project.path(directory).join("triage.yaml");
        assert_eq!(saved["path"], path.display().to_string());
    }
    assert_eq!(plain.done("workflow.get", json!({ "workflow_id": "triage" }))["source"], "project");
}
