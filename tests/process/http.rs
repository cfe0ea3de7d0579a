//! Streamable HTTP: the real binary, and clients that behave and clients that do not.

mod auth;
mod basics;
mod callers;
mod exposed;
mod hostile;
mod limits;
mod orchestrator;
mod refusals;
mod sessions;
mod shutdown;
mod soak;
