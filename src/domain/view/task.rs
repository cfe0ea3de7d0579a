//! What a model is told of a step: what to do, with what input, and how to come back.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Subject, definition_step, question::Questions};
use crate::{
    domain::{
        definition::{Definition, Step, StepKind},
        document::Digest,
        event::{Awaiting, Event, Row, Site},
        execution::{Execution, Visit, brief},
        token::Grant,
        words::fence,
    },
    uri,
};

/// A model's turn: a step, or an item of one, that it holds a token for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) position: usize,
    pub(super) visit: u32,
    pub(super) attempt: u32,
    pub(super) item: Option<u32>,
    pub(super) grant: Grant,
    pub(super) input: Option<Digest>,
}

impl Turn {
    pub(super) const fn of(position: usize, visit: &Visit, grant: Grant) -> Self {
        Self {
            position,
            visit: visit.number,
            attempt: visit.attempt,
            item: visit.item,
            grant,
            input: visit.input,
        }
    }
}

/// The turns that the transition of `row` gave and did not take back.
pub(super) fn given(definition: &Definition, execution: &Execution, row: &Row) -> Vec<Turn> {
    let closed: BTreeSet<&Site> = row
        .events
        .iter()
        .filter_map(|event| event.ending().map(|(site, _)| site))
        .collect();
    let turn = |event: &Event| {
        let (site, grant) = event.offered().filter(|(site, _)| !closed.contains(site))?;
        let (attempt, input) = match event {
            Event::WaitingChanged { attempt, .. } => {
                let visit = execution.visit(site);
                let input = visit.and_then(|(_, _, visit)| visit.input);
                (*attempt, input)
            }
            Event::VisitOpened(opened) => (1, opened.input.as_ref().map(|input| input.digest)),
            _ => return None,
        };
        Some(Turn {
            position: definition.graph().position(&site.step)?,
            visit: site.visit,
            attempt,
            item: site.item,
            grant,
            input,
        })
    };
    row.events.iter().filter_map(turn).collect()
}

/// Values that a status shows and that lie elsewhere.
pub fn needed_for_status(execution: &Execution) -> BTreeSet<Digest> {
    let shown = execution.open().filter_map(|(_, _, visit)| {
        let awaiting = visit.awaiting.as_ref()?;
        match awaiting {
            Awaiting::Gate { shown, .. } => Some(*shown),
            _ => None,
        }
    });
    shown.chain(execution.final_output()).collect()
}

/// Values that the views of an execution show and that lie elsewhere, with those of the reply to `row`.
pub fn needed_values(execution: &Execution, row: Option<&Row>) -> BTreeSet<Digest> {
    let mut needed: BTreeSet<Digest> = execution.final_output().into_iter().collect();
    needed.extend(
        execution
            .given()
            .filter(|given| Some(*given) != execution.inputs()),
    );
    needed.extend(execution.open().filter_map(|(_, _, visit)| visit.input));
    for event in row.into_iter().flat_map(|row| &row.events) {
        if let Event::VisitOpened(opened) = event {
            needed.extend(opened.input.as_ref().map(|input| input.digest));
        }
    }
    needed
}

/// What a model is told to do, and with what.
pub(super) struct Task {
    pub(super) instructions: String,
    pub(super) input: Option<Value>,
    pub(super) example: Option<Value>,
    pub(super) output_schema: Option<Value>,
}

/// The task of a turn.
pub(super) fn task(subject: &Subject<'_>, turn: &Turn) -> Option<Task> {
    let step = definition_step(subject.definition, turn.position)?;
    let acting = step.acting();
    let rendered = turn.input.and_then(|digest| subject.values.get(&digest));
    let brief = rendered.map_or_else(|| brief(acting), |value| Value::clone(value));
    if let Some(questions) = Questions::of(subject.definition, acting, &brief) {
        return Some(Task {
            instructions: directly(subject, step, turn, &brief, Some(&questions)),
            input: Some(questions.input()),
            example: None,
            output_schema: Some(questions.schema()),
        });
    }
    let instructions = match acting.kind {
        StepKind::Agent { .. } => as_agent(subject, step, &brief),
        _ => directly(subject, step, turn, &brief, None),
    };
    Some(Task {
        instructions,
        input: brief.get("with").cloned(),
        example: acting.example.clone(),
        output_schema: acting.result.clone(),
    })
}

/// What a model is told to do as somebody.
fn as_agent(subject: &Subject<'_>, step: &Step, brief: &Value) -> String {
    let Subject {
        definition,
        execution,
        ..
    } = *subject;
    let workflow = &definition.workflow;
    let own = brief["instructions"].as_str();
    let mut text = format!(
        "1. Read agent_content carefully: it is who you are for this step.\n2. Do step '{}' of workflow '{}'",
        step.id, workflow.name
    );
    // A step without words of its own is part of what the workflow is for.
    let what = match (step.description.as_str(), own) {
        ("", None) => format!(" ({})", workflow.description),
        ("", Some(_)) => String::new(),
        (description, _) => format!(": {description}"),
    };
    text.push_str(&what);
    text.push('\n');
    if let Some(own) = own {
        text.push_str(own.trim_end());
        text.push('\n');
    }
    if brief.get("with").is_some() {
        text.push_str("   What it works on stands in input.\n");
    }
    if !workflow.content.is_empty() {
        text.push_str("   The workflow's own text on it: midex://workflow/workflow_details/");
        text.push_str(&uri::encode(execution.workflow().as_str()));
        text.push('\n');
    }
    before(&mut text, execution, step);
    text.push_str(
        "3. When the work is done, call workflow.next_step with\n   - token: this step's token\n",
    );
    text.push_str(match step.acting().result {
        None => "   - output: { summary, artifacts?, findings?, next_step_recommendation? }; an artifact is an id or path as text, or \
          { type: file|data|report|finding, name, content, content_type?, metadata? }\n",
        Some(_) => {
            "   - output: a value that satisfies output_schema, which replaces any other output contract\n"
        }
    });
    text.push_str("   If it cannot be done, send error: { message } instead of output.");
    text
}

fn before(text: &mut String, execution: &Execution, step: &Step) {
    if step.depends_on.is_empty() {
        return;
    }
    let id = uri::encode(execution.id().as_str());
    text.push_str("   What the steps before decided stands in previous, in short; whole in midex://workflow/step_history/");
    text.push_str(&id);
    text.push_str(", artifacts in midex://workflow/artifact/");
    text.push_str(&id);
    text.push_str("/{id of the artifact}\n");
}

/// What a model is told to do where it is nobody in particular: its part, the work, the call that must follow, and
/// last the form of the output (S4's order, which small models follow best).
fn directly(
    subject: &Subject<'_>,
    step: &Step,
    turn: &Turn,
    brief: &Value,
    questions: Option<&Questions<'_>>,
) -> String {
    let acting = step.acting();
    let mut text = format!(
        "# Role\nYou carry out step '{}' of workflow '{}'{}. Do this one step and nothing else.\n\n# Task\n",
        step.id,
        subject.definition.workflow.name,
        which(turn)
    );
    let mut say = |words: &str| {
        if !words.trim().is_empty() {
            text.push_str(words.trim_end());
            text.push('\n');
        }
    };
    let is_asking = !questions.is_some_and(Questions::is_in_words);
    say(Some(step.description.as_str())
        .filter(|_| is_asking)
        .unwrap_or_default());
    if let StepKind::Tool { name } = &acting.kind {
        say(&format!(
            "Call the tool `{name}` of your client (it is none of midex's) with exactly the input below, and bring back what it answers."
        ));
    }
    say(brief["guidance"].as_str().unwrap_or_default());
    say(&questions.map_or_else(String::new, Questions::task));
    let own = brief["instructions"].as_str().filter(|_| is_asking);
    say(own.unwrap_or_default());
    say(&questions.map_or_else(String::new, Questions::words));
    if let Some(input) = brief.get("with") {
        let input = format!("{input:#}");
        let fence = fence(&input);
        say(&format!("Input:\n{fence}json\n{input}\n{fence}"));
    }
    let mut earlier = String::new();
    before(&mut earlier, subject.execution, step);
    text.push_str(earlier.trim_start());
    text.push_str(
        "\n# Required next call\nWhen it is done, call workflow.next_step with\n- token: this step's token, unchanged\n- output: the result, in the form below\n\
         If it cannot be done, send error: { message } instead of output. Do not end your turn before this call.\n\n# Output format\n",
    );
    text.push_str(&questions.map_or_else(|| form(acting), Questions::form));
    text
}

fn which(turn: &Turn) -> String {
    let visit = (turn.visit > 1).then(|| format!("visit {}", turn.visit));
    let attempt = (turn.attempt > 1).then(|| format!("attempt {}", turn.attempt));
    let item = turn.item.map(|item| format!("item {}", item + 1));
    let parts: Vec<_> = [item, visit, attempt].into_iter().flatten().collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(", "))
    }
}

fn form(step: &Step) -> String {
    let schema = match (&step.result, &step.kind) {
        (Some(schema), _) => format!("A JSON value that satisfies this schema:\n```json\n{schema:#}\n```"),
        (None, StepKind::Tool { .. }) => "What the tool answered, as a JSON value.".to_owned(),
        (None, _) => "A JSON object: { \"summary\": \"what came of it\", \"artifacts\"?: [], \"findings\"?: [], \"next_step_recommendation\"?: \"\" }".to_owned(),
    };
    match &step.example {
        Some(example) => format!("{schema}\nFor example:\n```json\n{example:#}\n```"),
        None => schema,
    }
}
