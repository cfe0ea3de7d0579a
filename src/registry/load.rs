//! Loads one file into a definition with its findings, and refuses duplicate names within one directory.

use std::collections::HashMap;

use super::{
    extend::{self, CheckContext, NameLookup},
    files::DefinitionFile,
    markdown,
    read::{self, StatedName},
    shipped,
    source::is_host_agent_file,
};
use midex_domain::{
    check,
    definition::{Persona, Workflow},
    finding::{Finding, LineTable, Place, Rule, has_errors, sort_and_limit, sort_position},
};

/// The result of loading a file.
#[derive(Clone, Debug)]
pub(super) struct LoadResult<T> {
    /// The file.
    pub(super) file: DefinitionFile,
    /// The name that the file states, or else its file name.
    pub(super) name: String,
    /// Where the file states its name. `None` if it does not.
    pub(super) name_place: Option<Place>,
    /// The definition, if the file has no errors.
    pub(super) value: Option<T>,
    /// All findings, warnings included.
    pub(super) findings: Vec<Finding>,
    /// The workflow names that the check looked up, with the results.
    pub(super) name_lookups: Vec<NameLookup>,
    /// The number of values of the definition including its bases. A long text counts as several.
    pub(super) value_count: usize,
}

impl<T> LoadResult<T> {
    /// Maps the definition.
    pub(super) fn map<U>(self, make: impl FnOnce(T) -> U) -> LoadResult<U> {
        LoadResult {
            file: self.file,
            name: self.name,
            name_place: self.name_place,
            value: self.value.map(make),
            findings: self.findings,
            name_lookups: self.name_lookups,
            value_count: self.value_count,
        }
    }
}

/// Loads a workflow, together with the workflows that it extends.
pub(super) fn load_workflow(
    file: DefinitionFile,
    context: CheckContext<'_>,
) -> LoadResult<Workflow> {
    let draft = read::read_draft(&file);
    let is_shipped = shipped::is_shipped_path(&file.path);
    let (mut name_lookups, mut value_count) = (Vec::new(), 0);
    let mut loaded = finish_load(file, draft, |draft| {
        let name = read::find_workflow_name(&draft);
        let own_name = name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
        let checked = extend::check_draft(draft, &[own_name], context);
        name_lookups = checked.name_lookups;
        value_count = checked.document.value_count();
        (name, (checked.workflow, checked.findings))
    });
    (loaded.name_lookups, loaded.value_count) = (name_lookups, value_count);
    if is_shipped {
        // A workflow that is part of midex may require a catalog that the user does not have. That is not an error for
        // the user to fix.
        loaded.findings.retain(|finding| finding.rule != Rule::CatalogRequirement);
    }
    loaded
}

/// Loads an agent.
pub(super) fn load_persona(file: DefinitionFile) -> LoadResult<Persona> {
    let draft = markdown::parse_persona(&file.text).map(|(markdown, warning)| {
        let (draft, mut findings) = read::draft_persona(markdown.front, markdown.body);
        findings.extend(warning);
        (draft, findings)
    });
    let host_path = is_host_agent_file(&file.path).then(|| file.path.display().to_string());
    finish_load(file, draft, |draft| {
        let name = read::find_persona_name(&draft);
        (name, check::check_persona(&draft, host_path))
    })
}

fn finish_load<D, T>(
    file: DefinitionFile,
    draft: Result<(D, Vec<Finding>), Box<Finding>>,
    check: impl FnOnce(D) -> (StatedName, (Option<T>, Vec<Finding>)),
) -> LoadResult<T> {
    let (stated_name, value, mut findings) = match (&file.read_finding, draft) {
        // A file that could not be read completely gets only that finding.
        (Some(trouble), _) => (None, None, vec![trouble.clone()]),
        (None, Err(finding)) => (None, None, vec![*finding]),
        (None, Ok((draft, mut findings))) => {
            let (stated_name, (value, check_findings)) = check(draft);
            findings.extend(check_findings);
            (stated_name, value, findings)
        }
    };
    findings = sort_and_limit(findings);
    if !findings.is_empty() {
        let lines = LineTable::new(&file.text);
        for finding in &mut findings {
            finding.resolve_edits(&lines);
        }
        // Sort again: a located finding may be some lines below the start of its value.
        findings.sort_by_key(sort_position);
    }
    LoadResult {
        name: stated_name.as_ref().map_or_else(|| file.file_stem(), |(name, _)| name.clone()),
        name_place: stated_name.map(|(_, place)| place),
        value: value.filter(|_| !has_errors(&findings)),
        findings,
        name_lookups: Vec::new(),
        value_count: file.text.len() / 64,
        file,
    }
}

/// If several files of one directory state the same name, only the first one keeps it. The others get an error.
pub(super) fn refuse_duplicates<T>(level: &mut [LoadResult<T>]) {
    let mut first_paths: HashMap<String, String> = HashMap::new();
    for loaded in level {
        let Some(place) = loaded.name_place else {
            continue;
        };
        let path = loaded.file.path.display().to_string();
        if let Some(first_path) = first_paths.get(&loaded.name) {
            let message = format!("the name `{}` is taken by {first_path}", loaded.name);
            let finding = Finding::new(Rule::DuplicateName, "name", place, message)
                .suggest("give each file a name of its own".to_owned());
            loaded.findings.push(finding);
            loaded.findings.sort_by_key(sort_position);
            loaded.value = None;
        } else {
            first_paths.insert(loaded.name.clone(), path);
        }
    }
}
