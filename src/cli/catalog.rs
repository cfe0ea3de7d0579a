//! `midex catalog`: lists, imports, changes and removes catalogs, through the tools of the toolset `catalog`.

mod args;
pub(super) mod page;
pub(super) mod schema;

use std::path::{Path, absolute};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

pub(super) use self::args::CatalogCommand;
use self::{
    args::{
        AddArgs, AllowArgs, BaseUrlArgs, CatalogSelectorArgs, CatalogShowArgs, ClassArgs,
        CredentialArgs, DocumentArgs, HeadersArgs, RefreshArgs, RemoveArgs,
    },
    page::{
        catalog_page, catalog_table, command_page, document_changes, headers_page, import_preview,
        join_texts, required_credentials,
    },
};
use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    diagnostic::render_violations,
    link::{ServerLink, remove_nulls},
    print_warning, question,
    run::input::read_file,
    screen::Screen,
    takes_color,
    value::{list_items, text_field},
    visible::replace_hidden_chars,
};
use midex_catalog::{
    call::{self, is_secret_header},
    suggest_url_with_host,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
    nearest::format_nearest_hint,
};
use midex_server::{app::SourceType, config::Config};

/// Runs one of the subcommands.
pub(super) async fn run_catalog(
    command: CatalogCommand,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let result = run_subcommand(command, &mut link, &mut out).await;
    link.close_and_log().await;
    result
}

async fn run_subcommand(
    command: CatalogCommand,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<u8> {
    match command {
        CatalogCommand::List => {
            let reply = link.call("catalog.list", json!({})).await?;
            out.print_rows(
                || list_items(&reply["catalogs"]).to_vec(),
                || catalog_table(list_items(&reply["catalogs"])),
            )?;
        }
        CatalogCommand::Add(args) => return add_catalog(args, link, out).await,
        CatalogCommand::Preview(args) => return preview_import(args, link, out).await,
        CatalogCommand::Show(args) => show_catalog(args, link, out).await?,
        CatalogCommand::Enable(args) => set_enabled(args, true, link, out).await?,
        CatalogCommand::Disable(args) => set_enabled(args, false, link, out).await?,
        CatalogCommand::Remove(args) => return remove_catalog(args, link, out).await,
        CatalogCommand::Refresh(args) => refresh_catalog(args, link, out).await?,
        CatalogCommand::Headers(args) => set_headers(args, link, out).await?,
        CatalogCommand::Credential(args) => set_credential(args, link, out).await?,
        CatalogCommand::Class(args) => set_class(args, link, out).await?,
        CatalogCommand::Allow(args) => allow_address(args, link, out).await?,
        CatalogCommand::BaseUrl(args) => set_base_url(args, link, out).await?,
    }
    Ok(EXIT_OK)
}

impl DocumentArgs {
    /// The arguments of the tools. The path is absolute, because the server may have another working directory.
    fn tool_arguments(&self) -> Value {
        let is_url = SourceType::guess_from_text(&self.source) == SourceType::Url;
        let path = absolute(&self.source).unwrap_or_else(|_| self.source.clone().into());
        let (source, source_type) =
            if is_url { (json!(self.source), "url") } else { (json!(path), "path") };
        remove_nulls(json!({
            "source": source, "source_type": source_type, "catalog_title": self.title,
            "vendor": self.vendor, "base_url": self.base_url
        }))
    }

    /// Whether the error means that the local document does not exist. For an address, it is about another file.
    fn is_missing_file_error(&self, error: &Error) -> bool {
        error.code() == Code::FileUnusable
            && SourceType::guess_from_text(&self.source) != SourceType::Url
            && !Path::new(&self.source).exists()
    }

    /// The answer of a tool that reads the document. If the document is invalid and can be read here, draws the errors
    /// in its text and returns `None`.
    fn check_document_reply(
        &self,
        answer: Result<Value>,
        out: &Output<'_>,
    ) -> Result<Option<Value>> {
        let error = match answer {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if error.code() == Code::CatalogConflict => {
                let action = "Add --overwrite to replace its document and keep its settings, or choose another --title";
                return Err(error.with_action(action));
            }
            Err(error) if self.is_missing_file_error(&error) => {
                return Err(error.with_action("Name a file that is there, or an https address"));
            }
            Err(error) => error,
        };
        let path = Path::new(&self.source);
        let text = match error.code() {
            Code::OpenapiInvalid if !out.is_json => {
                read_file(path, limits::DOCUMENT_BYTES_MAX).ok()
            }
            _ => None,
        };
        let Some(text) = text else {
            return Err(error);
        };
        let rendering = render_violations(&self.source, &text, error.violations(), takes_color());
        let code = error.code();
        question::write_prompt(&format!(
            "{rendering}error[{code}]: {}\n",
            replace_hidden_chars(error.message())
        ))?;
        Ok(None)
    }
}

async fn add_catalog(args: AddArgs, link: &mut ServerLink<'_>, out: &mut Output<'_>) -> Result<u8> {
    let mut arguments = args.document.tool_arguments();
    arguments["overwrite"] = json!(args.overwrite);
    if args.disabled {
        arguments["enabled"] = json!(false);
    }
    let answer = link.call("catalog.import_openapi", arguments).await;
    let Some(mut answer) = args.document.check_document_reply(answer, out)? else {
        return Ok(EXIT_FINDINGS);
    };
    for host_port in &args.allow {
        let arguments = json!({ "catalog_id": answer["catalog_id"], "host_port": host_port });
        link.call("catalog.allow", arguments).await?;
    }
    if let Some(warnings) = answer["warnings"].as_array_mut() {
        // The document was checked before these addresses were allowed.
        warnings.retain(|warning| {
            let message = text_field(warning, "message");
            warning["rule"] != "address_refused"
                || !args.allow.iter().any(|host_port| message.contains(host_port))
        });
    }
    print_warnings(&answer, out);
    out.print(|| answer.clone(), || import_summary(&answer))?;
    Ok(EXIT_OK)
}

fn import_summary(answer: &Value) -> String {
    let id = text_field(answer, "catalog_id");
    let count = &answer["command_count"];
    let place = text_field(answer, "catalog_path");
    let noun = if count == 1 { "command" } else { "commands" };
    let text = format!("Catalog `{id}` has {count} {noun}; its settings are in {place}\n");
    let base_url_note = match answer["base_url"].as_str() {
        Some(url) if call::parse_origin(url).is_none() => format!(
            "The document does not say where it is called: run `midex catalog base-url {id} {}`\n",
            suggest_url_with_host(url)
        ),
        _ => base_url_lines(answer),
    };
    let next_hint = if answer["enabled"] == false {
        format!("It is disabled: run `midex catalog enable {id}` to let it be called\n")
    } else {
        format!("See them with `midex catalog show {id}`\n")
    };
    text + &base_url_note + &next_hint
}

/// The base URLs at which the commands of a new catalog are called.
fn base_url_lines(answer: &Value) -> String {
    let addresses = list_items(&answer["addresses"]);
    if let [address] = addresses {
        return format!("They are called at {}\n", text_field(address, "base_url"));
    }
    let address_line = |address: &Value| {
        let (count, url) = (&address["operations"], text_field(address, "base_url"));
        format!("{count} of them at {url}\n")
    };
    let addresses = addresses.iter().map(address_line);
    format!("They are called:\n{}", addresses.collect::<String>())
}

/// Prints the warnings about a document to stderr, unless the output is JSON.
fn print_warnings(answer: &Value, out: &Output<'_>) {
    if out.is_json {
        return;
    }
    for warning in list_items(&answer["warnings"]) {
        let place = text_field(warning, "path");
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        let words = format!("warning: {place}{}", text_field(warning, "message"));
        // Failing to print a warning does not fail the command.
        let _ = question::write_prompt(&Screen::stdout().indent_block(None, "", &words));
    }
}

async fn preview_import(
    args: DocumentArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<u8> {
    let mut arguments = args.tool_arguments();
    arguments["include_command_preview"] = json!(true);
    let answer = link.call("catalog.preview_import", arguments).await;
    let Some(answer) = args.check_document_reply(answer, out)? else {
        return Ok(EXIT_FINDINGS);
    };
    print_warnings(&answer, out);
    out.print(|| answer.clone(), || import_preview(&answer, &Screen::stdout()))?;
    Ok(EXIT_OK)
}

async fn show_catalog(
    args: CatalogShowArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let catalog = fetch_catalog(&args.selector.catalog, link).await?;
    let id = text_field(&catalog, "catalog_id");
    let screen = Screen::stdout();
    if let Some(operation) = &args.operation {
        let command = fetch_command(&format!("{id} {operation}"), link).await?;
        return out.print(|| command.clone(), || command_page(&command, &screen));
    }
    let arguments = json!({ "catalog": id });
    let listing = list_commands(arguments, args.limit, link).await?;
    let json = || {
        json!({
            "catalog": catalog, "commands": listing.commands, "total": listing.total,
            "is_cut": listing.is_truncated
        })
    };
    out.print(json, || catalog_page(&catalog, &listing, &screen))
}

/// The full description of one command.
pub(super) async fn fetch_command(id: &str, link: &mut ServerLink<'_>) -> Result<Value> {
    let mut answer = link.call("command.list", json!({ "id": id })).await?;
    Ok(answer["command"].take())
}

/// A part of a list of commands.
pub(super) struct OperationListing {
    pub(super) commands: Vec<Value>,
    /// The total number of commands; `None` if the server is of an older version that does not report it.
    pub(super) total: Option<usize>,
    /// Whether there are more commands than these.
    pub(super) is_truncated: bool,
}

impl OperationListing {
    /// How many commands are not shown, and how to see them; `None` if all are shown.
    pub(super) fn more_commands_note(&self) -> Option<String> {
        if !self.is_truncated {
            return None;
        }
        let shown_count = self.commands.len();
        Some(match self.total {
            Some(total) => format!(
                "{} more: --limit {total} shows all, `midex call --search WORDS` finds some",
                total.saturating_sub(shown_count)
            ),
            None => "there are more: --limit N shows N, `midex call --search WORDS` finds some"
                .to_owned(),
        })
    }
}

/// Lists at most `limit` commands.
pub(super) async fn list_commands(
    mut arguments: Value,
    limit: usize,
    link: &mut ServerLink<'_>,
) -> Result<OperationListing> {
    let mut commands = Vec::new();
    loop {
        let page_limit = (limit - commands.len()).clamp(1, limits::COMMANDS_LISTED_MAX);
        arguments["limit"] = json!(page_limit);
        let mut page = link.call("command.list", arguments.clone()).await?;
        if let Value::Array(page_commands) = page["commands"].take() {
            commands.extend(page_commands);
        }
        let cursor = page["next_cursor"].take();
        if cursor.is_null() || commands.len() >= limit {
            let total = page["total"].as_u64();
            return Ok(OperationListing {
                commands,
                total: total.and_then(|total| usize::try_from(total).ok()),
                is_truncated: !cursor.is_null(),
            });
        }
        arguments["cursor"] = cursor;
    }
}

/// The catalog with this id or title, as `catalog.list` returns it.
async fn fetch_catalog(name: &str, link: &mut ServerLink<'_>) -> Result<Value> {
    let reply = link.call("catalog.list", json!({})).await?;
    let catalogs = list_items(&reply["catalogs"]);
    let has_title = |catalog: &&Value| {
        text_field(catalog, "title").to_lowercase() == name.trim().to_lowercase()
    };
    let by_id = catalogs.iter().find(|catalog| catalog["catalog_id"] == name);
    let catalog = by_id.or_else(|| catalogs.iter().find(has_title));
    catalog.cloned().ok_or_else(|| {
        let ids = catalogs.iter().filter_map(|catalog| catalog["catalog_id"].as_str());
        let message = format!("there is no catalog `{name}`{}", format_nearest_hint(name, ids));
        Error::new(Code::CatalogNotFound, message)
    })
}

async fn set_enabled(
    args: CatalogSelectorArgs,
    enabled: bool,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let arguments = json!({ "catalog_id": args.catalog, "enabled": enabled });
    let answer = link.call("catalog.set_enabled", arguments).await?;
    let id = text_field(&answer, "catalog_id");
    let text = || {
        if enabled {
            let count = &answer["command_count_after_toggle"];
            format!("Catalog `{id}` is enabled: {count} commands can be called\n")
        } else {
            format!("Catalog `{id}` is disabled: steps that call it wait until it is enabled\n")
        }
    };
    out.print(|| answer.clone(), text)
}

async fn remove_catalog(
    args: RemoveArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<u8> {
    let id = text_field(&fetch_catalog(&args.selector.catalog, link).await?, "catalog_id");
    let document = if args.with_document { "with its document" } else { "and keep its document" };
    let question = format!("Remove the catalog `{id}` {document}? Steps that call it will wait.");
    if !args.yes && !question::ask_yes_or_no(&question, "--yes", link).await? {
        return Ok(EXIT_FINDINGS);
    }
    let arguments =
        json!({ "catalog_id": id, "remove_manifest": args.with_document, "confirm": true });
    let answer = link.call("catalog.remove", arguments).await?;
    out.print(
        || answer.clone(),
        || {
            let remaining_count = &answer["remaining_catalog_count"];
            format!("Removed the catalog `{id}`; there are {remaining_count} others\n")
        },
    )?;
    Ok(EXIT_OK)
}

async fn refresh_catalog(
    args: RefreshArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let mut arguments = json!({ "catalog_id": args.selector.catalog, "apply": args.apply });
    let mut answer = link.call("catalog.refresh", arguments.clone()).await?;
    print_warnings(&answer, out);
    if out.is_json {
        return out.print(|| answer.clone(), String::new);
    }
    let changes = document_changes(&answer, &Screen::stdout());
    out.write_unchanged(if changes.is_empty() { "The commands are the same\n" } else { &changes })?;
    let id = text_field(&answer, "catalog_id");
    let question = format!("Take the new document of the catalog `{id}`?");
    let should_ask = !args.apply && question::can_ask_person();
    if should_ask && question::ask_yes_or_no(&question, "--apply", link).await? {
        arguments["apply"] = json!(true);
        answer = link.call("catalog.refresh", arguments).await?;
    } else if should_ask {
        return Ok(());
    }
    out.write_unchanged(if answer["applied"] == true {
        format!("The catalog `{id}` has the new document\n")
    } else {
        format!("Nothing was changed: `midex catalog refresh {id} --apply` takes it\n")
    })
}

async fn set_headers(
    args: HeadersArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let headers = args.headers.iter().map(|text| parse_header(text));
    let headers = headers.collect::<Result<Map<_, _>>>()?;
    let answer = if headers.is_empty() && !args.replace {
        let catalog = fetch_catalog(&args.selector.catalog, link).await?;
        json!({ "catalog_id": catalog["catalog_id"], "headers": catalog["headers"], "origins": catalog["origins"] })
    } else {
        warn_about_literals(&headers);
        let mode = if args.replace { "replace" } else { "upsert" };
        let arguments =
            json!({ "catalog_id": args.selector.catalog, "headers": headers, "mode": mode });
        link.call("catalog.set_headers", arguments).await?
    };
    out.print(|| answer.clone(), || headers_page(&answer, &Screen::stdout()))
}

/// Parses a header of the command line; the value is null for a header that is to be removed.
fn parse_header(text: &str) -> Result<(String, Value)> {
    match text.split_once('=') {
        Some((name, "")) if !name.is_empty() => Ok((name.to_owned(), Value::Null)),
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), json!(value))),
        _ => {
            let message = "a header is given without a name and `=` behind it";
            Err(Error::new(Code::UsageInvalid, message).with_action(
                "Write 'NAME=VALUE', such as 'Authorization=Bearer ${env:NAME}', or NAME= to remove it; nothing was changed",
            ))
        }
    }
}

/// Warns of a value that looks like a secret, because it is stored in a file as plain text.
fn warn_about_literals(headers: &Map<String, Value>) {
    let secret_headers = headers.iter().filter(|(name, _)| is_secret_header(name));
    for (name, value) in secret_headers {
        warn_about_literal(name, value.as_str().unwrap_or_default(), &format!("{name}="));
    }
}

fn warn_about_literal(name: &str, value: &str, prefix: &str) {
    if !value.is_empty() && !value.contains("${") {
        print_warning(&format!(
            "the value of `{name}` stands in the catalog's file as it is; a secret is safer by its name: '{prefix}${{env:NAME}}'"
        ));
    }
}

async fn set_credential(
    args: CredentialArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let value = Some(&args.value).filter(|value| !value.is_empty());
    warn_about_literal(&args.scheme, &args.value, "");
    let arguments =
        json!({ "catalog_id": args.selector.catalog, "scheme": args.scheme, "value": value });
    let answer = link.call("catalog.set_credential", arguments).await?;
    let text = || {
        let screen = Screen::stdout();
        let needs_note = screen.indent_block(
            None,
            "",
            &format!("It needs: {}", required_credentials(&answer["schemes"])),
        );
        headers_page(&answer, &screen) + &needs_note
    };
    out.print(|| answer.clone(), text)
}

async fn set_class(args: ClassArgs, link: &mut ServerLink<'_>, out: &mut Output<'_>) -> Result<()> {
    let class = args.class.to_possible_value();
    let class = class.map_or_else(String::new, |class| class.get_name().to_owned());
    let arguments =
        json!({ "catalog_id": args.selector.catalog, "id": args.operation, "class": class });
    let answer = link.call("catalog.set_class", arguments).await?;
    let text = || {
        let (id, operation) = (text_field(&answer, "catalog_id"), text_field(&answer, "id"));
        format!("`{operation}` of the catalog `{id}` is {class}\n")
    };
    out.print(|| answer.clone(), text)
}

async fn allow_address(
    args: AllowArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let arguments = json!({ "catalog_id": args.selector.catalog, "host_port": args.host_port });
    let answer = link.call("catalog.allow", arguments).await?;
    let text = || {
        let id = text_field(&answer, "catalog_id");
        let allowed = join_texts(&answer["allow"]);
        format!("The catalog `{id}` may be called at {allowed} too\n")
    };
    out.print(|| answer.clone(), text)
}

async fn set_base_url(
    args: BaseUrlArgs,
    link: &mut ServerLink<'_>,
    out: &mut Output<'_>,
) -> Result<()> {
    let arguments = json!({ "catalog_id": args.selector.catalog, "base_url": args.url });
    let answer = link.call("catalog.set_base_url", arguments).await?;
    let text = || {
        let (id, url) = (text_field(&answer, "catalog_id"), text_field(&answer, "base_url"));
        let count = &answer["addresses"][0]["operations"];
        format!(
            "The catalog `{id}` calls all its {count} commands at {url}; its headers go there\n"
        )
    };
    out.print(|| answer.clone(), text)
}
