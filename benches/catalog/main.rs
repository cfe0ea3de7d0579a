//! What documents cost: the import of one with 1,000 operations, a start with 20 of them, a search over their 20,000
//! operations, and what they hold in memory. Also the import of the public documents where `tests/openapi/fetch` was run.
//!
//! `cargo bench --bench catalog` prints medians, and the 99th percentile of searches.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::{
    fs::{self, File},
    hint::black_box,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use midex_catalog::document::{
    DocumentReader, SearchableCatalog, compile_document, search_operations,
};
use serde_json::{Map, Value, json};

const OPERATIONS: usize = 1000;
const BOOKS: usize = 20;
const ROUNDS: usize = 20;
const SEARCHES: usize = 1000;

const THINGS: [&str; 25] = [
    "services",
    "deploys",
    "projects",
    "members",
    "tokens",
    "invoices",
    "customers",
    "orders",
    "events",
    "webhooks",
    "domains",
    "records",
    "droplets",
    "volumes",
    "snapshots",
    "clusters",
    "nodes",
    "branches",
    "commits",
    "issues",
    "labels",
    "comments",
    "reviews",
    "teams",
    "keys",
];

/// A document with four operations for each of 250 pairs of things.
fn document(book: usize) -> String {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for at in 0..OPERATIONS / 4 {
        let (one, other) =
            (THINGS[at % THINGS.len()], THINGS[(at / THINGS.len() + at + book) % THINGS.len()]);
        let name = format!("Item{at}");
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        let answer = |schema: Value| json!({ "200": { "description": "It worked.", "content": { "application/json": { "schema": schema } } } });
        let body =
            json!({ "required": true, "content": { "application/json": { "schema": reference } } });
        let id = json!([{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }]);
        let page = json!([{ "name": "page", "in": "query", "schema": { "type": "integer" } }, { "name": "per_page", "in": "query", "schema": { "type": "integer", "maximum": 100 } }]);
        paths.insert(format!("/api/v1/{one}/area{}/{other}", at / THINGS.len()), json!({
            "get": { "operationId": format!("list{at}"), "summary": format!("List the {other} of the {one}"), "description": "What there is, in pages, the newest first.", "parameters": page, "responses": answer(json!({ "type": "array", "items": reference })) },
            "post": { "operationId": format!("create{at}"), "summary": format!("Create one of the {other} of the {one}"), "requestBody": body, "responses": answer(reference.clone()) },
        }));
        paths.insert(format!("/api/v1/{one}/area{}/{other}/{{id}}", at / THINGS.len()), json!({
            "parameters": id,
            "get": { "operationId": format!("get{at}"), "summary": format!("Show one of the {other}"), "responses": answer(reference.clone()) },
            "delete": { "operationId": format!("delete{at}"), "summary": format!("Delete one of the {other}"), "responses": { "204": { "description": "It is gone." } } },
        }));
        let properties: Map<_, _> = (0..15).map(|field| (format!("field_{field}"), json!({ "type": "string", "nullable": true, "description": "A field that says something about the thing." }))).collect();
        schemas.insert(
            name,
            json!({ "type": "object", "required": ["field_0"], "properties": properties }),
        );
    }
    json!({ "openapi": "3.0.3", "info": { "title": format!("Bench {book}"), "version": "1" }, "servers": [{ "url": "https://api.example.com" }],
        "paths": paths, "components": { "schemas": schemas } }).to_string()
}

fn open(path: &Path) -> DocumentReader {
    let file = File::open(path).expect("a file");
    let length = file.metadata().expect("a length").len();
    DocumentReader::open(length, Box::new(move |at, into| file.read_exact_at(into, at)))
        .expect("a book")
}

/// The sorted times of so many runs.
fn times<T>(rounds: usize, mut run: impl FnMut(usize) -> T) -> Vec<Duration> {
    let time = |round| {
        let begin = Instant::now();
        black_box(run(round));
        begin.elapsed()
    };
    let mut times: Vec<_> = (0..rounds).map(time).collect();
    times.sort();
    times
}

fn ms(times: &[Duration], share: usize) -> f64 {
    times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1000.0
}

/// The memory of this process that is its own, in bytes.
fn memory() -> usize {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or_default() << 10
}

fn import() {
    let text = document(0);
    let took = times(ROUNDS, |_| compile_document(text.as_bytes()).expect("a document").encode());
    let size = text.len() / 1000;
    println!(
        "import of {OPERATIONS} operations ({size} KB): {:.0} ms (wanted: 300 ms)",
        ms(&took, 50)
    );
    let Ok(files) = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/openapi"))
    else {
        return;
    };
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files {
        let text = fs::read(&file).expect("a file");
        let count = compile_document(&text).expect("a document").operations.len();
        let took = times(3, |_| compile_document(&text).expect("a document").encode());
        let book =
            DocumentReader::from_bytes(compile_document(&text).expect("a document").encode())
                .expect("a book");
        let read =
            times(200, |round| book.read_operation(round * 31 % count).expect("an operation"));
        println!(
            "  {} ({} KB, {count} operations): {:.0} ms; an operation is read in {:.2} ms, 99 of 100 within {:.1} ms",
            file.file_name().unwrap_or_default().to_string_lossy(),
            text.len() / 1000,
            ms(&took, 50),
            ms(&read, 50),
            ms(&read, 99)
        );
    }
}

/// Opens books and prepares their words in a process of its own, which does nothing else.
fn remember(files: &[String]) {
    let before = memory();
    let books: Vec<_> = files.iter().map(|file| open(Path::new(file))).collect();
    books.iter().for_each(DocumentReader::build_search_index);
    println!("{}", memory().saturating_sub(before));
    drop(books);
}

fn remembered(files: &[PathBuf]) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let output = command.arg("remember").args(files).output().expect("a process");
    let bytes: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default();
    println!("the books and their words in memory: {:.1} MB (wanted: 40 MB)", bytes / 1e6);
}

fn main() {
    let given: Vec<_> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|word| word == "remember") {
        return remember(&given[1..]);
    }
    let home = tempfile::tempdir().expect("a directory");
    let files: Vec<_> = (0..BOOKS).map(|book| home.path().join(format!("{book}.book"))).collect();
    for (book, file) in files.iter().enumerate() {
        let made = compile_document(document(book).as_bytes()).expect("a document");
        fs::write(file, made.encode()).expect("a file");
    }
    let took = times(ROUNDS, |_| files.iter().map(|file| open(file)).collect::<Vec<_>>());
    println!(
        "a start with {BOOKS} catalogs of {OPERATIONS} operations: {:.1} ms more (wanted: 30 ms)",
        ms(&took, 50)
    );
    let books: Vec<_> = files.iter().map(|file| open(file)).collect();
    let shelves: Vec<_> = books
        .iter()
        .map(|book| SearchableCatalog {
            document: book,
            title: "Bench",
            vendor: "bench",
            description: "Things to measure",
        })
        .collect();
    let first = times(1, |_| search_operations(&shelves, "list deploys", 20));
    let took = times(SEARCHES, |round| {
        let (one, other) = (THINGS[round % THINGS.len()], THINGS[round / 7 % THINGS.len()]);
        search_operations(
            &shelves,
            &format!("list all the {one} of the {other} in area{}", round % 10),
            20,
        )
    });
    println!("the first search prepares the words: {:.1} ms", ms(&first, 50));
    println!(
        "a search over {} operations: {:.2} ms, 99 of 100 within {:.2} ms (wanted: 5 ms)",
        BOOKS * OPERATIONS,
        ms(&took, 50),
        ms(&took, 99)
    );
    remembered(&files);
    import();
}
