//! The agent: it means to work, gets calls wrong, and knows no other way on than the sentences it is answered with.

use serde_json::{Value, json};

use super::{
    grammar::{self, Said},
    host::{Host, Reply, World},
    manifests,
};
use midex_test::{
    long::Dice,
    output,
    sample::{pick, sample},
};

/// So many calls in a row without a new revision are a dead end, where nobody and no time is waited for.
const DEAD_END: usize = 50;
/// Nothing takes so many.
const CALLS_MAX: usize = 500;
/// Of the calls, how many in a hundred go wrong.
const CLUMSINESS: u64 = 30;

/// A call as it is meant.
#[derive(Clone, Debug)]
struct Call {
    tool: String,
    arguments: Value,
}

fn call(tool: &str, arguments: Value) -> Call {
    Call { tool: tool.to_owned(), arguments }
}

/// A step that the agent may do now.
struct Task {
    token: String,
    schema: Option<Value>,
    example: Option<Value>,
    is_told: bool,
}

pub(super) struct Agent<'a> {
    world: Option<&'a World>,
    host: &'a mut Host,
    pub(super) dice: Dice,
    workflow: &'a str,
    /// Whether its host lets it read resources, beside the tool.
    reads: bool,
    execution: Option<String>,
    tokens: Vec<String>,
    /// How often in a row a call was refused that was sent as it was meant.
    honest: usize,
    calls: usize,
    /// Calls since the executions moved last, and where they stood.
    idle: usize,
    stood: u64,
    trace: Vec<String>,
}

impl<'a> Agent<'a> {
    pub(super) fn new(
        world: Option<&'a World>,
        host: &'a mut Host,
        seed: u64,
        workflow: &'a str,
    ) -> Self {
        Self {
            world,
            host,
            reads: seed.is_multiple_of(2),
            dice: Dice(seed),
            workflow,
            execution: None,
            tokens: Vec::new(),
            honest: 0,
            calls: 0,
            idle: 0,
            stood: 0,
            trace: Vec::new(),
        }
    }

    /// Works until an execution has ended; how many calls that took, or why it never would.
    pub(super) async fn run(&mut self) -> Result<usize, String> {
        let mut next = self.start();
        loop {
            let (sent, reply) = self.act(&next).await;
            let Some(reply) = reply else {
                // The reply was lost: the same again, or the place is lost with it.
                if self.dice.roll(2) == 0 {
                    next = call("execution.resume", json!({}));
                }
                continue;
            };
            match self.think(next, &sent, &reply).await {
                Ok(Some(meant)) => next = meant,
                Ok(None) => return Ok(self.calls),
                Err(why) => return Err(self.told(&why)),
            }
            if let Some(why) = self.is_at_dead_end(&reply).await {
                return Err(self.told(&why));
            }
        }
    }

    fn told(&self, why: &str) -> String {
        let last = self.trace.iter().rev().take(12).rev();
        let last: Vec<_> = last.map(String::as_str).collect();
        format!("{}: {why}\n{}", self.workflow, last.join("\n"))
    }

    fn start(&mut self) -> Call {
        let mut arguments = json!({ "workflow_name": self.workflow });
        if let Some(inputs) = manifests::inputs(self.workflow) {
            arguments["inputs"] = inputs;
        }
        if self.dice.roll(2) == 0 {
            // Others may have used it before, in the same store.
            arguments["execution_id"] = json!(format!("it's {}", self.workflow));
        }
        call("workflow.start", arguments)
    }

    /// Makes a call, or something like it: what was sent, and the reply where it came.
    async fn act(&mut self, meant: &Call) -> (Call, Option<Reply>) {
        let slip = self.dice.roll(100);
        let slip = (slip < CLUMSINESS).then(|| self.dice.roll(12));
        if meant.tool == "execution.wait" && self.dice.roll(2) == 0 {
            self.host.signal().await;
        }
        if slip == Some(0)
            && let Some(id) = self.execution.clone()
        {
            // Somebody pauses it, and nobody tells the agent.
            self.host.call("execution.pause", &json!({ "execution_id": id })).await;
        }
        if slip == Some(1)
            && let Some(world) = self.world
            && self.dice.roll(4) == 0
        {
            world.sleep_over();
        }
        let sent = slip.map_or_else(|| meant.clone(), |slip| self.spoiled(meant, slip));
        let reply = self.send(&sent).await;
        let line = format!("{} {} => {}", sent.tool, sent.arguments, reply.body);
        self.trace.push(line.chars().take(900).collect());
        self.calls += 1;
        (sent, (slip != Some(2)).then_some(reply))
    }

    async fn send(&mut self, sent: &Call) -> Reply {
        if self.reads
            && sent.tool == "workflow.read"
            && let Some(uri) = sent.arguments["uri"].as_str()
        {
            return self.host.read(uri).await;
        }
        let mut arguments = sent.arguments.clone();
        if sent.tool == "execution.wait" && arguments.is_object() {
            // No host waits for ever.
            arguments["timeout_s"] = json!(0.02);
        }
        self.host.call(&sent.tool, &arguments).await
    }

    /// The call as it gets wrong.
    fn spoiled(&mut self, meant: &Call, slip: u64) -> Call {
        let Call { tool, arguments } = meant;
        let mut spoiled = meant.clone();
        match slip {
            3 => spoiled.tool = self.misnamed(tool),
            4 => spoiled.arguments = self.renamed(arguments),
            5 => {
                spoiled.arguments["token"] = json!(format!(" \"{}\"\n", text(&arguments["token"])));
                if arguments["token"].is_null() {
                    spoiled.arguments = json!({ "nonsense": 1 });
                }
            }
            6 if arguments["output"].is_null() => spoiled.arguments = json!({}),
            6 | 7 if tool == "workflow.next_step" => {
                let junk = [
                    json!(5),
                    json!({}),
                    json!([1]),
                    json!({ "Summary": "x" }),
                    json!("junk"),
                    Value::Null,
                ];
                spoiled.arguments["output"] = junk[pick(junk.len(), &mut self.dice)].clone();
            }
            8 if !self.tokens.is_empty() => {
                let stale = self.tokens[pick(self.tokens.len(), &mut self.dice)].clone();
                spoiled = call(
                    "workflow.next_step",
                    json!({ "token": stale, "output": output("stale") }),
                );
            }
            9 => {
                for name in ["execution_id", "token", "workflow_name", "uri"] {
                    if let Some(value) = arguments[name].as_str().filter(|value| value.len() > 2) {
                        spoiled.arguments[name] = json!(self.cut(value));
                    }
                }
            }
            10 => spoiled = call("execution.resume", json!({})),
            11 => spoiled = call("execution.list", json!({ "state": "opne" })),
            _ => {}
        }
        spoiled
    }

    fn misnamed(&mut self, tool: &str) -> String {
        let last = tool.rsplit('.').next().unwrap_or(tool);
        let names = [
            last.to_owned(),
            tool.replace('.', "_"),
            tool.replace('.', "-"),
            tool.replace('_', ""),
            format!("mcp__midex__{}", tool.replace('.', "_")),
            "bash".to_owned(),
        ];
        names[pick(names.len(), &mut self.dice)].clone()
    }

    fn renamed(&mut self, arguments: &Value) -> Value {
        let mut renamed = serde_json::Map::new();
        for (name, value) in arguments.as_object().into_iter().flatten() {
            let theirs = match name.as_str() {
                "token" => "continuation_token",
                "output" => "result",
                "workflow_name" => "workflow",
                "inputs" => "input",
                "uri" => "url",
                name => name,
            };
            let value = match value {
                Value::Object(_) if self.dice.roll(2) == 0 => json!(value.to_string()),
                value => value.clone(),
            };
            renamed.insert(theirs.to_owned(), value);
        }
        Value::Object(renamed)
    }

    /// A text that lacks one letter.
    fn cut(&mut self, text: &str) -> String {
        let letters: Vec<_> = text.chars().collect();
        let at = pick(letters.len(), &mut self.dice);
        let rest = letters.iter().enumerate().filter(|(place, _)| *place != at);
        rest.map(|(_, letter)| letter).collect()
    }

    /// What to do after a reply; nothing once an execution has ended.
    async fn think(
        &mut self,
        meant: Call,
        sent: &Call,
        reply: &Reply,
    ) -> Result<Option<Call>, String> {
        let body = match &reply.body["content"] {
            Value::Null => &reply.body,
            content => content,
        };
        if !reply.is_done {
            return self.refused(meant, sent, &reply.body).await.map(Some);
        }
        self.honest = 0;
        let state = body["state"].as_str().or(body["workflow_state"].as_str());
        if let Some(id) = body["execution_id"].as_str() {
            self.execution = Some(id.to_owned());
        }
        if state.is_some_and(|state| !["running", "paused"].contains(&state)) {
            // The end of a child leads back to its parent.
            let said = body["message"].as_str().and_then(grammar::find);
            return Ok(match said {
                Some(said) => Some(self.follow(&said, &meant, sent).await),
                None => None,
            });
        }
        if let Some(task) = self.task(body) {
            return Ok(Some(self.work(task)));
        }
        if let Some(said) = body["message"].as_str().and_then(grammar::find) {
            return Ok(Some(self.follow(&said, &meant, sent).await));
        }
        Ok(Some(self.look_around(body)))
    }

    /// What a refusal says is to be done.
    async fn refused(&mut self, meant: Call, sent: &Call, body: &Value) -> Result<Call, String> {
        let action = text(&body["suggested_action"]);
        if let Some(fault) = grammar::fault(action, &self.host.tools)
            && !action.starts_with("Call resources/read again")
        {
            return Err(format!("{fault}: {action}"));
        }
        let is_honest = sent.tool == meant.tool && sent.arguments == meant.arguments;
        self.honest = if is_honest { self.honest + 1 } else { 0 };
        if body["error_code"] == "STEP_OUTPUT_INVALID" && self.honest > 2 {
            // It knows no better.
            let error = json!({ "message": "no output is good enough" });
            let token = &meant.arguments["token"];
            return Ok(call("workflow.next_step", json!({ "token": token, "error": error })));
        }
        let Some(said) = grammar::parse(action) else {
            return Ok(meant);
        };
        Ok(self.follow(&said, &meant, sent).await)
    }

    /// Does what a sentence says, by its grammar and nothing else.
    async fn follow(&mut self, said: &Said, meant: &Call, sent: &Call) -> Call {
        if said.person.is_some() {
            self.host.ask_user(&mut self.dice).await;
        }
        let mut arguments = match said.is_again {
            true if said.tool == meant.tool => meant.arguments.clone(),
            true => sent.arguments.clone(),
            false => json!({}),
        };
        for (name, value) in &said.arguments {
            arguments[name] = json!(value);
        }
        call(&said.tool, arguments)
    }

    /// The step that a reply offers.
    fn task(&mut self, body: &Value) -> Option<Task> {
        let mut tasks = Vec::new();
        let lists = ["new_tokens", "open_steps", "ready_steps"].into_iter();
        let offers = lists.filter_map(|list| body[list].as_array()).flatten();
        for offer in std::iter::once(body).chain(offers) {
            let token = offer["new_token"].as_str().or(offer["continuation_token"].as_str());
            if let Some(token) = token.filter(|_| body["workflow_state"] == "running") {
                tasks.push(Task {
                    token: token.to_owned(),
                    schema: offer.get("output_schema").filter(|schema| schema.is_object()).cloned(),
                    example: offer.get("example").filter(|example| !example.is_null()).cloned(),
                    is_told: offer["instructions"].as_str().is_some_and(|told| !told.is_empty()),
                });
            }
        }
        self.tokens.extend(tasks.iter().map(|task| task.token.clone()));
        // What it was not told to do it does not do.
        tasks.retain(|task| task.is_told);
        (!tasks.is_empty()).then(|| tasks.swap_remove(pick(tasks.len(), &mut self.dice)))
    }

    /// Does a step.
    fn work(&mut self, task: Task) -> Call {
        let output = match (task.example, task.schema) {
            (Some(example), _) => example,
            (None, Some(schema)) => sample(&schema, &mut self.dice),
            (None, None) => output("done"),
        };
        let mut arguments = json!({ "token": task.token, "output": output });
        if self.dice.roll(40) == 0 {
            arguments = json!({ "token": task.token, "error": { "message": "it cannot be done" } });
        }
        call("workflow.next_step", arguments)
    }

    /// What to do where a reply names no call.
    fn look_around(&mut self, body: &Value) -> Call {
        let listed = body["executions"].as_array().into_iter().flatten();
        let mut open = listed.filter(|row| ["running", "paused"].contains(&text(&row["state"])));
        let known = body["execution_id"].as_str();
        let open = open.next().and_then(|row| row["execution_id"].as_str());
        if let Some(id) = open.or(known) {
            return call("execution.resume", json!({ "execution_id": id }));
        }
        let is_workflows = body["workflows"].is_array()
            || body[0]["phases"].is_array()
            || body["phases"].is_array();
        if is_workflows {
            return self.start();
        }
        call("execution.resume", json!({}))
    }

    /// Why nothing moves any more.
    async fn is_at_dead_end(&mut self, reply: &Reply) -> Option<String> {
        self.idle += 1;
        if self.calls > CALLS_MAX {
            return Some(format!("it does not end in {CALLS_MAX} calls"));
        }
        if !self.idle.is_multiple_of(10) {
            return None;
        }
        let statuses = self.host.statuses().await;
        let stood = statuses.iter().map(|status| status["revision"].as_u64().unwrap_or(0)).sum();
        let waits = statuses.iter().any(|status| {
            let waits = status["waits"].as_array();
            waits.is_some_and(|waits| !waits.is_empty())
        });
        let is_waiting = waits && !reply.body["waits"].is_null();
        if stood != self.stood || is_waiting {
            (self.stood, self.idle) = (stood, 0);
        }
        (self.idle >= DEAD_END).then(|| format!("nothing has moved for {} calls", self.idle))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
