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
    followed: OnceLock<mpsc::Sender<()>>,
}

impl ChangePoller {
    /// Starts a thread of this name, which calls `look` periodically. If it runs already, this has no effect.
    pub fn start_polling(&self, name: &str, look: impl Fn() + Send + 'static) {
        self.followed.get_or_init(|| {
            let (followed, ended) = mpsc::channel();
            let every = limits::DEFINITIONS_LOOK_EVERY;
            let follow = move || {
                while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    look();
                }
            };
            if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(follow) {
                tracing::warn!(
                    "there is no thread `{name}`, so changes are only noticed by calls: {error}"
                );
            }
            followed
        });
    }
}
