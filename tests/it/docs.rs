//! What is written for users is so.

mod configuration;
mod errors;
mod house;
mod manual;
mod readme;
pub(crate) mod release;
