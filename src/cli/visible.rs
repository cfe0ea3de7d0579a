//! What is shown on a terminal: see [`crate::domain::visible`].

pub(super) use crate::domain::visible::{is_hidden, is_invisible, marked, visible};
