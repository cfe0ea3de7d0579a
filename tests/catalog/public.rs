//! Public documents, which `tests/openapi/fetch` puts into `target/openapi`: what of them can be called, and found.
//!
//! Where they are not there the tests have nothing to read and say so; with `MIDEX_CORPUS=1`, as in `.ci/run`, that is a
//! failure.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    thread,
};

use super::schemas;
use midex_catalog::document::{
    CompiledDocument, DocumentReader, SearchableCatalog, compile_document, search_operations,
};
use midex_domain::schema::Schema;
use midex_test::{long::rounds, rows};

const NAMES: [&str; 15] = [
    "asana.json",
    "bitbucket.json",
    "box.json",
    "digitalocean.json",
    "github.json",
    "hetzner.json",
    "jira.json",
    "kubernetes.json",
    "netbox.json",
    "openai.yaml",
    "sendgrid.json",
    "square.json",
    "stripe.json",
    "twilio.json",
    "vercel.json",
];

/// A document with its compiled form.
pub(super) struct Public {
    pub(super) name: &'static str,
    pub(super) compiled: CompiledDocument,
    pub(super) book: DocumentReader,
}

pub(super) static PUBLIC: LazyLock<Vec<Arc<Public>>> = LazyLock::new(|| {
    let read = |name| thread::spawn(move || public(name));
    let threads: Vec<_> = NAMES.into_iter().map(read).collect();
    let read = threads.into_iter().map(|thread| thread.join().expect("a thread"));
    read.flatten().map(Arc::new).collect()
});

fn public(name: &'static str) -> Option<Public> {
    let path = place(name);
    let Ok(text) = fs::read(&path) else {
        assert!(
            std::env::var_os("MIDEX_CORPUS").is_none(),
            "{} is not there: run tests/openapi/fetch",
            path.display()
        );
        return None;
    };
    let compiled = compile_document(&text).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
    let book = DocumentReader::from_bytes(compiled.encode()).unwrap();
    Some(Public { name, compiled, book })
}

/// Where a document is put.
pub(super) fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/openapi").join(name)
}

#[test]
#[expect(clippy::print_stdout, reason = "the share is what one wants to see")]
fn nearly_all_operations_of_public_documents_can_be_called() {
    for public in PUBLIC.iter() {
        let operations = &public.compiled.operations;
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for why in operations.iter().filter_map(|operation| operation.uncallable.as_deref()) {
            *reasons.entry(why).or_default() += 1;
        }
        let callable = operations.len() - reasons.values().sum::<usize>();
        println!(
            "{}: {callable} of {} operations can be called; {} collisions, {} providers for {} arguments, {} warnings",
            public.name,
            operations.len(),
            public.compiled.collisions.len(),
            public.compiled.providers.providers.len(),
            public.compiled.providers.uses.len(),
            public.compiled.warnings.len(),
        );
        for (why, count) in &reasons {
            println!("  {count}: {why}");
        }
        assert!(operations.len() > 100, "{}", public.name);
        assert!(callable * 100 >= operations.len() * 95, "{}", public.name);
    }
}

#[test]
fn every_schema_of_public_documents_can_be_evaluated() {
    let threads = PUBLIC.iter().map(Arc::clone).map(|public| {
        thread::spawn(move || {
            let step = usize::try_from(rounds(29, 1)).unwrap();
            for place in (0..public.book.entries().len()).step_by(step) {
                let operation = public.book.read_operation(place).unwrap();
                for schema in schemas(&operation) {
                    let made = Schema::compile(schema);
                    assert!(made.is_ok(), "{} {}: {made:?}", public.name, operation.name);
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

/// What a person asks, the document, and the operation that is meant.
const QUERIES: &str = r#"
"list open pull requests of a repo", "github.json", "GET /repos/{owner}/{repo}/pulls"
"create an issue", "github.json", "POST /repos/{owner}/{repo}/issues"
"delete a branch protection", "github.json", "DELETE /repos/{owner}/{repo}/branches/{branch}/protection"
"merge a pull request", "github.json", "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"
"add labels to an issue", "github.json", "POST /repos/{owner}/{repo}/issues/{issue_number}/labels"
"cancel a workflow run", "github.json", "POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel"
"who am I on github", "github.json", "GET /user"
"create a droplet", "digitalocean.json", "POST /v2/droplets"
"show me all my domains", "digitalocean.json", "GET /v2/domains"
"remove an ssh key", "digitalocean.json", "DELETE /v2/account/keys/{ssh_key_identifier}"
"refund a charge", "stripe.json", "POST /v1/refunds"
"list customers", "stripe.json", "GET /v1/customers"
"cancel a subscription", "stripe.json", "DELETE /v1/subscriptions/{subscription_exposed_id}"
"delete a pod", "kubernetes.json", "DELETE /api/v1/namespaces/{namespace}/pods/{name}"
"read the log of a pod", "kubernetes.json", "GET /api/v1/namespaces/{namespace}/pods/{name}/log"
"list tasks of a project", "asana.json", "GET /projects/{project_gid}/tasks"
"upload a file", "box.json", "POST /files/content"
"create an embedding", "openai.yaml", "POST /embeddings"
"transcribe audio", "openai.yaml", "POST /audio/transcriptions"
"list deployments on vercel", "vercel.json", "GET /v6/deployments"
"#;

#[test]
#[expect(clippy::print_stdout, reason = "what is found in the place of what is meant is of use")]
fn what_a_person_asks_for_is_among_the_first_three() {
    if PUBLIC.is_empty() {
        return;
    }
    // The others have commands that fit the same words.
    let queries = rows(QUERIES);
    let is_asked = |public: &&Arc<Public>| queries.iter().any(|[_, name, _]| *name == public.name);
    let asked: Vec<_> = PUBLIC.iter().filter(is_asked).collect();
    let shelves: Vec<_> = asked
        .iter()
        .map(|public| SearchableCatalog {
            document: &public.book,
            title: public.name.split('.').next().unwrap(),
            vendor: "",
            description: "",
        })
        .collect();
    let mut good = 0;
    for [query, document, wanted] in &queries {
        let public = PUBLIC.iter().find(|public| public.name == *document).unwrap();
        let operation = |place: usize, shelf: usize| {
            let entry = &asked[shelf].book.entries()[place];
            format!("{} {} {}", asked[shelf].name, entry.method.as_str(), entry.path)
        };
        let exists = public
            .compiled
            .operations
            .iter()
            .any(|one| format!("{} {}", one.method.as_str(), one.path) == *wanted);
        assert!(exists, "{document} has no {wanted}");
        let found: Vec<_> = search_operations(&shelves, query, 3)
            .iter()
            .map(|hit| operation(hit.operation_index, hit.catalog_index))
            .collect();
        let is_good = found.contains(&format!("{document} {wanted}"));
        good += usize::from(is_good);
        println!("{}: {query} -> {found:#?}", if is_good { "good" } else { "MISSED" });
    }
    println!("{good} of {}", queries.len());
    assert!(good >= 17, "{good} of {}", queries.len());
}
