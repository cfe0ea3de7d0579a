//! Sizes and durations as every face of midex writes them for people.

/// A size in the largest unit that leaves a number of at least one.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => {
            let tenths = bytes.saturating_mul(10) / size;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// A duration in milliseconds, in its two largest units: `1.2 s`, `3 m 05 s`, `4 h 10 m`.
pub fn format_duration(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{} s", rest / 100),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (milliseconds, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1250, "1.2 s"),
            (61_000, "1 m 01 s"),
            (3_660_000, "1 h 01 m"),
            (90_000_000, "25 h 00 m"),
        ] {
            assert_eq!(format_duration(milliseconds), text);
        }
    }
}
