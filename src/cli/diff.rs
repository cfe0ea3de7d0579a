//! `midex diff`: compares two executions.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::json;

use super::{
    EXIT_OK, Output,
    execution_id::run_with_execution,
    link::{ServerLink, parse_reply},
    screen::{Screen, TextStyle},
    value::{format_duration, json_text},
    visible::replace_hidden_chars,
};
use midex_domain::{
    error::{Result, format_count},
    view::{ChangeList, ComparedExecution, DiffView, StepDiff, ValueChange, VisitSummary},
};
use midex_server::config::Config;

/// Two executions to compare.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DiffArgs {
    /// The first execution: its id, the beginning of its id, @last or @last-failed
    #[arg(value_name = "A")]
    a: String,
    /// The second execution
    #[arg(value_name = "B")]
    b: String,
}

/// Prints what differs between two executions.
pub(super) async fn diff(args: DiffArgs, config: &Config, out: Output<'_>) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let result = print_diff(&args, &mut link, out).await;
    link.close_and_log().await;
    result
}

async fn print_diff(args: &DiffArgs, link: &mut ServerLink<'_>, mut out: Output<'_>) -> Result<u8> {
    // An id is known to exist once its status was read.
    let find =
        async |link: &mut ServerLink<'_>, id: &str| Ok(link.fetch_status(id).await?.execution_id);
    let a = run_with_execution(link, &args.a, find).await?;
    let b = run_with_execution(link, &args.b, find).await?;
    let mut offset = 0;
    let mut diff: Option<DiffView> = None;
    while diff.is_none() || offset > 0 {
        let arguments = json!({ "a": a, "b": b, "offset": offset });
        let page: DiffView = parse_reply(link.call("execution.diff", arguments).await?)?;
        offset = page.next_offset.unwrap_or_default();
        match &mut diff {
            None => diff = Some(page),
            Some(diff) => diff.steps.extend(page.steps),
        }
    }
    if let Some(mut diff) = diff {
        diff.next_offset = None;
        let reply = json!(diff);
        let kept_items = if out.is_json {
            KeptItems::default()
        } else {
            KeptItems::take_from(&mut diff, link).await?
        };
        let page = DiffPage { screen: Screen::stdout(), kept_items };
        out.print(|| reply, || page.format(&diff))?;
    }
    Ok(EXIT_OK)
}

/// The items of a `foreach` that one execution did, and that the other one, a fork, kept: its history has the step as a
/// whole. The number of items by the step and the fork.
#[derive(Default)]
struct KeptItems(BTreeMap<(String, String), usize>);

impl KeptItems {
    /// Takes these items out of a difference, where they look like work that only one execution did.
    async fn take_from(diff: &mut DiffView, link: &mut ServerLink<'_>) -> Result<Self> {
        let mut kept = Self::default();
        for is_before in [true, false] {
            let lacks = |step: &StepDiff| {
                if is_before { step.before.is_none() } else { step.after.is_none() }
            };
            let is_candidate = |step: &StepDiff| lacks(step) && step_of_item(&step.step).is_some();
            if !diff.steps.iter().any(is_candidate) {
                continue;
            }
            let side = if is_before { &diff.before } else { &diff.after };
            let fork = side.execution_id.clone();
            let history = link.fetch_history(&fork).await?;
            let is_kept = |step: &str| {
                history
                    .iter()
                    .any(|row| row.inherited && row.item.is_none() && row.step_name == step)
            };
            diff.steps.retain(|step| {
                let item_step = step_of_item(&step.step).filter(|of| lacks(step) && is_kept(of));
                if let Some(of) = item_step {
                    // The hooks of an item are not counted.
                    let count = usize::from(step.step.ends_with(']'));
                    *kept.0.entry((of.to_owned(), fork.clone())).or_default() += count;
                }
                item_step.is_none()
            });
        }
        Ok(kept)
    }

    /// A line for each step.
    fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|((step, fork), count)| {
            let items = format_count(*count, "item");
            format!("{step}: '{fork}' kept this step, and does not list its {items}")
        })
    }
}

/// The step of an item's visit: `look` for `look[1]` and `look#2[1]`.
fn step_of_item(visit: &str) -> Option<&str> {
    let (step, _) = visit.split_once('[')?;
    Some(step.split_once('#').map_or(step, |(step, _)| step))
}

/// Formats a difference for people: `-` marks the first execution, and `+` the second.
struct DiffPage {
    screen: Screen,
    kept_items: KeptItems,
}

impl DiffPage {
    fn format(&self, diff: &DiffView) -> String {
        let mut page = self.side(TextStyle::Bad, "-", &diff.before);
        page += &self.side(TextStyle::Good, "+", &diff.after);
        if diff.is_same() {
            page += "\nNothing differs\n";
        }
        page += &self.section("Definition", &diff.definition);
        page += &self.section("Inputs", &diff.inputs);
        if !diff.steps.is_empty() || !self.kept_items.0.is_empty() {
            let title = self.screen.paint(TextStyle::Bold, "Steps");
            let _ = writeln!(page, "\n{title} ({} the same)", diff.same_steps);
        }
        page.extend(diff.steps.iter().map(|step| self.step(step)));
        page.extend(self.kept_items.lines().map(|line| {
            self.screen.indent_block(Some(TextStyle::Dim), "  ", &replace_hidden_chars(&line))
        }));
        if !diff.times.is_empty() {
            let title = self.screen.paint(TextStyle::Bold, "Times");
            let _ = writeln!(page, "\n{title} (the largest differences)");
        }
        for times in &diff.times {
            let [before, after] = [times.before_ms, times.after_ms].map(format_duration);
            page += &self.screen.indent_block(
                None,
                "  ",
                &replace_hidden_chars(&format!("{}: {before} → {after}", times.step)),
            );
        }
        page
    }

    fn side(&self, style: TextStyle, sign: &str, side: &ComparedExecution) -> String {
        let took = side.duration_ms.map(|duration| format!(", took {}", format_duration(duration)));
        let text = format!(
            "{sign} {}  {}, {}{}",
            side.execution_id,
            side.workflow_name,
            side.state,
            took.unwrap_or_default()
        );
        self.screen.indent_block(Some(style), "", &replace_hidden_chars(&text))
    }

    fn section(&self, title: &str, list: &ChangeList) -> String {
        if list.changes.is_empty() {
            return String::new();
        }
        let title = self.screen.paint(TextStyle::Bold, title);
        format!("\n{title}\n{}", self.changes("  ", list))
    }

    fn changes(&self, margin: &str, list: &ChangeList) -> String {
        let mut text: String = list.changes.iter().map(|it| self.change(margin, it)).collect();
        if list.more > 0 {
            let more = format!("{} more", format_count(list.more, "change"));
            text += &self.screen.indent_block(Some(TextStyle::Dim), margin, &more);
        }
        text
    }

    fn change(&self, margin: &str, change: &ValueChange) -> String {
        let path = if change.path.is_empty() { "the whole value" } else { &change.path };
        let mut text = self.screen.indent_block(None, margin, &replace_hidden_chars(path));
        let margin = format!("{margin}  ");
        for line in change.lines.iter().flat_map(|lines| lines.lines()) {
            let style = match line.as_bytes().first() {
                Some(b'-') => TextStyle::Bad,
                Some(b'+') => TextStyle::Good,
                _ => TextStyle::Dim,
            };
            text += &self.screen.indent_block(Some(style), &margin, &replace_hidden_chars(line));
        }
        let sides = [("-", TextStyle::Bad, &change.before), ("+", TextStyle::Good, &change.after)];
        for (sign, style, value) in sides {
            let Some(value) = value else {
                continue;
            };
            let value = format!("{sign} {}", json_text(value, false));
            text += &self.screen.indent_block(Some(style), &margin, &replace_hidden_chars(&value));
        }
        text
    }

    fn step(&self, step: &StepDiff) -> String {
        let (sign, style) = match (&step.before, &step.after) {
            (Some(_), None) => ("-", Some(TextStyle::Bad)),
            (None, Some(_)) => ("+", Some(TextStyle::Good)),
            _ => ("~", None),
        };
        let sides = [&step.before, &step.after].map(|side| side.as_ref().map(summary));
        let [before, after] = sides;
        let how = match (before, after) {
            (Some(before), Some(after)) if before != after => format!("{before} → {after}"),
            (before, after) => before.or(after).unwrap_or_default(),
        };
        let text = format!("{sign} {}: {how}", step.step);
        let mut text = self.screen.indent_block(style, "  ", &replace_hidden_chars(&text));
        if let Some(output) = &step.output {
            text += &self.changes("      ", output);
        }
        text
    }
}

/// How a visit went, in a few words.
fn summary(visit: &VisitSummary) -> String {
    let mut text = visit.status.clone();
    match visit.approved {
        Some(true) => text += ", approved",
        Some(false) => text += ", rejected",
        None => {}
    }
    if let Some(choice) = &visit.choice {
        let _ = write!(text, ", chose '{choice}'");
    }
    if visit.attempts > 1 {
        let _ = write!(text, ", {} attempts", visit.attempts);
    }
    if let Some(error) = &visit.error {
        let _ = write!(text, " ({}: {})", error.code, error.message);
    }
    text
}
