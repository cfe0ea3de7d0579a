//! Checks workflows together with the workflows that they extend.

use std::cell::OnceCell;

use super::{files::DefinitionFile, read};
use midex_domain::{
    check::{self, KnownNames},
    definition::{ANY_WORKFLOW, Workflow},
    document::Digest,
    draft::{WorkflowDraft, WorkflowFormat},
    error::format_count,
    finding::{Finding, Rule, filter_errors, has_errors, has_room_for_suggestions},
    grammar::{EXTENDS_KEY, has_template},
    inherit::{self, MergedManifest},
    limits,
    node::DocumentNode,
};

/// Looks up workflow files by name.
pub(super) trait Bases {
    /// The file of the workflow of this name.
    fn find_file(&self, name: &str) -> Option<DefinitionFile>;

    /// Whether there is a workflow of this name.
    fn has_workflow(&self, name: &str) -> bool;

    /// The names of all workflows.
    fn workflow_names(&self) -> Vec<String>;
}

/// A workflow name that a check looked up, with the result. A cached check stays valid as long as every look-up has the
/// same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameLookup {
    pub(super) name: String,
    pub(super) base_match: BaseMatch,
}

/// The result of looking up a workflow name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BaseMatch {
    /// The workflow is extended: the digest of its file, `None` if it did not exist.
    Base(Option<Digest>),
    /// The workflow is started by a step: whether it existed.
    Child(bool),
}

impl NameLookup {
    /// Whether looking up the name again gives the same result. Always false for a base that did not exist.
    pub(super) fn is_current(&self, bases: &dyn Bases) -> bool {
        match self.base_match {
            BaseMatch::Base(None) => false,
            BaseMatch::Base(version) => {
                bases.find_file(&self.name).map(|file| file.version) == version
            }
            BaseMatch::Child(was_there) => bases.has_workflow(&self.name) == was_there,
        }
    }
}

/// The context that a draft is checked in.
#[derive(Clone, Copy)]
pub(super) struct CheckContext<'a> {
    /// The known agents, and the abilities of the server.
    pub(super) known_names: KnownNames<'a>,
    /// The workflows that can be extended.
    pub(super) bases: &'a dyn Bases,
}

/// A draft with the result of its check.
#[derive(Debug)]
pub(super) struct CheckedDraft {
    /// The workflow, if it has no errors.
    pub(super) workflow: Option<Workflow>,
    /// The findings, located in the draft's own file.
    pub(super) findings: Vec<Finding>,
    /// The document that was checked, merged with its bases.
    pub(super) document: DocumentNode,
    /// The names of its bases, nearest first, then the names of its children.
    pub(super) name_lookups: Vec<NameLookup>,
    /// The findings about the merged document, each at its own place. `None` if they equal `findings`.
    merged_findings: Option<Vec<Finding>>,
    /// The finding about the chain of its bases, which each of its heirs has too.
    chain_finding: Option<Finding>,
}

impl CheckedDraft {
    fn merged_findings(&self) -> &[Finding] {
        self.merged_findings.as_deref().unwrap_or(&self.findings)
    }
}

/// Checks a draft. `heirs` are the names of the workflows that extend it, down to its own name.
pub(super) fn check_draft(
    draft: WorkflowDraft,
    heirs: &[String],
    context: CheckContext<'_>,
) -> CheckedDraft {
    let extends = draft.document.get(EXTENDS_KEY);
    let Some(base_node) = extends.filter(|_| draft.form == WorkflowFormat::Manifest) else {
        return check_without_base(draft, context);
    };
    let (mut name_lookups, mut chain_finding) = (Vec::new(), None);
    match check_base(base_node, heirs, context, &mut name_lookups, &mut chain_finding) {
        Ok(base) => {
            let name = base_node.as_text().unwrap_or_default().to_owned();
            check_with_base(draft, (&name, &base), context, name_lookups)
        }
        Err(finding) => {
            let mut findings = check::check_shapes(&draft);
            // If the value of `extends` is not a valid name, it has a finding already.
            let has_extends_finding = findings.iter().any(|one| one.path == EXTENDS_KEY);
            if !has_extends_finding {
                findings.push(*finding);
            }
            CheckedDraft {
                workflow: None,
                findings,
                document: draft.document,
                name_lookups,
                merged_findings: None,
                chain_finding,
            }
        }
    }
}

fn check_without_base(draft: WorkflowDraft, context: CheckContext<'_>) -> CheckedDraft {
    let mut name_lookups = Vec::new();
    let (workflow, findings) = check_merged_draft(&draft, context, &mut name_lookups);
    CheckedDraft {
        workflow,
        findings,
        document: merge_sections(draft),
        name_lookups,
        merged_findings: None,
        chain_finding: None,
    }
}

/// Checks a draft whose bases, if any, are merged already, and checks that the workflows its steps start exist.
fn check_merged_draft(
    draft: &WorkflowDraft,
    context: CheckContext<'_>,
    name_lookups: &mut Vec<NameLookup>,
) -> (Option<Workflow>, Vec<Finding>) {
    let (workflow, mut findings) = check::check_workflow(draft, context.known_names);
    let names = OnceCell::new();
    for child in draft.child_workflow_names() {
        let name = child.value.as_str();
        // A value that is not a valid name has a finding already.
        if name.is_empty() || name == ANY_WORKFLOW || has_template(name) {
            continue;
        }
        let exists = context.bases.has_workflow(name);
        name_lookups
            .push(NameLookup { name: name.to_owned(), base_match: BaseMatch::Child(exists) });
        if !exists {
            let message =
                format!("no workflow has the name `{name}`: the step fails when it begins");
            let finding = child.new_finding(Rule::UnknownWorkflow, message);
            let finding =
                finding.suggest("write the name of one that `midex list` shows".to_owned());
            let names = names.get_or_init(|| context.bases.workflow_names()).iter();
            let names = names.map(String::as_str).filter(|_| has_room_for_suggestions(&findings));
            let finding = finding.did_you_mean(child.place, name, names);
            findings.push(finding);
        }
    }
    (workflow, findings)
}

/// The document, with the sections of its Markdown body folded into its steps.
fn merge_sections(mut draft: WorkflowDraft) -> DocumentNode {
    inherit::merge_sections_into_steps(&mut draft.document, &draft.sections);
    draft.document
}

fn check_with_base(
    draft: WorkflowDraft,
    (name, base): (&str, &CheckedDraft),
    context: CheckContext<'_>,
    mut name_lookups: Vec<NameLookup>,
) -> CheckedDraft {
    let mut findings = Vec::new();
    let merged = inherit::merge_with_base(&mut findings, &draft.document, (name, &base.document));
    let MergedManifest { mut document, origins: says } = merged;
    inherit::drop_overridden_instructions(&mut document, &draft.sections);
    let draft = WorkflowDraft {
        sections: draft.sections,
        headings: draft.headings,
        ..WorkflowDraft::new(WorkflowFormat::Manifest, document, draft.content)
    };
    let names: Vec<_> = name_lookups
        .iter()
        .filter(|used| matches!(used.base_match, BaseMatch::Base(_)))
        .map(|used| used.name.clone())
        .collect();
    let (workflow, merged_findings) = check_merged_draft(&draft, context, &mut name_lookups);
    findings.extend(says.map_findings_to_heir(
        merged_findings.clone(),
        base.merged_findings(),
        &names,
    ));
    CheckedDraft {
        workflow: workflow.filter(|_| !has_errors(&findings)),
        findings,
        document: merge_sections(draft),
        name_lookups,
        merged_findings: Some(merged_findings),
        chain_finding: None,
    }
}

/// Checks the workflow that `extends` names as a base. All names that are looked up are added to `name_lookups`. A finding about
/// the chain of bases is put into `chain_finding` too.
fn check_base(
    extends: &DocumentNode,
    heirs: &[String],
    context: CheckContext<'_>,
    name_lookups: &mut Vec<NameLookup>,
    chain_finding: &mut Option<Finding>,
) -> Result<CheckedDraft, Box<Finding>> {
    let name = extends.as_text().unwrap_or_default();
    let finding = |rule, message: String| extends.new_finding(rule, EXTENDS_KEY, message);
    let invalid = |message, hint: String| finding(Rule::InvalidBase, message).suggest(hint);
    let hint_nearer_base = format!("extend one that is nearer to the first than `{name}`");
    let names: Vec<_> = heirs.iter().cloned().chain([name.to_owned()]).collect();
    let new_chain_finding = if heirs.first().is_some_and(|first| first == name) {
        let message = format!("it extends itself: {}", names.join(" → "));
        let hint = "leave `extends` out of one of them";
        Some(finding(Rule::CyclicBase, message).suggest(hint.to_owned()))
    } else if heirs.iter().any(|heir| heir == name) {
        let message = format!("`{name}` extends itself, so nothing can extend it");
        Some(invalid(message, format!("leave `extends` out of `{name}`")))
    } else if heirs.len() > limits::EXTENDS_DEPTH_MAX {
        let max_depth = limits::EXTENDS_DEPTH_MAX;
        let message = format!("more than {max_depth} workflows stand above it by `extends`");
        let finding = finding(Rule::LimitExceeded, message).suggest(hint_nearer_base.clone());
        Some(
            finding.with_expected(format!("at most {max_depth}"), format!("more than {max_depth}")),
        )
    } else {
        None
    };
    if let Some(finding) = new_chain_finding {
        return Err(chain_finding.insert(finding).clone().into());
    }
    let file = context.bases.find_file(name);
    name_lookups.push(NameLookup {
        name: name.to_owned(),
        base_match: BaseMatch::Base(file.as_ref().map(|file| file.version)),
    });
    let Some(file) = file else {
        let finding = finding(Rule::UnknownBase, format!("no workflow has the name `{name}`"))
            .suggest("write the name of one that `midex list` shows".to_owned());
        let names = context.bases.workflow_names();
        let names = names.iter().map(String::as_str);
        return Err(finding.did_you_mean(extends.place, name, names).into());
    };
    let broken_base_finding = |count| {
        let count = format_count(count, "finding");
        let message = format!("`{name}` has {count}: only a sound workflow can be extended");
        let path = file.path.display();
        let hint = format!("run `midex validate {path}` and mend it first");
        Box::new(invalid(message, hint))
    };
    let (draft, draft_findings) = read::read_draft(&file).map_err(|_| broken_base_finding(1))?;
    if draft.form == WorkflowFormat::Phases {
        let message = format!("`{name}` has phases: only a manifest with steps can be extended");
        return Err(invalid(message, format!("copy what you need of `{name}`")).into());
    }
    let checked = check_draft(draft, &names, context);
    name_lookups.extend(checked.name_lookups.iter().cloned());
    if let Some(base_chain_finding) = &checked.chain_finding {
        let finding = base_chain_finding.clone().with_place(EXTENDS_KEY, extends.place);
        let is_too_deep = finding.rule == Rule::LimitExceeded;
        let hint = finding.suggestion.clone().filter(|_| !is_too_deep);
        let finding = finding.suggest(hint.unwrap_or(hint_nearer_base));
        return Err(chain_finding.insert(finding).clone().into());
    }
    match filter_errors(&draft_findings).count() + filter_errors(&checked.findings).count() {
        0 => Ok(checked),
        count => Err(broken_base_finding(count)),
    }
}
