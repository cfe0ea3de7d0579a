//! The initialize era: `resources/subscribe`, `resources/unsubscribe` and the list of resources.

use midex_domain::{LifecycleAction, limits};
use serde_json::json;

use super::{
    Client, House, LIST_CHANGED, PROMPTS_CHANGED, UPDATED, nobody_listens, uri, write_workflow,
};

#[tokio::test]
async fn a_subscriber_is_told_of_every_move_and_of_nothing_else() {
    let house = House::new();
    let mut client = house.greeted().await;
    // Before there is such an execution, and before the store is open; in a spelling of the client's own.
    let mine = [uri("current_step/x"), uri("workflow_status/%78"), uri("executions?limit=5")];
    for address in &mine {
        client.subscribe(address).await;
    }
    for address in ["artifact/x/1", "workflow_status/other", "agent/reviewer"] {
        client.subscribe(&uri(address)).await;
    }
    let mut started = client
        .call("workflow.start", json!({ "workflow_name": "mine", "execution_id": "x" }))
        .await;
    assert_told_once(&mut client, &mine).await;
    let token = started["new_token"].take();
    let output = json!({ "token": token, "output": { "summary": "s" } });
    client.call("workflow.next_step", output).await;
    assert_told_once(&mut client, &mine).await;
    client.call("execution.pause", json!({ "execution_id": "x" })).await;
    assert_told_once(&mut client, &mine).await;
}

/// Every address once, in any order.
async fn assert_told_once(client: &mut Client, addresses: &[String]) {
    let mut told = Vec::new();
    for _ in addresses {
        let notice = client.told().await;
        assert_eq!(notice["method"], UPDATED, "{notice}");
        told.push(notice["params"]["uri"].as_str().expect("text").to_owned());
    }
    told.sort();
    let mut expected = addresses.to_vec();
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn who_no_longer_subscribes_is_told_no_more() {
    let house = House::new();
    let mut client = house.greeted().await;
    let (kept, left, last) =
        (uri("step_history/x"), uri("workflow_status/x"), uri("telemetry/last"));
    for address in [&left, &kept, &left, &last] {
        client.subscribe(address).await;
    }
    client.unsubscribe(&left).await;
    client.unsubscribe(&uri("workflow_status/never")).await;
    house.start("x").await;
    house.start("last").await;
    assert_eq!(client.told_until(&last).await, [kept.clone(), last.clone()]);
    client.subscribe(&left).await;
    house.change("x", LifecycleAction::Pause).await;
    house.change("last", LifecycleAction::Pause).await;
    let mut told = client.told_until(&last).await;
    told.sort();
    assert_eq!(told, [kept, last, left]);
    client.leave().await;
    nobody_listens(&house.app).await;
}

#[tokio::test]
async fn two_clients_are_told_of_their_own() {
    let house = House::new();
    let (mut one, mut two) = (house.greeted().await, house.greeted().await);
    one.subscribe(&uri("workflow_status/one")).await;
    two.subscribe(&uri("workflow_status/two")).await;
    for client in [&mut one, &mut two] {
        client.subscribe(&uri("workflow_status/last")).await;
    }
    for id in ["one", "two", "last"] {
        house.start(id).await;
    }
    let last = uri("workflow_status/last");
    assert_eq!(one.told_until(&last).await[..1], [uri("workflow_status/one")]);
    assert_eq!(two.told_until(&last).await[..1], [uri("workflow_status/two")]);
    one.leave().await;
    house.change("one", LifecycleAction::Pause).await;
    house.change("last", LifecycleAction::Pause).await;
    assert_eq!(two.told_until(&last).await, [last]);
}

#[tokio::test]
async fn an_address_that_names_nothing_is_refused() {
    let house = House::new();
    let mut client = house.greeted().await;
    for (address, code, error_code) in [
        (uri("nothing"), -32002, "RESOURCE_NOT_FOUND"),
        ("http://elsewhere/".to_owned(), -32002, "RESOURCE_NOT_FOUND"),
        (uri("telemetry?limit=0"), -32602, "ARGUMENTS_INVALID"),
    ] {
        let answer = client.request("resources/subscribe", json!({ "uri": address })).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer["error"]["data"]["error_code"], error_code);
        assert_eq!(answer["error"]["data"]["context"]["uri"], address);
    }
    let answer = client.request("resources/subscribe", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // It belongs to the other era.
    let answer = client.request("subscriptions/listen", json!({ "notifications": {} })).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn a_hot_reload_changes_the_list_and_what_differs() {
    let house = House::new();
    let mut client = house.greeted().await;
    let (all, mine) = (uri("available_workflows"), uri("workflow_details/mine"));
    let (other, new) = (uri("workflow_details/bug-fix"), uri("workflow_details/new"));
    let agent = uri("agent/reviewer");
    for address in [&all, &mine, &other, &new, &agent] {
        client.subscribe(address).await;
    }
    let reload = async || {
        let app = house.app.clone();
        let reloaded = tokio::task::spawn_blocking(move || app.definitions().reload());
        reloaded.await.expect("no panic");
    };
    write_workflow(house.home(), "mine", "two");
    reload().await;
    assert_eq!(client.told().await["method"], LIST_CHANGED);
    assert_eq!(client.told().await["method"], PROMPTS_CHANGED);
    assert_told_once(&mut client, &[all.clone(), mine.clone()]).await;
    write_workflow(house.home(), "new", "three");
    reload().await;
    assert_eq!(client.told().await["method"], LIST_CHANGED);
    assert_eq!(client.told().await["method"], PROMPTS_CHANGED);
    assert_told_once(&mut client, &[all, new]).await;
    client.unsubscribe(&mine).await;
    client.subscribe(&uri("workflow_status/last")).await;
    house.start("last").await;
    assert_eq!(
        client.told_until(&uri("workflow_status/last")).await,
        [uri("workflow_status/last")]
    );
}

/// Moves that a client does not take are one notification, and the last of them is told.
#[tokio::test]
async fn who_reads_slowly_is_told_less_often_and_of_the_last_state() {
    const MOVES: usize = 1000;
    let house = House::new();
    house.start("x").await;
    house.start("last").await;
    let mut client = house.greeted_through(512).await;
    let (mine, last) = (uri("workflow_status/x"), uri("workflow_status/last"));
    client.subscribe(&mine).await;
    client.subscribe(&last).await;
    // It takes nothing at all meanwhile, and nobody waits for it.
    house.move_often("x", MOVES).await;
    house.change("last", LifecycleAction::Pause).await;
    let told = client.told_until(&last).await;
    // What fits into the pipe, what is being written, and one that waits.
    assert!((2..12).contains(&told.len()), "{} notifications", told.len());

    // Now it reads what it is told of, while everything moves on.
    let before = house.revision("x").await;
    let moving = async {
        house.move_often("x", MOVES / 5).await;
        house.change("last", LifecycleAction::Resume).await;
    };
    let reading = async {
        let (mut seen, mut count) = (0, 0);
        loop {
            let notice = client.told().await;
            if notice["params"]["uri"] == last {
                return (seen, count);
            }
            count += 1;
            let read = client.request("resources/read", json!({ "uri": mine })).await;
            let text = read["result"]["contents"][0]["text"].as_str().expect("text");
            let status: serde_json::Value = serde_json::from_str(text).expect("JSON");
            seen = status["revision"].as_u64().expect("a revision");
        }
    };
    let ((), (seen, count)) = tokio::join!(moving, reading);
    assert_eq!(seen, house.revision("x").await, "the last state was told of");
    assert_eq!(seen, before + MOVES as u64 / 5);
    assert!(count <= MOVES / 5, "{count} notifications");
}

/// A client that takes nothing costs another one's calls nothing: they are all answered.
#[tokio::test]
async fn who_takes_nothing_holds_up_nobody() {
    let house = House::new();
    let mut stuck = house.greeted_through(256).await;
    stuck.subscribe(&uri("executions")).await;
    let mut addresses = 1;
    for number in 0..100 {
        stuck.subscribe(&uri(&format!("workflow_status/x{number}"))).await;
        addresses += 1;
    }
    let mut other = house.greeted().await;
    for number in 0..100 {
        let arguments = json!({ "workflow_name": "mine", "execution_id": format!("x{number}") });
        let mut answer = other.call("workflow.start", arguments).await;
        for _ in ["a", "b"] {
            let token = answer["new_token"].take();
            let output = json!({ "token": token, "output": { "summary": "s" } });
            answer = other.call("workflow.next_step", output).await;
        }
        assert_eq!(answer["workflow_state"], "completed");
    }
    stuck.subscribe(&uri("workflow_status/last")).await;
    house.start("last").await;
    let told = stuck.told_until(&uri("workflow_status/last")).await;
    // 300 moves: each address once, but for what was on its way when it was marked again.
    assert!(told.len() <= addresses + 1 + 10, "{} notifications", told.len());
    assert!(addresses < limits::SUBSCRIPTION_ADDRESSES_MAX);
}
