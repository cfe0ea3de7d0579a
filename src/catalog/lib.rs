//! OpenAPI catalogs for midex (internal: no semver promise).
//!
//! Operations of others that a workflow may ask for (S2): a `run` step names a catalog and an operation of it.
//!
//! The engine asks through [`Operations`], with retries and time limits as the step declares them, and knows nothing of
//! how an operation is called.

pub mod call;
mod catalogs;
mod change;
pub mod document;
mod files;
pub mod media_type;
pub mod operation;
mod set;
mod settings;

pub use self::{
    catalogs::Catalogs,
    change::{By, Changed, Changes, Import, Planned},
    files::Places,
    set::{Catalog, Meant, Named, Set},
    settings::{Settings, with_host},
};
