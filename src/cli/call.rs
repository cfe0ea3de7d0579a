//! `midex call`: calls one operation of a catalog, over the tool for its class.

mod answer;
mod file;

use std::path::PathBuf;

use serde_json::{Value, json};

use self::answer::{print_call_notes, render_payload};
use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    advice::failure_advice,
    catalog::{self, page::command_table, schema},
    end_signals::{EXIT_INTERRUPTED, subscribe_to_signals, wait_for_signal},
    link::{ServerLink, is_final_state, remove_nulls},
    list::parse_positive_number,
    question,
    run::inputs,
    screen::Screen,
    value::{list_items, text_field},
};
use midex_catalog::operation::Method;
use midex_domain::{
    State,
    error::{Code, Error, FailureCode, Result},
    limits,
    schema::follow_references,
};
use midex_server::config::{Config, parse_duration};

/// Which command, and what it is given.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CallArgs {
    /// The vendor and the operation, such as `shop orders:list`; without them, the available operations are listed
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// List the commands that match these words, best match first
    #[arg(long, value_name = "WORDS", conflicts_with = "command")]
    search: Option<String>,
    /// Maximum number of commands to list
    #[arg(long, value_name = "N", default_value_t = limits::COMMANDS_LISTED,
          value_parser = parse_positive_number)]
    limit: usize,
    /// An argument, parsed as its type: a number, true or false, JSON for lists and objects; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    with: Vec<String>,
    /// All arguments as a JSON object, or a file that contains one; --with takes precedence
    #[arg(long, value_name = "JSON|@FILE")]
    with_json: Option<String>,
    /// The body: any JSON value, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    body: Option<String>,
    /// Timeout of each attempt
    #[arg(long, value_name = "DURATION", value_parser = check_duration)]
    timeout: Option<String>,
    /// Fetch up to N pages of a list
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CALL_PAGES_MAX)))]
    max_pages: Option<u32>,
    /// Write the payload to this file, with its bytes unchanged, and print only a summary of the call
    #[arg(long, value_name = "FILE", requires = "command")]
    output: Option<PathBuf>,
    /// Do not ask for confirmation before a destructive call
    #[arg(long)]
    yes: bool,
}

/// Checks a duration but keeps its text, which the server parses again.
fn check_duration(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned())
}

/// Calls the command and prints its answer; without a command, lists those that can be called.
pub(super) async fn call(args: CallArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let mut link = ServerLink::new_worker(config);
    let signals = subscribe_to_signals()?;
    let run = async {
        if args.command.is_empty() {
            print_command_list(args, &mut link, &mut out).await.map(|()| EXIT_OK)
        } else {
            run_command(args, &mut link, &mut out).await
        }
    };
    let result = tokio::select! {
        result = run => result,
        () = wait_for_signal(signals) => {
            let note = "interrupted: `midex list calls` shows whether the call was begun, and what came of it\n";
            question::write_prompt(note).map(|()| EXIT_INTERRUPTED)
        }
    };
    link.close_and_log().await;
    result
}

async fn print_command_list(
    args: CallArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let arguments = remove_nulls(json!({ "query": args.search }));
    let listing = catalog::list_commands(arguments, args.limit, link).await?;
    let commands = &listing.commands;
    let screen = Screen::stdout();
    let more_note = listing.more_commands_note().map(|more| screen.indent_block(None, "", &more));
    let text = || {
        if commands.is_empty() {
            return "no command fits; `midex catalog list` shows the catalogs\n".to_owned();
        }
        command_table(commands, &screen) + more_note.as_deref().unwrap_or_default()
    };
    out.print_rows(|| commands.clone(), text)?;
    match &more_note {
        Some(note) if out.is_json => question::write_prompt(note),
        _ => Ok(()),
    }
}

async fn run_command(
    args: CallArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<u8> {
    let words: Vec<_> = args.command.iter().flat_map(|word| word.split_whitespace()).collect();
    let id = words.join(" ");
    let command = catalog::fetch_command(&id, link).await.map_err(suggest_nearest_command)?;
    let arguments = command_arguments(&id, &args, &command)?;
    let answer = match text_field(&command, "class").as_str() {
        "safe" => link.call("command.run_safe", arguments).await,
        "standard" => link.call_once("command.run", arguments).await,
        _ => {
            let question =
                format!("`{id}` takes something away. Call it with {}?", arguments["with"]);
            if !args.yes && !question::ask_yes_or_no(&question, "--yes", link).await? {
                return Ok(EXIT_FINDINGS);
            }
            let mut arguments = arguments;
            arguments["confirm"] = json!(true);
            link.call_once("command.run_destructive", arguments).await
        }
    };
    let answer =
        wait_for_call_end(answer.map_err(|error| explain_call_error(error, &command))?, link).await;
    let answer = answer.map_err(|error| explain_call_error(error, &command))?;
    let has_payload = answer["status_code"].is_u64();
    match &args.output {
        Some(path) if has_payload => {
            file::write_payload_file(&answer, path, link).await?;
            print_call_notes(&answer, true, out)?;
            out.print(|| answer.clone(), String::new)?;
        }
        _ => {
            print_call_notes(&answer, false, out)?;
            out.print(|| answer.clone(), || render_payload(&answer, &Screen::stdout()))?;
        }
    }
    Ok(EXIT_OK)
}

/// The lowest HTTP status after which a service may have done part of its work.
const HTTP_SERVER_ERROR_MIN: u64 = 500;

/// Whether the service may have carried out the failed call, and repeating the call would do it twice.
fn may_have_taken_effect(error: &Error, failure: Option<FailureCode>, command: &Value) -> bool {
    let method = serde_json::from_value::<Method>(command["http_method"].clone());
    let is_repeatable = command["class"] == "safe" || method.is_ok_and(Method::is_idempotent);
    let was_sent = match failure {
        Some(FailureCode::Http) => {
            let status = error.context("failure_code").and_then(Value::as_str);
            let status = status.and_then(|code| code.strip_prefix("HTTP_")?.parse().ok());
            status.is_some_and(|status: u64| status >= HTTP_SERVER_ERROR_MIN)
        }
        // A retryable network error means that no connection was made: nothing was sent, and the same call may succeed.
        Some(FailureCode::Network) => !error.is_retryable(),
        Some(FailureCode::StepTimedOut | FailureCode::LimitExceeded) => true,
        _ => false,
    };
    was_sent && !is_repeatable
}

fn command_arguments(id: &str, args: &CallArgs, command: &Value) -> Result<Value> {
    let json_arguments = match &args.with_json {
        Some(text) => {
            match inputs::parse_json_flag("--with-json", text, limits::INPUTS_BYTES_MAX)? {
                (_, object @ Value::Object(_)) => Some(object),
                (place, _) => {
                    let error =
                        Error::new(Code::UsageInvalid, format!("{place}: not a JSON object"));
                    return Err(error.with_action("Give a JSON object, or @FILE with one in it"));
                }
            }
        }
        None => None,
    };
    let single_arguments =
        args.with.iter().map(|flag| inputs::split_name_and_value("--with", flag));
    let single_arguments: Vec<_> = single_arguments.collect::<Result<_>>()?;
    let with_arguments =
        inputs::merge_inputs(json_arguments, single_arguments, &declared_argument_types(command));
    let body = args
        .body
        .as_ref()
        .map(|text| inputs::parse_json_flag("--body", text, limits::INPUTS_BYTES_MAX));
    let body = body.transpose()?.map(|(_, body)| body);
    let pagination = args.max_pages.map(|pages| json!({ "max_pages": pages }));
    let with_arguments = with_arguments.unwrap_or_else(|| json!({}));
    Ok(remove_nulls(json!({
        "id": id, "with": with_arguments, "body": body, "timeout": args.timeout, "paginate": pagination
    })))
}

/// The types of the arguments, and of the fields of a body that can be given as arguments.
fn declared_argument_types(command: &Value) -> Vec<(String, Value)> {
    let argument_type = |name: &str, schema: &Value, root: &Value| {
        let kind = schema::find_value_type(schema, root);
        let schema = json!({ "type": kind, "enum": schema["enum"] });
        (name.to_owned(), schema)
    };
    let workflow_arguments = list_items(&command["arguments"]).iter();
    let workflow_arguments = workflow_arguments.filter(|argument| argument["schema"].is_object());
    let workflow_arguments = workflow_arguments.map(|argument| {
        let name = argument["name"].as_str().unwrap_or_default();
        argument_type(name, &argument["schema"], &argument["schema"])
    });
    let arguments = schema_properties(&command["input_schema"]);
    let arguments = arguments.map(|(name, schema)| argument_type(name, schema, schema));
    let root = &command["body_schema"];
    let fields = schema_properties(follow_references(root, root));
    let fields = fields.map(|(name, schema)| argument_type(name, schema, root));
    workflow_arguments.chain(arguments).chain(fields).collect()
}

/// The properties of a schema by name.
fn schema_properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Waits for the end of a call that took longer than its tool waits. A call that waits for something else is returned
/// as it is.
async fn wait_for_call_end(answer: Value, link: &mut ServerLink<'_>) -> Result<Value> {
    let is_operation = answer.get("waits").is_some();
    let is_running = is_operation && answer["status"] == State::Running.as_str();
    let Some(id) = answer["execution_id"].as_str().filter(|_| is_running) else {
        return Ok(answer);
    };
    let mut status = link.wait_for_change(id, None).await?;
    while status.state == State::Running.as_str() {
        status = link.wait_for_change(id, None).await?;
    }
    if !is_final_state(&status.state) {
        return Ok(answer);
    }
    if let Some(failure) = status.error {
        let error = Error::new(Code::CommandFailed, failure.message)
            .with_context("execution_id", id)
            .with_context("failure_code", failure.code);
        return Err(match failure.response_payload {
            None => error,
            Some(payload) => error.with_context("response_payload", payload),
        });
    }
    let mut output = status.final_output.unwrap_or_default();
    if let (Value::Object(output), Value::Object(answer)) = (&mut output, answer) {
        let call_fields = answer
            .into_iter()
            .filter(|(name, _)| !["status", "waits", "attempts"].contains(&name.as_str()));
        output.extend(call_fields);
        // The duration in the tool's answer only counts as long as the tool waited.
        output.insert("duration_ms".to_owned(), json!(status.duration_ms));
    }
    Ok(output)
}

/// Adds a suggestion if an unknown name is similar to a known one.
fn suggest_nearest_command(error: Error) -> Error {
    if error.code() == Code::CommandNotFound && error.context("nearest").is_some() {
        return error
            .with_action("Run `midex call {nearest}` with the same flags, if that is meant");
    }
    error
}

/// The error of a call, with the action that a person can take.
fn explain_call_error(error: Error, command: &Value) -> Error {
    let failure = error.context("failure_code").and_then(Value::as_str);
    let failure = failure.and_then(FailureCode::parse);
    let may_be_done = may_have_taken_effect(&error, failure, command);
    let action = match (error.code(), failure) {
        (Code::ServerStopping, _) => {
            "Look with `midex list calls` whether the call was done before it is done again"
        }
        (Code::ArgumentsInvalid, _) => failure_advice(FailureCode::ArgumentsInvalid),
        (Code::AddressRefused, _) if error.context("host").is_some() => {
            "Run `midex catalog allow {catalog} {host}`, if that address is meant"
        }
        (Code::AddressRefused, _) => {
            "Run `midex catalog base-url {catalog} {base_url}`, with the host of the service"
        }
        (Code::CommandFailed, Some(FailureCode::Http)) if error.context("scheme").is_some() => {
            "Run `midex catalog credential {catalog} {scheme} '${env:NAME}'`, with the name of the secret, and call again; `midex show {execution_id}` shows the call again"
        }
        (Code::CommandFailed, _) if may_be_done => {
            "Look first whether the service has done it all the same, and call again only if it has not; `midex show {execution_id}` shows the call again"
        }
        (Code::CommandFailed, Some(FailureCode::StepTimedOut)) => {
            "Give it more time with --timeout, such as --timeout 2m; `midex show {execution_id}` shows the call again"
        }
        (Code::CommandFailed, _) if error.is_retryable() => {
            "Run the same command again a little later: nothing is wrong with the call"
        }
        (Code::CommandFailed, Some(failure)) => failure_advice(failure),
        (Code::CommandFailed, None) => failure_advice(FailureCode::Http),
        _ => return error,
    };
    let is_retryable = error.is_retryable() && !may_be_done;
    let error = error.with_retryable(is_retryable);
    let id = text_field(command, "id");
    let operation = id.split_once(' ').map_or("", |(_, operation)| operation);
    error
        .with_context("catalog", text_field(command, "catalog_id"))
        .with_context("operation", operation)
        .with_action(action)
}
