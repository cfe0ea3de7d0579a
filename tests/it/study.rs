//! What the tests of the system before this one checked (the study's table 4.1), each as a test through a real client
//! of the real binary. Where they refused phases out of order, here the order of the graph holds.
//!
//! Not here, for other tests have it:
//! - expired tokens, repeats, forgeries: `faults::tokens`; bad arguments and token codes: `mcp`
//! - a step may not start before its dependencies, steps that are ready together, out of order, cyclic, unknown,
//!   duplicate dependencies: `faults::definitions`; every shipped workflow: `faults::shipped`
//! - a fresh directory, two servers, end of input: `faults::processes`; one time format: `faults::times`
//! - one token used by many at once, ids with spaces, slashes and Unicode, the protocol's not-found error: `mcp`
//! - kill -9 at any point: `crash`, `model`
//! - conflicts between files of one name, parsing of each field: `registry`
//!
//! Not here, for the product does not have it: findings with a scope and their search (knowledge base), rule files,
//! policies by complexity with time limits and retries.

mod artifacts;
mod content;
mod executions;
mod reload;
mod states;
mod steps;
mod telemetry;
mod tokens;
mod unknown;
