//! The string formats that are enforced. Other formats are ignored.

use core::net::{Ipv4Addr, Ipv6Addr};

use jiff::civil::{Date, Time};

use super::pattern;
use crate::nearest::find_nearest;

/// A format that is enforced.
pub(super) struct EnforcedFormat {
    pub(super) name: &'static str,
    is_match: fn(&str) -> bool,
}

impl std::fmt::Debug for EnforcedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl EnforcedFormat {
    /// The format of this name; `None` if it is not enforced.
    pub(super) fn find_by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The enforced format with the most similar name.
    pub(super) fn suggest_name(name: &str) -> Option<&'static str> {
        find_nearest(name, format_names())
    }

    /// The steps of checking a text.
    pub(super) fn validation_steps(&self, text: &str) -> u64 {
        let regex_steps = if self.is_regex() { pattern::parsing_steps(text) } else { 0 };
        1 + text.len() as u64 / 16 + regex_steps
    }

    /// The most states that a byte of a text costs: only parsing regular expressions costs any.
    pub(super) fn regex_states_per_byte(&self) -> u64 {
        if self.is_regex() { pattern::PARSE_STATES_PER_BYTE_MAX } else { 0 }
    }

    fn is_regex(&self) -> bool {
        self.name == "regex"
    }

    /// Whether a text has this format.
    pub(super) fn is_valid(&self, text: &str) -> bool {
        (self.is_match)(text)
    }
}

/// The names of all formats that are enforced.
pub fn format_names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

const fn new_format(name: &'static str, is_match: fn(&str) -> bool) -> EnforcedFormat {
    EnforcedFormat { name, is_match }
}

static FORMATS: &[EnforcedFormat] = &[
    new_format("date-time", is_date_time),
    new_format("date", is_date),
    new_format("time", is_time),
    new_format("duration", is_duration),
    new_format("email", is_email),
    new_format("idn-email", is_email),
    new_format("ipv4", |text| text.parse::<Ipv4Addr>().is_ok()),
    new_format("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    new_format("uri", |text| is_uri(text, char::is_ascii)),
    new_format("uri-reference", |text| is_uri_reference(text, char::is_ascii)),
    new_format("iri", |text| is_uri(text, |_| true)),
    new_format("iri-reference", |text| is_uri_reference(text, |_| true)),
    new_format("uuid", is_uuid),
    new_format("json-pointer", is_json_pointer),
    new_format("relative-json-pointer", is_relative_json_pointer),
    new_format("regex", pattern::is_pattern),
];

fn is_date(text: &str) -> bool {
    has_shape(text, "0000-00-00") && text.parse::<Date>().is_ok()
}

/// Whether a text matches a pattern in which `0` means a digit and `x` a hexadecimal digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let is_byte_match = |(byte, sign): (u8, u8)| match sign {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        sign => byte == sign,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(is_byte_match)
}

fn is_date_time(text: &str) -> bool {
    let is_time_suffix = |at: &str| at.strip_prefix(['T', 't']).is_some_and(is_time);
    text.is_char_boundary(10)
        && text.len() > 10
        && is_date(&text[..10])
        && is_time_suffix(&text[10..])
}

/// RFC 3339: `hh:mm:ss`, an optional fraction, and an offset.
fn is_time(text: &str) -> bool {
    let Some((time, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if rest.len() == fraction.len() {
                return false;
            }
            rest
        }
        None => rest,
    };
    let offset = match rest {
        "Z" | "z" => Some(0),
        _ => {
            let sign = if rest.starts_with('-') { -1 } else { 1 };
            let clock = rest.strip_prefix(['+', '-']).and_then(parse_clock_minutes);
            clock.map(|minutes| sign * minutes)
        }
    };
    let Some(offset) = offset else { return false };
    if let Some(time) = time.strip_suffix(":60") {
        // A leap second, which exists only at the end of a day of UTC.
        return parse_clock_minutes(time)
            .is_some_and(|minutes| (minutes - offset).rem_euclid(1440) == 1439);
    }
    has_shape(time, "00:00:00") && time.parse::<Time>().is_ok()
}

/// The time of day `hh:mm` in minutes.
fn parse_clock_minutes(text: &str) -> Option<i32> {
    let (hours, minutes) = text.split_once(':').filter(|_| has_shape(text, "00:00"))?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

fn is_all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The durations of RFC 3339: whole numbers, and weeks only by themselves.
fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else {
        return false;
    };
    if let Some(weeks) = rest.strip_suffix('W') {
        return is_all_digits(weeks);
    }
    match rest.split_once('T') {
        Some((date, time)) => {
            (date.is_empty() || are_number_letter_pairs(date, "YMD"))
                && are_number_letter_pairs(time, "HMS")
        }
        None => are_number_letter_pairs(rest, "YMD"),
    }
}

/// Numbers, each with its letter of `letters`, in this order and without gaps.
fn are_number_letter_pairs(mut text: &str, letters: &str) -> bool {
    let mut last: Option<usize> = None;
    while !text.is_empty() {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let index = rest.chars().next().and_then(|letter| letters.find(letter));
        let Some(index) = index.filter(|_| rest.len() < text.len()) else {
            return false;
        };
        if last.is_some_and(|last| index != last + 1) {
            return false;
        }
        last = Some(index);
        text = &rest[1..];
    }
    last.is_some()
}

/// A local part and a host. Comments and folded lines, which RFC 5322 allows, are refused.
fn is_email(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else {
        return false;
    };
    let is_special = |c: char| "!#$%&'*+/=?^_`{|}~-".contains(c);
    let is_atom_char = |c: char| c.is_ascii_alphanumeric() || is_special(c) || !c.is_ascii();
    let is_local = match strip_delimiters(local, '"', '"') {
        Some(inner) => !inner.contains(['"', '\\']) && !inner.contains(char::is_control),
        None => local.split('.').all(|part| !part.is_empty() && part.chars().all(is_atom_char)),
    };
    let is_host = match strip_delimiters(host, '[', ']') {
        Some(inner) => match inner.strip_prefix("IPv6:") {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => inner.parse::<Ipv4Addr>().is_ok(),
        },
        None => is_host(host),
    };
    is_local && local.len() <= 64 && is_host
}

/// The text between two signs, if it begins and ends with them.
fn strip_delimiters(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// The syntax of a host name, in which any non-ASCII character counts as a letter. `hostname` is not an enforced
/// format, because exact rules for such characters would need the tables of RFC 5892.
fn is_host(text: &str) -> bool {
    let is_label_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || !c.is_ascii();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(is_label_char)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_uri(text: &str, allowed: impl Fn(&char) -> bool) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme_char = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme_char)
        && is_uri_hierarchy(rest, allowed)
}

fn is_uri_reference(text: &str, allowed: impl Fn(&char) -> bool + Copy) -> bool {
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    is_uri(text, allowed) || (!first.contains(':') && is_uri_hierarchy(text, allowed))
}

/// The part of a URI after its scheme: an authority, a path, a query, a fragment.
fn is_uri_hierarchy(text: &str, allowed: impl Fn(&char) -> bool) -> bool {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let authority = rest.strip_prefix("//").map(|rest| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        rest.split_at(end)
    });
    let (authority, path) = authority.map_or((None, rest), |(host, path)| (Some(host), path));
    let is_unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?%".contains(c);
    let is_component = |text: &str| {
        let is_allowed_char =
            |c: char| is_unreserved(c) || (!c.is_ascii() && !c.is_control() && allowed(&c));
        text.chars().all(is_allowed_char) && has_valid_percent_escapes(text)
    };
    is_component(path)
        && is_component(fragment)
        && authority.is_none_or(|authority| is_authority(authority, is_component))
}

fn is_authority(text: &str, is_component: impl Fn(&str) -> bool) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let is_port = |port: &str| port.is_empty() || is_all_digits(port);
    let is_host = if let Some(inner) = host.strip_prefix('[') {
        inner.split_once(']').is_some_and(|(address, port)| {
            let port = port.strip_prefix(':').unwrap_or(port);
            (address.parse::<Ipv6Addr>().is_ok() || address.starts_with(['v', 'V']))
                && is_port(port)
        })
    } else {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        is_component(name) && !name.contains([':', '@']) && is_port(port)
    };
    is_component(user) && !user.contains('@') && is_host
}

fn has_valid_percent_escapes(text: &str) -> bool {
    let is_escape = |part: &str| {
        let two = part.get(..2);
        two.is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    text.split('%').skip(1).all(is_escape)
}

fn is_uuid(text: &str) -> bool {
    has_shape(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

fn is_json_pointer(text: &str) -> bool {
    let mut parts = text.split('~').skip(1);
    (text.is_empty() || text.starts_with('/')) && parts.all(|part| part.starts_with(['0', '1']))
}

fn is_relative_json_pointer(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let is_number = number == "0" || (!number.is_empty() && !number.starts_with('0'));
    is_number && (rest == "#" || is_json_pointer(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_only_valid_texts() {
        for (name, good, bad) in [
            ("date", "2024-02-29", "2023-02-29"),
            ("date", "0001-01-01", "1998-1-20"),
            ("date-time", "2030-01-31T09:00:00Z", "2030-01-31"),
            ("date-time", "1998-12-31T23:59:60Z", "1998-12-31T22:59:60Z"),
            ("date-time", "1990-12-31T15:59:60-08:00", "1990-12-31T15:59:59-24:00"),
            ("date-time", "1985-04-12t23:20:50.52z", "1985-04-12 23:20:50Z"),
            ("time", "08:30:06+00:20", "08:30:06"),
            ("duration", "P4DT12H30M5S", "PT1D"),
            ("duration", "P3W", "P1Y2W"),
            ("duration", "P1Y2M", "P1Y2D"),
            ("duration", "PT36H", "P"),
            ("email", "joe.bloggs@example.com", "2962"),
            ("email", "\"joe bloggs\"@example.com", ".a@example.com"),
            ("email", "joe@[127.0.0.1]", "a@b@example..com"),
            ("email", "joe@www.example.com", "joe@-bad.example"),
            ("ipv4", "192.168.0.1", "256.0.0.1"),
            ("ipv6", "::1", "12345::"),
            ("uri", "http://foo.bar/?baz=qux#quux", "//foo.bar/?baz"),
            ("uri", "urn:oasis:names", "http:// should fail.com"),
            ("uri", "http://[2001:db8::7]:80/x", "http://[oops]/x"),
            ("uri", "mailto:a@example.com", "\\\\WINDOWS\\share"),
            ("uri", "http://example.com/a%20b", "http://example.com/a%2"),
            ("uri-reference", "/abc?x#y", "\\\\WINDOWS"),
            ("iri", "http://ƒøø.ßår/?∂éœ", "/abc"),
            ("uuid", "2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08-aa98-11ea-b4aa73b441d16380"),
            ("json-pointer", "/foo/bar~0/baz~1", "/foo/bar~"),
            ("relative-json-pointer", "0/foo", "01/foo"),
            ("regex", "^a+$", "^(abc]"),
        ] {
            let format = EnforcedFormat::find_by_name(name).expect(name);
            assert!(format.is_valid(good), "{name} {good:?}");
            assert!(!format.is_valid(bad), "{name} {bad:?}");
        }
        assert_eq!(EnforcedFormat::suggest_name("datetime"), Some("date-time"));
        assert!(EnforcedFormat::find_by_name("markdown").is_none());
    }
}
