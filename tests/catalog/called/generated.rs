//! Values made from a JSON Schema alone, as one writes them who knows nothing else of the service. The same dice, the same
//! value.

use std::collections::BTreeMap;

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    string::string_regex,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};

use midex_test::long::Dice;

/// How deep values lie in each other at most; a schema that needs more has no value here.
const DEPTH_MAX: usize = 12;
/// How many schemas one value is held to at most: those that `$ref` and `allOf` lead to.
const PARTS_MAX: usize = 64;
/// How often a value is tried, with other alternatives each time.
const TRIES: usize = 4;
/// How many values one value has in it at most, so that no schema takes for ever.
const VALUES_MAX: usize = 3000;

/// What the texts of a value may have in them, and whether it may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A value of a JSON document: any letters, and null where the schema allows it.
    Json,
    /// What is percent-encoded: any letters. Null means that nothing is given, and a list without items is not written.
    Encoded,
    /// A header: ASCII letters and digits, for nothing in it is encoded.
    Header,
}

/// Makes values of one schema.
pub(super) struct Maker<'a> {
    dice: &'a mut Dice,
    /// The schema with its `$defs`.
    whole: &'a Value,
    used: Use,
    left: usize,
}

/// A value of the schema, if one is found.
pub(super) fn value(whole: &Value, used: Use, dice: &mut Dice) -> Option<Value> {
    let mut maker = Maker { dice, whole, used, left: VALUES_MAX };
    maker.value(&[whole], 0)
}

type Parts<'a> = Vec<&'a Map<String, Value>>;

impl<'a> Maker<'a> {
    /// A value that all of the schemas accept, nearly: what `not`, `if` and their like say is left to who judges it.
    fn value(&mut self, schemas: &[&'a Value], depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        (0..TRIES).find_map(|_| {
            self.left = self.left.checked_sub(1)?;
            let mut parts = Parts::new();
            for schema in schemas {
                self.gather(schema, &mut parts)?;
            }
            self.made(&parts, depth)
        })
    }

    /// Adds the schema and those that hold with it: what it refers to, all of `allOf`, one of the alternatives.
    fn gather(&mut self, schema: &'a Value, parts: &mut Parts<'a>) -> Option<()> {
        let Value::Object(map) = schema else {
            return (schema != &Value::Bool(false)).then_some(());
        };
        if parts.len() >= PARTS_MAX {
            return None;
        }
        parts.push(map);
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let whole = self.whole;
            self.gather(whole.pointer(reference.strip_prefix('#')?)?, parts)?;
        }
        for schema in list(map, "allOf") {
            self.gather(schema, parts)?;
        }
        for word in ["anyOf", "oneOf"] {
            let alternatives: Vec<_> = list(map, word).collect();
            if !alternatives.is_empty() {
                let one = alternatives[self.below(alternatives.len())];
                self.gather(one, parts)?;
            }
        }
        Some(())
    }

    fn made(&mut self, parts: &Parts<'a>, depth: usize) -> Option<Value> {
        let kinds = kinds(parts);
        if let Some(options) = options(parts) {
            let is_null_good = self.used == Use::Json;
            let fits = |value: &&Value| {
                kinds.iter().any(|kind| is_of(value, kind)) && (is_null_good || !value.is_null())
            };
            let options: Vec<_> = options.into_iter().filter(fits).collect();
            return (!options.is_empty()).then(|| options[self.below(options.len())].clone());
        }
        let known: Vec<_> = kinds.iter().copied().filter(|kind| *kind != "null").collect();
        let takes_null = self.used == Use::Json && kinds.contains(&"null");
        if takes_null && (known.is_empty() || self.dice.roll(6) == 0) {
            return Some(Value::Null);
        }
        match *known.get(self.below(known.len().max(1)))? {
            "boolean" => Some(json!(self.dice.roll(2) == 0)),
            "integer" => self.number(parts, true),
            "number" => self.number(parts, false),
            "string" => self.text(parts),
            "array" => self.array(parts, depth),
            _ => self.object(parts, depth),
        }
    }

    fn number(&mut self, parts: &Parts<'_>, is_whole: bool) -> Option<Value> {
        let step = most(parts, "multipleOf").unwrap_or(1.0);
        let above = most(parts, "exclusiveMinimum").map(|bound| bound + step.min(1.0));
        let below = least(parts, "exclusiveMaximum").map(|bound| bound - step.min(1.0));
        let low = most(parts, "minimum").into_iter().chain(above);
        let low = low.reduce(f64::max);
        let high = least(parts, "maximum").into_iter().chain(below);
        let high = high.reduce(f64::min);
        let low = low.unwrap_or_else(|| high.map_or(0.0, |high| high.min(1.0)));
        let high = high.unwrap_or(low + 1000.0 * step);
        let (first, last) = ((low / step).ceil(), (high / step).floor());
        let span = (last - first).min(1000.0);
        if span < 0.0 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the span is 1000 at most"
        )]
        let made = (first + self.dice.roll(span as u64 + 1) as f64) * step;
        let half = made + 0.5;
        let is_broken = !is_whole && most(parts, "multipleOf").is_none() && half <= high;
        if is_broken && self.dice.roll(3) == 0 {
            return Some(json!(half));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the number is whole")]
        let whole = made as i64;
        Some(if made.fract() == 0.0 { json!(whole) } else { json!(made) })
    }

    fn text(&mut self, parts: &Parts<'_>) -> Option<Value> {
        let low = most(parts, "minLength").unwrap_or_default();
        let high = least(parts, "maxLength").unwrap_or(f64::MAX);
        let fits = |text: &String| (low..=high).contains(&count(text.chars().count()));
        let said = |word| parts.iter().find_map(|part| part.get(word)?.as_str());
        if let Some(pattern) = said("pattern") {
            let made = (0..TRIES).find_map(|_| self.matching(pattern).filter(fits));
            let examples = parts.iter().flat_map(|part| {
                let one = part.get("default").into_iter();
                list(part, "examples").chain(one)
            });
            let mut examples = examples.filter_map(|one| one.as_str().map(str::to_owned));
            return made.or_else(|| examples.find(fits)).map(Value::from);
        }
        let formatted = said("format").and_then(|format| self.formatted(format));
        if let Some(made) = formatted.filter(fits) {
            return Some(made.into());
        }
        let (low, high) = (low.max(1.0).min(high), high.min(low.max(4.0) + 12.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "lengths are whole and not below zero"
        )]
        let (low, high) = (low as usize, high as usize);
        let length = low + self.below(high.saturating_sub(low) + 1);
        Some(self.letters(length).into())
    }

    /// Letters, and what has a meaning in a URL, a form or JSON.
    fn letters(&mut self, length: usize) -> String {
        const PLAIN: &[char] = &['a', 'b', 'k', 'z', 'Q', '0', '7', '-'];
        const ODD: &[char] = &[
            ' ',
            '/',
            '?',
            '&',
            '=',
            '#',
            '%',
            '+',
            ',',
            ';',
            ':',
            '.',
            '"',
            '\'',
            '[',
            ']',
            '{',
            '}',
            '|',
            '<',
            '\\',
            '~',
            '*',
            'ü',
            '日',
            '\u{1f600}',
        ];
        let letter = |maker: &mut Self, at: usize| {
            let is_odd = maker.used != Use::Header && at > 0 && maker.dice.roll(3) == 0;
            let from = if is_odd { ODD } else { PLAIN };
            // A text of digits alone could be a number too.
            let from = if at == 0 { &PLAIN[..5] } else { from };
            from[maker.below(from.len())]
        };
        (0..length).map(|at| letter(self, at)).collect()
    }

    fn formatted(&mut self, format: &str) -> Option<String> {
        let number = self.dice.roll(90) + 10;
        Some(match format {
            "date-time" => format!("20{number}-05-17T10:20:30Z"),
            "date" => format!("20{number}-05-17"),
            "time" => "10:20:30Z".to_owned(),
            "duration" => format!("P{number}D"),
            "email" | "idn-email" => format!("a.b{number}@example.com"),
            "hostname" | "idn-hostname" => format!("host{number}.example.com"),
            "ipv4" | "ip" => format!("192.0.2.{number}"),
            "ipv6" => format!("2001:db8::{number}"),
            "uri" | "url" | "iri" | "uri-reference" => {
                format!("https://example.com/a/{number}?b=c%20d&e=f#g")
            }
            "uuid" => format!("9b2f1c1e-6a5d-4b7e-8f00-0000000000{number}"),
            "byte" => format!("bWlkZXg{}", ["=", "y", "z"][self.below(3)]),
            "int32" | "int64" | "decimal" => number.to_string(),
            "json-pointer" => format!("/a/{number}"),
            "regex" => "^a+$".to_owned(),
            _ => return None,
        })
    }

    /// A text that the pattern finds something in.
    fn matching(&mut self, pattern: &str) -> Option<String> {
        let strategy = string_regex(&unanchored(pattern)).ok()?;
        let seed = [self.dice.roll(256), self.dice.roll(256)].map(u64::to_le_bytes);
        let seed = [seed.concat(), seed.concat()].concat();
        let dice = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), dice);
        Some(strategy.new_tree(&mut runner).ok()?.current())
    }

    fn array(&mut self, parts: &Parts<'a>, depth: usize) -> Option<Value> {
        let low = most(parts, "minItems").unwrap_or_default();
        let low = low.max(if self.used == Use::Json { 0.0 } else { 1.0 });
        let high = least(parts, "maxItems").unwrap_or(low + 2.0);
        let more = if depth < 5 { self.dice.roll(3) } else { 0 };
        let unique = parts.iter().any(|part| part.get("uniqueItems") == Some(&Value::Bool(true)));
        let schemas: Vec<_> = parts.iter().filter_map(|part| part.get("items")).collect();
        let mut items: Vec<Value> = Vec::new();
        for try_ in 0..100 {
            if count(items.len()) >= (low + count(usize::try_from(more).ok()?)).min(high) {
                break;
            }
            match self.value(&schemas, depth + 1) {
                Some(item) if unique && items.contains(&item) => {}
                Some(item) => items.push(item),
                None if try_ > 2 => break,
                None => {}
            }
        }
        (count(items.len()) >= low).then_some(Value::Array(items))
    }

    fn object(&mut self, parts: &Parts<'a>, depth: usize) -> Option<Value> {
        let required: Vec<_> = parts
            .iter()
            .flat_map(|part| list(part, "required").filter_map(Value::as_str))
            .collect();
        let mut declared: BTreeMap<&str, Vec<&'a Value>> = BTreeMap::new();
        for part in parts {
            for (name, schema) in
                part.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                declared.entry(name).or_default().push(schema);
            }
        }
        for name in &required {
            declared.entry(name).or_default();
        }
        let mut map = Map::new();
        // Half of those that need not be, fewer of what lies deeper.
        let sides = [2, 3, 6].get(depth).copied();
        let low = most(parts, "minProperties").unwrap_or_default();
        for (name, mut schemas) in declared {
            let is_needed = required.contains(&name) || count(map.len()) < low;
            let is_wanted = sides.is_some_and(|sides| self.dice.roll(sides) == 0);
            let is_read_only = schemas.iter().any(|schema| schema["readOnly"] == true);
            if !is_needed && (!is_wanted || is_read_only) {
                continue;
            }
            schemas.extend(parts.iter().filter_map(|part| of_others(part, name)));
            match self.value(&schemas, depth + 1) {
                Some(value) => drop(map.insert(name.to_owned(), value)),
                None if required.contains(&name) => return None,
                None => {}
            }
        }
        self.others(parts, depth, low, &mut map);
        Some(Value::Object(map))
    }

    /// Adds properties that have no names in the schema, where it says what they are or needs them.
    fn others(&mut self, parts: &Parts<'a>, depth: usize, low: f64, map: &mut Map<String, Value>) {
        let schemas: Vec<_> =
            parts.iter().filter_map(|part| part.get("additionalProperties")).collect();
        let are_said = schemas.iter().any(|schema| schema.is_object()) && depth < 5;
        let wanted = usize::from(are_said && self.dice.roll(2) == 0);
        for at in 0..3 {
            if at >= wanted && count(map.len()) >= low {
                break;
            }
            if let Some(value) = self.value(&schemas, depth + 1) {
                map.insert(format!("key{at}"), value);
            }
        }
    }

    fn below(&mut self, sides: usize) -> usize {
        let sides = u64::try_from(sides).expect("a small number");
        usize::try_from(self.dice.roll(sides)).expect("below a small number")
    }
}

/// The schema of a property by another schema that does not name it.
fn of_others<'a>(part: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let is_named = part.get("properties").is_some_and(|names| names.get(name).is_some());
    part.get("additionalProperties").filter(|_| !is_named)
}

fn list<'a>(map: &'a Map<String, Value>, word: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    map.get(word).and_then(Value::as_array).into_iter().flatten()
}

/// The largest value of a keyword of several schemas.
fn most(parts: &Parts<'_>, word: &str) -> Option<f64> {
    let values = parts.iter().filter_map(|part| part.get(word)?.as_f64());
    values.reduce(f64::max)
}

/// The smallest one.
fn least(parts: &Parts<'_>, word: &str) -> Option<f64> {
    let values = parts.iter().filter_map(|part| part.get(word)?.as_f64());
    values.reduce(f64::min)
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn count(number: usize) -> f64 {
    number as f64
}

/// The values that every `enum` and `const` of the schemas has; nothing where there is none.
fn options<'a>(parts: &Parts<'a>) -> Option<Vec<&'a Value>> {
    let lists = parts.iter().flat_map(|part| {
        let one = part.get("const").map(|value| vec![value]);
        let several = part.get("enum").and_then(Value::as_array);
        one.into_iter().chain(several.map(|list| list.iter().collect()))
    });
    lists.reduce(|one: Vec<&Value>, other| {
        one.into_iter().filter(|value| other.contains(value)).collect()
    })
}

const KINDS: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

/// The types that all of the schemas allow; where none names any, what their other words speak of.
fn kinds(parts: &Parts<'_>) -> Vec<&'static str> {
    let named: Vec<Vec<&str>> = parts
        .iter()
        .filter_map(|part| {
            let names = part.get("type")?;
            let names = names.as_array().map_or(std::slice::from_ref(names), Vec::as_slice);
            Some(names.iter().filter_map(Value::as_str).collect())
        })
        .collect();
    if named.is_empty() {
        return spoken_of(parts);
    }
    let has = |names: &Vec<&str>, kind: &str| {
        names.contains(&kind) || kind == "integer" && names.contains(&"number")
    };
    let mut kinds: Vec<_> =
        KINDS.into_iter().filter(|kind| named.iter().all(|names| has(names, kind))).collect();
    // A number may be whole anyway.
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    kinds
}

fn spoken_of(parts: &Parts<'_>) -> Vec<&'static str> {
    let speaks = |words: &[&str]| {
        let mut parts = parts.iter();
        parts.any(|part| words.iter().any(|word| part.contains_key(*word)))
    };
    if speaks(&["enum", "const"]) {
        KINDS.to_vec()
    } else if speaks(&["properties", "required", "additionalProperties", "minProperties"]) {
        vec!["object"]
    } else if speaks(&["items", "minItems"]) {
        vec!["array"]
    } else if speaks(&["minimum", "maximum", "multipleOf"]) {
        vec!["integer"]
    } else {
        vec!["string"]
    }
}

/// The pattern without what only says where it begins and ends, and with classes of ASCII.
fn unanchored(pattern: &str) -> String {
    let mut made = String::new();
    let mut is_class = false;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let class = match letters.next() {
                    Some('w') => "A-Za-z0-9_",
                    Some('d') => "0-9",
                    Some('s') => " ",
                    other => {
                        made.push('\\');
                        made.extend(other);
                        continue;
                    }
                };
                let (open, close) = if is_class { ("", "") } else { ("[", "]") };
                made.extend([open, class, close]);
            }
            '^' | '$' if !is_class => {}
            '.' if !is_class => made.push_str("[ -~]"),
            letter => {
                is_class = letter == '[' || is_class && letter != ']';
                made.push(letter);
            }
        }
    }
    made
}
