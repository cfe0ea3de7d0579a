//! The choices of inputs. The list operation of a provider is called directly and not as an execution, because it only
//! reads.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    sync::{OnceCell, Semaphore},
    task::JoinSet,
};

use super::{App, CommandMeant, ResolvedInputs, UserQuestion};
use midex_catalog::{
    CatalogOperation, Catalogs,
    call::{CallOptions, CallTarget, Caller, PreparedOperation},
    operation::ParameterLocation,
};
use midex_domain::{
    Definition, Digest, OperationClass,
    check::OperationLookup,
    clock::Timestamp,
    definition::PaginateOptions,
    document::canonical_digest,
    error::Error,
    input::{Choices, Input, Inputs, ProviderOutcome, ProviderResolution, SelectedFields},
    limits,
    operation::PageCursor,
    truncate::json_length,
};

/// The reads of catalogs that all callers share.
pub(super) struct CatalogReads {
    /// Limits how many threads read catalog documents from files at the same time.
    pub(super) document_permits: Arc<Semaphore>,
    provider_permits: Semaphore,
    /// The lists of providers. Callers with equal calls share one, in flight and as long as it is kept.
    lists: Mutex<HashMap<Digest, Arc<ListSlot>>>,
}

type ListSlot = OnceCell<Result<ProviderList, String>>;

/// The objects that a provider listed.
struct ProviderList {
    fetched_at: Timestamp,
    objects: Vec<Value>,
    has_more: bool,
}

impl Default for CatalogReads {
    fn default() -> Self {
        Self {
            document_permits: Arc::new(Semaphore::new(limits::DOCUMENTS_READ_MAX)),
            provider_permits: Semaphore::new(limits::PROVIDERS_CALLED_MAX),
            lists: Mutex::default(),
        }
    }
}

impl CatalogReads {
    /// The slot of a call: with a list in flight, or younger than `ttl`, or else an empty one.
    fn open_list_slot(&self, call: Digest, ttl: Duration, now: Timestamp) -> Arc<ListSlot> {
        let mut slots = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |list: &ProviderList| now.since(list.fetched_at) < ttl;
        if let Some(slot) = slots.get(&call)
            && slot.get().is_none_or(|listed| listed.as_ref().is_ok_and(is_fresh))
        {
            return slot.clone();
        }
        if slots.len() >= limits::PROVIDER_LISTS_KEPT_MAX {
            slots.retain(|_, slot| slot.get().is_none());
        }
        let slot = Arc::<ListSlot>::default();
        slots.insert(call, slot.clone());
        slot
    }
}

/// A call of a provider that can be sent.
struct ProviderCall {
    /// Identifies equal calls.
    digest: Digest,
    prepared: Arc<PreparedOperation>,
    target: Arc<CallTarget>,
    caller: Caller,
    with: Value,
    select: SelectedFields,
}

impl App {
    /// Lists the choices of the inputs with a provider that `is_wanted` accepts.
    pub(super) async fn list_choices(
        &self,
        definition: &Definition,
        resolved: &ResolvedInputs,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<ProviderResolution> {
        let mut listings = JoinSet::new();
        let inputs = definition.workflow.inputs.iter().flat_map(Inputs::iter);
        let inputs = inputs.filter(|input| input.provider.is_some());
        let inputs = inputs.filter(|input| is_wanted(input.key.as_str())).cloned();
        for (position, input) in inputs.enumerate() {
            let arguments =
                input.provider_call_arguments(&resolved.known_values, &resolved.providers);
            let app = self.clone();
            listings.spawn(async move {
                let listed = match arguments {
                    Ok(with) => app.list_input_choices(&input, with).await,
                    Err(outcome) => Err(outcome),
                };
                let (outcome, choices) = match listed {
                    Ok(choices) => (input.choosing_outcome(), Some(choices)),
                    Err(outcome) => (outcome, None),
                };
                let resolution = ProviderResolution::new(&input, None, outcome);
                (position, ProviderResolution { choices, ..resolution })
            });
        }
        let mut resolutions = listings.join_all().await;
        resolutions.sort_unstable_by_key(|(position, _)| *position);
        resolutions.into_iter().map(|(_, resolution)| resolution).collect()
    }

    /// Adds the choices of providers to the form of a question. Where nothing can be listed, values are typed.
    pub async fn offer_choices(&self, question: &mut UserQuestion) {
        if !question.has_provider {
            return;
        }
        match self.list_question_choices(question).await {
            Ok(listed) => {
                for one in &listed {
                    if let Some(choices) = &one.choices {
                        question.offer(&one.input, choices);
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the choices of a question cannot be listed"),
        }
    }

    async fn list_question_choices(
        &self,
        question: &UserQuestion,
    ) -> Result<Vec<ProviderResolution>, Error> {
        let id = &question.execution_id;
        let current = self.current_step(id).await?;
        // If the inputs are shown shortened, the providers would be called with other values.
        if current.inputs_uri.is_some() {
            return Ok(Vec::new());
        }
        let definition = self.engine().await?.read_execution(id).await?.definition;
        let known = current.inputs.as_ref().and_then(Value::as_object).cloned();
        let resolved =
            self.resolve_provider_arguments(&definition, known.unwrap_or_default()).await?;
        Ok(self.list_choices(&definition, &resolved, |name| question.asks_for(name)).await)
    }

    /// The choices of an input, from a list that is kept, from an equal call in flight, or from a new call.
    ///
    /// # Errors
    /// The outcome if the provider is not called, or does not answer with a list.
    async fn list_input_choices(
        &self,
        input: &Input,
        with: Map<String, Value>,
    ) -> Result<Choices, ProviderOutcome> {
        let (name, provider) = (&input.key, input.provider.as_deref().unwrap_or_default());
        let failed = |why: &str| ProviderOutcome::Error {
            message: format!(
                "`{provider}` does not list the choices of `{name}`: {why}; give `{name}` a value, or call again once that is mended"
            ),
        };
        let failed_by = |error: Error| failed(error.message());
        let (command, class) = self.resolve_command(provider).await.map_err(failed_by)?;
        let CommandMeant::Operation(operation) = command else {
            return Err(failed("it is a workflow"));
        };
        if class != OperationClass::Safe {
            let class = class.as_str();
            return Err(failed(&format!("it is {class}, and only a safe operation lists choices")));
        }
        let select = input.select.clone().unwrap_or_default();
        let asker = json!([self.caller_project(), format!("{:?}", self.requester)]);
        let prepare = move |catalogs: &Catalogs| {
            Ok(prepare_call(catalogs, &operation, (with, select), &asker))
        };
        let call = self.with_catalogs(prepare).await.map_err(failed_by)?;
        let call = call.map_err(|why| failed(&why))?.map_err(|argument| {
            let reason = format!("`{provider}` needs `{argument}`, which is left out");
            ProviderOutcome::Skip { reason }
        })?;
        let reads = &self.shared.catalog_reads;
        let ttl = Duration::from_secs(input.cache_ttl_sec.unwrap_or_default().into());
        let slot = reads.open_list_slot(call.digest, ttl, self.now());
        let fetch = async {
            let _permit = reads.provider_permits.acquire().await;
            let (objects, has_more) = fetch_objects(&call).await?;
            Ok(ProviderList { fetched_at: self.now(), objects, has_more })
        };
        let fetch = tokio::time::timeout(limits::PROVIDER_CALL_MAX, fetch);
        let listed = slot.get_or_init(async || {
            tokio::select! {
                fetched = fetch => fetched.unwrap_or_else(|_| {
                    Err(format!("no whole list came within {:?}", limits::PROVIDER_CALL_MAX))
                }),
                () = self.stop_token().cancelled() => Err("the server stops".to_owned()),
            }
        });
        let list = listed.await.as_ref().map_err(|why| failed(why))?;
        let choices = input.build_choices(&list.objects, &call.select);
        Ok(Choices { choices, has_more: list.has_more })
    }
}

/// Prepares a call of a provider; or returns the name of a required argument that has no value. Reads files.
///
/// # Errors
/// Why the provider cannot be called.
fn prepare_call(
    catalogs: &Catalogs,
    operation: &CatalogOperation,
    (with, select): (Map<String, Value>, SelectedFields),
    asker: &Value,
) -> Result<Result<ProviderCall, String>, String> {
    let catalog = &operation.catalog;
    let prepared = catalog.prepare_operation(operation.index)?;
    let target = catalog.call_target()?;
    for parameter in &prepared.operation().parameters {
        let (argument, location) = (&parameter.argument, parameter.location);
        if parameter.is_required && !with.contains_key(argument) {
            return Ok(Err(argument.clone()));
        }
        // A workflow of a project that is not trusted may not choose the headers of a call.
        if with.contains_key(argument)
            && matches!(location, ParameterLocation::Header | ParameterLocation::Cookie)
        {
            let location = location.as_str();
            return Err(format!("`{argument}` is a {location}, which a provider is not given"));
        }
    }
    let select = match select.value_field {
        Some(_) => select,
        None => suggest_select(operation).ok_or("`select` names no `value_field`")?,
    };
    let version = catalogs.last_loaded_catalogs().catalogs_version();
    let with = Value::Object(with);
    let digest = canonical_digest(&json!([catalog.id, version, operation.index, with, asker]));
    let caller = catalogs.caller().clone();
    Ok(Ok(ProviderCall { digest, prepared, target, caller, with, select }))
}

/// The fields that the document suggests for choosing an object.
fn suggest_select(operation: &CatalogOperation) -> Option<SelectedFields> {
    let notes = operation.catalog.document.as_ref().ok()?.read_notes().ok()?;
    let name = &*operation.entry()?.name;
    let provider = notes.providers.providers.into_iter().find(|one| one.id == name)?;
    Some(SelectedFields {
        value_field: Some(provider.select.value_field),
        display_field: Some(provider.select.display_field),
        id_field: provider.select.id_field,
    })
}

/// Requests the pages of a list until it ends or there are enough objects. Also returns whether there are more.
async fn fetch_objects(call: &ProviderCall) -> Result<(Vec<Value>, bool), String> {
    let options = CallOptions::default();
    let (mut objects, mut bytes) = (Vec::new(), 0);
    let mut cursor: Option<PageCursor> = None;
    loop {
        let (with, position) = ((&call.with, None), (PaginateOptions::default(), cursor.as_ref()));
        let page = call.caller.request_page(&call.prepared, &call.target, with, &options, position);
        // Pinned in place, because the future is large.
        let page = pin!(page).await.map_err(|failure| failure.message)?;
        for object in page.items.ok_or("its answer is no list")? {
            bytes += json_length(&object);
            if objects.len() == limits::PROVIDER_CHOICES_MAX
                || bytes > limits::PROVIDER_CHOICES_BYTES_MAX
            {
                return Ok((objects, true));
            }
            objects.push(object);
        }
        match (page.next, &mut cursor) {
            (None, _) => return Ok((objects, page.incomplete_reason.is_some())),
            (Some(next), Some(cursor)) => cursor.advance(next),
            (next, None) => cursor = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_shared_in_flight_and_while_it_is_kept() {
        let (reads, ttl) = (CatalogReads::default(), Duration::from_secs(60));
        let open = |name: &str, milliseconds| {
            let now = Timestamp::from_milliseconds(milliseconds);
            reads.open_list_slot(Digest::compute(name.as_bytes()), ttl, now)
        };
        let listed =
            || ProviderList { fetched_at: Timestamp::default(), objects: vec![], has_more: false };
        let in_flight = open("a", 0);
        assert!(Arc::ptr_eq(&in_flight, &open("a", 99_000)));
        assert!(!Arc::ptr_eq(&in_flight, &open("b", 0)), "another call");
        assert!(in_flight.set(Ok(listed())).is_ok());
        assert!(Arc::ptr_eq(&in_flight, &open("a", 59_999)));
        let later = open("a", 60_000);
        assert!(!Arc::ptr_eq(&in_flight, &later), "it is too old");
        // A failure is told to those who waited for it, and to nobody else.
        assert!(later.set(Err("down".to_owned())).is_ok());
        let again = open("a", 60_000);
        assert!(!Arc::ptr_eq(&later, &again));
        // What is in flight outlives a full cache.
        for number in 0..limits::PROVIDER_LISTS_KEPT_MAX {
            assert!(open(&number.to_string(), 0).set(Ok(listed())).is_ok());
        }
        assert!(Arc::ptr_eq(&again, &open("a", 0)));
        let kept = reads.lists.lock().unwrap().len();
        assert!(kept <= limits::PROVIDER_LISTS_KEPT_MAX, "{kept}");
    }
}
