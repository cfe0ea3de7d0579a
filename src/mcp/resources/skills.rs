//! Workflows and agents as skills (SEP-2640). Each is a directory with one file, `SKILL.md`, generated from its
//! definition. The file and its name follow the Agent Skills specification, <https://agentskills.io/specification>; the
//! methods follow <https://github.com/modelcontextprotocol/ext-skills>, `specification/stable/skills.mdx`.

use rmcp::model::{PaginatedRequestParams, Skill, SkillFrontmatter, SkillResource, SkillResources};
use serde_json::{Value, json};

use super::{
    address::{ResourceAddress, SkillName},
    check_resource_offered, shorten_address, suggestions, unknown_resource_error,
};
use crate::{
    page::{CursorPage, paginate},
    tools::{Toolset, Toolsets},
};
use midex_domain::{
    definition::{Persona, Workflow},
    error::{Error, Result},
    input::DefaultFrom,
    limits,
    truncate::truncate_to_chars,
    view::{self, InputView},
};
use midex_registry::Registry;
use midex_server::app::App;

/// How to start a workflow and follow its steps.
const START_INSTRUCTIONS: &str = "\
1. Call `workflow.start` with the name above as `workflow_name`, and the inputs as `inputs`.
2. Do the step that the reply has, acting as its `agent_content` says.
3. Call `workflow.next_step` with `new_token` as `token`, and what you did as `output`. Go on with the step that this reply has, until
   `workflow_state` is `completed`.

To clients that take no dot in the name of a tool, they are `workflow_start` and `workflow_next_step`.
";

/// The generated file of a skill.
struct SkillFile {
    name: String,
    description: String,
    text: String,
}

/// A page of the skills. They belong to the toolset `run`.
///
/// # Errors
/// `ARGUMENTS_INVALID` if the cursor is invalid.
pub(crate) async fn list_skills(
    app: &App,
    sets: Toolsets,
    request: Option<PaginatedRequestParams>,
) -> Result<CursorPage<Skill>> {
    let is_offered = sets.contains(Toolset::Run);
    app.with_registry(move |registry| {
        let skills = list_skill_names(registry).filter(|_| is_offered);
        let skills = skills.map(|skill| (skill.uri(), skill)).collect();
        let CursorPage { items, next } =
            paginate("skills/list", skills, |(uri, _)| uri.as_str(), request)?;
        let make_entry = |(_, skill): &(_, SkillName)| {
            Some(build_skill_entry(skill, build_skill_file(registry, skill)?))
        };
        let items = items.iter().filter_map(make_entry).collect();
        Ok(CursorPage { items, next })
    })
    .await?
}

/// The skill at an address.
///
/// # Errors
/// `RESOURCE_NOT_FOUND`.
pub(crate) async fn get_skill(app: &App, sets: Toolsets, uri: &str) -> Result<Skill> {
    check_resource_offered(uri, sets)?;
    let Ok(ResourceAddress::Skill(skill)) = ResourceAddress::parse(uri) else {
        return Err(skill_not_found_error(app, uri).await);
    };
    let skill_result = app.with_registry(move |registry| {
        let file = build_skill_file(registry, &skill)?;
        Some(build_skill_entry(&skill, file))
    });
    match skill_result.await? {
        Some(skill) => Ok(skill),
        None => Err(skill_not_found_error(app, uri).await),
    }
}

async fn skill_not_found_error(app: &App, uri: &str) -> Error {
    let error = unknown_resource_error(uri).with_context("uri", shorten_address(uri));
    suggestions::add_nearest_resource(app, uri, error).await
}

/// The text of a skill's file, if the skill exists.
pub(super) fn read_skill_text(registry: &Registry, skill: &SkillName) -> Option<String> {
    build_skill_file(registry, skill).map(|file| file.text)
}

/// The list entry of a skill with one file.
fn build_skill_entry(skill: &SkillName, file: SkillFile) -> Skill {
    let front = SkillFrontmatter::new(file.name, file.description);
    let resource = SkillResource::from_bytes(skill.uri(), file.text.as_bytes());
    Skill::new(skill.uri(), front, SkillResources::Files(vec![resource]))
}

/// Every definition that can be a skill.
fn list_skill_names(registry: &Registry) -> impl Iterator<Item = SkillName> {
    let workflows = registry.workflows().filter(|entry| entry.value.is_some());
    let workflows = workflows.map(|entry| &entry.name).filter(|name| is_valid_skill_name(name));
    let agents = registry.agents().filter(|entry| entry.value.is_some());
    let agents = agents.map(|entry| &entry.name).filter(|name| is_valid_skill_name(name));
    let workflows = workflows.map(|name| SkillName::Workflow(name.clone()));
    workflows.chain(agents.map(|name| SkillName::Agent(name.clone())))
}

/// Whether the name is a valid skill name: words of lowercase letters and digits, separated by hyphens.
fn is_valid_skill_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_letter);
    name.len() <= limits::SKILL_NAME_BYTES_MAX && name.split('-').all(is_word)
}

fn build_skill_file(registry: &Registry, skill: &SkillName) -> Option<SkillFile> {
    let (name, description, body) = match skill {
        SkillName::Workflow(name) => {
            let workflow = &registry.workflow(name)?.value.as_ref()?.workflow;
            (name, &workflow.description, render_workflow_skill(workflow))
        }
        SkillName::Agent(name) => {
            let persona: &Persona = registry.agent(name)?.value.as_ref()?;
            (name, &persona.description, persona.content.clone())
        }
    };
    if !is_valid_skill_name(name) {
        return None;
    }
    let description = match flatten_to_line(description) {
        line if line.is_empty() => format!("The workflow {name}"),
        line => truncate_to_chars(&line, limits::SKILL_DESCRIPTION_CHARS_MAX - 1).into_owned(),
    };
    // A JSON string is also a YAML string, even if its content looks like a number.
    let (front_name, front_description) = (json!(name), json!(description));
    let text = format!(
        "---\nname: {front_name}\ndescription: {front_description}\n---\n\n{}\n",
        body.trim_end()
    );
    Some(SkillFile { name: name.clone(), description, text })
}

/// The text on one line, without control characters, for the front matter.
fn flatten_to_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "")
}

fn render_workflow_skill(workflow: &Workflow) -> String {
    let name = &workflow.name;
    let title = workflow.title.as_deref().map(flatten_to_line);
    let title = title.unwrap_or_else(|| format!("The workflow {name}"));
    let description = &workflow.description;
    let inputs = match &workflow.inputs {
        None => "Any JSON object: say in it what there is to work on.\n".to_owned(),
        Some(inputs) => match &*view::input_views(inputs) {
            [] => "None.\n".to_owned(),
            inputs => inputs.iter().map(describe_input).collect(),
        },
    };
    format!(
        "# {title}\n\n{description}\n\nmidex leads through the workflow `{name}` step by step, and keeps the place through restarts.\n\n\
         ## Inputs\n\n{inputs}\n## How to start it\n\n{START_INSTRUCTIONS}"
    )
}

/// The line that describes an input.
fn describe_input(input: &InputView) -> String {
    let kind = input.schema["type"].as_str().unwrap_or("any type");
    let mut line = format!("- `{}` ({kind}", input.name);
    let literal = input.default.as_ref();
    let literal = literal.filter(|default| default.from == DefaultFrom::Literal);
    let default_note = match literal.and_then(|default| default.value.as_ref()) {
        _ if input.required => "required".to_owned(),
        Some(value) => format!("{value} without it"),
        None => "may be left out".to_owned(),
    };
    line.extend([", ", &default_note]);
    if let Value::Array(values) = &input.schema["enum"] {
        let values: Vec<_> = values.iter().map(Value::to_string).collect();
        line.extend([", one of ", &values.join(", ")]);
    }
    line.push(')');
    let words = input.description.as_deref().map(flatten_to_line);
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        line.extend([": ", &words]);
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_has_a_name_that_the_specification_allows() {
        let longest = "x".repeat(limits::SKILL_NAME_BYTES_MAX);
        for name in ["a", "bug-fix", "v2-1", &longest] {
            assert!(is_valid_skill_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "é", &format!("{longest}x")] {
            assert!(!is_valid_skill_name(name), "{name}");
        }
    }
}
