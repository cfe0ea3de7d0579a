//! What a request says in texts becomes the values that its document speaks of. OpenAPI leaves texts without types, so the
//! schema decides what a text stands for.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::validator::Schemas;

/// Texts as they were put together.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// A text of a query or a form, where a plus is a space.
pub(super) fn decoded(raw: &str) -> Result<String, String> {
    let raw = raw.replace('+', " ");
    let bytes = percent_decode_str(&raw).decode_utf8();
    let text = bytes.map_err(|_| "encoding: a text is no UTF-8")?;
    Ok(text.into_owned())
}

/// A text of a path, where a plus is a plus.
pub(super) fn of_path(raw: &str) -> Result<String, String> {
    decoded(&raw.replace('+', "%2B"))
}

/// Names and values of a query or a form. Values stay as they came: what separates their parts is not yet decoded.
pub(super) fn pairs(raw: &str) -> Result<Vec<(String, String)>, String> {
    let each = raw.split('&').filter(|pair| !pair.is_empty());
    each.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, value.to_owned()))
    })
    .collect()
}

/// The tree of `name[key][inner]=value`, as the services read it that know such names (Rack, PHP, `qs`).
pub(super) fn deep(pairs: &[(String, String)]) -> Result<Tree, String> {
    let mut root = Tree::Map(Vec::new());
    for (name, value) in pairs {
        let (_, keys) = name.split_once('[').ok_or("style: a name without a key")?;
        let keys = keys.strip_suffix(']').ok_or("style: a key does not end")?;
        let keys: Vec<_> = keys.split("][").collect();
        put(&mut root, &keys, decoded(value)?)?;
    }
    Ok(root)
}

fn put(tree: &mut Tree, keys: &[&str], text: String) -> Result<(), String> {
    let Tree::Map(map) = tree else {
        return Err("style: a key of a text".into());
    };
    let [key, rest @ ..] = keys else {
        return Err("style: a text in the place of keys".into());
    };
    let known = map.iter().position(|(name, _)| name == key);
    let at = known.unwrap_or_else(|| {
        map.push(((*key).to_owned(), Tree::Map(Vec::new())));
        map.len() - 1
    });
    if rest.is_empty() {
        map[at].1 = Tree::Text(text);
        return Ok(());
    }
    put(&mut map[at].1, rest, text)
}

/// The value that the texts stand for by the schemas; `plain` takes every text as a text.
pub(super) fn typed(tree: &Tree, schemas: &[&Value], of: &Schemas, plain: bool) -> Value {
    let parts = of.parts(schemas);
    match tree {
        Tree::Text(text) if plain => text.clone().into(),
        Tree::Text(text) if may_be(&parts, "array") && !has_text(&parts) => {
            Value::Array(vec![scalar(text, &of.parts(&items(&parts)))])
        }
        Tree::Text(text) => scalar(text, &parts),
        Tree::List(list) => {
            let items = items(&parts);
            let each = list.iter().map(|item| typed(item, &items, of, plain));
            each.collect()
        }
        Tree::Map(map) => {
            let is_list = may_be(&parts, "array")
                && map.iter().enumerate().all(|(at, (key, _))| *key == at.to_string());
            if is_list {
                let list = map.iter().map(|(_, item)| item.clone()).collect();
                return typed(&Tree::List(list), schemas, of, plain);
            }
            let each = map.iter().map(|(key, item)| {
                let schemas = properties(&parts, key);
                (key.clone(), typed(item, &schemas, of, plain))
            });
            Value::Object(each.collect::<Map<_, _>>())
        }
    }
}

/// A text by what its schemas call it: one of their values, a number, a flag, or else a text.
fn scalar(text: &str, parts: &[&Value]) -> Value {
    let values = parts.iter().flat_map(|part| {
        let list = part["enum"].as_array().into_iter().flatten();
        list.chain(part.get("const"))
    });
    let mut values = values.filter(|value| !value.is_null());
    if let Some(value) = values.find(|value| written(value) == text) {
        return value.clone();
    }
    let number = || text.parse::<Value>().ok().filter(Value::is_number);
    let is_number = may_be(parts, "integer") || may_be(parts, "number");
    match text {
        "true" | "false" if may_be(parts, "boolean") => (text == "true").into(),
        _ => number().filter(|_| is_number).unwrap_or_else(|| text.into()),
    }
}

/// Whether one of the schemas names the type.
pub(super) fn may_be(parts: &[&Value], kind: &str) -> bool {
    let is = |name: &Value| name == kind;
    parts.iter().any(|part| match &part["type"] {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    })
}

fn has_text(parts: &[&Value]) -> bool {
    let scalars = ["string", "integer", "number", "boolean"];
    let has_values = parts.iter().any(|part| part.get("enum").is_some());
    has_values || scalars.iter().any(|kind| may_be(parts, kind))
}

fn items<'a>(parts: &[&'a Value]) -> Vec<&'a Value> {
    parts.iter().filter_map(|part| part.get("items")).collect()
}

/// The schemas of a property.
pub(super) fn properties<'a>(parts: &[&'a Value], name: &str) -> Vec<&'a Value> {
    let named = parts.iter().filter_map(|part| part.get("properties")?.get(name));
    let named: Vec<_> = named.collect();
    if !named.is_empty() {
        return named;
    }
    let others = parts.iter().filter_map(|part| part.get("additionalProperties"));
    others.collect()
}

/// A scalar as a text.
pub(super) fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether what was read is what was given. In texts a list of one item is the item, and null and an empty list are nothing.
pub(super) fn is_same(given: &Value, read: &Value, is_text: bool) -> bool {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            let kept = |map: &Map<String, Value>| {
                let values = map.values();
                let said = values.filter(|value| !is_text || !is_nothing(value));
                said.count()
            };
            let has = |(name, value): (&String, &Value)| {
                let found = read.get(name);
                is_text && is_nothing(value)
                    || found.is_some_and(|one| is_same(value, one, is_text))
            };
            kept(given) == kept(read) && given.iter().all(has)
        }
        (Value::Array(given), Value::Array(read)) => {
            given.len() == read.len()
                && given.iter().zip(read).all(|(one, other)| is_same(one, other, is_text))
        }
        (Value::Array(given), read) if is_text && given.len() == 1 => {
            is_same(&given[0], read, true)
        }
        (given, Value::Array(read)) if is_text && read.len() == 1 => is_same(given, &read[0], true),
        (given, read) if is_text => written(given) == written(read),
        (given, read) => given == read,
    }
}

/// Whether texts have no way to say it: null, and what has nothing in it.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(is_nothing),
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}

/// The parts of a multipart body (RFC 7578): name, media type and content of each.
pub(super) fn multipart(
    content_type: &str,
    body: &[u8],
) -> Result<Vec<(String, String, String)>, String> {
    let boundary = content_type.split_once("boundary=").ok_or("multipart: no boundary")?.1;
    let text = String::from_utf8_lossy(body).into_owned();
    let text = format!("\r\n{text}");
    let between = format!("\r\n--{boundary}");
    let mut parts = text.split(&between);
    let mut found = Vec::new();
    if parts.next() != Some("") {
        return Err("multipart: something stands before the first part".into());
    }
    for part in parts {
        if part.trim_end() == "--" {
            return Ok(found);
        }
        let (head, content) =
            part.split_once("\r\n\r\n").ok_or("multipart: a part without a head")?;
        let line = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let disposition =
            line("Content-Disposition: form-data; ").ok_or("multipart: no disposition")?;
        let name = disposition.split('"').nth(1).ok_or("multipart: no name")?;
        let media_type = line("Content-Type: ").unwrap_or_default();
        found.push((name.to_owned(), media_type.to_owned(), content.to_owned()));
    }
    Err("multipart: no end".into())
}
