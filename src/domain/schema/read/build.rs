//! Compiles the keywords of one subschema.

use serde_json::{Map, Value};

use super::{
    super::{
        equal,
        format::EnforcedFormat,
        keyword::DraftFamily,
        node::{
            COUNT_LIMITS, Discriminator, Keyword, NUMERIC_BOUNDS, NodeId, PatternId,
            PropertyKeywords, SchemaNode, TypeSet,
        },
        words::{SHOWN_CHARS_MAX, shorten_json},
    },
    SchemaReader, Subschema, address_of_value, join_pointer,
};

impl<'a> SchemaReader<'a> {
    fn find_node_id(&self, value: &Value) -> Option<NodeId> {
        self.ids.get(&address_of_value(value)).copied()
    }

    /// Compiles a subschema, whose form was checked.
    pub(super) fn compile_node(&mut self, id: NodeId) -> SchemaNode {
        let Subschema { value, pointer, resource } = self.subschemas[id].clone();
        let mut keywords = Vec::new();
        match value {
            Value::Bool(false) => keywords.push(Keyword::FalseSchema),
            Value::Object(map) => {
                let reference = ["$ref", "$dynamicRef", "$recursiveRef"];
                for word in reference {
                    if let Some(text) = map.get(word).and_then(Value::as_str) {
                        let at = join_pointer(&pointer, word);
                        let node = self.resolve_reference(word, text, resource, &at);
                        keywords.extend(node.map(Keyword::Reference));
                    }
                }
                // Up to draft 7 all keywords next to a `$ref` are ignored.
                if self.draft != DraftFamily::Draft7 || !map.contains_key("$ref") {
                    self.compile_value_keywords(&mut keywords, map, &pointer);
                    self.compile_applicators(&mut keywords, map, &pointer);
                }
            }
            _ => {}
        }
        keywords.sort_by_key(Keyword::evaluation_order);
        SchemaNode {
            cost: 1 + keywords.iter().map(Keyword::evaluation_steps).sum::<u64>(),
            keywords,
            is_shared: false,
        }
    }

    fn resolve_reference(
        &mut self,
        word: &str,
        text: &str,
        resource: usize,
        keyword_pointer: &str,
    ) -> Option<NodeId> {
        match self.resources.resolve_reference(word, text, resource) {
            Ok((value, pointer, resource)) => {
                let id = self.add_subschema(value, pointer, resource);
                self.shared_nodes.push(id);
                Some(id)
            }
            Err(message) => {
                self.add_invalid_fault(keyword_pointer, message);
                None
            }
        }
    }

    /// Compiles the keywords about the value itself.
    fn compile_value_keywords(
        &mut self,
        keywords: &mut Vec<Keyword>,
        map: &'a Map<String, Value>,
        pointer: &str,
    ) {
        if let Some(names) = map.get("type") {
            let single = std::slice::from_ref(names);
            let list = names.as_array().map_or(single, Vec::as_slice).iter();
            let mut names = list.filter_map(Value::as_str);
            let types = names.try_fold(TypeSet::default(), TypeSet::add_type);
            keywords.extend(types.map(Keyword::Type));
        }
        keywords.extend(map.get("const").cloned().map(Keyword::Const));
        let options = map.get("enum").and_then(Value::as_array);
        keywords.extend(options.cloned().map(Keyword::Enum));
        for bound in &NUMERIC_BOUNDS {
            let limit = map.get(bound.0).and_then(Value::as_number);
            keywords.extend(limit.map(|limit| Keyword::Bound(bound, limit.clone())));
        }
        let divisor = map.get("multipleOf").and_then(Value::as_number);
        keywords.extend(divisor.cloned().map(Keyword::MultipleOf));
        for count_limit in &COUNT_LIMITS {
            let limit = map.get(count_limit.0).and_then(parse_count);
            keywords.extend(limit.map(|limit| Keyword::CountBound(count_limit, limit)));
        }
        let required = map.get("required").map(read_texts).unwrap_or_default();
        if !required.is_empty() {
            keywords.push(Keyword::Required(required));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            keywords.push(Keyword::UniqueItems);
        }
        if let Some(text) = map.get("pattern").and_then(Value::as_str) {
            let id = self.add_pattern(text, &join_pointer(pointer, "pattern"), None);
            keywords.extend(id.map(|id| Keyword::Pattern(id, text.to_owned())));
        }
        if let Some(name) = map.get("format").and_then(Value::as_str) {
            keywords.extend(
                self.find_format(name, &join_pointer(pointer, "format")).map(Keyword::Format),
            );
        }
    }

    /// The format of a name. Unknown formats are ignored, as JSON Schema has it, unless one looks like a misspelt name.
    fn find_format(&mut self, name: &str, pointer: &str) -> Option<&'static EnforcedFormat> {
        let format = EnforcedFormat::find_by_name(name);
        if format.is_none()
            && let Some(suggestion) = EnforcedFormat::suggest_name(name)
        {
            let message = format!("`{name}` is no format");
            self.add_invalid_fault(pointer, message).suggest_replacement(name, suggestion);
        }
        format
    }

    fn add_pattern(
        &mut self,
        text: &'a str,
        pointer: &str,
        key: Option<&str>,
    ) -> Option<PatternId> {
        if let Some(id) = self.pattern_ids.get(text) {
            return *id;
        }
        let id = self.compile_pattern(text, pointer, key);
        self.pattern_ids.insert(text, id);
        id
    }

    fn compile_pattern(
        &mut self,
        text: &str,
        pointer: &str,
        key: Option<&str>,
    ) -> Option<PatternId> {
        match self.quota.compile_pattern(text)? {
            Ok(pattern) => {
                self.patterns.push(pattern);
                Some(self.patterns.len() - 1)
            }
            Err((rule, message)) => {
                self.add_fault(rule, pointer, message).key = key.map(str::to_owned);
                None
            }
        }
    }

    /// Compiles the keywords whose subschemas apply to the value or its parts.
    fn compile_applicators(
        &mut self,
        keywords: &mut Vec<Keyword>,
        map: &'a Map<String, Value>,
        pointer: &str,
    ) {
        let subschema = |word| self.find_subschema_id(map, word);
        keywords.extend(self.find_subschema_ids(map, "allOf").map(Keyword::AllOf));
        keywords.extend(self.find_subschema_ids(map, "anyOf").map(Keyword::AnyOf));
        keywords.extend(self.find_subschema_ids(map, "oneOf").map(Keyword::OneOf));
        keywords.extend(self.read_discriminator(map));
        if let Some(node) = subschema("not") {
            let words = shorten_json(&map["not"], SHOWN_CHARS_MAX);
            keywords.push(Keyword::Not(node, words));
        }
        if let Some(condition) = subschema("if") {
            keywords.push(Keyword::If {
                condition,
                then: subschema("then"),
                otherwise: subschema("else"),
            });
        }
        keywords.extend(subschema("propertyNames").map(Keyword::PropertyNames));
        keywords.extend(subschema("unevaluatedItems").map(Keyword::UnevaluatedItems));
        keywords.extend(subschema("unevaluatedProperties").map(Keyword::UnevaluatedProperties));
        if let Some(node) = subschema("contains") {
            keywords.push(Keyword::Contains {
                node,
                min_count: map.get("minContains").and_then(parse_count).unwrap_or(1),
                max_count: map.get("maxContains").and_then(parse_count),
            });
        }
        for word in ["dependentSchemas", "dependencies"] {
            let to_schema_entry =
                |(name, value): (&String, _)| Some((name.clone(), self.find_node_id(value)?));
            let schemas: Vec<_> = keyword_entries(map, word).filter_map(to_schema_entry).collect();
            if !schemas.is_empty() {
                keywords.push(Keyword::DependentSchemas(schemas));
            }
        }
        for word in ["dependentRequired", "dependencies"] {
            let lists = keyword_entries(map, word).filter(|(_, names)| names.is_array());
            let to_list_entry = |(name, names): (&String, _)| (name.clone(), read_texts(names));
            let lists: Vec<_> = lists.map(to_list_entry).collect();
            if !lists.is_empty() {
                keywords.push(Keyword::DependentRequired(lists));
            }
        }
        let (prefix, rest) = match map.get("items") {
            Some(Value::Array(_)) => ("items", "additionalItems"),
            _ => ("prefixItems", "items"),
        };
        let (prefix, rest) = (self.find_subschema_ids(map, prefix), subschema(rest));
        if prefix.is_some() || rest.is_some() {
            let prefix = prefix.unwrap_or_default();
            keywords.push(Keyword::Items { prefix, rest });
        }
        keywords.extend(self.compile_properties(map, pointer));
    }

    /// The `discriminator` of a `oneOf` or `anyOf` whose alternatives are references.
    fn read_discriminator(&self, map: &Map<String, Value>) -> Option<Keyword> {
        let discriminator = map.get("discriminator")?;
        let alternatives = map.get("oneOf").or_else(|| map.get("anyOf"))?.as_array()?;
        let find_alternative = |target: &Value| {
            let mut options = alternatives.iter();
            self.find_node_id(options.find(|option| option.get("$ref") == Some(target))?)
        };
        let mapping = keyword_entries(discriminator.as_object()?, "mapping");
        let options =
            mapping.filter_map(|(value, target)| Some((value.clone(), find_alternative(target)?)));
        let options: Vec<_> = options.collect();
        let values = options.iter().map(|(value, _)| Value::from(value.as_str()));
        Some(Keyword::Discriminator(Box::new(Discriminator {
            property: discriminator.get("propertyName")?.as_str()?.to_owned(),
            values: Keyword::Enum(values.collect()),
            options,
        })))
    }

    /// The subschema under a keyword.
    fn find_subschema_id(&self, map: &Map<String, Value>, word: &str) -> Option<NodeId> {
        self.find_node_id(map.get(word)?)
    }

    /// The list of subschemas under a keyword.
    fn find_subschema_ids(&self, map: &Map<String, Value>, word: &str) -> Option<Vec<NodeId>> {
        let list = map.get(word)?.as_array()?;
        Some(list.iter().filter_map(|value| self.find_node_id(value)).collect())
    }

    fn compile_properties(
        &mut self,
        map: &'a Map<String, Value>,
        pointer: &str,
    ) -> Option<Keyword> {
        let mut properties = PropertyKeywords::default();
        for (name, value) in keyword_entries(map, "properties") {
            if let Some(id) = self.find_node_id(value) {
                let position = properties.named.len();
                properties.index_by_name.insert(name.clone(), position);
                properties.named.push((name.clone(), id));
            }
        }
        let at = join_pointer(pointer, "patternProperties");
        for (pattern, value) in keyword_entries(map, "patternProperties") {
            let pattern = self.add_pattern(pattern, &at, Some(pattern));
            properties.patterns.extend(pattern.zip(self.find_node_id(value)));
        }
        properties.additional = self.find_subschema_id(map, "additionalProperties");
        let has_keywords = !properties.named.is_empty()
            || !properties.patterns.is_empty()
            || properties.additional.is_some();
        has_keywords.then(|| Keyword::Properties(Box::new(properties)))
    }
}

/// The entries of the mapping under a keyword.
fn keyword_entries<'a>(
    map: &'a Map<String, Value>,
    word: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let entries = map.get(word).and_then(Value::as_object);
    entries.into_iter().flatten()
}

fn read_texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// An integer that is not negative; `3.0` is one.
pub(super) fn parse_count(value: &Value) -> Option<u64> {
    let whole = equal::as_integer(value.as_number()?)?;
    u64::try_from(whole).ok()
}
