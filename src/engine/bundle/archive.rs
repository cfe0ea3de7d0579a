//! The file of a bundle: a tar of regular files in one zstd frame with a checksum.
//!
//! midex knows the name of each entry before it reads it, so it accepts exactly the header that it would write itself: a
//! link, a device or another name is no header of any entry.

use std::io::{self, BufRead, Read as _, Write};

use tar::{EntryType, Header};

use midex_domain::{Digest, limits};

const BLOCK_BYTES: usize = 512;

/// The header of an entry: a regular file with the mode 0600, without an owner and a time.
fn build_header(name: &str, bytes: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    Ok(header)
}

/// Writes the entries of a bundle.
pub(super) struct ArchiveWriter<W: Write>(tar::Builder<zstd::Encoder<'static, W>>);

impl<W: Write> ArchiveWriter<W> {
    pub(super) fn new(file: W) -> io::Result<Self> {
        let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self(tar::Builder::new(encoder)))
    }

    pub(super) fn write_entry(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.0.append(&build_header(name, content.len() as u64)?, content)
    }

    pub(super) fn finish(self) -> io::Result<W> {
        self.0.into_inner()?.finish()
    }
}

/// Reads the entries of a bundle.
pub(super) struct ArchiveReader<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> ArchiveReader<R> {
    pub(super) fn new(file: R) -> io::Result<Self> {
        Ok(Self(zstd::Decoder::with_buffer(file)?.single_frame()))
    }

    /// Reads the next entry, which must have this name, and unless it is the manifest, this size and digest.
    pub(super) fn read_entry(
        &mut self,
        name: &str,
        expected: Option<(u64, Digest)>,
    ) -> io::Result<Vec<u8>> {
        let mut block = [0; BLOCK_BYTES];
        self.0.read_exact(&mut block)?;
        let header = Header::from_byte_slice(&block);
        let bytes = expected.map_or_else(|| header.size().unwrap_or_default(), |(bytes, _)| bytes);
        if header.as_bytes() != build_header(name, bytes)?.as_bytes() {
            let found = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            let kind = header.entry_type();
            let message = format!("another header stands there: `{found:?}`, {kind:?}");
            return Err(invalid_data(message));
        }
        if bytes > limits::BUNDLE_ENTRY_BYTES_MAX {
            return Err(invalid_data("it is too large"));
        }
        let mut content = Vec::new();
        (&mut self.0).take(bytes).read_to_end(&mut content)?;
        if content.len() as u64 != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if expected.is_some_and(|(_, digest)| Digest::compute(&content) != digest) {
            return Err(invalid_data("its content has another SHA-256 than the manifest says"));
        }
        self.read_zeros(content.len().wrapping_neg() % BLOCK_BYTES)?;
        Ok(content)
    }

    /// Reads the end of the bundle. Nothing may follow.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.read_zeros(BLOCK_BYTES)?;
        self.read_zeros(BLOCK_BYTES)?;
        // This read also compares the checksum of the frame.
        let has_more = self.0.read(&mut [0])? > 0;
        if has_more || !self.0.finish().fill_buf()?.is_empty() {
            return Err(invalid_data("something follows it"));
        }
        Ok(())
    }

    fn read_zeros(&mut self, count: usize) -> io::Result<()> {
        let mut block = [0; BLOCK_BYTES];
        self.0.read_exact(&mut block[..count])?;
        let is_empty = block == [0; BLOCK_BYTES];
        is_empty.then_some(()).ok_or_else(|| invalid_data("the space behind it is not empty"))
    }
}

/// The error of a bundle that does not have its form.
pub(super) fn invalid_data(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}
