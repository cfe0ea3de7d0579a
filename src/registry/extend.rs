//! Checks workflows together with the workflows that they extend.

use std::cell::OnceCell;

use super::{files::DefinitionFile, read};
use midex_domain::{
    check::{self, KnownNames},
    definition::Workflow,
    document::Digest,
    draft::{WorkflowDraft, WorkflowFormat},
    error::format_count,
    finding::{Finding, Rule, errors, has_room_for_suggestions, is_broken},
    grammar::{EXTENDS_KEY, has_template},
    inherit::{self, MergedManifest},
    limits,
    node::DocumentNode,
};

/// Looks up workflow files by name.
pub(super) trait Bases {
    /// The file of the workflow of this name.
    fn file(&self, name: &str) -> Option<DefinitionFile>;

    /// Whether there is a workflow of this name.
    fn has(&self, name: &str) -> bool;

    /// The names of all workflows.
    fn names(&self) -> Vec<String>;
}

/// A workflow name that a check looked up, with the result. A cached check stays valid as long as every look-up has the
/// same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) name: String,
    pub(super) meant: BaseMatch,
}

/// The result of looking up a workflow name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BaseMatch {
    /// The workflow is extended: the digest of its file, `None` if it did not exist.
    Base(Option<Digest>),
    /// The workflow is started by a step: whether it existed.
    Child(bool),
}

impl Used {
    /// Whether looking up the name again gives the same result. Always false for a base that did not exist.
    pub(super) fn is_same(&self, bases: &dyn Bases) -> bool {
        match self.meant {
            BaseMatch::Base(None) => false,
            BaseMatch::Base(version) => bases.file(&self.name).map(|file| file.version) == version,
            BaseMatch::Child(was_there) => bases.has(&self.name) == was_there,
        }
    }
}

/// The context that a draft is checked in.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The known agents, and the abilities of the server.
    pub(super) known: KnownNames<'a>,
    /// The workflows that can be extended.
    pub(super) bases: &'a dyn Bases,
}

/// A draft with the result of its check.
#[derive(Debug)]
pub(super) struct Checked {
    /// The workflow, if it has no errors.
    pub(super) workflow: Option<Workflow>,
    /// The findings, located in the draft's own file.
    pub(super) findings: Vec<Finding>,
    /// The document that was checked, merged with its bases.
    pub(super) document: DocumentNode,
    /// The names of its bases, nearest first, then the names of its children.
    pub(super) used: Vec<Used>,
    /// The findings about the merged document, each at its own place. `None` if they equal `findings`.
    found: Option<Vec<Finding>>,
    /// The finding about the chain of its bases, which each of its heirs has too.
    chain: Option<Finding>,
}

impl Checked {
    fn found(&self) -> &[Finding] {
        self.found.as_deref().unwrap_or(&self.findings)
    }
}

/// Checks a draft. `heirs` are the names of the workflows that extend it, down to its own name.
pub(super) fn check(draft: WorkflowDraft, heirs: &[String], beside: Beside<'_>) -> Checked {
    let extends = draft.document.get(EXTENDS_KEY);
    let Some(extends) = extends.filter(|_| draft.form == WorkflowFormat::Manifest) else {
        return alone(draft, beside);
    };
    let (mut used, mut chain) = (Vec::new(), None);
    match base(extends, heirs, beside, &mut used, &mut chain) {
        Ok(base) => {
            let name = extends.as_text().unwrap_or_default().to_owned();
            with_base(draft, (&name, &base), beside, used)
        }
        Err(finding) => {
            let mut findings = check::check_shapes(&draft);
            // If the value of `extends` is not a valid name, it has a finding already.
            let is_told = findings.iter().any(|one| one.path == EXTENDS_KEY);
            if !is_told {
                findings.push(*finding);
            }
            Checked { workflow: None, findings, document: draft.document, used, found: None, chain }
        }
    }
}

fn alone(draft: WorkflowDraft, beside: Beside<'_>) -> Checked {
    let mut used = Vec::new();
    let (workflow, findings) = whole(&draft, beside, &mut used);
    Checked { workflow, findings, document: folded(draft), used, found: None, chain: None }
}

/// Checks a draft whose bases, if any, are merged already, and checks that the workflows its steps start exist.
fn whole(
    draft: &WorkflowDraft,
    beside: Beside<'_>,
    used: &mut Vec<Used>,
) -> (Option<Workflow>, Vec<Finding>) {
    let (workflow, mut findings) = check::check_workflow(draft, beside.known);
    let names = OnceCell::new();
    for field in draft.child_workflow_fields() {
        // A value that is not a valid name has a finding already.
        let is_name = |name: &&str| !name.is_empty() && !has_template(name);
        let Some(name) = field.value.as_text().filter(is_name) else {
            continue;
        };
        let is_there = beside.bases.has(name);
        used.push(Used { name: name.to_owned(), meant: BaseMatch::Child(is_there) });
        if !is_there {
            let message =
                format!("no workflow has the name `{name}`: the step fails when it begins");
            let finding = field.value_finding(Rule::UnknownWorkflow, message);
            let finding =
                finding.suggest("write the name of one that `midex list` shows".to_owned());
            let names = names.get_or_init(|| beside.bases.names()).iter();
            let names = names.map(String::as_str).filter(|_| has_room_for_suggestions(&findings));
            let finding = finding.did_you_mean(field.value.place, name, names);
            findings.push(finding);
        }
    }
    (workflow, findings)
}

/// The document, with the sections of its Markdown body folded into its steps.
fn folded(mut draft: WorkflowDraft) -> DocumentNode {
    inherit::fold_sections_into_steps(&mut draft.document, &draft.sections);
    draft.document
}

fn with_base(
    draft: WorkflowDraft,
    (name, base): (&str, &Checked),
    beside: Beside<'_>,
    mut used: Vec<Used>,
) -> Checked {
    let mut findings = Vec::new();
    let merged = inherit::merge_with_base(&mut findings, &draft.document, (name, &base.document));
    let MergedManifest { mut document, says } = merged;
    inherit::drop_overridden_instructions(&mut document, &draft.sections);
    let draft = WorkflowDraft {
        sections: draft.sections,
        headings: draft.headings,
        ..WorkflowDraft::new(WorkflowFormat::Manifest, document, draft.content)
    };
    let names: Vec<_> = used
        .iter()
        .filter(|used| matches!(used.meant, BaseMatch::Base(_)))
        .map(|used| used.name.clone())
        .collect();
    let (workflow, found) = whole(&draft, beside, &mut used);
    findings.extend(says.map_findings_to_heir(found.clone(), base.found(), &names));
    Checked {
        workflow: workflow.filter(|_| !is_broken(&findings)),
        findings,
        document: folded(draft),
        used,
        found: Some(found),
        chain: None,
    }
}

/// Checks the workflow that `extends` names as a base. All names that are looked up are added to `used`. A finding about
/// the chain of bases is put into `chain` too.
fn base(
    extends: &DocumentNode,
    heirs: &[String],
    beside: Beside<'_>,
    used: &mut Vec<Used>,
    chain: &mut Option<Finding>,
) -> Result<Checked, Box<Finding>> {
    let name = extends.as_text().unwrap_or_default();
    let finding = |rule, message: String| extends.finding(rule, EXTENDS_KEY, message);
    let invalid = |message, hint: String| finding(Rule::InvalidBase, message).suggest(hint);
    let nearer = format!("extend one that is nearer to the first than `{name}`");
    let names: Vec<_> = heirs.iter().cloned().chain([name.to_owned()]).collect();
    let of_chain = if heirs.first().is_some_and(|first| first == name) {
        let message = format!("it extends itself: {}", names.join(" → "));
        let hint = "leave `extends` out of one of them";
        Some(finding(Rule::CyclicBase, message).suggest(hint.to_owned()))
    } else if heirs.iter().any(|heir| heir == name) {
        let message = format!("`{name}` extends itself, so nothing can extend it");
        Some(invalid(message, format!("leave `extends` out of `{name}`")))
    } else if heirs.len() > limits::EXTENDS_DEPTH_MAX {
        let most = limits::EXTENDS_DEPTH_MAX;
        let message = format!("more than {most} workflows stand above it by `extends`");
        let finding = finding(Rule::LimitExceeded, message).suggest(nearer.clone());
        Some(finding.with_expected(format!("at most {most}"), format!("more than {most}")))
    } else {
        None
    };
    if let Some(finding) = of_chain {
        return Err(chain.insert(finding).clone().into());
    }
    let file = beside.bases.file(name);
    used.push(Used {
        name: name.to_owned(),
        meant: BaseMatch::Base(file.as_ref().map(|file| file.version)),
    });
    let Some(file) = file else {
        let finding = finding(Rule::UnknownBase, format!("no workflow has the name `{name}`"))
            .suggest("write the name of one that `midex list` shows".to_owned());
        let names = beside.bases.names();
        let names = names.iter().map(String::as_str);
        return Err(finding.did_you_mean(extends.place, name, names).into());
    };
    let broken = |count| {
        let count = format_count(count, "finding");
        let message = format!("`{name}` has {count}: only a sound workflow can be extended");
        let path = file.path.display();
        let hint = format!("run `midex validate {path}` and mend it first");
        Box::new(invalid(message, hint))
    };
    let (draft, found) = read::read_draft(&file).map_err(|_| broken(1))?;
    if draft.form == WorkflowFormat::Phases {
        let message = format!("`{name}` has phases: only a manifest with steps can be extended");
        return Err(invalid(message, format!("copy what you need of `{name}`")).into());
    }
    let checked = check(draft, &names, beside);
    used.extend(checked.used.iter().cloned());
    if let Some(above) = &checked.chain {
        let finding = above.clone().at_other_place(EXTENDS_KEY, extends.place);
        let is_too_deep = finding.rule == Rule::LimitExceeded;
        let hint = finding.suggestion.clone().filter(|_| !is_too_deep);
        let finding = finding.suggest(hint.unwrap_or(nearer));
        return Err(chain.insert(finding).clone().into());
    }
    match errors(&found).count() + errors(&checked.findings).count() {
        0 => Ok(checked),
        count => Err(broken(count)),
    }
}
