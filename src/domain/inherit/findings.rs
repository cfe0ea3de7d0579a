//! Attributes the findings of a merged document to the heir's file.

use std::collections::HashSet;

use super::{
    super::{
        finding::{Finding, Place},
        grammar::{EXTENDS_KEY, STEPS_KEY},
    },
    RemovedSteps,
};

/// The parts of a merged document that come from the heir, with their places.
#[derive(Debug)]
pub struct HeirOrigins {
    /// For each step its path in the heir's file; `None` for a step of the base.
    pub(super) paths: Vec<Option<String>>,
    /// The steps that the heir removes, with the path and place of the removal.
    pub(super) removed: RemovedSteps,
    /// The place of the `extends` key.
    pub(super) extends: Place,
}

impl HeirOrigins {
    /// Rewrites the findings of the merged document as findings of the heir's file. A finding in a part of the heir
    /// gets its path in that file. A finding in a part of a base is moved to its cause in the heir. Findings that the
    /// base has on its own, `base_findings`, are dropped, because they are reported for the base. `bases` are the names of
    /// the base, of its base, and so on.
    pub fn map_findings_to_heir(
        &self,
        findings: Vec<Finding>,
        base_findings: &[Finding],
        bases: &[String],
    ) -> Vec<Finding> {
        let key = |one: &Finding, origin: u8| (one.rule, origin, one.line, one.column);
        let base_keys: HashSet<_> =
            base_findings.iter().map(|one| key(one, one.origin + 1)).collect();
        let mut seen = HashSet::new();
        findings
            .into_iter()
            .filter(|one| one.origin == 0 || !base_keys.contains(&key(one, one.origin)))
            .map(|one| match one.origin {
                0 => self.use_heir_path(one),
                _ => self.move_to_cause(one, bases),
            })
            // An inserted step is both in the merged document and under `insert`, so its findings occur twice.
            .filter(|one| seen.insert((key(one, 0), one.path.clone(), one.message.clone())))
            .collect()
    }

    /// The finding with the path that its step has in the heir's file.
    fn use_heir_path(&self, mut finding: Finding) -> Finding {
        let rest = finding.path.strip_prefix(STEPS_KEY);
        let split = rest.and_then(|rest| rest.strip_prefix('[')?.split_once(']'));
        let heir_path = split.and_then(|(at, rest)| {
            let step_path = self.paths.get(at.parse::<usize>().ok()?)?.as_ref()?;
            Some(format!("{step_path}{rest}"))
        });
        // A finding about all steps belongs to the base if the heir has no steps of its own.
        let is_inherited = finding.path == STEPS_KEY && finding.start == self.extends.start;
        finding.path = match heir_path {
            None if is_inherited => EXTENDS_KEY.to_owned(),
            heir_path => heir_path.unwrap_or(finding.path),
        };
        finding
    }

    /// Moves a finding in a part of a base to its cause in the heir: the removal of a step that the message names, else
    /// `extends`.
    fn move_to_cause(&self, mut finding: Finding, bases: &[String]) -> Finding {
        let is_named = |id: &&String| finding.message.contains(&format!("`{id}`"));
        let cause = self.removed.keys().find(is_named);
        let cause = cause.and_then(|id| self.removed.get(id));
        let (path, place) = match cause {
            Some((path, place)) => (path.as_str(), *place),
            None => (EXTENDS_KEY, self.extends),
        };
        let base = bases.get(usize::from(finding.origin) - 1);
        let base = base.map_or("its base", String::as_str);
        finding.message = format!("{} (line {} of `{base}`)", finding.message, finding.line);
        let hint = format!(
            "`{base}` by itself is sound: change what this file says otherwise, or replace that step too"
        );
        finding.suggestion = Some(finding.suggestion.unwrap_or(hint));
        finding.with_place(path, place)
    }
}
