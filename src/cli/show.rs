//! `midex show`: prints the state of an execution, the visits of its steps and their results, and its final output.

mod next;
mod steps;
mod watch;
mod workflow;

use std::fmt::Write as _;

use comfy_table::Table;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::{
    EXIT_OK, Output, execution_id,
    link::Link,
    screen::{Screen, Style, cut, row},
    serve::{signalled, signals},
    steps as open_of,
    value::{duration, field, fields, final_output_faults, gist, list},
    visible::visible,
    waits,
    when::{ago, local},
};
use midex_domain::{
    clock::{Clock, SystemClock},
    error::{Code, Error, Result},
    event::Body,
    id::StepId,
    uri,
};
use midex_server::config::Config;

/// The minimum width in columns of a separate column for results; with less room they go on a line below.
const RESULT_COLUMNS_MIN: usize = 40;
/// The prefix of a line that belongs to the line above.
const BELOW: &str = "  └ ";
/// The prefix of the lines of a section.
const INDENT: &str = "  ";
/// The width of the field names.
const NAME_COLUMNS: usize = 8;

/// Which execution.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The execution; without it, the one of this project that moved last
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// With `workflow` before it: the workflow that is shown, instead of an execution
    #[arg(value_name = "NAME", requires = "execution_id", conflicts_with_all = ["watch", "visits"])]
    name: Option<String>,
    /// Follow it to its end; on a terminal what changes is drawn anew
    #[arg(long)]
    watch: bool,
    /// List every visit of every step, instead of the steps with the latest of each
    #[arg(long)]
    visits: bool,
}

/// How an execution is shown.
struct How<'a> {
    screen: &'a Screen,
    /// The flags that a follow-up command needs to reach the same executions.
    flags: &'a str,
    has_visits: bool,
    /// Whether a server is running, which performs waits and other steps that need no model.
    is_served: bool,
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
        return of_other(args.execution_id.as_deref(), name, config, out);
    }
    let signals = signals()?;
    let mut link = Link::new(config);
    let shown = first(&mut link, args.execution_id.as_deref()).await;
    if let (Ok(shown), true) = (&shown, args.watch) {
        let id = field(&shown["status"], "execution_id");
        let watched = tokio::select! {
            watched = watch::watch(&mut link, &id, config, &flags, out.json) => watched,
            () = signalled(signals) => Ok(()),
        };
        link.close().await?;
        return watched.map(|()| EXIT_OK);
    }
    let is_served = link.is_served();
    link.close().await?;
    let shown = shown?;
    let screen = Screen::stdout();
    let how = How {
        screen: &screen,
        flags: &flags,
        has_visits: args.visits,
        is_served,
    };
    let text = || page(&shown, &how);
    out.print(|| shown.clone(), text)?;
    Ok(EXIT_OK)
}

/// Shows the workflow of `midex show workflow NAME`; refuses any other first word.
fn of_other(what: Option<&str>, name: &str, config: &Config, out: Output<'_>) -> Result<u8> {
    if what == Some("workflow") {
        return workflow::show(name, &config.registry(), out);
    }
    let what = what.unwrap_or_default();
    let message = format!(
        "'{}' is shown alone: '{}' is too much",
        visible(what),
        visible(name)
    );
    Err(Error::new(Code::UsageInvalid, message)
        .with_action("Run `midex show EXECUTION`, or `midex show workflow NAME`"))
}

/// Reads the execution that was named; without a name, the one of this project that moved last.
async fn first(link: &mut Link<'_>, said: Option<&str>) -> Result<Value> {
    if let Some(said) = said {
        return execution_id::with(link, said, read).await;
    }
    let id = execution_id::newest(link, None).await?;
    read(link, &id).await
}

async fn read(link: &mut Link<'_>, id: &str) -> Result<Value> {
    Ok(json!({
        "status": link.read_of("workflow_status", id).await?,
        "history": link.read_of("step_history", id).await?,
        "artifacts": link.read_of("workflow_artifacts", id).await?,
        "current_step": open_of::for_person(link, id).await?,
        "graph": graph(link, id).await?,
    }))
}

/// The graph of an execution's steps, with the state of each.
pub(super) async fn graph(link: &mut Link<'_>, id: &str) -> Result<Value> {
    let id = uri::encode(id);
    let address = format!("midex://workflow/workflow_status/{id}?graph=true");
    link.read(&address).await
}

fn page(shown: &Value, how: &How<'_>) -> String {
    let screen = how.screen;
    let all = || visits(list(&shown["history"]), screen);
    let steps = if how.has_visits {
        all()
    } else {
        steps::steps(shown, how, SystemClock.now()).unwrap_or_else(all)
    };
    let parts = [
        head(&shown["status"], screen),
        inputs(&shown["current_step"]["inputs"], screen),
        steps,
        open_steps(&open_of::open(&shown["current_step"]), screen),
        waits(&shown["status"], how),
        children(&shown["status"], screen),
        artifacts(list(&shown["artifacts"]), screen),
        left(shown, screen),
        end(&shown["status"], screen),
        next::next(shown, how),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// The fields of the execution as a whole, one a line.
fn head(status: &Value, screen: &Screen) -> String {
    let title = screen.paint(Style::Bold, &field(status, "execution_id"));
    let mut text = format!("{title}  {}\n", field(status, "workflow_name"));
    let pauses: Vec<_> = list(&status["pause_reasons"]).iter().map(gist).collect();
    let state = status["state"].as_str().unwrap_or_default();
    let mut state = screen.state(state);
    if !pauses.is_empty() {
        let _ = write!(state, " ({})", pauses.join(", "));
    }
    let ended = match status["duration_ms"].as_u64() {
        Some(took) => {
            let at = local(&field(status, "completed_at"));
            format!("{at}, took {}", duration(took))
        }
        None => String::new(),
    };
    let updated = if ended.is_empty() {
        ago(&field(status, "updated_at"), SystemClock.now())
    } else {
        String::new()
    };
    let name = screen.paint(Style::Dim, &format!("{:<NAME_COLUMNS$}", "state"));
    // The state is colored already, and `named` would strip its escape sequences.
    let _ = writeln!(text, "{INDENT}{name} {state}");
    for (name, value) in [
        ("ending", field(status, "ending")),
        ("reason", field(status, "reason")),
        ("steps", counts(&status["steps"])),
        ("started", local(&field(status, "started_at"))),
        ("updated", updated),
        ("ended", ended),
        ("project", field(status, "project")),
        ("parent", parent(status)),
    ] {
        if !value.is_empty() {
            text += &screen.named(name, NAME_COLUMNS, &value);
        }
    }
    text
}

/// The inputs of the execution, one value a line.
fn inputs(inputs: &Value, screen: &Screen) -> String {
    let lines = match inputs {
        Value::Object(_) => fields(inputs),
        _ => return String::new(),
    };
    if lines.is_empty() {
        return String::new();
    }
    let room = screen.columns().saturating_sub(INDENT.width());
    let lines = lines
        .iter()
        .map(|line| format!("{INDENT}{}\n", cut(line, room)));
    section("inputs", screen) + &lines.collect::<String>()
}

/// The parent execution, and the root of the tree if that is another one.
fn parent(status: &Value) -> String {
    let (parent, root) = (field(status, "parent"), field(status, "root"));
    if root == parent || root.is_empty() {
        return parent;
    }
    format!("{parent}, below {root}")
}

/// The child executions, each with the step that started it.
fn children(status: &Value, screen: &Screen) -> String {
    let children = list(&status["children"]);
    if children.is_empty() {
        return String::new();
    }
    let mut table = screen.table(&["child", "step"]);
    for child in children {
        table.add_row(row([field(child, "execution_id"), place(child, "step")]));
    }
    printed(table.lines(), screen)
}

/// The name of a step with its item, visit and attempt, and with the hook or compensation of it that acted, if any.
fn place(of: &Value, step: &str) -> String {
    let visit = visit(of, step);
    match of["body"].as_str().or_else(|| of["hook"].as_str()) {
        None => visit,
        Some(body) => format!("{} of {visit}", visible(body)),
    }
}

/// The name of a step with its item, and with its visit and attempt from the second on.
fn visit(of: &Value, step: &str) -> String {
    let mut text = match of[step].as_str() {
        Some(name) if name != StepId::of_workflow().as_str() => field(of, step),
        _ => "the workflow".to_owned(),
    };
    if let Some(item) = of["item"].as_u64() {
        let _ = write!(text, " #{}", item + 1);
    }
    // A skipped step has no visit number.
    if let Some(number @ 2..) = of["visit"].as_u64() {
        let _ = write!(text, " ({number})");
    }
    if let Some(number @ 2..) = of["attempt"].as_u64() {
        let _ = write!(text, ", attempt {number}");
    }
    text
}

/// The waits that the graph of steps does not show, such as those of hooks; with `--visits`, all waits.
fn waits(status: &Value, how: &How<'_>) -> String {
    let is_shown = |wait: &&Value| how.has_visits || !wait["body"].is_null();
    let now = SystemClock.now();
    let told = list(&status["waits"]).iter().filter(is_shown);
    told.map(|wait| {
        let words = waits::words(wait, now, how.is_served);
        how.screen.block(None, INDENT, &words)
    })
    .collect()
}

/// `1 of 3 done, 2 open`.
fn counts(steps: &Value) -> String {
    let mut text = format!("{} of {} done", steps["completed"], steps["total"]);
    for (name, word) in [
        ("running", "open"),
        ("failed", "failed"),
        ("skipped", "skipped"),
    ] {
        match steps[name].as_u64() {
            None | Some(0) => {}
            Some(count) => {
                let _ = write!(text, ", {count} {word}");
            }
        }
    }
    text
}

/// The visits with their results: in the last column if it is wide enough, else each on the line below.
fn visits(visits: &[Value], screen: &Screen) -> String {
    let header = ["step", "agent", "status", "started", "took"];
    let mut table = screen.table(&header);
    for visit in visits {
        table.add_row(row(visit_cells(visit)));
    }
    let widths = table.column_max_content_widths();
    let taken: usize = widths.iter().map(|width| usize::from(*width) + 2).sum();
    let left = screen.columns().saturating_sub(taken + 2);
    let results: Vec<_> = visits.iter().map(result).collect();
    if left < RESULT_COLUMNS_MIN {
        return below(&table, &results, screen);
    }
    let results = ["result".to_owned()].into_iter().chain(results);
    let lines = table.lines().zip(results);
    let lines = lines.map(|(line, result)| format!("{line}  {}", cut(&result, left)));
    printed(lines, screen)
}

fn below(table: &Table, results: &[String], screen: &Screen) -> String {
    let room = screen.columns().saturating_sub(BELOW.width());
    let results = std::iter::once("").chain(results.iter().map(String::as_str));
    let line = |(line, result): (String, &str)| match result {
        "" => line,
        result => format!("{}\n{BELOW}{}", line.trim_end(), cut(result, room)),
    };
    printed(table.lines().zip(results).map(line), screen)
}

/// The lines of a table, with its header painted.
fn printed(lines: impl Iterator<Item = String>, screen: &Screen) -> String {
    let mut text = String::new();
    for (line, at) in lines.zip(0..) {
        let line = line.trim_end();
        let _ = match at {
            0 => writeln!(text, "{}", screen.paint(Style::Dim, line)),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

fn visit_cells(visit: &Value) -> [String; 5] {
    let agent = visit["agent_name"].as_str().unwrap_or("-");
    let took = visit["duration_ms"]
        .as_u64()
        .map_or_else(|| "-".into(), duration);
    let status = field(visit, "status");
    [
        place(visit, "step_name"),
        agent.to_owned(),
        if visit["late"] == true {
            format!("{status}, late")
        } else {
            status
        },
        field(visit, "started_at"),
        took,
    ]
}

/// The result of a visit in one line.
fn result(visit: &Value) -> String {
    if let Some(error) = visit.get("error").filter(|error| !error.is_null()) {
        return failure(error);
    }
    match visit["output_bytes"].as_u64() {
        Some(bytes) => format!("({bytes} bytes, too long for this history)"),
        None => gist(&visit["output"]),
    }
}

fn failure(error: &Value) -> String {
    format!("{}: {}", field(error, "code"), field(error, "message"))
}

fn open_steps(steps: &[Value], screen: &Screen) -> String {
    let mut text = match steps {
        [] => return String::new(),
        _ => section("open steps", screen),
    };
    for step in steps {
        let agent = step["agent_name"]
            .as_str()
            .map(|agent| format!(" ({agent})"));
        let what = match field(step, "description") {
            what if what.is_empty() => field(step, "instructions"),
            what => what,
        };
        let line = format!(
            "{INDENT}{}{}: {what}",
            waits::brief(step),
            visible(&agent.unwrap_or_default()),
        );
        let _ = writeln!(text, "{}", cut(&line, screen.columns()));
    }
    text
}

fn artifacts(artifacts: &[Value], screen: &Screen) -> String {
    if artifacts.is_empty() {
        return String::new();
    }
    let mut table = screen.table(&["artifact", "type", "name", "bytes", "step"]);
    for artifact in artifacts {
        table.add_row(row([
            artifact["id"].to_string(),
            field(artifact, "artifact_type"),
            field(artifact, "name"),
            artifact["size_bytes"].to_string(),
            field(artifact, "step_name"),
        ]));
    }
    printed(table.lines(), screen)
}

/// The effects of steps that were compensated at the end of the execution, those that were not, and the hooks that
/// failed.
pub(super) fn left(shown: &Value, screen: &Screen) -> String {
    let status = &shown["status"];
    let is_undone =
        |row: &&Value| row["body"] == Body::Compensation.as_str() && row["status"] == "completed";
    let undone = list(&shown["history"]).iter().filter(is_undone);
    let undone = undone.map(|row| visit(row, "step_name"));
    let effects = list(&status["not_compensated"]).iter();
    let effects = effects.map(|one| format!("{}: {}", place(one, "step"), field(one, "why")));
    let hooks = list(&status["hook_failures"]).iter();
    let hooks = hooks.map(|one| format!("{}: {}", place(one, "step"), failure(&one["error"])));
    let mut text = String::new();
    for (title, style, lines) in [
        ("taken back", Style::Dim, undone.collect::<Vec<_>>()),
        ("not taken back", Style::Bad, effects.collect()),
        ("hooks that failed", Style::Bad, hooks.collect()),
    ] {
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", screen.paint(style, title));
        for line in lines {
            text += &screen.block(None, INDENT, &line);
        }
    }
    text
}

/// The final output of the execution, or why it failed.
fn end(status: &Value, screen: &Screen) -> String {
    if let Some(error) = status.get("error").filter(|error| !error.is_null()) {
        let step = match error["step_name"].as_str() {
            Some(_) => format!(" in step {}", field(error, "step_name")),
            None => String::new(),
        };
        let is_over = !status["completed_at"].is_null();
        let verb = if is_over { "failed" } else { "failing" };
        let title = screen.paint(Style::Bad, &format!("{verb}{step}"));
        return format!("{title}\n{}", screen.block(None, INDENT, &failure(error)));
    }
    let output = &status["final_output"];
    let faults = final_output_faults(status);
    if output.is_null() && faults.is_empty() {
        return String::new();
    }
    let mut text = section("final output", screen);
    for fault in faults {
        text += &screen.block(Some(Style::Bad), INDENT, &fault);
    }
    for line in fields(output) {
        text += &screen.block(None, INDENT, &line);
    }
    if status["final_output_truncated"] == true {
        text += &screen.block(
            Some(Style::Dim),
            INDENT,
            "shortened; --json has it in history",
        );
    }
    text
}

/// The title of a section.
fn section(title: &str, screen: &Screen) -> String {
    screen.paint(Style::Dim, title) + "\n"
}
