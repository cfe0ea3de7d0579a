//! Control flow as a manifest declares it, from the file to the end of the execution. Under paused time.

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
mod rounds;
mod suggested;
mod told;

use midex_domain::{ExecutionId, execution::Report};

use midex_test::play::{self, Play};

fn id() -> ExecutionId {
    play::id("e")
}

/// A step that a model does, with anything as its output.
const ANY: &str = "result: {}";
