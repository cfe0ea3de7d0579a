//! Names and ids, as people write them and as attackers do.

mod ids;
mod paths;
mod traversal;
