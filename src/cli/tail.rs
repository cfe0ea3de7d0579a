//! `midex tail`: prints the events of executions as they happen.

mod line;
mod window;
mod words;

use std::{
    io::{self, Write},
    path::Path,
    time::SystemTime,
};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;

use self::{line::event_line, window::SeenEvents, words::event_text};
use super::{
    EXIT_OK,
    end_signals::{subscribe_to_signals, wait_for_signal},
    execution_id,
    link::{ServerLink, is_final_state},
    print_warning,
    screen::Screen,
    unwritable_output_error,
    value::json_text,
};
use midex_domain::{
    error::{Error, Result},
    limits,
    telemetry::EventType,
    uri,
};
use midex_server::config::Config;

/// Which events.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TailArgs {
    /// The execution; without it, all executions
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// Number of past events to show; with `--json` they include events that the text output omits, such as token events
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(0..=limits::TELEMETRY_LIMIT_MAX as i64))]
    lines: u16,
    /// Show the past events and exit
    #[arg(long)]
    no_follow: bool,
}

/// Prints events until the execution has ended, the reader of stdout has gone, or a signal arrives.
pub(super) async fn tail(args: TailArgs, config: &Config, json: bool) -> Result<u8> {
    let signals = subscribe_to_signals()?;
    let mut event_tail = EventTail {
        link: ServerLink::new(config),
        data_dir: &config.data_dir,
        execution_id: args.execution_id,
        line_count: args.lines.into(),
        should_follow: !args.no_follow,
        seen_events: SeenEvents::default(),
        printer: EventPrinter { screen: Screen::stdout(), is_json: json },
    };
    let result = tokio::select! {
        ended = event_tail.run() => ended,
        () = wait_for_signal(signals) => Ok(()),
        () = wait_for_reader_gone() => Ok(()),
    };
    let close_result = event_tail.link.close().await;
    match result {
        Err(EarlyEnd::Failed(error)) => Err(error),
        Ok(()) | Err(EarlyEnd::ReaderGone) => close_result.map(|()| EXIT_OK),
    }
}

/// Why the command ends early.
enum EarlyEnd {
    /// The reader of stdout has closed it.
    ReaderGone,
    Failed(Error),
}

impl From<Error> for EarlyEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits until the reader of stdout closes it. A write would notice that only at the next event.
pub(super) async fn wait_for_reader_gone() {
    while !is_reader_gone() {
        tokio::time::sleep(limits::TAIL_EVERY).await;
    }
}

fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    // `poll` reports errors and hang-ups even if no flags are requested.
    let mut poll_fds = [PollFd::new(&stdout, PollFlags::empty())];
    let no_wait = Timespec::default();
    let result = rustix::event::poll(&mut poll_fds, Some(&no_wait));
    let closed_flags = PollFlags::ERR | PollFlags::HUP;
    result.is_ok_and(|count| count > 0) && poll_fds[0].revents().intersects(closed_flags)
}

/// The time of the last write to the store of a data directory.
pub(super) fn read_store_write_time(data_dir: &Path) -> Option<SystemTime> {
    let files = ["executions.redb", "executions.redo"].map(|name| data_dir.join(name));
    let times = files.map(|file| file.metadata().and_then(|file| file.modified()).ok());
    times.into_iter().flatten().max()
}

struct EventTail<'a> {
    link: ServerLink<'a>,
    data_dir: &'a Path,
    execution_id: Option<String>,
    line_count: usize,
    should_follow: bool,
    seen_events: SeenEvents,
    printer: EventPrinter,
}

/// The result of one read of the events.
struct PollResult {
    /// Whether the execution has ended, so that no event can follow.
    has_ended: bool,
    revision: Option<u64>,
    events: Vec<Value>,
}

impl EventTail<'_> {
    async fn run(&mut self) -> Result<(), EarlyEnd> {
        let poll = match (self.poll_events(None).await, &self.execution_id) {
            (Err(error), Some(execution_arg)) if execution_id::is_unknown_execution(&error) => {
                let id = execution_id::resolve_id(&mut self.link, execution_arg, error).await?;
                self.execution_id = Some(id);
                self.poll_events(None).await?
            }
            (poll, _) => poll?,
        };
        let mut since = poll.revision;
        let is_shown = |event: &Value| self.printer.is_json || event_text(event).is_some();
        let events = self.seen_events.take_first_reply(poll.events, self.line_count, is_shown);
        self.printer.print_events(&events, self.execution_id.is_none())?;
        let mut has_ended = poll.has_ended;
        let mut failures = 0;
        while self.should_follow && !has_ended {
            since = since.filter(|_| self.link.is_served());
            self.wait_for_change(since).await?;
            match self.poll_new_events(since).await {
                Ok(poll) => {
                    self.printer.print_events(&poll.events, self.execution_id.is_none())?;
                    (since, has_ended, failures) = (poll.revision, poll.has_ended, 0);
                }
                Err(error) if error.code().retryable() && failures < limits::TAIL_FAILURES_MAX => {
                    failures += 1;
                    since = None;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for a change. Without another process's server, releases the store so that others can open it, and returns
    /// after another process has written to it.
    async fn wait_for_change(&mut self, since: Option<u64>) -> Result<()> {
        let was_embedded = self.link.release_store().await?;
        let last_write = read_store_write_time(self.data_dir);
        loop {
            if since.is_none() {
                tokio::time::sleep(limits::TAIL_EVERY).await;
            }
            if !was_embedded || read_store_write_time(self.data_dir) != last_write {
                return Ok(());
            }
        }
    }

    /// Reads the status of the execution, once it has passed the revision `since`, and then the events. In this order
    /// no event that led to the status is missing.
    async fn poll_events(&mut self, since: Option<u64>) -> Result<PollResult> {
        let status = match (&self.execution_id, since) {
            (None, _) => None,
            (Some(id), None) => Some(self.link.fetch_status(id).await?),
            (Some(id), since) => Some(self.link.wait_for_change(id, since).await?),
        };
        Ok(PollResult {
            has_ended: status
                .as_ref()
                .is_some_and(|status| is_final_state(&status.state) || status.imported),
            revision: status.map(|status| status.revision),
            events: self.read_events(None).await?,
        })
    }

    /// As [`Self::poll_events`], but with only the events that were not seen before.
    async fn poll_new_events(&mut self, since: Option<u64>) -> Result<PollResult> {
        let mut poll = self.poll_events(since).await?;
        if self.seen_events.has_gap(&poll.events) {
            poll.events = self.recover_missed_events(poll.events).await?;
        }
        poll.events = self.seen_events.take_new_events(poll.events);
        Ok(poll)
    }

    /// Reads the events by type, because more were added since the last poll than one reply holds: a reply with a
    /// single type reaches further back.
    async fn recover_missed_events(&mut self, events: Vec<Value>) -> Result<Vec<Value>> {
        let mut merged = events;
        let newest = window::newest_id(&merged);
        let mut has_gap = false;
        for kind in EventType::ALL {
            let mut events = self.read_events(Some(*kind)).await?;
            has_gap |= self.seen_events.has_gap(&events);
            // Leave events that are newer than the first reply to the next poll, to keep them in order.
            events.retain(|event| window::event_id(event) <= newest);
            merged.append(&mut events);
        }
        if has_gap {
            print_warning(
                "more happened between two looks than telemetry shows: some events are missing here",
            );
        }
        Ok(window::sort_events(merged))
    }

    async fn read_events(&mut self, kind: Option<EventType>) -> Result<Vec<Value>> {
        let mut address = "midex://workflow/telemetry".to_owned();
        if let Some(id) = &self.execution_id {
            address = format!("{address}/{}", uri::encode_segment(id));
        }
        address = format!("{address}?limit={}", limits::TELEMETRY_LIMIT_MAX);
        if let Some(kind) = kind {
            address = format!("{address}&event_type={}", kind.as_str());
        }
        match self.link.read_resource(&address).await? {
            Value::Array(events) => Ok(events),
            _ => Err(Error::internal("telemetry is no list")),
        }
    }
}

struct EventPrinter {
    screen: Screen,
    is_json: bool,
}

impl EventPrinter {
    /// Prints events; with `names_execution` they may be of several executions, and name theirs.
    fn print_events(&self, events: &[Value], names_execution: bool) -> Result<(), EarlyEnd> {
        let line = |event| {
            if self.is_json {
                Some(json_text(event, false))
            } else {
                event_line(event, names_execution, &self.screen)
            }
        };
        let text: String = events.iter().filter_map(line).map(|line| line + "\n").collect();
        let mut stdout = io::stdout().lock();
        let result = stdout.write_all(text.as_bytes());
        match result.and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(EarlyEnd::ReaderGone),
            result => Ok(result.map_err(unwritable_output_error)?),
        }
    }
}
