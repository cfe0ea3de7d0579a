//! The functions for showing text on a terminal: see [`midex_domain::visible`].

pub(super) use midex_domain::visible::{
    is_hidden, is_invisible, mark_hidden_chars, replace_hidden_chars,
};
