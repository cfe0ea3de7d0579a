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
    change::{Changed, Changes, Import, ImportPlan, Requester},
    files::CatalogPaths,
    set::{Catalog, CatalogOperation, OperationMatch, Set},
    settings::{Settings, with_host},
};
