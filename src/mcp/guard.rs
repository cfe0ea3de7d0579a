//! Converts a panic in a handler into an error response. rmcp sends no response if a handler panics.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use midex_domain::error::{Error, Result};

/// The outcome of `work`. A panic becomes an error.
pub(super) async fn catch_panic_as_error<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(move |context| {
        // Unwind-safe: after a panic the future is never polled again, so its inconsistent state is never observed.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled,
            Err(_) => Poll::Ready(Err(Error::internal(
                "the call panicked; nothing it had not finished stands",
            ))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        let error = catch_panic_as_error::<()>(async {
            tokio::task::yield_now().await;
            panic!("boom")
        })
        .await
        .expect_err("the panic");
        assert_eq!(error.code(), midex_domain::error::Code::Internal);
        assert_eq!(catch_panic_as_error(async { Ok(1) }).await.expect("no panic"), 1);
    }
}
