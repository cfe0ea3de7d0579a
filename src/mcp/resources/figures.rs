//! The limits as a resource.

use std::time::Duration;

use serde_json::{Value, json};

use midex_domain::limits::{self, Figure, Limit};

/// Every limit with its value.
pub(super) fn describe_all_limits() -> Value {
    limits::all().iter().map(limit_value).collect()
}

fn limit_value(limit: &Limit) -> Value {
    let value = match limit.figure {
        Figure::Number(number) => json!(number),
        Figure::Time(time) => format_milliseconds(time),
    };
    json!({ "name": limit.name, "value": value, "unit": limit.unit(), "description": limit.description() })
}

/// Milliseconds: an integer, or a fraction for times that are not whole milliseconds.
fn format_milliseconds(time: Duration) -> Value {
    match u64::try_from(time.as_millis()) {
        Ok(whole) if time.subsec_nanos().is_multiple_of(1_000_000) => json!(whole),
        _ => json!(time.as_secs_f64() * 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_milliseconds() {
        assert_eq!(format_milliseconds(Duration::from_secs(60)), json!(60_000));
        assert_eq!(format_milliseconds(Duration::from_micros(200)), json!(0.2));
        assert_eq!(format_milliseconds(Duration::from_micros(1500)), json!(1.5));
    }
}
