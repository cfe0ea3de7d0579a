//! `midex delete`, `prune` and `stats`.

use std::fmt::Write as _;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    execution_id::run_with_execution,
    link::{ServerLink, parse_reply, remove_nulls},
    list::parse_positive_number,
    question::{ask_yes_or_no, can_ask_person},
    screen::Screen,
    value::{format_bytes, format_duration, format_number, list_items},
    visible::replace_hidden_chars,
};
use midex_domain::{
    State,
    error::{Code, Error, Result, format_count},
    limits,
    span::HumanDuration,
};
use midex_server::{
    app::{PruneProgress, StoreStats},
    config::Config,
};

/// Which executions to delete.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// The executions, which must have ended: their ids, the beginnings of ids, or @last
    #[arg(value_name = "EXECUTION", required = true)]
    execution_ids: Vec<String>,
}

/// Which executions to remove. All conditions that are given must hold.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PruneArgs {
    /// Only executions that ended longer ago than this, as 30d or 12h
    #[arg(long, value_name = "DURATION")]
    older_than: Option<HumanDuration>,
    /// Only executions in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(final_states()))]
    state: Option<String>,
    /// Only executions of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Keep the last N of each workflow among those that the other flags choose
    #[arg(long, value_name = "N", value_parser = parse_positive_number)]
    keep_last: Option<usize>,
    /// The executions of all projects, not only of this one
    #[arg(long)]
    all_projects: bool,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask, and remove them even if nothing is left of what has ended
    #[arg(long)]
    yes: bool,
}

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// Also estimate what removing executions that ended longer ago than this would free
    #[arg(long, value_name = "DURATION")]
    older_than: Option<HumanDuration>,
}

fn final_states() -> Vec<&'static str> {
    State::ALL.iter().filter(|state| state.is_final()).map(|state| state.as_str()).collect()
}

/// Deletes executions that have ended, one after the other, and says which.
pub(super) async fn delete(args: DeleteArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let mut deleted = Vec::new();
    let mut result = Ok(());
    for execution_arg in &args.execution_ids {
        let call = async |link: &mut ServerLink<'_>, id: &str| {
            link.call("execution.delete", json!({ "execution_id": id, "confirm": true })).await
        };
        match run_with_execution(&mut link, execution_arg, call).await {
            Ok(reply) => deleted.extend_from_slice(list_items(&reply["deleted"])),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() || !deleted.is_empty() {
        let lines = || {
            let ids = deleted.iter().filter_map(Value::as_str).map(replace_hidden_chars);
            ids.fold(String::new(), |lines, id| lines + "deleted " + &id + "\n")
        };
        out.print(|| json!({ "success": result.is_ok(), "deleted": deleted }), lines)?;
    }
    link.close_and_log().await;
    result.map(|()| EXIT_OK)
}

/// Removes executions that have ended, by a rule.
pub(super) async fn prune(args: PruneArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    check_prune(&args)?;
    let mut link = ServerLink::new(config);
    let rule = remove_nulls(json!({
        "project": args.all_projects.then_some("*"),
        "state": args.state,
        "workflow_name": args.workflow,
        "older_than_s": args.older_than.map(|age| age.duration().as_secs()),
        "keep_last": args.keep_last,
    }));
    let mut plan_call = rule.clone();
    plan_call["dry_run"] = json!(true);
    let plan: PruneProgress = parse_reply(link.call("execution.prune", plan_call).await?)?;
    if args.dry_run || plan.selected == 0 {
        link.close_and_log().await;
        let kept = if plan.selected > 0 { "\nan execution with an open fork is kept" } else { "" };
        let summary = format!("{} would be removed{kept}\n", describe_selection(&plan));
        return out.print(|| json!(plan), || summary).map(|()| EXIT_OK);
    }
    let removes_all = plan.selected == plan.ended;
    if !args.yes && (removes_all || (can_ask_person() && !out.is_json)) {
        let question = format!("Remove {} for good?", describe_removal(&plan, args.all_projects));
        if !ask_yes_or_no(&question, "--yes", &mut link).await? {
            return Ok(EXIT_FINDINGS);
        }
    }
    let mut removed = 0;
    let kept = loop {
        let progress: PruneProgress =
            parse_reply(link.call("execution.prune", rule.clone()).await?)?;
        removed += progress.removed;
        if !progress.has_more {
            break progress.kept;
        }
    };
    link.close_and_log().await;
    let mut text = format!("removed {}\n", format_count(removed, "execution"));
    if kept > 0 {
        let _ = writeln!(
            text,
            "kept {}: an execution that depends on it has not ended, or it cannot be read",
            format_count(kept, "execution")
        );
    }
    out.print(|| json!({ "removed": removed, "kept": kept }), || text).map(|()| EXIT_OK)
}

/// Refuses a prune that names nothing: everything that has ended would be removed.
fn check_prune(args: &PruneArgs) -> Result<()> {
    let has_rule = args.older_than.is_some()
        || args.keep_last.is_some()
        || args.state.is_some()
        || args.workflow.is_some();
    if has_rule || args.yes {
        return Ok(());
    }
    let message = "no condition is given, and everything that has ended would be removed";
    Err(Error::new(Code::UsageInvalid, message)
        .with_action("Run `midex prune --older-than 30d --dry-run`, or with another condition"))
}

fn describe_selection(plan: &PruneProgress) -> String {
    format!("{} of {}", plan.selected, format_count(plan.ended, "ended execution"))
}

/// The executions of the question, and whether they are all that have ended.
fn describe_removal(plan: &PruneProgress, is_of_all_projects: bool) -> String {
    if plan.selected < plan.ended {
        return describe_selection(plan);
    }
    let scope = if is_of_all_projects { "all projects" } else { "this project" };
    format!("all {} of {scope}", format_count(plan.ended, "ended execution"))
}

/// Prints the figures of the store.
pub(super) async fn stats(args: StatsArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let arguments = remove_nulls(
        json!({ "older_than_s": args.older_than.map(|age| age.duration().as_secs()) }),
    );
    let reply = link.call("store.stats", arguments).await;
    link.close_and_log().await;
    let reply = reply?;
    let figures: StoreStats = parse_reply(reply.clone())?;
    out.print(|| reply, || figures_text(&figures, args.older_than)).map(|()| EXIT_OK)
}

fn figures_text(figures: &StoreStats, age: Option<HumanDuration>) -> String {
    let mut text = String::new();
    let executions = format_number(figures.executions, "execution", "executions");
    let lately =
        format!("{} started in the last {} days", figures.started_lately, limits::GROWTH_DAYS);
    let _ = match figures.sizes.file_bytes {
        // midex does not read the sizes of the tables of a database.
        0 => writeln!(text, "{executions}\n{lately}\n"),
        bytes => {
            let (bytes, growth) = (format_bytes(bytes), format_bytes(figures.growth_bytes_a_day));
            writeln!(text, "{executions}, {bytes} on disk\n{lately}: about {growth} a day\n")
        }
    };
    let name_width = column_width(figures.workflows.iter().map(|one| one.workflow_name.as_str()));
    for workflow in &figures.workflows {
        let states = workflow.states.iter().map(|(state, count)| format!("{count} {state}"));
        let states = states.collect::<Vec<_>>().join(", ");
        let name = replace_hidden_chars(&workflow.workflow_name);
        let _ = write!(text, "{name:<name_width$}  {states}");
        if let (Some(p50), Some(p95)) = (workflow.p50_ms, workflow.p95_ms) {
            let (p50, p95) = (format_duration(p50), format_duration(p95));
            let _ = write!(text, "; half took {p50} at most, 95 % {p95}");
        }
        text.push('\n');
    }
    text.push('\n');
    let table_width = column_width(figures.sizes.tables.iter().map(|table| table.name.as_str()));
    for table in &figures.sizes.tables {
        let bytes = format_bytes(table.bytes);
        let entries = format_number(table.entries, "entry", "entries");
        let _ = writeln!(text, "{:<table_width$}  {bytes:>10}  {entries}", table.name);
    }
    if let (Some(age), Some(older), Some(bytes)) = (age, figures.older, figures.older_bytes) {
        let bytes = format_bytes(bytes);
        let _ = writeln!(
            text,
            "\n{} ended more than {age} ago: `midex prune --all-projects --older-than {age}` would free about {bytes}",
            format_number(older, "execution", "executions"),
        );
    }
    for long in &figures.long_executions {
        let id = replace_hidden_chars(&long.execution_id);
        let _ = writeln!(
            text,
            "\n{id} has {} events and is slow to read: a loop may belong into child workflows",
            long.revision
        );
    }
    if figures.sizes.file_bytes >= limits::FILE_BYTES_WARNED {
        text.push_str("\nThe store is large: `midex prune` removes executions, and `midex compact` gives the room back\n");
    }
    Screen::stdout().indent_block(None, "", text.trim_end())
}

fn column_width<'a>(cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
}
