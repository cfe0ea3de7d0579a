//! What a server writes to stderr: nothing that callers said, and nothing that anybody needs.

mod canaries;
mod stderr;
mod well_known;
