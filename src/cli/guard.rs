//! `midex agent-guard` (internal): runs the command of `midex run --agent` for a parent process. When the parent ends,
//! in any way, it ends the command with all processes that it started.
//!
//! The parent writes the length of the task in a line, then the task, to standard input, and keeps the pipe open. The
//! command is in the process group of this process. While it runs, a locked record file names the group, by which
//! another `midex run` recognizes it.

use std::{
    fs::{File, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{
    Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    signal::unix::{SignalKind, signal},
};

use midex_domain::{error::describe_io_error, limits};

/// The exit code of a shell that cannot run a command: `midex run` then leaves the step open.
const EXIT_NOT_RUN: u8 = 126;

/// The command to run, and the file that names it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct GuardArgs {
    #[arg(long)]
    record: Option<PathBuf>,
    command: String,
}

/// Runs the command and returns its exit code, or 128 plus the number of the signal that ended it.
pub(super) async fn run_guard(args: GuardArgs) -> u8 {
    match run_agent_command(&args).await {
        Ok(status) => exit_code(status),
        Err(error) => {
            let _ = writeln!(io::stderr(), "midex agent-guard: {}", describe_io_error(&error));
            EXIT_NOT_RUN
        }
    }
}

async fn run_agent_command(args: &GuardArgs) -> io::Result<ExitStatus> {
    // A SIGTERM to the process group ends the command. This process ignores it, to report how the command ended.
    let _terminations = signal(SignalKind::terminate())?;
    let _lock = args.record.as_deref().map(lock_record).transpose()?;
    let mut stdin = BufReader::new(tokio::io::stdin());
    let task = read_task(&mut stdin).await?;
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(&args.command).stdin(Stdio::piped());
    let mut child = shell.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // The command may ignore its input, so a failed write is no error.
        tokio::spawn(async move { pipe.write_all(&task).await });
    }
    let parent_is_gone = async {
        let _ = tokio::io::copy(&mut stdin, &mut tokio::io::sink()).await;
    };
    let exit_status = tokio::select! {
        biased;
        status = child.wait() => Some(status),
        () = parent_is_gone => None,
    };
    let group = rustix::process::getpid();
    if exit_status.is_none() {
        let _ = kill_process_group(group, Signal::TERM);
        let _ = tokio::time::timeout(limits::AGENT_COMMAND_GRACE, child.wait()).await;
    }
    if let Some(record) = &args.record {
        let _ = std::fs::remove_file(record);
    }
    if exit_status.is_none() {
        // End background processes of the command too. This kills the guard itself, which is in the same group.
        let _ = kill_process_group(group, Signal::KILL);
    }
    exit_status.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
}

/// Locks the file and writes the id of this process into it. Fails if another process holds the lock.
fn lock_record(record: &Path) -> io::Result<File> {
    std::fs::create_dir_all(record.parent().unwrap_or(Path::new(".")))?;
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(false).open(record)?;
    file.try_lock()?;
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Reads the length of the task, and then the task.
async fn read_task(stdin: &mut BufReader<tokio::io::Stdin>) -> io::Result<Vec<u8>> {
    let mut length = String::new();
    stdin.read_line(&mut length).await?;
    let length = length.trim().parse().map_err(io::Error::other)?;
    let mut task = Vec::new();
    stdin.take(length).read_to_end(&mut task).await?;
    if task.len() as u64 == length {
        return Ok(task);
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_NOT_RUN)
}

/// The process group that a record file names, if it is alive. Either its leader holds the lock, or the leader is gone
/// and other members remain, so that the number cannot have been reused.
pub(super) fn find_running_group(record: &Path) -> Option<Pid> {
    let mut file = File::open(record).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw)?;
    let has_leader = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let is_orphaned = || test_kill_process(pid).is_err() && test_kill_process_group(pid).is_ok();
    (has_leader || is_orphaned()).then_some(pid)
}
