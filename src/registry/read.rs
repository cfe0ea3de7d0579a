//! Turns parsed documents into drafts. The check of keys and values follows in [`midex_domain::check`].

use std::collections::HashMap;

use super::{
    files::{DefinitionFile, lowercase_extension},
    markdown::{self, Markdown},
    recover, yaml, yaml_fixes,
};
use midex_domain::{
    draft::{PersonaDraft, WorkflowDraft, WorkflowFormat},
    finding::{Finding, Place, Rule},
    grammar,
    id::{AgentName, WorkflowName},
    node::{DocumentNode, LocatedValue, MappingEntry, NodeContent, join_path},
};

/// A name that a file states, with its place.
pub(super) type StatedName = Option<(String, Place)>;

/// The draft of a workflow, with the findings about its overall structure.
///
/// # Errors
/// The finding that explains why the text cannot be read.
pub(super) fn read_draft(
    file: &DefinitionFile,
) -> Result<(WorkflowDraft, Vec<Finding>), Box<Finding>> {
    if let Some(trouble) = &file.read_finding {
        return Err(trouble.clone().into());
    }
    let text = &file.text;
    let extension = lowercase_extension(&file.path);
    let markdown = (extension == "md").then(|| markdown::parse(text)).transpose()?;
    let parsed;
    let document = if let Some(markdown) = &markdown {
        &markdown.front
    } else {
        parsed = match extension.as_str() {
            "json" => yaml::parse_json(text)?,
            _ => yaml::parse(text)?,
        };
        &parsed
    };
    refuse_foreign_document(document)?;
    let (draft, mut findings) = match &markdown {
        Some(markdown) => draft_from_markdown(markdown),
        None => draft_from_manifest(document, text),
    };
    // Collecting the path of every text is expensive and most files have no trailing comments, so look for a `#` first.
    if text.contains(" #") || text.contains("\t#") {
        document.for_each_text("", &mut |node, said, path| {
            findings.extend(yaml_fixes::comment_cut_warning(text, node.place, said, path));
        });
    }
    Ok((draft, findings))
}

/// Refuses documents of other systems as a whole, since findings about their single keys would not help.
fn refuse_foreign_document(document: &DocumentNode) -> Result<(), Box<Finding>> {
    let Some((system, place)) = grammar::foreign::detect_foreign_document(document) else {
        return Ok(());
    };
    let message = format!("this is a document of {system}, which is no workflow of midex");
    let hint = match system {
        "OpenAPI" => "give its operations to workflows with `midex catalog add FILE`",
        _ => "write what it does as a manifest: `midex new workflow NAME` begins one",
    };
    let finding = Finding::new(Rule::ForeignDocument, "", place, message);
    Err(finding.suggest(hint.to_owned()).into())
}

/// The name that a workflow file states.
pub(super) fn read_stated_name(file: &DefinitionFile) -> Option<String> {
    find_workflow_name(&read_draft(file).ok()?.0).map(|(name, _)| name)
}

/// The name that a workflow states, with its place.
pub(super) fn find_workflow_name(draft: &WorkflowDraft) -> StatedName {
    find_stated_name(&draft.document, draft.form.name_key(), |name| {
        WorkflowName::parse(name).is_ok()
    })
}

/// The name that an agent states, with its place.
pub(super) fn find_persona_name(draft: &PersonaDraft) -> StatedName {
    find_stated_name(&draft.front_matter, "name", |name| AgentName::parse(name).is_ok())
}

fn find_stated_name(
    document: &DocumentNode,
    key: &str,
    is_name: impl Fn(&str) -> bool,
) -> StatedName {
    let node = document.get(key)?;
    let name = node.as_text().filter(|text| is_name(text))?;
    Some((name.to_owned(), node.place))
}

/// The draft of a Markdown workflow. Its front matter either lists phases, or is a manifest whose steps take their
/// instructions from sections of the body.
fn draft_from_markdown(file: &Markdown) -> (WorkflowDraft, Vec<Finding>) {
    let (front, body) = (&file.front, &file.body.value);
    let has = |key| front.get(key).is_some();
    if has(WorkflowFormat::Phases.steps_key()) || !(has("workflow") || has("steps")) {
        return draft_workflow(WorkflowFormat::Phases, front, body);
    }
    let (mut draft, findings) = draft_from_manifest(front, body);
    draft.sections.clone_from(&file.sections);
    draft.headings.clone_from(&file.headings);
    (draft, findings)
}

/// The draft of a manifest.
fn draft_from_manifest(document: &DocumentNode, text: &str) -> (WorkflowDraft, Vec<Finding>) {
    draft_workflow(WorkflowFormat::Manifest, document, text)
}

/// The draft of an agent: front matter, and the persona in the body.
pub(super) fn draft_persona(
    front: DocumentNode,
    content: LocatedValue<String>,
) -> (PersonaDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    find_repeated_keys(&mut findings, &front, "");
    (PersonaDraft { front_matter: front, content }, findings)
}

fn draft_workflow(
    form: WorkflowFormat,
    document: &DocumentNode,
    content: &str,
) -> (WorkflowDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    find_repeated_keys(&mut findings, document, "");
    let document = recover::replace_foreign_keywords(&mut findings, document, form);
    let draft = WorkflowDraft::new(form, document, content.to_owned());
    (draft, findings)
}

/// Adds a finding for each key that occurs twice in one mapping, anywhere in the document.
fn find_repeated_keys(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    match &node.content {
        NodeContent::List(items) => {
            for (index, item) in items.iter().enumerate() {
                find_repeated_keys(findings, item, &format!("{path}[{index}]"));
            }
        }
        NodeContent::Map(entries) => {
            let mut first_lines: HashMap<&str, usize> = HashMap::new();
            for entry in entries {
                let path = join_path(path, &entry.key);
                if let Some(line) = first_lines.get(entry.key.as_str()) {
                    findings.push(repeated_key_finding(entry, &path, *line));
                }
                first_lines.entry(&entry.key).or_insert(entry.place.line);
                find_repeated_keys(findings, &entry.value, &path);
            }
        }
        _ => {}
    }
}

fn repeated_key_finding(entry: &MappingEntry, path: &str, first_line: usize) -> Finding {
    let message = format!("`{}` stands twice: first on line {first_line}", entry.key);
    Finding::new(Rule::DuplicateKey, path, entry.place, message)
}
