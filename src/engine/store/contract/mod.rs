//! The contract of [`Store`] as a suite of tests for implementers: see [`suite!`]. The stores of midex pass it.
//!
//! This module needs the feature `testing`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is broken panics")]

pub mod deletion;
mod failing_store;
mod import;
mod listing;
pub mod pages;
pub mod purge;
mod reopening;
pub mod script;
mod transitions;

use std::{fmt, path::Path, pin::Pin, sync::Arc};

pub use self::{
    failing_store::{ConflictRule, FailingStore},
    reopening::check_reopening,
};
use super::Store;

/// Every promise that the suite checks, in the order of the suite.
pub const PROMISES: &[Promise] = suite!(@list promises []);

/// One promise of the contract of [`Store`].
pub struct Promise {
    /// The promise in words, which is also the name of its test.
    pub name: &'static str,
    check: CheckFn,
}

type CheckFn = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()>>>;

impl fmt::Debug for Promise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Promise {
    /// Checks the promise on the store that `open_store` opens in an empty directory, in a runtime of one thread.
    ///
    /// # Panics
    /// Where the store breaks the promise.
    pub fn check(&self, open_store: impl AsyncFnOnce(&Path) -> Arc<dyn Store>) {
        run_in_directory(async |directory| (self.check)(open_store(directory).await).await);
    }
}

/// Checks the promise with this name: see [`Promise::check`].
pub fn check_promise(name: &str, open_store: impl AsyncFnOnce(&Path) -> Arc<dyn Store>) {
    let promise = PROMISES.iter().find(|promise| promise.name == name);
    promise.expect("a promise of the suite").check(open_store);
}

/// Runs `work` with an empty directory, which is removed afterwards.
fn run_in_directory(work: impl AsyncFnOnce(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(directory.path()));
}

/// Makes one `#[test]` for each promise of the contract of [`Store`]. The argument opens a store in an empty directory:
/// `async fn(&Path) -> Arc<dyn Store>`. A store that outlives its process passes [`check_reopening`] too.
///
/// ```
/// use std::{path::Path, sync::Arc};
///
/// use midex_engine::store::{MemoryStore, Store, contract};
///
/// async fn open_store(_directory: &Path) -> Arc<dyn Store> {
///     Arc::new(MemoryStore::new())
/// }
///
/// mod keeps_the_contract {
///     midex_engine::store::contract::suite!(super::open_store);
/// }
///
/// // The same without the harness of `cargo test`.
/// for promise in contract::PROMISES {
///     promise.check(open_store);
/// }
/// ```
#[macro_export]
macro_rules! store_contract_suite {
    (@list $expansion:ident $arguments:tt) => {
        $crate::store::contract::suite! { @$expansion $arguments
            transitions::a_committed_transition_is_found
            transitions::an_absent_execution_is_none
            transitions::a_commit_must_follow_the_stored_revision
            transitions::a_commit_that_skips_a_revision_is_refused
            transitions::an_execution_is_created_once
            transitions::one_of_two_racing_commits_wins
            transitions::a_torn_commit_is_refused
            transitions::content_is_stored_by_digest
            transitions::telemetry_has_one_order
            transitions::a_noted_refusal_is_in_the_next_read
            transitions::telemetry_is_filtered_and_bounded
            transitions::refusals_are_bounded
            transitions::due_executions_are_found_earliest_first
            transitions::a_checkpoint_changes_no_answer
            transitions::a_closed_store_refuses
            listing::an_empty_store_lists_nothing
            listing::executions_are_listed_by_their_last_transition
            listing::every_condition_must_hold
            listing::pages_hold_each_execution_once
            listing::an_execution_that_moves_is_on_no_later_page
            listing::an_ended_execution_is_not_listed_as_open
            listing::an_execution_that_ends_in_its_first_row_is_never_open
            listing::a_refused_commit_leaves_an_execution_open
            listing::moving_executions_are_listed_once
            purge::purged_content_is_removed_with_its_rows
            purge::content_that_another_row_names_is_kept
            deletion::a_deleted_execution_leaves_a_tombstone_alone
            deletion::an_execution_that_moved_is_not_deleted
            deletion::a_sweep_frees_what_no_row_names
            import::imported_executions_are_found_and_never_open
            import::an_import_stores_all_executions_or_none
            import::an_import_without_its_rows_leaves_no_content
            import::rows_that_are_not_of_one_execution_are_not_imported
        }
    };
    (@promises [] $($module:ident::$promise:ident)*) => {
        &[$(Promise {
            name: stringify!($promise),
            check: |store| Box::pin($module::$promise(store)),
        }),*]
    };
    (@tests [$open_store:expr] $($module:ident::$promise:ident)*) => {
        $(#[test]
        fn $promise() {
            $crate::store::contract::check_promise(stringify!($promise), $open_store);
        })*
    };
    ($open_store:expr) => {
        $crate::store::contract::suite! { @list tests [$open_store] }
    };
}

#[doc(inline)]
pub use store_contract_suite as suite;
