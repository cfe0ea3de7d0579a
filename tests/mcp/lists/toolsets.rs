//! Toolsets.

use std::collections::BTreeMap;

use serde_json::json;

use super::underscored;
use midex_test::{
    Client, Shows, TASK_TOOLS, TOOLS,
    project::{Project, each},
    reader::{ERAS, Era, Reader},
};

const SETS: [&str; 4] = ["run", "author", "operate", "catalog"];

/// The tools of each set as a server lists them.
fn offered(project: &Project) -> BTreeMap<String, Vec<String>> {
    let tools = |set: &str| each(&Reader::tools_with_tasks(project, &["--toolsets", set]), "name");
    SETS.iter().map(|set| ((*set).to_owned(), tools(set))).collect()
}

#[test]
fn every_tool_is_in_a_set_and_its_page_and_the_help_say_which() {
    let project = Project::new(&[]);
    let offered = offered(&project);
    let mut all: Vec<_> = offered.values().flatten().cloned().collect();
    all.sort();
    // Who operates looks, waits and resumes too.
    all.dedup();
    let mut wanted: Vec<_> = TOOLS.into_iter().chain(TASK_TOOLS).collect();
    wanted.sort_unstable();
    assert_eq!(all, wanted);

    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/mcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("\n## Toolsets\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let set = cells.next()?.trim().strip_suffix('`')?;
        SETS.contains(&set).then(|| (set.to_owned(), names(cells.next().unwrap_or_default())))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), offered);

    let help = project.command("serve --help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for (set, tools) in &offered {
        // A long line is broken between words.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, rest) = help
            .split_once(&format!("- {set}: "))
            .unwrap_or_else(|| panic!("{set} is not in {help}"));
        let said = rest.split([' ']).take_while(|word| *word != "-" && !word.starts_with('['));
        let said = said.collect::<Vec<_>>().join(" ");
        let tools = if tools.is_empty() { "no tools yet".to_owned() } else { tools.join(", ") };
        assert_eq!(said, tools);
    }
}

/// Texts between backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn what_is_left_out_is_neither_listed_nor_called_nor_spoken_of() {
    let project = Project::new(&[]);
    let sets = offered(&project);
    for era in ERAS {
        for given in ["run", "operate", "author,catalog", "catalog,run"] {
            let flags = ["--toolsets", given];
            let mut client = Reader::new(&project, era, "other", &flags);
            let mut here: Vec<_> = given.split(',').flat_map(|set| sets[set].clone()).collect();
            here.retain(|tool| !TASK_TOOLS.contains(&tool.as_str()));
            here.sort_by_key(|tool| TOOLS.iter().position(|known| known == tool));
            assert_eq!(client.names(), here, "{given}");
            for tool in TOOLS.into_iter().filter(|tool| !here.contains(&(*tool).to_owned())) {
                assert!(!client.instructions().contains(tool), "{given}: {tool}");
                for name in [tool.to_owned(), underscored(tool)] {
                    let error =
                        client.error("tools/call", json!({ "name": name, "arguments": {} }));
                    assert_eq!(error["code"], -32602, "{error}");
                    assert_eq!(error["data"]["error_code"], "TOOL_NOT_FOUND", "{error}");
                    let message = error["message"].as_str().unwrap();
                    let order: Vec<_> =
                        SETS.into_iter().filter(|set| given.contains(set)).collect();
                    message.shows(&format!("--toolsets {}", order.join(",")));
                    // It names a call that this server has, where it has any.
                    let action = error["data"]["suggested_action"].as_str().unwrap();
                    let leads_on = action.starts_with("Call execution.resume: ");
                    assert_eq!(leads_on, here.contains(&"execution.resume".to_owned()), "{action}");
                }
            }
        }
    }
}

#[test]
fn a_set_that_there_is_not_is_an_error_of_usage_that_names_those_there_are() {
    let project = Project::new(&[]);
    for bad in ["", "all", "run,", "RUN", "run,operat"] {
        let said = project.command(&["serve", "--toolsets", bad]).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{bad}");
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains("run, author, operate, catalog"), "{said}");
    }
    let said = project.command("serve --tool-names camel").output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("auto, dotted, underscored"), "{said}");
}

#[test]
fn commands_have_every_tool_whatever_the_server_offers_its_clients() {
    let project = Project::new(&[]);
    let flags = ["--toolsets", "run", "--tool-names", "underscored"];
    let mut client = Reader::new(&project, Era::Initialize, "other", &flags);
    client.server.begin("bug-fix", "e");
    for (command, state) in [("pause", "paused"), ("resume", "running"), ("abandon", "abandoned")] {
        let said = project.command(&[command, "e", "--json"]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let status = client.server.read("midex://workflow/workflow_status/e");
        assert_eq!(status["state"], state);
    }
}
