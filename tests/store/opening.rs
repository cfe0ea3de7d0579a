//! A store that is opened while calls wait for it.

use std::{fs, sync::Arc, time::Duration};

use midex_domain::{
    clock::{SeededIds, SystemClock},
    error::Code,
};
use midex_server::{
    app::{App, Options, OwnedDirectory},
    config::Config,
};

#[tokio::test]
async fn a_call_that_waits_for_an_opening_gets_its_outcome() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("executions.redb"), "").unwrap();
    let mut config = Config::new(Some(data.clone())).unwrap();
    home.path().clone_into(&mut config.project_dir);
    let options = Options::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
    let app = App::new_awaiting_ownership(options);
    let waiting = app.clone();
    let waiting = tokio::spawn(async move { waiting.open().await });
    tokio::task::yield_now().await;
    let owned = OwnedDirectory::take_ownership(&data).unwrap();
    let refused = app.open_owned(owned).await.unwrap_err();
    assert_eq!(refused.code(), Code::StoreCorrupt, "{refused:?}");
    let answered = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    let answered = answered.expect("at once").unwrap().unwrap_err();
    assert_eq!(answered.code(), Code::StoreCorrupt, "{answered:?}");
}
