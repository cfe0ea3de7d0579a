//! A thread that polls files for changes.

use std::{
    sync::{
        OnceLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
};

use midex_domain::limits;

/// Polls every [`limits::DEFINITIONS_LOOK_EVERY`], from [`ChangePoller::start_polling`] until it is dropped.
#[derive(Debug, Default)]
pub struct ChangePoller {
    /// Dropping the sender ends the thread.
    stop_sender: OnceLock<mpsc::Sender<()>>,
}

impl ChangePoller {
    /// Starts a thread of this name, which calls `poll` periodically. If it runs already, this has no effect.
    pub fn start_polling(&self, name: &str, poll: impl Fn() + Send + 'static) {
        self.stop_sender.get_or_init(|| {
            let (stop_sender, stop_receiver) = mpsc::channel();
            let interval = limits::DEFINITIONS_LOOK_EVERY;
            let run_polling = move || {
                while stop_receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    poll();
                }
            };
            if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run_polling) {
                tracing::warn!(
                    "there is no thread `{name}`, so changes are only noticed by calls: {error}"
                );
            }
            stop_sender
        });
    }
}
