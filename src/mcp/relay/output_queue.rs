//! An output queue of bytes.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// An output stream, and the lines that are not written to it yet.
#[derive(Debug)]
pub(super) struct OutputBacklog<W> {
    output: W,
    bytes: Vec<u8>,
    /// How many of the bytes are written.
    written_bytes: usize,
    is_flushed: bool,
}

impl<W: AsyncWrite + Unpin> OutputBacklog<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, bytes: Vec::new(), written_bytes: 0, is_flushed: true }
    }

    /// Queues a line, and adds the line end.
    pub(super) fn push_line(&mut self, line: &[u8]) {
        if self.written_bytes > self.bytes.len() / 2 {
            self.bytes.drain(..self.written_bytes);
            self.written_bytes = 0;
        }
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
    }

    /// Queues these lines.
    pub(super) fn push_lines(&mut self, lines: &[Vec<u8>]) {
        for line in lines {
            self.push_line(line);
        }
    }

    /// How many bytes are queued.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written_bytes
    }

    /// Discards everything that is queued.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.written_bytes, self.is_flushed) = (0, true);
    }

    /// Whether everything is written and flushed.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.is_flushed
    }

    /// Writes as much as the output accepts at once. Cancel-safe: nothing is lost or written twice.
    pub(super) async fn write_available(&mut self) -> io::Result<()> {
        if self.written_bytes < self.bytes.len() {
            let written = self.output.write(&self.bytes[self.written_bytes..]).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written_bytes += written;
            self.is_flushed = false;
        }
        if self.written_bytes == self.bytes.len() {
            self.bytes.clear();
            self.written_bytes = 0;
            self.output.flush().await?;
            self.is_flushed = true;
        }
        Ok(())
    }
}
