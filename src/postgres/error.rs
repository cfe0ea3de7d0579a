//! Errors of the database as errors of a store.

use std::error::Error as StdError;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use midex_domain::error::{Code, Error, describe_causes};

const SET_PASSWORD_ACTION: &str = "Set PGPASSWORD, or write HOST:PORT:DATABASE:USER:PASSWORD into the file of PGPASSFILE or into ~/.pgpass (mode 0600)";
const TRUST_CERTIFICATE_ACTION: &str = "Let PGSSLROOTCERT name a file with the certificate of the authority that signed the database's; `?sslmode=disable` in its address turns encryption off";

const ENCRYPT_ACTION: &str =
    "Add `?sslmode=require` to the address of the database, which takes encrypted connections only";

/// An error of the database. The message has no values of rows.
pub(crate) fn database_error(error: tokio_postgres::Error) -> Error {
    let Some(refusal) = error.as_db_error() else {
        let causes = describe_causes(&error);
        let action = if causes.contains("password missing") {
            Some(SET_PASSWORD_ACTION)
        } else {
            causes.contains("TLS").then_some(TRUST_CERTIFICATE_ACTION)
        };
        let error = unavailable_error("the connection to the database failed", error);
        return match action {
            Some(action) => error.with_retryable(false).with_action(action),
            None => error,
        };
    };
    let (state, refusal_text) = (refusal.code().clone(), refusal.message().to_owned());
    let mut message = format!("the database refused: {} ({})", refusal.message(), state.code());
    let code = match state {
        SqlState::DISK_FULL => Code::StoreFull,
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Code::StoreCorrupt,
        _ => Code::StoreUnavailable,
    };
    if state == SqlState::LOCK_NOT_AVAILABLE {
        message += "; another transaction holds the lock, such as that of a `midex migrate-store` or of a suspended server";
    }
    let error = Error::new(code, message).with_source(error);
    match state {
        SqlState::DISK_FULL => error.with_action(
            "Free space on the machine of the database: nothing that was acknowledged is lost",
        ),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            error.with_action("Stop all servers, and restore the database from a backup")
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            error.with_action("Raise max_connections of the database: each server opens up to 11")
        }
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            if refusal_text.contains("no encryption") =>
        {
            error.with_retryable(false).with_action(ENCRYPT_ACTION)
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            error.with_retryable(false).with_action(SET_PASSWORD_ACTION)
        }
        SqlState::INVALID_CATALOG_NAME => error
            .with_retryable(false)
            .with_action("Create the database: `createdb --owner=USER DATABASE`"),
        SqlState::INSUFFICIENT_PRIVILEGE => error
            .with_retryable(false)
            .with_action("Make the user of the address the owner of the database: `ALTER DATABASE NAME OWNER TO USER`"),
        _ => error,
    }
}

/// An error of getting a connection.
pub(crate) fn pool_error(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => database_error(error),
        error => unavailable_error("the database cannot be reached", error),
    }
}

/// The database is silent, or too slow.
pub(crate) fn no_answer_error() -> Error {
    Error::new(Code::StoreUnavailable, "the database did not answer in time")
}

/// Whether a connection that got this error may get it again, although another one would not.
pub(crate) fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

fn unavailable_error(message: &str, error: impl StdError + Send + Sync + 'static) -> Error {
    let message = format!("{message}: {}", describe_causes(&error));
    Error::new(Code::StoreUnavailable, message).with_source(error)
}

/// Whether the transaction was refused only because others ran beside it, so that it may succeed when it is repeated.
pub(crate) fn is_serialization_failure(error: &tokio_postgres::Error) -> bool {
    let state = error.code();
    state == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
        || state == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}
