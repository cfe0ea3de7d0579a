//! The file of a bundle: a tar of regular files in one zstd frame with a checksum.
//!
//! Of each entry midex knows the name and the size before it reads it, so it accepts exactly the header that it would write
//! itself: a link, a device or another name is no header of any entry.

use std::io::{self, BufRead, Read, Write};

use sha2::{Digest as _, Sha256};

use midex_domain::Digest;

const BLOCK_BYTES: usize = 512;
/// The fields of a header: where each begins and how long it is.
const NAME_FIELD: (usize, usize) = (0, 100);
const SIZE_FIELD: (usize, usize) = (124, 12);
const CHECKSUM_FIELD: (usize, usize) = (148, 8);
const TYPE_FIELD: usize = 156;

/// The header of an entry: a regular file that its owner may read and write, of nobody, from 1970.
fn build_header(name: &str, bytes: u64) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let mut set = |(start, length): (usize, usize), text: &str| {
        let length = text.len().min(length);
        header[start..start + length].copy_from_slice(&text.as_bytes()[..length]);
    };
    set(NAME_FIELD, name);
    set((100, 8), "0000600");
    set((108, 8), "0000000");
    set((116, 8), "0000000");
    set(SIZE_FIELD, &format!("{bytes:011o}"));
    set((136, 12), "00000000000");
    set(CHECKSUM_FIELD, "        ");
    set((257, 8), "ustar\u{0}00");
    set((TYPE_FIELD, 1), "0");
    let checksum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let (start, length) = CHECKSUM_FIELD;
    header[start..start + length].copy_from_slice(format!("{checksum:06o}\0 ").as_bytes());
    header
}

/// What a header says of its entry, for a message.
fn describe_header(header: &[u8; BLOCK_BYTES]) -> String {
    let name = header[..NAME_FIELD.1].split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let kind = match header[TYPE_FIELD] {
        b'0' | 0 => "the file",
        b'1' | b'2' => "the link",
        b'3' | b'4' | b'6' => "the device",
        b'5' => "the directory",
        _ => "the special entry",
    };
    if header.iter().all(|byte| *byte == 0) {
        return "the end".to_owned();
    }
    format!("{kind} `{}`", name.escape_debug())
}

const fn padding_bytes(bytes: u64) -> usize {
    (bytes.wrapping_neg() % BLOCK_BYTES as u64) as usize
}

/// Writes the entries of a bundle.
pub(super) struct ArchiveWriter<W: Write>(zstd::Encoder<'static, W>);

impl<W: Write> ArchiveWriter<W> {
    pub(super) fn new(file: W) -> io::Result<Self> {
        let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self(encoder))
    }

    /// Begins an entry of this size. The caller writes its content, and then ends it.
    pub(super) fn begin_entry(&mut self, name: &str, bytes: u64) -> io::Result<&mut impl Write> {
        self.0.write_all(&build_header(name, bytes))?;
        Ok(&mut self.0)
    }

    pub(super) fn end_entry(&mut self, bytes: u64) -> io::Result<()> {
        self.0.write_all(&[0; BLOCK_BYTES][..padding_bytes(bytes)])
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.0.write_all(&[0; 2 * BLOCK_BYTES])?;
        self.0.finish()
    }
}

/// Reads the entries of a bundle.
pub(super) struct ArchiveReader<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> ArchiveReader<R> {
    pub(super) fn new(file: R) -> io::Result<Self> {
        Ok(Self(zstd::Decoder::with_buffer(file)?.single_frame()))
    }

    /// Reads the header of the first entry, which must have this name, and returns its size.
    pub(super) fn read_first_header(&mut self, name: &str) -> io::Result<u64> {
        let header = self.read_block()?;
        let (start, length) = SIZE_FIELD;
        let size = str::from_utf8(&header[start..start + length - 1]).ok();
        let size = size.and_then(|size| u64::from_str_radix(size, 8).ok()).unwrap_or_default();
        check_header(&header, name, size)?;
        Ok(size)
    }

    /// Begins to read the entry of this name and size, which must be the next one.
    pub(super) fn begin_entry(
        &mut self,
        name: &str,
        bytes: u64,
    ) -> io::Result<HashingReader<'_, R>> {
        let header = self.read_block()?;
        check_header(&header, name, bytes)?;
        Ok(self.content(bytes))
    }

    /// The content of the entry whose header was read.
    pub(super) fn content(&mut self, bytes: u64) -> HashingReader<'_, R> {
        HashingReader { decoder: &mut self.0, bytes_left: bytes, hasher: Sha256::new() }
    }

    /// Ends an entry that was read whole.
    pub(super) fn end_entry(&mut self, bytes: u64) -> io::Result<()> {
        let mut padding = [0; BLOCK_BYTES];
        let padding = &mut padding[..padding_bytes(bytes)];
        self.0.read_exact(padding)?;
        check_zeros(padding, "the space behind it is not empty")
    }

    /// Reads the end of the bundle. Nothing may follow.
    pub(super) fn finish(mut self) -> io::Result<()> {
        for _ in 0..2 {
            let block = self.read_block()?;
            let found = describe_header(&block);
            check_zeros(&block, &format!("{found} follows the last entry"))?;
        }
        // This read also compares the checksum of the frame.
        let has_more = self.0.read(&mut [0])? > 0;
        if has_more || !self.0.finish().fill_buf()?.is_empty() {
            return Err(invalid_data("something follows the end"));
        }
        Ok(())
    }

    fn read_block(&mut self) -> io::Result<[u8; BLOCK_BYTES]> {
        let mut block = [0; BLOCK_BYTES];
        self.0.read_exact(&mut block)?;
        Ok(block)
    }
}

fn check_header(header: &[u8; BLOCK_BYTES], name: &str, bytes: u64) -> io::Result<()> {
    if *header == build_header(name, bytes) {
        return Ok(());
    }
    Err(invalid_data(format!("{} stands there, with another header", describe_header(header))))
}

fn check_zeros(bytes: &[u8], message: &str) -> io::Result<()> {
    if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(invalid_data(message)) }
}

/// The error of a bundle that does not have its form.
pub(super) fn invalid_data(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Reads the content of an entry, and computes its digest.
pub(super) struct HashingReader<'a, R: BufRead> {
    decoder: &'a mut zstd::Decoder<'static, R>,
    bytes_left: u64,
    hasher: Sha256,
}

impl<R: BufRead> HashingReader<'_, R> {
    /// Reads the rest of the content, and checks the digest of all of it.
    pub(super) fn check_digest(mut self, digest: Digest) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink())?;
        if self.hasher.finalize()[..] == digest.as_bytes()[..] {
            return Ok(());
        }
        Err(invalid_data("its content has another SHA-256 than the manifest says"))
    }
}

impl<R: BufRead> Read for HashingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.bytes_left).map_or(buffer.len(), |n| n.min(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.decoder.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.hasher.update(&buffer[..read]);
        self.bytes_left -= read as u64;
        Ok(read)
    }
}

/// Computes the size and the digest of what is written, and passes it on.
pub(super) struct HashingWriter<W> {
    inner: W,
    bytes: u64,
    hasher: Sha256,
}

impl<W: Write> HashingWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, bytes: 0, hasher: Sha256::new() }
    }

    pub(super) fn finish(self) -> (u64, Digest) {
        (self.bytes, Digest::from_bytes(self.hasher.finalize().into()))
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
