//! Reads of executions. A live execution is answered from memory, a sleeping one from the store. No read wakes an
//! actor, except to replace an expired token.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    DurableExecution, Engine, Listener, Topic, fork::unknown_revision_error, missing_row_error,
    server_stopping_error, value_lookup::ValueLookup,
};
use crate::store::{ListQuery, PlacedEntry, TelemetryEntry, TelemetryQuery};
use midex_domain::{
    DefaultSources, Execution, ExecutionId, PauseReason, Row, State, StepId, Workflow,
    WorkflowName,
    error::{Code, Error, Result},
    limits,
    telemetry::{self, EventType},
    view::{
        self, AdvanceReply, ArtifactContent, ArtifactView, CurrentStep, ExecutionPage, GraphView,
        LoadedValues, OpenExecution, PastPoint, Reader, ResumeReply, StatusView, TelemetryEvent,
        ViewContext,
    },
};

impl Engine {
    /// The current step of an execution. Wakes the execution only to replace expired tokens.
    pub async fn current_step(&self, id: &ExecutionId) -> Result<CurrentStep> {
        self.current_step_for(id, Reader::Model).await
    }

    /// The current step, in the wording for this reader. For [`Reader::Person`] no token is replaced.
    pub async fn current_step_for(&self, id: &ExecutionId, reader: Reader) -> Result<CurrentStep> {
        let durable = match reader {
            Reader::Person => self.read_execution(id).await?,
            Reader::Model | Reader::Worker => self.renew_and_read_execution(id).await?,
        };
        let view = match reader {
            Reader::Model => view::current_step,
            Reader::Person | Reader::Worker => view::current_step_for_people,
        };
        let mut current = self.build_view(&durable, None, view).await?;
        if durable.execution.is_imported() {
            if reader == Reader::Worker {
                return Err(durable.execution.imported_error());
            }
            current.remove_tokens();
        }
        Ok(current)
    }

    /// The answer to the execution's last transition, with every other open step.
    pub async fn last_reply(&self, id: &ExecutionId) -> Result<AdvanceReply> {
        let durable = self.read_execution(id).await?;
        let row = self.load_row(id, durable.execution.revision()).await?;
        let row = row.ok_or_else(missing_row_error)?;
        let build_reply = |subject: &ViewContext<'_>| view::build_current_reply(subject, &row);
        self.build_view(&durable, Some(&row), build_reply).await
    }

    /// The execution, after its expired tokens were replaced.
    async fn renew_and_read_execution(&self, id: &ExecutionId) -> Result<DurableExecution> {
        self.renew_expired_tokens(self.read_execution(id).await?).await
    }

    /// The status of the execution. Wakes no actor.
    pub async fn status(&self, id: &ExecutionId) -> Result<StatusView> {
        self.build_status(&self.read_execution(id).await?).await
    }

    /// The final output of an execution in full; `None` if it is not completed. Wakes no actor.
    pub async fn final_output(&self, id: &ExecutionId) -> Result<Option<Value>> {
        let durable = self.read_execution(id).await?;
        if durable.execution.state() != State::Completed {
            return Ok(None);
        }
        self.build_view(&durable, None, view::full_output).await
    }

    /// The execution as it was at a point in the past, rebuilt from its journal, with the rows up to that point. Wakes
    /// no actor.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `ARGUMENTS_INVALID` for a point before its start or a revision that it does not have.
    pub async fn read_past_execution(
        &self,
        id: &ExecutionId,
        point: PastPoint,
    ) -> Result<(DurableExecution, Vec<Row>)> {
        let durable = self.read_execution(id).await?;
        let mut rows = self.load_rows(id).await?;
        let last = rows.last().map_or(0, |row| row.revision);
        if let (PastPoint::Time(_), Some(first)) = (point, rows.first())
            && !point.includes(first)
        {
            let message = format!("execution '{id}' began at {}", first.at);
            let error = Error::argument_rule("/at", "range", &message);
            return Err(error.with_context("execution_id", id.as_str()));
        }
        rows.retain(|row| point.includes(row));
        let is_future = matches!(point, PastPoint::Revision(revision) if revision > last);
        let execution = Execution::replay(&rows).filter(|_| !is_future);
        let mut execution = execution.ok_or_else(|| unknown_revision_error(id, last))?;
        execution.mark_purged_inputs(&durable.execution);
        Ok((DurableExecution { execution: Arc::new(execution), ..durable }, rows))
    }

    /// The status of the execution at a point in the past.
    ///
    /// # Errors
    /// As [`Self::read_past_execution`].
    pub async fn past_status(&self, id: &ExecutionId, point: PastPoint) -> Result<StatusView> {
        self.build_status(&self.read_past_execution(id, point).await?.0).await
    }

    /// The current step of the execution at a point in the past, without tokens.
    ///
    /// # Errors
    /// As [`Self::read_past_execution`].
    pub async fn past_step(&self, id: &ExecutionId, point: PastPoint) -> Result<CurrentStep> {
        let (durable, _) = self.read_past_execution(id, point).await?;
        let mut current = self.build_view(&durable, None, view::current_step_for_people).await?;
        current.remove_tokens();
        Ok(current)
    }

    /// The graph of the definition that the execution keeps, with the state of each step. Wakes no actor.
    pub async fn graph(&self, id: &ExecutionId) -> Result<GraphView> {
        let durable = self.read_execution(id).await?;
        self.build_view(&durable, None, GraphView::from_execution).await
    }

    pub(super) async fn build_status(&self, durable: &DurableExecution) -> Result<StatusView> {
        let mut status = self.build_status_without_forks(durable).await?;
        let id = durable.execution.id();
        let forks = self.shared.store.load_forks(id, limits::FORKS_SHOWN_MAX).await?;
        status.forks = forks.iter().map(ToString::to_string).collect();
        Ok(status)
    }

    /// The status without the forks, which only a read of the store finds.
    pub(super) async fn build_status_without_forks(
        &self,
        durable: &DurableExecution,
    ) -> Result<StatusView> {
        let state = durable.execution.state();
        let mut status = self.build_view(durable, None, view::build_status).await?;
        // An attempt may have failed before its child began. Such a child does not exist, and is left out.
        let awaited: BTreeSet<_> = durable.execution.awaited_children().collect();
        let mut children = Vec::new();
        for child in std::mem::take(&mut status.children) {
            let id = ExecutionId::parse(&child.execution_id)?;
            if awaited.contains(&id) || self.shared.find_durable_execution(&id).await?.is_some() {
                children.push(child);
            }
        }
        status.children = children;
        for (attempt_id, progress) in self.shared.runner.list_progress(durable.execution.id()) {
            if let Some(wait) = status.waits.iter_mut().find(|wait| wait.is_for(&attempt_id)) {
                wait.progress = Some(progress);
            }
        }
        if self.shared.wake_failures.is_faulted(durable.execution.id()) && !state.is_final() {
            // An execution that cannot be woken cannot be moved. This pause is not durable: only this process knows it.
            status.state = State::Paused.as_str().into();
            status.pause_reasons.push(PauseReason::EngineFault);
        }
        Ok(status)
    }

    /// Waits until the revision of the execution is past `since_revision` (its present revision if `None`), at most
    /// `timeout` and [`limits::WAIT_MAX`], and returns the status. Returns at once if the execution has ended.
    pub async fn wait(
        &self,
        id: &ExecutionId,
        since_revision: Option<u64>,
        timeout: Duration,
    ) -> Result<StatusView> {
        // Subscribe before the first read, so that no change between the two is missed.
        let listener = self.shared.notifier.new_listener();
        listener.subscribe(&id.as_str().into(), Some(Topic::Execution(id.clone())));
        let durable = self.read_execution(id).await?;
        let since = since_revision.unwrap_or(durable.execution.revision());
        tokio::select! {
            result = self.wait_past_revision(durable, since, &listener) => result?,
            () = tokio::time::sleep(timeout.min(limits::WAIT_MAX)) => {}
            () = self.shared.stopping.cancelled() => return Err(server_stopping_error()),
        }
        self.status(id).await
    }

    /// Returns once the execution that `listener` is subscribed to is past revision `since`, or has ended.
    async fn wait_past_revision(
        &self,
        mut durable: DurableExecution,
        since: u64,
        listener: &Listener,
    ) -> Result<()> {
        while durable.execution.revision() <= since && !durable.execution.has_ended() {
            listener.wait_for_change().await;
            listener.take_marked_name();
            durable = self.read_execution(durable.execution.id()).await?;
        }
        Ok(())
    }

    /// A page of executions, the most recently moved first. It has at most [`limits::LIST_LIMIT_MAX`] entries, and may
    /// have fewer than `query.limit` although more follow.
    pub async fn list(&self, query: ListQuery) -> Result<ExecutionPage> {
        let limit = query.limit.clamp(1, limits::LIST_LIMIT_MAX);
        let page = self.shared.store.list(ListQuery { limit, ..query }).await?;
        Ok(ExecutionPage {
            executions: page.executions.iter().map(|(_, one)| view::execution_row(one)).collect(),
            next_cursor: page.next_key.map(|key| key.0.to_string()),
        })
    }

    /// The open execution of a project (of all projects if `None`), if there is exactly one. Executions that wait for
    /// their children do not count.
    pub async fn only_open_execution(
        &self,
        project: Option<String>,
    ) -> Result<Option<ExecutionId>> {
        let query = ListQuery {
            open_only: true,
            project,
            limit: limits::RESUME_EXECUTIONS_MAX + 2,
            ..ListQuery::default()
        };
        let open = self.shared.store.list(query).await?.executions;
        let mut candidates = open.iter().filter(|(_, one)| !one.waits_for_children());
        let only = candidates.next().map(|(_, only)| only.id().clone());
        Ok(only.filter(|_| candidates.next().is_none()))
    }

    /// The open executions of a project (of all projects if `None`), in a form short enough for a model that lost its
    /// context. Replaces expired tokens.
    pub async fn open_executions(&self, project: Option<String>) -> Result<ResumeReply> {
        let query = ListQuery {
            open_only: true,
            project,
            limit: limits::LIST_LIMIT_MAX,
            ..ListQuery::default()
        };
        let mut open = self.shared.store.list(query).await?.executions;
        // Leave out executions that wait for their children: the work to be done is in the children.
        open.retain(|(_, one)| !one.waits_for_children());
        let mut views = Vec::new();
        // The most recently moved execution is renewed last: a renewal is a transition, and must not change the order.
        for (_, execution) in open.iter().take(limits::RESUME_EXECUTIONS_MAX).rev() {
            match self.open_execution_view(execution.id()).await {
                Ok(open) => views.extend(open),
                // An execution that cannot be read must not hide the others.
                Err(error) => {
                    tracing::warn!(execution = %execution.id(), code = error.code().as_str(), "an open execution cannot be told of");
                }
            }
        }
        views.reverse();
        Ok(ResumeReply::from_open_executions(views, open.len()))
    }

    /// The view of one open execution. `None` if it has ended meanwhile.
    async fn open_execution_view(&self, id: &ExecutionId) -> Result<Option<OpenExecution>> {
        let durable = self.renew_and_read_execution(id).await?;
        if durable.execution.has_ended() {
            return Ok(None);
        }
        self.build_view(&durable, None, view::build_open_execution).await.map(Some)
    }

    /// The sources of the defaults for the inputs of a new execution. Earlier executions are read only if a default
    /// needs them.
    pub async fn load_default_sources(
        &self,
        workflow: &Workflow,
        given_inputs: Option<&Value>,
        project: Option<&str>,
    ) -> Result<DefaultSources> {
        let inputs = workflow.inputs.as_ref();
        let history = if inputs.is_some_and(|inputs| inputs.needs_history(given_inputs)) {
            self.load_last_inputs(workflow, project).await?
        } else {
            Map::new()
        };
        let mut outputs = BTreeMap::new();
        for name in inputs.map_or_else(Vec::new, |inputs| inputs.required_outputs(given_inputs)) {
            if let Some(output) = self.load_last_output(&name, project).await? {
                outputs.insert(name, output);
            }
        }
        Ok(DefaultSources {
            env: self.shared.environments.environment_of_project(project),
            history,
            outputs,
        })
    }

    /// The final output of the project's most recently completed execution of a workflow.
    async fn load_last_output(
        &self,
        workflow: &WorkflowName,
        project: Option<&str>,
    ) -> Result<Option<Value>> {
        let query = ListQuery {
            workflow: Some(workflow.clone()),
            state: Some(State::Completed),
            project: project.map(str::to_owned),
            limit: 1,
            ..ListQuery::default()
        };
        let page = self.shared.store.list(query).await?;
        let Some((_, last)) = page.executions.first() else {
            return Ok(None);
        };
        self.final_output(last.id()).await
    }

    /// The inputs of the project's most recently moved execution of this workflow. Empty if there is none.
    async fn load_last_inputs(
        &self,
        workflow: &Workflow,
        project: Option<&str>,
    ) -> Result<Map<String, Value>> {
        let query = ListQuery {
            workflow: Some(workflow.name.clone()),
            project: project.map(str::to_owned),
            limit: 1,
            ..ListQuery::default()
        };
        let page = self.shared.store.list(query).await?;
        let last = page.executions.first();
        let Some(digest) = last.and_then(|(_, last)| last.inputs()) else {
            return Ok(Map::new());
        };
        let bytes = self.shared.store.load_content(digest).await?;
        match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(Value::Object(inputs)) => Ok(inputs),
            _ => Ok(Map::new()),
        }
    }

    /// The artifacts of an execution, or of one of its steps, including references, without their content. Wakes no
    /// actor.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `RESOURCE_NOT_FOUND` where the workflow has no such step.
    pub async fn artifacts(
        &self,
        id: &ExecutionId,
        step: Option<&StepId>,
    ) -> Result<Vec<ArtifactView>> {
        if let Some(step) = step
            && self.load_execution(id).await?.find_step(step).is_none()
        {
            let message = format!("execution '{id}' has no step '{step}'");
            return Err(Error::new(Code::ResourceNotFound, message)
                .with_context("execution_id", id.as_str()));
        }
        let rows = self.load_rows(id).await?;
        let artifacts = view::artifact_views(rows.iter(), step);
        Ok(artifacts.into_iter().map(|(view, _)| view).collect())
    }

    /// A part of an artifact's content. `id_or_name` is the id of the artifact, or its name (the latest counts if several
    /// have it). A reference has no content. Returns at most `limit` bytes (and [`limits::ARTIFACT_SHOWN_BYTES_MAX`])
    /// from byte `offset` on.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `RESOURCE_NOT_FOUND` where there is no such artifact, or it is a reference.
    pub async fn artifact(
        &self,
        id: &ExecutionId,
        id_or_name: &str,
        offset: u64,
        limit: usize,
    ) -> Result<ArtifactContent> {
        let rows = self.load_rows(id).await?;
        let artifacts = view::artifact_views(rows.iter(), None);
        let is_reference = |(view, kept): &(ArtifactView, Option<_>)| {
            kept.is_none() && view.id.to_string() == id_or_name
        };
        let missing_reason = if artifacts.iter().any(is_reference) {
            "keeps no content of the reference"
        } else {
            "has no artifact"
        };
        let stored = artifacts.into_iter().filter_map(|(view, artifact)| Some((view, artifact?)));
        let mut stored: Vec<_> = stored.collect();
        let by_id = stored.iter().position(|(view, _)| view.id.to_string() == id_or_name);
        let index = by_id.or_else(|| stored.iter().rposition(|(view, _)| view.name == id_or_name));
        let not_found_error = || {
            let shown: String = id_or_name.chars().take(limits::ARTIFACT_NAME_CHARS_MAX).collect();
            let message = format!("execution '{id}' {missing_reason} '{shown}'");
            Error::new(Code::ResourceNotFound, message).with_context("execution_id", id.as_str())
        };
        let (view, artifact) = stored.swap_remove(index.ok_or_else(not_found_error)?);
        let content = self.shared.store.load_content(artifact.digest).await?;
        let content = content
            .ok_or_else(|| Error::internal("the content of an artifact is not in the store"))?;
        let limit = limit.min(limits::ARTIFACT_SHOWN_BYTES_MAX);
        Ok(view::slice_artifact_content(view, &content, offset, limit))
    }

    /// The latest telemetry events, oldest first.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND` where an execution is asked for that does not exist.
    pub async fn telemetry(
        &self,
        id: Option<&ExecutionId>,
        event_type: Option<EventType>,
        limit: usize,
    ) -> Result<Vec<TelemetryEvent>> {
        let limit = limit.clamp(1, limits::TELEMETRY_LIMIT_MAX);
        if let Some(id) = id {
            self.load_execution(id).await?;
        }
        let query = TelemetryQuery { execution_id: id.cloned(), event_type, limit };
        let entries = self.shared.store.load_telemetry(query).await?;
        let mut events: Vec<_> = entries
            .iter()
            .flat_map(build_telemetry_events)
            .filter(|event| event_type.is_none_or(|wanted| wanted == event.event_type))
            .collect();
        Ok(events.split_off(events.len().saturating_sub(limit)))
    }

    /// The values in the memory of an execution, by name.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_DELETED`, and those of the store.
    pub async fn memory(&self, id: &ExecutionId) -> Result<Map<String, Value>> {
        let execution = self.read_execution(id).await?.execution;
        let mut memory = Map::new();
        for (name, digest) in execution.memory() {
            let value = self.shared.contents.value(*digest).await?;
            memory.extend(value.map(|value| (name.clone(), Value::clone(&value))));
        }
        Ok(memory)
    }

    /// The execution as last made durable, with its definition: from memory if it is live, else from the store.
    pub async fn read_execution(&self, id: &ExecutionId) -> Result<DurableExecution> {
        if let Some(durable) = self.shared.directory.last_durable_state(id, &*self.shared.store) {
            return Ok(durable);
        }
        let execution = self.load_execution(id).await?;
        self.shared.add_definition(execution).await
    }

    /// The execution as last made durable. If its parent has announced it, waits until it has begun.
    pub(super) async fn load_execution(&self, id: &ExecutionId) -> Result<Arc<Execution>> {
        if let Some(found) = self.shared.find_durable_execution(id).await? {
            return Ok(found);
        }
        // The parent may not have been woken since the store was opened. `count` finds the children that such parents
        // announced.
        let descendants = &self.shared.descendants;
        descendants.count_open_executions(&*self.shared.store).await?;
        descendants.wait_until_begun(id).await?;
        match self.shared.find_durable_execution(id).await? {
            Some(execution) => Ok(execution),
            None => Err(self.shared.not_found_error(id).await),
        }
    }

    pub(super) async fn load_row(&self, id: &ExecutionId, revision: u64) -> Result<Option<Row>> {
        let rows = self.shared.store.load_rows(id, [revision].into());
        Ok(rows.await?.pop())
    }

    /// The rows with these revisions, newest first.
    pub(super) async fn load_row_range(
        &self,
        id: &ExecutionId,
        revisions: RangeInclusive<u64>,
    ) -> Result<Vec<Row>> {
        self.shared.store.load_rows(id, revisions.collect()).await
    }

    pub(super) async fn load_rows(&self, id: &ExecutionId) -> Result<Vec<Row>> {
        let rows = self.shared.store.load_history(id).await?;
        if !rows.is_empty() {
            return Ok(rows);
        }
        self.load_execution(id).await?;
        self.shared.store.load_history(id).await
    }

    /// Builds `view` of an execution, and repeats that as long as `view` asks for values that have not been looked up.
    pub(super) async fn build_view<T>(
        &self,
        durable: &DurableExecution,
        row: Option<&Row>,
        view: impl Fn(&ViewContext<'_>) -> T,
    ) -> Result<T> {
        self.build_view_with_values(LoadedValues::default(), durable, row, view).await
    }

    /// Like `view`, with values that were found before.
    pub(super) async fn build_view_with_values<T>(
        &self,
        known_values: LoadedValues,
        durable: &DurableExecution,
        row: Option<&Row>,
        view: impl Fn(&ViewContext<'_>) -> T,
    ) -> Result<T> {
        let mut lookup = ValueLookup::new(&self.shared, durable.execution.id(), row, known_values);
        loop {
            let requests = RefCell::default();
            let result = view(&ViewContext {
                definition: &durable.definition,
                execution: &durable.execution,
                row,
                loaded: &lookup.found_values,
                requested: &requests,
                ttl: self.shared.token_ttl,
                command_flags: &self.shared.command_flags,
            });
            let requests = requests.into_inner();
            if requests.is_empty() {
                return Ok(result);
            }
            lookup.look_up(requests).await?;
        }
    }
}

fn build_telemetry_events((position, entry): &PlacedEntry) -> Vec<TelemetryEvent> {
    let first_id = position.first_telemetry_id();
    match entry {
        TelemetryEntry::Transition(row) => telemetry::build_row_telemetry(row)
            .into_iter()
            .zip(0..)
            .map(|(telemetry, offset)| {
                let id = first_id.saturating_add(offset);
                view::telemetry_event(id, Some(&row.execution_id), row.at, telemetry)
            })
            .collect(),
        TelemetryEntry::Refusal(refusal) => {
            let telemetry = telemetry::refusal_telemetry(
                &refusal.code,
                &refusal.message,
                refusal.step.as_ref(),
            );
            vec![view::telemetry_event(
                first_id,
                refusal.execution_id.as_ref(),
                refusal.at,
                telemetry,
            )]
        }
    }
}
