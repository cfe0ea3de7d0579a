//! Scheduled backups under paused time, and the order of retention rules.

use std::{path::Path, sync::Arc, time::Duration};

use midex_domain::{
    State,
    clock::{Clock, SeededIds, Timestamp},
};
use midex_server::{
    app::{App, Options},
    config::{
        BackupSchedule, Config, parse_backup_interval, parse_retention_rule, sort_retention_rules,
    },
};
use midex_test::clock::TokioClock;

use super::backup::{listed, opened};

const HOUR: Duration = Duration::from_secs(3600);

fn app(data: &Path, clock: TokioClock, is_worker: bool) -> App {
    let schedule =
        BackupSchedule { every: 24 * HOUR, keep: 3, directory: data.join("somewhere/backups") };
    let config = Config { backups: Some(schedule), ..Config::new(Some(data.to_owned())).unwrap() };
    let options = Options::new(config, Arc::new(clock), Arc::new(SeededIds::new(1)));
    App::with_options(Options { is_worker, ..options })
}

/// Lets time pass, with the work that is due meanwhile.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn backups_are_made_when_they_are_due_and_the_newest_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("somewhere/backups");
    let clock = TokioClock::starting_at(Timestamp::from_milliseconds(1_800_000_000_000));
    let app = app(home.path(), clock, true);
    app.open().await.unwrap();
    pass(HOUR).await;
    let first = listed(&directory);
    assert_eq!(first.len(), 1);
    let time = first[0].strip_prefix("midex-").unwrap().strip_suffix(".redb").unwrap();
    let made_at = Timestamp::parse_file_name(time).unwrap();
    assert!(clock.now().since(made_at) <= HOUR + Duration::from_secs(60), "{first:?}");
    for name in ["mine.redb", "midex-.redb", "midex-2020-01-01.redb"] {
        std::fs::write(directory.join(name), "mine").unwrap();
    }
    pass(22 * HOUR).await;
    assert_eq!(listed(&directory).len(), 4, "none is due");
    let mut all = first;
    for day in 2..=6 {
        pass(24 * HOUR).await;
        let names: Vec<_> = listed(&directory).into_iter().filter(|name| name.len() > 22).collect();
        assert_eq!(names.len(), day.min(3), "{names:?}");
        all.push(names.last().unwrap().clone());
        assert_eq!(names, all[all.len() - names.len()..], "the oldest are gone");
    }
    assert!(all.is_sorted() && all.len() == 6, "{all:?}");
    for name in ["mine.redb", "midex-.redb", "midex-2020-01-01.redb"] {
        assert!(directory.join(name).exists(), "{name} is another's");
    }
    opened(&directory.join(&all[5])).await;
    app.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_fails_is_tried_again_and_a_command_makes_none() {
    let home = tempfile::tempdir().unwrap();
    let clock = TokioClock::starting_at(Timestamp::from_milliseconds(1_800_000_000_000));
    let command = app(home.path(), clock, false);
    command.open().await.unwrap();
    pass(48 * HOUR).await;
    command.stop().await.unwrap();
    assert!(!home.path().join("somewhere").exists());
    std::fs::write(home.path().join("somewhere"), "in the way").unwrap();
    let server = app(home.path(), clock, true);
    server.open().await.unwrap();
    pass(HOUR).await;
    std::fs::remove_file(home.path().join("somewhere")).unwrap();
    pass(Duration::from_secs(120)).await;
    assert_eq!(listed(&home.path().join("somewhere/backups")).len(), 1);
    server.stop().await.unwrap();
}

#[test]
fn the_time_between_backups_is_read_as_people_write_it() {
    let seconds = |text| parse_backup_interval(text).map(|every| every.as_secs());
    assert_eq!(seconds("1d"), Ok(86_400));
    assert_eq!(seconds("60s"), Ok(60));
    for bad in ["59s", "0s", "1", "daily", "", "400d"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_order_of_file_names_is_that_of_time() {
    let names: Vec<_> = [0, 1, 999, 1_000, 1_800_000_000_123, 4_000_000_000_000]
        .map(|milliseconds| Timestamp::from_milliseconds(milliseconds).to_file_name())
        .into();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(names[4], "2027-01-15T080000.123Z");
    for name in &names {
        assert_eq!(&Timestamp::parse_file_name(name).unwrap().to_file_name(), name);
    }
    for other in
        ["2027-01-15T08:00:00.123Z", "2027-01-15", "2027-01-15T080000Z", "é".repeat(9).as_str()]
    {
        assert_eq!(Timestamp::parse_file_name(other), None, "{other}");
    }
}

#[test]
fn rules_are_parsed_with_their_limits() {
    let rule = parse_retention_rule("state=failed  older-than=90d keep-last=5").expect("a rule");
    assert_eq!(rule.state, Some(State::Failed));
    assert_eq!(rule.older_than, Some(Duration::from_secs(90 * 86_400)));
    assert_eq!((rule.keep_last, rule.workflow), (Some(5), None));
    for wrong in [
        "",
        "state=failed",
        "state=running keep-last=1",
        "keep-last=0",
        "older-than=59s",
        "older-than=soon",
        "workflow= keep-last=1",
        "keep=1",
    ] {
        assert!(parse_retention_rule(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_rule_about_the_smallest_part_decides() {
    let parse = |text| parse_retention_rule(text).expect("a rule");
    let mut rules =
        ["keep-last=1", "state=failed keep-last=2", "workflow=w keep-last=3"].map(parse);
    sort_retention_rules(&mut rules);
    assert_eq!(rules.map(|rule| rule.keep_last), [Some(3), Some(2), Some(1)]);
}
