//! Control flow as a manifest declares it, from the file to the end of the execution. Under paused time.

mod asked;
mod asking;
mod branches;
mod crossings;
mod ends;
mod failures;
mod gates;
mod items;
mod joins;
mod memory;
mod offered;
mod outputs;
mod people;
mod rounds;
mod served;
mod suggested;
mod told;

use midex::domain::{ExecutionId, execution::Report};

use crate::support::play::{self, Play};

fn id() -> ExecutionId {
    play::id("e")
}

/// A step that a model does, with anything as its output.
const ANY: &str = "result: {}";
