//! `available_workflows` in pages, where there are very many.

use midex_domain::{limits, uri};
use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    project::{Project, workflow},
};

const ALL: &str = "midex://workflow/available_workflows";

/// The names of a page, and the address of the next one.
fn page(server: &mut Server, address: &str) -> (Vec<String>, Option<String>) {
    let answer = server.request("resources/read", json!({ "uri": address }));
    let contents = &answer["result"]["contents"][0];
    let text = contents["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let listed: Vec<Value> = serde_json::from_str(text).unwrap();
    for entry in &listed {
        for field in ["name", "description", "phases", "tags"] {
            assert!(!entry[field].is_null(), "{field}: {entry}");
        }
    }
    let names = listed.iter().map(|entry| entry["name"].as_str().unwrap().to_owned());
    let next = contents["_meta"]["next"].as_str().map(str::to_owned);
    (names.collect(), next)
}

fn follow(server: &mut Server, address: &str) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (Vec::new(), Some(address.to_owned()));
    while let Some(address) = next {
        let (names, following) = page(server, &address);
        pages.push(names);
        next = following;
    }
    pages
}

#[test]
fn five_hundred_workflows_come_in_pages_the_nearest_first() {
    let project = Project::new(&[]);
    let file = |at: usize| format!("zz-{at:03}");
    for at in 0..500 {
        let path = format!("workflows/{}.md", file(at));
        project.write(&path, &workflow(&file(at), &[("a", "reviewer", &[])]));
    }
    let mut server = project.serve();
    let pages = follow(&mut server, ALL);
    let lengths: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(limits::WORKFLOWS_LISTED_MAX, 200);
    assert_eq!(lengths, [200, 200, 117]);
    let names = pages.concat();
    assert!(names[..500].iter().cloned().eq((0..500).map(file)), "the project's own come first");
    assert!(names[500..].is_sorted() && names[500] == "announce");

    let pages = follow(&mut server, &format!("{ALL}?limit=7&after=zz-490"));
    assert_eq!(pages[0], (491..498).map(file).collect::<Vec<_>>());
    assert_eq!(pages[1][..2], [file(498), file(499)]);
    assert_eq!(pages.concat(), names[491..]);

    let query = uri::encode_segment("Security workflows");
    let (found, next) = page(&mut server, &format!("{ALL}?query={query}&limit=1"));
    let all = follow(&mut server, &format!("{ALL}?query={query}&limit=1")).concat();
    assert_eq!(found[..], all[..1]);
    assert!(next.is_some() && all.contains(&"security-audit".to_owned()), "{all:?}");
    assert!(all.len() < 8, "{all:?}");
    assert_eq!(page(&mut server, &format!("{ALL}?query=nothing-speaks-of-it")), (Vec::new(), None));

    for (query, code) in [
        ("limit=201", "ARGUMENTS_INVALID"),
        ("limit=0", "ARGUMENTS_INVALID"),
        ("after=nobody", "WORKFLOW_NOT_FOUND"),
    ] {
        let error = server.read_error(&format!("{ALL}?{query}"));
        assert_eq!(error["data"]["error_code"], code, "{query}: {error}");
    }
}

/// Whoever can only call tools goes from page to page as whoever reads resources does.
#[test]
fn the_tool_that_reads_names_the_next_page_too() {
    let mut server = Project::new(&[]).serve();
    let first = format!("{ALL}?limit=5");
    let pages = follow(&mut server, &first);
    let (mut read, mut next) = (Vec::new(), Some(first));
    while let Some(address) = next {
        let reply = server.done("workflow.read", json!({ "uri": address }));
        let names = reply["content"].as_array().unwrap().iter();
        let names = names.map(|entry| entry["name"].as_str().unwrap().to_owned());
        read.push(names.collect::<Vec<_>>());
        assert_eq!(reply["uri"], address);
        next = reply["next"].as_str().map(str::to_owned);
        assert_eq!(reply.get("next").is_some(), next.is_some(), "{reply}");
    }
    assert!(read.len() > 2, "{read:?}");
    assert_eq!(read, pages);
}
