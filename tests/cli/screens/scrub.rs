//! What is another one in every run stands as a placeholder of the same width: ids, times, the version, the directory.

use std::path::Path;

use midex_test::table;

/// Units of what a command measured of itself.
const UNITS: &[&str] = &["ms", "s", "MiB"];

/// The text with placeholders.
pub(super) fn scrubbed(text: &str, root: &Path) -> String {
    let root = root.to_str().expect("a path in words");
    let own = format!("/tmp/midex-{}", "x".repeat(root.len() - "/tmp/midex-".len()));
    let text = text
        .replace(root, &own)
        .replace(midex_test::binary(), "/usr/bin/midex")
        .replace(env!("CARGO_PKG_VERSION"), "V.V.V");
    let lines = text.lines().map(|line| scrubbed_line(line) + "\n");
    lines.collect()
}

fn scrubbed_line(line: &str) -> String {
    let line = numbered(&ids(line));
    let line = measured(&times(&line));
    line.trim_end().to_owned()
}

/// `data-017` and the like: how many commands stand before it is no matter.
fn numbered(line: &str) -> String {
    const DEMO: &str = "midex-demo-";
    let mut line = line.to_owned();
    for at in places(&line, DEMO) {
        let made = at + DEMO.len()..(at + DEMO.len() + 6).min(line.len());
        line.replace_range(made, "NNNNNN");
    }
    for name in ["/data-", "/home-", "/other-"] {
        for at in places(&line, name) {
            let digits = at + name.len()..at + name.len() + 3;
            if line.get(digits.clone()).is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit())) {
                line.replace_range(digits, "NNN");
            }
        }
    }
    line
}

fn places(line: &str, part: &str) -> Vec<usize> {
    line.match_indices(part).map(|(at, _)| at).collect()
}

/// Ids that midex made up, whole or cut.
fn ids(line: &str) -> String {
    let mut parts = line.split("exec_");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_id = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let count = part.bytes().take_while(is_id).count();
        let id = if count > 6 { "i".repeat(count) } else { part[..count].to_owned() };
        text = text + "exec_" + &id + &part[count..];
    }
    text
}

/// Times of this machine's clock: those of the seeded executions stay, for they are made up.
fn times(line: &str) -> String {
    let mut bytes = line.as_bytes().to_vec();
    let is_digit = |at: usize| line.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    for at in places(line, "20") {
        let shape = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18];
        let is_time = shape.iter().all(|of| is_digit(at + of)) && line.as_bytes()[at + 4] == b'-';
        if !is_time || line[at..].starts_with("2025-01-15") || line[at..].starts_with("2099-") {
            continue;
        }
        let end = (at..=line.len())
            .find(|at| !is_digit(*at) && !b"-:T .".contains(bytes.get(*at).unwrap_or(&b'x')));
        for byte in &mut bytes[at..end.unwrap_or(at)] {
            if byte.is_ascii_digit() {
                *byte = b'0';
            }
        }
    }
    String::from_utf8(bytes).expect("as before")
}

/// Durations that this run took, and days from now: `12 ms`, `0.3 s`, `314 d`.
fn measured(line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let unit = words.get(at + 1).map_or("", |word| word.trim_end_matches([',', ')', '.', ':']));
        let number = word.trim_start_matches('(');
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let hidden = if !is_number {
            (*word).to_owned()
        } else if UNITS.contains(&unit) {
            word.replace(number, "N")
        } else if ["d", "bytes"].contains(&unit) {
            word.replace(number, &"N".repeat(number.len()))
        } else {
            (*word).to_owned()
        };
        out.push(hidden);
    }
    out.join(" ")
}

#[test]
fn what_differs_between_runs_is_hidden_and_nothing_else() {
    let root = Path::new("/tmp/midex-abc123");
    for [text, expected] in table(
        "in /tmp/midex-abc123/data-017/x | in /tmp/midex-xxxxxx/data-NNN/x
        exec_01m89mkawsqvvmcf49z4nz8728 is | exec_iiiiiiiiiiiiiiiiiiiiiiiiii is
        exec_01k | exec_01k
        clock 2026-11-25T15:08:04.102Z | clock 0000-00-00T00:00:00.000Z
        at 2025-01-15 10:00:00 +00:00 | at 2025-01-15 10:00:00 +00:00
        took 12 ms, 679 d ago (1.2 s) | took N ms, NNN d ago (N s)
        3 of 4 done | 3 of 4 done",
    ) {
        assert_eq!(scrubbed(&text, root), expected + "\n");
    }
}
