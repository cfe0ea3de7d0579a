//! The configuration files: `midex.toml` of the project and of the user. Their values become the defaults of the flags
//! with the same names, so that one parser checks flags, environment and files alike, and reports which one it used.
//! Precedence: flag > environment > project's file > user's file > default.

mod file;
mod key;
mod notice;
mod print;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgMatches, CommandFactory, FromArgMatches,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Result as Parsed},
    parser::ValueSource,
};

use self::{
    file::{ConfigFile, FileOwner, FlagSetting},
    key::{all_keys, help_note_for_file},
    notice::server_notices,
};
pub(super) use self::{key::split_message_and_tip, notice::ConfigNotice, print::print_settings};
use super::{
    Cli, CliCommand,
    examples::with_examples,
    flags::DirectoryFlags,
    groups::{hide_global_argument, with_grouped_help},
};
use midex_domain::{
    ProjectDirectories,
    error::{Code, Error, Result},
    finding::{Finding, filter_errors, has_errors},
    nearest::find_nearest,
};
use midex_registry::find_user_dir;
use midex_server::config::{ALLOW_ENV_ENV, DATA_DIR_ENV, SECRET_ENV_ENV, find_project_dir};

/// The name of both files.
const CONFIG_FILE_NAME: &str = "midex.toml";

/// Arguments that can be set by an environment variable.
const ENVIRONMENT_VARIABLES: [(&str, &str); 3] =
    [("data_dir", DATA_DIR_ENV), ("allow_env", ALLOW_ENV_ENV), ("secret_env", SECRET_ENV_ENV)];

/// Flags that require `--http`.
const HTTP_ONLY_FLAGS: [&str; 3] = ["stdio", "http_token_file", "http_host"];

/// The commands that take the flags of `midex serve`.
const COMMANDS_WITH_SERVE_FLAGS: [&str; 2] = ["serve", "config"];

/// The configuration files of this process, in order of precedence.
#[derive(Debug)]
pub(super) struct ConfigFiles(Vec<ConfigFile>);

/// The definition directories that the `midex.toml` of a project names.
///
/// # Errors
/// `USAGE_INVALID` for an invalid file.
pub(super) fn read_project_directories(project: &Path) -> Result<ProjectDirectories> {
    let file = ConfigFile::read(FileOwner::Project, project.join(CONFIG_FILE_NAME), None);
    if has_errors(&file.findings) {
        return Err(unusable_file_error(&file));
    }
    let settings = |key| file.settings.iter().filter(move |setting| setting.key == key);
    let directory = |key| settings(key).flat_map(|one| &one.values).map(PathBuf::from).next();
    Ok(ProjectDirectories { workflows: directory("workflows"), agents: directory("agents") })
}

impl ConfigFiles {
    /// Reads the files of the project and of the current user. Never fails: errors become findings.
    pub(super) fn read() -> Self {
        let project = find_project_dir().join(CONFIG_FILE_NAME);
        let Some(user_path) = find_user_dir().map(|dir| dir.join(CONFIG_FILE_NAME)) else {
            return Self(vec![ConfigFile::read(FileOwner::Project, project, None)]);
        };
        let user_file = ConfigFile::read(FileOwner::User, user_path.clone(), None);
        // If the project directory is that of the user's own file, there is no separate project's file.
        let is_same_file = fs::canonicalize(&project)
            .is_ok_and(|it| fs::canonicalize(&user_path).is_ok_and(|user| user == it));
        if is_same_file {
            return Self(vec![user_file]);
        }
        Self(vec![ConfigFile::read(FileOwner::Project, project, Some(&user_path)), user_file])
    }

    /// Parses a command line, with the values of the files as defaults.
    pub(super) fn parse(
        &self,
        line: impl IntoIterator<Item = OsString>,
    ) -> Parsed<(Cli, ArgMatches)> {
        let matches = self.command_with_defaults().try_get_matches_from(line);
        let matches = matches.map_err(drop_weak_suggestion)?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        let flag_directory = |name: &str, dir: &Option<PathBuf>| {
            let is_flag = matches.value_source(name) == Some(ValueSource::CommandLine);
            dir.clone().filter(|_| is_flag)
        };
        cli.global.directory_flags = DirectoryFlags {
            data_dir: flag_directory("data_dir", &cli.global.data_dir),
            workflows: flag_directory("workflows", &cli.global.workflows),
            agents: flag_directory("agents", &cli.global.agents),
        };
        // A data directory on the command line replaces one of the user's file.
        if cli.global.directory_flags.data_dir.is_some()
            && matches.value_source("well_known") != Some(ValueSource::CommandLine)
        {
            cli.global.well_known = false;
        }
        let take_project_directory = |name: &str, dir: &mut Option<PathBuf>| {
            let is_default = matches.value_source(name) == Some(ValueSource::DefaultValue);
            let owner = self.find_setting(name).map(|(file, _)| file.owner);
            let is_from_project = is_default && owner == Some(FileOwner::Project);
            is_from_project.then(|| dir.take()).flatten()
        };
        cli.global.project_directories = ProjectDirectories {
            workflows: take_project_directory("workflows", &mut cli.global.workflows),
            agents: take_project_directory("agents", &mut cli.global.agents),
        };
        if let (CliCommand::Serve(args) | CliCommand::Config(args), Some((_, matches))) =
            (&mut cli.command, matches.subcommand())
        {
            let source = matches.value_source("http");
            args.transports.is_default_http = source == Some(ValueSource::DefaultValue);
        }
        Ok((cli, matches))
    }

    fn command_with_defaults(&self) -> clap::Command {
        let mut command = with_grouped_help(with_examples(Cli::command()));
        command = command.mut_args(|arg| hide_global_argument(self.with_file_default(arg)));
        for name in COMMANDS_WITH_SERVE_FLAGS {
            command =
                command.mut_subcommand(name, |it| it.mut_args(|arg| self.with_file_default(arg)));
        }
        command
    }

    /// An argument with the value from the files as its default, which an environment variable overrides.
    fn with_file_default(&self, arg: Arg) -> Arg {
        let mut arg = add_file_key_to_help(arg);
        if let Some(values) = self.find_file_default(&arg) {
            arg = arg.default_values(values);
        }
        if let Some(variable) = find_environment_variable(&arg) {
            arg = arg.env(variable).hide_env(true);
        }
        // The parser does not count a default as given, so it cannot check this requirement if a file sets `http`.
        let needs_http =
            HTTP_ONLY_FLAGS.contains(&arg.get_id().as_str()) && self.find_setting("http").is_none();
        if needs_http { arg.requires("http") } else { arg }
    }

    fn find_file_default(&self, arg: &Arg) -> Option<Vec<OsString>> {
        let long = arg.get_long()?;
        if let Some((_, setting)) = self.find_setting(long) {
            return Some(setting.values.clone());
        }
        // Every server reads the file, also those that hosts start and talk to over stdio: keep stdio on beside HTTP.
        let serves_both = long == "stdio" && self.find_setting("http").is_some();
        serves_both.then(|| vec!["true".into()])
    }

    /// The effective setting of this key, and the file that sets it.
    fn find_setting(&self, key: &str) -> Option<(&ConfigFile, &FlagSetting)> {
        let settings =
            self.0.iter().flat_map(|file| file.settings.iter().map(move |setting| (file, setting)));
        settings.into_iter().find(|(_, setting)| setting.key == key)
    }

    /// The warnings about the files: each is about a setting that is ignored.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let warnings = self.findings().filter(|(_, finding)| finding.is_warning());
        warnings.map(|(file, finding)| finding_line(file, finding))
    }

    /// Refuses to continue with an invalid file: the user would work with a configuration that they did not intend.
    ///
    /// # Errors
    /// `USAGE_INVALID` with each error in the first such file.
    pub(super) fn check_usable(&self) -> Result<()> {
        let invalid_file = self.0.iter().find(|file| has_errors(&file.findings));
        invalid_file.map_or(Ok(()), |file| Err(unusable_file_error(file)))
    }

    /// The notices about servers that hosts start without flags.
    pub(super) fn notices(&self) -> Vec<ConfigNotice> {
        match self.parse(["midex", "serve"].map(OsString::from)) {
            Ok((cli, _)) => match cli.command {
                CliCommand::Serve(args) => server_notices(&args),
                _ => Vec::new(),
            },
            // The environment is invalid, which is reported elsewhere.
            Err(_) => Vec::new(),
        }
    }

    /// The existing files, each with its findings.
    pub(super) fn existing_files(&self) -> impl Iterator<Item = (&Path, &[Finding])> {
        let existing = self.0.iter().filter(|file| file.text.is_some());
        existing.map(|file| (&*file.path, &*file.findings))
    }

    fn findings<'a>(&'a self) -> impl Iterator<Item = (&'a ConfigFile, &'a Finding)> {
        let pair_findings =
            |file: &'a ConfigFile| file.findings.iter().map(move |finding| (file, finding));
        self.0.iter().flat_map(pair_findings)
    }
}

/// Removes a suggestion of the parser that is not similar enough to the typed word.
fn drop_weak_suggestion(mut error: clap::Error) -> clap::Error {
    use {ContextKind as Kind, ContextValue as Context};
    for (typed_kind, suggestion_kind) in [
        (Kind::InvalidArg, Kind::SuggestedArg),
        (Kind::InvalidSubcommand, Kind::SuggestedSubcommand),
        (Kind::InvalidValue, Kind::SuggestedValue),
    ] {
        let suggestions = match error.get(suggestion_kind) {
            Some(Context::String(suggestion)) => vec![suggestion.as_str()],
            Some(Context::Strings(words)) => words.iter().map(String::as_str).collect(),
            _ => continue,
        };
        let is_similar = |typed: &Context| {
            find_nearest(&typed.to_string(), suggestions.iter().copied()).is_some()
        };
        if !error.get(typed_kind).is_some_and(is_similar) {
            error.remove(suggestion_kind);
        }
    }
    error
}

/// Adds to an argument's help the key of the file that can set it.
pub(super) fn add_file_key_to_help(arg: Arg) -> Arg {
    let Some(source) = arg.get_long().and_then(help_note_for_file) else {
        return arg;
    };
    let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
    if help.contains("else midex.toml") {
        return arg;
    }
    // The long help may end with a list, so the source is a line of its own.
    let long = arg.get_long_help().map(|long| format!("{long}\n{source}"));
    let arg = arg.help(format!("{help} {source}"));
    match long {
        Some(long) => arg.long_help(long),
        None => arg,
    }
}

/// The environment variable that sets an argument, if it is present.
fn find_environment_variable(arg: &Arg) -> Option<&'static str> {
    let (_, name) = ENVIRONMENT_VARIABLES.iter().find(|(id, _)| *id == arg.get_id().as_str())?;
    std::env::var_os(name).is_some_and(|value| !value.is_empty()).then_some(name)
}

/// A finding on one line.
fn finding_line(file: &ConfigFile, finding: &Finding) -> String {
    let (path, hint) = (file.path.display(), finding.suggestion.as_ref());
    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    format!("{path}:{}:{}: {}{hint}", finding.line, finding.column, finding.message)
}

fn unusable_file_error(file: &ConfigFile) -> Error {
    let message = format!("`{}` cannot be used as it is", file.path.display());
    let violations = filter_errors(&file.findings).map(|finding| {
        let mut violation = finding.to_violation();
        if violation.path.is_empty() {
            CONFIG_FILE_NAME.clone_into(&mut violation.path);
        }
        violation
    });
    Error::new(Code::UsageInvalid, message)
        .with_violations(violations.collect())
        .with_action("Mend the file; `midex config` shows what is wrong in its lines")
}
