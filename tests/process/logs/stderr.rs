//! Nobody needs to read what a server writes to stderr.

use std::{
    io::{PipeReader, PipeWriter, Read, Write},
    os::fd::AsFd,
    path::Path,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::json;
use tempfile::tempdir;

use midex_test::{Client, Server, serve_alone};

/// A pipe that is full. Where nobody reads, its other end must still be held.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(writer.as_fd()).unwrap();
    fcntl_setfl(writer.as_fd(), flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    fcntl_setfl(writer.as_fd(), flags).unwrap();
    (reader, writer)
}

/// A server that could not write a single byte to its stderr.
fn unread(home: &Path) -> (Server, PipeReader) {
    let (reader, writer) = full_pipe();
    let mut server = Server::logging(serve_alone(home, &[]), writer);
    server.shake_hands();
    (server, reader)
}

/// Calls that are each refused with an error that the log tells, and one that is not.
fn refuse(server: &mut Server, times: usize) {
    for _ in 0..times {
        server.post_call("workflow.start", json!({ "workflow_name": "no such one" }));
    }
    for _ in 0..times {
        assert_eq!(server.next_line()["result"]["isError"], true);
    }
    server.done("execution.list", json!({}));
}

#[test]
fn a_server_whose_stderr_nobody_reads_answers_and_ends_at_the_end_of_input() {
    let home = tempdir().unwrap();
    let (mut server, _held) = unread(home.path());
    for _ in 0..10 {
        refuse(&mut server, 500);
    }
    let (status, _, rest) = server.close();
    assert!(status.success() && rest.is_empty(), "{rest:?}");
    Server::greeted(serve_alone(home.path(), &[])).done("execution.list", json!({}));
}

#[test]
fn a_server_whose_stderr_nobody_reads_ends_at_a_signal_and_lets_go_of_the_store() {
    let home = tempdir().unwrap();
    let (mut server, _held) = unread(home.path());
    refuse(&mut server, 500);
    server.terminate();
    assert!(server.wait().success());
    Server::greeted(serve_alone(home.path(), &[])).done("execution.list", json!({}));
}

#[test]
fn what_a_server_could_not_start_for_is_told_by_its_exit_code_where_nobody_reads() {
    let home = tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_held, writer) = full_pipe();
    let flags = ["--http", &address];
    let mut server = Server::logging(serve_alone(home.path(), &flags), writer);
    assert!(!server.wait().success());
}

#[test]
fn refusals_of_one_kind_are_logged_so_often_and_the_rest_is_counted() {
    let home = tempdir().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut server = Server::logging(serve_alone(home.path(), &[]), writer);
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).map(|_| log).unwrap()
    });
    server.shake_hands();
    refuse(&mut server, 500);
    assert!(server.close().0.success());
    let log = log.join().unwrap();
    let told = log.matches("a call was refused").count();
    let left_out = log.lines().filter_map(|line| line.split_once(" more lines like "));
    let left_out: usize = left_out.map(|(count, _)| count.parse::<usize>().unwrap()).sum();
    assert_eq!(told + left_out, 500, "{log}");
    let spans = told / midex_domain::limits::LOG_LINES_OF_A_KIND_MAX;
    assert!((1..=9).contains(&spans), "{log}");
    assert!(log.starts_with("midex v") && log.contains("WORKFLOW_NOT_FOUND"), "{log}");
}
