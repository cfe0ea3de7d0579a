//! Operations of public documents are called: their arguments are made from the schemas that midex shows, midex sends what
//! it makes of them over loopback, and a judge that reads the document alone says whether it is what the document declares
//! and what was meant.
//!
//! Arguments that midex refuses before anything is sent are made anew, up to [`TRIES`] times: what `not` or `oneOf` says is
//! met by chance. What was sent counts, whatever the judge says.

mod decode;
mod generated;
mod judge;
mod judged;
mod validator;

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use midex_catalog::{
    call::{CallOptions, CallTarget, Caller, PreparedOperation},
    operation::{BodyContent, CONTENT_TYPE_ARGUMENT, Operation, ParameterLocation},
};
use serde_json::{Map, Value, json};

use self::{
    generated::Use,
    judge::{Judge, Meant},
};
use super::{
    caller,
    public::{PUBLIC, Public, place},
    target,
};
use midex_test::{
    long::{Dice, rounds, seed},
    service::{Seen, Service, answer},
};

const TRIES: usize = 20;
/// One of so many operations is called in the short run, from another beginning with another seed.
const SHARE: u64 = 10;

/// The operations that were called, and why the others were not.
#[derive(Default)]
struct Tally {
    operations: usize,
    called: usize,
    /// By reason: how many, and one of them with the particulars.
    others: BTreeMap<String, (usize, String)>,
}

#[test]
fn nearly_all_operations_of_public_documents_are_called_as_their_documents_declare_it() {
    let seed = seed(16);
    let threads: Vec<_> = PUBLIC
        .iter()
        .map(|public| {
            let public = Arc::clone(public);
            thread::spawn(move || tally(&public, seed))
        })
        .collect();
    let mut all = Tally::default();
    for (thread, public) in threads.into_iter().zip(PUBLIC.iter()) {
        let tally = thread.join().expect("a tally");
        tally.print(public.name);
        all.operations += tally.operations;
        all.called += tally.called;
    }
    all.print("all of them");
    assert!(all.called * 100 >= all.operations * 95);
}

impl Tally {
    fn note(&mut self, operation: &Operation, refused: Option<String>) {
        self.operations += 1;
        let Some(why) = refused else {
            self.called += 1;
            return;
        };
        let rule = why.split(':').next().unwrap_or_default().to_owned();
        let example = format!("{} {}: {why}", operation.method.as_str(), operation.path);
        self.others.entry(rule).or_insert((0, example)).0 += 1;
    }

    #[expect(clippy::print_stdout, reason = "the share is what one wants to see")]
    fn print(&self, name: &str) {
        println!("{name}: {} of {} operations are called", self.called, self.operations);
        for (rule, (count, example)) in &self.others {
            let example: String = example.chars().take(400).collect();
            println!("  {count}: {rule}, as {example}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn tally(public: &Public, seed: u64) -> Tally {
    let judge = Judge::new(document(public.name));
    let calling = Calling::new(public).await;
    let mut tally = Tally::default();
    let step = rounds(SHARE, 1);
    let places = (0_u64..).zip(0..public.book.entries().len());
    for (number, place) in places.filter(|(number, _)| number % step == seed % step) {
        let operation = public.book.read_operation(place).expect("an operation");
        let mut dice = Dice(seed ^ number);
        let refused = calling.refused(&judge, operation.clone(), &mut dice).await;
        tally.note(&operation, refused);
    }
    tally
}

/// The document as its own text says it.
fn document(name: &str) -> Value {
    let text = fs::read_to_string(place(name)).expect("a document");
    if place(name).extension().is_some_and(|kind| kind == "yaml") {
        serde_saphyr::from_str(&text).expect("YAML")
    } else {
        text.parse().expect("JSON")
    }
}

/// What the operations of a document are called with.
struct Calling {
    service: Service,
    last: Arc<Mutex<Option<Seen>>>,
    caller: Caller,
    target: CallTarget,
}

impl Calling {
    async fn new(public: &Public) -> Self {
        let last: Arc<Mutex<Option<Seen>>> = Arc::default();
        let kept = last.clone();
        let service = Service::new(move |seen| {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.clone());
            answer(204, &[], b"")
        })
        .await;
        let base_url = here(&service, public.compiled.servers.first());
        let target = CallTarget { base_url, ..target(&service) };
        Self { service, last, caller: caller(), target }
    }

    /// Why the operation is not called, if it is not.
    async fn refused(
        &self,
        judge: &Judge,
        mut operation: Operation,
        dice: &mut Dice,
    ) -> Option<String> {
        // The same path on this machine.
        let servers = operation.servers.iter();
        operation.servers = servers.map(|server| here(&self.service, Some(server))).collect();
        let prepared = PreparedOperation::new(operation);
        let mut refused = "no arguments are found: ".to_owned();
        for _ in 0..TRIES {
            let Some(given) = Given::new(&prepared, dice) else {
                continue;
            };
            match self.sent(&prepared, &given).await {
                Ok(seen) => return judge.refused(&seen, &given.meant(prepared.operation())),
                Err((class, why)) if class == "arguments_invalid" => {
                    refused = format!("midex refuses the arguments: {why}");
                }
                Err((class, why)) => return Some(format!("{class}: {why}")),
            }
        }
        Some(refused)
    }

    async fn sent(
        &self,
        prepared: &PreparedOperation,
        given: &Given,
    ) -> Result<Seen, (String, String)> {
        let options = CallOptions {
            idempotency_key: Some("0123456789abcdef".repeat(4)),
            ..CallOptions::default()
        };
        let body = given.body.as_ref();
        let called =
            self.caller.call_operation(prepared, &self.target, &given.with, body, &options);
        called.await.map_err(|failure| (failure.class, failure.message))?;
        let seen = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        seen.ok_or_else(|| ("nothing is sent".to_owned(), String::new()))
    }
}

/// The same path at the service.
fn here(service: &Service, server: Option<&String>) -> String {
    let rest = server.and_then(|server| Some(server.split_once("//")?.1));
    let path = rest.and_then(|rest| Some(&rest[rest.find('/')?..]));
    format!("{}{}", service.url(), path.unwrap_or_default())
}

/// What an operation is called with.
struct Given {
    with: Value,
    body: Option<Value>,
    /// The values of parameters by their arguments.
    parameters: Map<String, Value>,
    /// The body as its schema speaks of it: a file is its text, and bytes are no base64.
    meant_body: Option<Value>,
}

impl Given {
    /// Required arguments, and half of the others.
    fn new(prepared: &PreparedOperation, dice: &mut Dice) -> Option<Self> {
        let operation = prepared.operation();
        let mut parameters = Map::new();
        for one in &operation.parameters {
            let used = match one.location {
                ParameterLocation::Header => Use::Header,
                _ => Use::Encoded,
            };
            if one.is_required || dice.roll(2) == 0 {
                match generated::value(&one.schema, used, dice) {
                    Some(value) => drop(parameters.insert(one.argument.clone(), value)),
                    None if one.is_required => return None,
                    None => {}
                }
            }
        }
        let mut given = Self {
            with: Value::Object(parameters.clone()),
            body: None,
            parameters,
            meant_body: None,
        };
        let body = operation.body.as_ref();
        if body.is_some_and(|body| body.is_required || dice.roll(4) > 0) {
            given.add_body(prepared, dice)?;
        }
        Some(given)
    }

    fn add_body(&mut self, prepared: &PreparedOperation, dice: &mut Dice) -> Option<()> {
        let contents = &prepared.operation().body.as_ref()?.contents;
        let chosen = self.parameters.get(CONTENT_TYPE_ARGUMENT);
        let is_chosen =
            |content: &&BodyContent| chosen.is_some_and(|one| *one == content.media_type);
        let content = contents.iter().find(is_chosen).or(contents.first())?;
        let media_type = content.media_type.as_str();
        let is_json = media_type.ends_with("json");
        let used = if is_json { Use::Json } else { Use::Encoded };
        let value = generated::value(&content.schema, used, dice)?;
        self.meant_body = Some(value.clone());
        match value {
            Value::Object(fields) if is_json && takes(prepared, &fields) && dice.roll(2) == 0 => {
                let with = self.with.as_object_mut()?;
                with.extend(fields);
            }
            Value::Object(fields) if media_type.starts_with("multipart/") => {
                let schemas = &content.schema["properties"];
                let files = fields.into_iter().map(|(name, value)| {
                    let is_file = schemas[&name]["format"] == "binary" && value.is_string();
                    let file = is_file.then(|| json!({ "filename": "a.txt", "content": value }));
                    (name, file.unwrap_or(value))
                });
                self.body = Some(Value::Object(files.collect()));
            }
            Value::String(text) if !is_json && !media_type.starts_with("text/") => {
                self.body = Some(BASE64_STANDARD.encode(text).into());
            }
            value => self.body = Some(value),
        }
        Some(())
    }

    fn meant<'a>(&self, operation: &'a Operation) -> Meant<'a> {
        let parameters = operation.parameters.iter().filter_map(|one| {
            let location = match one.location {
                ParameterLocation::Path => "path",
                ParameterLocation::Query => "query",
                ParameterLocation::Header => "header",
                ParameterLocation::Cookie => "cookie",
            };
            let value = self.parameters.get(&one.argument)?;
            // What it says stands in the body's own header.
            (one.argument != CONTENT_TYPE_ARGUMENT)
                .then(|| (one.name.as_str(), location, value.clone()))
        });
        Meant {
            method: operation.method.as_str(),
            path: &operation.path,
            parameters: parameters.collect(),
            body: self.meant_body.clone(),
        }
    }
}

/// Whether the fields of the body can stand among the arguments.
fn takes(prepared: &PreparedOperation, fields: &Map<String, Value>) -> bool {
    let is_free = |name: &String| {
        let mut known = prepared.operation().parameters.iter();
        !known.any(|one| one.argument == *name)
    };
    prepared.has_body_fields() && !fields.is_empty() && fields.keys().all(is_free)
}
