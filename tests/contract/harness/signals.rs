//! Signals as the engine takes them.

use midex_domain::{ExecutionId, execution::SignalRequest};
use midex_engine::Engine;

use super::script::Payload;

pub(super) async fn send(engine: &Engine, id: &ExecutionId, name: &str, payload: &Payload<'_>) {
    let signal = match payload {
        Payload::Value(value) => SignalRequest::new(name, value.clone()),
        Payload::Error { code, message } => panic!("no signal brings {code}: {message} yet"),
        Payload::Alive => panic!("no signal is a sign of life yet"),
    };
    engine.apply_command(id, signal).await.expect("a signal");
}
