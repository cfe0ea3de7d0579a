//! The limits of subscriptions and listens, at their edge and past it.

use midex_domain::limits;
use midex_mcp::{ListenLimit, Server};
use serde_json::{Value, json};

use super::{Client, House, PIPE_BYTES, UPDATED, listen_of, uri};

fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|number| uri(&format!("workflow_status/x{number}"))).collect()
}

/// Addresses of so many bytes together.
fn long_addresses(bytes: usize) -> Vec<String> {
    let root = uri("agent/");
    let (first, second) = (bytes / 2, bytes - bytes / 2);
    vec![
        format!("{root}{}", "a".repeat(first - root.len())),
        format!("{root}{}", "b".repeat(second - root.len())),
    ]
}

fn assert_refused(answer: &Value, limit: usize) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let data = &answer["error"]["data"];
    assert_eq!(data["error_code"], "LIMIT_EXCEEDED");
    assert!(data["context"]["limit"].to_string().contains(&limit.to_string()), "{data}");
}

#[tokio::test]
async fn a_client_subscribes_to_so_many_addresses() {
    let house = House::new();
    let mut client = house.greeted().await;
    let addresses = addresses(limits::SUBSCRIPTION_ADDRESSES_MAX);
    for address in &addresses {
        client.subscribe(address).await;
    }
    let one_more = json!({ "uri": uri("executions") });
    let answer = client.request("resources/subscribe", one_more.clone()).await;
    assert_refused(&answer, limits::SUBSCRIPTION_ADDRESSES_MAX);
    client.subscribe(&addresses[7]).await;
    client.unsubscribe(&addresses[7]).await;
    client.subscribe(&uri("executions")).await;
    let answer = client.request("resources/subscribe", one_more).await;
    assert!(answer["result"].is_object(), "it is one of them");
    // Another client has its own.
    house.greeted().await.subscribe(&addresses[7]).await;
}

#[tokio::test]
async fn a_client_subscribes_to_so_many_bytes_of_addresses() {
    let house = House::new();
    let mut client = house.greeted().await;
    let fitting = long_addresses(limits::SUBSCRIPTION_BYTES_MAX);
    for address in &fitting {
        client.subscribe(address).await;
    }
    let one_more = json!({ "uri": uri("executions") });
    let answer = client.request("resources/subscribe", one_more).await;
    assert_refused(&answer, limits::SUBSCRIPTION_BYTES_MAX);
    client.unsubscribe(&fitting[0]).await;
    client.subscribe(&uri("executions")).await;
    let mut listening = house.stateless();
    listening.listen_to(&fitting).await;
    let past = long_addresses(limits::SUBSCRIPTION_BYTES_MAX + 1);
    assert_listen_refused(&mut listening, &past, limits::SUBSCRIPTION_BYTES_MAX).await;
}

/// Nothing is accepted, and the answer says why.
async fn assert_listen_refused(client: &mut Client, addresses: &[String], limit: usize) {
    let (id, accepted) = client.listen(json!({ "resourceSubscriptions": addresses })).await;
    assert_eq!(accepted, json!({}));
    assert_refused(&client.answer(id).await, limit);
}

#[tokio::test]
async fn a_listen_has_so_many_addresses() {
    let house = House::new();
    let mut client = house.stateless();
    let addresses = addresses(limits::SUBSCRIPTION_ADDRESSES_MAX + 1);
    let id = client.listen_to(&addresses[1..]).await;
    assert_listen_refused(&mut client, &addresses, limits::SUBSCRIPTION_ADDRESSES_MAX).await;
    house.start("x7").await;
    let told = client.told().await;
    assert_eq!((&told["method"], listen_of(&told)), (&json!(UPDATED), id));
}

#[tokio::test]
async fn a_client_has_so_many_listens() {
    let house = House::new();
    let mut client = house.stateless();
    let address = [uri("executions")];
    let mut ids = Vec::new();
    for _ in 0..limits::LISTENS_MAX {
        ids.push(client.listen_to(&address).await);
    }
    assert_listen_refused(&mut client, &address, limits::LISTENS_MAX).await;
    // Another client has its own.
    house.stateless().listen_to(&address).await;
    client.cancel(ids[5]).await;
    // Its place is free once its handler has ended; until then the next is refused.
    super::patiently("a free place", async {
        loop {
            let filter = json!({ "resourceSubscriptions": &address });
            let (id, accepted) = client.listen(filter).await;
            if accepted != json!({}) {
                return;
            }
            assert_refused(&client.answer(id).await, limits::LISTENS_MAX);
        }
    })
    .await;
    assert_listen_refused(&mut client, &address, limits::LISTENS_MAX).await;
}

/// Many open and cancelled at once leave no place taken, whichever came first to the handler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listens_that_are_cancelled_at_once_leave_no_place_taken() {
    let house = House::new();
    let mut client = house.stateless();
    let address = [uri("workflow_status/x")];
    for _ in 0..4 * limits::LISTENS_MAX {
        let params = json!({ "notifications": { "resourceSubscriptions": &address } });
        let id = client.post("subscriptions/listen", params).await;
        client.cancel(id).await;
    }
    super::nobody_listens(&house.app).await;
    let mut client = Beside(&mut client);
    client.fill(&address).await;
}

/// A client that was told of listens that are gone.
struct Beside<'a>(&'a mut Client);

impl Beside<'_> {
    /// Takes every place. One that was cancelled may be given back a moment later; one that is kept would never be.
    async fn fill(&mut self, address: &[String]) {
        for _ in 0..limits::LISTENS_MAX {
            super::patiently("a free place", async {
                while self.listen(address).await != json!(address) {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            })
            .await;
        }
    }

    /// What is accepted of a listen to these addresses.
    async fn listen(&mut self, address: &[String]) -> Value {
        let params = json!({ "notifications": { "resourceSubscriptions": address } });
        let id = self.0.post("subscriptions/listen", params).await;
        loop {
            let told = self.0.told().await;
            if listen_of(&told) == id {
                return told["params"]["notifications"]["resourceSubscriptions"].clone();
            }
        }
    }
}

#[tokio::test]
async fn stateless_clients_over_http_have_so_many_listens_together() {
    let house = House::new();
    let listens = ListenLimit::for_http();
    let server = || Server::with_listen_limit(house.app.clone(), listens.clone());
    let address = [uri("executions")];
    let mut clients: Vec<_> = (0..4).map(|_| Client::of(server(), PIPE_BYTES, true)).collect();
    for number in 0..limits::HTTP_LISTENS_MAX {
        clients[number % 4].listen_to(&address).await;
    }
    let mut last = Client::of(server(), PIPE_BYTES, true);
    assert_listen_refused(&mut last, &address, limits::HTTP_LISTENS_MAX).await;
    clients.pop().expect("a client").leave().await;
    super::patiently("free places", async {
        while last.listen(json!({ "resourceSubscriptions": &address })).await.1 == json!({}) {}
    })
    .await;
}
