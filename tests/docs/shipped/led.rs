//! An execution of a shipped workflow, led through the real binary by a client that brings what a test says.

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    project::{Project, text},
};

/// The execution `e`, and where it stands.
pub(crate) struct Led {
    pub(crate) project: Project,
    pub(crate) server: Server,
    /// The last reply.
    pub(crate) reply: Value,
    /// What `current_step` shows since.
    pub(crate) current: Value,
}

impl Led {
    /// Starts the workflow with these inputs.
    pub(crate) fn start(workflow: &str, inputs: &Value) -> Self {
        Self::start_in(Project::new(&[]), workflow, inputs)
    }

    /// The same in a project with definitions of its own.
    pub(crate) fn start_in(project: Project, workflow: &str, inputs: &Value) -> Self {
        let mut server = project.serve();
        let arguments = json!({ "workflow_name": workflow, "execution_id": "e", "inputs": inputs });
        let reply = server.done("workflow.start", arguments);
        let current = server.current("e");
        Self { project, server, reply, current }
    }

    /// Hands in the output of the step that must be open.
    #[track_caller]
    pub(crate) fn hand(&mut self, step: &str, output: Value) {
        self.at(step);
        let token = self.current["continuation_token"].clone();
        self.reply = self.server.hand_in(&token, output);
        self.current = self.server.current("e");
    }

    /// Tries to, and is refused: the violations, each `field rule`.
    #[track_caller]
    pub(crate) fn refuse(&mut self, step: &str, output: Value) -> Vec<String> {
        self.at(step);
        let token = self.current["continuation_token"].clone();
        let refused = self.server.refuse(&token, output);
        assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID", "{refused}");
        self.current = self.server.current("e");
        let told = |violation: &Value| {
            let field = text(&violation["path"]).rsplit(['/', '.']).next();
            format!("{} {}", field.unwrap(), text(&violation["rule"]))
        };
        let violations = refused["violations"].as_array().unwrap();
        violations.iter().map(told).collect()
    }

    /// The step that the model works on now.
    #[track_caller]
    pub(crate) fn at(&self, step: &str) {
        assert_eq!(self.current["current_step"], step, "{}", self.current);
    }

    /// What that step works on.
    pub(crate) fn input(&self) -> &Value {
        &self.current["input"]
    }

    /// What the model is told to do in it.
    #[track_caller]
    pub(crate) fn told(&self, words: &str) {
        let told = text(&self.current["instructions"]);
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }

    /// The names of the inputs that are asked for now.
    pub(crate) fn asked(&self) -> Vec<&str> {
        let properties = self.input()["properties"].as_array().unwrap();
        properties.iter().map(|property| text(&property["name"])).collect()
    }

    /// The server is killed, and another takes its place.
    pub(crate) fn crash(&mut self) {
        self.server.kill();
        self.server = self.project.serve();
        let before = std::mem::take(&mut self.current);
        self.current = self.server.current("e");
        for field in ["current_step", "continuation_token", "input", "inputs"] {
            assert_eq!(self.current[field], before[field], "{field}");
        }
    }

    /// The steps that were done, in their order, those that somebody had a part in.
    pub(crate) fn path(&mut self) -> String {
        let quiet =
            ["sent_back", "verdict", "heed", "remember", "objected", "again", "accept", "refuse"];
        let history = self.server.history("e");
        let done = history.iter().filter(|row| row["status"] == "completed");
        let steps: Vec<_> =
            done.map(|row| text(&row["step_name"])).filter(|step| !quiet.contains(step)).collect();
        steps.join(" ")
    }

    /// What the completed execution came to; the reply and the status say the same.
    #[track_caller]
    pub(crate) fn completed(&mut self) -> Value {
        assert_eq!(self.reply["workflow_state"], "completed", "{}", self.reply);
        let status = self.server.status("e");
        assert_eq!(status["state"], "completed");
        assert_eq!(status["final_output"], self.reply["final_output"]);
        status["final_output"].clone()
    }

    /// The code and the words of the failure that it ended with.
    #[track_caller]
    pub(crate) fn failed(&mut self) -> (String, String) {
        assert_eq!(self.reply["workflow_state"], "failed", "{}", self.reply);
        let error = self.server.status("e")["error"].clone();
        (text(&error["code"]).to_owned(), text(&error["message"]).to_owned())
    }
}
