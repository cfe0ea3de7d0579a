//! `midex list`: lists workflows, agents or executions.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::{
    EXIT_OK, Output,
    link::{Link, given},
    screen::Screen,
    visible::visible,
    when::{ago, local},
};
use crate::{
    app::ListRequest,
    clock::{Clock, SystemClock},
    config::{Authoring, Config},
    domain::{
        Step, Workflow,
        finding::{Finding, errors},
        nearest::hint,
        view,
    },
    error::Result,
    limits,
    registry::{AgentEntry, Registry, Source, WorkflowEntry},
};

/// What to list.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value_t)]
    pub what: Listed,
    /// Only executions in this state: one of the seven, or `open` for those that have not ended
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(ListRequest::states()))]
    pub state: Option<String>,
    /// Only executions of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// The executions of every project, not of this one alone
    #[arg(long)]
    pub all_projects: bool,
    /// Children of executions too
    #[arg(long)]
    pub children: bool,
    /// Every column whole, however wide the terminal is
    #[arg(long)]
    pub wide: bool,
    /// How many executions at most
    #[arg(long, value_name = "N", default_value_t = limits::LIST_LIMIT_DEFAULT,
          value_parser = at_least_one)]
    pub limit: usize,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Listed {
    /// Workflows that can be started
    #[default]
    Workflows,
    /// Agents whose personas workflows can name
    Agents,
    /// Executions of this project, the one that moved last first
    Executions,
}

/// How many there are to be at most.
pub(super) fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "it is a whole number from 1 on".to_owned())
}

/// Lists executions.
pub(super) async fn executions(args: ListArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let arguments = given(json!({
        "limit": args.limit.min(limits::LIST_LIMIT_MAX), "state": args.state,
        "workflow_name": args.workflow, "project": args.all_projects.then_some("*"),
        "children": args.children.then_some(true)
    }));
    let mut link = Link::new(config);
    let rows = pages(&mut link, arguments, args.limit).await;
    link.close().await?;
    let rows = rows?;
    let unknown = args
        .workflow
        .as_deref()
        .and_then(|name| unknown(name, config));
    let text = || match &unknown {
        Some(message) if rows.is_empty() => format!("{message}\n"),
        _ => execution_table(&rows, Room::of(args.wide)),
    };
    out.rows(|| rows.clone(), text)?;
    Ok(EXIT_OK)
}

/// That no workflow has this name, which may be why nothing is listed.
fn unknown(name: &str, config: &Config) -> Option<String> {
    let registry = config.registry();
    let mut names = registry.workflows().map(|entry| entry.name.as_str());
    if names.any(|known| known == name) {
        return None;
    }
    let nearest = hint(name, registry.workflows().map(|entry| entry.name.as_str()));
    let message = format!("no executions of `{name}` here, and no workflow of that name{nearest}");
    Some(visible(&message))
}

/// Reads pages until there are `limit` rows.
async fn pages(link: &mut Link<'_>, mut arguments: Value, limit: usize) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    loop {
        let mut page = link.call("execution.list", arguments.clone()).await?;
        rows.extend(
            page["executions"]
                .as_array_mut()
                .map(std::mem::take)
                .unwrap_or_default(),
        );
        match page["next_cursor"].take() {
            cursor @ Value::String(_) if rows.len() < limit => arguments["cursor"] = cursor,
            _ => break,
        }
    }
    rows.truncate(limit);
    Ok(rows)
}

/// The room that a list has.
#[derive(Clone, Copy, Debug)]
struct Room {
    columns: usize,
    /// Whether it is a person who reads it as it comes.
    is_terminal: bool,
}

impl Room {
    fn of(wide: bool) -> Self {
        let screen = Screen::stdout();
        Self {
            columns: if wide {
                usize::from(u16::MAX)
            } else {
                screen.columns()
            },
            is_terminal: screen.is_terminal(),
        }
    }

    /// The least important columns are the first to go: each stays from so many columns of the terminal on.
    fn table(self, header: &[(&str, usize)]) -> (Table, Vec<bool>) {
        let kept: Vec<_> = header
            .iter()
            .map(|(_, from)| self.columns >= *from)
            .collect();
        let names = header.iter().zip(&kept).filter(|(_, is)| **is);
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.columns).unwrap_or(u16::MAX))
            .set_header(names.map(|((name, _), _)| *name).collect::<Vec<_>>());
        (table, kept)
    }

    /// When an execution moved last.
    fn time(self, time: &str) -> String {
        if self.is_terminal && self.columns < usize::from(u16::MAX) {
            return ago(time, SystemClock.now());
        }
        if self.is_terminal {
            local(time)
        } else {
            time.to_owned()
        }
    }

    /// The state, as a sign where there is no room for the word.
    fn state(self, state: &str) -> String {
        if self.columns >= STATE_COLUMNS {
            return state.to_owned();
        }
        match state {
            "completed" => "✓",
            "running" => "●",
            "paused" => "‖",
            "pending" => "○",
            _ => "✗",
        }
        .to_owned()
    }
}

/// From so many columns on there is room for an id and the word of its state.
const STATE_COLUMNS: usize = 46;

fn execution_table(rows: &[Value], room: Room) -> String {
    if rows.is_empty() {
        return "no executions here; --all-projects shows those of other projects\n".into();
    }
    let (mut table, kept) = room.table(&[
        ("execution", 0),
        ("workflow", 80),
        (
            if room.columns < STATE_COLUMNS {
                ""
            } else {
                "state"
            },
            0,
        ),
        ("current step", 100),
        ("updated", 58),
    ]);
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let cells = [
            text("execution_id"),
            text("workflow_name"),
            room.state(&text("state")),
            text("current_step"),
            room.time(&text("updated_at")),
        ];
        table.add_row(visible_row(&cells, &kept));
    }
    table.trim_fmt() + "\n"
}

/// Lists workflows or agents, those with findings too.
pub fn list(
    args: &ListArgs,
    registry: &Registry,
    authoring: Option<&Authoring>,
    mut out: Output<'_>,
) -> Result<u8> {
    let printed = if args.what == Listed::Agents {
        let json = || registry.agents().map(agent_json).collect();
        out.rows(json, || agent_table(registry, Room::of(args.wide)))
    } else {
        let json = || registry.workflows().map(workflow_json).collect();
        let room = Room::of(args.wide);
        out.rows(json, || {
            workflow_table(registry, room) + &written_to(authoring)
        })
    };
    printed.map(|()| EXIT_OK)
}

fn workflow_of(entry: &WorkflowEntry) -> Option<&Workflow> {
    let definition = entry.value.as_ref()?;
    Some(&definition.workflow)
}

fn workflow_json(entry: &WorkflowEntry) -> Value {
    let workflow = workflow_of(entry);
    let steps = workflow.map_or(&[][..], |workflow| &workflow.steps);
    let inputs = workflow.and_then(|workflow| workflow.inputs.as_ref());
    json!({
        "name": entry.name,
        "description": workflow.map(|workflow| &workflow.description),
        "source": entry.source,
        "path": entry.path.as_deref().map(shown),
        "complexity": workflow.and_then(|workflow| workflow.complexity),
        "tags": workflow.map_or(&[][..], |workflow| &workflow.tags),
        "metadata": entry.metadata(),
        "inputs": inputs.map(view::inputs),
        "phases": steps.iter().map(phase_json).collect::<Vec<_>>(),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

fn phase_json(step: &Step) -> Value {
    json!({
        "phase": step.id,
        "agent": step.agent(),
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
        "path": entry.path.as_deref().map(shown),
        "tags": persona.map_or(&[][..], |persona| &persona.tags),
        "version": persona.and_then(|persona| persona.version.as_ref()),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

/// A path as text: file names need not be Unicode.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn workflow_table(registry: &Registry, room: Room) -> String {
    let header = [
        ("name", 0),
        ("steps", 100),
        ("source", 70),
        ("description", 0),
    ];
    let (mut table, kept) = room.table(&header);
    for entry in registry.workflows() {
        let workflow = workflow_of(entry);
        table.add_row(visible_row(
            &[
                entry.name.clone(),
                workflow.map_or_else(String::new, steps),
                entry.source.as_str().to_owned(),
                workflow.map_or_else(
                    || broken(&entry.findings, entry.source, entry.path.as_deref()),
                    |workflow| workflow.description.clone(),
                ),
            ],
            &kept,
        ));
    }
    table.trim_fmt() + "\n"
}

/// Where agents write workflows, and why there.
fn written_to(authoring: Option<&Authoring>) -> String {
    let Some(Authoring { directory, reason }) = authoring else {
        return String::new();
    };
    let path = visible(&shown(&directory.path));
    let words = format!("agents write workflows into {path} ({reason})");
    format!("\n{}", Screen::stdout().block(None, "", &words))
}

fn steps(workflow: &Workflow) -> String {
    let ids: Vec<_> = workflow.steps.iter().map(|step| step.id.as_str()).collect();
    ids.join(", ")
}

fn agent_table(registry: &Registry, room: Room) -> String {
    let (mut table, kept) = room.table(&[("name", 0), ("source", 70), ("description", 0)]);
    for entry in registry.agents() {
        table.add_row(visible_row(
            &[
                entry.name.clone(),
                entry.source.as_str().to_owned(),
                entry.value.as_ref().map_or_else(
                    || broken(&entry.findings, entry.source, entry.path.as_deref()),
                    |persona| persona.description.clone(),
                ),
            ],
            &kept,
        ));
    }
    table.trim_fmt() + "\n"
}

/// The cells of the columns that are kept.
fn visible_row<const N: usize>(cells: &[String; N], kept: &[bool]) -> Vec<String> {
    let cells = cells.iter().zip(kept).filter(|(_, is_kept)| **is_kept);
    cells.map(|(cell, _)| visible(cell)).collect()
}

/// The first error of a definition, shown in place of its description.
fn broken(findings: &[Finding], source: Source, path: Option<&Path>) -> String {
    let place = path.map_or_else(|| source.as_str().to_owned(), shown);
    let first = errors(findings).next();
    let line = first.map_or(1, |finding| finding.line);
    let rest = match errors(findings).count() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let message = first.map_or("", |finding| &finding.message);
    format!("{place}:{line}: {message}{rest}")
}
