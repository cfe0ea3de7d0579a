//! The server: rmcp's requests, answered by tools and resources.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResponse, CompleteRequestParams,
        CompleteResult, CompletionInfo, CustomRequest, CustomResult, ErrorCode, Implementation,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
        ResourceContents, ServerCapabilities, ServerConfig, Tool,
    },
    service::{QuitReason, RequestContext, ServerInitializeError, serve_server_with_ct},
};
use tokio_util::sync::CancellationToken;

use super::{answer, guard::guarded, resources, tools, transport::LineTransport};
use crate::{
    app::App,
    error::{Error, Result},
};

/// What a client is told at the handshake.
const INSTRUCTIONS: &str = "midex leads you through workflows step by step and keeps your place through restarts.\n\
    1. Read midex://workflow/available_workflows and choose a workflow.\n\
    2. Call workflow.start {workflow_name}. Take the persona in agent_content and do the step.\n\
    3. Call workflow.next_step {token, output} with the token you were given, and go on with the step it returns, \
    until workflow_state is completed.\n\
    Where new_tokens lists several steps, they are independent: finish each with its own token, in any order.\n\
    If you lost your place, call execution.resume without arguments: it tells what was going on, with live tokens;\n\
    midex://workflow/current_step/{execution_id} has the persona of the current step.\n\
    If a reply was lost, send the same call again: it is answered as the first time (a start: only with an \
    execution_id of your own).\n\
    A persona you still have need not be sent again: name its agent in known_agents.\n\
    Every error names the one right next call in suggested_action.";

/// Methods that this server knows: a request for one of them that rmcp cannot decode has bad parameters.
const KNOWN_METHODS: &[&str] = &[
    "initialize",
    "server/discover",
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "completion/complete",
];

/// After the client has gone, how long rmcp may take to notice.
const LAST_FLUSH: Duration = Duration::from_millis(50);

/// What answers one client. All of them share the app.
#[derive(Clone, Debug)]
pub struct Server {
    app: Arc<App>,
}

impl Server {
    /// Answers one client.
    pub fn new(app: Arc<App>) -> Self {
        Self { app }
    }
}

/// Serves the process's own standard streams until the client goes or `stop` is cancelled.
pub async fn serve_stdio(handler: impl ServerHandler, stop: CancellationToken) -> Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve(handler, LineTransport::new(input, output), stop).await
}

/// Serves one client until it goes or `stop` is cancelled. Pending replies leave first.
pub async fn serve(
    handler: impl ServerHandler,
    transport: LineTransport,
    stop: CancellationToken,
) -> Result<()> {
    let gone = transport.gone();
    match serve_server_with_ct(handler, transport, stop).await {
        Ok(running) => tokio::select! {
            quit = running.waiting() => match quit {
                Ok(QuitReason::JoinError(error)) | Err(error) => {
                    Err(Error::internal("the client's session broke off").because(error))
                }
                Ok(_) => Ok(()),
            },
            // rmcp would wait longer for calls that nobody awaits any more.
            () = async { gone.cancelled().await; tokio::time::sleep(LAST_FLUSH).await } => Ok(()),
        },
        // A client that only looks whether somebody is there, or goes before the handshake.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        // The error holds the client's message, which is none of the log's business.
        Err(_) => Err(Error::internal(
            "the handshake failed: the client did not keep to the protocol",
        )),
    }
}

/// What is listed at start-up (S0), with where the server runs.
pub fn start_up_lines(places: &[String]) -> [String; 3] {
    let templates = resources::templates();
    let names = resources::list().into_iter().map(|resource| resource.name);
    let names: BTreeSet<_> = names
        .chain(templates.into_iter().map(|template| template.name))
        .collect();
    let shown: Vec<_> = names.iter().map(String::as_str).collect();
    let tools = tools::names();
    [
        format!(
            "midex v{} running on {}",
            env!("CARGO_PKG_VERSION"),
            places.join(" and ")
        ),
        format!("Resources: {} ({})", shown.len(), shown.join(", ")),
        format!("Tools: {} ({})", tools.len(), tools.join(", ")),
    ]
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_completions()
            .build();
        let implementation =
            Implementation::new("midex", env!("CARGO_PKG_VERSION")).with_title("midex");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::listed(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ids = self.app.ids();
        let tool =
            tools::find(&request.name).map_err(|error| answer::fault(&error, "tools/call", ids))?;
        let arguments = request.arguments.unwrap_or_default();
        let answer = match guarded(tool.call(&self.app, arguments)).await {
            Ok(value) => answer::success(value),
            Err(error) => answer::refusal(&error, tool.name(), ids),
        };
        Ok(answer.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = guarded(resources::read(&self.app, &request.uri)).await;
        let text = text.map_err(|error| answer::fault(&error, "resources/read", self.app.ids()))?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let ids = self.app.ids();
        let reference = match &request.r#ref {
            Reference::Resource(template) => template.uri.as_str(),
            // A prompt, of which there are none yet, or what a later protocol refers to.
            other => other.as_prompt_name().unwrap_or_default(),
        };
        let given = request
            .context
            .and_then(|context| context.arguments)
            .unwrap_or_default();
        let ArgumentInfo { name, value, .. } = &request.argument;
        let values = guarded(resources::complete(
            &self.app, reference, name, value, &given,
        ))
        .await;
        let mut values =
            values.map_err(|error| answer::fault(&error, "completion/complete", ids))?;
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let mut info = CompletionInfo::default();
        (info.total, info.has_more) = (u32::try_from(total).ok(), Some(total > values.len()));
        info.values = values;
        Ok(CompleteResult::new(info))
    }

    /// rmcp takes a request of a known method with parameters it cannot decode for an unknown one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = &request.method;
        if KNOWN_METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(
                format!("malformed params for {method}"),
                None,
            ));
        }
        let shown: String = method.chars().take(80).collect();
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("Method not found: {shown}"),
            None,
        ))
    }
}
