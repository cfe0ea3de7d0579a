//! What a person types after an error: the command line's words for each code, in the place of the next call that a model
//! gets.
//!
//! A code has sentences of which the first counts whose names (`{name}`) the error's context has all; the last one needs
//! none. A part in brackets is left out if the context lacks a name in it, so one sentence serves with and without the
//! name.

use midex_domain::error::{Code, Error, FailureCode, Next};

/// The advice if an execution is in another state than the caller assumed.
const OTHER_STATE_ADVICE: &[&str] = &[
    "Run `midex show {execution_id}`: it shows its state",
    "Run `midex list executions`: it lists the executions",
];
/// The advice if the execution has ended.
const ENDED_ADVICE: &[&str] = &[
    "Run `midex show {execution_id}`: it shows the result of every step",
    "Run `midex list executions`: it lists the executions",
];
/// The advice if the execution has failed.
const FAILED_ADVICE: &[&str] = &[
    "Run `midex retry {execution_id}`: finished steps are kept, and the step that failed is open again",
    "Run `midex list executions --state failed`: it lists the failed executions",
];
/// The advice after a refused retry, fork or rewind. A sentence applies if the error's context has every name in it.
const REFUSED_CHANGE_ADVICE: &[&str] = &[
    "Run `midex fork {imported}`: it continues in a new execution, which carries no approval, token or running work",
    "Run `midex retry {failed_retry}`: it keeps what it did",
    "Run `midex run --id {open_retry}`: it is the retry, and still open",
    "Run `midex show {completed_retry}`: it is the retry, and has the result",
    "Run the same command with `--again` if step '{cut_off_step}' may be done twice: find out first what came of it, with `midex show {execution_id}`",
    "Wait until step '{busy_step}' has ended: `midex show --watch {execution_id}` follows it",
    "Run `midex fork {forked_from} --from {to_step}`: it has the values from before that step",
    "Run `midex retry {root}`: its retry continues this child too",
    "Run `midex rewind {parent} {parent_step}`: the step of its parent begins it again",
];
/// The advice after a rewind of an execution that has ended.
const ENDED_REWIND_ADVICE: &[&str] = &[
    "Run `midex fork {execution_id} --from {to_step}`: it does that step, and all after it, again in a new execution",
];
/// The advice after a retry or fork whose definition does not fit the stored outputs.
const MISFIT_ADVICE: &[&str] = &[
    "Run the same command with `--from` and the first of these steps, which is then done again, or without `--with-current-file`: the {definition} file is what does not fit",
];
/// The advice if client and server may be of different versions.
const VERSION_MISMATCH_ADVICE: &[&str] =
    &["Run `midex doctor`: this midex and the server may have different versions"];

/// A match over all codes, a line for each.
macro_rules! by_code {
    ($code:expr, $kind:ident, $($($name:ident)|+ => $words:expr;)*) => {
        match $code { $($($kind::$name)|+ => $words,)* }
    };
}

/// The advice after an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// A sentence whose placeholders (`{name}`) are filled from the context.
    Words(&'static str),
    /// Alternative sentences: the first one whose placeholders are all in the context applies.
    OneOf(Vec<String>),
    /// The text of a server, which may be of another version.
    Verbatim(String),
}

impl Advice {
    /// The text that came with the error, else the sentences of its code.
    pub(super) fn from_error(error: &Error) -> Self {
        match error.next_call_override() {
            Some(Next::Words(words)) => Self::Words(words),
            Some(Next::Verbatim(words)) if !is_suggested_call(words) => {
                Self::Verbatim(words.clone())
            }
            _ => {
                let has_name = |name: &str| error.context(name).is_some();
                let sentences = advice_sentences(error).iter();
                Self::OneOf(
                    sentences.map(|words| resolve_optional_parts(words, has_name)).collect(),
                )
            }
        }
    }
}

/// Whether a suggested action is a call, as the domain prints it, alone or after an action of a person.
fn is_suggested_call(words: &str) -> bool {
    let is_call =
        |words: &str| ["Call ", "Send the same call"].iter().any(|one| words.starts_with(one));
    is_call(words) || words.split(". ").skip(1).any(is_call)
}

fn advice_sentences(error: &Error) -> &'static [&'static str] {
    let applies = |words: &str| placeholder_names(words).all(|name| error.context(name).is_some());
    let special: &[_] = match error.code() {
        Code::StateTransitionRefused => REFUSED_CHANGE_ADVICE,
        Code::StepOutputInvalid => MISFIT_ADVICE,
        _ => &[],
    };
    if let Some(at) = special.iter().position(|words| applies(words)) {
        return &special[at..=at];
    }
    match error.code().next() {
        Next::ByPause
            if error.is_for_ended_execution()
                && ENDED_REWIND_ADVICE.iter().all(|it| applies(it)) =>
        {
            ENDED_REWIND_ADVICE
        }
        Next::WhileOpen(_) | Next::ByPause if error.is_for_failed_execution() => FAILED_ADVICE,
        Next::WhileOpen(_) | Next::ByPause if error.is_for_ended_execution() => ENDED_ADVICE,
        Next::ByPause => {
            let pause_text =
                error.first_pause_next_call().and_then(|(reason, _)| pause_advice(reason));
            pause_text.unwrap_or_else(|| code_advice(error.code()))
        }
        _ => code_advice(error.code()),
    }
}

/// The sentences for documentation, with placeholder names in capitals.
pub fn documented_advice(code: Code) -> Vec<String> {
    code_advice(code).iter().map(|words| capitalize_placeholders(words)).collect()
}

/// The advice for a failure, for documentation, with placeholder names in capitals.
pub fn documented_failure_advice(failure: FailureCode) -> String {
    capitalize_placeholders(failure_advice(failure))
}

/// What lifts a pause for this reason.
fn pause_advice(reason: &str) -> Option<&'static [&'static str]> {
    Some(match reason {
        "person" => &["Run `midex resume {execution_id}` when it may continue"],
        "budget" => &[
            "Run `midex resume {execution_id}` after you have checked what starts so many executions; `midex abandon {execution_id}` cancels it and its children",
        ],
        "pace" => &["Run `midex resume {execution_id}`: the next step of the server begins"],
        "engine_fault" => &["Run `midex resume {execution_id}`: it tries again"],
        "output_invalid" => {
            &["Run `midex resume {execution_id}`: it allows as many attempts again"]
        }
        "outcome_unknown" => &[
            "Run `midex show {execution_id}`: it names the steps; find out their outcome, and record it with `midex resolve`",
        ],
        "catalog_missing" => &[
            "Run `midex catalog list`: import or enable the catalog that the execution waits for; it then continues by itself",
        ],
        "gate" => &["Run `midex approve {execution_id}` in a terminal"],
        _ => return None,
    })
}

/// The sentences of a code.
fn code_advice(code: Code) -> &'static [&'static str] {
    by_code! { code, Code,
        TokenMalformed | TokenFromFuture | TokenMismatch | TokenSuperseded | TokenExpired | TokenAlreadyUsed | StateTransitionRefused | ResourceNotFound => OTHER_STATE_ADVICE;
        ExecutionDeleted => &["Run `midex list executions`: use an id that it shows, or start a new execution under another id"];
        ExecutionStillOpen => &["Run `midex show {execution_id}`: it says what that execution waits for; `midex abandon {execution_id}` ends it for good"];
        ExecutionNotFound => &["Run `midex show {nearest}`, if you meant that one", "Run `midex list executions`: use an id that it shows; --all-projects includes other projects"];
        ExecutionIdTaken => &["Choose another --id[; `midex show {execution_id}` shows the execution that has this one]"];
        ExecutionPaused => &["Run `midex show {execution_id}`: it says why it is paused, and how to continue", "Run `midex list executions --state paused`: it lists the paused executions"];
        ExecutionFinished => ENDED_ADVICE;
        UserAlone => &["Run `midex run {workflow} --id {execution_id}` in a terminal: it asks there", "Run `midex run` in a terminal, with the workflow and the --id of the execution: it asks there"];
        RequestStateMissing | ToolNotFound | PromptNotFound | RequestInvalid | ParamsInvalid | MethodNotFound => VERSION_MISMATCH_ADVICE;
        GateNotOpen => &["Run `midex show {execution_id}`: its last lines say what waits for a person", "Run `midex approve`: it lists the open gates"];
        GateChanged => &["Run `midex approve {execution_id}`: it shows what the gate asks now", "Run `midex approve`: it lists the open gates"];
        OutcomeKnown => &["Run `midex show {execution_id}`: it names the steps whose outcome is unknown", "Run `midex list executions`: it lists the executions"];
        StepOutputInvalid => &["Run the same command again: correct every violation of the output"];
        ChoiceUnknown => &["Run the same command again: choose one of the offered options, or none"];
        ArgumentsInvalid => &["Run the same command again: correct the errors above; `--help` lists the arguments"];
        InputsInvalid => &["Run the same command again: correct the errors above; `midex run --help` shows how to give inputs"];
        WorkflowNotFound => &["Run the same command with {nearest}, if you meant that one", "Run `midex list workflows`: use one of its names"];
        WorkflowValidationFailed => &["Run `midex validate[ {path}]` and correct every finding"];
        WorkflowAlreadyExists => &["Choose another name, or edit the existing file[: {path}]"];
        VersionConflict => &["Read the file again, and make the change in its present text"];
        IdentifierInvalid => &["Choose a name of letters, digits, `_`, `.` and `-` that begins with a letter or a digit"];
        WorkflowNotWritable => &["Edit the file yourself, or make a copy of it under another name"];
        ConfirmationRequired => &["Add --yes if you want that"];
        ProjectNotTrusted => &["Read what the workflow does; if you trust the project, run `midex trust {project}`"];
        CatalogNotFound => &["Run `midex catalog list`: use an id that it shows"];
        CatalogConflict => &["Add --overwrite to replace its document and keep its settings, or choose another --title"];
        CatalogMissing => &["Run `midex catalog enable {catalog_id}`: the catalog is disabled", "Run `midex catalog list`: it lists the catalogs; `midex catalog add` imports a missing one"];
        SourceRefused => &["Name a document in the project, or start midex with --import-from and the directory of this one"];
        OpenapiInvalid => &["Choose another document, or correct the errors above"];
        CommandNotFound => &["Run `midex call --search {words}`: use a name that it shows", "Run `midex call`: it lists the commands"];
        CommandClassRefused => &["Run `midex call`: it asks for confirmation before a destructive call"];
        CommandFailed => &["Run the same command again: correct what the service reports"];
        RunFailed => &["Run `midex retry {execution_id}` once the cause is gone"];
        TaskCapabilityRequired => &["Connect with an MCP client that supports tasks, or run the workflow with `midex run`"];
        SecretNotAllowed => &["Run `midex catalog headers` in a terminal: it adds a secret to the headers of a catalog, for the catalog's own address"];
        Unauthorized => &["Send the header `Authorization: Bearer` with the token from the file that the server was started with"];
        Forbidden => &["Use the address that the server listens on, or start it with `--http-host` and the name that you use"];
        SessionNotFound => &["Restart the client, or start a new session in it: executions do not depend on sessions"];
        Cancelled | RevisionConflict => &["Run the same command again"];
        ServerBusy | ShardLost => &["Run the same command again in a second"];
        LimitExceeded => &["Run the same command again with less than the limit[: {limit}]"];
        StoreBusy => &["Run the same command again in a second; if this persists, the process that uses the data directory[ {data_dir}] does not respond and must be ended: `midex doctor` names it"];
        StoreUnavailable => &["Run the same command again in a second; nothing that was acknowledged is lost"];
        StoreFull => &["Free space on the file system of the data directory[: at least {needed_mib} MiB at {path}]"];
        StoreCorrupt => &["Restore the database[ {path}] from a backup, or choose another --data-dir; midex does not replace a damaged database"];
        StoreTooNew => &["Use the version of midex that wrote the database[ {path}], or another --data-dir"];
        StoreFormat => &["Choose another --data-dir, or move the database[ {path}] away: midex then creates a new one in its place"];
        StoreLost => &["Stop that midex, put the database[ {path}] back from where it was moved or from a backup, and start midex again: it continues with the file that it finds there, or creates an empty one"];
        ServerStopping => &["Check with `midex show {execution_id}` whether it was done, and run the same command again if it was not", "Check with `midex list executions` whether it was done, and run the same command again if it was not"];
        EngineFault => &["Run `midex resume {execution_id}`: it tries again; `midex show` has what is known", "Run `midex doctor`: it looks for the cause"];
        AddressRefused => &["Add `--import-from {host}` if that address is right, or save the document into a file of the project", "Save the document into a file of the project, and name that"];
        FetchFailed => &["Run the same command again later, or save the document into a file of the project and name that"];
        FileUnusable => &["Make the file or directory[ {path}] readable and writable for this user, or choose another one"];
        AddressUnusable => &["End the process that listens on the address[ {address}], or choose another address"];
        FileExists => &["Add --force to replace the file[ {path}], or choose another name"];
        HostFileInvalid => &["Correct the file[ {path}] by hand: midex has not changed it"];
        UsageInvalid => &["Run `midex --help`"];
        Internal => &["Run the same command again; if it fails again, report it with the text above"];
    }
}

/// What a person does about a failure. Its names (`{name}`) are those of the failed call or step.
pub(super) const fn failure_advice(failure: FailureCode) -> &'static str {
    by_code! { failure, FailureCode,
        StepFailed => "Run `midex show {execution_id}`: it says why; `midex retry {execution_id}` goes on from that step";
        OutputInvalid => "Correct the `result` of the step, or what it does: `midex show {execution_id}` says what breaks it";
        ExpressionFailed => "Correct the expression that `midex show {execution_id}` names; where a value may be missing, write `default(…)`";
        MaxVisits => "Raise `max_visits` of the step, or correct the condition of its loop, and run `midex retry {execution_id} --with-current-file`";
        MaxSteps => "Raise `max_steps` under `limits`, or correct the loop, and run the workflow again";
        StepsAtOnce => "Add a step of a person or a model, or a `wait`, to the loop: it repeats without a pause";
        InputsMissing => "Run `midex retry {execution_id}`, and answer what the step asks for";
        WaitInvalid => "Correct the value of `wait`: a duration such as 10s, or an instant such as 2030-01-31T09:00:00Z";
        NotAList => "Correct `in` of the `foreach`: its value must be a list";
        LimitExceeded => "Reduce the value that `midex show {execution_id}` names with its limit";
        ListIncomplete => "Raise `max_pages` of the `paginate`, or ask for less: `midex show {execution_id}` says why items may be missing";
        JoinMissed => "Run `midex show {execution_id}`: it says which of the earlier steps failed";
        RepeatExhausted => "Raise `max_attempts` of the `repeat`, or find out why its condition stays false";
        RepeatTimedOut => "Raise `timeout` of the `repeat`, or find out why its condition stays false";
        StepTimedOut => "Raise `timeout` of the step, or --timeout of `midex call`";
        Interrupted => "Run `midex show {execution_id}`: find out whether the attempt took effect, and then `midex retry {execution_id}`";
        HeartbeatMissed => "Find out whether the sender of the signal still runs; `midex retry {execution_id}` waits for it again";
        SignalFailed => "Run `midex show {execution_id}`: it shows what the sender of the signal reported";
        ThresholdInvalid => "Correct the expression in `enough`, `tolerate` or `join` of the step: it must yield a whole number";
        GateRejected => "Run `midex show {execution_id}`: it says who rejected it, and why; once that is settled, `midex retry {execution_id}` asks again";
        GateExpired => "Run `midex retry {execution_id}`, and answer in time with `midex approve`; `expires` of the gate sets how long it waits";
        WorkflowTimedOut => "Raise `timeout` of the workflow, and run it again";
        ParentFailed => "Run `midex show {execution_id}`: it names the parent, whose failure is the cause";
        ChildEnded => "Run `midex show {execution_id}`: it names the child, and `midex show` of the child says how it ended";
        ChildNotAllowed => "Add the workflow to `allow` of the step, or correct the expression that chooses it";
        ChildTooDeep => "Reduce the nesting of child workflows: one of them may start itself";
        FailedOnRequest => "Run `midex show {execution_id}`: it shows the reason that was given";
        OperationNotFound => "Correct the name in the step's `run`: `midex call --search WORDS` finds operations";
        CatalogMissing => "Run `midex catalog list`: import or enable the catalog; the execution then continues by itself";
        SecretMissing => "Set the secret as an environment variable of the server and list it with --secret-env, or write a line NAME=VALUE into the file `secrets` of your midex directory; `midex catalog headers {catalog}` shows its name";
        SecretNotAllowed => "Run `midex catalog base-url {catalog} URL` with the address that may receive its headers, or list the host under `[secrets.NAME]` in your midex.toml";
        SecretsFileUnsafe => "Make the secrets file readable only by you: chmod 600";
        ArgumentsInvalid => "Give each argument with --with NAME=VALUE; `midex catalog show {catalog} {operation}` lists the arguments";
        OperationUncallable => "Run `midex catalog show {catalog} {operation}`: it says why; `midex catalog base-url {catalog} URL` sets the URL to call";
        AddressRefused | RedirectRefused => "Run `midex catalog allow {catalog} HOST:PORT`, if that address is right";
        Http => "Correct what the service reports; `midex show {execution_id}` shows the call";
        Network => "Check whether the service is available, and whether it has carried out the call; then retry";
        Panic => "Run `midex show {execution_id}`: it shows the message for the author of the activity";
        NotFound => "Start the program that provides it, and run `midex retry {execution_id}`";
        NotSupported => "Run the workflow with the program that can do the step";
        Cancelled => "Run `midex show {execution_id}`: it says what cancelled the step";
        Internal => "Run `midex show {execution_id}`: it shows what is known; report it with the log of the server";
    }
}

/// Removes the brackets: a bracketed part stays if `has_name` knows every name (`{name}`) in it. Brackets without a name are
/// part of the sentence.
fn resolve_optional_parts(words: &str, has_name: impl Fn(&str) -> bool) -> String {
    let mut result = String::new();
    let mut rest = words;
    while let Some((before, part, after)) = split_at_optional_part(rest) {
        result.push_str(before);
        if placeholder_names(part).all(&has_name) {
            result.push_str(part);
        }
        rest = after;
    }
    result + rest
}

/// Splits at the first brackets that contain a name: the text before, between and after them.
fn split_at_optional_part(words: &str) -> Option<(&str, &str, &str)> {
    let mut start = 0;
    loop {
        let open = start + words[start..].find('[')?;
        let close = open + words[open..].find(']')?;
        let part = &words[open + 1..close];
        if part.contains('{') {
            return Some((&words[..open], part, &words[close + 1..]));
        }
        start = close + 1;
    }
}

fn placeholder_names(part: &str) -> impl Iterator<Item = &str> {
    part.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// The sentence for documentation, with placeholder names in capitals: `{path}` becomes `PATH`.
fn capitalize_placeholders(words: &str) -> String {
    let words = resolve_optional_parts(words, |_| true);
    let mut parts = words.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) => text.extend([name.to_uppercase().as_str(), rest]),
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_advice() {
        for code in Code::ALL {
            let last = documented_advice(*code).pop().unwrap_or_default();
            assert!(
                !last.is_empty() && !last.contains('{') && !last.ends_with('.'),
                "{code}: {last}"
            );
            for words in code_advice(*code) {
                assert_eq!(words.matches('`').count() % 2, 0, "{code}: {words}");
                for word in ["midex://", "workflow.", "execution.", "catalog.", "token "] {
                    assert!(
                        !words.contains(word) || *code == Code::Unauthorized,
                        "{code}: {words}"
                    );
                }
            }
        }
        for code in FailureCode::ALL {
            let words = failure_advice(*code);
            assert!(
                !words.ends_with('.') && words.matches('`').count().is_multiple_of(2),
                "{code}: {words}"
            );
        }
    }

    #[test]
    fn pause_advice_is_of_first_reason() {
        let reasons = serde_json::json!(["gate", "budget"]);
        let error = Error::new(Code::ExecutionPaused, "x").with_context("pause_reasons", reasons);
        assert_eq!(Some(advice_sentences(&error)), pause_advice("budget"));
        let ended = error.with_context("workflow_state", "completed");
        assert_eq!(advice_sentences(&ended), ENDED_ADVICE);
    }

    #[test]
    fn a_part_without_its_name_is_left_out() {
        let words = "Run `midex validate[ {path}]`[, {a} and {b}]: see `[secrets.NAME]`[: {limit}]";
        let resolve_with =
            |known: &[&str]| resolve_optional_parts(words, |name| known.contains(&name));
        assert_eq!(resolve_with(&[]), "Run `midex validate`: see `[secrets.NAME]`");
        assert_eq!(
            resolve_with(&["path", "a"]),
            "Run `midex validate {path}`: see `[secrets.NAME]`"
        );
        assert_eq!(
            capitalize_placeholders(words),
            "Run `midex validate PATH`, A and B: see `[secrets.NAME]`: LIMIT"
        );
    }
}
