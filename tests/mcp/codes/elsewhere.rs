//! The codes that no client meets over MCP, or only where more than one server is to fail.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use midex_domain::error::Code;
use serde_json::json;

use super::named;
use midex_test::{
    Client, Server,
    project::{eventually, line},
    table,
};

/// The codes that are not provoked here: where they are met instead, and the test that meets each there.
const ELSEWHERE: &str = "
    PROJECT_NOT_TRUSTED | in a repository that is not trusted | a_client_that_can_ask_its_user_does_so_and_nothing_that_an_agent_calls_trusts
    UNAUTHORIZED | over HTTP | without_the_token_nothing_but_the_path_is_looked_at
    FORBIDDEN | over HTTP | a_name_or_a_page_that_is_not_let_in
    SESSION_NOT_FOUND | over HTTP | what_needs_a_session_says_so
    SERVER_BUSY | over HTTP, where thousands may call | past_the_limit_of_sessions_the_idle_go_and_the_busy_stay
    STORE_BUSY | through a relay whose directory nobody can own | while_nobody_can_own_the_directory_lists_are_answered_and_calls_refused
    SERVER_STOPPING | through a relay whose owner ends | what_may_be_done_twice_is_asked_again_and_of_the_rest_nobody_knows
    STORE_UNAVAILABLE | of an engine whose disk refuses | while_the_disk_refuses_every_caller_hears_that_it_may_try_again
    STORE_FULL | of a store whose disk is full | a_full_disk_changes_nothing_and_is_met_before_the_database
    EXECUTION_DELETED | of an engine whose program deletes | what_was_deleted_stays_deleted_after_a_kill
    EXECUTION_STILL_OPEN | of an engine whose program deletes | what_is_open_is_not_deleted
    SHARD_LOST | of a database that servers share | a_server_that_lost_a_shard_writes_nothing_to_it
    REVISION_CONFLICT | of a store: an engine asks it again | a_commit_must_follow_the_stored_revision
    ENGINE_FAULT | of an engine whose store panics | an_execution_that_cannot_be_woken_says_so_and_harms_no_other
    INTERNAL | where a tool panics | a_panic_becomes_an_error
    ADDRESS_UNUSABLE | on the command line | a_second_server_over_http_is_refused_with_the_address_of_the_first
    FILE_EXISTS | on the command line | a_file_that_exists_stays_unless_force_says_otherwise
    HOST_FILE_INVALID | on the command line | a_file_that_cannot_be_read_is_left_as_it_is_and_named_with_its_place
    USAGE_INVALID | on the command line | no_name_leads_out_of_the_directory
    CANCELLED | in the log alone | a_withdrawn_call_has_its_code_in_the_log_alone
    ADDRESS_REFUSED | of a document that is fetched | a_document_is_fetched_from_where_may_be_called_and_nowhere_else
    FETCH_FAILED | of a document that is fetched | a_document_is_fetched_from_where_may_be_called_and_nowhere_else
    CATALOG_CONFLICT | over MCP, with a document | a_document_becomes_commands_that_are_found_and_called_by_the_tool_of_their_class
    COMMAND_NOT_FOUND | over MCP, with a catalog | a_document_becomes_commands_that_are_found_and_called_by_the_tool_of_their_class
    COMMAND_CLASS_REFUSED | over MCP, with a catalog | a_tool_makes_a_class_stricter_and_never_looser
    COMMAND_FAILED | over MCP, with a service | what_goes_wrong_is_told_with_the_words_of_the_service_and_nothing_is_sent_that_may_not
    RUN_FAILED | of a run whose step fails | a_failed_run_is_an_error_that_names_the_step_and_the_call_that_continues_it
    TASK_CAPABILITY_REQUIRED | of a client without tasks | without_tasks_these_tools_say_what_to_do_instead
    CATALOG_MISSING | over MCP, with a workflow | steps_of_a_workflow_call_operations_and_wait_for_their_catalog
    CATALOG_NOT_FOUND | over MCP, with a document | documents_lie_where_tools_may_read
    OPENAPI_INVALID | over MCP, with a document | documents_lie_where_tools_may_read
    SOURCE_REFUSED | over MCP, with a document | documents_lie_where_tools_may_read
    SECRET_NOT_ALLOWED | over MCP, with a secret | secrets_go_where_the_user_sent_them_and_are_seen_nowhere
";

/// The code, the place and the test of each.
pub(super) fn elsewhere() -> impl Iterator<Item = (Code, String, String)> {
    table(ELSEWHERE).map(|[code, place, test]| (named(&code), place, test))
}

#[test]
fn the_tests_of_the_other_codes_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = BTreeMap::new();
    for directory in ["tests", "src"] {
        read_below(&root.join(directory), &mut texts);
    }
    for (code, place, test) in elsewhere() {
        let is_there = |text: &&String| text.contains(&format!("fn {test}("));
        let file = texts.values().find(is_there);
        let file = file.unwrap_or_else(|| panic!("{code} {place}: there is no test `{test}`"));
        let names = [code.to_string(), format!("Code::{code:?}")];
        assert!(
            names.iter().any(|name| file.contains(name)),
            "{code} {place}: the file of `{test}` does not name it"
        );
    }
}

/// The texts of the sources below a directory.
fn read_below(directory: &Path, texts: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_below(&path, texts);
        } else {
            let text = fs::read_to_string(&path).unwrap_or_default();
            texts.insert(path, text);
        }
    }
}

/// Of a call that its client has withdrawn no answer is sent: only the log says what became of it.
#[test]
fn a_withdrawn_call_has_its_code_in_the_log_alone() {
    let project = line();
    let log = project.path("log");
    let mut command = project.command("serve");
    command.env("RUST_LOG", "midex=info");
    let mut server = Server::logging(command, File::create(&log).unwrap());
    server.shake_hands();
    let started = server.begin("line", "e");
    let wait =
        json!({ "execution_id": "e", "since_revision": started["revision"], "timeout_s": 25 });
    let call = server.post_call("execution.wait", wait);
    server.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call }
    }));
    eventually("the log of a withdrawn call", || {
        let log = fs::read_to_string(&log).unwrap();
        log.contains(Code::Cancelled.as_str()).then_some(())
    });
    let ping = server.post("ping", json!({}));
    assert_eq!(server.next_line()["id"], ping, "it was not answered");
}
