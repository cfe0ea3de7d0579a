//! `midex show`: prints the state of an execution, the visits of its steps and their results, and its final output.

mod next;
mod status;
mod steps;
mod watch;
mod workflow;

use std::fmt::Write as _;

use comfy_table::Table;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{
    EXIT_OK, Output,
    end_signals::{subscribe_to_signals, wait_for_signal},
    execution_id,
    link::ServerLink,
    screen::{Screen, TextStyle, one_line, table_row, truncate_text},
    value::{field_lines, final_output_faults, format_duration, one_line_summary},
    visible::replace_hidden_chars,
    waits::{self, item_number, title_suffix},
    when::parse_past_point,
};
use midex_domain::{
    clock::{Clock, SystemClock, Timestamp},
    error::{Code, Error, Result},
    event::BodyKind,
    id::StepId,
    view::{
        ArtifactView, ExecutionView, FailureView, HistoryRow, PastPoint, ReadyStep, StatusView,
        WaitView,
    },
};
use midex_server::config::Config;

/// The minimum width in columns of a separate column for results; with less room they go on a line below.
const RESULT_COLUMNS_MIN: usize = 40;
/// The prefix of a line that belongs to the line above.
const CONTINUED_LINE_PREFIX: &str = "  └ ";
/// The prefix of the lines of a section.
const SECTION_INDENT: &str = "  ";

/// Which execution.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The execution; without it, the most recently updated one of this project
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// After the word `workflow`: the name of a workflow to show, instead of an execution
    #[arg(value_name = "NAME", requires = "execution_id", conflicts_with_all = ["watch", "visits"])]
    name: Option<String>,
    /// Follow the execution until it ends; a terminal redraws only what changes
    #[arg(long)]
    watch: bool,
    /// Show the execution as it was at this revision, or at this time (2030-01-31T09:00:00Z)
    #[arg(long, value_name = "REVISION|TIME", value_parser = parse_past_point, conflicts_with_all = ["watch", "name"])]
    at: Option<PastPoint>,
    /// List every visit of every step, instead of each step with its latest visit
    #[arg(long)]
    visits: bool,
}

/// How an execution is shown.
struct DisplayOptions<'a> {
    screen: &'a Screen,
    /// The flags that a follow-up command needs to reach the same executions.
    flags: &'a str,
    has_visits: bool,
    /// Whether a server is running, which performs waits and other steps that need no model.
    is_served: bool,
    /// The time of the shown state: now, or that of a past revision.
    now: Timestamp,
    /// For a past state: the revision at which the execution is now.
    latest_revision: Option<u64>,
}

/// Shows an execution, once or, with `--watch`, until it ends. `flags` make follow-up commands reach the same
/// executions.
pub(super) async fn show(
    args: ShowArgs,
    config: &Config,
    flags: String,
    mut out: Output<'_>,
) -> Result<u8> {
    if let Some(name) = &args.name {
        return show_workflow_argument(args.execution_id.as_deref(), name, config, out);
    }
    let signals = subscribe_to_signals()?;
    let mut link = ServerLink::new(config);
    let fetched = fetch_execution(&mut link, args.execution_id.as_deref(), args.at).await;
    if let (Ok((_, execution)), true) = (&fetched, args.watch) {
        let id = &execution.status.execution_id;
        let result = tokio::select! {
            watched = watch::watch_execution(&mut link, id, config, &flags, out.is_json) => watched,
            () = wait_for_signal(signals) => Ok(()),
        };
        link.close().await?;
        return result.map(|()| EXIT_OK);
    }
    let latest = match &fetched {
        Ok((_, past)) if args.at.is_some() && !out.is_json => {
            Some(link.fetch_status(&past.status.execution_id).await)
        }
        _ => None,
    };
    let is_served = link.is_served();
    link.close().await?;
    let (reply, execution) = fetched?;
    let screen = Screen::stdout();
    let past_time = execution.status.updated_at.parse().ok().filter(|_| args.at.is_some());
    let options = DisplayOptions {
        screen: &screen,
        flags: &flags,
        has_visits: args.visits,
        // Whether a server runs now tells nothing of the past.
        is_served: is_served || args.at.is_some(),
        now: past_time.unwrap_or_else(|| SystemClock.now()),
        latest_revision: latest.transpose()?.map(|latest| latest.revision),
    };
    let text = || execution_page(&execution, &options);
    out.print(|| reply, text)?;
    Ok(EXIT_OK)
}

/// Shows the workflow of `midex show workflow NAME`; refuses any other first word.
fn show_workflow_argument(
    subject: Option<&str>,
    name: &str,
    config: &Config,
    out: Output<'_>,
) -> Result<u8> {
    if subject == Some("workflow") {
        return workflow::show_workflow(name, &config.registry(), out);
    }
    let subject = subject.unwrap_or_default();
    let message = format!(
        "'{}' is shown alone: '{}' is too much",
        replace_hidden_chars(subject),
        replace_hidden_chars(name)
    );
    Err(Error::new(Code::UsageInvalid, message)
        .with_action("Run `midex show EXECUTION`, or `midex show workflow NAME`"))
}

/// Reads the execution that was named; without a name, the one of this project that moved last.
async fn fetch_execution(
    link: &mut ServerLink<'_>,
    execution_arg: Option<&str>,
    at: Option<PastPoint>,
) -> Result<(Value, ExecutionView)> {
    let fetch = async |link: &mut ServerLink<'_>, id: &str| link.fetch_execution(id, at).await;
    if let Some(execution_arg) = execution_arg {
        return execution_id::run_with_execution(link, execution_arg, fetch).await;
    }
    let id = execution_id::find_newest_execution(link, None).await?;
    fetch(link, &id).await
}

fn execution_page(execution: &ExecutionView, options: &DisplayOptions<'_>) -> String {
    let (screen, status) = (options.screen, &execution.status);
    let steps = match &execution.graph {
        Some(graph) if !options.has_visits => {
            steps::steps_section(graph, execution, options, options.now)
        }
        _ => visits_section(&execution.history, screen),
    };
    let parts = [
        status::status_fields(status, options),
        inputs_section(execution.current_step.inputs.as_ref(), screen),
        steps,
        open_steps_section(&execution.current_step.open_steps(), screen),
        waits_section(status, options),
        children_section(status, screen),
        artifacts_section(&execution.artifacts, screen),
        end_effects_section(status, &execution.history, screen),
        end_section(status, screen),
        next::imported_section(execution, screen),
        next::next_commands_section(execution, options),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// The inputs of the execution, one value a line.
fn inputs_section(inputs: Option<&Value>, screen: &Screen) -> String {
    let Some(inputs) = inputs.filter(|inputs| inputs.is_object()) else {
        return String::new();
    };
    let lines = field_lines(inputs);
    if lines.is_empty() {
        return String::new();
    }
    let columns = screen.columns().saturating_sub(SECTION_INDENT.width());
    let lines =
        lines.iter().map(|line| format!("{SECTION_INDENT}{}\n", truncate_text(line, columns)));
    section_title("inputs", screen) + &lines.collect::<String>()
}

/// The child executions, each with the step that started it.
fn children_section(status: &StatusView, screen: &Screen) -> String {
    if status.children.is_empty() {
        return String::new();
    }
    let mut table = screen.make_table(&["child", "step"]);
    for child in &status.children {
        let visit = VisitName {
            step: Some(&child.step),
            title: None,
            item: child.item,
            number: child.visit,
            attempt: 1,
            body: child.body.as_deref(),
        };
        table.add_row(table_row([one_line(&child.execution_id), visit.full_name()]));
    }
    table_lines(table.lines(), screen)
}

/// A visit of a step as it is named.
struct VisitName<'a> {
    /// The step; `None` for the workflow.
    step: Option<&'a str>,
    title: Option<&'a str>,
    item: Option<u32>,
    number: u32,
    attempt: u32,
    /// The hook or compensation that acted, if any.
    body: Option<&'a str>,
}

impl<'a> VisitName<'a> {
    fn from_row(row: &'a HistoryRow) -> Self {
        Self {
            step: Some(&row.step_name),
            title: row.title.as_deref(),
            item: row.item,
            number: row.visit,
            attempt: row.attempt,
            body: row.body.as_deref(),
        }
    }

    /// The name of the step with its item, visit and attempt, and with its hook or compensation.
    fn full_name(&self) -> String {
        match self.body {
            None => self.short_name(),
            Some(body) => format!("{} of {}", replace_hidden_chars(body), self.short_name()),
        }
    }

    /// The name of the step with its item, and with its visit and attempt from the second on.
    fn short_name(&self) -> String {
        let mut text = match self.step {
            Some(name) if name != StepId::workflow_pseudo_step().as_str() => one_line(name),
            _ => "the workflow".to_owned(),
        };
        text += &item_number(self.item);
        text += &title_suffix(self.title);
        // A skipped step has visit number 0.
        if self.number >= 2 {
            let _ = write!(text, " ({})", self.number);
        }
        if self.attempt >= 2 {
            let _ = write!(text, ", attempt {}", self.attempt);
        }
        text
    }
}

/// The waits that the graph of steps does not show, such as those of hooks; with `--visits`, all waits.
fn waits_section(status: &StatusView, options: &DisplayOptions<'_>) -> String {
    let is_shown = |wait: &&WaitView| options.has_visits || wait.body.is_some();
    let now = options.now;
    let shown_waits = status.waits.iter().filter(is_shown);
    shown_waits
        .map(|wait| {
            let words = waits::describe_wait(wait, now, options.is_served);
            options.screen.indent_block(None, SECTION_INDENT, &words)
        })
        .collect()
}

/// The visits with their results: in the last column if it is wide enough, else each on the line below.
fn visits_section(visits: &[HistoryRow], screen: &Screen) -> String {
    let header = ["step", "agent", "status", "started", "took"];
    let mut table = screen.make_table(&header);
    for visit in visits {
        table.add_row(table_row(visit_cells(visit)));
    }
    let widths = table.column_max_content_widths();
    let used_columns: usize = widths.iter().map(|width| usize::from(*width) + 2).sum();
    let result_columns = screen.columns().saturating_sub(used_columns + 2);
    let results: Vec<_> = visits.iter().map(visit_result).collect();
    if result_columns < RESULT_COLUMNS_MIN {
        return results_below_rows(&table, &results, screen);
    }
    let results = ["result".to_owned()].into_iter().chain(results);
    let lines = table.lines().zip(results);
    let lines =
        lines.map(|(line, result)| format!("{line}  {}", truncate_text(&result, result_columns)));
    table_lines(lines, screen)
}

fn results_below_rows(table: &Table, results: &[String], screen: &Screen) -> String {
    let columns = screen.columns().saturating_sub(CONTINUED_LINE_PREFIX.width());
    let results = std::iter::once("").chain(results.iter().map(String::as_str));
    let line = |(line, result): (String, &str)| match result {
        "" => line,
        result => {
            format!(
                "{}\n{CONTINUED_LINE_PREFIX}{}",
                line.trim_end(),
                truncate_text(result, columns)
            )
        }
    };
    table_lines(table.lines().zip(results).map(line), screen)
}

/// The lines of a table, with its header painted.
fn table_lines(lines: impl Iterator<Item = String>, screen: &Screen) -> String {
    let mut text = String::new();
    for (line, index) in lines.zip(0..) {
        let line = line.trim_end();
        let _ = match index {
            0 => writeln!(text, "{}", screen.paint(TextStyle::Dim, line)),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

fn visit_cells(visit: &HistoryRow) -> [String; 5] {
    let agent = visit.agent_name.as_deref().unwrap_or("-");
    let duration = visit.duration_ms.map_or_else(|| "-".into(), format_duration);
    let status = one_line(&visit.status);
    [
        VisitName::from_row(visit).full_name(),
        agent.to_owned(),
        if visit.late { format!("{status}, late") } else { status },
        one_line(&visit.started_at),
        duration,
    ]
}

/// The result of a visit in one line.
fn visit_result(visit: &HistoryRow) -> String {
    match visit.output_bytes {
        Some(bytes) if visit.error.is_none() => {
            format!("({bytes} bytes, too long for this history)")
        }
        _ => short_result(visit),
    }
}

/// The result of a visit in one line; empty if the history is too long to include its output.
fn short_result(visit: &HistoryRow) -> String {
    match (&visit.error, &visit.output) {
        (Some(error), _) => failure_text(error),
        (None, Some(output)) => one_line_summary(output),
        (None, None) => String::new(),
    }
}

fn failure_text(error: &FailureView) -> String {
    format!("{}: {}", one_line(&error.code), one_line(&error.message))
}

fn open_steps_section(steps: &[ReadyStep], screen: &Screen) -> String {
    let mut text = match steps {
        [] => return String::new(),
        _ => section_title("open steps", screen),
    };
    for step in steps {
        let agent = step.agent_name.as_ref();
        let agent = agent.map(|agent| format!(" ({agent})"));
        let texts = [step.step.title.as_deref(), Some(&step.description), Some(&step.instructions)];
        let mut texts = texts.into_iter().flatten().map(one_line);
        let summary = texts.find(|text| !text.is_empty()).unwrap_or_default();
        let line = format!(
            "{SECTION_INDENT}{}{}{}: {summary}",
            one_line(&step.step_name),
            item_number(step.step.item),
            replace_hidden_chars(&agent.unwrap_or_default()),
        );
        let _ = writeln!(text, "{}", truncate_text(&line, screen.columns()));
    }
    text
}

fn artifacts_section(artifacts: &[ArtifactView], screen: &Screen) -> String {
    if artifacts.is_empty() {
        return String::new();
    }
    let mut table = screen.make_table(&["artifact", "type", "name", "bytes", "step"]);
    for artifact in artifacts {
        table.add_row(table_row([
            artifact.id.to_string(),
            one_line(&artifact.artifact_type),
            one_line(&artifact.name),
            artifact.size_bytes.to_string(),
            one_line(&artifact.step_name),
        ]));
    }
    table_lines(table.lines(), screen)
}

/// The effects of steps that were compensated at the end of the execution, those that were not, and the hooks that
/// failed.
pub(super) fn end_effects_section(
    status: &StatusView,
    history: &[HistoryRow],
    screen: &Screen,
) -> String {
    let is_compensation = |row: &&HistoryRow| {
        row.body.as_deref() == Some(BodyKind::Compensation.as_str()) && row.status == "completed"
    };
    let compensated = history.iter().filter(is_compensation);
    let compensated = compensated.map(|row| VisitName::from_row(row).short_name());
    let effects = status.not_compensated.iter().map(|effect| {
        let visit = VisitName {
            step: Some(&effect.step),
            title: None,
            item: effect.item,
            number: effect.visit,
            attempt: 1,
            body: None,
        };
        format!("{}: {}", visit.full_name(), one_line(&effect.why))
    });
    let hooks = status.hook_failures.iter().map(|failure| {
        let visit = VisitName {
            step: failure.step.as_deref(),
            title: None,
            item: None,
            number: failure.visit,
            attempt: 1,
            body: Some(&failure.hook),
        };
        format!("{}: {}", visit.full_name(), failure_text(&failure.error))
    });
    let mut text = String::new();
    for (title, style, lines) in [
        ("taken back", TextStyle::Dim, compensated.collect::<Vec<_>>()),
        ("not taken back", TextStyle::Bad, effects.collect()),
        ("hooks that failed", TextStyle::Bad, hooks.collect()),
    ] {
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", screen.paint(style, title));
        for line in lines {
            text += &screen.indent_block(None, SECTION_INDENT, &line);
        }
    }
    text
}

/// The final output of the execution, or why it failed.
fn end_section(status: &StatusView, screen: &Screen) -> String {
    if let Some(error) = &status.error {
        let step = error.step_name.as_deref();
        let step = step.map_or_else(String::new, |step| format!(" in step {}", one_line(step)));
        let verb = if status.completed_at.is_some() { "failed" } else { "failing" };
        let title = screen.paint(TextStyle::Bad, &format!("{verb}{step}"));
        return format!(
            "{title}\n{}",
            screen.indent_block(None, SECTION_INDENT, &failure_text(error))
        );
    }
    let output = status.final_output.as_ref();
    let faults = final_output_faults(status);
    if output.is_none() && faults.is_empty() {
        return String::new();
    }
    let mut text = section_title("final output", screen);
    for fault in faults {
        text += &screen.indent_block(Some(TextStyle::Bad), SECTION_INDENT, &fault);
    }
    for line in output.map_or_else(|| vec![String::new()], field_lines) {
        text += &screen.indent_block(None, SECTION_INDENT, &line);
    }
    if status.final_output_truncated {
        text += &screen.indent_block(
            Some(TextStyle::Dim),
            SECTION_INDENT,
            "shortened; --json has it whole",
        );
    }
    text
}

/// The title of a section.
fn section_title(title: &str, screen: &Screen) -> String {
    screen.paint(TextStyle::Dim, title) + "\n"
}
