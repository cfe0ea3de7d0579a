//! Checks workflows together with the workflows that they extend.

use std::cell::OnceCell;

use super::{files::File, read};
use midex_domain::{
    check::{self, KnownNames},
    definition::Workflow,
    document::Digest,
    draft::{Form, WorkflowDraft},
    finding::{Finding, Rule, errors, has_room, is_broken},
    grammar::{EXTENDS, is_template},
    inherit::{self, Merged},
    limits,
    node::Node,
};

/// Looks up workflow files by name.
pub(super) trait Bases {
    /// The file of the workflow of this name.
    fn file(&self, name: &str) -> Option<File>;

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
    pub(super) document: Node,
    /// The names of its bases, nearest first, then the names of its children.
    pub(super) used: Vec<Used>,
    /// The findings about the merged document, each at its own place. `None` if they equal `findings`.
    found: Option<Vec<Finding>>,
    fault: Option<Fault>,
}

impl Checked {
    fn found(&self) -> &[Finding] {
        self.found.as_deref().unwrap_or(&self.findings)
    }
}

/// The reason why a workflow cannot be extended.
#[derive(Clone, Debug)]
enum Fault {
    Unknown,
    /// The names from the first heir to the name that repeats.
    Cycle(Vec<String>),
    TooDeep,
    /// The workflow has phases instead of steps.
    Phases,
    /// The path of its file, and how many errors it has.
    Broken(String, usize),
}

/// Checks a draft. `heirs` are the names of the workflows that extend it, down to its own name.
pub(super) fn check(draft: WorkflowDraft, heirs: &[String], beside: Beside<'_>) -> Checked {
    let extends = draft.document.get(EXTENDS);
    let Some(extends) = extends.filter(|_| draft.form == Form::Manifest) else {
        return alone(draft, beside);
    };
    let name = extends.text().unwrap_or_default().to_owned();
    let mut used = Vec::new();
    match base(&name, heirs, beside, &mut used) {
        Ok(base) => with_base(draft, (&name, &base), beside, used),
        Err(fault) => {
            let mut findings = check::shapes(&draft);
            // If the value of `extends` is not a valid name, it has a finding already.
            let is_told = findings.iter().any(|one| one.path == EXTENDS);
            if !is_told {
                findings.push(fault.finding(extends, &name, beside.bases));
            }
            Checked {
                workflow: None,
                findings,
                document: draft.document,
                used,
                found: None,
                fault: Some(fault),
            }
        }
    }
}

fn alone(draft: WorkflowDraft, beside: Beside<'_>) -> Checked {
    let mut used = Vec::new();
    let (workflow, findings) = whole(&draft, beside, &mut used);
    Checked {
        workflow,
        findings,
        document: folded(draft),
        used,
        found: None,
        fault: None,
    }
}

/// Checks a draft whose bases, if any, are merged already, and checks that the workflows its steps start exist.
fn whole(
    draft: &WorkflowDraft,
    beside: Beside<'_>,
    used: &mut Vec<Used>,
) -> (Option<Workflow>, Vec<Finding>) {
    let (workflow, mut findings) = check::workflow(draft, beside.known);
    let names = OnceCell::new();
    for field in draft.children() {
        // A value that is not a valid name has a finding already.
        let is_name = |name: &&str| !name.is_empty() && !is_template(name);
        let Some(name) = field.value.text().filter(is_name) else {
            continue;
        };
        let is_there = beside.bases.has(name);
        used.push(Used {
            name: name.to_owned(),
            meant: BaseMatch::Child(is_there),
        });
        if !is_there {
            let message =
                format!("no workflow has the name `{name}`: the step fails when it begins");
            let finding = field.value_finding(Rule::UnknownWorkflow, message);
            let finding =
                finding.suggest("write the name of one that `midex list` shows".to_owned());
            let names = names.get_or_init(|| beside.bases.names()).iter();
            let names = names.map(String::as_str).filter(|_| has_room(&findings));
            let finding = finding.did_you_mean(field.value.place, name, names);
            findings.push(finding);
        }
    }
    (workflow, findings)
}

/// The document, with the sections of its Markdown body folded into its steps.
fn folded(mut draft: WorkflowDraft) -> Node {
    inherit::fold_sections(&mut draft.document, &draft.sections);
    draft.document
}

fn with_base(
    draft: WorkflowDraft,
    (name, base): (&str, &Checked),
    beside: Beside<'_>,
    mut used: Vec<Used>,
) -> Checked {
    let mut findings = Vec::new();
    let merged = inherit::merge(&mut findings, &draft.document, (name, &base.document));
    let Merged { mut document, says } = merged;
    inherit::yield_to_sections(&mut document, &draft.sections);
    let draft = WorkflowDraft {
        sections: draft.sections,
        headings: draft.headings,
        ..WorkflowDraft::new(Form::Manifest, document, draft.content)
    };
    let names: Vec<_> = used
        .iter()
        .filter(|used| matches!(used.meant, BaseMatch::Base(_)))
        .map(|used| used.name.clone())
        .collect();
    let (workflow, found) = whole(&draft, beside, &mut used);
    findings.extend(says.settle(found.clone(), base.found(), &names));
    Checked {
        workflow: workflow.filter(|_| !is_broken(&findings)),
        findings,
        document: folded(draft),
        used,
        found: Some(found),
        fault: None,
    }
}

/// Checks the workflow of this name as a base. All names that are looked up are added to `used`.
fn base(
    name: &str,
    heirs: &[String],
    beside: Beside<'_>,
    used: &mut Vec<Used>,
) -> Result<Checked, Fault> {
    let chain: Vec<_> = heirs.iter().cloned().chain([name.to_owned()]).collect();
    if heirs.iter().any(|heir| heir == name) {
        return Err(Fault::Cycle(chain));
    }
    if heirs.len() > limits::EXTENDS_DEPTH_MAX {
        return Err(Fault::TooDeep);
    }
    let file = beside.bases.file(name);
    used.push(Used {
        name: name.to_owned(),
        meant: BaseMatch::Base(file.as_ref().map(|file| file.version)),
    });
    let file = file.ok_or(Fault::Unknown)?;
    let broken = |count| Fault::Broken(file.path.display().to_string(), count);
    let (draft, found) = read::draft(&file).map_err(|_| broken(1))?;
    if draft.form == Form::Phases {
        return Err(Fault::Phases);
    }
    let checked = check(draft, &chain, beside);
    used.extend(checked.used.iter().cloned());
    match &checked.fault {
        Some(fault @ (Fault::Cycle(_) | Fault::TooDeep)) => Err(fault.clone()),
        _ => match errors(&found).count() + errors(&checked.findings).count() {
            0 => Ok(checked),
            count => Err(broken(count)),
        },
    }
}

impl Fault {
    /// The finding for the workflow that names the base `name` at `extends`.
    fn finding(&self, extends: &Node, name: &str, bases: &dyn Bases) -> Finding {
        let about = |rule, message: String| extends.finding(rule, EXTENDS, message);
        match self {
            Self::Unknown => {
                let message = format!("no workflow has the name `{name}`");
                let finding = about(Rule::UnknownBase, message)
                    .suggest("write the name of one that `midex list` shows".to_owned());
                let names = bases.names();
                finding.did_you_mean(extends.place, name, names.iter().map(String::as_str))
            }
            Self::Cycle(names) if names.first() == names.last() => {
                let message = format!("it extends itself: {}", names.join(" → "));
                about(Rule::CyclicBase, message)
                    .suggest("leave `extends` out of one of them".to_owned())
            }
            Self::Cycle(_) => {
                let message = format!("`{name}` extends itself, so nothing can extend it");
                about(Rule::InvalidBase, message)
                    .suggest(format!("leave `extends` out of `{name}`"))
            }
            Self::TooDeep => {
                let most = limits::EXTENDS_DEPTH_MAX;
                let message = format!("more than {most} workflows stand above it by `extends`");
                about(Rule::LimitExceeded, message)
                    .expected(format!("at most {most}"), format!("more than {most}"))
                    .suggest(format!(
                        "extend one that is nearer to the first than `{name}`"
                    ))
            }
            Self::Phases => {
                let message =
                    format!("`{name}` has phases: only a manifest with steps can be extended");
                about(Rule::InvalidBase, message).suggest(format!("copy what you need of `{name}`"))
            }
            Self::Broken(path, count) => {
                let noun = if *count == 1 { "finding" } else { "findings" };
                let message =
                    format!("`{name}` has {count} {noun}: only a sound workflow can be extended");
                about(Rule::InvalidBase, message)
                    .suggest(format!("run `midex validate {path}` and mend it first"))
            }
        }
    }
}
