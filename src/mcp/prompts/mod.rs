//! Prompts: four for authors, and one per workflow that starts it. None of them names a destructive tool.

mod author;
mod page;
mod run;

use std::collections::HashMap;

use rmcp::model::{Implementation, Prompt, PromptArgument};
use serde_json::{Map, Value};

use self::page::PromptText;
use super::{
    profile::ToolProfile,
    tools::{Spelling, Toolset},
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    limits,
    nearest::find_nearest,
};
use midex_registry::Registry;
use midex_server::app::App;

/// The name prefix of the prompts that start workflows, so that they cannot hide other prompts.
const RUN_PROMPT_PREFIX: &str = "run.";

/// A prompt for authors.
struct PromptSpec {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Each with its name, its description, and whether it is required.
    arguments: &'static [(&'static str, &'static str, bool)],
}

/// The argument that takes a definition.
const MANIFEST_ARGUMENT: (&str, &str, bool) =
    ("manifest", "The text of a manifest, or the id of a workflow", true);

const AUTHOR_PROMPTS: &[PromptSpec] = &[
    PromptSpec {
        name: "workflow.author",
        title: "Write a workflow",
        description: "Writes a new workflow for a goal, as one manifest in YAML",
        arguments: &[
            ("goal", "What the workflow is to achieve", true),
            ("target_system", "The system that it works on", false),
            ("constraints", "What it must keep to", false),
        ],
    },
    PromptSpec {
        name: "workflow.extend",
        title: "Change a workflow",
        description: "Changes a manifest, and keeps its order, its comments and its ids",
        arguments: &[MANIFEST_ARGUMENT, ("change_request", "What is to be different", true)],
    },
    PromptSpec {
        name: "workflow.fix_validation",
        title: "Correct a workflow",
        description: "Corrects every violation of a manifest",
        arguments: &[
            MANIFEST_ARGUMENT,
            ("violations", "As they were told; those that the check finds are added", false),
        ],
    },
    PromptSpec {
        name: "workflow.run_with_inputs",
        title: "Fill in the inputs of a workflow",
        description: "Comes to the inputs of a workflow, or to one question for each that is missing",
        arguments: &[
            MANIFEST_ARGUMENT,
            ("partial_inputs", "What is known, as a JSON object", false),
        ],
    },
];

/// The prompts that one client is offered.
#[derive(Clone, Copy)]
pub(super) struct PromptOffer {
    has_author_prompts: bool,
    has_run_prompts: bool,
    spelling: Spelling,
}

impl PromptOffer {
    pub(super) fn for_client(profile: ToolProfile, client: Option<&Implementation>) -> Self {
        Self {
            has_author_prompts: profile.toolsets.contains(Toolset::Author),
            has_run_prompts: profile.toolsets.contains(Toolset::Run),
            spelling: profile.choose_spelling(client),
        }
    }

    fn offered_specs(self) -> impl Iterator<Item = &'static PromptSpec> {
        AUTHOR_PROMPTS.iter().filter(move |_| self.has_author_prompts)
    }

    /// The prompts, as they are listed.
    pub(super) fn list_prompts(self, registry: &Registry) -> Vec<Prompt> {
        let prompt = |spec: &PromptSpec| {
            let arguments = spec.arguments.iter().map(|(name, words, required)| {
                let argument = PromptArgument::new(*name).with_description(*words);
                argument.with_required(*required)
            });
            let name = self.spelling.spell_name(spec.name);
            Prompt::new(name, Some(spec.description), Some(arguments.collect()))
                .with_title(spec.title)
        };
        let mut prompts: Vec<_> = self.offered_specs().map(prompt).collect();
        let workflows = registry.workflows().filter(|_| self.has_run_prompts);
        prompts.extend(workflows.filter_map(|entry| {
            let name = self.spelling.spell_name(&format!("{RUN_PROMPT_PREFIX}{}", entry.name));
            Some(run::build_workflow_prompt(name, &entry.value.as_ref()?.workflow))
        }));
        // Two workflow ids may map to the same name when dots become underscores. The first one keeps it.
        let mut seen_names = std::collections::HashSet::new();
        prompts.retain(|prompt| seen_names.insert(prompt.name.clone()));
        prompts
    }

    /// The text of a prompt.
    ///
    /// # Errors
    /// `PROMPT_NOT_FOUND`, `ARGUMENTS_INVALID`; as [`App::find_valid_definition`].
    pub(super) async fn build_prompt_text(
        self,
        app: &App,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<String> {
        let page = PromptText::new(self.spelling);
        if let Some(spec) = self.offered_specs().find(|spec| is_prompt_name(spec.name, name)) {
            let prompt_arguments = PromptArguments::from_map(spec, arguments)?;
            return match spec.name {
                "workflow.author" => {
                    author::build_author_prompt(app, page, &prompt_arguments).await
                }
                "workflow.extend" => {
                    author::build_extend_prompt(app, page, &prompt_arguments).await
                }
                "workflow.fix_validation" => {
                    author::build_fix_prompt(app, page, &prompt_arguments).await
                }
                _ => run::build_inputs_prompt(app, page, &prompt_arguments).await,
            };
        }
        let registry = app.registry().await?;
        let id = self
            .find_prompt_workflow(&registry, name)
            .ok_or_else(|| self.unknown_prompt_error(&registry, name))?;
        run::build_start_prompt(app, page, id, arguments).await
    }

    /// Completions for an argument of a prompt.
    ///
    /// # Errors
    /// `PROMPT_NOT_FOUND`.
    pub(super) async fn complete_argument(
        self,
        app: &App,
        name: &str,
        argument: &str,
    ) -> Result<Vec<String>> {
        let registry = app.registry().await?;
        if self.offered_specs().any(|spec| is_prompt_name(spec.name, name)) {
            let ids = registry.workflows().map(|entry| entry.name.clone());
            return Ok(if argument == MANIFEST_ARGUMENT.0 { ids.collect() } else { Vec::new() });
        }
        let id = self
            .find_prompt_workflow(&registry, name)
            .ok_or_else(|| self.unknown_prompt_error(&registry, name))?;
        Ok(run::list_allowed_values(&registry, &id, argument))
    }

    /// The workflow that the prompt of this name starts.
    fn find_prompt_workflow(self, registry: &Registry, name: &str) -> Option<String> {
        let mut usable =
            registry.workflows().filter(|entry| self.has_run_prompts && entry.value.is_some());
        let matches = usable
            .find(|entry| is_prompt_name(&format!("{RUN_PROMPT_PREFIX}{}", entry.name), name));
        matches.map(|entry| entry.name.clone())
    }

    fn unknown_prompt_error(self, registry: &Registry, name: &str) -> Error {
        let short_name: String = name.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
        let all = self.list_prompts(registry);
        let nearest = find_nearest(name, all.iter().map(|prompt| &*prompt.name));
        let hint = nearest.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        let message = format!("there is no prompt `{short_name}`{hint}");
        Error::new(Code::PromptNotFound, message)
    }
}

/// Whether the name is that of this prompt, in either spelling.
fn is_prompt_name(dotted: &str, name: &str) -> bool {
    dotted == name || Spelling::Underscored.spell_name(dotted) == name
}

/// The arguments of an author prompt, by name.
struct PromptArguments(HashMap<String, String>);

impl PromptArguments {
    fn from_map(spec: &PromptSpec, arguments: Map<String, Value>) -> Result<Self> {
        let mut values = HashMap::new();
        let mut violations = Vec::new();
        for (name, value) in arguments {
            if !spec.arguments.iter().any(|(known, ..)| *known == name) {
                let message = format!("the prompt {} has no argument `{name}`", spec.name);
                violations.push(Violation::new(
                    format!("/{name}"),
                    "additionalProperties",
                    message,
                ));
            }
            values.insert(name, page::format_argument(value));
        }
        let is_missing = |name: &&str| values.get(*name).is_none_or(|text| text.trim().is_empty());
        let required = spec.arguments.iter().filter(|(_, _, required)| *required);
        violations.extend(required.map(|(name, ..)| *name).filter(is_missing).map(|name| {
            let message = format!("the prompt {} needs `{name}`", spec.name);
            Violation::new(format!("/{name}"), "required", message)
        }));
        match violations.first() {
            None => Ok(Self(values)),
            Some(first) => Err(Error::new(Code::ArgumentsInvalid, first.message.clone())
                .with_context("tool", "prompts/get")
                .with_violations(violations)),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let text = self.0.get(name).map(|text| text.trim());
        text.filter(|text| !text.is_empty())
    }
}
