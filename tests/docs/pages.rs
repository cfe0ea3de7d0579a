//! The README and every page of `docs/`: their commands parse and those that can be run in an empty home are run, their
//! manifests are sound, their links lead somewhere, and they name no tool, command or flag that is not there.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use clap::error::ErrorKind;
use midex_cli::command_line;
use midex_registry::{Registry, Sources, check_text};
use serde_json::{Value, json};

use midex_test::{
    Client, TASK_TOOLS,
    project::{Project, each, list},
};

/// A page: its path in the repository, and its text.
struct Page(String, String);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README, what is beside it, and all that lies in `docs/`.
fn pages() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let mut files: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files.insert(0, root().join("README.md"));
    let page = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        Page(name, fs::read_to_string(path).unwrap())
    };
    files.iter().map(page).collect()
}

impl Page {
    /// The code blocks that begin with ```` ```LANGUAGE ````.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let fence = format!("```{language}\n");
        let blocks = self.1.split(fence.as_str()).skip(1);
        blocks.map(|block| block.split_once("```").expect("a closed fence").0).collect()
    }

    /// All but the code blocks.
    fn prose(&self) -> String {
        self.1.split("```").step_by(2).collect()
    }

    /// Texts between single backticks.
    fn codes(&self) -> Vec<String> {
        let prose = self.prose();
        prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The lines of its `sh` and `console` blocks that call midex, without what a comment says.
    fn commands(&self) -> Vec<String> {
        let scripts = self.blocks("sh").into_iter().flat_map(str::lines);
        let sessions = self.blocks("console").into_iter().flat_map(str::lines);
        let typed = sessions.filter_map(|line| line.strip_prefix("$ "));
        let lines = scripts.chain(typed).filter(|line| line.starts_with("midex "));
        let bare = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
        lines.map(bare).collect()
    }
}

/// The words of a command as a shell takes them; single quotes are all that the pages use.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in command.split('\'').enumerate() {
        if at % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (at, piece) in part.split(' ').enumerate() {
            if at > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_is_one_that_midex_takes() {
    let mut known = 0;
    for page in pages() {
        for command in page.commands() {
            let parsed = command_line().try_get_matches_from(words(&command));
            let refused = parsed.err().filter(|error| {
                !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
            });
            assert!(refused.is_none(), "{}: {command}\n{}", page.0, refused.unwrap());
            known += 1;
        }
    }
    assert!(known > 30, "{known} commands");
}

/// Commands that are not run here: they do not end, take long, need a database, ask a person, or call a public service.
const NOT_RUN: [&str; 12] = [
    "serve",
    "migrate-store",
    "publish",
    "dashboard",
    "demo",
    "bench",
    "tail",
    "approve",
    "resolve",
    "signal",
    "call",
    "hook",
];

/// Whether a command can be run in an empty home as it stands.
fn can_be_run(command: &str) -> bool {
    let is_blank = |word: &String| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    let words = words(command);
    !words.iter().any(is_blank) && !words.iter().any(|word| NOT_RUN.contains(&word.as_str()))
}

/// The document that pages import.
const SHOP: &str = "\
openapi: 3.1.0
info: { title: Shop, version: '1' }
servers: [{ url: https://shop.example.com }]
paths:
  /orders:
    get:
      operationId: listOrders
      parameters: [{ name: status, in: query, schema: { type: string } }]
      responses: { '200': { description: The orders } }
";

/// An empty home in which the commands of one page are run one after another.
fn run_all(page: &Page) -> usize {
    let project = Project::new(&[("shop.yaml", SHOP)]);
    fs::create_dir_all(project.path("home")).unwrap();
    let programs = Path::new(midex_test::binary()).parent().unwrap();
    let mut ran = 0;
    for command in page.commands().iter().filter(|command| can_be_run(command)) {
        let mut midex = project.command("");
        // As `midex`, through a shell, with the environment of a project.
        let environment: Vec<_> = midex
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
            .collect();
        midex = std::process::Command::new("/bin/sh");
        midex.args(["-c", command]).current_dir(project.root());
        for (name, value) in environment {
            match value {
                Some(value) => midex.env(name, value),
                None => midex.env_remove(name),
            };
        }
        midex.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        let midex = midex.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut midex = midex.spawn().unwrap();
        // What a person would answer to `midex run`; others read nothing.
        let answers = "{\"summary\": \"done\"}\n".repeat(20);
        let _ = midex.stdin.take().unwrap().write_all(answers.as_bytes());
        let output = midex.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}: {command}\n{}", page.0, said.concat());
        ran += 1;
    }
    ran
}

#[test]
fn what_can_be_run_in_an_empty_home_is_run() {
    // `docs::release` leads the workflow of its page with outputs of its own.
    let pages = pages().into_iter().filter(|page| page.0 != "docs/release.md");
    let ran: usize = pages.map(|page| run_all(&page)).sum();
    assert!(ran > 25, "{ran} commands");
}

#[test]
fn every_manifest_is_sound() {
    let registry = Registry::load(&Sources::default());
    let mut known = 0;
    // `docs::manual`, `docs::patterns` and `docs::release` read the manifests of their pages, and lead them to an end.
    let others = ["docs/manifest.md", "docs/patterns.md", "docs/release.md"];
    for page in pages().iter().filter(|page| !others.contains(&page.0.as_str())) {
        for manifest in page.blocks("yaml") {
            let (_, findings) = check_text("w.yaml", manifest, &registry);
            assert!(findings.is_empty(), "{}: {findings:#?}\n{manifest}", page.0);
            known += 1;
        }
    }
    assert!(known > 2, "{known} manifests");
}

#[test]
fn every_block_of_json_is_json() {
    for page in pages() {
        for block in page.blocks("json") {
            let read = serde_json::from_str::<Value>(block);
            assert!(read.is_ok(), "{}: {block}", page.0);
        }
    }
}

/// The anchors of a page, as GitHub names them.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = text.split("```").step_by(2).collect::<String>();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let here = root().join(&page.0);
        let prose = page.prose();
        let targets = prose.split("](").skip(1);
        for target in targets.map(|rest| rest.split(')').next().unwrap()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if file.is_empty() { here.clone() } else { here.parent().unwrap().join(file) };
            assert!(path.exists(), "{}: {target}", page.0);
            if !anchor.is_empty() {
                let known = anchors(&fs::read_to_string(&path).unwrap());
                assert!(known.contains(anchor), "{}: {target}", page.0);
            }
        }
    }
}

/// What the names of tools begin with.
const KINDS: [&str; 5] = ["workflow", "execution", "command", "provider", "catalog"];

/// Fault F25 of the study: the documents told of tools that did not exist. `docs/mcp.md` names them all.
#[test]
fn f25_no_page_names_a_tool_that_is_not_there() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let tools = list(&server.request("tools/list", json!({}))["result"]["tools"]);
    let task_tools = TASK_TOOLS.map(str::to_owned);
    let tools: BTreeSet<_> = each(&tools, "name").into_iter().chain(task_tools).collect();
    let prompts = list(&server.request("prompts/list", json!({}))["result"]["prompts"]);
    let prompts: BTreeSet<_> = each(&prompts, "name").into_iter().collect();
    let mut named = 0;
    // It says what the founding documents call them.
    let pages = pages().into_iter().filter(|page| page.0 != "docs/sources.md");
    for page in pages {
        for code in page.codes() {
            let name = code.split([' ', '(']).next().unwrap_or_default();
            let Some((kind, verb)) = name.split_once('.') else {
                continue;
            };
            // `catalog.toml`, `command.run_*`
            let is_other = ["toml", "yaml", "md", "json"].contains(&verb) || verb.contains('*');
            if !KINDS.contains(&kind)
                || is_other
                || !verb.starts_with(|c: char| c.is_ascii_lowercase())
            {
                continue;
            }
            assert!(tools.contains(name) || prompts.contains(name), "{}: `{code}`", page.0);
            named += 1;
        }
    }
    assert!(named > tools.len(), "{named} names");
}

/// Every flag of every command.
fn flags(command: &clap::Command, into: &mut BTreeSet<String>) {
    let long = command.get_arguments().filter_map(clap::Arg::get_long);
    into.extend(long.map(|long| format!("--{long}")));
    for below in command.get_subcommands() {
        flags(below, into);
    }
}

/// Fault F25 of the study: the documents told of commands and of settings that nothing read.
#[test]
fn f25_no_page_names_a_command_or_a_flag_that_is_not_there() {
    let line = command_line();
    let mut known = BTreeSet::new();
    flags(&line, &mut known);
    let commands: BTreeSet<_> = line.get_subcommands().map(clap::Command::get_name).collect();
    // A column of its tables is called `midex is`.
    let pages = pages().into_iter().filter(|page| page.0 != "docs/performance.md");
    for page in pages {
        for code in page.codes() {
            let of_midex = code.strip_prefix("midex ");
            let first = of_midex.and_then(|rest| rest.split(' ').next());
            if let Some(first) = first.filter(|first| first.chars().all(|c| c.is_ascii_lowercase()))
            {
                assert!(commands.contains(first) || first == "help", "{}: `{code}`", page.0);
            }
            // Flags of other programs stand with their names.
            if of_midex.is_none() && !code.starts_with("--") {
                continue;
            }
            let given = code
                .split([' ', '=', '[', ']', ','])
                .filter(|word| word.starts_with("--") && word.len() > 3);
            for flag in given {
                assert!(known.contains(flag), "{}: `{code}`", page.0);
            }
        }
    }
}
