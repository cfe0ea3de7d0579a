//! Finishing a step: the token is recognised, the report is judged, and the steps that follow are entered.

use std::time::Duration;

use super::{
    ConsumedCall, Decision, DecisionContext, Event, Execution, Failure, Outcome, RecordedCall,
    Report, State, StepState, Submission, Visit, VisitEnd,
    choice::TakenOption,
    decision::DecideResult,
    judge::{ExhaustionAction, HELD_STEP_NEXT_CALL, OpenTurn, ReportJudgement},
    transition::TransitionBuilder,
};
use crate::{
    clock::Timestamp,
    document::Digest,
    error::{Code, Error, NextCall, Result, address, read_resource},
    limits,
    token::Token,
};

/// The next call to suggest after a step failed for good and the execution continues without it.
const CONTINUE_WITHOUT_STEP_NEXT_CALL: NextCall = read_resource(
    address!("current_step/{execution_id}"),
    "the execution goes on without this step's output",
);

impl Execution {
    pub(super) fn decide_advance(
        &self,
        builder: TransitionBuilder<'_>,
        token: &Token,
        submission: &Submission,
    ) -> DecideResult<Decision> {
        match self.match_token(token) {
            TokenMatch::Open(position, step, visit) => {
                self.check_token_age(builder.context, token, builder.row.at)?;
                self.check_is_running()?;
                if visit.is_held() {
                    return Err(self.held_step_error(step).into());
                }
                let report = builder.parse_submission_report(position, submission);
                let report = report.as_deref();
                let consumed =
                    ConsumedCall { grant: token.grant(), call: submission.call_digest(report) };
                let turn = OpenTurn {
                    position,
                    step,
                    visit,
                    consumed,
                    is_user_answer: matches!(report, Some(Report::Answer(_))),
                };
                let chosen_option =
                    self.find_chosen_option(&builder, &turn, submission.choice.as_deref())?;
                match report {
                    Some(report) => self.close_turn(builder, &turn, report, chosen_option.as_ref()),
                    None => self.leave_workflow(builder, &turn, chosen_option.as_ref()),
                }
            }
            TokenMatch::Consumed(position, step, visit, recorded_call) => {
                let report = builder.parse_submission_report(position, submission);
                let call = submission.call_digest(report.as_deref());
                let report = report.as_deref();
                self.replay_consumed_call(
                    &builder,
                    (position, step, visit),
                    &recorded_call,
                    (call, report),
                )
            }
            TokenMatch::Superseded => {
                let message = "Token superseded: a newer one was issued, or its step was closed without it or rewound";
                Err(self.step_error(Code::TokenSuperseded, &token.step_name, message).into())
            }
            TokenMatch::Foreign => {
                token
                    .check_not_from_future(builder.row.at)
                    .map_err(|error| self.with_execution_context(error))?;
                let message = "Token mismatch: this execution never issued it";
                Err(self.step_error(Code::TokenMismatch, &token.step_name, message).into())
            }
        }
    }

    /// Whether a rewind took back what the call did: it came before the first visit after the rewind.
    fn is_undone(&self, step: &StepState, call: &RecordedCall) -> bool {
        let Some(undone) = self.uncounted_visits.get(&step.id) else {
            return false;
        };
        let first_visit = step.visits.iter().find(|visit| visit.number > *undone);
        first_visit.is_none_or(|visit| call.revision < visit.opened_revision)
    }

    fn match_token(&self, token: &Token) -> TokenMatch<'_> {
        let Some((position, step)) =
            self.find_step(&token.step_name).filter(|_| token.execution_id == self.id)
        else {
            return TokenMatch::Foreign;
        };
        let has_token = |call: &&RecordedCall| call.consumed.grant.matches(token);
        let match_call = |visit, call: RecordedCall| {
            if self.is_undone(step, &call) {
                return TokenMatch::Superseded;
            }
            TokenMatch::Consumed(position, step, visit, call)
        };
        if let Some(call) = step.past.iter().find(has_token) {
            return match_call(None, *call);
        }
        // Open visits are searched first, because a `foreach` may have thousands of closed items.
        let mut open_visits = step.latest_visit().into_iter().chain(step.items.open_items());
        let is_current =
            |visit: &&Visit| visit.last_token().is_some_and(|grant| grant.matches(token));
        if let Some(visit) = open_visits.find(is_current) {
            return TokenMatch::Open(position, step, visit);
        }
        let newest_first = step.visits.iter().rev().map(|visit| &**visit);
        for visit in newest_first.chain(step.items.iter()) {
            if let Some(call) = visit.recorded_calls().find(|call| has_token(&call)) {
                return match_call(Some(visit), call);
            }
            let mut retired = visit.superseded.iter();
            if retired.any(|retired| retired.grant.matches(token)) {
                return TokenMatch::Superseded;
            }
        }
        TokenMatch::Foreign
    }

    fn check_token_age(
        &self,
        facts: DecisionContext<'_>,
        token: &Token,
        now: Timestamp,
    ) -> Result<()> {
        let age = now.since(token.issued_at);
        if age < facts.token_ttl {
            return Ok(());
        }
        let message = format!("Token expired (issued {} ago)", format_duration(age));
        Err(self.step_error(Code::TokenExpired, &token.step_name, message))
    }

    fn check_is_running(&self) -> Result<()> {
        match self.state {
            State::Running => Ok(()),
            State::Paused => Err(self.execution_paused_error()),
            state => {
                let message = format!("the execution is {state}");
                Err(self.with_execution_context(Error::new(Code::ExecutionFinished, message)))
            }
        }
    }

    fn replay_consumed_call(
        &self,
        builder: &TransitionBuilder<'_>,
        (position, step, visit): (usize, &StepState, Option<&Visit>),
        recorded_call: &RecordedCall,
        (call, report): (Digest, Option<&Report>),
    ) -> DecideResult<Decision> {
        if recorded_call.consumed.call != call {
            let open_steps = self.describe_open_steps();
            let message = format!(
                "Token already used: step '{}' was closed with another output; {open_steps}",
                step.id
            );
            let error = self.step_error(Code::TokenAlreadyUsed, &step.id, message);
            return Err(error.into());
        }
        if let Some(Report::Output(value) | Report::Answer(value)) = report
            && !recorded_call.was_accepted
            && let violations = builder.find_repeated_call_violations(position, visit, value)?
            && !violations.is_empty()
        {
            // This repeats the call whose refusal ended the visit, so it gets the same refusal.
            let max_outputs = limits::OUTPUT_ATTEMPTS_MAX;
            let refusal =
                self.invalid_output_error(step, max_outputs, ExhaustionAction::Fail, violations);
            return Err(self.with_next_call_after_failure(refusal).into());
        }
        Ok(Decision::Replay(recorded_call.revision))
    }

    fn close_turn(
        &self,
        mut builder: TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        report: &Report,
        chosen_option: Option<&TakenOption>,
    ) -> DecideResult<Decision> {
        let visit_id = turn.visit_id();
        let (mut artifacts, mut references) = (Vec::new(), Vec::new());
        let judgement = self.judge_report(&mut builder, turn, report)?;
        let (outcome, refusal) = match builder.judge_poll(turn, judgement)? {
            ReportJudgement::Accepted(accepted) => {
                builder.contents.extend(accepted.contents);
                let suggestions = accepted.suggestions;
                builder.offer_options(turn.position, &visit_id, &accepted.output, suggestions)?;
                builder.remember_value(&accepted.payload, accepted.output);
                (artifacts, references) = (accepted.artifacts, accepted.references);
                (Outcome::Completed(accepted.payload), None)
            }
            ReportJudgement::Refused(refusal, output) => {
                builder.push_event(Event::OutputRefused { visit_id, output });
                return Ok(builder.into_decision(Some(refusal)));
            }
            ReportJudgement::Held(refusal, output) => {
                builder.hold_visit(turn, output)?;
                return Ok(builder.into_decision(Some(refusal)));
            }
            ReportJudgement::Reoffered => {
                builder.record_chosen_option(turn, chosen_option);
                return builder.finish_after_choice(chosen_option);
            }
            ReportJudgement::Failed(failure) => (Outcome::Failed(failure), None),
            ReportJudgement::RefusedFinally(refusal) => {
                let failure = Failure::from_error(&refusal, &turn.step.id);
                (Outcome::Failed(failure), Some(refusal))
            }
        };
        // The choice of a refused call does not count.
        let chosen_option = chosen_option.filter(|_| refusal.is_none());
        builder.record_chosen_option(turn, chosen_option);
        builder.withdraw_followed_offers(turn);
        builder.close_visit(&visit_id, turn.visit, outcome.clone(), Some(turn.consumed));
        builder.store_artifacts(&visit_id, artifacts, references);
        if chosen_option.is_some_and(TakenOption::leaves_workflow) {
            return builder.finish_after_choice(chosen_option);
        }
        builder.schedule_after_visit(turn.position, &visit_id, &outcome)?;
        builder.run_to_quiescence()?;
        let refusal =
            refusal.map(|refusal| builder.execution.with_next_call_after_failure(refusal));
        Ok(builder.into_decision(refusal))
    }

    /// Adds the next call to the refusal of a step's last allowed output, if the execution continues without the step.
    fn with_next_call_after_failure(&self, refusal: Error) -> Error {
        if self.state.is_final() {
            refusal
        } else {
            refusal.with_next(CONTINUE_WITHOUT_STEP_NEXT_CALL)
        }
    }

    /// The refusal of a call for a held step.
    fn held_step_error(&self, step: &StepState) -> Error {
        let message = format!(
            "step '{}' is held (output_invalid): {} outputs in a row broke its schema",
            step.id,
            limits::OUTPUT_ATTEMPTS_MAX
        );
        let error = self.step_error(Code::ExecutionPaused, &step.id, message);
        error.with_next(HELD_STEP_NEXT_CALL)
    }

    fn describe_open_steps(&self) -> String {
        let open_steps: Vec<_> =
            self.open_visits().map(|(_, step, _)| format!("'{}'", step.id)).collect();
        if open_steps.is_empty() {
            format!("the execution is {}", self.state)
        } else {
            format!("the execution is {}, at {}", self.state, open_steps.join(", "))
        }
    }
}

enum TokenMatch<'a> {
    Open(usize, &'a StepState, &'a Visit),
    /// The token was used by this call. The visit is `None` if only the call is remembered.
    Consumed(usize, &'a StepState, Option<&'a Visit>, RecordedCall),
    Superseded,
    Foreign,
}

impl Visit {
    /// The calls that ended this visit or one of its attempts.
    fn recorded_calls(&self) -> impl Iterator<Item = RecordedCall> {
        let closed = self.closed.as_ref().and_then(VisitEnd::recorded_call);
        self.ended.iter().copied().chain(closed)
    }
}

/// A duration in words: `25 hours`, `10 minutes`.
fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        _ => (seconds / 3600, "hour"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}
