//! midex beside the server of an embedding program, as a client of rmcp sees both over one connection.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex::{
    App, Config, Options, SteadyClock, SystemIds,
    mcp::{Beside, LineTransport, Server, serve},
    store::MemoryStore,
};
use midex_domain::limits;
use midex_server::config::TrustedProjects;
use rmcp::{
    ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
        ClientConfig, CompleteRequestParams, CompleteResult, CompletionInfo,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, Resource,
        ResourceContents, ResourceTemplate, Role, ServerCapabilities, ServerConfig,
        ServerNotification, SubscribeRequestParams, SubscriptionFilter, Tool,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The one task of the program.
const OWN_TASK: &str = "task of the program";

/// A name of midex that the program uses too.
const CLASHING_TOOL: &str = "workflow.list";

/// The server of a program: three tools on three pages, a prompt, a resource and a template.
#[derive(Clone, Default)]
struct Own {
    subscribed: Arc<Mutex<Vec<String>>>,
    initialized: Arc<AtomicUsize>,
    /// Whether the list of tools has no end.
    is_endless: bool,
    /// How many pages of tools were read.
    pages: Arc<AtomicUsize>,
}

fn tool(name: &'static str) -> Tool {
    Tool::new(
        name,
        "A tool of the program",
        Arc::new(Map::from_iter([("type".into(), json!("object"))])),
    )
}

type Answer<T> = Result<T, ErrorData>;
type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl ServerHandler for Own {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("own", "7"))
            .with_instructions("Instructions of the program.")
    }

    async fn list_tools(&self, request: Page, _: Context) -> Answer<ListToolsResult> {
        const NAMES: [&str; 3] = ["own_first", CLASHING_TOOL, "own_last"];
        self.pages.fetch_add(1, Ordering::SeqCst);
        let cursor = request.and_then(|request| request.cursor);
        let at = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let mut page = ListToolsResult::with_all_items(vec![tool(NAMES[at % 3])]);
        let has_more = self.is_endless || at + 1 < NAMES.len();
        page.next_cursor = has_more.then(|| (at + 1).to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: Context,
    ) -> Answer<CallToolResponse> {
        Ok(CallToolResult::structured(json!({ "own": request.name })).into())
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Answer<ListPromptsResult> {
        let prompt = Prompt::new("own_prompt", Some("A prompt of the program"), None);
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Answer<GetPromptResponse> {
        let message = PromptMessage::new_text(Role::User, format!("text of {}", request.name));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Answer<ListResourcesResult> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("own://page", "page")]))
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        _: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        let template = ResourceTemplate::new("own://page/{name}", "pages");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Answer<ReadResourceResponse> {
        let contents = ResourceContents::text("text of the program", request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Answer<CompleteResult> {
        let mut info = CompletionInfo::default();
        info.values = vec!["own value".into()];
        Ok(CompleteResult::new(info))
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Answer<()> {
        self.subscribed.lock().unwrap().push(request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: rmcp::service::SubscriptionContext) -> Answer<()> {
        context.sink().notify_tool_list_changed().await.unwrap();
        context.cancelled().await;
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Answer<GetTaskResult> {
        if request.task_id != OWN_TASK {
            return Err(ErrorData::invalid_params("no task of the program", None));
        }
        let task = json!({
            "taskId": OWN_TASK, "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null,
        });
        Ok(GetTaskResult::new(serde_json::from_value(task).unwrap()))
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.initialized.fetch_add(1, Ordering::SeqCst);
    }
}

/// A client that notes the lists that have changed.
struct Listener(mpsc::UnboundedSender<&'static str>);

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_tasks().build();
        ClientConfig::new(capabilities, Implementation::new("listener", "1"))
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.0.send("prompts");
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.0.send("resources");
    }
}

/// A server with a workflow `w` beside the program, and a client of it.
struct Connection {
    home: TempDir,
    app: Arc<App>,
    client: RunningService<RoleClient, Listener>,
    changes: mpsc::UnboundedReceiver<&'static str>,
}

impl Connection {
    async fn open(own: Own, lifecycle: ClientLifecycleMode) -> Self {
        let home = TempDir::new().unwrap();
        let mut config = Config::new(Some(home.path().join("data"))).unwrap();
        home.path().clone_into(&mut config.project_dir);
        config.trust = TrustedProjects::Everything;
        let options = Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds));
        let store = Some(Arc::new(MemoryStore::new()) as Arc<_>);
        let app = Arc::new(App::with_options(Options { store, ..options }));
        let (near, far) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(far);
        let server = Beside::new(Server::new(app.clone()), own);
        tokio::spawn(serve(server, LineTransport::new(read, write), CancellationToken::new()));
        let (sender, changes) = mpsc::unbounded_channel();
        let client = serve_client_with_lifecycle(Listener(sender), near, lifecycle).await.unwrap();
        let connection = Self { home, app, client, changes };
        connection.write_workflow("w").await;
        connection
    }

    /// Writes a workflow file, and has midex read it.
    async fn write_workflow(&self, name: &str) {
        let directory = self.home.path().join("workflows");
        fs::create_dir_all(&directory).unwrap();
        let text = format!(
            "workflow: {name}\ndescription: d\nsteps:\n  - {{ id: ask, guidance: Say yes., result: {{}} }}\n"
        );
        fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
        let app = self.app.clone();
        tokio::task::spawn_blocking(move || app.definitions().reload()).await.unwrap();
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        let request = CallToolRequestParams::new(name.to_owned())
            .with_arguments(arguments.as_object().cloned().unwrap());
        let result = self.client.call_tool(request).await.unwrap();
        assert_ne!(result.is_error, Some(true), "{result:?}");
        result.structured_content.unwrap()
    }

    async fn read(&self, uri: &str) -> String {
        let read = self.client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        json!(read.contents)[0]["text"].as_str().unwrap().to_owned()
    }

    async fn complete(&self, reference: Reference, argument: &str) -> Vec<String> {
        let argument = ArgumentInfo::new(argument, "");
        let request = CompleteRequestParams::new(reference, argument);
        self.client.complete(request).await.unwrap().completion.values
    }
}

/// The two ways in which clients begin.
fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

#[tokio::test]
async fn lists_have_what_the_program_has_and_then_what_midex_has() {
    for lifecycle in lifecycles() {
        let connection = Connection::open(Own::default(), lifecycle).await;
        let client = &connection.client;
        let info = client.peer_info().unwrap();
        assert_eq!(info.server_info.as_ref().unwrap().name, "own");
        let instructions = info.instructions.clone().unwrap();
        assert!(instructions.starts_with("Instructions of the program.\n\n"), "{instructions}");
        assert!(instructions.contains("workflow"), "{instructions}");
        let capabilities = json!(info.capabilities);
        assert_eq!(capabilities["tools"]["listChanged"], true);
        assert_eq!(capabilities["resources"]["subscribe"], true);
        assert!(info.capabilities.supports_tasks() && info.capabilities.completions.is_some());

        let first = client.list_tools(None).await.unwrap();
        assert_eq!(first.tools.len(), 1);
        assert!(first.next_cursor.is_some());
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names[..3], ["own_first", CLASHING_TOOL, "own_last"]);
        assert!(names.contains(&"workflow.start"), "{names:?}");
        let clashing = tools.iter().filter(|tool| tool.name == CLASHING_TOOL);
        let clashing: Vec<_> = clashing.filter_map(|tool| tool.description.as_deref()).collect();
        assert_eq!(clashing, ["A tool of the program"]);

        let prompts = client.list_all_prompts().await.unwrap();
        assert_eq!(prompts[0].name, "own_prompt");
        assert!(prompts.iter().any(|prompt| prompt.name == "run.w"), "{prompts:?}");
        let resources = client.list_all_resources().await.unwrap();
        assert_eq!(resources[0].uri, "own://page");
        assert!(resources.iter().any(|one| one.uri.starts_with("midex://")), "{resources:?}");
        let templates = client.list_all_resource_templates().await.unwrap();
        assert_eq!(templates[0].uri_template, "own://page/{name}");
        assert!(templates.len() > 1);
    }
}

#[tokio::test]
async fn requests_go_to_the_server_that_has_what_they_name() {
    for lifecycle in lifecycles() {
        let connection = Connection::open(Own::default(), lifecycle).await;
        let client = &connection.client;
        for name in ["own_first", CLASHING_TOOL, "own_last"] {
            assert_eq!(connection.call(name, json!({})).await, json!({ "own": name }));
        }
        let unknown = client.call_tool(CallToolRequestParams::new("nobody")).await.unwrap_err();
        assert!(unknown.to_string().contains("nobody"), "{unknown}");

        let prompt = async |name: &str| {
            let prompt = client.get_prompt(GetPromptRequestParams::new(name)).await.unwrap();
            json!(prompt.messages).to_string()
        };
        assert!(prompt("own_prompt").await.contains("text of own_prompt"));
        assert!(prompt("run.w").await.contains("workflow"));
        assert_eq!(connection.read("own://page").await, "text of the program");
        assert_eq!(connection.read("own://page/of/a/template").await, "text of the program");
        let workflows = connection.read("midex://workflow/available_workflows").await;
        assert!(workflows.contains("\"w\""), "{workflows}");

        let own = Reference::for_prompt("own_prompt");
        assert_eq!(connection.complete(own, "any").await, ["own value"]);
        let own = Reference::for_resource("own://page/{name}");
        assert_eq!(connection.complete(own, "name").await, ["own value"]);
        let midex = Reference::for_resource("midex://workflow/workflow_details/{workflow_name}");
        let completed = connection.complete(midex, "workflow_name").await;
        assert!(completed.contains(&"w".to_owned()), "{completed:?}");
    }
}

#[tokio::test]
async fn an_execution_goes_from_its_start_to_its_end() {
    for lifecycle in lifecycles() {
        let connection = Connection::open(Own::default(), lifecycle).await;
        let started = connection.call("workflow.start", json!({ "workflow_name": "w" })).await;
        let next = json!({ "token": started["new_token"], "output": "yes" });
        let ended = connection.call("workflow.next_step", next).await;
        assert_eq!(ended["workflow_state"], "completed", "{ended}");
        let id = started["execution_id"].as_str().unwrap();
        let status = connection.read(&format!("midex://workflow/workflow_status/{id}")).await;
        assert!(status.contains("completed"), "{status}");
    }
}

/// midex answers for its tasks, and the program for the one that it has.
#[tokio::test]
async fn tasks_are_those_of_the_server_that_knows_them() {
    let [_, discover] = lifecycles();
    let connection = Connection::open(Own::default(), discover).await;
    let started = connection.call("workflow.start", json!({ "workflow_name": "w" })).await;
    let task = async |id: &str| {
        let task = connection.client.get_task(GetTaskParams::new(id)).await;
        task.map(|task| json!(task)["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(task(OWN_TASK).await.unwrap(), "working");
    // The task ends where the model has its turn.
    assert_eq!(task(started["execution_id"].as_str().unwrap()).await.unwrap(), "completed");
    let unknown = task("nobody").await.unwrap_err().to_string();
    assert!(unknown.contains("nobody"), "{unknown}");
}

#[tokio::test]
#[expect(deprecated, reason = "clients with a handshake subscribe so")]
async fn a_client_with_a_handshake_is_told_of_changes_and_subscribes_to_both() {
    let own = Own::default();
    let mut connection = Connection::open(own.clone(), ClientLifecycleMode::Initialize).await;
    connection.write_workflow("other").await;
    let change = tokio::time::timeout(Duration::from_secs(20), connection.changes.recv()).await;
    assert!(change.unwrap().is_some());
    for uri in ["own://page", "midex://workflow/available_workflows"] {
        connection.client.subscribe(SubscribeRequestParams::new(uri)).await.unwrap();
    }
    assert_eq!(*own.subscribed.lock().unwrap(), ["own://page"]);
    assert_eq!(own.initialized.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_listen_has_the_notifications_of_both() {
    let [_, discover] = lifecycles();
    let connection = Connection::open(Own::default(), discover).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed();
    let mut listen = connection.client.listen(filter.build()).await.unwrap();
    let mut next = async || {
        tokio::time::timeout(Duration::from_secs(20), listen.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    };
    let of_own = next().await;
    assert!(matches!(of_own, ServerNotification::ToolListChangedNotification(_)), "{of_own:?}");
    connection.write_workflow("other").await;
    let of_midex = next().await;
    let is_prompts = matches!(of_midex, ServerNotification::PromptListChangedNotification(_));
    assert!(is_prompts, "{of_midex:?}");
}

#[tokio::test]
async fn a_list_of_the_program_without_an_end_is_read_up_to_the_limit() {
    let own = Own { is_endless: true, ..Own::default() };
    let connection = Connection::open(own.clone(), ClientLifecycleMode::Initialize).await;
    let started = connection.call("workflow.start", json!({ "workflow_name": "w" })).await;
    assert_eq!(started["workflow_state"], "running");
    assert_eq!(own.pages.load(Ordering::SeqCst), limits::OWN_LIST_PAGES_MAX);
}
