//! Stops at a prompt: after Ctrl-Z the shell finds the terminal as it was, and the line is edited again once the command
//! goes on. The line editor is not asked: it would set the terminal anew before the stop takes hold.

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

/// Asks the terminal to mark what is pasted, as the editor does.
const PASTES_BRACKETED: &str = "\u{1b}[?2004h";
/// Asks it not to.
const PASTES_PLAIN: &str = "\u{1b}[?2004l";

/// What draws the question and what was typed again, from outside of the editor.
pub(super) type Redraw = Box<dyn ExternalPrinter + Send>;

/// The terminal that a line is read from just now; `None` between the lines.
static READING: Mutex<Option<Reading>> = Mutex::new(None);

/// What draws the line that is being read again; once there is an editor it stays.
static REDRAW: Mutex<Option<Redraw>> = Mutex::new(None);

/// The sender of the registered [`StopRequest`], if there is one: it is sent the next Ctrl-Z.
static WAITING: Mutex<Option<oneshot::Sender<()>>> = Mutex::new(None);

/// A terminal in the hands of the line editor.
struct Reading {
    /// As the shell has it.
    usual: Termios,
    /// As a line is edited.
    raw: Termios,
    /// Whether the editor has set it, and this module after it.
    is_taken: bool,
}

/// Heeds stops from now on, once for the whole process: whoever listens to the signal has it for good.
pub(crate) fn heed() {
    static HEEDED: Once = Once::new();
    HEEDED.call_once(|| {
        let listen = |of: Signal| signal(SignalKind::from_raw(of.as_raw())).ok();
        if let (Some(mut stops), Some(mut goes_on)) = (listen(Signal::TSTP), listen(Signal::CONT)) {
            tokio::spawn(async move {
                loop {
                    tokio::select! {
                        Some(()) = stops.recv() => {
                            let request = waiting().take();
                            if request.is_none_or(|request| request.send(()).is_err()) {
                                stop();
                            }
                        }
                        Some(()) = goes_on.recv() => take_up(),
                        else => return,
                    }
                }
            });
        }
    });
}

/// While this value lives, the next Ctrl-Z does not stop the process at once: its holder first lets go what others need, and
/// then calls [`stop`].
#[derive(Debug)]
pub(crate) struct StopRequest(oneshot::Receiver<()>);

impl StopRequest {
    /// Registers for the next Ctrl-Z, in the place of an earlier request.
    pub(crate) fn new() -> Self {
        heed();
        let (sender, receiver) = oneshot::channel();
        *waiting() = Some(sender);
        Self(receiver)
    }

    /// Waits for the Ctrl-Z; returns at once if it was pressed since [`StopRequest::new`]. To be called again only before it
    /// has returned.
    pub(crate) async fn received(&mut self) {
        if (&mut self.0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for StopRequest {
    fn drop(&mut self) {
        self.0.close();
        waiting().take_if(|sender| sender.is_closed());
        // The holder did not call `received` after this Ctrl-Z, so stop the process now.
        if self.0.try_recv().is_ok() {
            stop();
        }
    }
}

fn waiting() -> MutexGuard<'static, Option<oneshot::Sender<()>>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What draws a line again that is being read when the command goes on.
pub(super) fn redraw_with(redraw: Redraw) {
    *REDRAW.lock().unwrap_or_else(PoisonError::into_inner) = Some(redraw);
}

/// Reads a line with `read` while stops are heeded.
pub(super) fn while_reading<T>(read: impl FnOnce() -> T) -> T {
    let Ok(usual) = tcgetattr(io::stdin()) else {
        return read();
    };
    *of_now() = Some(Reading {
        raw: raw(&usual),
        usual,
        is_taken: false,
    });
    let typed = read();
    of_now().take();
    typed
}

/// Leaves Ctrl-Z to the terminal, which tells the whole job of it, once the editor has set it: the editor learns its keys from how
/// the terminal was before.
pub(super) fn take() {
    if let Some(reading) = &mut *of_now()
        && !std::mem::replace(&mut reading.is_taken, true)
    {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &reading.raw);
    }
}

/// Gives the terminal back for good, where a line was being read from it.
pub(super) fn give_back() {
    if let Some(reading) = of_now().take() {
        lend(&reading.usual, &format!("{PASTES_PLAIN}\n"));
    }
}

fn of_now() -> MutexGuard<'static, Option<Reading>> {
    READING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops this process, with the terminal as its shell knows it, until it goes on.
pub(crate) fn stop() {
    // Nobody could let a job go on that has no shell; by default the system does not stop it either.
    if getsid(None).is_ok_and(|session| session == getpgrp()) {
        return;
    }
    if let Some(reading) = &*of_now() {
        lend(&reading.usual, PASTES_PLAIN);
    }
    // The signal that was caught stops nothing any more.
    let _ = kill_process(getpid(), Signal::STOP);
}

/// Takes the terminal again, and draws what is being asked. Where the editor has not set it yet, that is left to it.
fn take_up() {
    match &*of_now() {
        Some(reading) if reading.is_taken => lend(&reading.raw, PASTES_BRACKETED),
        _ => return,
    }
    // The editor may be slow to draw, and ends its line with the lock of the reading.
    let mut redraw = REDRAW.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(redraw) = &mut *redraw {
        let _ = redraw.print(String::new());
    }
}

/// Sets the terminal, and tells it how pastes come. It is no matter of color, so it is said without one too.
fn lend(modes: &Termios, words: &str) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(words.as_bytes())
        .and_then(|()| stdout.flush());
}

/// How the terminal is set while a line is edited: as the editor sets it, but that it has signals. What was typed ahead outlives
/// them. Ctrl-C is a key of the editor; the terminal interrupts at Ctrl-\, for nobody wants a core file.
fn raw(usual: &Termios) -> Termios {
    let mut raw = usual.clone();
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
