#![doc = include_str!("README.md")]

pub mod advice;
mod approve;
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod bundle;
mod call;
mod cat;
mod catalog;
mod cluster;
mod command;
pub mod completions;
mod config;
mod continuation;
mod dashboard;
mod demo;
pub mod diagnostic;
mod diff;
mod doctor;
mod end_signals;
mod examples;
mod execution_id;
mod flags;
pub mod graph;
mod groups;
mod guard;
mod help;
mod hook;
mod install;
mod lifecycle;
mod link;
pub mod list;
mod listener;
mod log;
pub mod new;
mod output;
mod picker;
mod picture;
mod profile;
mod prompt;
mod publish;
mod question;
mod records;
mod refusal;
mod resolve;
mod retry;
mod run;
pub mod schema;
mod screen;
mod serve;
mod show;
mod signal;
mod steps;
mod tail;
mod trust;
pub mod validate;
mod value;
mod visible;
mod waits;
mod when;

use std::{io, process::ExitCode};

pub use self::output::Output;
use self::{
    cluster::status::{ClusterCommand, run_cluster},
    command::HintContext,
    examples::with_examples,
    flags::{GlobalFlags, load_config},
    output::unwritable_output_error,
    refusal::{
        format_report, message_with_violations, print_command_line_error, print_warning,
        report_error,
    },
    visible::replace_hidden_chars,
};
use clap::{ArgMatches, Args, Parser, Subcommand};
use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_server::config::Config;

/// The exit code of a command that succeeded.
pub const EXIT_OK: u8 = 0;
/// The exit code of a command with a negative result, such as `midex validate` with findings.
pub const EXIT_FINDINGS: u8 = 1;

/// A durable workflow server for LLM agents.
#[derive(Debug, Parser)]
#[command(
    name = "midex",
    version,
    about = "A durable workflow server for LLM agents: one binary, one library, every step is on disk before its reply is sent",
    max_term_width = 80,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Serve agents over MCP on standard input and output, or over HTTP
    Serve(ServeArgs),
    /// Open the dashboard in a browser: see executions run, and act on them
    ///
    /// If a server of the data directory serves it, the command prints a link and ends. Otherwise it serves the dashboard until
    /// Ctrl-C. The link is valid once, for a minute; the command prints a new one whenever it is run.
    Dashboard(dashboard::DashboardArgs),
    /// Run a workflow that comes with midex from start to end on a real server that is killed once on the way
    Demo,
    /// Run a workflow in the terminal, or continue an execution of it
    Run(run::RunArgs),
    /// Show the state of an execution, the outcome of its steps, and its result
    #[command(alias = "status")]
    Show(show::ShowArgs),
    /// Show events as they happen
    #[command(alias = "logs")]
    Tail(tail::TailArgs),
    /// Check definition files; exit 1 on findings
    Validate(validate::ValidateArgs),
    /// List available workflows or agents, executions, or calls
    #[command(alias = "ls")]
    List(list::ListArgs),
    #[command(hide = true)]
    Ps(list::ListArgs),
    /// Pause a running execution; its tokens stay valid
    Pause(lifecycle::ChangeArgs),
    /// Resume a paused execution; without one, show the open executions
    Resume(lifecycle::ResumeArgs),
    /// Cancel an execution permanently
    #[command(alias = "cancel")]
    Abandon(lifecycle::ChangeArgs),
    /// Retry a failed, abandoned or diverged execution: finished steps are kept, and the step that failed is open again
    Retry(retry::RetryArgs),
    /// Rewind an open execution to a step: that step and everything after it are done again
    Rewind(retry::RewindArgs),
    /// Fork an execution: begin a new one from its past, at a step, with other inputs, or as it was at a revision
    Fork(retry::ForkArgs),
    /// Export executions to a file that is read without midex, with all that they need
    Export(bundle::ExportArgs),
    /// Import executions from such a file; they are read-only, and go on only as forks
    Import(bundle::ImportArgs),
    /// Compare two executions: definition, inputs, steps, outputs and times
    Diff(diff::DiffArgs),
    /// Delete executions that have ended, with their history and artifacts
    Delete(records::DeleteArgs),
    /// Remove executions that have ended, by age, state, workflow or number
    Prune(records::PruneArgs),
    /// Show how many executions there are, how long they took, and how much room they take
    Stats(records::StatsArgs),
    /// Send a signal that a step waits for
    Signal(signal::SignalArgs),
    /// Approve or reject a gate on a terminal; without an execution, list the open gates
    ///
    /// A terminal does not prove that a person answers: everything that runs as this user, including a script or an agent, can
    /// answer. The execution's history records who answered, through which channel, and the digest of what they were shown.
    Approve(approve::ApproveArgs),
    /// Decide about a call whose outcome is unknown: retry it, or record its output or failure
    Resolve(resolve::ResolveArgs),
    /// Print the file of a workflow unchanged; also works for those that come with midex
    Cat(cat::CatArgs),
    /// Create a starter file for a workflow or an agent
    #[command(subcommand)]
    New(new::NewArgs),
    /// Draw the steps of a workflow and their order, or those of an execution with their states
    Graph(graph::GraphArgs),
    /// List, import, show, change and remove catalogs: OpenAPI documents whose operations are commands
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Call an operation of a catalog; without one, list the available operations
    ///
    /// The call is an execution of one step: `midex show` shows its outcome, even after a crash.
    Call(call::CallArgs),
    /// Print a JSON Schema of definition files, outputs or errors
    Schema(schema::SchemaArgs),
    /// Share the definitions of a project with all servers of a cluster, in place of those published before
    Publish(publish::PublishArgs),
    /// Show the servers that share a database; see docs/cluster.md
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Move all executions of a data directory into a PostgreSQL database; no midex may be running on either
    ///
    /// Every record is read back and compared. If the command is cut off, run it again: it begins anew. The file of the data
    /// directory is kept under another name.
    MigrateStore(cluster::MigrateStoreArgs),
    /// Check for problems that keep midex from working here, and suggest fixes; exit 1 if there are any
    ///
    /// Warnings do not count: the exit code is 1 if a line begins with `fail`.
    Doctor,
    /// Copy the store into a file, which `midex restore` puts back; a server may go on meanwhile
    Backup(backup::BackupArgs),
    /// Put a backup in the place of the store; no midex may be running on the data directory
    ///
    /// The backup is read whole and checked before anything changes.
    Restore(backup::RestoreArgs),
    /// Give unused space of the store back to the disk; no midex may be running on the data directory
    Compact,
    /// Benchmark midex, and what limits it, on this machine and disk in about a minute
    ///
    /// It works in a separate directory next to the data directory, on the same disk, and removes it at the end.
    #[cfg(feature = "bench")]
    Bench(midex_bench::BenchArgs),
    /// Tell the agent of a host about open work at an event of the host; set up by `midex install --with-hooks`
    ///
    /// The host writes its event to standard input as JSON. midex reads the session, its transcript, the working directory and
    /// whether a hook has already made the agent continue (`session_id`, `transcript_path`, `cwd`, `stop_hook_active`, or the
    /// host's own names for them). The answer on standard output is JSON in the format of this host. The exit code is always 0;
    /// on any error, nothing is printed.
    #[command(subcommand)]
    Hook(hook::HookEvent),
    /// Show every setting and its source: flag, environment, midex.toml or default; exit 1 on findings
    ///
    /// It also takes the flags of `midex serve`, but starts no server.
    Config(ServeArgs),
    /// Add midex to the configuration of a host, such as an editor or an agent, or remove it
    ///
    /// The rest of the file keeps its comments, order and indentation, but a JSON object on one line is split into several lines.
    /// Before midex first changes a file that has other content too, it saves a copy next to it. The values of --data-dir,
    /// --workflows, --agents, --token-ttl, --allow-env, --secret-env, --secret-host, --import-from, --author-to, --toolsets and
    /// --tool-names that are given here are stored as arguments of the server, with absolute paths. If none is given, the
    /// arguments of an earlier install are kept.
    Install(install::InstallArgs),
    /// Trust a project: its workflows may then have effects outside of it
    ///
    /// Until a project is trusted, its workflows start only if they do no more than guide a model and read. Trust applies to the
    /// named directory, with symbolic links resolved, and to no directory above or below it. The list is `trust` in the user's
    /// midex.toml.
    Trust(trust::TrustArgs),
    #[command(hide = true)]
    AgentGuard(guard::GuardArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Show the help of a command, the `options` of all commands, or the meaning of `errors` and what to do
    Help(help::HelpArgs),
    #[command(hide = true)]
    Version,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Write a snapshot on every N-th transition; a larger N is faster, but a start after a crash takes longer
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SNAPSHOT_EVERY_MAX)))]
    snapshot_every: u32,
    #[command(flatten)]
    transports: serve::TransportArgs,
    #[command(flatten)]
    profile: profile::ProfileArgs,
    #[command(flatten)]
    retention: serve::RetentionArgs,
    #[command(flatten)]
    backups: serve::BackupScheduleArgs,
    #[command(flatten)]
    dashboard: dashboard::ServedDashboardArgs,
    #[command(flatten)]
    cluster: cluster::ClusterArgs,
}

/// All commands with their flags. `docs/commands.md` is generated from it, and the commands in the documentation are
/// parsed with it.
pub fn command_line() -> clap::Command {
    let mut commands = with_examples(<Cli as clap::CommandFactory>::command());
    commands.build();
    commands
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if completions::answer_completion_request() {
        return ExitCode::from(EXIT_OK);
    }
    let files = config::ConfigFiles::read();
    let (cli, matches) = match files.parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            print_command_line_error(&error);
            return exit_code(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let is_serve = matches!(cli.command, CliCommand::Serve(_));
    let (json, hints) = (cli.global.json, HintContext::new(cli.global.follow_up_flags()));
    let log_file = if is_serve { cli.global.log_file() } else { Ok(None) };
    let log = match log_file.and_then(|file| log::start_logging(is_serve, file.as_deref())) {
        Ok(log) => log,
        Err(error) => {
            report_error(&error, json, &hints);
            return exit_code(error.exit_code());
        }
    };
    let config_check = report_config_problems(&files, &cli.command);
    let result = config_check.and_then(|()| dispatch(cli, &matches, &files, &log));
    if let (Err(error), true) = (&result, is_serve) {
        log.write_line(&format_report(error, json, &hints));
    }
    drop(log);
    match result {
        Ok(code) => exit_code(code),
        Err(error) => {
            if !is_serve {
                report_error(&error, json, &hints);
            }
            exit_code(error.exit_code())
        }
    }
}

/// Reports problems in the configuration files, unless the command reports them itself.
fn report_config_problems(files: &config::ConfigFiles, command: &CliCommand) -> Result<()> {
    match command {
        CliCommand::Config(_)
        | CliCommand::Doctor
        | CliCommand::Completions(_)
        | CliCommand::Help(_) => {
            return Ok(());
        }
        // A host does not read warnings, and the parent of the guard has already printed them.
        CliCommand::Hook(_) | CliCommand::AgentGuard(_) => {}
        CliCommand::Serve(_) => files
            .warnings()
            .for_each(|warning| tracing::warn!("{}", replace_hidden_chars(&warning))),
        _ => files.warnings().for_each(|warning| print_warning(&warning)),
    }
    files.check_usable()
}

/// The exit code of this process. That of `midex hook` is always 0, also for an invalid command line: a host may
/// interpret other codes as instructions.
fn exit_code(code: u8) -> ExitCode {
    let is_hook = || {
        let line = <Cli as clap::CommandFactory>::command().ignore_errors(true);
        let matches = line.try_get_matches_from(std::env::args_os());
        matches.is_ok_and(|read| read.subcommand_name() == Some("hook"))
    };
    ExitCode::from(if code != EXIT_OK && is_hook() { EXIT_OK } else { code })
}

fn dispatch(
    cli: Cli,
    matches: &ArgMatches,
    files: &config::ConfigFiles,
    log: &log::Log,
) -> Result<u8> {
    let flags = cli.global.follow_up_flags();
    let config = load_config(&cli.global)?;
    let mut stdout = io::stdout();
    let out = Output::new(cli.global.json, &mut stdout);
    match cli.command {
        CliCommand::Serve(args) => {
            let (backups, retention) = (args.backups.schedule(&config), args.retention.rules());
            let snapshot_every = args.snapshot_every;
            let config = Config { snapshot_every, retention, backups, ..config };
            run_to_end(serve::serve(config, args, log))
        }
        CliCommand::Dashboard(args) => run_to_end(dashboard::dashboard(args, &config, out)),
        CliCommand::Demo => {
            run_to_end(demo::run_demo(&config, cli.global.directory_flags.data_dir, out))
        }
        CliCommand::Run(args) => run_to_end(run::run(args, &config, flags, out)),
        CliCommand::Show(args) => run_to_end(show::show(args, &config, flags, out)),
        CliCommand::Tail(args) => run_to_end(tail::tail(args, &config, out.is_json)),
        CliCommand::Validate(args) => {
            validate::validate(&args, &config.registry(), takes_color(), out)
        }
        CliCommand::Ps(mut args) => {
            args.what = list::ListSubject::Executions;
            run_to_end(list::list_executions(args, &config, &flags, out))
        }
        CliCommand::List(args) if args.what.is_stored() => {
            run_to_end(list::list_executions(args, &config, &flags, out))
        }
        CliCommand::List(args) => {
            let authoring = config.authoring_directory();
            list::list_definitions(&args, &config.registry(), authoring.as_ref(), out)
        }
        CliCommand::Pause(args) => run_to_end(lifecycle::change_state(
            lifecycle::LifecycleCommand::Pause,
            args,
            &config,
            &flags,
            out,
        )),
        CliCommand::Retry(args) => run_to_end(retry::retry(args, &config, &flags, out)),
        CliCommand::Rewind(args) => run_to_end(retry::rewind(args, &config, &flags, out)),
        CliCommand::Fork(args) => run_to_end(retry::fork(args, &config, &flags, out)),
        CliCommand::Export(args) => run_to_end(bundle::export(args, &config, out)),
        CliCommand::Import(args) => run_to_end(bundle::import(args, &config, &flags, out)),
        CliCommand::Diff(args) => run_to_end(diff::diff(args, &config, out)),
        CliCommand::Resume(args) => run_to_end(lifecycle::resume(args, &config, &flags, out)),
        CliCommand::Abandon(args) => run_to_end(lifecycle::change_state(
            lifecycle::LifecycleCommand::Abandon,
            args,
            &config,
            &flags,
            out,
        )),
        CliCommand::Delete(args) => run_to_end(records::delete(args, &config, out)),
        CliCommand::Prune(args) => run_to_end(records::prune(args, &config, out)),
        CliCommand::Stats(args) => run_to_end(records::stats(args, &config, out)),
        CliCommand::Signal(args) => run_to_end(signal::signal(args, &config, &flags, out)),
        CliCommand::Approve(args) => run_to_end(approve::approve(args, &config, &flags, out)),
        CliCommand::Resolve(args) => run_to_end(resolve::resolve(args, &config, &flags, out)),
        CliCommand::Cat(args) => cat::cat(&args, &config.registry(), out),
        CliCommand::New(args) => new::write_new_file(&args, &config, out),
        CliCommand::Graph(args) => {
            let registry = config.registry();
            if graph::is_definition_argument(&args, &registry) {
                return graph::print_definition_graph(&args, &registry, out);
            }
            // An unknown name may also be a misspelt workflow: that error suggests the nearest workflow name.
            let mut result = run_to_end(graph::print_execution_graph(args.clone(), &config, out));
            if result.as_ref().is_err_and(execution_id::is_unknown_execution) {
                let out = Output::new(cli.global.json, &mut stdout);
                result = graph::print_definition_graph(&args, &registry, out);
            }
            result
        }
        CliCommand::Catalog(command) => run_to_end(catalog::run_catalog(command, &config, out)),
        CliCommand::Call(args) => run_to_end(call::call(args, &config, out)),
        CliCommand::Schema(args) => schema::print_schema(&args, out),
        CliCommand::Backup(args) => run_to_end(backup::back_up(args, &config, out)),
        CliCommand::Restore(args) => backup::restore(&args, &config, out),
        CliCommand::Compact => backup::compact(&config, out),
        CliCommand::Cluster(command) => run_to_end(run_cluster(command, &config, out)),
        CliCommand::MigrateStore(args) => run_to_end(cluster::migrate_store(args, out)),
        CliCommand::Publish(args) => run_to_end(publish::publish(args, &config, out)),
        CliCommand::Doctor => run_to_end(doctor::run_doctor(&config, files, out)),
        #[cfg(feature = "bench")]
        CliCommand::Bench(args) => run_to_end(bench::run_bench(args, &config, out)),
        CliCommand::Hook(event) => run_to_end(hook::run_hook(event, config, out)),
        CliCommand::Config(args) => {
            let subcommand_matches =
                matches.subcommand().map_or(matches, |(_, of_command)| of_command);
            config::print_settings(files, subcommand_matches, &args, &config, out)
        }
        CliCommand::Install(args) => install::install(&args, matches, &config, out),
        CliCommand::Trust(args) => trust::trust(args, &config, out),
        CliCommand::AgentGuard(args) => run_to_end(async { Ok(guard::run_guard(args).await) }),
        CliCommand::Completions(args) => completions::print_completion_script(&args, out),
        CliCommand::Help(args) => help::help(&args, out),
        CliCommand::Version => print_version(out),
    }
}

fn print_version(mut out: Output<'_>) -> Result<u8> {
    let version = <Cli as clap::CommandFactory>::command().render_version();
    out.write_unchanged(version).map(|()| EXIT_OK)
}

/// Whether stdout takes color: it is a terminal, and the environment does not object (`NO_COLOR`, `CLICOLOR`, `TERM`).
fn takes_color() -> bool {
    // In CI, anstream chooses color whatever `TERM` is, so check for a dumb terminal here.
    let is_dumb_terminal = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let is_forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|force| force != "0");
    let choice = anstream::AutoStream::choice(&io::stdout());
    choice != anstream::ColorChoice::Never && (is_forced || !is_dumb_terminal)
}

/// Runs a command on a new runtime. At the end the runtime is shut down in the background, so that an unfinished read
/// of standard input does not keep the process alive.
fn run_to_end<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Error::internal("the runtime could not be started").with_source(error))?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_fits_together() {
        super::Cli::command().debug_assert();
    }
}
