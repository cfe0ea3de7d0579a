//! `midex list`: lists workflows, agents or executions.

mod table;

use std::path::Path;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use self::table::Table;
use super::{
    EXIT_OK, Output,
    command::{quote_operand, quoted},
    link::{ServerLink, parse_reply, remove_nulls},
    screen::{Screen, TextStyle},
    visible::replace_hidden_chars,
    when::{format_local_time, format_time_ago},
};
use midex_domain::{
    Step, Workflow,
    clock::{Clock, SystemClock},
    error::{Code, Error, Result},
    finding::{Finding, filter_errors},
    label::{collect_labels, parse_label},
    limits,
    nearest::format_nearest_hint,
    view::{self, ExecutionRow},
};
use midex_registry::{AgentEntry, Registry, Source, WorkflowEntry};
use midex_server::{
    app::ListRequest,
    config::{AuthoringDirectory, Config},
};

/// What to list.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value_t)]
    pub what: ListSubject,
    /// Only executions whose id, inputs, reason or failure holds this text
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Only executions in this state; `open` matches all that have not ended
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(ListRequest::states()))]
    pub state: Option<String>,
    /// Only executions of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Only executions with this label; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only executions that changed since then: 2d or 12h ago, or an instant like 2030-01-31T09:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only executions that changed last before then, in the same form
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// List the executions of all projects, not only of this one
    #[arg(long)]
    pub all_projects: bool,
    /// Also list child executions
    #[arg(long)]
    pub children: bool,
    /// Print every column in full, regardless of the width of the terminal
    #[arg(long)]
    pub wide: bool,
    /// Maximum number of executions
    #[arg(long, value_name = "N", value_parser = parse_positive_number,
          help = format!("Maximum number of executions [default: {}]", limits::LIST_LIMIT_DEFAULT))]
    pub limit: Option<usize>,
}

impl ListArgs {
    /// The given flags that apply only to executions, with their values.
    fn execution_flags(&self) -> Vec<(&'static str, Option<String>)> {
        let valued = [
            ("--state", &self.state),
            ("--workflow", &self.workflow),
            ("--since", &self.since),
            ("--until", &self.until),
        ];
        let value_flags = valued.into_iter().filter(|(_, value)| value.is_some());
        let switches = [("--all-projects", self.all_projects), ("--children", self.children)];
        let switches = switches.into_iter().filter(|(_, is_set)| *is_set);
        let value_flags = value_flags.map(|(flag, value)| (flag, value.clone()));
        let labels = self.label.iter();
        let labels = labels.map(|(name, value)| ("--label", Some(format!("{name}={value}"))));
        value_flags.chain(labels).chain(switches.map(|(flag, _)| (flag, None))).collect()
    }

    /// Refuses flags for executions if something else is listed.
    fn check_flags(&self) -> Result<()> {
        let limit = self.limit.map(|limit| ("--limit", Some(limit.to_string())));
        let subject = if self.what == ListSubject::Agents { "agents" } else { "workflows" };
        if let Some(text) = &self.text {
            let message = format!("a text searches executions, and {subject} are listed here");
            return Err(Error::new(Code::UsageInvalid, message)
                .with_context("text", text.clone())
                .with_action("Run `midex list executions {text}`, or leave {text} out"));
        }
        let Some((flag, value)) = self.execution_flags().into_iter().chain(limit).next() else {
            return Ok(());
        };
        let message = format!("{flag} chooses among executions, and {subject} are listed here");
        let error = Error::new(Code::UsageInvalid, message).with_context("flag", flag);
        Err(match value {
            Some(value) => error
                .with_context("value", value)
                .with_action("Run `midex list executions {flag} {value}`, or leave {flag} out"),
            None => error.with_action("Run `midex list executions {flag}`, or leave {flag} out"),
        })
    }
}

/// What can be listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ListSubject {
    /// Workflows that can be started
    #[default]
    Workflows,
    /// Agents whose personas workflows can name
    Agents,
    /// Executions of this project, the most recently updated first
    Executions,
    /// Calls of catalog commands in this project, the latest first
    Calls,
}

impl ListSubject {
    /// Whether the list comes from the store, rather than from definition files.
    pub(super) fn is_stored(self) -> bool {
        matches!(self, Self::Executions | Self::Calls)
    }
}

/// Parses a number from 1.
pub(super) fn parse_positive_number(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "it is a whole number from 1 on".to_owned())
}

/// Lists executions. `flags` make a follow-up command reach the same ones.
pub(super) async fn list_executions(
    args: ListArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    if args.what == ListSubject::Calls && args.all_projects {
        let message = "the calls of this project are listed here, and those of no other";
        return Err(Error::new(Code::UsageInvalid, message)
            .with_action("Run `midex list executions --all-projects`, which lists calls too"));
    }
    let limit = args.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    let fetch_limit =
        if out.is_json { limit } else { limit.saturating_add(limits::LISTED_MORE_MAX) };
    let labels = collect_labels(&args.label)?;
    let arguments = remove_nulls(json!({
        "limit": fetch_limit.min(limits::LIST_LIMIT_MAX), "state": args.state,
        "workflow_name": args.workflow, "project": args.all_projects.then_some("*"),
        "children": args.children.then_some(true),
        "labels": (!labels.is_empty()).then_some(labels),
        "since": args.since, "until": args.until, "text": args.text,
        "calls": (args.what == ListSubject::Calls).then_some(true)
    }));
    let mut link = ServerLink::new(config);
    let rows = read_pages(&mut link, arguments, fetch_limit).await;
    link.close().await?;
    let mut rows = rows?;
    let hidden_count = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    if out.is_json {
        return out.print_rows(|| rows, String::new).map(|()| EXIT_OK);
    }
    // The registry is read only if the list is empty, to check whether the workflow exists.
    let workflow_filter = args.workflow.as_deref().filter(|_| rows.is_empty());
    let text = if let Some(message) =
        workflow_filter.and_then(|name| unknown_workflow_note(name, config))
    {
        Screen::stdout().indent_block(None, "", &message)
    } else {
        let rows: Vec<ExecutionRow> = parse_reply(Value::Array(rows))?;
        execution_table(&rows, &args) + &more_rows_note(&args, limit, hidden_count, flags)
    };
    out.write_unchanged(text).map(|()| EXIT_OK)
}

/// How many more rows there are, and the command that lists them; empty if all are shown.
fn more_rows_note(args: &ListArgs, limit: usize, hidden_count: usize, flags: &str) -> String {
    if hidden_count == 0 {
        return String::new();
    }
    let text = args.text.as_deref().map(|text| format!(" {}", quote_operand(text)));
    let text = text.unwrap_or_default();
    let flag_text: String = args
        .execution_flags()
        .iter()
        .map(|(flag, value)| match value {
            Some(value) => format!(" {flag} {}", quoted(value)),
            None => format!(" {flag}"),
        })
        .collect();
    let (count, next_limit) = if hidden_count >= limits::LISTED_MORE_MAX {
        (format!("at least {}", limits::LISTED_MORE_MAX), limit.saturating_mul(10))
    } else {
        (hidden_count.to_string(), limit + hidden_count)
    };
    let subject = if args.what == ListSubject::Calls { "calls" } else { "executions" };
    let words =
        format!("{count} more: midex list {subject}{flag_text} --limit {next_limit}{flags}{text}");
    Screen::stdout().indent_block(Some(TextStyle::Dim), "", &replace_hidden_chars(&words))
}

/// The message that no workflow has this name, to explain an empty list; `None` if one has.
fn unknown_workflow_note(name: &str, config: &Config) -> Option<String> {
    let registry = config.registry();
    let mut names = registry.workflows().map(|entry| entry.name.as_str());
    if names.any(|known| known == name) {
        return None;
    }
    let nearest = format_nearest_hint(name, registry.workflows().map(|entry| entry.name.as_str()));
    let message = format!(
        "no such executions of `{name}` here, and this project has no workflow of that name{nearest}"
    );
    Some(replace_hidden_chars(&message))
}

/// Reads pages until there are `limit` rows.
pub(super) async fn read_pages(
    link: &mut ServerLink<'_>,
    mut arguments: Value,
    limit: usize,
) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    loop {
        let mut page = link.call("execution.list", arguments.clone()).await?;
        if let Value::Array(executions) = page["executions"].take() {
            rows.extend(executions);
        }
        match page["next_cursor"].take() {
            cursor @ Value::String(_) if rows.len() < limit => arguments["cursor"] = cursor,
            _ => break,
        }
    }
    rows.truncate(limit);
    Ok(rows)
}

/// The space for a list.
#[derive(Clone, Copy, Debug)]
struct ListLayout {
    columns: usize,
    /// Whether stdout is a terminal, so that a person reads the list.
    is_terminal: bool,
}

impl ListLayout {
    fn from_terminal(is_wide: bool) -> Self {
        let screen = Screen::stdout();
        Self {
            columns: if is_wide { usize::from(u16::MAX) } else { screen.columns() },
            is_terminal: screen.is_terminal(),
        }
    }

    /// A table with these columns. Each is given with the width of the terminal from which on it is shown.
    fn make_table<const N: usize>(self, header: [(&str, usize); N]) -> Table<N> {
        Table::new(self.columns, self.is_terminal, header)
    }

    /// The time of an execution's last change, relative or absolute.
    fn format_time(self, time: &str) -> String {
        if self.is_terminal && self.columns < usize::from(u16::MAX) {
            return format_time_ago(time, SystemClock.now());
        }
        if self.is_terminal { format_local_time(time) } else { time.to_owned() }
    }

    /// The state, as a symbol if there is no room for the word.
    fn format_state(self, row: &ExecutionRow) -> String {
        if self.columns >= STATE_WORD_COLUMNS_MIN {
            return format!("{}{}", row.state, if row.imported { " (imported)" } else { "" });
        }
        match row.state.as_str() {
            "completed" => "✓",
            "running" => "●",
            "paused" => "‖",
            "pending" => "○",
            _ => "✗",
        }
        .to_owned()
    }
}

/// The width of the terminal from which on the state is written as a word.
const STATE_WORD_COLUMNS_MIN: usize = 46;

fn execution_table(rows: &[ExecutionRow], args: &ListArgs) -> String {
    if rows.is_empty() {
        let words = if args.what == ListSubject::Calls {
            "no command was called here; `midex call` calls one"
        } else if args.all_projects {
            "no project has such executions"
        } else if args.execution_flags().is_empty() && args.text.is_none() {
            "no executions here; --all-projects shows those of other projects"
        } else {
            "no such executions here; --all-projects shows those of other projects"
        };
        return Screen::stdout().indent_block(None, "", words);
    }
    let layout = ListLayout::from_terminal(args.wide);
    let mut table = layout.make_table([
        ("execution", 0),
        ("workflow", 80),
        (if layout.columns < STATE_WORD_COLUMNS_MIN { "" } else { "state" }, 0),
        ("current step", 100),
        ("updated", 58),
    ]);
    for row in rows {
        table.add_row([
            row.execution_id.clone(),
            row.workflow_name.clone(),
            layout.format_state(row),
            row.current_step.clone().unwrap_or_else(|| "-".to_owned()),
            layout.format_time(&row.updated_at),
        ]);
    }
    table.render()
}

/// Lists workflows or agents, including invalid ones.
pub fn list_definitions(
    args: &ListArgs,
    registry: &Registry,
    authoring: Option<&AuthoringDirectory>,
    mut out: Output<'_>,
) -> Result<u8> {
    args.check_flags()?;
    let result = if args.what == ListSubject::Agents {
        let json = || registry.agents().map(agent_json).collect();
        out.print_rows(json, || agent_table(registry, ListLayout::from_terminal(args.wide)))
    } else {
        let json = || registry.workflows().map(workflow_json).collect();
        let layout = ListLayout::from_terminal(args.wide);
        out.print_rows(json, || {
            workflow_table(registry, layout) + &authoring_directory_line(authoring)
        })
    };
    result.map(|()| EXIT_OK)
}

fn valid_workflow(entry: &WorkflowEntry) -> Option<&Workflow> {
    let definition = entry.value.as_ref()?;
    Some(&definition.workflow)
}

fn workflow_json(entry: &WorkflowEntry) -> Value {
    let workflow = valid_workflow(entry);
    let steps = workflow.map_or(&[][..], |workflow| &workflow.steps);
    let inputs = workflow.and_then(|workflow| workflow.inputs.as_ref());
    json!({
        "name": entry.name,
        "description": workflow.map(|workflow| &workflow.description),
        "source": entry.source,
        "path": entry.path.as_deref().map(path_text),
        "complexity": workflow.and_then(|workflow| workflow.complexity),
        "tags": workflow.map_or(&[][..], |workflow| &workflow.tags),
        "metadata": entry.metadata(),
        "inputs": inputs.map(view::input_views),
        "phases": steps.iter().map(phase_json).collect::<Vec<_>>(),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

fn phase_json(step: &Step) -> Value {
    json!({
        "phase": step.id,
        "agent": step.agent_name(),
        "description": step.description,
        "dependsOn": step.depends_on,
    })
}

fn agent_json(entry: &AgentEntry) -> Value {
    let persona = entry.value.as_ref();
    json!({
        "name": entry.name,
        "description": persona.map(|persona| &persona.description),
        "source": entry.source,
        "path": entry.path.as_deref().map(path_text),
        "tags": persona.map_or(&[][..], |persona| &persona.tags),
        "version": persona.and_then(|persona| persona.version.as_ref()),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

/// A path as text: file names need not be Unicode.
fn path_text(path: &Path) -> String {
    path.display().to_string()
}

fn workflow_table(registry: &Registry, layout: ListLayout) -> String {
    let mut table =
        layout.make_table([("name", 0), ("steps", 120), ("source", 70), ("description", 0)]);
    for entry in registry.workflows() {
        let workflow = valid_workflow(entry);
        let hidden_source = registry.find_hidden_source(&entry.name);
        let hidden_note = hidden_source.map(|hidden| format!(" (hides {})", hidden.as_str()));
        table.add_row([
            entry.name.clone(),
            workflow.map_or_else(String::new, step_ids_text),
            entry.source.as_str().to_owned() + &hidden_note.unwrap_or_default(),
            workflow.map_or_else(
                || first_error(&entry.findings, entry.source, entry.path.as_deref()),
                |workflow| workflow.description.clone(),
            ),
        ]);
    }
    table.render()
}

/// The line that says into which directory agents write workflows, and why.
fn authoring_directory_line(authoring: Option<&AuthoringDirectory>) -> String {
    let Some(AuthoringDirectory { directory, reason }) = authoring else {
        return String::new();
    };
    let path = replace_hidden_chars(&path_text(&directory.path));
    let words = format!("agents write workflows into {path} ({reason})");
    format!("\n{}", Screen::stdout().indent_block(None, "", &words))
}

fn step_ids_text(workflow: &Workflow) -> String {
    let ids: Vec<_> = workflow.steps.iter().map(|step| step.id.as_str()).collect();
    ids.join(", ")
}

fn agent_table(registry: &Registry, layout: ListLayout) -> String {
    let mut table = layout.make_table([("name", 0), ("source", 70), ("description", 0)]);
    for entry in registry.agents() {
        table.add_row([
            entry.name.clone(),
            relative_host_path(entry).unwrap_or_else(|| entry.source.as_str().to_owned()),
            entry.value.as_ref().map_or_else(
                || first_error(&entry.findings, entry.source, entry.path.as_deref()),
                |persona| persona.description.clone(),
            ),
        ]);
    }
    table.render()
}

/// The path of an agent that is a file of Claude Code, relative to the project or to the home directory.
fn relative_host_path(entry: &AgentEntry) -> Option<String> {
    let base = match entry.source {
        Source::ProjectHost => "",
        Source::UserHost => "~/",
        _ => return None,
    };
    let path = path_text(entry.path.as_deref()?);
    let start = path.rfind(".claude/")?;
    Some(format!("{base}{}", &path[start..]))
}

/// The first error of a definition, shown in place of its description.
fn first_error(findings: &[Finding], source: Source, path: Option<&Path>) -> String {
    let place = path.map_or_else(|| source.as_str().to_owned(), path_text);
    let first = filter_errors(findings).next();
    let line = first.map_or(1, |finding| finding.line);
    let more_note = match filter_errors(findings).count() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let message = first.map_or("", |finding| &finding.message);
    format!("{place}:{line}: {message}{more_note}")
}
