//! The integration tests, one binary.

mod registry;
