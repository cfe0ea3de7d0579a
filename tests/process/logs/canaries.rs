//! What callers say is theirs: secrets planted wherever a caller may say something appear in no log line, whatever is
//! asked of the log, in no telemetry, and in no refusal of a call that did not hold them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use midex_test::{
    Client, Server, address,
    long::share,
    project::{Project, line, list, payload, text},
    table,
};

/// What the log may be asked for.
const CHOICES: [&str; 3] = [
    "trace",
    "rmcp=trace,hyper=trace,sse_stream=trace,ractor=trace,tokio=trace,midex=trace",
    "trace,[{id}]=trace,[serve_inner]=trace,rmcp::service=trace",
];
/// Where a secret is planted: the name is part of it.
const PLACES: [&str; 12] = [
    "environment",
    "inputs",
    "output",
    "content",
    "metadata",
    "bad",
    "other",
    "reason",
    "failure",
    "arguments",
    "frame",
    "client",
];

/// The secret of a place.
fn secret(place: &str) -> String {
    assert!(PLACES.contains(&place), "{place}");
    format!("canary-{place}-3b9f61")
}

/// A client, and what it was given that nobody else may see.
struct Life<'a> {
    client: &'a mut Server,
    tokens: BTreeSet<String>,
}

impl Life<'_> {
    /// Calls and reads. A refusal holds a secret only where its own call named a thing so, or somebody gave it as the
    /// reason of the pause that stands in the way.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.client.request(method, params.clone());
        let is_refusal = !answer["error"].is_null() || answer["result"]["isError"] == true;
        if is_refusal {
            let mut named = names(&params);
            // Why it was paused is what whoever is refused needs to know.
            if answer["result"]["structuredContent"]["error_code"] == "EXECUTION_PAUSED" {
                named += &secret("reason");
            }
            for secret in self.secrets() {
                let shown = answer.to_string().contains(&secret);
                assert!(!shown || named.contains(&secret), "{params} is answered {answer}");
            }
        }
        find_tokens(&answer, &mut self.tokens);
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", params)["result"]["structuredContent"].clone()
    }

    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["success"], true, "{answer}");
        answer
    }

    fn refused(&mut self, tool: &str, arguments: Value, code: &str) {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["error_code"], code, "{answer}");
    }

    /// Everything that must stay secret so far: what was planted, tokens, and what makes a token one.
    fn secrets(&self) -> Vec<String> {
        let nonce = |token: &String| text(&payload(&json!(token))["nonce"]).to_owned();
        let nonces = self.tokens.iter().map(nonce);
        let planted = PLACES.iter().map(|place| secret(place));
        planted.chain(nonces).chain(self.tokens.iter().cloned()).collect()
    }
}

/// What a request calls things by.
fn names(params: &Value) -> String {
    let arguments = &params["arguments"];
    let names =
        [&params["name"], &params["uri"], &arguments["execution_id"], &arguments["workflow_name"]];
    names.map(ToString::to_string).concat()
}

/// Every token in an answer, also in the JSON that a text of it holds.
fn find_tokens(answer: &Value, tokens: &mut BTreeSet<String>) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(token)
                        if matches!(&**name, "new_token" | "continuation_token") =>
                    {
                        tokens.insert(token.clone());
                    }
                    Value::String(text) if name == "text" => {
                        if let Ok(inner) = serde_json::from_str(text) {
                            find_tokens(&inner, tokens);
                        }
                    }
                    _ => find_tokens(value, tokens),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find_tokens(item, tokens)),
        _ => {}
    }
}

/// An output with secrets wherever an output may hold one.
fn output_with_secrets() -> Value {
    let artifact = json!({
        "type": "file", "name": "notes", "content": secret("content"), "metadata": { "key": secret("metadata") }
    });
    json!({ "summary": secret("output"), "findings": [secret("output")], "artifacts": [artifact] })
}

/// The life of some executions, with everything in it that may be refused.
fn live(life: &mut Life<'_>, id: &str) {
    let inputs = json!({ "password": secret("inputs") });
    let start = json!({ "workflow_name": "line", "execution_id": id, "inputs": inputs });
    let first = life.done("workflow.start", start.clone());
    life.done("workflow.start", start);
    let other =
        json!({ "workflow_name": "line", "execution_id": id, "inputs": { "a": secret("other") } });
    life.refused("workflow.start", other, "EXECUTION_ID_TAKEN");
    let token = first["new_token"].clone();
    let bad = json!({ "summary": [secret("bad")], "findings": secret("bad"), "artifacts": [{ "name": secret("bad") }] });
    life.refused(
        "workflow.next_step",
        json!({ "token": token, "output": bad }),
        "STEP_OUTPUT_INVALID",
    );
    mistakes(life, &token, id);
    let call = json!({ "token": token, "output": output_with_secrets() });
    let second = life.done("workflow.next_step", call.clone());
    assert_eq!(life.done("workflow.next_step", call)["replayed"], true);
    let other = json!({ "token": token, "output": { "summary": secret("other") } });
    life.refused("workflow.next_step", other, "TOKEN_ALREADY_USED");
    let change = json!({ "execution_id": id, "reason": secret("reason") });
    life.done("execution.pause", change.clone());
    let call = json!({ "token": second["new_token"], "output": output_with_secrets() });
    life.refused("workflow.next_step", call.clone(), "EXECUTION_PAUSED");
    life.refused("execution.pause", change.clone(), "STATE_TRANSITION_REFUSED");
    life.done("execution.resume", change);
    life.done("execution.resume", json!({}));
    life.done("workflow.next_step", call);
    for resource in
        ["current_step", "workflow_status", "step_history", "workflow_artifacts", "artifact"]
    {
        let uri = match resource {
            "artifact" => address(resource, id) + "/notes",
            _ => address(resource, id),
        };
        let shown = life.ask("resources/read", json!({ "uri": uri }));
        assert!(shown["error"].is_null(), "{shown}");
    }
    fail(life, &format!("{id} fails"));
    let gone = life.done("workflow.start", json!({ "workflow_name": "line" }));
    let end = json!({ "execution_id": gone["execution_id"], "reason": secret("reason") });
    life.done("execution.abandon", end.clone());
    // It reads where there is nothing to lift.
    life.done("execution.resume", end.clone());
    life.refused("execution.abandon", end, "STATE_TRANSITION_REFUSED");
}

/// An execution that fails for a reason that is a secret.
fn fail(life: &mut Life<'_>, id: &str) {
    let token = life.done("workflow.start", json!({ "workflow_name": "line", "execution_id": id }))
        ["new_token"]
        .clone();
    let error = json!({ "message": secret("failure"), "code": "NO" });
    let failed = life.done("workflow.next_step", json!({ "token": token, "error": error }));
    assert_eq!(failed["workflow_state"], "failed");
    let again = json!({ "token": token, "output": { "summary": secret("other") } });
    life.refused("workflow.next_step", again, "TOKEN_ALREADY_USED");
}

/// Tools, and what is wrong with their arguments.
const MISTAKES: &str = r#"
    workflow.next_step | {"token": "TOKENx", "output": {"summary": "SECRET"}}
    workflow.next_step | {"token": "CUT", "output": {"summary": "SECRET"}}
    workflow.next_step | {"token": "SECRET", "output": {"summary": "SECRET"}}
    workflow.next_step | {"token": ["TOKEN"], "output": {"summary": "SECRET"}}
    workflow.next_step | {"token": "TOKEN"}
    workflow.next_step | {"token": "TOKEN", "output": {"summary": "SECRET"}, "error": {"message": "SECRET"}}
    workflow.next_step | {"token": "TOKEN", "output": {"summary": "SECRET"}, "more": "SECRET"}
    workflow.next_step | {"token": "TOKEN", "output": {"summary": "SECRET"}, "known_agents": "SECRET"}
    workflow.start | {"workflow_name": "line", "inputs": "SECRET"}
    workflow.start | {"workflow_name": ["SECRET"]}
    workflow.start | {"workflow_name": "nothing", "inputs": {"a": "SECRET"}}
    execution.pause | {"execution_id": "TOKEN", "reason": "SECRET"}
    execution.pause | {"execution_id": "ID", "reason": ["SECRET"]}
    execution.list | {"limit": "SECRET"}
    execution.wait | {"execution_id": "TOKEN", "timeout_s": 0}
    TOKEN | {"output": {"summary": "SECRET"}}
    nothing | {"token": "TOKEN", "output": {"summary": "SECRET"}}
"#;
/// Methods, and what is wrong with their parameters.
const MISTAKEN_REQUESTS: &str = r#"
    resources/read | {"uri": "midex://workflow/current_step/TOKEN"}
    resources/read | {"uri": "midex://workflow/artifact/x/TOKEN"}
    resources/read | {"uri": "midex://workflow/nothing/TOKEN"}
    resources/read | {"uri": "midex://workflow/agent/TOKEN"}
    resources/read | {"uri": "midex://workflow/workflow_details/TOKEN"}
    tools/call | {"name": 7, "arguments": {"token": "TOKEN", "output": {"summary": "SECRET"}}}
    tools/call | ["TOKEN", "SECRET"]
    no/such/method | {"token": "TOKEN", "a": "SECRET"}
    resources/read | {"address": "TOKEN"}
    completion/complete | {"ref": "SECRET", "argument": "TOKEN"}
    notifications/cancelled | {"requestId": 999999, "reason": "SECRET"}
    notifications/progress | {"progressToken": "TOKEN", "progress": 1, "message": "SECRET"}
    notifications/unheard | {"token": "TOKEN", "a": "SECRET"}
"#;

/// Whatever a client may get wrong with a token and a secret in its hands.
fn mistakes(life: &mut Life<'_>, token: &Value, id: &str) {
    let secret = secret("arguments");
    let real = text(token);
    let filled = |table: &str| {
        let table = table.replace("ID", id).replace("SECRET", &secret);
        table.replace("CUT", &real[1..]).replace("TOKEN", real)
    };
    for [tool, arguments] in table(&filled(MISTAKES)) {
        life.call(&tool, serde_json::from_str(&arguments).unwrap());
    }
    for [method, params] in table(&filled(MISTAKEN_REQUESTS)) {
        let params: Value = serde_json::from_str(&params).unwrap();
        if method.starts_with("notifications/") {
            let said = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            life.client.send(&said);
        } else {
            life.ask(&method, params);
        }
    }
    mistaken_frames(life, real);
}

/// Lines that are no requests, or nothing at all.
fn mistaken_frames(life: &mut Life<'_>, real: &str) {
    let frame = secret("frame");
    for line in [
        format!("{frame} {real}"),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"{frame}\":\"{real}"),
        format!("[{{\"{frame}\":\"{real}\"}}]"),
        format!("{{\"id\":\"{frame}\",\"token\":\"{real}\"}}"),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":5000,\"result\":{{\"{frame}\":\"{real}\"}}}}"),
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":5001,\"error\":{{\"code\":1,\"message\":\"{frame}{real}\"}}}}"
        ),
    ] {
        life.client.send_raw(&line);
    }
    // Answered after all of them.
    life.ask("ping", json!({}));
}

/// A log, and what is read of it.
struct Log(PathBuf);

impl Log {
    /// One more file for those who write to it.
    fn open(&self) -> Stdio {
        let file = fs::File::options().create(true).append(true).open(&self.0);
        Stdio::from(file.unwrap())
    }

    /// It is a log, and holds none of these, however they are written.
    fn keeps(&self, secrets: &[String], chosen: &str) {
        let log = fs::read_to_string(&self.0).unwrap();
        assert!(log.contains("a call was refused"), "{chosen}: it says something: {log}");
        for secret in secrets {
            let numbers: Vec<_> = secret.bytes().map(|byte| byte.to_string()).collect();
            for written in [secret.clone(), numbers.join(", ")] {
                if let Some(at) = log.find(&written) {
                    let line = log[..at].lines().count();
                    panic!(
                        "{chosen}: `{secret}` is in the log: {:?}",
                        log.lines().nth(line.saturating_sub(1))
                    );
                }
            }
        }
    }
}

fn serve(project: &Project, log: &Log, chosen: &str) -> Server {
    let mut command = project.command("serve");
    plant(&mut command, chosen);
    Server::logging(command, log.open())
}

/// What every process finds in its environment.
fn plant(command: &mut Command, chosen: &str) {
    command.env("RUST_LOG", chosen);
    for name in ["API_TOKEN", "MIDEX_SECRET", "AWS_SECRET_ACCESS_KEY"] {
        command.env(name, secret("environment"));
    }
}

/// Telemetry tells what happened, not what was said: of a failure it tells the message.
fn telemetry_keeps(server: &mut Server, life: &[String], id: &str) {
    for uri in ["midex://workflow/telemetry".to_owned(), address("telemetry", id)] {
        let told = server.read(&(uri + "?limit=1000"));
        assert!(list(&told).len() > 10);
        let told = told.to_string();
        for secret in life.iter().filter(|secret| **secret != self::secret("failure")) {
            assert!(!told.contains(secret), "`{secret}` is in telemetry: {told}");
        }
    }
}

/// A command of the same machine, through the server's door; its log is the same.
fn command(project: &Project, log: &Log, chosen: &str, args: &[&str]) {
    let mut command = project.command(args);
    plant(&mut command, chosen);
    let ran = command.stdin(Stdio::null()).stderr(log.open()).output().unwrap();
    assert!(ran.status.code().is_some(), "{args:?}");
}

fn commands(project: &Project, log: &Log, chosen: &str) {
    let outputs =
        [json!({ "summary": secret("output"), "findings": secret("bad") }), output_with_secrets()];
    for (at, output) in outputs.iter().enumerate() {
        let (name, id) = (format!("outputs{at}.jsonl"), format!("run {at}"));
        fs::write(project.path(&name), format!("{output}\n")).unwrap();
        let inputs = json!({ "password": secret("inputs") }).to_string();
        command(
            project,
            log,
            chosen,
            &["run", "line", "--id", &id, "--inputs", &inputs, "--outputs", &name],
        );
    }
    for args in [
        &["show", "run 1"][..],
        &["show", "run 1", "--json"],
        &["tail", "run 1", "--no-follow"],
        &["pause", "run 1", "--reason", &secret("reason")],
        &["pause", "run 1", "--reason", &secret("reason")],
        &["resume", "run 1"],
        &["list", "executions"],
        &["abandon", "run 1"],
    ] {
        command(project, log, chosen, args);
    }
}

/// A client that does not begin as a client does.
fn strangers(project: &Project, log: &Log, chosen: &str) {
    let client = secret("client");
    for line in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": client, "arguments": { "a": client } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized", "params": { "a": client } }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": client, "clientInfo": client } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "a": client } }),
        json!(client),
    ] {
        let mut server = serve(project, log, chosen);
        server.send(&line);
        server.close();
    }
}

#[test]
fn what_callers_say_is_in_no_log_whatever_it_is_asked_for() {
    for chosen in share(CHOICES.to_vec(), 3) {
        let project = line();
        let log = Log(project.path("log"));
        let mut server = serve(&project, &log, chosen);
        server.shake_hands();
        let mut life = Life { client: &mut server, tokens: BTreeSet::new() };
        live(&mut life, "first");
        commands(&project, &log, chosen);
        let secrets = life.secrets();
        assert!(secrets.len() > PLACES.len() + 8, "tokens were given: {secrets:?}");
        telemetry_keeps(&mut server, &secrets, "first");
        server.kill();
        let mut server = serve(&project, &log, chosen);
        server.shake_hands();
        let mut life = Life { client: &mut server, tokens: BTreeSet::new() };
        live(&mut life, "second");
        let secrets = [secrets, life.secrets()].concat();
        assert!(server.close().0.success());
        strangers(&project, &log, chosen);
        log.keeps(&secrets, chosen);
        outside_the_store(project.root(), &secrets);
    }
}

/// What is kept is kept in the store alone, which is this user's alone.
fn outside_the_store(root: &Path, secrets: &[String]) {
    use std::os::unix::fs::PermissionsExt;
    let data = root.join("home/.local/share/midex");
    for entry in fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        if entry.file_name() != "executions.redb" {
            let bytes = fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(secrets.iter().all(|secret| !text.contains(secret)));
        }
    }
}
