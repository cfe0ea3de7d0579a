//! Loads one file into a definition with its findings, and refuses duplicate names within one directory.

use std::collections::HashMap;

use super::{
    extend::{self, Beside, Used},
    files::DefinitionFile,
    markdown,
    read::{self, StatedName},
    shipped,
    source::is_host_agent_file,
};
use midex_domain::{
    check,
    definition::{Persona, Workflow},
    finding::{Finding, LineTable, Place, Rule, is_broken, sort_and_limit, sort_position},
};

/// The result of loading a file.
#[derive(Clone, Debug)]
pub(super) struct LoadResult<T> {
    /// The file.
    pub(super) file: DefinitionFile,
    /// The name that the file states, or else its file name.
    pub(super) name: String,
    /// Where the file states its name. `None` if it does not.
    pub(super) named_at: Option<Place>,
    /// The definition, if the file has no errors.
    pub(super) value: Option<T>,
    /// All findings, warnings included.
    pub(super) findings: Vec<Finding>,
    /// The workflow names that the check looked up, with the results.
    pub(super) used: Vec<Used>,
    /// The number of values of the definition including its bases. A long text counts as several.
    pub(super) values: usize,
}

impl<T> LoadResult<T> {
    /// Maps the definition.
    pub(super) fn map<U>(self, make: impl FnOnce(T) -> U) -> LoadResult<U> {
        LoadResult {
            file: self.file,
            name: self.name,
            named_at: self.named_at,
            value: self.value.map(make),
            findings: self.findings,
            used: self.used,
            values: self.values,
        }
    }
}

/// Loads a workflow, together with the workflows that it extends.
pub(super) fn load_workflow(file: DefinitionFile, beside: Beside<'_>) -> LoadResult<Workflow> {
    let draft = read::read_draft(&file);
    let is_shipped = shipped::is_shipped_path(&file.path);
    let (mut used, mut values) = (Vec::new(), 0);
    let mut loaded = finish_load(file, draft, |draft| {
        let name = read::workflow_name(&draft);
        let own = name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
        let checked = extend::check(draft, &[own], beside);
        used = checked.used;
        values = checked.document.value_count();
        (name, (checked.workflow, checked.findings))
    });
    (loaded.used, loaded.values) = (used, values);
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
    let of_host = is_host_agent_file(&file.path).then(|| file.path.display().to_string());
    finish_load(file, draft, |draft| {
        let name = read::persona_name(&draft);
        (name, check::check_persona(&draft, of_host))
    })
}

fn finish_load<D, T>(
    file: DefinitionFile,
    draft: Result<(D, Vec<Finding>), Box<Finding>>,
    check: impl FnOnce(D) -> (StatedName, (Option<T>, Vec<Finding>)),
) -> LoadResult<T> {
    let (named, value, mut findings) = match (&file.trouble, draft) {
        // A file that could not be read completely gets only that finding.
        (Some(trouble), _) => (None, None, vec![trouble.clone()]),
        (None, Err(finding)) => (None, None, vec![*finding]),
        (None, Ok((draft, mut findings))) => {
            let (named, (value, more)) = check(draft);
            findings.extend(more);
            (named, value, findings)
        }
    };
    findings = sort_and_limit(findings);
    if !findings.is_empty() {
        let lines = LineTable::new(&file.text);
        for finding in &mut findings {
            finding.locate(&lines);
        }
        // Sort again: a located finding may be some lines below the start of its value.
        findings.sort_by_key(sort_position);
    }
    LoadResult {
        name: named.as_ref().map_or_else(|| file.file_stem(), |(name, _)| name.clone()),
        named_at: named.map(|(_, place)| place),
        value: value.filter(|_| !is_broken(&findings)),
        findings,
        used: Vec::new(),
        values: file.text.len() / 64,
        file,
    }
}

/// If several files of one directory state the same name, only the first one keeps it. The others get an error.
pub(super) fn refuse_duplicates<T>(level: &mut [LoadResult<T>]) {
    let mut first: HashMap<String, String> = HashMap::new();
    for loaded in level {
        let Some(place) = loaded.named_at else {
            continue;
        };
        let path = loaded.file.path.display().to_string();
        if let Some(taken) = first.get(&loaded.name) {
            let message = format!("the name `{}` is taken by {taken}", loaded.name);
            let finding = Finding::new(Rule::DuplicateName, "name", place, message)
                .suggest("give each file a name of its own".to_owned());
            loaded.findings.push(finding);
            loaded.findings.sort_by_key(sort_position);
            loaded.value = None;
        } else {
            first.insert(loaded.name.clone(), path);
        }
    }
}
