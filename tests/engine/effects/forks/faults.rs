//! Forks and rewinds of what is half done, bad arguments, and past states.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_rewind_into_a_half_done_foreach_does_all_its_items_again() {
    let lines = "steps:
  - { id: first, guidance: First., result: {} }
  - { id: each, foreach: { in: [a, b, c], parallel: 2, do: { guidance: 'Do ${{ item }}.', result: {} } } }
";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("first", json!({})).await;
    let tokens: Vec<_> =
        play.offers().iter().map(|offer| offer.continuation_token.clone()).collect();
    let done = midex_domain::execution::Report::Output(json!(1));
    play.report(&tokens[0], done).await;
    let view = rewound(&play.engine, rewind_to("each")).await;
    assert_eq!(view.done_again, ["each"]);
    for token in &tokens {
        assert_eq!(play.refused(token, json!(1)).await.code(), Code::TokenSuperseded);
    }
    let open = play.engine.current_now("e").await.ready_steps;
    let open: Vec<_> = open.iter().map(|open| (open.step.visit, open.step.item)).collect();
    assert_eq!(open, [(2, Some(0)), (2, Some(1))]);
    for item in 0..3 {
        play.goes_on(json!(item)).await;
    }
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn inputs_that_break_the_workflow_make_no_fork() {
    let lines = "inputs: { text: { type: string } }\nsteps:\n  - { id: a, guidance: 'Do ${{ inputs.text }}.', result: {} }\n";
    let mut play = Play::begin(lines, json!({ "text": "one" })).await;
    play.fails("a", "BROKEN").await;
    for (inputs, code) in
        [(json!({ "text": 7 }), Some(Code::InputsInvalid)), (json!({ "text": "two" }), None)]
    {
        let inputs = inputs.as_object().unwrap().clone();
        let request = ForkRequest { inputs, ..fork_request("e", "a") };
        let refused = play.engine.fork(request).await.err();
        assert_eq!(refused.map(|error| error.code()), code);
        assert_eq!(play.engine.status_now("e").await.forks.len(), usize::from(code.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_from_elsewhere_does_not_pass_a_rejection() {
    let lines = "steps:
  - { id: notes, guidance: Notes., result: {}, depends_on: [] }
  - { id: ship, gate: Ship?, depends_on: [] }
  - { id: deploy, guidance: Deploy., result: {}, depends_on: [ship] }
";
    let play = Play::begin(lines, json!({})).await;
    play.engine.commanded(gate_answer(&play.status().await, false, None)).await;
    for is_retry in [false, true] {
        let request = ForkRequest { is_retry, ..fork_request("e", "notes") };
        let (view, reply) = forked(&play.engine, request).await;
        assert_eq!(with_fate(&view, StepFate::OpenAgain), ["notes", "ship"]);
        let open: Vec<_> = reply.new_tokens.iter().map(|open| open.step_name.as_str()).collect();
        assert_eq!(open, ["notes"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_step_that_is_done_again_finds_the_memory_of_the_start() {
    let lines = "memory: { n: 0, m: 0 }
steps:
  - { id: count, set: { n: '${{ memory.n + 1 }}' } }
  - { id: tell, guidance: 'N is ${{ memory.n }}, M is ${{ memory.m }}.', result: {} }
";
    let mut play = Play::begin(lines, json!({})).await;
    rewound(&play.engine, rewind_to("count")).await;
    let told = play.engine.current_now("e").await.instructions.unwrap();
    assert_has(&told, &["N is 1, M is 0."]);
    let (_, reply) = forked(&play.engine, fork_request("e", "count")).await;
    play.last = reply;
    assert_has(play.words(), &["N is 1, M is 0."]);
}

#[tokio::test(start_paused = true)]
async fn a_fork_from_a_step_forgets_what_was_written_after_the_end_began() {
    let lines = "memory: { n: 0 }
hooks: { on_failure: { set: { n: 5 } } }
steps:
  - { id: a, guidance: 'N is ${{ memory.n }}.', result: {} }
";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    for from_step in [None, Some(step("a"))] {
        let request = ForkRequest { from_step, ..ForkRequest::new(named("e")) };
        play.last = forked(&play.engine, request).await.1;
        assert_has(play.words(), &["N is 0."]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_takes_the_way_of_a_step_whose_hook_was_cut_off() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, next: c, hooks: { on_success: { activity: tell } } }
  - { id: b, guidance: B., result: {} }
  - { id: c, guidance: C., result: {}, depends_on: [a], on_error: b }
";
    let log = Log::new();
    let engine = told(&log, ["tell"], lines).await;
    let token = engine.current_now("e").await.continuation_token.unwrap();
    engine.finish(&token, "done").await;
    let (view, reply) = forked(&engine, ForkRequest::new(named("e"))).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["a"]);
    let open: Vec<_> = reply.new_tokens.iter().map(|open| open.step_name.as_str()).collect();
    assert_eq!(open, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_join_after_the_step_of_a_rewind_goes_on_with_what_stays_done() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, depends_on: [] }
  - { id: b, guidance: B., result: {}, depends_on: [] }
  - { id: either, guidance: Either., result: {}, depends_on: [a, b], join: any }
";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!({})).await;
    let view = rewound(&play.engine, rewind_to("b")).await;
    assert_eq!(view.status.steps.running, 2, "{view:?}");
}

#[tokio::test(start_paused = true)]
async fn a_past_state_is_shown_as_it_was_and_hands_out_no_token() {
    let mut play = Play::begin(NINE, json!({})).await;
    play.done("s1", json!({ "n": 1 })).await;
    tokio::time::sleep(seconds(60)).await;
    play.done("s2", json!({ "n": 2 })).await;
    let engine = &play.engine;
    for (point, current, completed) in
        [("1", "s1", 0), ("2", "s2", 1), ("2025-01-15T10:00:30Z", "s2", 1), ("3", "s4", 3)]
    {
        let point = point.parse().unwrap();
        let status = engine.past_status(&id(), point).await.unwrap();
        let now = (status.current_step.as_deref(), status.steps.completed);
        assert_eq!(now, (Some(current), completed), "{point}");
        let step = engine.past_step(&id(), point).await.unwrap();
        assert_eq!((step.current_step.as_deref(), step.continuation_token), (Some(current), None));
        assert_eq!(step.ready_steps[0].continuation_token, "");
    }
    for point in ["0", "4", "2025-01-15T09:00:00Z"] {
        let refused = engine.past_status(&id(), point.parse().unwrap()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ArgumentsInvalid, "{point}");
    }
    assert!("yesterday".parse::<PastPoint>().is_err());
}
