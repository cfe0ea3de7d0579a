//! The table of tools: one row per tool, in listing order.

use super::{
    ToolEffect::{Create, Read, Remove, Set},
    ToolSpec, ToolWork, build_reply, bundle, catalog, catalog_import, catalog_settings,
    command_run, commands, execution_approve, execution_fork, execution_list, execution_resolve,
    execution_resume, execution_show, execution_signal, execution_wait, lifecycle, parse_arguments,
    records,
    schemas::{fields_schema, list_answer_schema, reply_schema},
    serialize_view, store_back_up, store_examine,
    toolset::{Toolset, Toolsets},
    workflow_delete, workflow_flows, workflow_get, workflow_list, workflow_next_step,
    workflow_preview, workflow_purge_history, workflow_read, workflow_rename, workflow_run,
    workflow_save, workflow_start, workflow_validate,
};
use midex_domain::{
    OperationClass::{Destructive, Safe, Standard},
    limits,
};

pub(super) const RUN: Toolsets = Toolsets::from_toolset(Toolset::Run);
pub(super) const OPERATE: Toolsets = Toolsets::from_toolset(Toolset::Operate);
const AUTHOR: Toolsets = Toolsets::from_toolset(Toolset::Author);
const CATALOG: Toolsets = Toolsets::from_toolset(Toolset::Catalog);
const PEOPLE: Toolsets = Toolsets::PEOPLE;

/// A row: `"name" "title" "description", toolsets, effect, work(functions) -> schema of the answer`.
macro_rules! tool {
    ($name:literal $title:literal $description:literal, $toolsets:expr, $effect:expr,
     $work:ident($($function:path),+) $($output:tt)*) => {
        ToolSpec::new(
            [$name, $title, $description],
            $toolsets,
            $effect,
            schemas!($($function),+; $($output)*),
            work!($work($($function),+)),
        )
    };
}

/// The schemas of the arguments that the last function of a tool takes, and of its answer: by default that of a
/// [`build_reply`], or the names of its fields.
macro_rules! schemas {
    ($question:path, $run:path; $($output:tt)*) => {
        schemas!($run; $($output)*)
    };
    ($run:path;) => {
        (ToolSpec::input_schema_of($run), ToolSpec::reply_schema_of($run))
    };
    ($run:path; [$($field:literal),+]) => {
        (ToolSpec::input_schema_of($run), || fields_schema(&[$($field),+]))
    };
    ($run:path; -> shape) => {
        (ToolSpec::input_schema_of($run), ToolSpec::view_schema_of($run))
    };
    ($run:path; -> $output:expr) => {
        (ToolSpec::input_schema_of($run), $output)
    };
}

/// How a tool works: `Answer` and `Reply` return what the function returns, the latter with `success`; `Advance` may
/// ask the user for what the execution then waits for; `Confirmed` is a reply after the first function's question.
macro_rules! work {
    (Answer($run:path)) => {
        ToolWork::Answer(|app, arguments| {
            Box::pin(async move { serialize_view(&$run(app, parse_arguments(arguments)?).await?) })
        })
    };
    (Reply($run:path)) => {
        ToolWork::Answer(|app, arguments| {
            Box::pin(async move { build_reply($run(app, parse_arguments(arguments)?).await?) })
        })
    };
    (Advance($run:path)) => {
        ToolWork::Advance(|app, arguments| {
            Box::pin(async move { $run(app, parse_arguments(arguments)?).await })
        })
    };
    (Run($run:path)) => {
        ToolWork::Run(|app, arguments| {
            Box::pin(async move { $run(app, parse_arguments(arguments)?).await })
        })
    };
    (Confirmed($question:path, $run:path)) => {
        ToolWork::Confirmed(
            |app, arguments| {
                Box::pin(async move { $question(app, parse_arguments(arguments)?).await })
            },
            |app, arguments| {
                Box::pin(async move { build_reply($run(app, parse_arguments(arguments)?).await?) })
            },
        )
    };
}

/// Every tool. Names are read at every start of the command line, so a row is constant, and its schemas are made when
/// they are first needed.
pub(super) static TOOL_TABLE: [ToolSpec; 64] = [
    tool! { "workflow.start" "Start a workflow"
        "Starts a workflow and returns its first step: the persona to take (agent_content), what to do (instructions) \
         and new_token for workflow.next_step. new_tokens lists all steps that are ready.",
        RUN, Create, Advance(workflow_start::run) -> shape }
    .with_whole_answers(),
    tool! { "workflow.next_step" "Finish a step"
        "Sends the result of a step and returns the next one with its persona and token, until workflow_state is \
         completed. Safe to repeat.",
        RUN, Set, Advance(workflow_next_step::run) -> shape }
    .with_whole_answers(),
    tool! { "workflow.read" "Read a resource"
        "Reads any midex://workflow/…: workflow_details/{workflow_name}, current_step, workflow_status, step_history or \
         workflow_artifacts/{execution_id}, artifact/{execution_id}/{artifact}. next: the rest.",
        RUN.union(OPERATE), Read, Reply(workflow_read::run) },
    tool! { "execution.list" "List executions"
        "Lists executions, last changed first.",
        RUN.union(OPERATE), Read, Reply(execution_list::run) },
    tool! { "execution.resume" "What was I doing? / Resume an execution"
        "Call it when you lost your place. Without arguments: the task of the only open execution here, or all \
         that are open. With execution_id: its task, persona and tokens; a paused one goes on.",
        RUN.union(OPERATE), Create, Answer(execution_resume::run) -> execution_resume::output_schema }
    .with_whole_answers(),
    tool! { "execution.wait" "Wait for a change"
        "Waits until an execution moves; its status.",
        RUN.union(OPERATE), Read, Answer(execution_wait::run) -> shape }
    .with_whole_answers()
    .with_max_duration(execution_wait::max_duration),
    tool! { "execution.signal" "Signal an execution"
        "Sends a signal to a step that waits for it, or will.",
        RUN.union(OPERATE), Create, Answer(execution_signal::run) -> shape },
    tool! { "execution.resolve" "Resolve work"
        "For outcome_unknown: find out what came of the work that was cut off, with the user if in doubt, and report it.",
        RUN.union(OPERATE), Remove, Answer(execution_resolve::run) -> shape },
    tool! { "execution.retry" "Retry an execution"
        "Continues a failed execution in a new one, which keeps the finished steps.",
        OPERATE, Create, Answer(execution_fork::retry) ["execution_id", "workflow_state", "fork"] }
    .with_whole_answers(),
    tool! { "execution.rewind" "Rewind an execution"
        "Takes an open execution back to a step, which is done again with all after it.",
        OPERATE, Remove, Answer(execution_fork::rewind) -> shape },
    tool! { "execution.fork" "Fork an execution"
        "Copies an execution: to do it again from a step, with other inputs, or as it was at a revision.",
        OPERATE, Create, Answer(execution_fork::fork) ["execution_id", "message"] }
    .with_whole_answers(),
    tool! { "execution.diff" "Compare executions"
        "Compares two executions: definition, inputs, steps, outputs, times.",
        OPERATE, Read, Reply(execution_fork::diff) ["a", "b", "definition", "inputs", "steps"] },
    tool! { "execution.pause" "Pause an execution"
        "Holds an execution until execution.resume. Tokens stay valid.",
        OPERATE, Create, Answer(lifecycle::pause_execution) -> shape },
    tool! { "execution.abandon" "Abandon an execution"
        "Gives up an execution for good.",
        OPERATE, Remove, Answer(lifecycle::abandon_execution) -> shape },
    tool! { "execution.delete" "Delete an execution"
        "Deletes an ended execution with its history.",
        OPERATE, Remove, Confirmed(records::confirm_delete, records::delete) },
    tool! { "execution.diverge" "Diverge an execution"
        "Ends an execution whose work took another path.",
        OPERATE, Remove, Answer(lifecycle::diverge_execution) -> shape },
    tool! { "execution.fail" "Fail an execution"
        "Fails an execution. A step: workflow.next_step with error.",
        OPERATE, Remove, Answer(lifecycle::fail_execution) -> shape },
    tool! { "workflow.list" "List workflows"
        "Lists workflows: brief, or with path, version, source, findings.",
        RUN.union(AUTHOR), Read, Reply(workflow_list::run) }
    .with_class(Safe),
    tool! { "workflow.get" "Get a workflow's file"
        "Returns a workflow's file as text and JSON, and its version.",
        AUTHOR, Read, Reply(workflow_get::run) }
    .with_class(Safe)
    .with_whole_answers(),
    tool! { "workflow.validate" "Check a workflow"
        "Checks a manifest or a saved workflow: all violations and warnings, each with its place and the edit that mends \
         it, where there is one.",
        AUTHOR, Read, Reply(workflow_validate::run) }
    .with_class(Safe)
    .with_whole_answers(),
    tool! { "workflow.preview_inputs" "Show inputs"
        "Returns each input with type, rules, default, and where its value comes from.",
        AUTHOR, Read, Reply(workflow_preview::preview_inputs) }
    .with_class(Safe)
    .with_whole_answers(),
    tool! { "workflow.resolve_inputs" "Resolve inputs"
        "Returns each input's value, what may be chosen for the others, and whether a start is possible (ready).",
        AUTHOR, Read, Reply(workflow_preview::resolve_inputs) }
    .with_class(Standard)
    .with_outside_effect()
    .with_whole_answers(),
    tool! { "workflow.step_plan" "Plan the steps"
        "Returns the steps in order, with wave, dependencies, and whether each would run with these inputs, and why.",
        AUTHOR, Read, Reply(workflow_preview::plan_steps) }
    .with_class(Standard)
    .with_whole_answers(),
    tool! { "workflow.preview_rendered" "Render the steps"
        "Returns every step as it would be entered with these inputs; unresolved: what is not known yet.",
        AUTHOR, Read, Reply(workflow_preview::preview_rendered) }
    .with_class(Safe)
    .with_whole_answers(),
    tool! { "workflow.run" "Run a workflow"
        "Starts a workflow, or an unsaved manifest, and returns when it ended, waits for somebody (awaiting has the token \
         for workflow.next_step) or after wait_s.",
        AUTHOR, Create, Run(workflow_run::run) -> reply_schema::<workflow_run::WorkflowRun> }
    .with_class(Standard)
    .with_whole_answers()
    .with_max_duration(workflow_run::wait_argument),
    tool! { "workflow.execute" "Execute a workflow"
        "Runs a workflow as a task.",
        AUTHOR, Create, Run(workflow_flows::execute) -> reply_schema::<workflow_run::WorkflowRun> }
    .with_class(Standard)
    .requiring_tasks(),
    tool! { "workflow.author_and_run" "Write and run a workflow"
        "As a task: leads you to write a workflow for a goal, saves it and runs it.",
        AUTHOR, Create, Run(workflow_flows::author_and_run) -> reply_schema::<workflow_run::WorkflowRun> }
    .with_class(Standard)
    .requiring_tasks(),
    tool! { "workflow.repair_and_rerun" "Repair and rerun a workflow"
        "As a task: leads you to correct a workflow whose run failed, saves it and runs it again.",
        AUTHOR, Create, Run(workflow_flows::repair_and_rerun) -> reply_schema::<workflow_run::WorkflowRun> }
    .with_class(Standard)
    .requiring_tasks(),
    tool! { "workflow.cancel" "Cancel a run"
        "Abandons a run with its children.",
        AUTHOR, Remove, Reply(lifecycle::cancel_run) ["operation_id", "status", "state"] }
    .with_class(Destructive),
    tool! { "workflow.save" "Save a workflow"
        "Checks a manifest and writes it. To replace a file give expected_version, as workflow.get has it, or \
         overwrite.",
        AUTHOR, Set, Confirmed(workflow_save::confirm_overwrite, workflow_save::run) }
    .with_class(Standard),
    tool! { "workflow.rename" "Rename a workflow"
        "Gives a workflow another id, in its text and its file's name, and names what still refers to the old one.",
        AUTHOR, Create, Reply(workflow_rename::run) }
    .with_class(Standard),
    tool! { "workflow.delete" "Delete a workflow"
        "Deletes a workflow's file. Executions keep theirs.",
        AUTHOR, Remove, Confirmed(workflow_delete::confirm_delete, workflow_delete::run) }
    .with_class(Destructive),
    tool! { "workflow.purge_history" "Purge inputs"
        "Removes inputs, also arguments of commands, from the ended executions of this project.",
        AUTHOR, Remove, Confirmed(workflow_purge_history::confirm_purge, workflow_purge_history::run) }
    .with_class(Destructive),
    tool! { "command.list" "Find commands"
        "Finds operations of catalogs, and workflows, by words.",
        CATALOG, Read, Reply(commands::list_commands) -> || list_answer_schema("commands") }
    .with_class(Safe),
    tool! { "command.run_safe" "Run a safe command"
        "Calls a command that reads.",
        CATALOG, Read, Reply(command_run::run_safe) -> command_run::output_schema }
    .with_class(Safe)
    .with_outside_effect()
    .with_max_duration(|_| limits::WAIT_MAX),
    tool! { "command.run" "Run a command"
        "Calls a command that changes something.",
        CATALOG, Create, Reply(command_run::run_standard) -> command_run::output_schema }
    .with_class(Standard)
    .with_outside_effect()
    .with_max_duration(|_| limits::WAIT_MAX),
    tool! { "command.run_destructive" "Run a destructive command"
        "Calls a command that removes something, once the user agrees.",
        CATALOG, Remove, Confirmed(command_run::confirm_destructive, command_run::run_destructive) -> command_run::output_schema }
    .with_class(Destructive)
    .with_outside_effect()
    .with_max_duration(|_| limits::WAIT_MAX),
    tool! { "provider.list" "List providers"
        "Lists commands that answer with choices for arguments.",
        CATALOG, Read, Reply(commands::list_providers) -> || list_answer_schema("providers") }
    .with_class(Safe),
    tool! { "catalog.list" "List catalogs"
        "Lists catalogs.",
        CATALOG, Read, Reply(catalog::list_catalogs) ["catalogs"] }
    .with_class(Safe),
    tool! { "catalog.validate_openapi" "Validate OpenAPI"
        "Says whether an OpenAPI 3 document can be imported. First of validate, preview, import.",
        CATALOG, Read, Reply(catalog_import::validate_document)
            ["valid", "document_kind", "operation_count", "warnings", "violations"] }
    .with_class(Safe)
    .with_outside_effect(),
    tool! { "catalog.preview_import" "Preview an import"
        "Shows what an import would make. Writes nothing.",
        CATALOG, Read, Reply(catalog_import::preview_import)
            ["catalog", "projected_command_count", "projected_group_prefixes", "provider_contract_count", "warnings"] }
    .with_class(Safe)
    .with_outside_effect(),
    tool! { "catalog.import_openapi" "Import a catalog"
        "Imports an OpenAPI document.",
        CATALOG, Set, Reply(catalog_import::import_catalog)
            ["catalog_id", "catalog_path", "manifest_path", "command_count", "provider_contract_count", "warnings"] }
    .with_class(Standard)
    .with_outside_effect(),
    tool! { "catalog.refresh" "Refresh a catalog"
        "Reads its document again: shows the difference, and applies it with apply.",
        CATALOG, Set, Reply(catalog_import::refresh_catalog) ["catalog_id", "applied", "added", "removed", "changed", "breaks"] }
    .with_class(Standard)
    .with_outside_effect(),
    tool! { "catalog.set_enabled" "Enable or disable a catalog"
        "Steps of a disabled catalog wait for it.",
        CATALOG, Set, Reply(catalog_settings::set_enabled) ["catalog_id", "enabled", "command_count_after_toggle"] }
    .with_class(Standard),
    tool! { "catalog.set_base_url" "Set a base URL"
        "Sets where a catalog's commands are called. Secrets do not follow.",
        CATALOG, Set, Reply(catalog_settings::set_base_url) ["catalog_id", "base_url", "addresses", "secrets_go_there"] }
    .with_class(Standard),
    tool! { "catalog.set_headers" "Set headers"
        "Sets headers of its calls; null removes one. Secrets are written as ${env:NAME}, once the user agrees.",
        CATALOG, Set, Confirmed(catalog_settings::confirm_secrets, catalog_settings::set_headers)
            ["catalog_id", "headers", "origins"] }
    .with_class(Standard),
    tool! { "catalog.set_class" "Set a class"
        "Makes a command stricter: safe, standard, destructive.",
        CATALOG, Set, Reply(catalog_settings::set_class) ["catalog_id", "id", "class"] }
    .with_class(Standard),
    tool! { "catalog.remove" "Remove a catalog"
        "Removes a catalog. Only where the user asked for it.",
        CATALOG, Remove, Confirmed(catalog_settings::confirm_remove, catalog_settings::remove_catalog)
            ["removed_catalog_id", "manifest_removed", "remaining_catalog_count"] }
    .with_class(Destructive),
    tool! { "catalog.allow" "Allow an address"
        "Lets a catalog be called at an address that is not public or not https.",
        PEOPLE, Set, Reply(catalog_settings::allow_host) ["catalog_id", "allow"] },
    tool! { "catalog.set_credential" "Set a credential"
        "Gives a security scheme of a catalog's document its credential; null removes it.",
        PEOPLE, Set, Reply(catalog_settings::set_credential) ["catalog_id", "headers", "origins", "schemes"] },
    tool! { "execution.approve" "Answer a gate"
        "Takes a person's answer to a gate, on a terminal.",
        PEOPLE, Remove, Answer(execution_approve::approve_gate) -> shape },
    tool! { "execution.answer" "Answer a step"
        "Takes the user's answer to a step that only the user may answer, on a terminal.",
        PEOPLE, Set, Answer(execution_approve::answer_step) -> shape },
    tool! { "execution.retry_unknown" "Retry unknown work"
        "Retries an execution although the outcome of its last work is unknown.",
        PEOPLE, Create, Answer(execution_fork::retry_unknown) ["execution_id", "workflow_state", "fork"] },
    tool! { "execution.fork_unknown" "Fork unknown work"
        "Forks an execution although the outcome of its last work is unknown.",
        PEOPLE, Create, Answer(execution_fork::fork_unknown) ["execution_id", "message"] },
    tool! { "execution.show" "Show an execution"
        "Reads the status, steps, history and artifacts of an execution at one revision.",
        PEOPLE, Read, Answer(execution_show::run) -> execution_show::output_schema },
    tool! { "execution.definition" "Definition of an execution"
        "Reads the workflow and the personas that an execution follows, as they were at its start.",
        PEOPLE, Read, Answer(execution_show::read_definition) ["workflow", "personas"] },
    tool! { "workflow.graph" "Graph of a workflow"
        "Reads the steps of a workflow and their order.",
        PEOPLE, Read, Answer(workflow_preview::build_graph) -> shape },
    tool! { "execution.prune" "Prune executions"
        "Removes executions that have ended, by a rule; may need several calls.",
        PEOPLE, Remove, Reply(records::prune) },
    tool! { "store.stats" "Figures of the store"
        "Counts executions and measures what is stored.",
        PEOPLE, Read, Reply(records::stats) },
    tool! { "cluster.status" "State of the cluster"
        "Names the servers that share the store.",
        PEOPLE, Read, Reply(records::cluster_status) },
    tool! { "store.examine" "Examine the store"
        "Examines a small portion of what is stored.",
        PEOPLE, Read, Answer(store_examine::run) -> shape },
    tool! { "store.back_up" "Back up the store"
        "Copies what is stored into a new file.",
        PEOPLE, Create, Answer(store_back_up::run) -> shape },
    tool! { "bundle.export" "Export executions"
        "Writes executions to a file.",
        PEOPLE, Create, Reply(bundle::export) },
    tool! { "bundle.import" "Import executions"
        "Stores the executions of a file, read-only.",
        PEOPLE, Create, Reply(bundle::import) },
];
