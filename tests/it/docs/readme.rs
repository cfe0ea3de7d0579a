//! What is written for users is so.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{
    Client,
    project::{Project, each, list},
};

/// Texts between single backticks.
fn codes(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The first cell of a row; a bar inside of a code is no border.
fn first_cell(line: &str) -> Option<String> {
    let row = line.strip_prefix('|')?.replace("\\|", "¦");
    row.split('|').next().map(str::to_owned)
}

/// The first cells of those tables whose first column is about `subject`.
fn first_cells(subject: &str) -> Vec<String> {
    let (mut cells, mut wanted) = (Vec::new(), None);
    for line in README.lines() {
        match (first_cell(line), wanted) {
            (None, _) => wanted = None,
            (Some(header), None) => wanted = Some(header.to_lowercase().contains(subject)),
            (Some(cell), Some(true)) => cells.push(cell),
            (Some(_), Some(false)) => {}
        }
    }
    cells
}

const README: &str = include_str!("../../../README.md");

/// `execution.{a,b}` is two names.
fn expanded(code: &str) -> Vec<String> {
    let Some((head, rest)) = code.split_once('{') else {
        return vec![code.to_owned()];
    };
    let Some((names, tail)) = rest.split_once('}') else {
        return vec![code.to_owned()];
    };
    names
        .split(',')
        .map(|name| format!("{head}{}{tail}", name.trim()))
        .collect()
}

/// The beginning of `text` that can be a name.
fn name(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .collect()
}

/// What the names of tools begin with.
const KINDS: [&str; 5] = [
    "workflow.",
    "execution.",
    "command.",
    "provider.",
    "catalog.",
];

/// Fault F25 of the study: the documents told of tools that did not exist.
#[test]
fn f25_the_readme_names_every_tool_and_no_other() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let tools = list(&server.request("tools/list", json!({}))["result"]["tools"]);
    let tools: BTreeSet<_> = each(&tools, "name").into_iter().collect();
    // Several lines of prose may lie between an odd backtick and the next: code blocks are no prose.
    let prose: String = README.split("```").step_by(2).collect();
    let named: BTreeSet<_> = codes(&prose)
        .into_iter()
        .filter(|code| KINDS.iter().any(|kind| code.starts_with(kind)))
        .flat_map(|code| match code.split_once(" {") {
            // A call with its arguments.
            Some((tool, _)) => vec![tool.to_owned()],
            None => expanded(code),
        })
        .map(|code| name(&code))
        .collect();
    assert_eq!(named, tools);
}

/// An address without its query; one with a part that may be left out is two addresses.
fn variants(code: &str) -> Vec<String> {
    let code = code.replace("midex://workflow/", "");
    let Some((head, rest)) = code.split_once('[') else {
        let path = code.split('?').next().unwrap();
        return vec![path.trim_end_matches('{').to_owned()];
    };
    let (optional, tail) = rest.split_once(']').unwrap_or((rest, ""));
    let both = [format!("{head}{tail}"), format!("{head}{optional}{tail}")];
    both.iter().flat_map(|code| variants(code)).collect()
}

/// Fault F25 of the study: the documents told of resources that did not exist.
#[test]
fn f25_the_readme_names_every_resource_and_no_other() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let resources = server.request("resources/list", json!({}));
    let templates = server.request("resources/templates/list", json!({}));
    let mut offered = each(&list(&resources["result"]["resources"]), "uri");
    offered.extend(each(
        &list(&templates["result"]["resourceTemplates"]),
        "uriTemplate",
    ));
    // Each definition that is found is listed too; the templates stand for them.
    let found = |uri: &String| uri.contains("/workflow_details/") || uri.contains("/agent/");
    offered.retain(|uri| uri.contains('{') || !found(uri));
    let offered: BTreeSet<_> = offered.iter().flat_map(|uri| variants(uri)).collect();
    let cells = first_cells("resource");
    let named: BTreeSet<_> = cells
        .iter()
        .flat_map(|cell| codes(cell))
        .flat_map(variants)
        .collect();
    assert_eq!(named, offered);
}

/// What `midex ARGUMENTS --help` writes.
fn help(arguments: &[&str]) -> String {
    let project = Project::new(&[]);
    let output = project
        .command(&[arguments, &["--help"]].concat())
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that there are.
fn commands() -> BTreeSet<String> {
    let help = help(&[]);
    let listed = help
        .split("Commands:\n")
        .nth(1)
        .expect("a list of commands");
    let listed = listed.lines().take_while(|line| !line.trim().is_empty());
    let listed = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed = listed.map(|line| line.split_whitespace().next().unwrap().to_owned());
    listed.filter(|name| name != "help").collect()
}

/// Fault F25 of the study: the documents told of what did not exist.
#[test]
fn f25_the_readme_names_every_command_and_no_other() {
    let cells = first_cells("command");
    let named: BTreeSet<_> = cells
        .iter()
        .flat_map(|cell| codes(cell))
        .filter_map(|code| code.strip_prefix("midex ")?.split(' ').next())
        .flat_map(|names| names.split('¦'))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, commands());
}

/// Fault F25 of the study: the documents told of settings that nothing read.
#[test]
fn f25_every_flag_in_the_readme_is_one_of_a_command() {
    let helps: String = commands().iter().map(|command| help(&[command])).collect();
    let prose: String = README.split("```").step_by(2).collect();
    let flags: Vec<_> = codes(&prose)
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_end_matches([',', ']']))
        .collect();
    assert!(!flags.is_empty());
    for flag in flags {
        assert!(
            helps.contains(&format!("{flag} ")) || helps.contains(&format!("{flag}\n")),
            "{flag} is no flag"
        );
    }
}
