//! Durations as definitions write them: `250ms`, `10s`, `5m`, `24h`.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits;

/// A duration in whole milliseconds, at most [`limits::SPAN_MAX`]. Written as a number and a unit, or several from the
/// largest to the smallest: `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

/// A unit: how it is written, its milliseconds, and what else it is called.
type DurationUnit = (&'static str, u64, &'static [&'static str]);

/// The units, the largest first.
const DURATION_UNITS: [DurationUnit; 5] = [
    ("d", 86_400_000, &["day", "days"]),
    ("h", 3_600_000, &["hour", "hours", "hr", "hrs"]),
    ("m", 60_000, &["minute", "minutes", "min", "mins"]),
    ("s", 1000, &["second", "seconds", "sec", "secs"]),
    ("ms", 1, &["millisecond", "milliseconds", "msec", "msecs"]),
];

impl HumanDuration {
    /// The duration in whole milliseconds, at most [`limits::SPAN_MAX`].
    pub fn from_duration(duration: Duration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(Duration::from_millis(milliseconds).min(limits::SPAN_MAX))
    }

    /// The duration as a type of the standard library.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Guesses the duration of a text in another notation: `5 minutes`, ISO 8601 as `PT1H30M`, or a number of seconds. `None`
    /// if that is not certain.
    pub fn guess_duration(text: &str) -> Option<Self> {
        let lower = text.trim().to_ascii_lowercase();
        let words = parse_iso_units(&lower)
            .unwrap_or_else(|| lower.replace([',', '_', '-'], " ").replace(" and ", " "));
        let mut normalized = String::new();
        let mut rest = words.trim();
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let after = rest[digits..].trim_start();
            let letters =
                after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let unit = match &after[..letters] {
                "" if after.is_empty() && normalized.is_empty() => "s",
                word => {
                    DURATION_UNITS
                        .iter()
                        .find(|(name, _, words)| *name == word || words.contains(&word))?
                        .0
                }
            };
            normalized.push_str(&rest[..digits]);
            normalized.push_str(unit);
            rest = after[letters..].trim_start();
        }
        normalized.parse().ok().filter(|span: &Self| !span.0.is_zero())
    }
}

/// The units of an ISO 8601 duration: `5m` of `pt5m`. `None` if it has months, which an `m` before the `t` means.
fn parse_iso_units(lower: &str) -> Option<String> {
    let (days, times) = lower.strip_prefix('p')?.split_once('t').unwrap_or((&lower[1..], ""));
    (!days.contains('m')).then(|| format!("{days}{times}"))
}

/// Exponential backoff: the pause is `min_delay` after the first failure, doubles with each further one, and is at most `max_delay`.
pub fn compute_backoff(failures: u32, min_delay: Duration, max_delay: Duration) -> Duration {
    compute_backoff_with_factor(failures, min_delay, max_delay, 2.0)
}

/// Like [`compute_backoff`], with pauses that grow by `factor` instead of doubling.
pub fn compute_backoff_with_factor(
    failures: u32,
    min_delay: Duration,
    max_delay: Duration,
    factor: f64,
) -> Duration {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = min_delay.as_secs_f64() * factor.powi(exponent);
    Duration::try_from_secs_f64(seconds).map_or(max_delay, |delay| delay.min(max_delay))
}

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let format_fault = || {
            format!(
                "`{}` is not a duration: write a number and a unit, such as 250ms, 10s, 5m, 24h or 7d",
                text.chars().take(limits::SPAN_SHOWN_CHARS).collect::<String>()
            )
        };
        let mut rest = text.trim();
        let (mut total, mut units) = (0_u64, DURATION_UNITS.iter());
        if rest.is_empty() {
            return Err(format_fault());
        }
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let letters = rest[digits..].trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let unit = &rest[digits..rest.len() - letters.len()];
            // Each unit stands once, and after every larger one.
            let (_, milliseconds, _) =
                units.find(|(name, ..)| *name == unit).ok_or_else(format_fault)?;
            let count: u64 = rest[..digits].parse().map_err(|_| format_fault())?;
            let part = count.checked_mul(*milliseconds).ok_or_else(format_fault)?;
            total = total.checked_add(part).ok_or_else(format_fault)?;
            rest = letters;
        }
        let duration = Duration::from_millis(total);
        if duration > limits::SPAN_MAX {
            let max_duration = Self(limits::SPAN_MAX);
            return Err(format!("`{text}` is longer than the limit of {max_duration}"));
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut remaining = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if remaining == 0 {
            return f.write_str("0s");
        }
        for (unit, milliseconds, _) in DURATION_UNITS {
            if remaining >= milliseconds {
                write!(f, "{}{unit}", remaining / milliseconds)?;
                remaining %= milliseconds;
            }
        }
        Ok(())
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, milliseconds, again) in [
            ("250ms", 250, "250ms"),
            ("10s", 10_000, "10s"),
            ("5m", 300_000, "5m"),
            ("24h", 86_400_000, "1d"),
            ("1h30m", 5_400_000, "1h30m"),
            (" 90s ", 90_000, "1m30s"),
            ("0s", 0, "0s"),
        ] {
            let span: HumanDuration = text.parse().expect(text);
            assert_eq!(span.duration(), Duration::from_millis(milliseconds), "{text}");
            assert_eq!(span.to_string(), again);
            assert_eq!(again.parse(), Ok(span));
        }
    }

    #[test]
    fn durations_in_words_are_understood() {
        for (text, meant) in [
            ("5 minutes", Some("5m")),
            ("1 hour and 30 minutes", Some("1h30m")),
            ("2 Days, 3 hrs", Some("2d3h")),
            ("PT5M", Some("5m")),
            ("P1DT2H", Some("1d2h")),
            ("500 milliseconds", Some("500ms")),
            ("30", Some("30s")),
            ("P1M", None),
            ("0", None),
            ("1.5 hours", None),
            ("soon", None),
            ("5 5", None),
            ("", None),
        ] {
            let span = HumanDuration::guess_duration(text).map(|span| span.to_string());
            assert_eq!(span.as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn invalid_durations_get_an_example() {
        for text in [
            "",
            "5",
            "s",
            "5 m",
            "-5s",
            "1.5h",
            "5M",
            "1m1h",
            "1s1s",
            "10y",
            "99999999999999999999s",
        ] {
            let fault = text.parse::<HumanDuration>().expect_err(text);
            assert!(fault.contains("10s"), "{fault}");
        }
    }

    #[test]
    fn durations_are_limited_to_the_maximum() {
        let most = HumanDuration::from_duration(limits::SPAN_MAX);
        assert_eq!(most.to_string().parse(), Ok(most));
        let past = format!("{}ms", limits::SPAN_MAX.as_millis() + 1);
        assert!(past.parse::<HumanDuration>().is_err());
        assert_eq!(HumanDuration::from_duration(Duration::MAX), most);
    }
}
