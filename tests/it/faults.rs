//! The faults that a study found in the system this one is made after (F1 to F25), each shown absent through a real
//! client of the real binary. Those of the knowledge base (F6, F7, F15, F16) and of rule files (F24) have nothing to be
//! shown on: there are neither here.

mod artifacts;
mod definitions;
mod errors;
mod processes;
mod readme;
mod replies;
mod shipped;
mod states;
mod times;
mod tokens;
