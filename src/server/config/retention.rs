//! Rules of the retention, as flags and configuration files write them.

use std::time::Duration;

use midex_domain::{State, WorkflowName, limits, span::HumanDuration};
use midex_engine::PruneRule;

/// Parses a rule: `older-than=30d keep-last=100`, and `state=failed` or `workflow=NAME` before it if the rule is about a
/// part of the executions.
///
/// # Errors
/// The rule that the text breaks, as a sentence. A rule that keeps nothing is refused.
pub fn parse_retention_rule(text: &str) -> Result<PruneRule, String> {
    let mut rule = PruneRule::default();
    for part in text.split_whitespace() {
        match part.split_once('=').unwrap_or_default() {
            ("state", value) => {
                let state = State::parse(value).filter(|state| state.is_final());
                let unknown = || format!("`{value}` is no state in which an execution has ended");
                rule.state = Some(state.ok_or_else(unknown)?);
            }
            ("workflow", value) => {
                let name = WorkflowName::parse(value).map_err(|error| error.to_string())?;
                rule.workflow = Some(name);
            }
            ("older-than", value) => rule.older_than = Some(parse_age("older-than", value)?),
            ("keep-last", value) => {
                let kept = value.parse().ok().filter(|kept| *kept > 0);
                let kept = kept.ok_or_else(|| format!("`{value}` is no whole number from 1 on"))?;
                rule.keep_last = Some(kept);
            }
            _ => {
                return Err(format!(
                    "`{part}` is no part of a rule: write older-than=30d, keep-last=100, state=failed or workflow=NAME"
                ));
            }
        }
    }
    if rule.older_than.is_none() && rule.keep_last.is_none() {
        return Err(format!("`{text}` needs older-than or keep-last"));
    }
    Ok(rule)
}

/// Parses how often a backup is made.
///
/// # Errors
/// The rule that the text breaks, as a sentence.
pub fn parse_backup_interval(text: &str) -> Result<Duration, String> {
    parse_age("backup-every", text)
}

/// Parses a duration as in a definition, so also in days, of at least [`limits::AGE_MIN`].
fn parse_age(name: &str, text: &str) -> Result<Duration, String> {
    let age = text.parse::<HumanDuration>()?.duration();
    let is_long = age >= limits::AGE_MIN;
    is_long.then_some(age).ok_or_else(|| format!("{name} is at least {:?}", limits::AGE_MIN))
}

/// Puts the rules in the order in which they decide: one about a workflow before one about a state, and the general one last.
pub fn sort_retention_rules(rules: &mut [PruneRule]) {
    rules.sort_by_key(|rule| (rule.workflow.is_none(), rule.state.is_none()));
}
