//! What a person types after an error: the command line's words for each code, in the place of the next call that a model
//! gets.
//!
//! A code has sentences of which the first counts whose names (`{name}`) the error's context has all; the last one needs
//! none. A part in brackets is left out if the context lacks a name in it, so one sentence serves with and without the
//! name.

use midex_domain::error::{Code, Error, FailureCode, Next};

/// The advice if an execution is in another state than the caller assumed.
const STANDS: &[&str] = &[
    "Run `midex show {execution_id}`: it says where it stands",
    "Run `midex list executions`: it shows what there is",
];
/// The advice if the execution has ended.
const ENDED: &[&str] = &[
    "Run `midex show {execution_id}`: it has what came of every step",
    "Run `midex list executions`: it shows what there is",
];
/// The advice if client and server may be of different versions.
const VERSIONS: &[&str] =
    &["Run `midex doctor`: this midex and the one that answered may be of different versions"];

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
    pub(super) fn of(error: &Error) -> Self {
        match error.next() {
            Some(Next::Words(words)) => Self::Words(words),
            Some(Next::Verbatim(words)) if !is_call(words) => Self::Verbatim(words.clone()),
            _ => {
                let has = |name: &str| error.context(name).is_some();
                let sentences = sentences(error).iter();
                Self::OneOf(sentences.map(|words| with_parts(words, has)).collect())
            }
        }
    }
}

/// Whether a suggested action is a call, as the domain prints it, alone or after an action of a person.
fn is_call(words: &str) -> bool {
    let begins = |words: &str| {
        ["Call ", "Send the same call"]
            .iter()
            .any(|one| words.starts_with(one))
    };
    begins(words) || words.split(". ").skip(1).any(begins)
}

fn sentences(error: &Error) -> &'static [&'static str] {
    match error.code().next() {
        Next::WhileOpen(_) | Next::ByPause if error.has_ended() => ENDED,
        Next::ByPause => {
            let lifted = error.lifted().and_then(|(reason, _)| of_pause(reason));
            lifted.unwrap_or_else(|| of_code(error.code()))
        }
        _ => of_code(error.code()),
    }
}

/// The sentences for documentation, with placeholder names in capitals.
pub fn what_to_do(code: Code) -> Vec<String> {
    of_code(code)
        .iter()
        .map(|words| in_capitals(words))
        .collect()
}

/// The advice for a failure, for documentation, with placeholder names in capitals.
pub fn what_to_do_after(failure: FailureCode) -> String {
    in_capitals(of_failure(failure))
}

/// What lifts a pause for this reason.
fn of_pause(reason: &str) -> Option<&'static [&'static str]> {
    Some(match reason {
        "person" => &["Run `midex resume {execution_id}`: once it may go on"],
        "budget" => &[
            "Run `midex resume {execution_id}`: once you have looked at what begins so many executions; `midex abandon {execution_id}` ends it with all below it",
        ],
        "engine_fault" => &["Run `midex resume {execution_id}`: it is tried again"],
        "output_invalid" => &["Run `midex resume {execution_id}`: it grants as many tries again"],
        "outcome_unknown" => &[
            "Run `midex show {execution_id}`: it names the steps; find out what came of them, and say it with `midex resolve`",
        ],
        "catalog_missing" => &[
            "Run `midex catalog list`: import or enable the catalog that the execution waits for, and it goes on by itself",
        ],
        "gate" => &["Run `midex approve {execution_id}` in a terminal"],
        _ => return None,
    })
}

/// The sentences of a code.
fn of_code(code: Code) -> &'static [&'static str] {
    by_code! { code, Code,
        TokenMalformed | TokenFromFuture | TokenMismatch | TokenSuperseded | TokenExpired | TokenAlreadyUsed | StateTransitionRefused | ResourceNotFound => STANDS;
        ExecutionNotFound => &["Run `midex show {nearest}`: if that is the one meant", "Run `midex list executions`: use an id that it shows; --all-projects shows those of other projects"];
        ExecutionIdTaken => &["Choose another --id[; `midex show {execution_id}` shows the execution that has this one]"];
        ExecutionPaused => &["Run `midex show {execution_id}`: it says why it is paused, and what lifts that", "Run `midex list executions --state paused`: it shows what is paused"];
        ExecutionFinished => ENDED;
        UserAlone => &["Run `midex run {workflow} --id {execution_id}` in a terminal: it asks there", "Run `midex run` in a terminal, with the workflow and the --id of the execution: it asks there"];
        RequestStateMissing | ToolNotFound | PromptNotFound | RequestInvalid | ParamsInvalid | MethodNotFound => VERSIONS;
        GateNotOpen => &["Run `midex show {execution_id}`: what waits for a person stands at its end", "Run `midex approve`: it lists what is asked"];
        GateChanged => &["Run `midex approve {execution_id}`: it shows what the gate asks now", "Run `midex approve`: it lists what is asked"];
        OutcomeKnown => &["Run `midex show {execution_id}`: it names the steps of which nobody knows what came", "Run `midex list executions`: it shows what there is"];
        StepOutputInvalid => &["Run the same command again: correct every violation of the output"];
        ChoiceUnknown => &["Run the same command again: choose one of the options that are offered, or none"];
        ArgumentsInvalid => &["Run the same command again: correct what is said above; with `--help` it says what can be typed"];
        InputsInvalid => &["Run the same command again: correct what is said above; `midex run --help` says how inputs are given"];
        WorkflowNotFound => &["Run the same command with {nearest}, if that is the one meant", "Run `midex list workflows`: use one of its names"];
        WorkflowValidationFailed => &["Run `midex validate[ {path}]` and correct every finding"];
        WorkflowAlreadyExists => &["Choose another name, or edit the file that is there[: {path}]"];
        VersionConflict => &["Read the file again, and make the change in what stands there now"];
        IdentifierInvalid => &["Choose a name of letters, digits, `_`, `.` and `-` that begins with a letter or a digit"];
        WorkflowNotWritable => &["Edit the file yourself, or make a copy of it under another name"];
        ConfirmationRequired => &["Add --yes if that is meant"];
        ProjectNotTrusted => &["Read what the workflow does; if you trust the project, run `midex trust {project}`"];
        CatalogNotFound => &["Run `midex catalog list`: use an id that it shows"];
        CatalogConflict => &["Add --overwrite to replace its document and keep its settings, or choose another --title"];
        CatalogMissing => &["Run `midex catalog enable {catalog_id}`: the catalog is there, and disabled", "Run `midex catalog list`: it shows which catalogs there are; `midex catalog add` imports the one that is missing"];
        SourceRefused => &["Name a document in the project, or start midex with --import-from and the directory of this one"];
        OpenapiInvalid => &["Choose another document, or correct this one where it is said above"];
        CommandNotFound => &["Run `midex call --search {words}`: use the name of one that it shows", "Run `midex call`: it lists what can be called"];
        CommandClassRefused => &["Run `midex call`: it asks before what takes something away"];
        CommandFailed => &["Run the same command again: correct what the service says"];
        SecretNotAllowed => &["Run `midex catalog headers` in a terminal: it gives a catalog a secret by its name, for the address that it is called at"];
        Unauthorized => &["Send the header `Authorization: Bearer` with the token of the file that the server was started with"];
        Forbidden => &["Call the server by the address it listens on, or start it with `--http-host` for the name you call it by"];
        SessionNotFound => &["Restart the client, or let it begin a new session: executions do not depend on sessions"];
        Cancelled | RevisionConflict => &["Run the same command again"];
        ServerBusy => &["Run the same command again in a second"];
        LimitExceeded => &["Run the same command again with less than the limit[: {limit}]"];
        StoreBusy => &["Run the same command again in a second; if it stays so, the process that uses the data directory[ {data_dir}] does not answer and must be ended: `midex doctor` names it"];
        StoreUnavailable => &["Run the same command again in a second; nothing that was acknowledged is lost"];
        StoreFull => &["Free room on the file system of the data directory[: at least {needed_mib} MiB where {path} lies]"];
        StoreCorrupt => &["Restore the database[ {path}] from a backup, or choose another --data-dir; midex does not replace a damaged one"];
        StoreTooNew => &["Use the version of midex that wrote the database[ {path}], or another --data-dir"];
        StoreFormat => &["Choose another --data-dir, or move the database[ {path}] away: midex then begins a new one in its place"];
        StoreLost => &["End that midex, put the database[ {path}] back from where it was moved to or from a backup, and start midex again: it goes on with the file that it finds there, or begins an empty one"];
        ServerStopping => &["Look with `midex show {execution_id}` whether it was done, and run the same command again if it was not", "Look with `midex list executions` whether it was done, and run the same command again if it was not"];
        EngineFault => &["Run `midex resume {execution_id}`: it is tried again; `midex show` has what is known", "Run `midex doctor`: it looks for what is wrong"];
        AddressRefused => &["Add `--import-from {host}` if that address is meant, or save the document into a file of the project", "Save the document into a file of the project, and name that"];
        FetchFailed => &["Run the same command again in a while, or save the document into a file of the project and name that"];
        FileUnusable => &["Make the file or directory[ {path}] readable and writable for this user, or choose another one"];
        AddressUnusable => &["End the process that listens there[, on {address}], or choose another address with --http"];
        FileExists => &["Add --force to replace the file[ {path}], or choose another name"];
        HostFileInvalid => &["Correct the file[ {path}] by hand: midex left it as it is"];
        UsageInvalid => &["Run `midex --help`"];
        Internal => &["Run the same command again; if it fails again, report it with what is said above"];
    }
}

/// What a person does about a failure. Its names (`{name}`) are those of the failed call or step.
pub(super) const fn of_failure(failure: FailureCode) -> &'static str {
    by_code! { failure, FailureCode,
        StepFailed => "Run `midex show {execution_id}`: it says why; `midex run` begins the workflow anew";
        OutputInvalid => "Correct the `result` of the step, or what it does: `midex show {execution_id}` says what breaks it";
        ExpressionFailed => "Correct the expression that `midex show {execution_id}` names; where a value may be missing, write `default(…)`";
        MaxVisits => "Raise `max_visits` of the step, or mend what its loop waits for, and run the workflow anew";
        MaxSteps => "Raise `max_steps` under `limits`, or mend the loop, and run the workflow anew";
        StepsAtOnce => "Put a step into the loop that somebody does, or a `wait`: it goes round without a pause";
        InputsMissing => "Run the workflow anew, and answer what the step asks for";
        WaitInvalid => "Correct the value of `wait`: a duration such as 10s, or an instant such as 2030-01-31T09:00:00Z";
        NotAList => "Correct `in` of the `foreach`: it must come to a list";
        LimitExceeded => "Make it less: `midex show {execution_id}` says what is too large, and names the limit";
        ListIncomplete => "Raise `max_pages` of the `paginate`, or ask for less: `midex show {execution_id}` says why items may be missing";
        JoinMissed => "Run `midex show {execution_id}`: it says which of the steps before failed";
        RepeatExhausted => "Raise `max_attempts` of the `repeat`, or look why its condition does not come true";
        RepeatTimedOut => "Raise `timeout` of the `repeat`, or look why its condition does not come true";
        StepTimedOut => "Give it more time: with `timeout` in the step, or with --timeout where `midex call` called it";
        GateRejected => "Run `midex show {execution_id}`: it says who rejected it, and why; run the workflow anew once that is settled";
        GateExpired => "Run the workflow anew, and answer in time with `midex approve`; `expires` of the gate says how long it waits";
        WorkflowTimedOut => "Raise `timeout` of the workflow, and run it anew";
        ParentFailed => "Run `midex show {execution_id}`: it names the parent, whose own failure is the cause";
        ChildEnded => "Run `midex show {execution_id}`: it names the child, and `midex show` of that says how it ended";
        ChildTooDeep => "Let fewer workflows run each other in a chain: one of them may run itself";
        FailedOnRequest => "Run `midex show {execution_id}`: it has the reason that was given";
        OperationNotFound => "Correct the name in the step's `run`: `midex call --search WORDS` finds what there is";
        CatalogMissing => "Run `midex catalog list`: import or enable the catalog, and the execution goes on by itself";
        SecretMissing => "Set the secret where the server is started and list it there with --secret-env, or write a line NAME=VALUE into the file `secrets` of your midex directory; `midex catalog headers {catalog}` names it";
        SecretNotAllowed => "Run `midex catalog base-url {catalog} URL` with the address that may have its headers, or name the host under `[secrets.NAME]` in your midex.toml";
        SecretsFileUnsafe => "Make the file of secrets one that only you can read: chmod 600";
        ArgumentsInvalid => "Give each argument with --with NAME=VALUE; `midex catalog show {catalog} {operation}` shows what there is";
        OperationUncallable => "Run `midex catalog show {catalog} {operation}`: it says why; `midex catalog base-url {catalog} URL` says where it is called";
        AddressRefused | RedirectRefused => "Run `midex catalog allow {catalog} HOST:PORT`, if that address is meant";
        Http => "Correct what the service says; `midex show {execution_id}` shows the call again";
        Network => "Look whether the service is there, and whether it has done what was asked; then do it again";
        Panic => "Run `midex show {execution_id}`: it has the message, which is for whoever wrote the activity";
        NotFound => "Start the program that has it, and run the workflow anew";
        NotSupported => "Run the workflow with the program that can do the step";
        Cancelled => "Run `midex show {execution_id}`: it says what gave the step up";
        Internal => "Run `midex show {execution_id}`: it has what is known; report it with the log of the server";
    }
}

/// Removes the brackets: a bracketed part stays if `has` knows every name (`{name}`) in it. Brackets without a name are
/// part of the sentence.
fn with_parts(words: &str, has: impl Fn(&str) -> bool) -> String {
    let mut whole = String::new();
    let mut rest = words;
    while let Some((before, part, after)) = first_part(rest) {
        whole.push_str(before);
        if names(part).all(&has) {
            whole.push_str(part);
        }
        rest = after;
    }
    whole + rest
}

/// Splits at the first brackets that contain a name: the text before, between and after them.
fn first_part(words: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + words[from..].find('[')?;
        let close = open + words[open..].find(']')?;
        let part = &words[open + 1..close];
        if part.contains('{') {
            return Some((&words[..open], part, &words[close + 1..]));
        }
        from = close + 1;
    }
}

fn names(part: &str) -> impl Iterator<Item = &str> {
    part.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
}

/// The sentence for documentation, with placeholder names in capitals: `{path}` becomes `PATH`.
fn in_capitals(words: &str) -> String {
    let words = with_parts(words, |_| true);
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
    fn every_code_has_words_for_a_person() {
        for code in Code::ALL {
            let last = what_to_do(*code).pop().unwrap_or_default();
            assert!(
                !last.is_empty() && !last.contains('{') && !last.ends_with('.'),
                "{code}: {last}"
            );
            for words in of_code(*code) {
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
            let words = of_failure(*code);
            assert!(
                !words.ends_with('.') && words.matches('`').count().is_multiple_of(2),
                "{code}: {words}"
            );
        }
    }

    #[test]
    fn a_pause_has_the_words_of_its_first_reason() {
        let reasons = serde_json::json!(["gate", "budget"]);
        let error = Error::new(Code::ExecutionPaused, "x").with("pause_reasons", reasons);
        assert_eq!(Some(sentences(&error)), of_pause("budget"));
        let ended = error.with("workflow_state", "completed");
        assert_eq!(sentences(&ended), ENDED);
    }

    #[test]
    fn a_part_without_its_name_is_left_out() {
        let words = "Run `midex validate[ {path}]`[, {a} and {b}]: see `[secrets.NAME]`[: {limit}]";
        let of = |known: &[&str]| with_parts(words, |name| known.contains(&name));
        assert_eq!(of(&[]), "Run `midex validate`: see `[secrets.NAME]`");
        assert_eq!(
            of(&["path", "a"]),
            "Run `midex validate {path}`: see `[secrets.NAME]`"
        );
        assert_eq!(
            in_capitals(words),
            "Run `midex validate PATH`, A and B: see `[secrets.NAME]`: LIMIT"
        );
    }
}
