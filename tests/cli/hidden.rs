//! What cannot be seen on a terminal, or steers one, is shown by every command.

use serde_json::{Value, json};

use super::{
    Place,
    screens::shown::{Shown, too_wide},
};
use midex_test::terminal::Terminal;

/// Of each kind one: of no width, of another direction, a tag, a mark of bytes, a soft hyphen, the end of a line, what
/// no renderer draws, and control characters.
const HIDDEN: &str =
    "\u{200b}\u{200d}\u{202e}\u{2066}\u{61c}\u{e0041}\u{feff}\u{ad}\u{2028}\u{3164}\u{e0100}";

fn hides(text: &str) -> String {
    format!("{text}{HIDDEN}x")
}

#[track_caller]
fn harmless(of: &str, text: &str) {
    let seen = |c: char| c == '\n' || !(c.is_control() || HIDDEN.contains(c));
    let hidden = text.chars().find(|c| !seen(*c));
    assert!(hidden.is_none(), "{of:?} lets {hidden:?} pass: {text:?}");
}

/// A workflow all of whose words hide something: a model's step with a task of its own, then a gate.
fn workflow() -> Value {
    let words = hides;
    json!({
        "workflow": "evil", "title": words("title"), "description": words("description"),
        "inputs": { "topic": { "type": "string", "description": words("topic"), "default": { "from": "literal", "value": words("value") } } },
        "steps": [
            { "id": "ask", "agent": words("agent"), "description": words("what to do"), "instructions": words("how") },
            { "id": "gate", "gate": { "ask": words("may it go on?"), "approvers": [words("owner")] }, "description": words("a gate") },
        ],
        "final_output": { "said": "${{ steps.ask.summary }}" }
    })
}

#[test]
fn no_command_shows_what_cannot_be_seen() {
    let place = Place::new();
    let (name, id) = ("evil".to_owned(), hides("e"));
    place.file("workflows/evil.json", &workflow().to_string());
    let agent = hides("agent");
    let front =
        format!("---\nname: {}\ndescription: {}\n---\n", json!(agent), json!(hides("does")));
    place.file("agents/evil.md", &(front + &hides("You work.")));
    let broken =
        format!("workflow: broken{HIDDEN}\nde{HIDDEN}scription: {HIDDEN}\nsteps: {HIDDEN}\n");
    place.file("workflows/broken.yaml", &broken);
    place.file(&format!("workflows/fi{HIDDEN}le.yaml"), "steps: [");
    let output = json!({
        "summary": hides("done"), "findings": [hides("found")],
        "artifacts": [{ "type": "report", "name": hides("r.md"), "content": hides("text") }]
    });
    let output = format!("{output}\n");
    let started = place.with_stdin(&["run", &name, "--id", &id], &output);
    assert!(started.err.is_empty() || started.code == Some(1), "{started:?}");
    harmless("run", &(started.out + &started.err));
    let listed = place.rows("list executions");
    assert_eq!(listed[0]["execution_id"], id, "it is data all the same");
    assert_eq!(listed[0]["current_step"], "gate", "{listed}");
    let (no_id, reason) = (hides("no"), hides("why"));
    let commands = "list, list agents, list executions, validate, graph NAME, graph NAME --format dot, graph broken, \
        graph NONE, show ID, show NONE, tail ID --no-follow, approve, approve ID, pause ID --reason WHY, show ID, resume, \
        resume ID, signal ID WHY, run NAME --id ID, run NONE, abandon ID --reason WHY, resolve ID ask --retry, show ID";
    for command in commands.split(", ") {
        for flags in ["", " --json"] {
            let args = command.replace("NAME", &name).replace("NONE", &no_id);
            let args = args.replace("ID", &id).replace("WHY", &reason) + flags;
            let ran = place.midex(&args);
            harmless(&args, &(ran.out + &ran.err));
        }
    }
}

#[test]
fn joiners_of_scripts_and_emoji_stay_and_lines_of_wide_characters_are_broken() {
    let place = Place::new();
    let words = "می\u{200c}خواهم ශ්\u{200d}රී 👩\u{200d}💻";
    place.manifest(&format!(
        "workflow: fa\ndescription: \"{words}\"\nsteps: [{{ id: a, guidance: x }}]\n"
    ));
    assert!(place.done("list").contains(words));
    let odd = words.replace('\u{200c}', "\u{200b}");
    place.manifest(&format!(
        "workflow: fa\ndescription: \"{odd}\"\nsteps: [{{ id: a, guidance: x }}]\n"
    ));
    assert!(place.done("list").contains("می\u{fffd}خواهم"));
    let long = "変更を確認する前に、この説明を読んでください。".repeat(4);
    place.manifest(&format!(
        "workflow: ja\ndescription: {long}\nsteps: [{{ id: a, guidance: {long} }}]\n"
    ));
    for args in ["list", "show workflow ja"] {
        let (_, shown) = Terminal::sized(place.command(args), 40).end();
        let lines = Shown::of(&shown).lines();
        let wide: Vec<_> = lines.iter().filter(|line| too_wide(line, 40)).collect();
        assert!(wide.is_empty() && shown.contains("変更を"), "{args:?}: {wide:?}");
    }
    // A picture turns no letters round, and has no names that only look alike.
    let svg = |name: &str| {
        let text = json!({ "workflow": "w", "description": "d", "steps": [{ "id": "a", "agent": "reviewer", "description": name }] });
        place.file("workflows/w.json", &text.to_string());
        place.done("graph w --format svg")
    };
    let drawn = svg("a\u{202e}b\u{200b}c م\u{200c}م");
    assert!(drawn.contains("abc م\u{200c}م"), "{drawn}");
}
