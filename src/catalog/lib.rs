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
    change::{By, Changed, Changes, Import, ImportPlan},
    files::Places,
    set::{Catalog, Named, OperationMatch, Set},
    settings::{Settings, with_host},
};
