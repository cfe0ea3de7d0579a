//! The dashboard over HTTP: who may come in, what its pages show, what its forms do, and how open pages follow changes.
//! `tests/browser` looks at the same pages in a browser.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, process::Stdio};

use midex_domain::limits;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    http::{Answer, Http},
    output,
    project::{Project, eventually, line},
    terminal::Terminal,
    terminate, wait,
};

const GATED: &str = "workflow: gated\ndescription: Asks a person\ninputs: { what: { type: string } }\nsteps:\n  - { id: a, guidance: 'Do ${{ inputs.what }}' }\n  - { id: ask, gate: { ask: 'Publish ${{ inputs.what }}?' }, depends_on: [a] }\n  - { id: b, guidance: Do it, depends_on: [ask] }\n";

/// A dashboard, and the cookie of a browser that came in.
struct Dashboard {
    address: SocketAddr,
    host: String,
    token: String,
    cookie: String,
}

impl Dashboard {
    /// The dashboard that runs on the data directory of this project, after a browser came in.
    fn of(project: &Project) -> Self {
        let path = project.data_dir().join("dashboard.json");
        let mut dashboard = eventually("a dashboard", || {
            let file: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let address: SocketAddr = file["listen"].as_str()?.parse().ok()?;
            let [host, token] =
                ["host", "token"].map(|name| file[name].as_str().unwrap().to_owned());
            Http::try_connect(address).ok()?;
            let host = format!("{host}:{}", address.port());
            Some(Self { address, host, token, cookie: String::new() })
        });
        let link = dashboard.make_link();
        let entered = dashboard.ask("GET", &link, &[], "");
        assert_eq!(entered.status, 303, "{entered:?}");
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains("Domain"), "{cookie}");
        assert_eq!(entered.header("referrer-policy"), Some("no-referrer"));
        cookie.split(';').next().unwrap().clone_into(&mut dashboard.cookie);
        dashboard
    }

    fn make_link(&self) -> String {
        let bearer = format!("Bearer {}", self.token);
        let answer = self.ask("POST", "/link", &[("Authorization", &bearer)], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["path"].as_str().unwrap().to_owned()
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut http = Http::connect(self.address);
        let host = [("Host", &*self.host)];
        let has_host = headers.iter().any(|(name, _)| *name == "Host");
        let headers = [if has_host { &[] } else { &host[..] }, headers].concat();
        http.send(method, path, &headers, body.as_bytes()).unwrap();
        let answer = http.answer().unwrap();
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{answer:?}");
        answer
    }

    /// A page, which must be there.
    fn page(&self, path: &str) -> String {
        let answer = self.ask("GET", path, &[("Cookie", &self.cookie)], "");
        let text = String::from_utf8(answer.body.clone()).unwrap();
        assert_eq!(answer.status, 200, "{path}: {text}");
        assert!(text.len() <= 100_000, "{path} has {} bytes", text.len());
        text
    }

    /// A picture beside a page, as a file that can load and run nothing.
    fn picture(&self, address: &str) -> String {
        let mut http = Http::connect(self.address);
        let headers = [("Host", &*self.host), ("Cookie", &*self.cookie)];
        http.send("GET", address, &headers, b"").unwrap();
        let picture = http.answer().unwrap();
        assert_eq!(picture.header("content-type"), Some("image/svg+xml"), "{picture:?}");
        let policy = picture.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        let picture = String::from_utf8(picture.body).unwrap();
        assert!(picture.starts_with("<svg"), "{address}: {picture}");
        picture
    }

    /// Sends a form of this page; the answer.
    fn send_form(&self, action: &str, fields: &[(&str, &str)]) -> Answer {
        let token = form_token(&self.page("/workflows/gated"));
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let fields = [&[("form_token", &*token)], fields].concat();
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        let headers =
            [("Cookie", &*self.cookie), ("Content-Type", "application/x-www-form-urlencoded")];
        self.ask("POST", &format!("/act/{action}"), &headers, &fields.join("&"))
    }

    /// Does what a form does; the path of the page that it leads to.
    fn act(&self, action: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.send_form(action, fields);
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.body));
        answer.header("location").unwrap().to_owned()
    }

    /// Opens the stream of a page.
    fn follow(&self, page: &str, version: &str) -> Http {
        let mut http = Http::connect(self.address);
        let [page, version] =
            [page, version].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
        let path = format!("/live?page={page}&version={version}");
        let headers = [("Host", &*self.host), ("Cookie", &*self.cookie)];
        http.send("GET", &path, &headers, b"").unwrap();
        http
    }
}

fn form_token(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
    rest.split_once('"').unwrap().0.to_owned()
}

fn version(page: &str) -> String {
    let (_, rest) = page.split_once("data-version=\"").expect("a live page");
    rest.split_once('"').unwrap().0.to_owned()
}

fn serve(project: &Project) -> (Server, Dashboard) {
    let server = project.serve_with(&["--dashboard", "127.0.0.1:0"]);
    let dashboard = Dashboard::of(project);
    (server, dashboard)
}

fn gated() -> Project {
    Project::new(&[("workflows/gated.yaml", GATED)])
}

/// An execution that waits for an approval.
fn begin_gated(server: &mut Server, id: &str, what: &str) {
    let arguments =
        json!({ "workflow_name": "gated", "execution_id": id, "inputs": { "what": what } });
    let begun = server.begin_with(arguments);
    server.finish(&begun["new_token"], "done");
}

#[test]
fn a_link_lets_one_browser_in_once() {
    let project = gated();
    let (_server, dashboard) = serve(&project);
    let file = fs::metadata(project.data_dir().join("dashboard.json")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let link = dashboard.make_link();
    assert_eq!(dashboard.ask("GET", &link, &[], "").status, 303);
    let again = dashboard.ask("GET", &link, &[], "");
    assert_eq!(again.status, 403);
    assert!(String::from_utf8_lossy(&again.body).contains("midex dashboard"), "{again:?}");
    let out = dashboard.ask("GET", "/", &[], "");
    assert_eq!(out.status, 401);
    assert!(String::from_utf8_lossy(&out.body).contains("midex dashboard"), "{out:?}");
    let wrong = dashboard.cookie.replace(|c: char| c.is_ascii_digit(), "x");
    assert_eq!(dashboard.ask("GET", "/", &[("Cookie", &wrong)], "").status, 401);
    assert!(dashboard.page("/").contains("Waiting for a person"));
    // A link is made only for a request with the bearer token.
    assert_eq!(dashboard.ask("POST", "/link", &[("Cookie", &dashboard.cookie)], "").status, 403);
    // Only as many links are valid as the limit says: the oldest ones go.
    let first = dashboard.make_link();
    for _ in 0..limits::DASHBOARD_LINKS_MAX {
        dashboard.make_link();
    }
    assert_eq!(dashboard.ask("GET", &first, &[], "").status, 403);
}

#[test]
fn forms_of_others_are_refused() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    begin_gated(&mut server, "g", "it");
    let cookie = ("Cookie", &*dashboard.cookie);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let body = "execution_id=g";
    let refused = |headers: &[(&str, &str)], body: &str| {
        let answer = dashboard.ask("POST", "/act/pause", headers, body);
        assert_eq!(answer.status, 403, "{headers:?}: {answer:?}");
    };
    refused(&[cookie, form], body);
    refused(&[cookie, form], &format!("{body}&form_token=0"));
    let token = form_token(&dashboard.page("/executions/g"));
    let body = format!("{body}&form_token={token}");
    refused(&[cookie, form, ("Origin", "http://evil.example")], &body);
    refused(&[cookie, form, ("Origin", "null")], &body);
    let other_port = format!("http://{}:1", dashboard.host.split(':').next().unwrap());
    refused(&[cookie, form, ("Origin", &other_port)], &body);
    refused(&[cookie, form, ("Host", "evil.example")], &body);
    assert_eq!(server.status("g")["pause_reasons"], json!(["gate"]));
    let origin = format!("http://{}", dashboard.host);
    let sent = dashboard.ask("POST", "/act/pause", &[cookie, form, ("Origin", &origin)], &body);
    assert_eq!(sent.status, 303, "{sent:?}");
    assert_eq!(server.status("g")["pause_reasons"], json!(["person", "gate"]));
}

#[test]
fn a_person_approves_and_that_is_recorded() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    begin_gated(&mut server, "g", "1.4.0");
    assert!(dashboard.page("/").contains("Publish 1.4.0?"));
    let status = server.status("g");
    let gate = &status["waits"][0]["gate"];
    let shown = gate["shown"].as_str().unwrap();
    let fields =
        [("execution_id", "g"), ("step_name", "ask"), ("visit", "1"), ("answer", "approve")];
    // An answer counts for the question that was shown, and for no other.
    let wrong = shown.replace(|c: char| c.is_ascii_digit(), "0");
    let other = [&fields[..], &[("shown", &*wrong)]].concat();
    let refused = dashboard.send_form("approve", &other);
    assert_eq!(refused.status, 400, "{refused:?}");
    let location =
        dashboard.act("approve", &[&fields[..], &[("shown", shown), ("back", "/")]].concat());
    assert_eq!(location, "/");
    let history = server.history("g");
    let answered = &history.iter().find(|row| row["step_name"] == "ask").unwrap()["answered"];
    assert_eq!(answered["via"], "dashboard", "{answered}");
    assert_eq!(answered["approved"], true);
    assert!(dashboard.page("/executions/g").contains("(<bdi>dashboard</bdi>)"));
}

#[test]
fn executions_are_started_paused_and_abandoned() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    let page = dashboard.page("/workflows/gated");
    assert!(page.contains("name=\"input.what\""), "{page}");
    let fields = [
        ("workflow_name", "gated"),
        ("execution_id", "a/b c"),
        ("kind.what", "string"),
        ("input.what", "a text"),
    ];
    // A form that is sent twice starts one execution.
    for _ in 0..2 {
        assert_eq!(dashboard.act("start", &fields), "/executions/a%2Fb%20c");
    }
    assert_eq!(server.current("a/b c")["inputs"], json!({ "what": "a text" }));
    let bad = [("workflow_name", "gated"), ("kind.what", "integer"), ("input.what", "{")];
    let refused = dashboard.send_form("start", &bad);
    assert_eq!(refused.status, 400);
    assert!(String::from_utf8_lossy(&refused.body).contains("/what"), "{refused:?}");
    begin_gated(&mut server, "second", "x");
    let both = [("execution_id", "a/b c"), ("execution_id", "second"), ("back", "/executions")];
    assert_eq!(dashboard.act("pause", &both), "/executions");
    for id in ["a/b c", "second"] {
        let status = server.status(id);
        assert!(status["pause_reasons"].as_array().unwrap().contains(&json!("person")), "{status}");
        assert!(status["reason"].as_str().unwrap().contains("in the dashboard"), "{status}");
    }
    dashboard.act("resume", &both);
    dashboard.act("abandon", &both);
    assert_eq!(server.status("a/b c")["state"], "abandoned");
    // The other ends although the first cannot.
    let refused = dashboard.send_form("abandon", &both);
    assert!(String::from_utf8_lossy(&refused.body).contains("2 of 2"), "{refused:?}");
    // A form leads to pages of the dashboard alone.
    begin_gated(&mut server, "third", "x");
    let away = [("execution_id", "third"), ("back", "//evil.example/")];
    assert_eq!(dashboard.act("pause", &away), "/");
}

#[test]
fn a_failed_execution_is_retried_from_a_step_with_other_inputs() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    let arguments =
        json!({ "workflow_name": "gated", "execution_id": "f", "inputs": { "what": "old" } });
    let begun = server.begin_with(arguments);
    let error = json!({ "code": "disk_full", "message": "no space <b>left</b>" });
    server.next_step(json!({ "token": begun["new_token"], "error": error }));
    let now = dashboard.page("/");
    assert!(now.contains("no space &lt;b&gt;left&lt;/b&gt;"), "{now}");
    assert_eq!(dashboard.act("retry", &[("execution_id", "f")]), "/executions/f~2");
    assert!(!dashboard.page("/").contains("no space"), "a retried failure needs nobody");
    // The form has the inputs as they are: unchanged, they make no fork.
    let page = dashboard.page("/executions/f");
    assert_eq!(page.matches("&quot;what&quot;: &quot;old&quot;").count(), 3, "{page}");
    let same = "{\n  \"what\": \"old\"\n}";
    let fields = [("execution_id", "f"), ("inputs_before", same), ("inputs", same)];
    assert_eq!(dashboard.act("retry", &fields), "/executions/f~2");
    let changed = "{\"what\": \"new\"}";
    let fields =
        [("execution_id", "f"), ("from_step", "a"), ("inputs_before", same), ("inputs", changed)];
    let path = dashboard.act("retry", &fields);
    assert!(dashboard.page(&path).contains("Fork of"), "{path}");
    let id = path.strip_prefix("/executions/").unwrap();
    assert_eq!(server.current(id)["inputs"], json!({ "what": "new" }));
}

#[test]
fn the_definition_stays_as_it_was_at_the_start() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    begin_gated(&mut server, "g", "it");
    project.write("workflows/gated.yaml", &GATED.replace("Publish", "Print"));
    let page = eventually("the page knows of the new file", || {
        let page = dashboard.page("/executions/g");
        page.contains("The file has changed since the start").then_some(page)
    });
    assert!(page.contains("href=\"/executions/g/definition\""), "{page}");
    let page = dashboard.page("/executions/g/definition");
    assert!(page.contains("Publish ${{ inputs.what }}?") && !page.contains("Print"), "{page}");
}

#[test]
fn findings_are_shown_with_their_place() {
    let project = gated();
    let (_server, dashboard) = serve(&project);
    project.write("workflows/bad.yaml", &GATED.replace("gated", "bad").replace("[a]", "[aa]"));
    let page = eventually("the file is known", || {
        let page = dashboard.page("/workflows/bad");
        page.contains("class=\"problem\"").then_some(page)
    });
    let line =
        "6 |   - { id: ask, gate: { ask: 'Publish ${{ inputs.what }}?' }, depends_on: [aa] }";
    let caret = format!("  | {}^", " ".repeat(line.find("aa]").unwrap() - 4));
    assert!(page.contains(&format!("{line}\n{caret}")), "{page}");
}

#[test]
fn a_large_graph_is_a_picture_of_its_own() {
    let steps: Vec<_> =
        (0..300).map(|at| format!("  - {{ id: s{at}, guidance: Do it }}\n")).collect();
    let workflow = |name: &str, count: usize| {
        format!("workflow: {name}\ndescription: Long\nsteps:\n{}", steps[..count].concat())
    };
    let project = Project::new(&[
        ("workflows/gated.yaml", GATED),
        ("workflows/long.yaml", &workflow("long", 150)),
        ("workflows/longest.yaml", &workflow("longest", 300)),
    ]);
    let (mut server, dashboard) = serve(&project);
    let begun = server.begin_with(json!({ "workflow_name": "long", "execution_id": "a b" }));
    for (path, is_shown) in
        [("/workflows/long", true), ("/executions/a%20b", true), ("/workflows/longest", false)]
    {
        let page = dashboard.page(path);
        assert_eq!(page.contains(&format!("<img src=\"/graph{path}")), is_shown, "{page}");
        let (_, rest) = page.split_once(&format!("<a href=\"/graph{path}")).expect("a link");
        let query = rest.split_once('"').unwrap().0;
        let picture = dashboard.picture(&format!("/graph{path}{query}"));
        assert!(picture.contains("s149"), "{picture}");
    }
    // The picture beside a page of the past shows the past too.
    server.finish(&begun["new_token"], "done");
    let page = dashboard.page("/executions/a%20b?at=1");
    let (_, rest) = page.split_once("<img src=\"").expect("a picture");
    let past = dashboard.picture(rest.split_once('"').unwrap().0);
    assert!(past.contains("● s0") && !past.contains("✓ s0"), "{past}");
    assert!(dashboard.page("/workflows/gated").contains("<svg class=\"graph\""));
    assert_eq!(
        dashboard.ask("GET", "/graph/agents/x", &[("Cookie", &dashboard.cookie)], "").status,
        404
    );
    assert_eq!(dashboard.ask("GET", "/graph/workflows/long", &[], "").status, 401);
}

/// The page shows the latest visits, and the picture all of them; every bar leads to its visit.
#[test]
fn a_long_timeline_leads_to_every_visit() {
    const ROUNDS: usize = 65;
    let workflow = "workflow: round\ndescription: Goes round\nsteps:\n  - { id: a, guidance: Do it, max_visits: 500 }\n  - { id: route, branch: [{ if: 'run.visits.a < 500', next: a }], max_visits: 500 }\n";
    let project =
        Project::new(&[("workflows/gated.yaml", GATED), ("workflows/round.yaml", workflow)]);
    let (mut server, dashboard) = serve(&project);
    let mut reply = server.begin_with(json!({ "workflow_name": "round", "execution_id": "r" }));
    for _ in 0..ROUNDS {
        reply = server.finish(&reply["new_token"], "done");
    }
    let page = dashboard.page("/executions/r");
    let bars = bar_links(&page);
    assert_eq!(bars.len(), limits::DASHBOARD_TIMELINE_VISITS_MAX);
    assert!(page.contains("The latest 100 of 131 visits"), "{page}");
    let (_, rest) = page.split_once("<a href=\"/timeline/").expect("a link");
    let picture = dashboard.picture(&format!("/timeline/{}", rest.split_once('"').unwrap().0));
    let all = bar_links(&picture);
    assert_eq!(all.len(), ROUNDS * 2 + 1);
    for link in bars.iter().chain(&all) {
        let (path, anchor) = link.split_once('#').unwrap();
        let target = if path.is_empty() { "/executions/r" } else { path };
        assert!(dashboard.page(target).contains(&format!("id=\"{anchor}\"")), "{link}");
    }
}

/// Where the bars of a timeline lead.
fn bar_links(page: &str) -> Vec<String> {
    let (_, timeline) = page.split_once("class=\"timeline\"").expect("a timeline");
    let (timeline, _) = timeline.split_once("</svg>").unwrap();
    let links = timeline.split("<a href=\"").skip(1);
    links.map(|part| part.split_once('"').unwrap().0.to_owned()).collect()
}

#[test]
fn the_server_page_names_its_clients() {
    let project = gated();
    let (_server, dashboard) = serve(&project);
    let _relay = project.serve();
    let page = eventually("the relay is connected", || {
        let page = dashboard.page("/server");
        page.contains("1 of at most 256").then_some(page)
    });
    let project_dir = project.path("").display().to_string();
    assert!(page.contains(project_dir.trim_end_matches('/')), "{page}");
    assert!(page.contains("Tokens are valid for"), "{page}");
}

#[test]
fn an_open_page_follows_changes() {
    let project = line();
    let (mut server, dashboard) = serve(&project);
    let begun = server.begin("line", "one");
    let path = "/executions/one";
    let shown = version(&dashboard.page(path));
    let mut stream = dashboard.follow(path, &shown);
    assert_eq!(stream.answer_head().unwrap().header("content-type"), Some("text/event-stream"));
    server.finish(&begun["new_token"], "the first is done");
    let mut html = String::new();
    while !html.contains("the first is done") {
        let event = stream.event();
        for fragment in event["fragments"].as_array().unwrap_or_else(|| panic!("{event}")) {
            html += fragment["html"].as_str().unwrap();
        }
    }
    // Who was away gets what changed meanwhile, and who has other fragments loads the page again.
    let mut late = dashboard.follow(path, &shown);
    late.answer_head().unwrap();
    assert!(late.event()["fragments"].as_array().unwrap().len() > 1);
    let mut strange = dashboard.follow(path, "other:0");
    strange.answer_head().unwrap();
    assert_eq!(strange.event(), json!({ "reload": true }));
    // The list follows too.
    let mut list = dashboard.follow("/executions", &version(&dashboard.page("/executions")));
    list.answer_head().unwrap();
    server.begin("line", "two");
    assert!(list.event().to_string().contains("/executions/two"));
}

#[test]
fn no_more_pages_are_followed_than_the_limit() {
    let project = line();
    let (mut server, dashboard) = serve(&project);
    server.begin("line", "one");
    let shown = version(&dashboard.page("/"));
    let streams: Vec<_> = (0..limits::DASHBOARD_STREAMS_MAX)
        .map(|_| {
            let mut stream = dashboard.follow("/", &shown);
            assert_eq!(stream.answer_head().unwrap().status, 200);
            stream
        })
        .collect();
    let mut refused = dashboard.follow("/", &shown);
    assert_eq!(refused.answer_head().unwrap().status, 503);
    assert!(dashboard.page("/executions").contains("one"));
    server.begin("line", "two");
    for mut stream in streams {
        assert!(stream.event().to_string().contains("/executions/two"));
    }
    eventually("a free place", || {
        let mut stream = dashboard.follow("/", &shown);
        (stream.answer_head().unwrap().status == 200).then_some(())
    });
}

#[test]
fn texts_of_others_do_no_harm() {
    let project = gated();
    let (mut server, dashboard) = serve(&project);
    let script = "<script>alert(1)</script>\u{202e}\"'><img src=x onerror=alert(2)>";
    let long = format!("{script}{}", "x".repeat(1 << 20));
    let id = "id <b>/%?#ü";
    let arguments =
        json!({ "workflow_name": "gated", "execution_id": id, "inputs": { "what": script } });
    let begun = server.begin_with(arguments);
    server.hand_in(&begun["new_token"], json!({ "summary": script, "long": long, script: script }));
    server.done("execution.pause", json!({ "execution_id": id, "reason": script }));
    let encoded = utf8_percent_encode(id, NON_ALPHANUMERIC).to_string();
    let step = format!("/executions/{encoded}/visits/a");
    for path in ["/", "/executions", &format!("/executions/{encoded}"), &step] {
        let page = dashboard.page(path);
        assert!(!page.contains("<script>") && !page.contains("<img"), "{path}");
        assert!(!page.contains('\u{202e}'), "{path}");
        assert!(page.contains("id &lt;b&gt;/%?#ü"), "{path}: {page}");
    }
    for path in [
        "/executions/none",
        "/nothing",
        "/executions?state=odd",
        "/executions?label=x",
        "/live",
        "/%ff",
    ] {
        let answer = dashboard.ask("GET", path, &[("Cookie", &dashboard.cookie)], "");
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
}

#[test]
fn a_read_only_dashboard_changes_nothing() {
    let project = gated();
    let mut server = project.serve_with(&["--dashboard", "127.0.0.1:0", "--dashboard-read-only"]);
    let dashboard = Dashboard::of(&project);
    begin_gated(&mut server, "g", "it");
    for path in ["/", "/executions", "/executions/g", "/workflows/gated"] {
        assert!(!dashboard.page(path).contains("method=\"post\""), "{path}");
    }
    let bearer = format!("Bearer {}", dashboard.token);
    let headers =
        [("Authorization", &*bearer), ("Content-Type", "application/x-www-form-urlencoded")];
    let answer = dashboard.ask("POST", "/act/abandon", &headers, "execution_id=g");
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(server.status("g")["state"], "paused");
}

#[test]
fn the_command_serves_until_it_is_stopped_and_makes_links_meanwhile() {
    let project = gated();
    let start = || {
        let mut command = project.command("dashboard --no-open --listen 127.0.0.1:0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut first = start();
    let dashboard = Dashboard::of(&project);
    let second = project.command("dashboard --no-open").output().unwrap();
    let link = String::from_utf8(second.stdout).unwrap();
    assert!(second.status.success(), "{link}");
    // Who wants a dashboard that changes nothing is not led to another one.
    let refused = project.command("dashboard --no-open --read-only").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not read-only"), "{refused:?}");
    let prefix = format!("http://{}", dashboard.host);
    let path = link.trim().strip_prefix(&prefix).unwrap_or_else(|| panic!("{link}"));
    assert_eq!(dashboard.ask("GET", path, &[], "").status, 303);
    // It works on executions, and agents connect to it.
    let mut server = project.serve();
    begin_gated(&mut server, "g", "it");
    assert!(dashboard.page("/executions/g").contains("Publish it?"));
    terminate(&first);
    assert!(wait(&mut first).success());
    // The next one has the same secrets: open pages come back.
    let mut next = start();
    let back = eventually("the next dashboard", || {
        let file = fs::read(project.data_dir().join("dashboard.json")).ok()?;
        let file: Value = serde_json::from_slice(&file).ok()?;
        let address: SocketAddr = file["listen"].as_str()?.parse().ok()?;
        (address != dashboard.address && Http::try_connect(address).is_ok()).then_some(address)
    });
    let host =
        dashboard.host.replace(&dashboard.address.port().to_string(), &back.port().to_string());
    let returned = Dashboard { address: back, host, ..dashboard };
    assert!(returned.page("/executions/g").contains("Publish it?"));
    terminate(&next);
    assert!(wait(&mut next).success());
}

#[test]
fn at_a_terminal_the_link_is_told_with_what_it_is_good_for() {
    let project = gated();
    let mut command = project.command("dashboard --listen 127.0.0.1:0");
    // There is no browser.
    command.env("PATH", "/nowhere");
    let mut terminal = Terminal::open(command);
    terminal.expect("/enter?key=");
    terminal.expect("valid once");
    terminal.interrupt();
    terminal.ends(0);
}

#[test]
fn a_server_whose_dashboard_address_is_taken_goes_on() {
    let project = gated();
    let (_server, dashboard) = serve(&project);
    let address = dashboard.address.to_string();
    let other = gated();
    let mut server = other.serve_with(&["--dashboard", &address]);
    begin_gated(&mut server, "g", "it");
    assert_eq!(server.status("g")["state"], "paused");
    assert!(!other.data_dir().join("dashboard.json").exists());
    let refused = other.command("dashboard --listen 192.0.2.1:1").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn pages_stay_up_while_the_server_behind_them_is_replaced() {
    let project = line();
    let mut first = project.serve();
    first.begin("line", "one");
    let mut command = project.command("dashboard --no-open --listen 127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = command.spawn().unwrap();
    let dashboard = Dashboard::of(&project);
    let mut stream =
        dashboard.follow("/executions/one", &version(&dashboard.page("/executions/one")));
    stream.answer_head().unwrap();
    first.kill();
    let mut second = project.serve();
    let token = second.current("one")["continuation_token"].clone();
    second.hand_in(&token, output("after the crash"));
    let mut seen = String::new();
    while !seen.contains("after the crash") {
        seen += &stream.event().to_string();
    }
    terminate(&served);
    assert!(wait(&mut served).success());
}
