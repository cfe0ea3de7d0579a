//! Times for people: relative to now, and in the local time zone.

use jiff::{Timestamp as Instant, tz::TimeZone};

use crate::value::format_duration;
use midex_domain::{clock::Timestamp, view::PastPoint};

/// The format of a time for people.
const LOCAL_TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S %:z";

/// The time from `time` to `now`: `2.1 s`, `5 m 03 s`, `3 d`; `None` if the text is not a time.
pub(super) fn time_since(time: &str, now: Timestamp) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(format_time_span(now.milliseconds().saturating_sub(time.milliseconds())))
}

/// The time from `now` to `time`; `None` if the text is not a time.
pub(super) fn time_until(time: &str, now: Timestamp) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(format_time_span(time.milliseconds().saturating_sub(now.milliseconds())))
}

/// `5 m ago`; the unchanged text if it is not a time.
pub(super) fn format_time_ago(time: &str, now: Timestamp) -> String {
    time_since(time, now).map_or_else(|| time.to_owned(), |since| format!("{since} ago"))
}

/// The time in the user's time zone: `2026-01-15 11:00:00 +01`.
pub(super) fn format_local_time(time: &str) -> String {
    format_time_in_zone(time, &TimeZone::system())
}

fn format_time_in_zone(time: &str, zone: &TimeZone) -> String {
    let parsed = time.parse::<Instant>();
    parsed.map_or_else(
        |_| time.to_owned(),
        |time| {
            let time = time.to_zoned(zone.clone());
            time.strftime(LOCAL_TIME_FORMAT).to_string()
        },
    )
}

/// A point in the past: a revision, an instant, or a time as [`format_local_time`] writes it.
pub(super) fn parse_past_point(text: &str) -> Result<PastPoint, &'static str> {
    parse_local_time(text).map_or_else(|| text.parse(), |time| Ok(PastPoint::Time(time)))
}

/// The instant that [`format_local_time`] writes like this. Of the instants in that second it is the last one, because the
/// text lacks the fraction.
fn parse_local_time(text: &str) -> Option<Timestamp> {
    let time = Instant::strptime(LOCAL_TIME_FORMAT, text).ok()?;
    Some(Timestamp::from_milliseconds(time.as_millisecond() + 999))
}

fn format_time_span(milliseconds: i64) -> String {
    const DAY_MILLISECONDS: u64 = 24 * 60 * 60 * 1000;
    // Fractions of a second are left out.
    let seconds = u64::try_from(milliseconds).unwrap_or(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        _ if seconds * 1000 >= 2 * DAY_MILLISECONDS => {
            format!("{} d", seconds * 1000 / DAY_MILLISECONDS)
        }
        _ => format_duration(seconds * 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_local() {
        let now: Timestamp = "2026-01-15T10:00:00Z".parse().expect("a time");
        for (time, expected) in [
            ("2026-01-15T09:59:59.100Z", "0 s ago"),
            ("2026-01-15T09:59:30Z", "30 s ago"),
            ("2026-01-15T09:55:30Z", "4 m ago"),
            ("2026-01-15T07:30:00Z", "2 h 30 m ago"),
            ("2026-01-10T10:00:00Z", "5 d ago"),
            // The clock was set back in the meantime.
            ("2026-01-15T10:00:30Z", "0 s ago"),
            ("-", "-"),
        ] {
            assert_eq!(format_time_ago(time, now), expected);
        }
        assert_eq!(time_until("2026-01-15T10:02:00Z", now).as_deref(), Some("2 m"));
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(
            format_time_in_zone("2026-01-15T10:00:00.123Z", &zone),
            "2026-01-15 11:00:00 +01:00"
        );
        assert_eq!(format_time_in_zone("soon", &zone), "soon");
    }

    #[test]
    fn a_printed_time_is_a_point_in_the_past() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let printed = format_time_in_zone("2026-01-15T10:00:00.123Z", &zone);
        let time: Timestamp = "2026-01-15T10:00:00.999Z".parse().expect("a time");
        assert_eq!(parse_past_point(&printed), Ok(PastPoint::Time(time)));
        assert_eq!(parse_past_point("3"), Ok(PastPoint::Revision(3)));
        assert_eq!(parse_past_point("2026-01-15 10:00"), Err(PastPoint::EXPECTED));
    }
}
