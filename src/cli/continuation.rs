//! Finds the command with which a person continues an execution that has ended.

use super::{
    command::quote_operand,
    link::{is_final_state, offers_retry},
    waits::WaitAction,
};
use midex_domain::view::StatusView;

/// The command that leads to the latest retry of an execution that did not complete, or that retries it; `None` if it
/// is open or completed, or a child, whose parent is retried.
pub(super) fn find_continuation(status: &StatusView) -> Option<WaitAction> {
    if !is_final_state(&status.state) || !offers_retry(&status.state, status.parent.as_deref()) {
        return None;
    }
    let id = status.execution_id.as_str();
    let (verb, id, effect) = match find_latest_retry(id, &status.forks) {
        // The server may refuse another retry. `midex show` of the latest one says how to continue that.
        Some(retry) => ("show", retry, "its latest retry, which continues it"),
        None => ("retry", id, "continues it in a new execution"),
    };
    Some(WaitAction { command: format!("midex {verb} {}", quote_operand(id)), effect })
}

/// The retry with the highest number among the forks of an execution. Named forks are not retries.
fn find_latest_retry<'a>(id: &str, forks: &'a [String]) -> Option<&'a str> {
    let base = split_retry_id(id).map_or(id, |(base, _)| base);
    let numbered = forks.iter().filter_map(|fork| {
        let (of, number) = split_retry_id(fork)?;
        (of == base).then_some((number, fork.as_str()))
    });
    numbered.max().map(|(_, fork)| fork)
}

/// The id of a retry as the id of the first execution and a number: `j1~2` is `j1` and 2.
fn split_retry_id(id: &str) -> Option<(&str, u32)> {
    let (base, number) = id.rsplit_once('~')?;
    Some((base, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_retry_has_the_highest_number() {
        let forks = ["exec_1", "j1~10", "j1~2", "j1~x", "j2~11"].map(str::to_owned);
        assert_eq!(find_latest_retry("j1", &forks), Some("j1~10"));
        assert_eq!(find_latest_retry("j1~9", &forks), Some("j1~10"));
        assert_eq!(find_latest_retry("j3", &forks), None);
    }
}
