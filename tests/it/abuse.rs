//! What somebody may try who means harm: tokens made up, names that climb out of their directory, and a look into the
//! log for what others said.

mod canaries;
mod tokens;
mod traversal;
