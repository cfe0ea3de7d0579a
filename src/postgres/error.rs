//! Errors of the database as errors of a store.

use std::error::Error as StdError;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use midex_domain::error::{Code, Error};

/// An error of the database. The message has no values of rows.
pub(crate) fn database_error(error: tokio_postgres::Error) -> Error {
    let Some(refusal) = error.as_db_error() else {
        return unavailable_error("the connection to the database failed", error);
    };
    let code = match refusal.code() {
        state if *state == SqlState::DISK_FULL => Code::StoreFull,
        state if *state == SqlState::DATA_CORRUPTED || *state == SqlState::INDEX_CORRUPTED => {
            Code::StoreCorrupt
        }
        _ => Code::StoreUnavailable,
    };
    let mut message =
        format!("the database refused: {} ({})", refusal.message(), refusal.code().code());
    if *refusal.code() == SqlState::LOCK_NOT_AVAILABLE {
        message += "; a `midex migrate-store` is at work, or a server has been suspended";
    }
    Error::new(code, message).with_source(error)
}

/// An error of getting a connection.
pub(crate) fn pool_error(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => database_error(error),
        error => unavailable_error("the database cannot be reached", error),
    }
}

fn unavailable_error(message: &str, error: impl StdError + Send + Sync + 'static) -> Error {
    let message = format!("{message}: {}", describe_causes(&error));
    Error::new(Code::StoreUnavailable, message).with_source(error)
}

/// An error with its causes, in one line.
fn describe_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Whether the transaction was refused only because others ran beside it, so that it may succeed when it is repeated.
pub(crate) fn is_serialization_failure(error: &tokio_postgres::Error) -> bool {
    let state = error.code();
    state == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
        || state == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}
