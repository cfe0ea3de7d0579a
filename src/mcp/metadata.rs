//! What results carry since 2026-07-28: whose they are, and how long they may be kept. A client of an earlier era was
//! told the one at its handshake and knows nothing of the other, so its results carry neither.

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

/// How long a result stays true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheHint {
    /// It follows files or executions: the next one may be another.
    Moment,
    /// It cannot change while the server lives.
    WithServer,
    /// It cannot change.
    ForGood,
}

impl CacheHint {
    /// In milliseconds.
    pub(super) fn ttl_ms(self) -> u64 {
        let time = match self {
            Self::Moment => Duration::ZERO,
            Self::WithServer => limits::KEPT_WITH_SERVER,
            Self::ForGood => limits::KEPT_FOR_GOOD,
        };
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A result that can say whose it is.
pub(super) trait HasMetadata {
    fn meta(&mut self) -> &mut Option<MetaObject>;
}

/// A result that can say how long it may be kept.
pub(super) trait Cacheable: HasMetadata + Sized {
    #[must_use]
    fn keep(self, ttl_ms: u64, scope: CacheScope) -> Self;
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
            fn keep(self, ttl_ms: u64, scope: CacheScope) -> Self {
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

/// Who answers.
pub(super) fn implementation() -> Implementation {
    Implementation::new("midex", env!("CARGO_PKG_VERSION")).with_title("midex")
}

/// The result of a request, with whose it is.
pub(super) fn with_metadata<R: HasMetadata>(result: R, context: &RequestContext<RoleServer>) -> R {
    if is_modern(context) {
        signed(result)
    } else {
        result
    }
}

/// What says that there is a choice: the tool of the option that comes first.
pub(super) fn branching(suggested: Option<&str>) -> Option<MetaObject> {
    let suggested = suggested?;
    let mut meta = MetaObject::default();
    meta.0.insert("branchingEnabled".into(), true.into());
    meta.0.insert("suggestedNextTool".into(), suggested.into());
    Some(meta)
}

/// The tool of the option that comes first in an answer, or in what it has read.
pub(super) fn suggested_tool(answer: &Value) -> Option<&str> {
    let read = answer.get("content");
    let options = answer.get("nextStepOptions");
    let options = options.or_else(|| read?.get("nextStepOptions"))?;
    options.get(0)?.get("toolName")?.as_str()
}

/// The result of a request of the era whose results say whose they are.
pub(super) fn signed<R: HasMetadata>(mut result: R) -> R {
    // rmcp knows how it is written, for the one result that it signs itself.
    static SIGNATURE: LazyLock<MetaObject> = LazyLock::new(|| {
        let signed = DiscoverResult::new(Vec::new(), ServerCapabilities::default());
        let signed = signed.with_server_info(implementation());
        signed.meta.unwrap_or_default()
    });
    let meta = result.meta().get_or_insert_default();
    meta.0.extend(SIGNATURE.0.clone());
    result
}

/// The result of a request, with whose it is and how long it may be kept. Everything is for this user alone.
pub(super) fn with_cache_hint<R: Cacheable>(
    result: R,
    fresh: CacheHint,
    context: &RequestContext<RoleServer>,
) -> R {
    let result = with_metadata(result, context);
    if is_modern(context) {
        result.keep(fresh.ttl_ms(), CacheScope::Private)
    } else {
        result
    }
}

/// Whether it is a request of the era whose results carry this.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| is_of_modern_era(version.as_str()))
}

/// Whether this version of the protocol is of that era.
pub(super) fn is_of_modern_era(version: &str) -> bool {
    version >= ProtocolVersion::V_2026_07_28.as_str()
}
