//! The queue of lines to be written to stderr. A line is queued or dropped, but never waited for: a client that does
//! not read the stderr of its server must not block it. Dropped lines are counted, and the count is logged once stderr
//! is read again.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::rate_limit::LineKindCounts;
use crate::visible::replace_hidden_chars;
use midex_domain::limits;

/// A queue of lines, which a dedicated thread writes.
#[derive(Clone, Debug, Default)]
pub(super) struct LineQueue(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Complete lines to write, at most [`limits::LOG_BYTES_MAX`] bytes.
    text: Vec<u8>,
    /// The number of lines after `text` that were dropped because it was full.
    dropped_count: u64,
    /// Whether the thread is writing, which may block indefinitely.
    is_writing: bool,
    kinds: LineKindCounts,
}

impl LineQueue {
    /// A queue whose lines are written to `out`. If the thread cannot be started, they are dropped.
    pub(super) fn start_writer(out: impl Write + Send + 'static) -> Self {
        let queue = Self::default();
        let writer = queue.clone();
        let thread = std::thread::Builder::new().name("log".into());
        let _ = thread.spawn(move || writer.write_queued_lines(out));
        queue
    }

    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, which includes its line end.
    pub(super) fn push_line(&self, line: &[u8]) {
        self.lock_state().push_or_drop(line);
        self.0.condition.notify_all();
    }

    /// Whether another line of this kind may be logged now. If not, it is counted as left out.
    pub(super) fn admits_kind(&self, kind: String) -> bool {
        let now = now();
        let mut state = self.lock_state();
        state.report_omitted_lines(now);
        let is_admitted = state.kinds.count_line(kind, now);
        // Wake the thread, so that it reports left-out lines at the end of the span even if no line follows.
        self.0.condition.notify_all();
        is_admitted
    }

    /// Waits until all lines are written, for at most `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let mut state = self.lock_state();
        let report = state.kinds.end_span();
        state.push_or_drop(report.as_bytes());
        self.0.condition.notify_all();
        let is_busy = |state: &mut QueueState| state.is_writing || !state.is_empty();
        let _ = self.0.condition.wait_timeout_while(state, limit, is_busy);
    }

    fn write_queued_lines(&self, mut out: impl Write) {
        loop {
            // A closed stderr must not end the server.
            let _ = out.write_all(&self.wait_for_lines()).and_then(|()| out.flush());
            self.lock_state().is_writing = false;
            self.0.condition.notify_all();
        }
    }

    /// Waits for lines to write, and takes them from the queue.
    fn wait_for_lines(&self) -> Vec<u8> {
        let mut state = self.lock_state();
        loop {
            let now = now();
            state.report_omitted_lines(now);
            if !state.is_empty() {
                return state.take_lines();
            }
            let wait_time = state.kinds.time_to_span_end(now).unwrap_or(Duration::MAX);
            let result = self.0.condition.wait_timeout(state, wait_time);
            state = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl QueueState {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.dropped_count == 0
    }

    /// Adds a line, or drops it. After the first dropped line all further ones are dropped, until their count is logged
    /// in their place.
    fn push_or_drop(&mut self, line: &[u8]) {
        let has_room = self.text.len() + line.len() <= limits::LOG_BYTES_MAX;
        if self.dropped_count == 0 && has_room {
            self.text.extend_from_slice(line);
        } else {
            self.dropped_count += 1;
        }
    }

    fn report_omitted_lines(&mut self, now: Instant) {
        if self.kinds.time_to_span_end(now) == Some(Duration::ZERO) {
            let report = self.kinds.end_span();
            self.push_or_drop(report.as_bytes());
        }
    }

    fn take_lines(&mut self) -> Vec<u8> {
        self.is_writing = true;
        let mut text = std::mem::take(&mut self.text);
        let dropped_count = std::mem::take(&mut self.dropped_count);
        if dropped_count > 0 {
            let mut words = String::new();
            let _ = writeln!(
                words,
                "{dropped_count} lines of the log were dropped: nobody was reading stderr"
            );
            text.extend(words.bytes());
        }
        text
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how often a line is logged is no business of the injected clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// Each call of `write` must pass one line.
impl Write for LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = replace_hidden_chars(text.trim_end_matches('\n')) + "\n";
        self.push_line(text.as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

    /// A stderr that blocks until the test reads it.
    struct BlockingPipe(SyncSender<Vec<u8>>);

    impl Write for BlockingPipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(bytes.to_vec());
            sent.map_or(Err(io::ErrorKind::BrokenPipe.into()), |()| Ok(bytes.len()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue_into_pipe() -> (LineQueue, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        (LineQueue::start_writer(BlockingPipe(sender)), receiver)
    }

    fn next_write(receiver: &Receiver<Vec<u8>>) -> String {
        let bytes = receiver.recv_timeout(WRITE_TIMEOUT).expect("a write");
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn unread_lines_are_counted() {
        let (queue, receiver) = queue_into_pipe();
        queue.push_line(b"first\n");
        // The thread now blocks in its write.
        while !queue.lock_state().is_writing {
            std::thread::yield_now();
        }
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        let line_capacity = limits::LOG_BYTES_MAX / line.len();
        for _ in 0..line_capacity + 7 {
            queue.push_line(&line);
        }
        // There would be room for a shorter line, but it would be out of order.
        queue.push_line(b"\n");
        queue.flush(Duration::ZERO);
        assert_eq!(next_write(&receiver), "first\n");
        let output = next_write(&receiver);
        assert_eq!(output.lines().count(), line_capacity + 1);
        let last = output.lines().next_back();
        let words = "9 lines of the log were dropped: nobody was reading stderr";
        assert_eq!(last, Some(words));
        queue.push_line(b"again\n");
        assert_eq!(next_write(&receiver), "again\n");
    }

    #[test]
    fn flush_waits_for_all_lines() {
        let (queue, receiver) = queue_into_pipe();
        let reader = std::thread::spawn(move || {
            (next_write(&receiver), next_write(&receiver), next_write(&receiver)).2
        });
        queue.push_line(b"one\n");
        queue.flush(WRITE_TIMEOUT);
        queue.push_line(b"two\n");
        queue.flush(WRITE_TIMEOUT);
        queue.push_line(b"three\n");
        queue.flush(WRITE_TIMEOUT);
        assert!(queue.lock_state().is_empty() && !queue.lock_state().is_writing);
        assert_eq!(reader.join().expect("a reader"), "three\n");
    }

    #[test]
    fn left_out_lines_are_reported() {
        let (queue, receiver) = queue_into_pipe();
        let kind = || "INFO midex::mcp REFUSED".to_owned();
        let admitted =
            (0..limits::LOG_LINES_OF_A_KIND_MAX + 5).filter(|_| queue.admits_kind(kind()));
        assert_eq!(admitted.count(), limits::LOG_LINES_OF_A_KIND_MAX);
        let flusher = std::thread::spawn(move || queue.flush(WRITE_TIMEOUT));
        assert!(next_write(&receiver).starts_with("5 more lines like `INFO midex::mcp REFUSED` "));
        flusher.join().expect("a flush");
    }
}
