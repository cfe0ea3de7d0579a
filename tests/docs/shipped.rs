//! The definitions that are part of midex: what they promise each other, and that they run.

use midex_domain::{definition::output_schema_json, schema::Schema};
use midex_registry::{Registry, Sources};
use serde_json::{Value, json};

use midex_test::{Client, MANIFESTS, Server, steps};

pub(crate) mod led;
mod promises;
pub(crate) mod release;
mod rounds;
mod scaffold;

/// Each workflow with its complexity and its phases, each with its agent; those before the last are independent where
/// `true`.
const WORKFLOWS: [(&str, &str, bool, &str); 11] = [
    ("bug-fix", "moderate", false, "diagnose:debugger fix:implementer verify:reviewer"),
    ("code-review", "moderate", false, "understand:architect review:reviewer verdict:supervisor"),
    (
        "component-performance-review",
        "moderate",
        true,
        "database-performance:performance-engineer api-performance:performance-engineer \
         frontend-performance:performance-engineer \
         infrastructure-performance:devops-engineer performance-synthesis:supervisor",
    ),
    (
        "feature-development",
        "high",
        false,
        "design:architect implement:implementer review:reviewer",
    ),
    (
        "parallel-code-review",
        "high",
        true,
        "quality-review:reviewer security-review:security-specialist \
         performance-review:performance-engineer maintainability-review:maintainer \
         architecture-review:architect review-synthesis:supervisor",
    ),
    (
        "parallel-documentation-review",
        "moderate",
        true,
        "api-documentation:documentation-specialist \
         user-documentation:documentation-specialist \
         architecture-documentation:architect deployment-documentation:devops-engineer \
         security-documentation:security-specialist documentation-synthesis:supervisor",
    ),
    (
        "parallel-maintenance-audit",
        "moderate",
        true,
        "code-hygiene:maintainer dependency-audit:maintainer \
         test-maintenance:implementer \
         documentation-maintenance:documentation-specialist \
         security-maintenance:security-specialist \
         performance-maintenance:performance-engineer maintenance-synthesis:supervisor",
    ),
    (
        "parallel-root-cause-analysis",
        "moderate",
        true,
        "code-analysis:debugger performance-analysis:performance-engineer \
         security-analysis:security-specialist architecture-analysis:architect \
         correlation-analysis:supervisor",
    ),
    (
        "parallel-testing-strategy",
        "moderate",
        true,
        "unit-testing:implementer integration-testing:architect \
         security-testing:security-specialist performance-testing:performance-engineer \
         user-testing:documentation-specialist testing-synthesis:supervisor",
    ),
    (
        "security-audit",
        "high",
        false,
        "reconnaissance:security-specialist analysis:security-specialist \
         verification:debugger report:supervisor",
    ),
    (
        "security-threat-assessment",
        "high",
        true,
        "external-threats:security-specialist internal-threats:security-specialist \
         data-protection:security-specialist code-vulnerabilities:debugger \
         infrastructure-security:devops-engineer threat-synthesis:supervisor",
    ),
];

fn phases_of(phases: &str) -> Vec<&str> {
    phases.split_whitespace().collect()
}

#[test]
fn the_workflows_have_their_phases_and_a_section_on_each() {
    let registry = Registry::load(&Sources::default());
    let mut names = [&WORKFLOWS.map(|(name, ..)| name)[..], &MANIFESTS].concat();
    names.sort_unstable();
    let shown: Vec<_> = registry.workflows().map(|entry| &entry.name).collect();
    assert_eq!(shown, names);
    for (name, complexity, independent, phases) in WORKFLOWS {
        let phases = phases_of(phases);
        let definition = registry.definition(name).unwrap();
        let workflow = &definition.workflow;
        let shown: Vec<_> = workflow
            .steps
            .iter()
            .map(|step| format!("{}:{}", step.id, step.agent_name().unwrap()))
            .collect();
        assert_eq!(shown, phases, "{name}");
        assert_eq!(json!(workflow.complexity), complexity, "{name}");
        let (last, before) = workflow.steps.split_last().unwrap();
        if independent {
            assert!(
                before.iter().all(|step| step.depends_on.is_empty())
                    && last.depends_on.iter().eq(before.iter().map(|step| &step.id)),
                "{name}: the last phase brings all the others together"
            );
        }
        let text = &workflow.content;
        let sections: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .map(|title| title.replace(" (", ":").replace(')', ""))
            .collect();
        assert_eq!(sections, phases, "{name}: the sections of its text");
        assert_eq!(workflow.tags.first().unwrap(), "workflows", "{name}");
    }
}

/// Fault F10 of the study: workflows called parallel ran strictly one step after another. What independent means: all but
/// the last are offered at once, done in any order, and the last is offered only after all, and told of all.
#[test]
fn f10_every_workflow_offers_its_phases_in_their_order_and_independent_ones_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    for (name, _, independent, phases) in WORKFLOWS {
        let phases = phases_of(phases);
        let mut reply = server.done("workflow.start", json!({ "workflow_name": name }));
        let mut open = offered(&reply);
        let at_first = if independent { phases.len() - 1 } else { 1 };
        assert_eq!(names(&open), phases[..at_first], "{name}");
        let mut done = 0;
        while let Some(step) = open.pop() {
            assert_eq!(reply["workflow_state"], "running", "{name}");
            reply = server.finish(&step["continuation_token"], "Done");
            done += 1;
            let new = offered(&reply);
            assert!(new.is_empty() || open.is_empty(), "{name}: offered too early");
            if independent && done == at_first {
                let current = server.current(reply["execution_id"].as_str().unwrap());
                assert_eq!(
                    current["previous"].as_array().unwrap().len(),
                    done,
                    "{name}: all is told"
                );
            }
            open.extend(new);
        }
        assert_eq!(reply["workflow_state"], "completed", "{name}");
        assert_eq!(done, phases.len(), "{name}");
    }
}

/// What readers learn from says what each part of it is.
#[test]
fn the_manifests_say_what_each_input_and_each_step_is() {
    let registry = Registry::load(&Sources::default());
    for name in MANIFESTS {
        let entry = registry.workflows().find(|entry| entry.name == name);
        assert_eq!(entry.unwrap().findings, [], "{name}");
        let definition = registry.definition(name).unwrap();
        let workflow = &definition.workflow;
        assert_eq!(workflow.tags.first().unwrap(), "workflows", "{name}");
        for input in workflow.inputs.as_ref().unwrap().iter() {
            assert!(input.description.is_some(), "{name}: {}", input.key);
            assert!(
                input.optional || input.default.is_some(),
                "{name}: no start needs {}",
                input.key
            );
        }
        let silent: Vec<_> =
            (workflow.steps.iter()).filter(|step| step.description.is_empty()).collect();
        assert!(silent.is_empty(), "{name}: {silent:?}");
    }
}

fn offered(reply: &Value) -> Vec<Value> {
    steps(reply, "new_tokens")
}

fn names(offers: &[Value]) -> Vec<String> {
    let name = |offer: &Value| {
        let text = |key: &str| offer[key].as_str().unwrap().to_owned();
        format!("{}:{}", text("step_name"), text("agent_name"))
    };
    offers.iter().map(name).collect()
}

/// A persona that shows an output which `next_step` would refuse is worse than none.
#[test]
fn the_worked_examples_of_the_personas_satisfy_the_contract() {
    let mut schema = output_schema_json();
    schema["additionalProperties"] = json!(false);
    let schema = Schema::compile(&schema).unwrap();
    for entry in Registry::load(&Sources::default()).agents() {
        let text = &entry.value.as_ref().unwrap().content;
        let examples: Vec<_> = text.split("```json\n").skip(1).collect();
        let [example] = examples[..] else {
            panic!("{} has {} examples", entry.name, examples.len())
        };
        let example = example.split("```").next().unwrap();
        let example: Value = serde_json::from_str(example).unwrap();
        assert_eq!(schema.find_violations(&example), [], "{}", entry.name);
        let shown = example["artifacts"].as_array().unwrap();
        assert!(
            shown.iter().any(|artifact| artifact["type"] == "report")
                || shown.iter().any(Value::is_object) && entry.name == "implementer",
            "{} stores nothing",
            entry.name
        );
        for address in [
            "midex://workflow/workflow_details/{workflow_name}",
            "midex://workflow/artifact/{execution_id}/{artifact}",
            "midex://workflow/step_history/{execution_id}",
            "midex://workflow/current_step/{execution_id}",
        ] {
            assert!(text.contains(address), "{}: {address}", entry.name);
        }
    }
}
