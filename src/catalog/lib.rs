#![doc = include_str!("README.md")]

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
    change::{ChangedOperation, ImportPlan, ImportRequest, OperationChanges, Requester},
    files::CatalogPaths,
    set::{Catalog, CatalogOperation, CatalogSet, OperationMatch},
    settings::{Settings, suggest_url_with_host},
};
