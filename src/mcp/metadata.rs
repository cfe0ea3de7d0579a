//! Metadata that results have since protocol version 2026-07-28: the server that produced them, and how long they may
//! be cached. Clients of earlier versions get the server's identity in the handshake and do not know cache hints, so
//! their results have neither.

use std::{sync::LazyLock, time::Duration};

use rmcp::{
    RoleServer,
    model::{
        CacheScope, CallToolResult, CompleteResult, DiscoverResult, GetPromptResult,
        GetSkillResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListSkillsResult, ListToolsResult, MetaObject, ProtocolVersion,
        ReadResourceResult, ServerCapabilities,
    },
    service::RequestContext,
};
use serde_json::Value;

use midex_domain::limits;

/// How long a result stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheHint {
    /// The result depends on files or executions, so it may change at any time.
    UntilChange,
    /// The result cannot change while the server runs.
    ServerLifetime,
    /// The result can never change.
    Forever,
}

impl CacheHint {
    /// The time to live in milliseconds.
    pub(super) fn ttl_ms(self) -> u64 {
        let lifetime = match self {
            Self::UntilChange => Duration::ZERO,
            Self::ServerLifetime => limits::KEPT_WITH_SERVER,
            Self::Forever => limits::KEPT_FOR_GOOD,
        };
        u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A result that can identify its server.
pub(super) trait HasMetadata {
    fn meta(&mut self) -> &mut Option<MetaObject>;
}

/// A result that can have a cache hint.
pub(super) trait Cacheable: HasMetadata + Sized {
    #[must_use]
    fn with_cache_control(self, ttl_ms: u64, scope: CacheScope) -> Self;
}

macro_rules! has_metadata {
    ($($result:ty),+) => {
        $(impl HasMetadata for $result {
            fn meta(&mut self) -> &mut Option<MetaObject> { &mut self.meta }
        })+
    };
}

macro_rules! cacheable {
    ($($result:ty),+) => {
        has_metadata!($($result),+);
        $(impl Cacheable for $result {
            fn with_cache_control(self, ttl_ms: u64, scope: CacheScope) -> Self {
                self.with_ttl_ms(ttl_ms).with_cache_scope(scope)
            }
        })+
    };
}

has_metadata!(CallToolResult, CompleteResult, GetPromptResult);
cacheable!(
    ListToolsResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListSkillsResult,
    GetSkillResult,
    ReadResourceResult
);

/// The identity of this server.
pub(super) fn build_server_identity() -> Implementation {
    Implementation::new("midex", env!("CARGO_PKG_VERSION")).with_title("midex")
}

/// Adds the server's identity to a result, if the client's protocol version has it.
pub(super) fn with_metadata<R: HasMetadata>(result: R, context: &RequestContext<RoleServer>) -> R {
    if has_modern_metadata(context) { with_server_identity(result) } else { result }
}

/// Metadata that says that there are several options, and names the tool of the first one.
pub(super) fn build_branching_metadata(suggested: Option<&str>) -> Option<MetaObject> {
    let tool = suggested?;
    let mut meta = MetaObject::default();
    meta.0.insert("branchingEnabled".into(), true.into());
    meta.0.insert("suggestedNextTool".into(), tool.into());
    Some(meta)
}

/// The tool of the first option in an answer, or in the resource content that it contains.
pub(super) fn find_suggested_tool(answer: &Value) -> Option<&str> {
    let content = answer.get("content");
    let options = answer.get("nextStepOptions");
    let options = options.or_else(|| content?.get("nextStepOptions"))?;
    options.get(0)?.get("toolName")?.as_str()
}

/// Adds the server's identity to a result.
pub(super) fn with_server_identity<R: HasMetadata>(mut result: R) -> R {
    // rmcp signs one kind of result itself. Take the format of the signature from it.
    static SERVER_IDENTITY: LazyLock<MetaObject> = LazyLock::new(|| {
        let discover_result = DiscoverResult::new(Vec::new(), ServerCapabilities::default());
        let discover_result = discover_result.with_server_info(build_server_identity());
        discover_result.meta.unwrap_or_default()
    });
    let meta = result.meta().get_or_insert_default();
    meta.0.extend(SERVER_IDENTITY.0.clone());
    result
}

/// Adds the server's identity and a cache hint to a result. Every result is private to this user.
pub(super) fn with_cache_hint<R: Cacheable>(
    result: R,
    cache_hint: CacheHint,
    context: &RequestContext<RoleServer>,
) -> R {
    let result = with_metadata(result, context);
    if has_modern_metadata(context) {
        result.with_cache_control(cache_hint.ttl_ms(), CacheScope::Private)
    } else {
        result
    }
}

/// Whether the request's protocol version has this metadata.
pub(super) fn has_modern_metadata(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| is_modern_version(version.as_str()))
}

/// Whether a protocol version has this metadata.
pub(super) fn is_modern_version(version: &str) -> bool {
    version >= ProtocolVersion::V_2026_07_28.as_str()
}
