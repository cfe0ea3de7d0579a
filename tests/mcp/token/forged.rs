//! Tokens made up, cut, changed, swapped, too old and too new: none is accepted, and none changes anything.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
use midex_domain::{
    clock::{Clock, SeededIds, Timestamp},
    error::Code,
    limits,
};
use midex_engine::{
    Engine, Options,
    store::{self, RedbStore, Store, TelemetryEntry, TelemetryQuery},
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use midex_test::{
    Client, EPOCH, Server,
    door::Door,
    long, output,
    play::{Calls, good, id, token},
    project::{Project, forge, line, payload, text},
    sequence,
};

/// What a forged token may be answered with.
const REFUSALS: [Code; 5] = [
    Code::TokenMalformed,
    Code::TokenMismatch,
    Code::TokenFromFuture,
    Code::TokenSuperseded,
    Code::ExecutionNotFound,
];
const HOUR_MS: i64 = 3_600_000;

/// A clock that is set by hand.
#[derive(Debug)]
struct Dial(AtomicI64);

impl Clock for Dial {
    fn now(&self) -> Timestamp {
        Timestamp::from_milliseconds(self.0.load(Ordering::SeqCst))
    }
}

/// An engine on a real file with three executions: `e`, which is attacked, `f`, and `g`, which has ended.
struct Bank {
    engine: Engine,
    store: Arc<RedbStore>,
    clock: Arc<Dial>,
    dir: tempfile::TempDir,
    /// Tokens of `e`, as texts.
    spent: String,
    superseded: String,
    live: String,
    /// The live token of `f`.
    other: String,
    /// The last token of `g`.
    ended: String,
}

async fn start(engine: &Engine, name: &str) -> String {
    token(&engine.begin(sequence(), name).await)
}

async fn advance(engine: &Engine, token: &str) -> Option<String> {
    engine.finish(token, "good").await.new_token
}

impl Bank {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(RedbStore::open(dir.path(), store::Options::default()).unwrap());
        let clock = Arc::new(Dial(EPOCH.milliseconds().into()));
        let ids = Arc::new(SeededIds::new(7));
        let options = Options::new(store.clone(), clock.clone(), ids);
        let engine = Engine::new(options).await.unwrap();
        let spent = start(&engine, "e").await;
        let superseded = advance(&engine, &spent).await.unwrap();
        // Past the end of its life it is renewed by a read.
        clock.0.fetch_add(25 * HOUR_MS, Ordering::SeqCst);
        let current = engine.current_now("e").await;
        let live = current.continuation_token.unwrap();
        let other = start(&engine, "f").await;
        let first = start(&engine, "g").await;
        let second = advance(&engine, &first).await.unwrap();
        let ended = advance(&engine, &second).await.unwrap();
        assert_eq!(advance(&engine, &ended).await, None);
        Self { engine, store, clock, dir, spent, superseded, live, other, ended }
    }

    /// Everything that is shown of the executions.
    async fn standing(&self) -> Value {
        let mut all = Vec::new();
        for name in ["e", "f", "g"].map(id) {
            all.push(json!([
                self.engine.status(&name).await.unwrap(),
                self.engine.read_execution(&name).await.unwrap().execution.revision(),
                self.engine.history(&name).await.unwrap(),
            ]));
        }
        Value::Array(all)
    }

    /// Tries a token that was never issued; the code that it is refused with.
    async fn attack(&self, token: &str) -> Code {
        match self.engine.advance(token, good("good")).await {
            Ok(answer) => panic!("accepted: {token}: {answer:?}"),
            Err(error) => error.code(),
        }
    }

    /// The same for many, each of which must be refused as a forgery is: how often with which code.
    async fn attack_all(&self, tokens: impl IntoIterator<Item = String>) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        for token in tokens {
            let code = self.attack(&token).await;
            assert!(REFUSALS.contains(&code), "{code}: {token}");
            *counted.entry(code.to_string()).or_default() += 1;
        }
        counted
    }

    /// Tokens of every kind that midex knows of.
    fn known(&self) -> [&str; 5] {
        [&self.live, &self.spent, &self.superseded, &self.other, &self.ended]
    }

    /// The live token still works, and is used once.
    async fn goes_on(self) {
        let before = self.engine.status_now("e").await.revision;
        assert!(advance(&self.engine, &self.live).await.is_some());
        let after = self.engine.status_now("e").await.revision;
        assert_eq!(after, before + 1);
        self.engine.stop().await.unwrap();
    }
}

/// A token that nobody issued.
fn random_token(dice: &mut StdRng, known: &[&str; 5]) -> String {
    let token = known[dice.random_range(0..known.len())];
    match dice.random_range(0..6) {
        // Bytes.
        0 => {
            let mut bytes = vec![0; dice.random_range(0..300)];
            dice.fill_bytes(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        // Bytes in the right clothes.
        1 => {
            let mut bytes = vec![0; dice.random_range(0..200)];
            dice.fill_bytes(&mut bytes);
            base64url.encode(bytes)
        }
        // A nonce that was guessed.
        2 => with(token, "nonce", &format!("{:032x}", dice.random::<u128>())),
        // One that was guessed nearly.
        3 => {
            let nonce = payload(&json!(token))["nonce"].clone();
            let nonce = u128::from_str_radix(text(&nonce), 16).unwrap();
            let nonce = nonce ^ (1 << dice.random_range(0..128));
            with(token, "nonce", &format!("{nonce:032x}"))
        }
        // A time of issue that was guessed.
        4 => {
            let shift = dice.random_range(1..48 * HOUR_MS);
            let shift = if dice.random() { shift } else { -shift };
            let at = payload(&json!(token))["issued_at"].clone();
            let at: Timestamp = text(&at).parse().unwrap();
            let at = Timestamp::from_milliseconds(at.milliseconds() + shift);
            with(token, "issued_at", &at.to_string())
        }
        // Some characters that are others.
        _ => {
            let mut bytes = token.as_bytes().to_vec();
            for _ in 0..dice.random_range(1..4) {
                let at = dice.random_range(0..bytes.len());
                // Never the same again: the next of the alphabet's.
                bytes[at] = if bytes[at] == b'z' { b'a' } else { bytes[at] + 1 };
            }
            String::from_utf8(bytes).unwrap()
        }
    }
}

/// The token with another field.
fn with(token: &str, field: &str, value: &str) -> String {
    let mut payload = payload(&json!(token));
    payload[field] = json!(value);
    text(&forge(&payload)).to_owned()
}

/// Refused calls that the store keeps, and the newest of them.
async fn refusals(store: &RedbStore) -> u64 {
    let query = TelemetryQuery {
        limit: 10 * usize::try_from(limits::REFUSALS_KEPT_MAX).unwrap(),
        ..TelemetryQuery::default()
    };
    let told = store.load_telemetry(query).await.unwrap();
    let kept = told.iter().filter(|told| matches!(told.1, TelemetryEntry::Refusal(_)));
    kept.count() as u64
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
async fn no_random_token_is_accepted_and_what_is_told_of_them_is_bounded() {
    let count = long::rounds(10_000, 1_000_000);
    let seed = long::seed(20_260_101);
    let mut dice = StdRng::seed_from_u64(seed);
    let bank = Bank::open().await;
    let before = bank.standing().await;
    let length = || bank.dir.path().join("executions.redb").metadata().unwrap().len();
    let mut half = 0;
    let mut counted = BTreeMap::<_, u64>::new();
    for at in 0..count {
        let token = random_token(&mut dice, &bank.known());
        assert!(!bank.known().contains(&&*token), "made up: {token}");
        let code = bank.attack(&token).await;
        assert!(REFUSALS.contains(&code), "{code}: {token}");
        *counted.entry(code.to_string()).or_default() += 1;
        if at == count / 2 {
            half = length();
        }
    }
    println!("refused: {counted:?}, file {half} to {}", length());
    assert_eq!(bank.standing().await, before);
    assert_eq!(counted.values().sum::<u64>(), count);
    assert!(counted.len() >= 3, "every kind was tried: {counted:?}");
    let kept = refusals(&bank.store).await;
    assert_eq!(kept, count.min(limits::REFUSALS_KEPT_MAX));
    let shown = bank.engine.telemetry(None, None, usize::MAX).await.unwrap();
    assert_eq!(shown.len(), limits::TELEMETRY_LIMIT_MAX);
    // Twice as many refusals are kept in the same place.
    assert_eq!(length(), half);
    bank.goes_on().await;
}

#[tokio::test]
async fn every_flipped_bit_and_every_cut_is_refused() {
    let bank = Bank::open().await;
    let before = bank.standing().await;
    for token in bank.known() {
        let mut bad = Vec::new();
        for at in 0..token.len() {
            bad.extend([token[..at].to_owned(), token[at + 1..].to_owned()]);
            // One that is missing, and one too many.
            bad.push(format!("{}{}", &token[..at], &token[at + 1..]));
            bad.push(format!("{}A{}", &token[..at], &token[at..]));
        }
        bad.extend([format!("{token}="), format!("{token}A"), token.repeat(2)]);
        let flipped = |bytes: &[u8], bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        for bit in 0..token.len() * 8 {
            let bytes = flipped(token.as_bytes(), bit);
            bad.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        // What it says, a bit of which is another.
        let inside = base64url.decode(token).unwrap();
        bad.extend((0..inside.len() * 8).map(|bit| base64url.encode(flipped(&inside, bit))));
        let count = bad.len() as u64;
        let counted = bank.attack_all(bad).await;
        assert_eq!(counted.values().sum::<u64>(), count);
        assert!(counted.contains_key(Code::TokenMismatch.as_str()), "{counted:?}");
    }
    assert_eq!(bank.standing().await, before);
    bank.goes_on().await;
}

/// The fields of real tokens, put together anew.
#[tokio::test]
async fn a_token_of_parts_of_others_is_none() {
    let bank = Bank::open().await;
    let before = bank.standing().await;
    let parts = bank.known().map(|token| payload(&json!(token)));
    let mut bad = Vec::new();
    for at in 0..parts.len().pow(4) {
        let part = |digit: u32| &parts[at / parts.len().pow(digit) % parts.len()];
        let token = forge(&json!({
            "execution_id": part(0)["execution_id"], "step_name": part(1)["step_name"],
            "issued_at": part(2)["issued_at"], "nonce": part(3)["nonce"],
        }));
        let token = text(&token).to_owned();
        if !bank.known().contains(&&*token) {
            bad.push(token);
        }
    }
    assert!(bad.len() > 300, "{}", bad.len());
    bank.attack_all(bad).await;
    assert_eq!(bank.attack(&bank.superseded).await, Code::TokenSuperseded);
    assert_eq!(bank.standing().await, before);
    bank.goes_on().await;
}

#[tokio::test]
async fn a_clock_two_days_off_makes_no_forgery_good() {
    for hours in [-48, 48] {
        let bank = Bank::open().await;
        bank.clock.0.fetch_add(hours * HOUR_MS, Ordering::SeqCst);
        let before = bank.standing().await;
        let mut bad = Vec::new();
        for token in bank.known() {
            for shift in [-96, -48, -24, -1, 1, 24, 48, 96] {
                let at = payload(&json!(token))["issued_at"].clone();
                let at: Timestamp = text(&at).parse().unwrap();
                for milliseconds in [shift * HOUR_MS, shift] {
                    let at = Timestamp::from_milliseconds(at.milliseconds() + milliseconds);
                    bad.push(with(token, "issued_at", &at.to_string()));
                }
            }
        }
        bank.attack_all(bad).await;
        assert_eq!(bank.attack(&bank.superseded).await, Code::TokenSuperseded);
        // What was answered once is answered again, whatever the hour.
        let again = bank.engine.finish(&bank.spent, "good").await;
        assert!(again.replayed);
        assert_eq!(bank.standing().await, before, "{hours}");
        if hours < 0 {
            // The time of an execution does not step back with the clock: its own token is not from the future.
            bank.goes_on().await;
            continue;
        }
        for token in [&bank.live, &bank.other] {
            assert_eq!(bank.attack(token).await, Code::TokenExpired);
        }
        assert_eq!(bank.standing().await, before);
        let renewed = bank.engine.current_now("e").await;
        assert_eq!(bank.attack(&bank.live).await, Code::TokenSuperseded);
        let live = renewed.continuation_token.unwrap();
        Bank { live, ..bank }.goes_on().await;
    }
}

/// What the real server shows of `e` and `f`.
fn shown(server: &mut Server) -> Value {
    let mut of = |name| json!([server.status(name), server.current(name), server.history(name)]);
    json!([of("e"), of("f")])
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn the_real_server_refuses_a_sample_of_all_kinds_and_remembers_nothing_of_it() {
    let seed = 20_260_102;
    println!("random tokens over stdio: seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let project = line();
    let mut server = project.serve();
    let spent = server.begin("line", "e")["new_token"].clone();
    let live = server.finish(&spent, "done")["new_token"].clone();
    let other = server.begin("line", "f")["new_token"].clone();
    let [spent, live, other] = [spent, live, other].map(|token| text(&token).to_owned());
    let known = [&*live, &*spent, &*live, &*other, &*live];
    let before = shown(&mut server);
    let calls: Vec<_> = (0..2000)
        .map(|_| {
            let arguments =
                json!({ "token": random_token(&mut dice, &known), "output": output("forged") });
            server.post_call("workflow.next_step", arguments)
        })
        .collect();
    for _ in &calls {
        let answer = server.next_line();
        assert!(calls.contains(&answer["id"].as_u64().unwrap()), "{answer}");
        let refused = &answer["result"]["structuredContent"];
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let code = text(&refused["error_code"]);
        let known = REFUSALS.iter().any(|refusal| refusal.as_str() == code);
        // An empty text breaks the tool's schema.
        assert!(known || code == "ARGUMENTS_INVALID", "{answer}");
    }
    assert_eq!(shown(&mut server), before);
    server.kill();
    let mut server = project.serve();
    assert_eq!(shown(&mut server), before);
    assert_eq!(server.finish(json!(live), "the real one")["step_name"], "c");
    server.finish(json!(other), "the real one");
}

/// Sends one call as often as that over stdio and through the control socket at the same time; every answer.
fn all_at_once(
    project: &Project,
    server: &mut Server,
    arguments: &Value,
    count: usize,
) -> Vec<Value> {
    const DOORS: usize = 4;
    let params = json!({ "name": "workflow.next_step", "arguments": arguments });
    let data = project.data_file().parent().unwrap().to_owned();
    let mut doors: Vec<_> = (0..DOORS).map(|_| Door::enter(&data, project.root())).collect();
    let each = count / (DOORS + 1);
    let begin = std::sync::Barrier::new(DOORS + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = doors
            .iter_mut()
            .map(|door| {
                let (begin, params) = (&begin, &params);
                scope.spawn(move || {
                    begin.wait();
                    door.flood("tools/call", params, each)
                })
            })
            .collect();
        begin.wait();
        let left = count - DOORS * each;
        (0..left).for_each(|_| {
            server.post("tools/call", params.clone());
        });
        let mut answers: Vec<_> = (0..left).map(|_| server.next_line()).collect();
        for thread in threads {
            answers.extend(thread.join().unwrap());
        }
        answers
    })
}

#[test]
fn of_a_thousand_uses_of_one_token_at_once_one_moves_and_all_are_told_the_same() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let arguments = json!({ "token": token, "output": output("the one") });
    let answers = all_at_once(&project, &mut server, &arguments, 1000);
    assert_eq!(answers.len(), 1000);
    let mut replies: Vec<_> = answers
        .into_iter()
        .map(|answer| {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["result"]["structuredContent"].clone()
        })
        .collect();
    let first = replies.iter().position(|reply| reply["replayed"] != true);
    let mut first = replies.swap_remove(first.expect("one that moved"));
    first["replayed"] = json!(true);
    assert_eq!(replies.len(), 999);
    for reply in replies {
        assert_eq!(reply, first);
    }
    assert_eq!(server.status("e")["revision"], 2);
    assert_eq!(server.history("e").len(), 2);
}
