//! The inputs of a manifest, from the file to the start.

mod command;
mod defaults;
mod findings;
mod start;

use midex_test::project::{Project, agent};

/// A project with one manifest `w`, whose `inputs` are these lines, and one step.
fn project(inputs: &str) -> Project {
    Project::new(&[
        ("workflows/w.yaml", &manifest(inputs)),
        ("agents/worker.md", &agent("worker", "You work.")),
    ])
}

fn manifest(inputs: &str) -> String {
    format!("workflow: w\ndescription: d\n{inputs}steps:\n  - {{ id: a, agent: worker }}\n")
}

/// Inputs with every kind of rule.
const DEPLOY: &str = "inputs:
  region: { name: Region, type: string, enum: [us, eu] }
  replicas: { type: integer, validate: { min: 1, max: 9 } }
  tag: { type: string, validate: { pattern: '^v[0-9]+$', max_length: 4 } }
  push: { type: boolean, default: { from: literal, value: false } }
  note: { optional: true, hint: one line, example: hotfix }
";
