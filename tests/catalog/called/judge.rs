//! Says whether a request is one that its document declares. It reads the document and the bytes of the request, and nothing
//! that midex made of either.
//!
//! Credentials are not judged: they are a matter of the catalog, not of a call. Of the styles of parameters it knows those
//! that the public documents have.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{
    decode::{
        Tree, decoded, deep, is_nothing, is_same, may_be, multipart, of_path, pairs, properties,
        typed,
    },
    validator::Schemas,
};
use midex_test::service::Seen;

/// A document as the judge reads it.
pub(super) struct Judge {
    schemas: Schemas,
    routes: Vec<Route>,
}

/// An operation with the path that its requests have.
struct Route {
    /// The method in lower case, as it is a key of the document.
    method: String,
    /// The key of the document.
    path: String,
    /// With the path of its server before it, without a fragment.
    template: String,
}

/// An operation, and the raw values that its path has in a request.
type Fit<'a> = (&'a Route, Vec<(&'a str, String)>);

/// What a caller meant.
pub(super) struct Meant<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// Values by the name and location of their parameters.
    pub(super) parameters: Vec<(&'a str, &'a str, Value)>,
    pub(super) body: Option<Value>,
}

/// A parameter of the document.
struct Declared<'a> {
    name: &'a str,
    location: &'a str,
    style: &'a str,
    explode: bool,
    is_required: bool,
    schema: &'a Value,
    is_json: bool,
}

/// Headers that say what other parts of the document say (OpenAPI 3.0.3, 4.7.12.1).
const IGNORED: [&str; 3] = ["accept", "content-type", "authorization"];
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

impl Judge {
    pub(super) fn new(document: Value) -> Self {
        let schemas = Schemas::new(document);
        let mut routes = Vec::new();
        for (path, item) in schemas.document["paths"].as_object().into_iter().flatten() {
            let item = schemas.follow(item);
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    let server = server(&[operation, item, &schemas.document]);
                    let sent = path.split('#').next().unwrap_or_default();
                    routes.push(Route {
                        method: method.to_owned(),
                        path: path.clone(),
                        template: format!("{}{sent}", path_of(&server)),
                    });
                }
            }
        }
        Self { schemas, routes }
    }

    /// Nothing where the document declares the request, and it says what was meant. Else the rule that it breaks, a colon
    /// and the particulars.
    pub(super) fn refused(&self, seen: &Seen, meant: &Meant<'_>) -> Option<String> {
        self.judged(seen, meant).err()
    }

    fn judged(&self, seen: &Seen, meant: &Meant<'_>) -> Result<(), String> {
        let method = seen.line.split(' ').next().unwrap_or_default();
        let (path, query) = seen.target().split_once('?').unwrap_or((seen.target(), ""));
        let mut routes = self.routes(method, path, meant)?.into_iter();
        let (first, values) = routes.next().expect("one at least");
        let mut judged = self.of_route(first, &values, query, seen, meant);
        // Documents tell operations of one path apart by a fragment, which is never sent.
        for (route, values) in routes {
            judged = judged.or_else(|_| self.of_route(route, &values, query, seen, meant));
        }
        judged
    }

    fn of_route(
        &self,
        route: &Route,
        values: &[(&str, String)],
        query: &str,
        seen: &Seen,
        meant: &Meant<'_>,
    ) -> Result<(), String> {
        let item = self.schemas.follow(&self.schemas.document["paths"][&route.path]);
        let operation = &item[&route.method];
        let declared = self.declared(item, operation)?;
        let mut read = Vec::new();
        for (name, raw) in values {
            let one = declared.iter().find(|one| one.location == "path" && one.name == *name);
            // Some documents forget to declare what stands in their paths.
            let Some(one) = one else { continue };
            read.push((one, segment(one, raw, &self.schemas)?));
        }
        read.extend(self.query(&declared, query)?);
        for one in declared.iter().filter(|one| one.location == "header") {
            if let Some(raw) = seen.header(&one.name.to_ascii_lowercase()) {
                read.push((one, Tree::Text(raw.to_owned())));
            }
        }
        for one in declared.iter().filter(|one| one.is_required) {
            if !read.iter().any(|(known, _)| std::ptr::eq(*known, one)) {
                return Err(format!("{} parameter missing: `{}`", one.location, one.name));
            }
        }
        for (one, tree) in &read {
            self.parameter(one, tree, meant)?;
        }
        for (name, location, given) in &meant.parameters {
            let is_one = |one: &Declared<'_>| (one.name, one.location) == (*name, *location);
            let is_read = read.iter().any(|(one, _)| is_one(one));
            if !is_read && *location != "path" && !is_nothing(given) {
                return Err(format!("{location} parameter lost: `{name}` {given}"));
            }
        }
        self.body(operation, seen, meant)
    }

    /// The operations that the path is of, with the raw values in it: those that say most of it themselves, of which the
    /// one that is meant must be one.
    fn routes<'a>(
        &'a self,
        method: &str,
        path: &str,
        meant: &Meant<'_>,
    ) -> Result<Vec<Fit<'a>>, String> {
        let method = method.to_ascii_lowercase();
        let of_method = self.routes.iter().filter(|route| route.method == method);
        let fitting = of_method.filter_map(|route| Some((route, fit(&route.template, path)?)));
        let fitting: Vec<Fit<'_>> = fitting.collect();
        let said = |(route, values): &Fit<'_>| {
            let names: usize = values.iter().map(|(name, _)| name.len() + 2).sum();
            route.template.len() - names
        };
        let most = fitting.iter().map(said).max();
        let is_meant = |route: &Route| {
            let path = route.path.split('#').next();
            route.method == meant.method.to_ascii_lowercase() && path == Some(meant.path)
        };
        let best = fitting.into_iter().filter(|one| Some(said(one)) == most);
        let best: Vec<_> = best.filter(|(route, _)| is_meant(route)).collect();
        if best.is_empty() {
            return Err(format!("path: `{path}` is not one of `{}`", meant.path));
        }
        Ok(best)
    }

    fn declared<'a>(
        &'a self,
        item: &'a Value,
        operation: &'a Value,
    ) -> Result<Vec<Declared<'a>>, String> {
        let mut found: Vec<Declared<'a>> = Vec::new();
        let lists = [item, operation].map(|holder| holder["parameters"].as_array());
        for value in lists.into_iter().flatten().flatten() {
            let one = declared(self.schemas.follow(value))?;
            found.retain(|known| (known.name, known.location) != (one.name, one.location));
            found.push(one);
        }
        found.retain(|one| {
            one.location != "header" || !IGNORED.contains(&one.name.to_ascii_lowercase().as_str())
        });
        Ok(found)
    }

    /// The trees of the query. A name that no parameter has is refused.
    fn query<'d, 'a>(
        &self,
        declared: &'d [Declared<'a>],
        query: &str,
    ) -> Result<Vec<(&'d Declared<'a>, Tree)>, String> {
        let mut left = pairs(query)?;
        let mut read = Vec::new();
        for one in declared.iter().filter(|one| one.location == "query") {
            let inner = format!("{}[", one.name);
            let is_deep = one.style == "deepObject";
            let is_own = |name: &str| name == one.name || is_deep && name.starts_with(&inner);
            let (own, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(name, _)| is_own(name));
            left = others;
            if !own.is_empty() {
                let parts = self.schemas.parts(&[one.schema]);
                read.push((one, tree(one.style, one.explode, &own, &parts)?));
            }
        }
        for one in declared.iter().filter(|one| one.location == "query" && one.explode) {
            let parts = self.schemas.parts(&[one.schema]);
            let is_own =
                |name: &str| may_be(&parts, "object") && !properties(&parts, name).is_empty();
            let (own, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(name, _)| is_own(name));
            left = others;
            if !own.is_empty() {
                let each = own.iter();
                let each =
                    each.map(|(name, value)| Ok((name.clone(), Tree::Text(decoded(value)?))));
                read.push((one, Tree::Map(each.collect::<Result<_, String>>()?)));
            }
        }
        match left.first() {
            Some((name, _)) => Err(format!("query parameter unknown: `{name}`")),
            None => Ok(read),
        }
    }

    fn parameter(&self, one: &Declared<'_>, tree: &Tree, meant: &Meant<'_>) -> Result<(), String> {
        let value = match tree {
            Tree::Text(text) if one.is_json => {
                serde_json::from_str(text).map_err(|_| "parameter is no JSON")?
            }
            tree => self.best(tree, one.schema),
        };
        if let Some(why) = self.schemas.broken(one.schema, &value) {
            return Err(format!("{} parameter breaks {why} (`{}`)", one.location, one.name));
        }
        let is_one = |name: &str, location: &str| (name, location) == (one.name, one.location);
        let given = meant.parameters.iter().find(|(name, location, _)| is_one(name, location));
        match given {
            Some((_, _, given)) if !is_same(given, &value, !one.is_json) => Err(format!(
                "{} parameter arrives as another value: `{}` {given} is {value}",
                one.location, one.name
            )),
            None if !is_ours(one) => Err(format!("parameter that nobody gave: `{}`", one.name)),
            _ => Ok(()),
        }
    }

    /// The tree as its schema types it, or as texts where only those are good.
    fn best(&self, tree: &Tree, schema: &Value) -> Value {
        let value = typed(tree, &[schema], &self.schemas, false);
        if self.schemas.broken(schema, &value).is_none() {
            return value;
        }
        let plain = typed(tree, &[schema], &self.schemas, true);
        let is_good = self.schemas.broken(schema, &plain).is_none();
        if is_good { plain } else { value }
    }

    fn body(&self, operation: &Value, seen: &Seen, meant: &Meant<'_>) -> Result<(), String> {
        let declared = self.schemas.follow(&operation["requestBody"]);
        let Some(content_type) = seen.header("content-type") else {
            let is_meant = declared["required"] == true || meant.body.is_some();
            if is_meant || !seen.body.is_empty() {
                return Err("body missing: there is no content type".into());
            }
            return Ok(());
        };
        let content = content(declared, content_type)
            .ok_or_else(|| format!("content type not declared: `{content_type}`"))?;
        let given = meant.body.as_ref().ok_or("body that nobody gave: ")?;
        let schema = &content["schema"];
        let bare = content_type.split(';').next().unwrap_or_default();
        let parts = self.schemas.parts(&[schema]);
        let is_json = bare.ends_with("json");
        let value = match bare {
            _ if is_json => serde_json::from_slice(&seen.body).map_err(|_| "body is no JSON: ")?,
            "application/x-www-form-urlencoded" => self.form(content, &parts, &seen.text())?,
            "multipart/form-data" => self.multipart(&parts, content_type, &seen.body)?,
            // What is sent as it is given: a schema speaks of what stands in it.
            _ if !may_be(&parts, "string") && schema.is_object() => return Ok(()),
            _ => String::from_utf8_lossy(&seen.body).into_owned().into(),
        };
        if let Some(why) = self.schemas.broken(schema, &value) {
            return Err(format!("body breaks {why}"));
        }
        if is_same(given, &value, !is_json) {
            return Ok(());
        }
        Err(format!("body arrives as another value: {given} is {value}"))
    }

    fn form(&self, content: &Value, parts: &[&Value], text: &str) -> Result<Value, String> {
        let mut fields: Vec<(String, Vec<(String, String)>)> = Vec::new();
        for (name, value) in pairs(text)? {
            let root = name.split('[').next().unwrap_or_default().to_owned();
            match fields.iter_mut().find(|(known, _)| *known == root) {
                Some((_, own)) => own.push((name, value)),
                None => fields.push((root, vec![(name, value)])),
            }
        }
        let mut map = Map::new();
        for (name, own) in fields {
            let schemas = properties(parts, &name);
            let encoding = &content["encoding"][&name];
            let style = encoding["style"].as_str().unwrap_or("form");
            let explode = encoding["explode"].as_bool().unwrap_or(style == "form");
            let parts = self.schemas.parts(&schemas);
            // Without a style an object is a document of JSON (OpenAPI 3.1.1, 4.8.15.1).
            let json = may_be(&parts, "object") && encoding["style"].is_null();
            let json = json.then(|| decoded(&own[0].1).ok()?.parse::<Value>().ok()).flatten();
            let value = match json {
                Some(value) if value.is_object() => value,
                _ => typed(&tree(style, explode, &own, &parts)?, &schemas, &self.schemas, false),
            };
            map.insert(name, value);
        }
        Ok(map.into())
    }

    fn multipart(
        &self,
        parts: &[&Value],
        content_type: &str,
        body: &[u8],
    ) -> Result<Value, String> {
        let mut map: Map<String, Value> = Map::new();
        for (name, media_type, content) in multipart(content_type, body)? {
            let schemas = properties(parts, &name);
            let tree = match self.schemas.parts(&schemas) {
                parts if may_be(&parts, "array") => Tree::List(vec![Tree::Text(content.clone())]),
                _ => Tree::Text(content.clone()),
            };
            let value = match media_type.as_str() {
                "application/json" => content.parse().map_err(|_| "part is no JSON: ")?,
                _ => typed(&tree, &schemas, &self.schemas, false),
            };
            match (map.get_mut(&name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
                (_, value) => drop(map.insert(name, value)),
            }
        }
        Ok(map.into())
    }
}

/// Whether it is a header that midex fills in itself: that of a repeated call, or the length of the body.
fn is_ours(one: &Declared<'_>) -> bool {
    let name = one.name.to_ascii_lowercase().replace('_', "-");
    one.location == "header" && (name.ends_with("idempotency-key") || name == "content-length")
}

/// The first server of the first holder that has some, with the defaults of its variables.
fn server(holders: &[&Value]) -> String {
    let server = holders.iter().find_map(|holder| holder["servers"].get(0));
    let mut url = server.and_then(|server| server["url"].as_str()).unwrap_or_default().to_owned();
    let variables = server.and_then(|server| server["variables"].as_object());
    for (name, variable) in variables.into_iter().flatten() {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
    }
    url
}

/// The path of a URL, without a slash at the end.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'))
}

fn declared(value: &Value) -> Result<Declared<'_>, String> {
    let location = value["in"].as_str().unwrap_or_default();
    let usual = if location == "query" { "form" } else { "simple" };
    let style = value["style"].as_str().unwrap_or(usual);
    if !matches!(
        (location, style),
        ("query", "form" | "deepObject") | ("path" | "header", "simple")
    ) {
        return Err(format!("style unknown to the judge: `{style}` in `{location}`"));
    }
    let content = value["content"].as_object().and_then(|content| content.iter().next());
    Ok(Declared {
        name: value["name"].as_str().unwrap_or_default(),
        location,
        style,
        explode: value["explode"].as_bool().unwrap_or(style == "form"),
        is_required: location == "path" || value["required"] == true,
        schema: content.map_or(&value["schema"], |(_, content)| &content["schema"]),
        is_json: content.is_some(),
    })
}

/// The tree of a path's raw value.
fn segment(one: &Declared<'_>, raw: &str, schemas: &Schemas) -> Result<Tree, String> {
    let parts = schemas.parts(&[one.schema]);
    if may_be(&parts, "array") {
        let items = raw.split(',').map(|raw| Ok(Tree::Text(of_path(raw)?)));
        return Ok(Tree::List(items.collect::<Result<_, String>>()?));
    }
    Ok(Tree::Text(of_path(raw)?))
}

/// The tree of pairs that belong to one name.
fn tree(
    style: &str,
    explode: bool,
    own: &[(String, String)],
    parts: &[&Value],
) -> Result<Tree, String> {
    if own[0].0.contains('[') && style == "deepObject" {
        return deep(own);
    }
    let is_list = may_be(parts, "array");
    match own {
        [(_, value)] if explode || !is_list => Ok(Tree::Text(decoded(value)?)),
        [(_, value)] => {
            let items = value.split(',').map(|raw| Ok(Tree::Text(decoded(raw)?)));
            Ok(Tree::List(items.collect::<Result<_, String>>()?))
        }
        _ if style == "deepObject" => Err(format!("style: `{}` stands there again", own[0].0)),
        _ => {
            let items = own.iter().map(|(_, value)| Ok(Tree::Text(decoded(value)?)));
            Ok(Tree::List(items.collect::<Result<_, String>>()?))
        }
    }
}

/// The raw values of a template's names in a path, if it is one of the template.
fn fit<'a>(template: &'a str, path: &str) -> Option<Vec<(&'a str, String)>> {
    let Some((before, rest)) = template.split_once('{') else {
        // What needs no encoding may be encoded.
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        return (plain(template) == plain(path)).then(Vec::new);
    };
    let (name, after) = rest.split_once('}')?;
    let path = path.strip_prefix(before)?;
    let longest = path.find('/').unwrap_or(path.len());
    (1..=longest).filter(|at| path.is_char_boundary(*at)).find_map(|at| {
        let mut values = fit(after, &path[at..])?;
        values.insert(0, (name, path[..at].to_owned()));
        Some(values)
    })
}

/// The declared content that a media type is of: itself, or a range that holds it.
fn content<'a>(declared: &'a Value, content_type: &str) -> Option<&'a Value> {
    let bare = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let sent = bare(content_type);
    let range = format!("{}/*", sent.split('/').next().unwrap_or_default());
    let contents = declared["content"].as_object()?;
    let find = |wanted: &str| contents.iter().find(|(name, _)| bare(name) == wanted);
    let found = find(&sent).or_else(|| find(&range)).or_else(|| find("*/*"));
    found.map(|(_, content)| content)
}
