//! The findings of a merged document as those of the heir's file.

use std::collections::HashSet;

use super::{
    super::{
        finding::{Finding, Place},
        grammar::{EXTENDS, STEPS},
    },
    Removed,
};

/// Which parts of a merged document the heir says, and where.
#[derive(Debug)]
pub struct Says {
    /// Where each of its steps stands in the heir's own file; `None` for a step of the base.
    pub(super) paths: Vec<Option<String>>,
    /// The steps that the heir removes, with the path and the place where it says so.
    pub(super) removed: Removed,
    /// Where the heir names its base.
    pub(super) extends: Place,
}

impl Says {
    /// The findings of the result as those of the heir's file: with the paths that it has there, and what is found in parts
    /// of a base at the words of the heir that led to it. What the base was found to have by itself, `of_base`, is told
    /// there. `bases` are the names of the base, of that one's base, and so on.
    pub fn settle(
        &self,
        findings: Vec<Finding>,
        of_base: &[Finding],
        bases: &[String],
    ) -> Vec<Finding> {
        let key = |one: &Finding, origin: u8| (one.rule, origin, one.line, one.column);
        let known: HashSet<_> = of_base.iter().map(|one| key(one, one.origin + 1)).collect();
        let mut seen = HashSet::new();
        findings
            .into_iter()
            .filter(|one| one.origin == 0 || !known.contains(&key(one, one.origin)))
            .map(|one| match one.origin {
                0 => self.with_own_path(one),
                _ => self.at_its_cause(one, bases),
            })
            // What is inserted stands in the result and under `insert`.
            .filter(|one| seen.insert((key(one, 0), one.path.clone(), one.message.clone())))
            .collect()
    }

    /// The finding with the path that its step has in the heir's file.
    fn with_own_path(&self, mut finding: Finding) -> Finding {
        let rest = finding.path.strip_prefix(STEPS);
        let split = rest.and_then(|rest| rest.strip_prefix('[')?.split_once(']'));
        let own = split.and_then(|(at, rest)| {
            let own = self.paths.get(at.parse::<usize>().ok()?)?.as_ref()?;
            Some(format!("{own}{rest}"))
        });
        // All steps together, where the heir has none of its own, are those of its base.
        let is_inherited = finding.path == STEPS && finding.start == self.extends.start;
        finding.path = match own {
            None if is_inherited => EXTENDS.to_owned(),
            own => own.unwrap_or(finding.path),
        };
        finding
    }

    /// The finding about a part of a base, which has none by itself, at what the heir says: the removal of a step that it
    /// names, else `extends`.
    fn at_its_cause(&self, mut finding: Finding, bases: &[String]) -> Finding {
        let names = |id: &&String| finding.message.contains(&format!("`{id}`"));
        let cause = self.removed.keys().find(names);
        let cause = cause.and_then(|id| self.removed.get(id));
        let (path, place) = match cause {
            Some((path, place)) => (path.as_str(), *place),
            None => (EXTENDS, self.extends),
        };
        let base = bases.get(usize::from(finding.origin) - 1);
        let base = base.map_or("its base", String::as_str);
        finding.message = format!("{} (line {} of `{base}`)", finding.message, finding.line);
        let hint = format!(
            "`{base}` by itself is sound: change what this file says otherwise, or replace that step too"
        );
        finding.suggestion = Some(finding.suggestion.unwrap_or(hint));
        finding.moved(path, place)
    }
}
