//! A data directory that is removed, moved or made read-only under its owner and its relays: every client is told or goes
//! on, and what was acknowledged is there where the directory is.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{tools, two_of};
use midex_test::{
    Client, NOBODY, Server, Shows, output,
    project::{Project, line},
    says, without_rights,
};

/// An owner and a relay, and the tokens of executions that each of them began.
struct Scene {
    project: Project,
    data: PathBuf,
    owner: Server,
    relay: Server,
    tokens: [Value; 2],
}

impl Scene {
    fn new() -> Self {
        let project = line();
        let (mut owner, mut relay) = two_of(&project);
        let tokens = [owner.begin("line", "o"), relay.begin("line", "r")];
        Self {
            data: project.data_dir(),
            project,
            owner,
            relay,
            tokens: tokens.map(|reply| reply["new_token"].clone()),
        }
    }

    /// Both clients are told that nothing is stored any more, and which process has lost the store. What needs none is
    /// answered.
    fn is_lost(&mut self) {
        let process = format!("(process {})", self.owner.pid());
        for server in [&mut self.owner, &mut self.relay] {
            for token in &self.tokens {
                let refused = server.refuse(token, output("a is done"));
                assert_eq!(refused["error_code"], "STORE_LOST", "{refused}");
                says(&refused["message"], &process);
                says(&refused["suggested_action"], "stop that midex");
            }
            assert!(!tools(server).is_empty());
        }
    }

    /// The owner is killed, and the relay goes on with what is there.
    fn goes_on(&mut self) {
        self.owner.kill();
        for token in &self.tokens {
            assert_eq!(self.relay.finish(token, "a is done")["step_name"], "b");
        }
    }
}

/// What a doctor says, and whether something fails.
fn said(mut doctor: Command) -> (bool, String) {
    let said = doctor.output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    (said.status.code() == Some(1), text)
}

#[test]
fn a_directory_that_was_moved_and_is_moved_back_has_everything() {
    let mut scene = Scene::new();
    let moved = scene.project.path("moved");
    fs::rename(&scene.data, &moved).expect("it is moved");
    scene.is_lost();
    let (fails, text) = said(scene.project.command("doctor"));
    assert!(!fails, "{text}");
    text.shows("is not there…removed or moved");
    fs::rename(&moved, &scene.data).expect("it is moved back");
    // Its owner has given it up all the same, and can be asked why.
    scene.is_lost();
    let (fails, text) = said(scene.project.command("doctor"));
    assert!(fails, "{text}");
    let process = format!("(process {})", scene.owner.pid());
    text.shows(&["STORE_LOST", &process, "Stop that midex"]);
    scene.goes_on();
}

#[test]
fn a_directory_that_was_removed_is_made_anew_by_the_next_owner() {
    let mut scene = Scene::new();
    fs::remove_dir_all(&scene.data).expect("it is removed");
    scene.is_lost();
    said(scene.project.command("doctor")).1.shows("is not there");
    assert!(scene.owner.close().0.success());
    let refused = scene.relay.refuse(&scene.tokens[1], output("a is done"));
    assert_eq!(refused["error_code"], "EXECUTION_NOT_FOUND");
    scene.relay.begin("line", "r");
}

#[test]
fn a_store_that_was_removed_is_named_before_anybody_misses_it() {
    let mut scene = Scene::new();
    fs::remove_file(scene.project.data_file()).expect("it is removed");
    let (fails, text) = said(scene.project.command("doctor"));
    assert!(fails, "{text}");
    let process = format!("process {} has it open", scene.owner.pid());
    text.shows(&["fail  store", "STORE_LOST", &process]);
    scene.is_lost();
}

/// Another file system is one in memory, where there is one.
#[test]
fn a_directory_that_was_moved_to_another_file_system_is_gone_on_with_there() {
    let mut scene = Scene::new();
    let memory = Path::new("/dev/shm");
    let elsewhere = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
    let elsewhere = elsewhere.expect("a directory");
    for name in ["executions.redb", "executions.lock"] {
        let copied = fs::copy(scene.data.join(name), elsewhere.path().join(name));
        copied.expect("it is copied");
    }
    fs::remove_dir_all(&scene.data).expect("it is removed");
    symlink(elsewhere.path(), &scene.data).expect("a link");
    scene.is_lost();
    let (fails, text) = said(scene.project.command("doctor"));
    assert!(!fails, "{text}");
    text.shows("bytes, read through…2 open");
    scene.goes_on();
}

#[test]
fn of_a_directory_that_became_read_only_the_clients_go_on_and_a_doctor_says_so() {
    let project = line();
    if rustix::process::geteuid().is_root() {
        chown(project.root(), Some(NOBODY), Some(NOBODY)).expect("it is ours");
    }
    let command = |arguments| without_rights(project.command(arguments));
    let serve = || command(&["serve"]).map(Server::greeted);
    let (Some(mut owner), Some(mut relay)) = (serve(), serve()) else {
        return;
    };
    let doctor = || command(&["doctor"]).map(said).expect("it ran before");
    owner.done("execution.list", json!({}));
    let first = relay.begin("line", "e");
    let data = project.data_dir();
    let permit = |mode| fs::set_permissions(&data, Permissions::from_mode(mode)).expect("a mode");
    permit(0o555);
    let second = relay.finish(&first["new_token"], "a is done");
    owner.kill();
    let third = relay.finish(&second["new_token"], "b is done");
    let (fails, text) = doctor();
    assert!(fails, "{text}");
    text.shows("fail  directory…(mode 0555) cannot be written to…chmod u+rwx");
    // Nobody else finds the new owner before that is mended.
    permit(0o700);
    let mut next = serve().expect("it ran before");
    let end = next.finish(&third["new_token"], "c is done");
    assert_eq!(end["workflow_state"], "completed");
    assert!(!doctor().0);
}
