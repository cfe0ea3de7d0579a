//! The MCP server: implements rmcp's requests with tools, resources and prompts.

mod beside;
mod exposed;
mod methods;
mod runs;
mod session;
mod session_tasks;
mod task_watch;
mod tool_call;

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest, CustomResult,
        DiscoverResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
        PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        Reference, ResourceContents, Role, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext, SubscriptionSink},
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use self::beside::Beside;
use self::methods::is_known_method;
pub use self::session::{format_startup_lines, serve, serve_stdio};
use self::{task_watch::TaskWatches, tool_call::ToolCallInfo};
use super::{
    answer,
    elicitation::{
        CallOutcome, ConfirmationOutcome, InteractiveCall, ask_pending_questions,
        build_trust_confirmation,
    },
    guard::catch_panic_as_error,
    metadata::{
        CacheHint, build_branching_metadata, build_server_identity, find_suggested_tool,
        has_modern_metadata, with_cache_hint, with_metadata,
    },
    page::paginate,
    profile::ToolProfile,
    prompts::PromptOffer,
    resources, splice,
    subscriptions::{ListenLimit, Subscriptions},
    tools::{self, ToolSpec, ToolWork, Toolset, personas::read_known_agents},
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::App;

/// The outcome of a tool call.
enum ToolCallOutcome {
    /// Its result.
    Answered(Box<CallToolResult>),
    /// A request for input from the user.
    NeedsInput(Box<CallToolResponse>),
}

/// The server for one client. All servers share the app.
#[derive(Clone, Debug)]
pub struct Server {
    app: Arc<App>,
    profile: ToolProfile,
    subscriptions: Arc<Subscriptions>,
    task_watches: TaskWatches,
}

impl Server {
    /// A server for one client, with all tools, spelled as the client accepts them.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_listen_limit(app, ListenLimit::for_one_client())
    }

    /// A server for one client or one request, whose listens share a limit with those of others.
    pub fn with_listen_limit(app: Arc<App>, listen_limit: ListenLimit) -> Self {
        Self {
            subscriptions: Arc::new(Subscriptions::new(app.clone(), listen_limit)),
            profile: ToolProfile::default(),
            task_watches: TaskWatches::default(),
            app,
        }
    }

    /// A server for midex's own commands, with every tool under its dotted name.
    pub fn for_commands(app: Arc<App>) -> Self {
        Self::new(app).with_profile(ToolProfile::ALL_TOOLS_DOTTED)
    }

    /// The same server with this profile.
    #[must_use]
    pub fn with_profile(self, profile: ToolProfile) -> Self {
        Self { profile, ..self }
    }

    /// The outcome of a request of this method. A panic in it becomes an error response.
    async fn answer_request<T>(
        &self,
        method: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T, ErrorData> {
        match catch_panic_as_error(work).await {
            Ok(done) => Ok(done),
            Err(error) => {
                let error = self.app.explain_error(error).await;
                Err(answer::build_error_data(&error, method, self.app.ids()))
            }
        }
    }

    /// Runs a tool. If a start is refused because its project is not trusted, asks the user to trust it, if the client
    /// can ask. Unless the user agrees, the refusal is returned.
    async fn run_tool_with_trust(
        &self,
        tool: &ToolSpec,
        arguments: Map<String, Value>,
        call: InteractiveCall<'_>,
    ) -> Result<ToolCallOutcome> {
        let retry_call = call.clone();
        let refusal = match self.run_tool(tool, arguments.clone(), call).await {
            Err(error) if error.code() == Code::ProjectNotTrusted => error,
            worked => return worked,
        };
        match retry_call.clone().ask_confirmation(build_trust_confirmation(&refusal)).await {
            Ok(ConfirmationOutcome::Agreed(_)) => {
                self.app.trust_project().await?;
                self.run_tool(tool, arguments, retry_call).await
            }
            Ok(ConfirmationOutcome::Pending(needs)) => Ok(ToolCallOutcome::NeedsInput(needs)),
            Err(_) => Err(refusal),
        }
    }

    /// Runs a tool, and asks the user for everything that its execution then waits for.
    async fn run_tool(
        &self,
        tool: &ToolSpec,
        arguments: Map<String, Value>,
        call: InteractiveCall<'_>,
    ) -> Result<ToolCallOutcome> {
        let advance_fn = match tool.work() {
            ToolWork::Answer(answer) => {
                let arguments = tool.check_arguments(arguments)?;
                if let Some(uri) = tool.resource_address(&arguments) {
                    resources::check_resource_offered(uri, self.profile.toolsets)?;
                }
                let view = answer(&self.app, arguments).await?;
                let suggested_tool = find_suggested_tool(&view);
                return build_call_result(&view, suggested_tool, call.context);
            }
            ToolWork::Confirmed(confirm, answer) => {
                let mut arguments = tool.check_arguments(arguments)?;
                let (context, mut requester) = (call.context, self.app.requester());
                if let Some(mut question) = confirm(&self.app, arguments.clone()).await? {
                    let version = question.version.take();
                    match call.ask_confirmation(question).await? {
                        ConfirmationOutcome::Agreed(asked) => requester = asked,
                        ConfirmationOutcome::Pending(needs) => {
                            return Ok(ToolCallOutcome::NeedsInput(needs));
                        }
                    }
                    arguments.extend(version.map(|it| ("expected_version".into(), it.into())));
                }
                let app = self.app.for_requester(requester);
                return build_call_result(&answer(&app, arguments).await?, None, context);
            }
            ToolWork::Run(start) => {
                return self.run_to_rest(tool, start, arguments, call).await;
            }
            ToolWork::Advance(advance) => advance,
        };
        let (known_agents, context) = (read_known_agents(&arguments), call.context);
        let reply = match call.find_started_execution() {
            Ok(Some(id)) => self.app.advanced_status(&id).await,
            Ok(None) => match tool.check_arguments(arguments) {
                Ok(arguments) => advance_fn(&self.app, arguments).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match Box::pin(ask_pending_questions(call, reply)).await {
            CallOutcome::NeedsInput(needs) => Ok(ToolCallOutcome::NeedsInput(needs)),
            CallOutcome::Answered(reply) => {
                let mut reply = (*reply)?;
                reply.omit_known_persona(&known_agents);
                let first_option = reply.next_step_options.first();
                build_call_result(
                    &reply,
                    first_option.map(|option| option.tool_name.as_str()),
                    context,
                )
            }
        }
    }

    /// Sends the notifications of a listen until it is cancelled.
    async fn send_notices(
        &self,
        sink: &SubscriptionSink,
        requested: &SubscriptionFilter,
        cancellation: &CancellationToken,
    ) -> Result<(), ErrorData> {
        let listen = self.subscriptions.listen(sink, requested, cancellation);
        self.answer_request("subscriptions/listen", listen).await
    }

    /// Completes once the caller has cancelled the request. During a shutdown it never completes, since requests in
    /// progress are finished then.
    async fn wait_for_cancellation(&self, context: &RequestContext<RoleServer>) {
        context.ct.cancelled().await;
        if self.app.stop_token().is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// The error of a request for something that does not exist, with the code that extensions use in all protocol versions.
fn as_invalid_params(error: ErrorData) -> ErrorData {
    match error.code {
        ErrorCode::RESOURCE_NOT_FOUND => ErrorData::invalid_params(error.message, error.data),
        _ => error,
    }
}

/// The result of a call that answers with `view` and suggests this tool.
fn build_call_result(
    view: &impl Serialize,
    suggested_tool: Option<&str>,
    context: &RequestContext<RoleServer>,
) -> Result<ToolCallOutcome> {
    let mut result = splice::build_spliced_result(view, context)?;
    result.meta = build_branching_metadata(suggested_tool);
    Ok(ToolCallOutcome::Answered(Box::new(result)))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_skills()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(build_server_identity())
            .with_instructions(self.profile.build_instructions(None))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.subscriptions.begin_handshake();
        let mut answer = self.negotiate_initialize(&request)?;
        answer.instructions = Some(self.profile.build_instructions(Some(&request.client_info)));
        Ok(answer)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let client = context.client_info();
        let instructions = self.profile.build_instructions(client.as_ref());
        let versions = self.supported_protocol_versions().into_owned();
        let info = self.get_info().with_instructions(instructions);
        let answer = DiscoverResult::from_server_info(versions, info);
        Ok(answer.with_ttl_ms(CacheHint::ServerLifetime.ttl_ms()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        const METHOD: &str = "tools/list";
        let listing = async {
            let client = context.client_info();
            let mut tools =
                self.profile.list_offered_tools(client.as_ref(), runs::declares_tasks(&context));
            if self.profile.toolsets.contains(Toolset::Run) {
                tools.extend(tools::list_exposed_tools(&self.app).await?);
            }
            paginate(METHOD, tools, |tool| &tool.name, request)
        };
        let page = self.answer_request(METHOD, listing).await?;
        let mut answer = ListToolsResult::with_all_items(page.items);
        answer.next_cursor = page.next;
        Ok(with_cache_hint(answer, CacheHint::UntilChange, &context))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.profile.find_tool(name).ok().and_then(ToolSpec::documented_tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !tools::is_own_tool(&request.name) {
            return Box::pin(self.call_exposed_tool(request, context)).await;
        }
        let tool = match self.profile.find_tool(&request.name) {
            Ok(tool) => tool,
            Err(error) => {
                return Err(answer::build_error_data(&error, "tools/call", self.app.ids()));
            }
        };
        let call = InteractiveCall::new(&self.app, &context, &request);
        let arguments = request.arguments.unwrap_or_default();
        let info = ToolCallInfo {
            tool: tool.name(),
            execution_id: tools::find_execution_id(&arguments),
            max_duration: tool.max_duration(&arguments),
            is_read_only: tool.is_read_only(),
        };
        // Boxed to keep the future small, since few calls ask the user.
        let work = Box::pin(self.run_tool_with_trust(tool, arguments, call));
        self.answer_tool_call(info, &context, work).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        const METHOD: &str = "prompts/list";
        let listing = async {
            let prompt_offer =
                PromptOffer::for_client(self.profile, context.client_info().as_ref());
            let all = prompt_offer.list_prompts(&*self.app.registry().await?);
            paginate(METHOD, all, |prompt| &prompt.name, request)
        };
        let page = self.answer_request(METHOD, listing).await?;
        let mut answer = ListPromptsResult::with_all_items(page.items);
        answer.next_cursor = page.next;
        Ok(with_cache_hint(answer, CacheHint::UntilChange, &context))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt_offer = PromptOffer::for_client(self.profile, context.client_info().as_ref());
        let arguments = request.arguments.unwrap_or_default();
        let build_prompt = prompt_offer.build_prompt_text(&self.app, &request.name, arguments);
        let text = self.answer_request("prompts/get", build_prompt).await?;
        let message = PromptMessage::new_text(Role::User, text);
        let answer = GetPromptResult::new(vec![message]);
        Ok(with_metadata(answer, &context).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        const METHOD: &str = "resources/list";
        let listing = async {
            let all =
                resources::list_resources(&*self.app.registry().await?, self.profile.toolsets);
            paginate(METHOD, all, |resource| &resource.uri, request)
        };
        let page = self.answer_request(METHOD, listing).await?;
        let mut answer = ListResourcesResult::with_all_items(page.items);
        answer.next_cursor = page.next;
        Ok(with_cache_hint(answer, CacheHint::UntilChange, &context))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        const METHOD: &str = "resources/templates/list";
        let listing = async {
            let all = resources::list_resource_templates(self.profile.toolsets);
            paginate(METHOD, all, |template| &template.uri_template, request)
        };
        let page = self.answer_request(METHOD, listing).await?;
        let mut answer = ListResourceTemplatesResult::with_all_items(page.items);
        answer.next_cursor = page.next;
        Ok(with_cache_hint(answer, CacheHint::ServerLifetime, &context))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read_resource = async {
            resources::check_resource_offered(&request.uri, self.profile.toolsets)?;
            Box::pin(resources::read_resource(&self.app, &request.uri, true)).await
        };
        let resource = self.answer_request("resources/read", read_resource).await?;
        let mut meta =
            build_branching_metadata(resource.content.suggested_tool()).unwrap_or_default();
        let contents = ResourceContents::text(resource.content.into_text(), request.uri);
        let mut contents = contents.with_mime_type(resource.media_type);
        let addresses = [("next", resource.next_uri), ("parts", resource.first_part_uri)];
        for (name, address) in addresses {
            let address = address.map(|address| (name.to_owned(), address.into()));
            meta.0.extend(address);
        }
        if !meta.0.is_empty() {
            contents = contents.with_meta(meta);
        }
        let answer = ReadResourceResult::new(vec![contents]);
        Ok(with_cache_hint(answer, resource.cache, &context).into())
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let listing = resources::list_skills(&self.app, self.profile.toolsets, request);
        let page = self.answer_request("skills/list", listing).await?;
        let mut answer = ListSkillsResult::with_all_items(page.items);
        answer.next_cursor = page.next;
        Ok(with_cache_hint(answer, CacheHint::UntilChange, &context))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let find_skill = resources::get_skill(&self.app, self.profile.toolsets, &request.uri);
        let skill = self.answer_request("skills/get", find_skill).await;
        let skill = skill.map_err(as_invalid_params)?;
        let answer = GetSkillResult::new(skill);
        Ok(with_cache_hint(answer, CacheHint::UntilChange, &context))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let read = Box::pin(self.read_task(&request.task_id, &context));
        self.answer_request("tasks/get", read).await.map_err(as_invalid_params)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let answer =
            Box::pin(self.answer_task(&request.task_id, request.input_responses, &context));
        self.answer_request("tasks/update", answer).await.map_err(as_invalid_params)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cancel = Box::pin(self.cancel_task_of(&request.task_id, &context));
        self.answer_request("tasks/cancel", cancel).await.map_err(as_invalid_params)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.subscriptions.start_notifications(&context.peer, &context.extensions);
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        const METHOD: &str = "resources/subscribe";
        let subscribe = async {
            let RequestContext { peer, extensions, .. } = &context;
            let result = self.subscriptions.subscribe(&request.uri, peer, extensions);
            result.map_err(|error| error.with_context("tool", METHOD))
        };
        self.answer_request(METHOD, subscribe).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(self.subscriptions.accept_listen(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let cancellation = &context.request_context().ct;
        self.send_notices(context.sink(), context.requested(), cancellation).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let reference = match &request.r#ref {
            Reference::Resource(template) => Ok(template.uri.as_str()),
            other => Err(other.as_prompt_name().unwrap_or_default()),
        };
        let known_values =
            request.context.and_then(|context| context.arguments).unwrap_or_default();
        let ArgumentInfo { name, value, .. } = &request.argument;
        let complete = async {
            match reference {
                Ok(uri) => {
                    let sets = self.profile.toolsets;
                    resources::complete_variable(&self.app, sets, uri, name, value, &known_values)
                        .await
                }
                Err(prompt) => {
                    let prompt_offer =
                        PromptOffer::for_client(self.profile, context.client_info().as_ref());
                    let values = prompt_offer.complete_argument(&self.app, prompt, name).await?;
                    Ok(resources::filter_by_prefix(values, value))
                }
            }
        };
        let mut values = self.answer_request("completion/complete", complete).await?;
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let mut info = CompletionInfo::default();
        (info.total, info.has_more) = (u32::try_from(total).ok(), Some(total > values.len()));
        info.values = values;
        Ok(with_metadata(CompleteResult::new(info), &context))
    }

    /// rmcp reports a known method with invalid parameters as an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if runs::is_session_task_request(&context) {
            return self.answer_session_task_request(request, context).await;
        }
        let method = &request.method;
        let short_method: String = method.chars().take(limits::NAME_SHOWN_CHARS).collect();
        let error = if is_known_method(method, has_modern_metadata(&context)) {
            let message = format!("malformed params for {short_method}");
            Error::new(Code::ParamsInvalid, message)
        } else {
            Error::new(Code::MethodNotFound, format!("Method not found: {short_method}"))
        };
        Err(answer::build_error_data(&error, "protocol", self.app.ids()))
    }
}
