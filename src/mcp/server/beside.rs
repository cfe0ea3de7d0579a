//! midex beside the tools, prompts and resources of an embedding program, in one server.

use std::{borrow::Cow, collections::BTreeSet};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        self, CustomRequest, CustomResult, DiscoverResult, ErrorCode, InitializeRequestParams,
        InitializeResult, PaginatedRequestParams, ProtocolVersion, Reference, ServerConfig,
        SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Server, runs, session_tasks::list_tools_with_task_support};
use crate::resources;
use midex_domain::limits;

/// The start of the cursors of `own` in lists. Cursors of midex have no colon.
const OWN_CURSOR_PREFIX: &str = "own:";

type Context = RequestContext<RoleServer>;
type Answer<T> = Result<T, ErrorData>;

/// A server with everything that midex and `own`, the server of an embedding program, have. Its identity is that of
/// `own`. Requests go to `own` if it lists the tool, prompt or resource that they name, and else to midex; notifications
/// go to both. A name that both have is that of `own`: lists leave out the one of midex, and the log warns.
#[derive(Clone, Debug)]
pub struct Beside<H> {
    midex: Server,
    own: H,
}

/// Defines methods that return the names of all items that `own` lists.
macro_rules! read_own_names {
    ($($read:ident: $list:ident, $items:ident.$name:ident;)*) => {
        $(async fn $read(&self, context: &Context) -> BTreeSet<String> {
            let (mut names, mut request) = (BTreeSet::new(), PaginatedRequestParams::default());
            for _ in 0..limits::OWN_LIST_PAGES_MAX {
                let page = self.own.$list(Some(request.clone()), context.clone()).await;
                let page = page.unwrap_or_default();
                names.extend(page.$items.into_iter().map(|item| item.$name.to_string()));
                request.cursor = page.next_cursor;
                if request.cursor.is_none() {
                    break;
                }
            }
            names
        })*
    };
}

/// Defines methods that list the items of `own`, and then those of midex. The last page of `own` and the first one of
/// midex are one page, since some clients read only the first page.
macro_rules! list_both {
    ($($list:ident -> $page:ident: $read_names:ident, $items:ident.$name:ident;)*) => {
        $(async fn $list(
            &self,
            request: Option<PaginatedRequestParams>,
            context: Context,
        ) -> Answer<model::$page> {
            let mut request = request.unwrap_or_default();
            let cursor = request.cursor.as_deref().unwrap_or(OWN_CURSOR_PREFIX);
            let mut own_page = model::$page::default();
            if let Some(cursor) = cursor.strip_prefix(OWN_CURSOR_PREFIX) {
                request.cursor = Some(cursor.to_owned()).filter(|cursor| !cursor.is_empty());
                own_page = match self.own.$list(Some(request.clone()), context.clone()).await {
                    Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => own_page,
                    listed => listed?,
                };
                if let Some(next) = own_page.next_cursor {
                    own_page.next_cursor = Some(format!("{OWN_CURSOR_PREFIX}{next}"));
                    return Ok(own_page);
                }
                request.cursor = None;
            }
            let own_names = self.$read_names(&context).await;
            let mut page = self.midex.$list(Some(request), context).await?;
            for hidden in page.$items.extract_if(.., |item| own_names.contains(&*item.$name)) {
                tracing::warn!(name = %hidden.$name, "midex and the program have the same name");
            }
            page.ttl_ms = page.ttl_ms.min(own_page.ttl_ms);
            // The page of midex names midex as its server.
            page.meta = own_page.meta;
            page.$items.splice(..0, own_page.$items);
            Ok(page)
        })*
    };
}

/// Defines methods whose request goes to `own` if `own` has the tool, prompt, resource or task in it, and else to midex.
macro_rules! answer_by_owner {
    ($($method:ident($params:ident) -> $answer:ty: $has:ident($name:ident);)*) => {
        $(async fn $method(&self, request: model::$params, context: Context) -> Answer<$answer> {
            if self.$has(&request.$name, &context).await {
                self.own.$method(request, context).await
            } else {
                self.midex.$method(request, context).await
            }
        })*
    };
}

/// Defines methods that pass a notification on to both servers.
macro_rules! notify_both {
    ($($method:ident($($params:ident: $type:ident)?);)*) => {
        $(async fn $method(&self, $($params: model::$type,)? context: NotificationContext<RoleServer>) {
            self.own.$method($($params.clone(),)? context.clone()).await;
            self.midex.$method($($params,)? context).await;
        })*
    };
}

impl<H: ServerHandler> Beside<H> {
    /// A server with everything that midex and `own` have.
    pub fn new(midex: Server, own: H) -> Self {
        Self { midex, own }
    }

    read_own_names! {
        read_own_tools: list_tools, tools.name;
        read_own_prompts: list_prompts, prompts.name;
        read_own_resources: list_resources, resources.uri;
        read_own_templates: list_resource_templates, resource_templates.uri_template;
        read_own_skills: list_skills, skills.uri;
    }

    async fn has_own_tool(&self, name: &str, context: &Context) -> bool {
        self.own.get_tool(name).is_some() || self.read_own_tools(context).await.contains(name)
    }

    async fn has_own_prompt(&self, name: &str, context: &Context) -> bool {
        self.read_own_prompts(context).await.contains(name)
    }

    async fn has_own_skill(&self, uri: &str, context: &Context) -> bool {
        self.read_own_skills(context).await.contains(uri)
    }

    /// Whether `own` lists a resource, or has resources and the address cannot be one of midex.
    async fn has_own_resource(&self, uri: &str, context: &Context) -> bool {
        let has_resources = self.own.get_info().capabilities.resources.is_some();
        (has_resources && !resources::has_known_scheme(uri))
            || self.read_own_resources(context).await.contains(uri)
    }

    async fn has_own_reference(&self, reference: &Reference, context: &Context) -> bool {
        let template = reference.as_resource_uri().unwrap_or_default();
        self.has_own_prompt(reference.as_prompt_name().unwrap_or_default(), context).await
            || self.read_own_templates(context).await.contains(template)
    }

    async fn has_own_task(&self, task_id: &str, context: &Context) -> bool {
        let request = model::GetTaskParams::new(task_id);
        self.own.get_info().capabilities.supports_tasks()
            && self.own.get_task(request, context.clone()).await.is_ok()
    }
}

/// Adds the capabilities and the instructions of midex to those of `own`: of two results of the same request.
fn merge_offers<T: Serialize + DeserializeOwned>(own: T, midex: &T) -> T {
    let (Ok(mut merged), Ok(mut midex)) = (serde_json::to_value(&own), serde_json::to_value(midex))
    else {
        return own;
    };
    let texts = [&merged, &midex].map(|result| result["instructions"].as_str().unwrap_or_default());
    merged["instructions"] = texts.join("\n\n").trim().into();
    merge_values(&mut merged["capabilities"], midex["capabilities"].take());
    serde_json::from_value(merged).unwrap_or(own)
}

/// Adds what `midex` has to `own`: entries of objects, and values where `own` has none or `false`.
fn merge_values(own: &mut Value, midex: Value) {
    match (own, midex) {
        (Value::Object(own), Value::Object(midex)) => {
            for (key, value) in midex {
                merge_values(own.entry(key).or_insert(Value::Null), value);
            }
        }
        (own @ (Value::Null | Value::Bool(false)), midex) => *own = midex,
        _ => {}
    }
}

#[expect(deprecated, reason = "clients with a handshake use these methods")]
impl<H: ServerHandler> ServerHandler for Beside<H> {
    fn get_info(&self) -> ServerConfig {
        merge_offers(self.own.get_info(), &self.midex.get_info())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.own.supported_protocol_versions()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Answer<InitializeResult> {
        let own = self.own.initialize(request.clone(), context.clone()).await?;
        Ok(merge_offers(own, &self.midex.initialize(request, context).await?))
    }

    async fn discover(&self, context: Context) -> Answer<DiscoverResult> {
        let own = self.own.discover(context.clone()).await?;
        Ok(merge_offers(own, &self.midex.discover(context).await?))
    }

    /// midex sends no log messages to clients.
    async fn set_level(
        &self,
        request: model::SetLevelRequestParams,
        context: Context,
    ) -> Answer<()> {
        self.own.set_level(request, context).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.own.get_tool(name).or_else(|| self.midex.get_tool(name))
    }

    list_both! {
        list_tools -> ListToolsResult: read_own_tools, tools.name;
        list_prompts -> ListPromptsResult: read_own_prompts, prompts.name;
        list_resources -> ListResourcesResult: read_own_resources, resources.uri;
        list_resource_templates -> ListResourceTemplatesResult: read_own_templates, resource_templates.uri_template;
        list_skills -> ListSkillsResult: read_own_skills, skills.uri;
    }

    answer_by_owner! {
        call_tool(CallToolRequestParams) -> model::CallToolResponse: has_own_tool(name);
        get_prompt(GetPromptRequestParams) -> model::GetPromptResponse: has_own_prompt(name);
        read_resource(ReadResourceRequestParams) -> model::ReadResourceResponse: has_own_resource(uri);
        subscribe(SubscribeRequestParams) -> (): has_own_resource(uri);
        unsubscribe(UnsubscribeRequestParams) -> (): has_own_resource(uri);
        get_skill(GetSkillRequestParams) -> model::GetSkillResult: has_own_skill(uri);
        complete(CompleteRequestParams) -> model::CompleteResult: has_own_reference(r#ref);
        get_task(GetTaskParams) -> model::GetTaskResult: has_own_task(task_id);
        update_task(UpdateTaskParams) -> (): has_own_task(task_id);
        cancel_task(CancelTaskParams) -> (): has_own_task(task_id);
    }

    /// midex has no directories.
    async fn read_resource_directory(
        &self,
        request: model::ReadResourceDirectoryRequestParams,
        context: Context,
    ) -> Answer<model::ReadResourceDirectoryResult> {
        self.own.read_resource_directory(request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        asked: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let midex = self.midex.accepted_subscription_filter(asked)?;
        let mut both = self.own.accepted_subscription_filter(asked).unwrap_or_default();
        both.tools_list_changed = both.tools_list_changed.max(midex.tools_list_changed);
        both.prompts_list_changed = both.prompts_list_changed.max(midex.prompts_list_changed);
        both.resources_list_changed = both.resources_list_changed.max(midex.resources_list_changed);
        let uris = both.resource_subscriptions.get_or_insert_default();
        uris.extend(midex.resource_subscriptions.unwrap_or_default());
        Some(both)
    }

    /// Sends the notifications of both servers until one of them ends the listen.
    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        let (sink, asked) = (context.sink().clone(), context.requested().clone());
        let cancellation = context.request_context().ct.clone();
        tokio::select! {
            ended = self.midex.send_notices(&sink, &asked, &cancellation) => ended,
            ended = self.own.listen(context) => ended,
        }
    }

    notify_both! {
        on_initialized();
        on_roots_list_changed();
        on_cancelled(notification: CancelledNotificationParam);
        on_progress(notification: ProgressNotificationParam);
        on_custom_notification(notification: CustomNotification);
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Answer<CustomResult> {
        if runs::is_session_task_request(&context) {
            let name = request.params.as_ref().and_then(|params| params["name"].as_str());
            let name = name.unwrap_or_default().to_owned();
            return match request.method.as_str() {
                "tools/list" => list_tools_with_task_support(self, request.params, context).await,
                "tools/call" if self.has_own_tool(&name, &context).await => {
                    let message = format!("`{name}` cannot be called as a task");
                    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
                }
                _ => self.midex.on_custom_request(request, context).await,
            };
        }
        match self.own.on_custom_request(request.clone(), context.clone()).await {
            Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                self.midex.on_custom_request(request, context).await
            }
            answer => answer,
        }
    }
}
