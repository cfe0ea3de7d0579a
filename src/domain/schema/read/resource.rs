//! Resolves references. All their targets are in the document: nothing is ever fetched.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::join_pointer;

/// The parts of a document with a URI of their own (`$id`); the first is the whole document.
pub(super) struct SchemaResources<'a> {
    resources: Vec<SchemaResource<'a>>,
}

struct SchemaResource<'a> {
    root: &'a Value,
    pointer: String,
    uri: String,
    anchors: HashMap<&'a str, (&'a Value, String)>,
    /// The names of `$dynamicAnchor`.
    dynamic_anchors: Vec<&'a str>,
    /// Whether it has a `$recursiveAnchor`.
    has_recursive_anchor: bool,
}

impl<'a> SchemaResource<'a> {
    fn new(root: &'a Value, pointer: &str, uri: String) -> Self {
        Self {
            root,
            pointer: pointer.to_owned(),
            uri,
            anchors: HashMap::new(),
            dynamic_anchors: Vec::new(),
            has_recursive_anchor: false,
        }
    }
}

/// The target of a reference: the value, its pointer and the number of its resource.
type ReferenceTarget<'a> = (&'a Value, String, usize);

impl<'a> SchemaResources<'a> {
    pub(super) fn from_document(document: &'a Value) -> Self {
        Self { resources: vec![SchemaResource::new(document, "", String::new())] }
    }

    /// Notes the URI and the anchors of a subschema. Returns the number of its resource, which may begin with it.
    pub(super) fn enter_subschema(
        &mut self,
        value: &'a Value,
        map: &'a Map<String, Value>,
        pointer: &str,
        base_resource: usize,
    ) -> usize {
        let text = |word: &str| map.get(word).and_then(Value::as_str);
        let mut resource = base_resource;
        let id = text("$id").map(|id| id.trim_end_matches('#'));
        if let Some(id) = id.filter(|_| pointer.is_empty()) {
            id.clone_into(&mut self.resources[0].uri);
        } else if let Some(anchor) = id.and_then(|id| id.strip_prefix('#')) {
            self.add_anchor(base_resource, anchor, value, pointer);
        } else if let Some(id) = id {
            let uri = join_uri(&self.resources[base_resource].uri, id);
            self.resources.push(SchemaResource::new(value, pointer, uri));
            resource = self.resources.len() - 1;
        }
        for word in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = text(word) {
                self.add_anchor(resource, name, value, pointer);
            }
        }
        self.resources[resource].dynamic_anchors.extend(text("$dynamicAnchor"));
        self.resources[resource].has_recursive_anchor |=
            map.get("$recursiveAnchor") == Some(&Value::Bool(true));
        resource
    }

    fn add_anchor(&mut self, resource: usize, name: &'a str, value: &'a Value, pointer: &str) {
        let anchors = &mut self.resources[resource].anchors;
        anchors.insert(name, (value, pointer.to_owned()));
    }

    /// Resolves the reference `text` of the keyword `word` from within a resource.
    pub(super) fn resolve_reference(
        &self,
        word: &str,
        text: &str,
        base_resource: usize,
    ) -> Result<ReferenceTarget<'a>, String> {
        let (base, fragment) = text.split_once('#').unwrap_or((text, ""));
        let resource_index = self.find_resource(base, base_resource).ok_or_else(|| {
            format!("`{text}` leads out of this schema: nothing is fetched, so write what it names under `$defs`")
        })?;
        let resource = &self.resources[resource_index];
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        let has_several = |has: &dyn Fn(&SchemaResource<'_>) -> bool| {
            self.resources.iter().filter(|resource| has(resource)).count() > 1
        };
        if (word == "$dynamicRef" && has_several(&|one| one.dynamic_anchors.contains(&&*fragment)))
            || (word == "$recursiveRef" && has_several(&|one| one.has_recursive_anchor))
        {
            return Err(format!(
                "`{word}` is not supported where several parts with an `$id` have the anchor: write `$ref`"
            ));
        }
        let target = if fragment.is_empty() {
            Some((resource.root, resource.pointer.clone()))
        } else if fragment.starts_with('/') {
            resource.resolve_fragment(&fragment)
        } else {
            resource.anchors.get(&*fragment).cloned()
        };
        let (value, pointer) =
            target.ok_or_else(|| format!("`{text}` leads to nothing in this schema"))?;
        Ok((value, pointer, resource_index))
    }

    fn find_resource(&self, base: &str, base_resource: usize) -> Option<usize> {
        if base.is_empty() {
            return Some(base_resource);
        }
        let uri = join_uri(&self.resources[base_resource].uri, base);
        let mut all = self.resources.iter();
        all.position(|resource| resource.uri == uri || resource.uri == base)
    }
}

impl<'a> SchemaResource<'a> {
    fn resolve_fragment(&self, fragment: &str) -> Option<(&'a Value, String)> {
        let mut pointer = self.pointer.clone();
        for part in fragment.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            pointer = join_pointer(&pointer, &part);
        }
        Some((self.root.pointer(fragment)?, pointer))
    }
}

/// Resolves the URI reference `text` against `base`.
fn join_uri(base: &str, text: &str) -> String {
    if text.contains("://") {
        return remove_dot_segments(text);
    }
    if text.starts_with("urn:") || base.is_empty() {
        return text.to_owned();
    }
    let host = base.find("://").map_or(0, |at| at + 3);
    let host = base[host..].find('/').map_or(base.len(), |at| host + at);
    let end = if text.starts_with('/') {
        host
    } else {
        base[host..].rfind('/').map_or(base.len(), |at| host + at + 1)
    };
    remove_dot_segments(&format!("{}{text}", &base[..end]))
}

/// The URI with the path that its dot segments lead to (RFC 3986, 5.2.4).
fn remove_dot_segments(uri: &str) -> String {
    let prefix_length = if uri.contains("://") { 3 } else { 0 };
    let mut segments: Vec<&str> = Vec::new();
    for (index, segment) in uri.split('/').enumerate() {
        match segment {
            // Neither the scheme nor the host is left out.
            ".." if segments.len() > prefix_length => drop(segments.pop()),
            "." | ".." if index >= prefix_length => {}
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}
