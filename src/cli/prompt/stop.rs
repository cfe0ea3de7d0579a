//! Handles Ctrl-Z at a prompt: restores the terminal for the shell, stops the process, and continues editing the line
//! afterwards. The line editor's own handling is not used: it would set the terminal again before the stop takes
//! effect.

use std::{
    io::{self, Write as _},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use rustix::{
    process::{Signal, getpgrp, getpid, getsid, kill_process},
    termios::{
        InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    },
};
use rustyline::ExternalPrinter;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// Turns bracketed paste on, as the editor does.
const BRACKETED_PASTE_ON: &str = "\u{1b}[?2004h";
/// Turns bracketed paste off.
const BRACKETED_PASTE_OFF: &str = "\u{1b}[?2004l";

/// Redraws the question and the typed text from outside the editor.
pub(super) type RedrawPrinter = Box<dyn ExternalPrinter + Send>;

/// The terminal modes of the line being read; `None` between lines.
static ACTIVE_READING: Mutex<Option<TerminalModes>> = Mutex::new(None);

/// The printer that redraws the line being read. It is kept once an editor has supplied it.
static REDRAW_PRINTER: Mutex<Option<RedrawPrinter>> = Mutex::new(None);

/// The sender of the registered [`StopRequest`], if any: it receives the next Ctrl-Z.
static STOP_WAITER: Mutex<Option<oneshot::Sender<()>>> = Mutex::new(None);

/// The terminal modes while the line editor is in control.
struct TerminalModes {
    /// The modes before editing, which the shell expects.
    original: Termios,
    /// The modes while a line is edited.
    raw: Termios,
    /// Whether the editor has set its modes, and this module has replaced them with `raw`.
    is_raw_set: bool,
}

/// Installs the handlers of SIGTSTP and SIGCONT, once for the process, because a handler cannot be removed again.
pub(crate) fn install_stop_handlers() {
    static HANDLERS_INSTALLED: Once = Once::new();
    HANDLERS_INSTALLED.call_once(|| {
        let subscribe = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw())).ok();
        if let (Some(mut stop_signals), Some(mut continue_signals)) =
            (subscribe(Signal::TSTP), subscribe(Signal::CONT))
        {
            tokio::spawn(async move {
                loop {
                    tokio::select! {
                        Some(()) = stop_signals.recv() => {
                            let request = lock_stop_waiter().take();
                            if request.is_none_or(|request| request.send(()).is_err()) {
                                stop_process();
                            }
                        }
                        Some(()) = continue_signals.recv() => resume_reading(),
                        else => return,
                    }
                }
            });
        }
    });
}

/// While this value exists, the next Ctrl-Z does not stop the process at once: the holder first releases what other
/// processes need, such as the store, and then calls [`stop_process`].
#[derive(Debug)]
pub(crate) struct StopRequest(oneshot::Receiver<()>);

impl StopRequest {
    /// Registers for the next Ctrl-Z; replaces an earlier request.
    pub(crate) fn new() -> Self {
        install_stop_handlers();
        let (sender, receiver) = oneshot::channel();
        *lock_stop_waiter() = Some(sender);
        Self(receiver)
    }

    /// Waits for the Ctrl-Z; returns at once if it was pressed since [`StopRequest::new`]. Call it again only if it was
    /// cancelled before it returned.
    pub(crate) async fn wait_for_stop(&mut self) {
        if (&mut self.0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for StopRequest {
    fn drop(&mut self) {
        self.0.close();
        lock_stop_waiter().take_if(|sender| sender.is_closed());
        // The holder did not call `wait_for_stop` after this Ctrl-Z, so stop the process now.
        if self.0.try_recv().is_ok() {
            stop_process();
        }
    }
}

fn lock_stop_waiter() -> MutexGuard<'static, Option<oneshot::Sender<()>>> {
    STOP_WAITER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the printer that redraws the line being read when the process continues.
pub(super) fn set_redraw_printer(printer: RedrawPrinter) {
    *REDRAW_PRINTER.lock().unwrap_or_else(PoisonError::into_inner) = Some(printer);
}

/// Reads a line with `read_line`, and handles stops while it runs.
pub(super) fn run_reading<T>(read_line: impl FnOnce() -> T) -> T {
    let Ok(original) = tcgetattr(io::stdin()) else {
        return read_line();
    };
    *lock_active_reading() =
        Some(TerminalModes { raw: make_raw_modes(&original), original, is_raw_set: false });
    let result = read_line();
    lock_active_reading().take();
    result
}

/// Sets the `raw` modes after the editor has set its own: then the terminal sends Ctrl-Z as a signal to the whole job.
/// It must happen after the editor has read the original modes, from which it learns its keys.
pub(super) fn set_raw_modes() {
    if let Some(reading) = &mut *lock_active_reading()
        && !std::mem::replace(&mut reading.is_raw_set, true)
    {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &reading.raw);
    }
}

/// Restores the terminal for good if a line is being read.
pub(super) fn restore_terminal() {
    if let Some(reading) = lock_active_reading().take() {
        set_terminal_modes(&reading.original, &format!("{BRACKETED_PASTE_OFF}\n"));
    }
}

fn lock_active_reading() -> MutexGuard<'static, Option<TerminalModes>> {
    ACTIVE_READING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops this process, with the terminal restored for the shell, until it is continued.
pub(crate) fn stop_process() {
    // Without a job-control shell nothing could continue the process; the kernel does not stop such a process either.
    if getsid(None).is_ok_and(|session| session == getpgrp()) {
        return;
    }
    if let Some(reading) = &*lock_active_reading() {
        set_terminal_modes(&reading.original, BRACKETED_PASTE_OFF);
    }
    // SIGTSTP is caught and no longer stops the process, so send SIGSTOP.
    let _ = kill_process(getpid(), Signal::STOP);
}

/// Sets the `raw` modes again and redraws the question. Does nothing if the editor has not set its modes yet.
fn resume_reading() {
    match &*lock_active_reading() {
        Some(reading) if reading.is_raw_set => set_terminal_modes(&reading.raw, BRACKETED_PASTE_ON),
        _ => return,
    }
    // The redraw is done without the lock on `ACTIVE_READING`: the editor may be slow to draw, and takes that lock when its
    // line ends.
    let mut printer = REDRAW_PRINTER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(printer) = &mut *printer {
        let _ = printer.print(String::new());
    }
}

/// Sets the terminal modes, and writes the escape sequence for pastes. Unlike color, it is also written with color off.
fn set_terminal_modes(modes: &Termios, escape_sequence: &str) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(escape_sequence.as_bytes()).and_then(|()| stdout.flush());
}

/// The modes while a line is edited: those of the editor, but with signals, and with type-ahead kept when a signal
/// arrives. Ctrl-C remains a key for the editor, so the interrupt character is moved to that of quit (Ctrl-\), which
/// then dumps no core.
fn make_raw_modes(original: &Termios) -> Termios {
    let mut raw = original.clone();
    raw.input_modes -= InputModes::BRKINT
        | InputModes::ICRNL
        | InputModes::INPCK
        | InputModes::ISTRIP
        | InputModes::IXON;
    raw.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN;
    raw.local_modes |= LocalModes::ISIG | LocalModes::NOFLSH;
    let quit = raw.special_codes[SpecialCodeIndex::VQUIT];
    raw.special_codes[SpecialCodeIndex::VINTR] = quit;
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw
}
