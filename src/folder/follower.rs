//! Following files: a thread that looks at them again and again.

use std::{
    sync::{
        OnceLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
};

use midex_domain::limits;

/// Looks every [`limits::DEFINITIONS_LOOK_EVERY`], from [`Follower::begin`] on until it is dropped.
#[derive(Debug, Default)]
pub struct Follower {
    /// Open as long as the thread has a purpose.
    followed: OnceLock<mpsc::Sender<()>>,
}

impl Follower {
    /// Begins to look, in a thread of this name. Whoever has begun does not begin again.
    pub fn begin(&self, name: &str, look: impl Fn() + Send + 'static) {
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
