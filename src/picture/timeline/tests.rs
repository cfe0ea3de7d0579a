//! Tests of the visits of an execution over time.

use midex_domain::{clock::Timestamp, limits, view::HistoryRow};
use serde_json::json;

use super::{timeline, timeline_file, visit_anchor};
use crate::inline::tests::FORBIDDEN;

const START_MS: i64 = 1_750_000_000_000;
const HOUR_MS: i64 = 3_600_000;

/// A completed visit of a step, from and to so many milliseconds after the start.
fn row(step: &str, visit: u32, from: i64, to: Option<i64>) -> HistoryRow {
    let instant = |at: i64| Timestamp::from_milliseconds(START_MS + at).to_string();
    let status = if to.is_some() { "completed" } else { "running" };
    serde_json::from_value(json!({
        "step_name": step, "status": status, "started_at": instant(from),
        "completed_at": to.map(instant), "visit": visit, "attempt": 1,
    }))
    .unwrap()
}

fn link_to_anchor(row: &HistoryRow) -> String {
    format!("#{}", visit_anchor(row))
}

fn draw(rows: &[HistoryRow], now: i64) -> String {
    let now = Timestamp::from_milliseconds(START_MS + now);
    let picture = timeline(rows, now, &link_to_anchor);
    for part in FORBIDDEN {
        assert!(!picture.contains(part), "{part}: {picture}");
    }
    picture
}

/// A bar as it is drawn.
#[derive(Debug)]
struct DrawnBar<'a> {
    href: &'a str,
    text: &'a str,
    tooltip: &'a str,
    class: &'a str,
    left: i64,
    right: i64,
    top: i64,
}

fn bars(picture: &str) -> Vec<DrawnBar<'_>> {
    fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
        text.split_once(start).unwrap().1.split_once(end).unwrap().0
    }
    let bar = |part| {
        let rectangle = between(part, "<rect ", "/>");
        let number = |name: &str| between(rectangle, &format!(" {name}=\""), "\"").parse::<i64>();
        let left = number("x").unwrap();
        DrawnBar {
            href: between(part, "href=\"", "\""),
            text: between(part.split_once("<text ").unwrap().1, ">", "<"),
            tooltip: between(part, "<title>", "</title>"),
            class: between(rectangle, "class=\"", "\""),
            left,
            right: left + number("width").unwrap(),
            top: number("y").unwrap(),
        }
    };
    picture.split("<a ").skip(1).map(bar).collect()
}

#[test]
fn steps_have_lanes_in_the_order_of_entry() {
    let mut rows = vec![
        row("review", 0, 0, Some(0)),
        row("plan", 1, 0, Some(4_000)),
        row("build", 1, 4_000, Some(9_000)),
        row("review", 1, 9_000, Some(12_000)),
        row("build", 2, 12_000, Some(20_000)),
    ];
    rows[4].title = Some("mend the <b> & \u{202e}tests".to_owned());
    let picture = draw(&rows, 20_000);
    let bars = bars(&picture);
    let hrefs: Vec<_> = bars.iter().map(|bar| bar.href).collect();
    assert_eq!(
        hrefs,
        ["#visit-plan-1-1", "#visit-build-1-1", "#visit-build-2-1", "#visit-review-1-1"]
    );
    assert!(bars[0].top < bars[1].top && bars[1].top == bars[2].top && bars[2].top < bars[3].top);
    assert_eq!(bars[0].text, "✓ plan");
    assert_eq!(bars[2].text, "✓ mend the &lt;b&gt; &amp; \u{fffd}tests");
    assert!(
        bars[2]
            .tooltip
            .contains("\nbuild\nvisit 2, attempt 1\ncompleted\n+12 s, for 8 s, from 2025")
    );
    for label in ["+0 s", "+5 s", "+15 s"] {
        assert!(picture.contains(&format!(">{label}</text>")), "{label}: {picture}");
    }
}

#[test]
fn an_anchor_names_one_row() {
    let mut row = row("do/it \"now\"", 2, 0, None);
    assert_eq!(visit_anchor(&row), "visit-do%2Fit%20%22now%22-2-1");
    (row.item, row.attempt, row.body) = (Some(4), 3, Some("on_success".to_owned()));
    assert_eq!(visit_anchor(&row), "visit-do%2Fit%20%22now%22-2-3-i4-on_success");
    let picture = draw(std::slice::from_ref(&row), 5);
    assert_eq!(bars(&picture)[0].href, format!("#{}", visit_anchor(&row)));
    assert!(picture.contains("do/it &quot;now&quot;[5]/on_success"), "{picture}");
}

#[test]
fn a_file_has_the_same_picture_and_its_style() {
    let rows = [row("plan", 1, 0, Some(5_000)), row("build", 1, 5_000, None)];
    let now = Timestamp::from_milliseconds(START_MS + 9_000);
    let link = |row: &HistoryRow| format!("/\"{}", visit_anchor(row));
    let (file, inline) = (timeline_file(&rows, now, &link), timeline(&rows, now, &link));
    assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" "));
    assert!(file.contains("<style>.graph,.timeline{"), "{file}");
    assert!(file.ends_with(inline.split_once('\n').unwrap().1), "{file}");
    assert_eq!(bars(&file)[1].href, "/&quot;visit-build-1-1");
}

#[test]
fn an_open_visit_ends_now() {
    let rows = [row("plan", 1, 0, Some(5_000)), row("build", 1, 5_000, None)];
    for (now, share) in [(10_000, 2), (20_000, 4)] {
        let picture = draw(&rows, now);
        let bars = bars(&picture);
        assert_eq!(bars[1].class, "n running");
        assert!(bars[1].text.starts_with("● build"), "{}", bars[1].text);
        let (first, all) = (bars[0].right - bars[0].left, bars[1].right - bars[0].left);
        assert!((all - first * share).abs() < 8, "{bars:?}");
    }
    // The clock of the reader may be behind.
    let picture = draw(&rows, 0);
    let bars = bars(&picture);
    assert!(bars[0].right - bars[0].left > 800 && picture.contains("for 0 s"), "{bars:?}");
}

#[test]
fn attempts_of_a_visit_are_adjacent() {
    let mut rows = vec![
        row("poll", 1, 0, Some(1)),
        row("other", 1, 0, Some(60_000)),
        row("poll", 1, 3, Some(4)),
        row("poll", 1, 59_999, Some(60_000)),
    ];
    rows[0].status = "failed".into();
    rows[0].error =
        serde_json::from_value(json!({"code": "TIMEOUT", "message": "too <slow>"})).ok();
    (rows[2].attempt, rows[3].attempt) = (2, 3);
    let picture = draw(&rows, 60_000);
    let bars = bars(&picture);
    assert!(bars[0].text.starts_with('✗') && bars[0].class == "n failed", "{bars:?}");
    assert!(bars[0].tooltip.ends_with("\nTIMEOUT: too &lt;slow&gt;"), "{bars:?}");
    assert_eq!((bars[0].top, bars[0].right + 2), (bars[1].top, bars[1].left));
    assert_eq!(bars[0].left, bars[3].left, "a bar begins at its start");
    assert!(bars[2].top == bars[0].top && bars[2].right <= bars[3].right, "{bars:?}");
    // Visits at the same time have tracks of their own.
    let together = [row("poll", 1, 0, Some(9)), row("poll", 2, 0, Some(9))];
    let picture = draw(&together, 9);
    let together = self::bars(&picture);
    assert!(together[0].top < together[1].top, "{together:?}");
}

#[test]
fn idle_time_is_folded() {
    let later = 3 * HOUR_MS;
    let rows = [
        row("plan", 1, 0, Some(60_000)),
        row("build", 1, 65_000, Some(120_000)),
        row("gate", 1, later + 120_000, Some(later + 180_000)),
    ];
    let picture = draw(&rows, 0);
    let bars = bars(&picture);
    assert_eq!(picture.matches("class=\"idle\"").count(), 1, "{picture}");
    assert!(picture.contains(">⋯ 3 h</text>"), "{picture}");
    assert!(picture.contains(">+3 h 2 min</text>"), "{picture}");
    assert!((40..90).contains(&(bars[2].left - bars[1].right)), "{bars:?}");
    assert!(bars[2].right - bars[2].left > 200, "{bars:?}");
    // Many idle spans leave room for the bars.
    let rows: Vec<_> = (0..300)
        .map(|at| row("tick", at, later * i64::from(at), Some(later * i64::from(at) + 5)))
        .collect();
    let picture = draw(&rows, 0);
    let bars = self::bars(&picture);
    let left = |at: u32| {
        let href = format!("#visit-tick-{at}-1");
        bars.iter().find(|bar| bar.href == href).unwrap().left
    };
    assert!((400..560).contains(&left(150)) && (850..1_000).contains(&left(299)), "{bars:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures how long a picture takes")]
fn a_long_history_has_a_small_picture() {
    let step = |at: i64| {
        ["build", "test", "fix", "rare"][usize::try_from(if at == 9 { 3 } else { at % 3 }).unwrap()]
    };
    let long = "x\u{202e}".repeat(500_000);
    let mut rows: Vec<_> = (0..5_000_i64)
        .map(|at| row(step(at), u32::try_from(at + 1).unwrap(), at * 1_000, Some(at * 1_000 + 900)))
        .collect();
    rows[4_999].title = Some(long.clone());
    rows[4_998].error = serde_json::from_value(json!({"code": long, "message": long})).ok();
    let start = std::time::Instant::now();
    let picture = draw(&rows, 0);
    let elapsed = start.elapsed();
    let bars = bars(&picture);
    assert!(bars.len() <= limits::TIMELINE_BARS_MAX && bars.len() > 300, "{}", bars.len());
    assert!(bars.iter().any(|bar| bar.href == "#visit-rare-10-1"), "a short lane is whole");
    let merged = bars.iter().filter(|bar| bar.tooltip.contains(" visits\n"));
    assert_eq!(merged.count(), 6);
    assert!(
        picture.len() < 700_000 && elapsed.as_millis() < 2_000,
        "{} {elapsed:?}",
        picture.len()
    );
    assert!(bars.iter().all(|bar| bar.right - bar.left >= 15 && bar.right <= 1_200));

    // A step for each visit, one visit with as many attempts, and a history that has not begun.
    for (row, at) in rows.iter_mut().zip(0..) {
        row.step_name = format!("step-{at}");
    }
    let picture = draw(&rows, 0);
    let lanes = self::bars(&picture);
    assert_eq!(lanes.len(), limits::TIMELINE_BARS_MAX);
    assert_eq!((lanes[999].text, lanes[999].href), ("✓", "#visit-step-4999-5000-1"));
    for (row, attempt) in rows.iter_mut().zip(1..) {
        (row.step_name, row.visit, row.attempt) = ("build".to_owned(), 1, attempt);
    }
    assert!(draw(&rows, 0).contains("4961 attempts"));
    assert!(draw(&[], 0).contains("no step has run yet"));
}
