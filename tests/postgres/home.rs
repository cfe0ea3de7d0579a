//! The files that the servers of a cluster share.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A workflow of three steps, one after another.
pub(crate) const THREE_STEPS: &str = "workflow: three-steps
description: Three steps
steps:
  - { id: first, guidance: Do it, result: {} }
  - { id: second, guidance: Do it, result: {} }
  - { id: third, guidance: Do it, result: {} }
";

/// The home directory of all servers of a cluster, with their token and a workflow.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(workflow: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let token = home.file("token");
        fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
        fs::set_permissions(token, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(home.file("workflows")).unwrap();
        fs::write(home.file("workflows/workflow.yaml"), workflow).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The built midex, with PostgreSQL.
    pub(crate) fn binary() -> PathBuf {
        std::env::var_os("MIDEX_BIN").expect("`tests/postgres/run` names the binary").into()
    }

    /// The command of a server on free ports, with a data directory of this name in the home, and with the database at `url`.
    pub(crate) fn cluster_server(&self, data: &str, url: &str) -> Command {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(Self::binary());
        self.add_serve_flags(&mut command, data);
        command.args(["--store", url]).args(["--advertise", &format!("http://127.0.0.1:{port}")]);
        command
    }

    /// Completes a command that runs the binary: it serves with these files, and with a data directory of this name in the home.
    pub(crate) fn add_serve_flags(&self, command: &mut Command, data: &str) {
        self.add_serve_alone_flags(command, data);
        command.arg("--cluster-token-file").arg(self.file("token"));
    }

    /// The same for a server without others.
    pub(crate) fn add_serve_alone_flags(&self, command: &mut Command, data: &str) {
        command
            .args(["serve", "--http", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(self.file(data))
            .arg("--workflows")
            .arg(self.file("workflows"))
            .env("HOME", self.path())
            .current_dir(self.path());
    }
}
