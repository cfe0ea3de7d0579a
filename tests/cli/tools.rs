//! The commands that need no server: `new`, `graph` and `schema`, through the binary.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use midex_domain::{limits, schema::Schema};
use serde_json::{Value, json};
use tempfile::TempDir;

use midex_test::{Fields, Shows, Words, long::share, witness::tree};

/// A directory to work in that is a project: with `.git`, and no configuration of a user around it.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        for directory in [".git", "here", "config"] {
            fs::create_dir(project.path(directory)).unwrap();
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs the binary somewhere below the project's root.
    fn midex(&self, args: impl Words) -> Output {
        Command::new(midex_test::binary())
            .args(args.words())
            .current_dir(self.path("here"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env_remove("MIDEX_DATA_DIR")
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .output()
            .expect("the binary runs")
    }

    /// What a command that succeeds writes.
    #[track_caller]
    fn out(&self, args: impl Words) -> String {
        let args = args.words();
        let output = self.midex(&args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args:?}\n{out}{err}");
        assert_eq!(err, "", "{args:?}");
        out
    }

    #[track_caller]
    fn json(&self, args: impl Words) -> Value {
        serde_json::from_str(&self.out(args)).expect("JSON")
    }

    #[track_caller]
    fn rows(&self, args: impl Words) -> Value {
        Value::Array(super::lines(&self.out(args)))
    }

    /// The exit code of a command that writes nothing to stdout, and what it writes to stderr.
    #[track_caller]
    fn refused(&self, args: impl Words) -> (i32, String) {
        let args = args.words();
        let output = self.midex(&args);
        assert_eq!(text(&output.stdout), "", "{args:?}");
        (output.status.code().unwrap(), text(&output.stderr))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

const KINDS: [(&str, &str, &str); 4] = [
    ("workflow", "workflows", "yaml"),
    ("workflow --format md", "workflows", "md"),
    ("workflow --format json", "workflows", "json"),
    ("agent", "agents", "md"),
];

#[test]
fn a_new_file_is_sound_and_lies_in_the_project() {
    for (kind, directory, extension) in KINDS {
        let project = Project::new();
        let shown = project.out("new".and(kind).and("first-steps"));
        let path = project.path(&format!("{directory}/first-steps.{extension}"));
        assert_eq!(shown, format!("{}\n", path.display()));
        assert_eq!(project.out(&["validate", path.to_str().unwrap()]), "1 file, no findings\n");
        let listed = project.rows(&["list", directory, "--json"]);
        let is_ours = |entry: &&Value| entry["name"] == "first-steps";
        let ours = listed.as_array().unwrap().iter().find(is_ours).unwrap();
        ours.has_fields(json!({ "source": "project", "valid": true }));
        let written = fs::read_to_string(&path).unwrap();
        assert!(extension == "json" || written.contains("\n# "), "comments help: {written}");
        assert!(!written.contains('@'), "everything is filled in: {written}");
    }
}

#[test]
fn names_and_descriptions_are_kept_whatever_yaml_makes_of_them() {
    let longest = "é".repeat(limits::DESCRIPTION_BYTES_MAX / 2);
    let all = vec![
        ("a", "He said: \"it's\" #1, {really} [so] \\n"),
        ("1.10", "2024-01-01"),
        ("true", "null"),
        ("A_b-2", "naïve — “quoted” 😀 \u{2028}end\u{feff}"),
        ("x.y", "- a list? no: a text"),
        ("name", "@description@ %s {0} $x"),
        ("no", &longest),
    ];
    for (name, description) in share(all, 3) {
        for (kind, directory, extension) in KINDS {
            let project = Project::new();
            let named = [name, "--description", description];
            let shown = project.json("new --json".and(kind).and(&named));
            let path = project.path(&format!("{directory}/{name}.{extension}"));
            assert_eq!(
                shown,
                json!({ "path": path.to_str().unwrap(), "kind": kind.words()[0], "name": name })
            );
            let report = project.json(&["validate", "--json", path.to_str().unwrap()]);
            assert_eq!(report["findings"], 0, "{report:#}");
            assert_eq!(report["files"][0]["name"], name);
            let listed = project.rows(&["list", directory, "--json"]);
            let described =
                |entry: &Value| entry["name"] == name && entry["description"] == description;
            assert!(listed.as_array().unwrap().iter().any(described), "{name}: {listed:#}");
        }
    }
}

#[test]
fn a_file_that_exists_stays_unless_force_says_otherwise() {
    let project = Project::new();
    project.write("workflows/mine.yaml", "precious");
    let (code, said) = project.refused("new workflow mine");
    assert_eq!(code, 1, "{said}");
    said.shows("FILE_EXISTS…--force…mine.yaml");
    let (code, said) = project.refused("new workflow mine --json");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["error_code"]), (1, &"FILE_EXISTS".into()));
    let read = || fs::read_to_string(project.path("workflows/mine.yaml")).unwrap();
    assert_eq!(read(), "precious");
    project.out("new workflow mine --force");
    read().shows("workflow: mine\n…\nsteps:\n");
    assert_eq!(fs::read_dir(project.path("workflows")).unwrap().count(), 1);
}

#[test]
fn the_extension_of_a_name_says_how_a_file_is_written() {
    let project = Project::new();
    for (name, file, text) in [
        ("plain", "workflows/plain.yaml", "workflow: plain\n"),
        ("notes.yaml", "workflows/notes.yaml", "workflow: notes\n"),
        ("tale.md", "workflows/tale.md", "name: tale\n"),
        ("data.json", "workflows/data.json", "\"workflow\": \"data\""),
    ] {
        project.out(&["new", "workflow", name]);
        fs::read_to_string(project.path(file)).unwrap().shows(&[text]);
    }
    project.out("new agent critic.md");
    assert!(project.path("agents/critic.md").is_file());
    for (args, right) in [
        ("new workflow a.md --format yaml", "a.yaml"),
        ("new workflow a.yaml --from bug-fix", "a.md"),
        ("new agent a.yaml", "a.md"),
    ] {
        let (code, said) = project.refused(args);
        assert_eq!(code, 2, "{said}");
        said.shows(&[&format!("Call it `{right}`")]);
    }
    assert!(project.out("validate").ends_with("no findings\n"));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_away_is_not_written_through() {
    let project = Project::new();
    project.write("elsewhere.md", "precious");
    fs::create_dir(project.path("agents")).unwrap();
    for to in ["elsewhere.md", "nowhere.md"] {
        let link = project.path("agents/mine.md");
        std::os::unix::fs::symlink(project.path(to), &link).unwrap();
        assert_eq!(project.refused("new agent mine").0, 1);
        project.out("new agent mine --force");
        assert!(!link.is_symlink());
        fs::remove_file(link).unwrap();
    }
    assert_eq!(fs::read_to_string(project.path("elsewhere.md")).unwrap(), "precious");
    assert!(!project.path("nowhere.md").exists());
}

#[test]
fn a_name_that_another_file_gives_is_refused() {
    let project = Project::new();
    project.out("new workflow mine.md");
    for force in ["", "--force"] {
        let (code, said) = project.refused("new workflow mine".and(force));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("mine.md"), "{said}");
    }
    // What is shipped may be hidden: the nearer one counts.
    project.out("new workflow bug-fix");
    assert!(project.out("validate").ends_with("no findings\n"));
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let project = Project::new();
    let before = tree(&project.path(""));
    let absolute = project.path("away");
    let long = "x".repeat(limits::AGENT_NAME_BYTES_MAX + 101);
    for name in [
        "../x",
        "..",
        ".",
        "a/b",
        "/x",
        absolute.to_str().unwrap(),
        "a\\b",
        "..\\x",
        "c:x",
        ".hidden",
        "_draft",
        "",
        " ",
        " x",
        "x ",
        "x.",
        "a\nb",
        "a\u{7f}",
        "a*",
        "a?",
        "a|b",
        "a<b",
        "a\"b",
        &long,
    ] {
        for kind in ["workflow", "agent"] {
            for extra in ["", "--force"] {
                let (code, said) = project.refused(["new", kind, name].and(extra));
                assert_eq!(code, 2, "{name:?}: {said}");
                said.shows("USAGE_INVALID…Choose a name");
            }
        }
    }
    let (code, said) = project.refused("new agent -- -x");
    assert_eq!(code, 2, "{said}");
    assert_eq!(tree(&project.path("")), before);
}

#[test]
fn a_description_is_one_line_of_limited_length() {
    let project = Project::new();
    let before = tree(&project.path(""));
    let long = "x".repeat(limits::DESCRIPTION_BYTES_MAX + 1);
    for description in ["a\nb", "a\rb", "a\tb", "\u{1b}[31m", "a\u{85}b", "", "  ", &long] {
        for kind in ["workflow", "agent"] {
            let args = ["new", kind, "mine", "--description", description];
            let (code, said) = project.refused(&args);
            assert_eq!(code, 2, "{description:?}: {said}");
            assert!(said.contains("--description"), "{said}");
        }
    }
    assert_eq!(tree(&project.path("")), before);
}

#[test]
fn the_directory_may_be_named() {
    let project = Project::new();
    let shown = project.out("new agent mine --dir deep/er");
    assert_eq!(shown, "deep/er/agents/mine.md\n");
    assert!(project.path("here/deep/er/agents/mine.md").is_file());
    project.write("here/file", "");
    let (code, said) = project.refused("new agent mine --dir file");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("FILE_UNUSABLE"), "{said}");
}

const PARALLEL: &str = "workflow: nightly\ndescription: d\nsteps:\n  - {id: end, agent: 'an \"odd\" [one]', description: first}\n  \
    - {id: o-one, agent: reviewer}\n  - {id: graph, agent: reviewer, depends_on: [end]}\n  \
    - {id: last, agent: reviewer, depends_on: [o-one, graph]}\n";
const ODD_AGENT: &str = "---\nname: 'an \"odd\" [one]'\ndescription: d\n---\nYou.\n";

#[test]
fn a_workflow_is_drawn_by_name_and_by_file() {
    let project = Project::new();
    project.write("workflows/nightly.yaml", PARALLEL);
    project.write("agents/odd.md", ODD_AGENT);
    let mermaid = "flowchart TD\n    s1[\"end<br/>an #34;odd#34; #91;one#93;\"]\n    s2[\"o-one<br/>reviewer\"]\n    \
        s3[\"graph<br/>reviewer\"]\n    s4[\"last<br/>reviewer\"]\n    s1 --> s2\n    s1 --> s3\n    s2 --> s4\n    \
        s3 --> s4\n";
    assert_eq!(project.out("graph nightly"), mermaid);
    let path = project.path("workflows/nightly.yaml");
    assert_eq!(project.out(&["graph", path.to_str().unwrap()]), mermaid);
    assert_eq!(project.out("graph ../workflows/nightly.yaml"), mermaid);
    let dot = project.out("graph nightly --format dot");
    assert!(dot.starts_with("digraph \"nightly\" {\n"), "{dot}");
    dot.shows("    \"end\" [label=\"end\\nan \\\"odd\\\" [one]\"];\n");
    assert!(dot.contains("    \"graph\" -> \"last\";\n") && dot.ends_with("}\n"), "{dot}");
    assert_eq!(
        project.json("graph nightly --json"),
        json!({
            "name": "nightly",
            "nodes": [
                { "id": "end", "agent": "an \"odd\" [one]", "description": "first", "kind": "agent" },
                { "id": "o-one", "agent": "reviewer", "description": "", "kind": "agent" },
                { "id": "graph", "agent": "reviewer", "description": "", "kind": "agent" },
                { "id": "last", "agent": "reviewer", "description": "", "kind": "agent" },
            ],
            "edges": [
                { "from": "end", "to": "o-one", "kind": "depends_on" },
                { "from": "end", "to": "graph", "kind": "depends_on" },
                { "from": "o-one", "to": "last", "kind": "depends_on" },
                { "from": "graph", "to": "last", "kind": "depends_on" },
            ],
        })
    );
    assert!(project.out("graph feature-development").contains("s2 --> s3"));
}

const BESIDE: &str = r#"
workflow: beside
description: d
memory: { a: 0 }
steps:
  - { id: one, guidance: One. }
  - id: two
    depends_on: []
    guidance: Two.
    hooks: { on_success: { set: { a: 1 }, required: true } }
    compensate: { set: { a: 0 } }
  - { id: three, depends_on: [], workflow: bug-fix, with: { task: it } }
  - { id: some, depends_on: [one, two, three], join: quorum(2), losers: cancel, guidance: Go on. }
  - { id: first, depends_on: [some, one], join: any, guidance: Go on. }
on_failure:
  - { id: look, guidance: "Look at ${{ steps.one.summary | default('it') }}." }
  - { id: tell, guidance: Tell. }
hooks: { on_complete: { set: { a: 2 } } }
"#;

#[test]
fn what_stands_beside_the_order_of_steps_is_drawn_too() {
    let project = Project::new();
    project.write("workflows/beside.yaml", BESIDE);
    insta::assert_snapshot!(project.out("graph beside"), @r##"
    flowchart TD
        subgraph steps ["beside"]
            s1["one"]
            s2["two"]
            s2b1["on_success#44; required<br/>set"]:::beside
            s2 -.- s2b1
            s2b2["compensate<br/>set"]:::beside
            s2 -.- s2b2
            s3[["three<br/>workflow bug-fix"]]
            s4["some<br/>waits for 2 of 3#44; the others are cancelled"]
            s5["first<br/>waits for any of 2"]
        end
        subgraph fails ["on_failure"]
            s6["look"]
            s7["tell"]
        end
        subgraph hooks ["hooks of the workflow"]
            h1["on_complete<br/>set"]:::beside
        end
        s1 --> s4
        s2 --> s4
        s3 --> s4
        s4 --> s5
        s1 --> s5
        s6 --> s7
        steps -.->|"#10007; fails"| fails
        classDef beside stroke-dasharray: 4 3
    "##);
    insta::assert_snapshot!(project.out("graph beside --format dot"), @r##"
    digraph "beside" {
        rankdir=TB;
        node [shape=box, style=rounded];
        compound=true;
        subgraph cluster_steps {
            label="beside";
            "one" [label="one"];
            "two" [label="two"];
            "two.1" [label="on_success, required\nset", style="rounded,dashed"];
            "two" -> "two.1" [style=dashed, arrowhead=none];
            "two.2" [label="compensate\nset", style="rounded,dashed"];
            "two" -> "two.2" [style=dashed, arrowhead=none];
            "three" [label="three\nworkflow bug-fix", peripheries=2];
            "some" [label="some\nwaits for 2 of 3, the others are\ncancelled"];
            "first" [label="first\nwaits for any of 2"];
        }
        subgraph cluster_fails {
            label="on_failure";
            "look" [label="look"];
            "tell" [label="tell"];
        }
        subgraph cluster_hooks {
            label="hooks of the workflow";
            "$hook.1" [label="on_complete\nset", style="rounded,dashed"];
        }
        "one" -> "some";
        "two" -> "some";
        "three" -> "some";
        "some" -> "first";
        "one" -> "first";
        "look" -> "tell";
        "first" -> "look" [label="✗ fails", style=dashed, color=firebrick, ltail=cluster_steps, lhead=cluster_fails];
    }
    "##);
    let graph = project.json("graph beside --json");
    assert_eq!(
        graph["nodes"][1]["beside"],
        json!([
            { "body": "on_success", "does": "set", "required": true },
            { "body": "compensate", "does": "set" },
        ])
    );
    assert_eq!(graph["nodes"][2]["workflow"], "bug-fix");
    graph.has_fields(json!({ "hooks": [{ "body": "on_complete", "does": "set" }] }));
    let of_failure = |node: &&Value| node["on_failure"] == true;
    let nodes = graph["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().filter(of_failure).count(), 2);
    let crosses = |edge: &Value| edge["to"] == "look";
    assert!(!graph["edges"].as_array().unwrap().iter().any(crosses));
}

#[test]
fn a_known_name_comes_before_a_file_of_another_kind() {
    let project = Project::new();
    project.write("here/bug-fix", "a script");
    assert!(project.out("graph bug-fix").contains("diagnose"));
    let (code, said) = project.refused("graph ./bug-fix");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("error[unsupported_file]"), "{said}");
}

#[test]
fn a_workflow_with_findings_is_not_drawn() {
    let project = Project::new();
    let broken = PARALLEL.replace("depends_on: [o-one, graph]", "depends_on: [o-one, grapg]");
    project.write("workflows/nightly.yaml", &broken);
    project.write("agents/odd.md", ODD_AGENT);
    for argument in ["nightly", "../workflows/nightly.yaml"] {
        let (code, said) = project.refused(&["graph", argument]);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.starts_with("error[unknown_dependency]: no step has the id `grapg`\n"),
            "{said}"
        );
        said.shows("nightly.yaml:7:53\n…did you mean `graph`?");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        let (code, said) = project.refused(&["graph", argument, "--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &said["error_code"]), (1, &"WORKFLOW_VALIDATION_FAILED".into()));
        assert_eq!(said["violations"][0]["path"], "steps[3].depends_on[1]");
    }
}

#[test]
fn a_shipped_workflow_with_a_broken_agent_shows_the_finding() {
    let project = Project::new();
    project.write("agents/reviewer.md", "---\nname: reviewer\n---\nYou.\n");
    let (code, said) = project.refused("graph bug-fix");
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with("error[invalid_persona]")
            && said.contains("(shipped)/workflows/bug-fix.md"),
        "{said}"
    );
}

#[test]
fn a_graph_of_nothing_is_an_error_that_helps() {
    let project = Project::new();
    let (code, said) = project.refused("graph bugfix");
    assert_eq!(code, 1, "{said}");
    said.shows("did you mean 'bug-fix'?…Run `midex graph bug-fix`");
    let (code, said) = project.refused("graph gone.yaml");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("there is no file `gone.yaml`"), "{said}");
    assert_eq!(project.refused("graph bug-fix --format png").0, 2);
    assert_eq!(project.refused("graph").0, 2);
}

#[test]
fn schemas_are_printed_in_both_drafts() {
    let project = Project::new();
    for of in ["workflow", "front-matter", "agent", "output", "error"] {
        let newest = project.json(&["schema", of]);
        assert_eq!(newest["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(project.json(&["schema", of, "--draft", "2020-12", "--json"]), newest);
        let older = project.out(&["schema", of, "--draft", "7"]);
        assert!(!older.contains("$defs"), "{older}");
        let older: Value = serde_json::from_str(&older).unwrap();
        assert_eq!(older["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_eq!(
            older["properties"].as_object().unwrap().len(),
            newest["properties"].as_object().unwrap().len()
        );
        for schema in [&newest, &older] {
            jsonschema::meta::validate(schema).expect("a schema is one itself");
        }
    }
    assert_eq!(project.json("schema"), project.json("schema workflow"));
    for wrong in ["schema nonsense", "schema --draft 4"] {
        assert_eq!(project.refused(wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn the_error_of_a_command_satisfies_the_error_schema() {
    let project = Project::new();
    let schema = Schema::compile(&project.json("schema error")).unwrap();
    project.write("workflows/broken.yaml", "workflow: broken\n");
    for args in [
        "graph nothing --json",
        "graph broken --json",
        "new agent ../x --json",
        "validate gone.md --json",
    ] {
        let (_, said) = project.refused(args);
        let said = serde_json::from_str(&said).unwrap();
        assert_eq!(schema.find_violations(&said), [], "{said:#}");
    }
}
