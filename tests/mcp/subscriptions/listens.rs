//! The stateless era: `subscriptions/listen`.

use midex_domain::LifecycleAction;
use serde_json::json;

use super::{
    House, LIST_CHANGED, PROMPTS_CHANGED, TOOLS_CHANGED, UPDATED, listen_of, nobody_listens, uri,
    write_workflow,
};

#[tokio::test]
async fn a_listen_tells_what_it_accepted_under_its_id() {
    let house = House::new();
    let mut client = house.stateless();
    let filter = json!({
        "resourceSubscriptions": [uri("workflow_status/x"), uri("nothing"), uri("telemetry?limit=0"), uri("artifact/x/1")],
        "resourcesListChanged": true, "toolsListChanged": true, "promptsListChanged": true
    });
    let (id, accepted) = client.listen(filter).await;
    let expected = json!({
        "resourceSubscriptions": [uri("workflow_status/x"), uri("artifact/x/1")], "resourcesListChanged": true,
        "promptsListChanged": true, "toolsListChanged": true
    });
    assert_eq!(accepted, expected);
    client.call("workflow.start", json!({ "workflow_name": "mine", "execution_id": "x" })).await;
    let told = client.told().await;
    assert_eq!((&told["method"], listen_of(&told)), (&json!(UPDATED), id));
    assert_eq!(told["params"]["uri"], uri("workflow_status/x"));
    write_workflow(house.home(), "mine", "two");
    let app = house.app.clone();
    let reloaded = tokio::task::spawn_blocking(move || app.definitions().reload());
    reloaded.await.expect("no panic");
    let told = client.told().await;
    assert_eq!((&told["method"], listen_of(&told)), (&json!(LIST_CHANGED), id));
    assert_eq!(client.told().await["method"], PROMPTS_CHANGED);
    // It belongs to the other era.
    let answer = client.request("resources/subscribe", json!({ "uri": uri("executions") })).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

/// The list is told of where that was asked for, and only there.
#[tokio::test]
async fn who_does_not_ask_for_the_list_is_not_told_of_it() {
    let house = House::new();
    let mut client = house.stateless();
    client.listen_to(&[uri("workflow_details/mine")]).await;
    write_workflow(house.home(), "mine", "two");
    let app = house.app.clone();
    let reloaded = tokio::task::spawn_blocking(move || app.definitions().reload());
    reloaded.await.expect("no panic");
    assert_eq!(client.told().await["params"]["uri"], uri("workflow_details/mine"));
}

/// The acknowledgement leaves before the handler of the listen is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_after_the_acknowledgement() {
    let house = House::new();
    house.start("x").await;
    let mut client = house.stateless();
    let address = [uri("workflow_status/x")];
    for round in 0..300 {
        let id = client.listen_to(&address).await;
        let lifecycle =
            if round % 2 == 0 { LifecycleAction::Pause } else { LifecycleAction::Resume };
        house.change("x", lifecycle).await;
        let told = client.told().await;
        assert_eq!((&told["method"], listen_of(&told)), (&json!(UPDATED), id), "round {round}");
        client.cancel(id).await;
        nobody_listens(&house.app).await;
    }
}

#[tokio::test]
async fn equal_listens_of_one_client_are_each_told() {
    let house = House::new();
    let mut client = house.stateless();
    let address = [uri("executions")];
    let (one, two) = (client.listen_to(&address).await, client.listen_to(&address).await);
    house.start("x").await;
    let mut told = [listen_of(&client.told().await), listen_of(&client.told().await)];
    told.sort_unstable();
    assert_eq!(told, [one, two]);
    client.cancel(one).await;
    // Answered after the cancellation was read; its handler may still be on the way out.
    client.call("execution.list", json!({})).await;
    client.cancel(two).await;
    let three = client.listen_to(&[uri("workflow_status/x")]).await;
    house.change("x", LifecycleAction::Pause).await;
    loop {
        if listen_of(&client.told().await) == three {
            break;
        }
    }
}

#[tokio::test]
async fn the_end_of_the_process_ends_a_listen_in_order() {
    let house = House::new();
    let mut client = house.stateless();
    let id = client.listen_to(&[uri("workflow_status/x")]).await;
    house.app.begin_stop();
    let answer = client.answer(id).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    nobody_listens(&house.app).await;
}

#[tokio::test]
async fn who_goes_leaves_nothing_behind() {
    let house = House::new();
    let mut client = house.stateless();
    client.listen_to(&[uri("workflow_status/x")]).await;
    client.listen_to(&[uri("workflow_status/y")]).await;
    assert_eq!(format!("{:?}", house.app.change_notifier()), "Notifier(2 executions)");
    client.leave().await;
    nobody_listens(&house.app).await;
}

/// The list of tools changes with the workflows that have some of their own, and with no other file.
#[tokio::test]
async fn a_change_of_the_tools_of_workflows_is_told_in_both_eras() {
    let house = House::new();
    let (mut modern, mut greeted) = (house.stateless(), house.greeted().await);
    modern.listen(json!({ "toolsListChanged": true })).await;
    let text = "workflow: mine\ndescription: d\nexpose: { tools: true }\nsteps:\n  - { id: a, guidance: g }\n";
    write_workflow(house.home(), "other", "one");
    std::fs::write(house.home().join("workflows/exposed.yaml"), text).unwrap();
    let app = house.app.clone();
    tokio::task::spawn_blocking(move || app.definitions().reload()).await.expect("no panic");
    assert_eq!(modern.told().await["method"], TOOLS_CHANGED);
    for method in [LIST_CHANGED, PROMPTS_CHANGED, TOOLS_CHANGED] {
        assert_eq!(greeted.told().await["method"], method);
    }
}
