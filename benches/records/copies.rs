//! Exports and backups.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use midex_engine::{Engine, ExportRequest, Redaction, store::Store as _};
use tokio::runtime::Runtime;

use super::{Figures, calls::call_beside, ends_at_once, fill, rig::Rig, share, start};

/// The size of the inputs of an execution, which are a content.
const CONTENT_BYTES: u64 = 250_000;
/// Megabytes that an export writes in a second, at least.
const EXPORT_LEAST: f64 = 50.0;
/// Megabytes of memory that an export may need.
const MEMORY_MOST: f64 = 64.0;
/// Clients that call beside a backup, and how long each waits between two calls.
const CALLS: (usize, Option<Duration>) = (8, Some(Duration::from_millis(40)));
/// So many times as long a call may take beside a backup.
const BACKUP_MOST: f64 = 1.1;

async fn fill_contents(engine: &Engine, bytes: u64) {
    let size = usize::try_from(CONTENT_BYTES).expect("a size");
    fill(engine, 0..bytes / CONTENT_BYTES, 4, start(ends_at_once(), size)).await;
}

/// An export, and zstd alone on the same bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub(crate) fn export_table(runtime: &Runtime, figures: &mut Figures) {
    let bytes = share(64 << 20, 1 << 30);
    println!("\nan export of {} MB of contents\n", bytes / 1_000_000);
    let rig = runtime.block_on(Rig::new());
    runtime.block_on(fill_contents(&rig.engine, bytes));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = dir.path().join("all.midex");
    let (since, redaction) = (None, Redaction::default());
    let request =
        ExportRequest { ids: None, since, redaction, path: path.clone(), replaces_file: false };
    // From now on the peak is that of the export.
    fs::write("/proc/self/clear_refs", "5").expect("the peak is set back");
    let (memory, begin) = (read_memory("VmRSS"), Instant::now());
    runtime.block_on(rig.engine.export(request)).expect("an export");
    let (took, grown) = (begin.elapsed(), read_memory("VmHWM") - memory);
    let alone = compress_alone(&path).expect("a bundle");
    let speed = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
    Figures::print("zstd alone", speed(alone), "MB/s");
    Figures::print("the export", speed(took), "MB/s");
    Figures::print("beside zstd alone", speed(alone) / speed(took), "times as long");
    let name = format!("beside {EXPORT_LEAST} MB/s");
    figures.hold(&name, EXPORT_LEAST / speed(took), "times as long", 1.0);
    figures.hold("memory that the export needed", grown, "MB", MEMORY_MOST);
    runtime.block_on(rig.stop());
}

/// How long the compression of what a bundle holds takes.
fn compress_alone(path: &Path) -> io::Result<Duration> {
    let mut plain = zstd::Decoder::new(BufReader::new(File::open(path)?))?;
    let mut encoder = zstd::Encoder::new(io::sink(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    let (mut buffer, mut took) = (vec![0; 1 << 20], Duration::ZERO);
    loop {
        let read = plain.read(&mut buffer)?;
        if read == 0 {
            return encoder.finish().map(|_| took);
        }
        let begin = Instant::now();
        encoder.write_all(&buffer[..read])?;
        took += begin.elapsed();
    }
}

/// An entry of the status of this process, in MB.
fn read_memory(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line of that name");
    let kilobytes = line.split_whitespace().nth(1).and_then(|figure| figure.parse::<f64>().ok());
    kilobytes.expect("a figure") * 1024.0 / 1e6
}

/// Calls at a fixed rate before, beside and after a backup.
#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub(crate) fn backup_table(runtime: &Runtime, figures: &mut Figures) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let disk = rustix::fs::statvfs(dir.path()).expect("a file system");
    // The store and its copy, which may be twice as large as the contents, and as much for others.
    let long = (disk.f_bavail * disk.f_frsize / 6).min(10 << 30);
    let rig = runtime.block_on(Rig::new());
    let file = runtime.block_on(async {
        fill_contents(&rig.engine, share(64 << 20, long)).await;
        rig.store.sizes().await.expect("the sizes").file_bytes as f64
    });
    println!("\ncalls at a fixed rate beside a backup of {:.1} GB\n", file / 1e9);
    let [alone, beside] = runtime.block_on(async {
        let rest = || tokio::time::sleep(Duration::from_secs(share(3, 60)));
        let before = call_beside(&rig.engine, CALLS, rest()).await.1;
        let begin = Instant::now();
        let backup = rig.engine.back_up(dir.path().join("backup"));
        let (made, beside) = call_beside(&rig.engine, CALLS, backup).await;
        made.expect("a backup");
        Figures::print("the backup", file / 1e6 / begin.elapsed().as_secs_f64(), "MB/s");
        let after = call_beside(&rig.engine, CALLS, rest()).await.1;
        [[before, after].concat(), beside]
    });
    figures.compare("the backup", BACKUP_MOST, &alone, &beside);
    runtime.block_on(rig.stop());
}
