//! `docs/configuration.md`: its table is the keys there are, and its example is sound.

use serde_json::{Value, json};

use crate::config::{config, findings};
use midex_test::project::{Project, each, list, text};

const PAGE: &str = include_str!("../../docs/configuration.md");

/// The cells of each row.
fn rows() -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect();
    rows.map(cells).collect()
}

#[test]
fn the_table_has_every_key_with_its_default() {
    let settings = list(&config(&Project::new(&[]), &[], "")["settings"]);
    let named: Vec<_> = rows().iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(each(&settings, "name"), named);
    for (row, setting) in rows().iter().zip(&settings).filter(|(row, _)| row[0] != "`data-dir`") {
        let value = match &setting["value"] {
            Value::Null => "none".to_owned(),
            Value::Array(items) if items.is_empty() => "none".to_owned(),
            Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let said = row[2].split(';').next().unwrap();
        assert_eq!(said.trim_matches('`'), value, "{row:?}");
    }
}

#[test]
fn the_table_says_which_keys_a_project_may_set() {
    for row in rows() {
        let key = row[0].trim_matches('`');
        let project = Project::new(&[("midex.toml", &format!("{key} = 1979-05-27\n"))]);
        let found = findings(&config(&project, &[], ""));
        let rule = if row[3] == "user" { "no_effect" } else { "wrong_type" };
        assert_eq!(each(&found, "rule"), [rule], "{row:?}");
    }
}

#[test]
fn the_example_holds_as_it_stands() {
    let (_, example) = PAGE.split_once("```toml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let project = Project::new(&[("home/.config/midex/midex.toml", example)]);
    let config = config(&project, &[], "");
    assert_eq!(findings(&config), Vec::<Value>::new());
    let settings = list(&config["settings"]);
    let of_file = settings.iter().filter(|setting| setting["from"]["source"] == json!("file"));
    let keys = example.lines().filter(|line| line.contains(" = ")).count();
    assert_eq!(of_file.count(), keys);
}
