//! A command at a terminal, as a person sees it.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Once, atomic::AtomicBool, mpsc},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::{PATIENCE, wait};

/// A command at a terminal of 60 columns.
pub struct Terminal {
    pub child: Child,
    pub keys: File,
    pub shown: mpsc::Receiver<String>,
    pub seen: String,
}

impl Terminal {
    pub fn open(command: Command) -> Self {
        Self::open_as(command, "xterm")
    }

    /// A terminal that calls itself `term`.
    pub fn open_as(command: Command, term: &str) -> Self {
        Self::begin(command, term, 60)
    }

    /// A terminal of so many columns.
    pub fn sized(command: Command, columns: u16) -> Self {
        Self::begin(command, "xterm", columns)
    }

    /// A terminal of so many columns that can do no more than print.
    pub fn simple(command: Command, columns: u16) -> Self {
        Self::begin(command, "dumb", columns)
    }

    /// Gives it another size, which its command is told.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).unwrap();
        // Nobody's terminal is told of it by the system.
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    fn begin(mut command: Command, term: &str, columns: u16) -> Self {
        take_interrupts();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let end = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        let child =
            command.env("TERM", term).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keys = File::from(master);
        let shown = read(keys.try_clone().unwrap());
        Self { child, keys, shown, seen: String::new() }
    }

    /// Waits until this is shown; what was shown before it since the last time.
    pub fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(more) => self.seen += &more,
                Err(error) => panic!("`{text}` is not shown ({error}), but {}", self.seen),
            }
        }
    }

    pub fn type_line(&mut self, text: &str) {
        self.type_keys(&format!("{text}\n"));
    }

    /// Types these keys, and no Enter.
    pub fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How the terminal is set.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.keys).unwrap()
    }

    /// Waits until this is asked, and types the answer.
    pub fn answer(&mut self, question: &str, text: &str) {
        self.expect(question);
        self.type_line(text);
    }

    /// Waits until this is asked, and leaves with these keys: what was shown after them.
    #[track_caller]
    pub fn left_at(mut self, question: &str, keys: &str) -> String {
        self.expect(question);
        self.type_keys(keys);
        self.ends(1)
    }

    /// What was still shown before it ended, with this code.
    #[track_caller]
    pub fn ends(self, expected: i32) -> String {
        let (code, shown) = self.end();
        assert_eq!(code, Some(expected), "{shown}");
        shown
    }

    pub fn end(mut self) -> (Option<i32>, String) {
        let code = wait(&mut self.child).code();
        // It ends when nobody holds the other end any more.
        while let Ok(more) = self.shown.recv_timeout(PATIENCE) {
            self.seen += &more;
        }
        (code, std::mem::take(&mut self.seen))
    }
}

/// Makes sure that the commands of tests get SIGINT. A shell starts its background jobs with SIGINT ignored, and every
/// command inherits that; what this process handles itself, a command has the default for.
fn take_interrupts() {
    static IS_TAKEN: Once = Once::new();
    IS_TAKEN.call_once(|| {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(Signal::INT.as_raw(), 130, always)
            .expect("a handler of SIGINT");
    });
}

/// Where a test fails its command ends with it.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut terminal: File) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // It ends with an error once nobody holds the other end.
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            if send.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                break;
            }
        }
    });
    receive
}
