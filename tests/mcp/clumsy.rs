//! An agent that does what agents do wrong: it loses replies, tokens, ids and itself, and misspells the rest. It follows
//! `suggested_action` literally, by its one grammar, and so comes to the end of every workflow.

mod agent;
mod grammar;
mod host;
mod manifests;
use self::{
    agent::Agent,
    host::{Host, World},
};
use midex_test::{
    long::{rounds, seed},
    project::Project,
};

/// The workflows that come with midex.
fn shipped() -> Vec<String> {
    let registry = midex_registry::Registry::load(&midex_registry::Sources::default());
    registry.workflows().map(|entry| entry.name.clone()).collect()
}

#[tokio::test]
async fn a_clumsy_agent_comes_to_the_end_of_every_workflow() {
    let seed = seed(11);
    let world = World::new(seed);
    let mut workflows = shipped();
    // Its catalog is a person's to bring.
    workflows.retain(|name| name != "incident-runbook");
    workflows.extend(manifests::names().map(str::to_owned));
    let (mut dead_ends, mut calls) = (Vec::new(), 0);
    for round in 0..rounds(38, 1000) {
        let workflow = &workflows[usize::try_from(round).unwrap() % workflows.len()];
        // A project of its own: it finds its own execution, and nobody else's.
        let mut host = Host::in_memory(world.app(&format!("p{round}"))).await;
        let mut agent =
            Agent::new(Some(&world), &mut host, seed.wrapping_mul(1 << 20) + round, workflow);
        match agent.run().await {
            Ok(count) => calls += count,
            Err(why) => dead_ends.push(format!("round {round}: {why}")),
        }
    }
    world.stop().await;
    assert!(
        dead_ends.is_empty(),
        "{} dead ends in {calls} calls:\n{}",
        dead_ends.len(),
        dead_ends.join("\n\n")
    );
}

#[tokio::test]
async fn it_does_so_with_the_real_binary() {
    let files: Vec<_> = manifests::files().collect();
    let files: Vec<_> =
        files.iter().map(|(name, text)| (format!("workflows/{name}"), text.as_str())).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let seed = seed(12);
    for (round, workflow) in (0u64..).zip(["loop", "items-at-once", "asks", "bug-fix"]) {
        let project = Project::new(&files);
        let mut host = Host::of_process(project.serve()).await;
        let mut agent = Agent::new(None, &mut host, seed + round, workflow);
        if let Err(why) = agent.run().await {
            panic!("a dead end: {why}");
        }
    }
}
