//! The page of the workflow `release`: its picture and its tables are those of the workflow, and its first example is led to
//! an end. `catalog::release` leads the second one.

use std::collections::BTreeSet;

use midex_registry::{Registry, Sources};
use serde_json::{Value, json};

use crate::shipped::{
    led::Led,
    release::{agree, asked_of, ended, published, ran, retract},
};
use midex_test::{
    Client, assert_has,
    project::{Project, text},
};

pub(crate) const PAGE: &str = include_str!("../../docs/release.md");

/// What stands between the fences of a language.
pub(crate) fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let blocks = PAGE.split(fence.as_str()).skip(1);
    blocks.map(|block| block.split_once("```").expect("a closed fence").0).collect()
}

fn printed(project: &Project, arguments: &[&str]) -> String {
    let output = project.command(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn its_picture_is_what_midex_draws() {
    let project = Project::new(&[]);
    assert_eq!(blocks("mermaid"), [printed(&project, &["graph", "release"])]);
}

/// The first cells of the table whose first column has this title.
fn first_cells(title: &str) -> BTreeSet<&'static str> {
    let (_, table) = PAGE.split_once(&format!("| {title} |")).expect("a table");
    let rows = table.lines().skip(2);
    let rows = rows.map_while(|row| row.strip_prefix("| `"));
    rows.map(|row| row.split_once('`').unwrap().0).collect()
}

#[test]
fn its_tables_name_every_input_every_step_and_every_failure() {
    let registry = Registry::load(&Sources::default());
    let definition = registry.definition("release").unwrap();
    let workflow = &definition.workflow;
    let inputs = workflow.inputs.as_ref().unwrap().iter();
    let inputs: BTreeSet<_> = inputs.map(|input| input.key.to_string()).collect();
    assert_eq!(inputs, first_cells("Input").iter().map(|&name| name.to_owned()).collect());
    let steps: BTreeSet<_> = workflow.steps.iter().map(|step| step.id.to_string()).collect();
    let told: BTreeSet<_> = PAGE.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(steps.is_subset(&told), "{steps:?}");
    for line in include_str!("../../workflows/release.yaml").lines() {
        if let Some(code) = line.trim().strip_prefix("code: ") {
            assert!(told.contains(code), "{code}");
        }
    }
}

/// What it says is different is, and what failed is taken back by its own command.
#[test]
fn its_example_releases_a_crate_and_yanks_it() {
    let project = Project::new(&[("workflows/release-crate.yaml", blocks("yaml")[0])]);
    printed(&project, &["validate", "--strict", "workflows/release-crate.yaml"]);
    let inputs = json!({ "version": "1.4.0", "checks": "make test" });
    let mut led = asked_of(Led::start_in(project, "release-crate", &inputs));
    let history = led.server.history("e");
    let commands = history.iter().find(|row| row["step_name"] == "commands");
    assert_eq!(commands.unwrap()["output"]["checks"], "make test", "a start may say another");
    let question = led.server.status("e")["waits"][0]["gate"]["ask"].clone();
    assert_has(text(&question), &["and then: cargo publish --locked"]);
    agree(&mut led);
    assert_eq!(led.input()["command"], "cargo publish --locked");
    led.hand("publish", published(true));
    assert_eq!(led.input()["commands"], "cargo install --root . my-crate@1.4.0");
    led.hand("verify", ran("cargo install", false));
    assert_eq!(retract(&mut led, true)["how"], "cargo yank --version 1.4.0");
    retract(&mut led, true);
    let status = ended(&mut led, "failed");
    assert_eq!(status["not_compensated"], Value::Null);
}
