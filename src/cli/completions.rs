//! Shell completion: `midex completions` prints a script for a shell, which calls midex for the candidates. These
//! include current data: executions, workflows, and the signals and steps that executions wait for.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    panic,
    time::Duration,
};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell, env::Shells};
use serde_json::json;

use super::{
    Cli, EXIT_OK, Output,
    command::quoted,
    config::ConfigFiles,
    examples::with_examples,
    execution_id::{self, LAST_FAILED_WORD, LAST_WORD},
    flags::load_config,
    link::{ServerLink, remove_nulls},
    screen::one_line,
    value::optional_text_line,
    waits::step_argument,
};
use midex_domain::{
    error::{Error, Result},
    limits,
    view::{ExecutionRow, WaitView},
};
use midex_server::{app, config::Config};

/// The environment variable by which a script asks for completions.
const COMPLETE_VARIABLE: &str = "MIDEX_COMPLETE";

/// Which shell to print completions for.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the completion script.
pub fn print_completion_script(args: &CompletionsArgs, mut out: Output<'_>) -> Result<u8> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell);
    let completer = completer.ok_or_else(|| Error::internal(format!("no script for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(COMPLETE_VARIABLE, "midex", "midex", "midex", &mut script)
        .map_err(|error| Error::internal("the script cannot be written").with_source(error))?;
    out.write_unchanged(script).map(|()| EXIT_OK)
}

/// Answers a completion script; returns false if this process was started for another purpose. Prints nothing else,
/// also on errors and panics.
pub(super) fn answer_completion_request() -> bool {
    if std::env::var_os(COMPLETE_VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(|| {
        let env =
            CompleteEnv::with_factory(command_with_completers).var(COMPLETE_VARIABLE).bin("midex");
        let directory = std::env::current_dir().ok();
        let _ = env.try_complete(std::env::args_os(), directory.as_deref());
    });
    drop(result);
    true
}

/// The kind of candidates for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentKind {
    /// Executions of this project in a state, or in any.
    Executions(Option<&'static str>),
    /// Workflows that can be started.
    Workflows,
    /// Workflows, and executions of this project, for `midex graph`.
    GraphTargets,
    /// Signals that the named execution waits for, or any open execution if none is named.
    Signals,
    /// Steps whose gates are open.
    Gates,
    /// Steps with an unknown outcome, for `midex resolve`.
    UnknownOutcomes,
}

/// Commands, their arguments, and the kind of candidates for each.
const COMPLETED_ARGUMENTS: &[(&str, &str, ArgumentKind)] = &[
    ("show", "execution_id", ArgumentKind::Executions(None)),
    ("tail", "execution_id", ArgumentKind::Executions(None)),
    ("pause", "execution_id", ArgumentKind::Executions(Some("running"))),
    ("resume", "execution_id", ArgumentKind::Executions(Some("paused"))),
    ("abandon", "execution_id", ArgumentKind::Executions(Some("open"))),
    ("retry", "execution_id", ArgumentKind::Executions(Some("failed"))),
    ("rewind", "execution_id", ArgumentKind::Executions(Some("open"))),
    ("fork", "execution_id", ArgumentKind::Executions(None)),
    ("delete", "execution_ids", ArgumentKind::Executions(None)),
    ("export", "execution_ids", ArgumentKind::Executions(None)),
    ("diff", "a", ArgumentKind::Executions(None)),
    ("diff", "b", ArgumentKind::Executions(None)),
    ("signal", "execution_id", ArgumentKind::Executions(Some("open"))),
    ("signal", "signal", ArgumentKind::Signals),
    ("approve", "execution_id", ArgumentKind::Executions(Some("open"))),
    ("approve", "step", ArgumentKind::Gates),
    ("resolve", "execution_id", ArgumentKind::Executions(Some("open"))),
    ("resolve", "step", ArgumentKind::UnknownOutcomes),
    ("run", "workflow", ArgumentKind::Workflows),
    ("run", "id", ArgumentKind::Executions(Some("open"))),
    ("graph", "workflow", ArgumentKind::GraphTargets),
    ("show", "name", ArgumentKind::Workflows),
    ("cat", "workflow", ArgumentKind::Workflows),
    ("list", "workflow", ArgumentKind::Workflows),
    ("validate", "print", ArgumentKind::Workflows),
    ("new workflow", "from", ArgumentKind::Workflows),
];

pub(super) fn command_with_completers() -> Command {
    let mut command = with_examples(Cli::command());
    for &(name, argument, kind) in COMPLETED_ARGUMENTS {
        let add_completer = move |arg: Arg| {
            if arg.get_id().as_str() == argument {
                arg.add(ArgValueCompleter::new(move |prefix: &OsStr| find_candidates(kind, prefix)))
            } else {
                arg
            }
        };
        command = command.mut_subcommand_at(name, |it| it.mut_args(add_completer));
    }
    command
}

/// Modifies a nested subcommand, such as `new workflow`.
trait NestedSubcommand: Sized {
    fn mut_subcommand_at(self, path: &str, change: impl FnOnce(Self) -> Self) -> Self;
}

impl NestedSubcommand for Command {
    fn mut_subcommand_at(self, path: &str, change: impl FnOnce(Self) -> Self) -> Self {
        match path.split_once(' ') {
            None => self.mut_subcommand(path, change),
            Some((first, rest)) => self.mut_subcommand(first, |it| it.mut_subcommand(rest, change)),
        }
    }
}

/// The candidates for a begun word, at most [`limits::COMPLETIONS_MAX`].
fn find_candidates(kind: ArgumentKind, prefix: &OsStr) -> Vec<CompletionCandidate> {
    let words = line_words(std::env::args_os());
    let (Some(config), Some(prefix)) = (parse_line_config(&words), prefix.to_str()) else {
        return Vec::new();
    };
    let ask_server = || candidates_from_server(&config, kind, &words).unwrap_or_default();
    let candidates = match kind {
        ArgumentKind::Workflows => workflow_candidates(&config),
        ArgumentKind::GraphTargets => {
            workflow_candidates(&config).into_iter().chain(ask_server()).collect()
        }
        _ => ask_server(),
    };
    filter_candidates(candidates, prefix)
        .map(|(word, about)| CompletionCandidate::new(word).help(Some(about.into())))
        .collect()
}

/// The distinct candidates that start with `prefix` and need no quoting, at most as many as a person can look through.
fn filter_candidates(
    candidates: Vec<(String, String)>,
    prefix: &str,
) -> impl Iterator<Item = (String, String)> {
    let mut seen_words = BTreeSet::new();
    candidates
        .into_iter()
        .filter(move |(word, _)| {
            word.starts_with(prefix) && needs_no_quoting(word) && seen_words.insert(word.clone())
        })
        .take(limits::COMPLETIONS_MAX)
}

/// Whether a word can be inserted without quotes and is no flag: the shell inserts candidates unquoted.
fn needs_no_quoting(word: &str) -> bool {
    !word.starts_with('-') && quoted(word) == word
}

/// The words of the line so far, without the program name.
fn line_words(args: impl Iterator<Item = OsString>) -> Vec<String> {
    let line = args.skip_while(|arg| arg != "--").skip(2);
    line.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The configuration that results from the flags on the line.
fn parse_line_config(words: &[String]) -> Option<Config> {
    let mut line = vec!["midex".to_owned()];
    for flag in ["--data-dir", "--workflows", "--agents"] {
        if let Some(value) = find_flag_value(words, flag) {
            line.push(format!("{flag}={value}"));
        }
    }
    line.push("list".to_owned());
    let (cli, _) = ConfigFiles::read().parse(line.into_iter().map(OsString::from)).ok()?;
    load_config(&cli.global).ok()
}

fn find_flag_value(words: &[String], flag: &str) -> Option<String> {
    let mut words = words.iter();
    let mut last_value = None;
    while let Some(word) = words.next() {
        if word == flag {
            last_value = words.next().cloned();
        } else if let Some(value) = word.strip_prefix(flag).and_then(|it| it.strip_prefix('=')) {
            last_value = Some(value.to_owned());
        }
    }
    last_value
}

fn workflow_candidates(config: &Config) -> Vec<(String, String)> {
    let registry = config.registry();
    let usable = registry.workflows().filter(|entry| !entry.is_broken());
    usable.map(|entry| (entry.name.clone(), entry.source.as_str().to_owned())).collect()
}

/// Asks the server of the data directory, or an embedded one, within [`limits::COMPLETE_WITHIN`]. Does not create a
/// data directory: a completion must not be its first user.
fn candidates_from_server(
    config: &Config,
    kind: ArgumentKind,
    words: &[String],
) -> Option<Vec<(String, String)>> {
    if !config.data_dir.join(app::STORE_FILE).exists() {
        return None;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().ok()?;
    let candidates = runtime.block_on(async {
        let mut link = ServerLink::new(config);
        let candidates = finish_within(
            limits::COMPLETE_WITHIN,
            Box::pin(server_candidates(&mut link, kind, words)),
        )
        .await;
        // Close the store in order, within the same limit.
        let _ = finish_within(limits::COMPLETE_WITHIN, link.close()).await;
        candidates
    });
    runtime.shutdown_background();
    candidates
}

async fn finish_within<T>(time: Duration, work: impl Future<Output = Result<T>>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()?.ok()
}

async fn server_candidates(
    link: &mut ServerLink<'_>,
    kind: ArgumentKind,
    words: &[String],
) -> Result<Vec<(String, String)>> {
    let state = match kind {
        ArgumentKind::Executions(state) => Some(state),
        ArgumentKind::GraphTargets => Some(None),
        _ => None,
    };
    if let Some(state) = state {
        // Read more executions than are offered: the begun word filters them afterwards.
        let rows = list_executions(link, state, limits::LIST_LIMIT_MAX).await?;
        let describe =
            |row: &ExecutionRow| format!("{}, {}", one_line(&row.workflow_name), row.state);
        let executions = rows.iter().map(|row| (one_line(&row.execution_id), describe(row)));
        let keywords =
            [(LAST_WORD, "the one that moved last"), (LAST_FAILED_WORD, "the last that failed")];
        let keywords = keywords.map(|(word, about)| (word.to_owned(), about.to_owned()));
        return Ok(keywords.into_iter().chain(executions).collect());
    }
    let ids = if let Some(execution_arg) = find_execution_argument(words) {
        vec![execution_id::run_with_execution(link, execution_arg, fetch_full_id).await?]
    } else {
        let rows = list_executions(link, Some("open"), limits::COMPLETIONS_MAX).await?;
        rows.into_iter().map(|row| row.execution_id).collect()
    };
    let mut candidates = Vec::new();
    for id in ids {
        let waits = link.fetch_status(&id).await?.waits;
        candidates.extend(waits.iter().filter_map(|wait| wait_candidate(wait, kind)));
    }
    Ok(candidates)
}

async fn fetch_full_id(link: &mut ServerLink<'_>, id: &str) -> Result<String> {
    Ok(link.fetch_status(id).await?.execution_id)
}

async fn list_executions(
    link: &mut ServerLink<'_>,
    state: Option<&str>,
    limit: usize,
) -> Result<Vec<ExecutionRow>> {
    let arguments = remove_nulls(json!({ "limit": limit, "state": state }));
    Ok(link.list_executions(arguments).await?.executions)
}

/// The candidate and its description for a wait; `None` if the wait is of another kind.
fn wait_candidate(wait: &WaitView, kind: ArgumentKind) -> Option<(String, String)> {
    let step = one_line(&wait.step_name);
    match (kind, wait.waits_for.as_str()) {
        (ArgumentKind::Signals, "signal") => {
            Some((optional_text_line(wait.signal.as_deref()), format!("step {step}")))
        }
        (ArgumentKind::Gates, "gate") => {
            Some((step_argument(&wait.step_name, wait.item), "waits for an approval".to_owned()))
        }
        (ArgumentKind::UnknownOutcomes, "unknown") => {
            let step = step_argument(&wait.step_name, wait.item);
            Some((step, "nobody knows what came of it".to_owned()))
        }
        _ => None,
    }
}

/// The execution id after the command, if there is one and it is not the word being typed.
fn find_execution_argument(words: &[String]) -> Option<&str> {
    let commands = ["signal", "approve", "resolve"];
    let command_index = words.iter().position(|word| commands.contains(&word.as_str()))?;
    let mut operands = words[command_index + 1..].iter().filter(|word| !word.starts_with('-'));
    let first = operands.next()?;
    operands.next().map(|_| first.as_str()).filter(|first| !first.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_line(text: &str) -> Vec<String> {
        let line = format!("midex -- midex {text}");
        line_words(line.split(' ').map(OsString::from))
    }

    #[test]
    fn every_completed_argument_exists() {
        let command = command_with_completers();
        for (name, argument, _) in COMPLETED_ARGUMENTS {
            let mut path = name.split(' ');
            let found_arg = path
                .try_fold(&command, |it, name| it.find_subcommand(name))
                .and_then(|it| it.get_arguments().find(|arg| arg.get_id() == argument));
            assert!(found_arg.is_some(), "{name} has no {argument}");
        }
    }

    #[test]
    fn partial_line_is_parsed() {
        assert_eq!(find_execution_argument(&split_line("signal e1 ")), Some("e1"));
        assert_eq!(find_execution_argument(&split_line("--data-dir d approve e1 g")), Some("e1"));
        assert_eq!(find_execution_argument(&split_line("signal e1")), None);
        assert_eq!(find_execution_argument(&split_line("signal  g")), None);
        assert_eq!(find_execution_argument(&split_line("show e1 ")), None);
        let words = split_line("show --data-dir=a --data-dir b --workflows");
        assert_eq!(find_flag_value(&words, "--data-dir").as_deref(), Some("b"));
        assert_eq!(find_flag_value(&words, "--workflows"), None);
        assert_eq!(find_flag_value(&words, "--agents"), None);
    }

    #[test]
    fn candidates_match_and_are_limited() {
        let candidates_with = |prefix: &str| {
            let names = (0..limits::COMPLETIONS_MAX + 5).map(move |at| format!("{prefix}{at}"));
            names.map(|name| (name, String::new())).collect::<Vec<_>>()
        };
        let all = [candidates_with("a"), candidates_with("b"), candidates_with("b")].concat();
        assert_eq!(filter_candidates(all.clone(), "").count(), limits::COMPLETIONS_MAX);
        // Candidates that do not match do not count towards the limit.
        assert_eq!(filter_candidates(all.clone(), "b").count(), limits::COMPLETIONS_MAX);
        assert_eq!(filter_candidates(all.clone(), "b5").count(), 6);
        assert_eq!(filter_candidates(all, "c").count(), 0);
    }

    #[test]
    fn candidates_need_no_quoting() {
        assert!(needs_no_quoting("exec_01") && needs_no_quoting("@last"));
        for word in ["a b", "$(rm)", "`x`", "-x", "a;b", "", "a'b"] {
            assert!(!needs_no_quoting(word), "{word}");
        }
    }
}
