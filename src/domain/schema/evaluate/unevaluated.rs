//! `unevaluatedProperties` and `unevaluatedItems`: the parts of a value that no other schema for the value has evaluated.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    super::{
        node::{Keyword, NodeId, PropertyKeywords},
        words::ViolatedPart,
    },
    BYTES_PER_STEP, Evaluation, EvaluationResult, PARTS_PER_STEP, PathKey, ReportMode,
};

/// Which parts of a value were evaluated by some schema.
struct EvaluatedParts<'a> {
    value: &'a Value,
    parts: Vec<bool>,
    /// The schemas that were visited.
    asked: HashSet<NodeId>,
}

impl<'a> EvaluatedParts<'a> {
    fn new(value: &'a Value, count: usize) -> Self {
        Self { value, parts: vec![false; count], asked: HashSet::new() }
    }
}

impl<'a> Evaluation<'a> {
    /// Validates the parts of `value` that no other schema has evaluated against `node`.
    pub(super) fn validate_unevaluated(
        &mut self,
        id: NodeId,
        keyword: &'a Keyword,
        node: NodeId,
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let parts: Box<dyn Iterator<Item = (PathKey<'a>, &'a Value)> + 'a> = match (keyword, value)
        {
            (Keyword::UnevaluatedProperties(_), Value::Object(map)) => {
                Box::new(map.iter().map(|(name, part)| (PathKey::Name(name), part)))
            }
            (Keyword::UnevaluatedItems(_), Value::Array(items)) => {
                let items = items.iter().enumerate();
                Box::new(items.map(|(at, part)| (PathKey::Index(at), part)))
            }
            _ => return Ok(true),
        };
        let count = parts.size_hint().0;
        self.spend_steps(count as u64 / PARTS_PER_STEP)?;
        let mut evaluated = EvaluatedParts::new(value, count);
        self.collect_evaluated_parts(id, &mut evaluated, true)?;
        let (mut holds, mut unexpected, mut names) = (true, 0, Vec::new());
        let parts = parts.zip(evaluated.parts);
        for ((key, part), _) in parts.filter(|(_, is_evaluated)| !is_evaluated) {
            if !self.is_false_schema(node) {
                holds &= self.validate_part(key, node, part, mode)?;
                continue;
            }
            unexpected += 1;
            if let PathKey::Name(name) = key {
                names.push(name);
            }
        }
        match names.as_slice() {
            _ if unexpected == 0 => Ok(holds),
            [] => self.report_violation(keyword, ViolatedPart::Items(unexpected), value, mode),
            names => self.report_violation(keyword, ViolatedPart::Names(names), value, mode),
        }
    }

    /// Marks the parts that a schema evaluates. The `unevaluated…` of the schema that `asks` is left out.
    fn collect_evaluated_parts(
        &mut self,
        id: NodeId,
        seen: &mut EvaluatedParts<'a>,
        asks: bool,
    ) -> EvaluationResult<()> {
        let program = self.program;
        self.spend_steps(program.nodes[id].cost)?;
        if !seen.asked.insert(id) {
            return Ok(());
        }
        for keyword in &program.nodes[id].keywords {
            match (keyword, seen.value) {
                (Keyword::UnevaluatedProperties(_), Value::Object(_))
                | (Keyword::UnevaluatedItems(_), Value::Array(_))
                    if !asks =>
                {
                    self.spend_steps(seen.parts.len() as u64 / PARTS_PER_STEP)?;
                    seen.parts.fill(true);
                }
                (Keyword::Properties(properties), Value::Object(map)) => {
                    self.collect_properties(properties, map, seen)?;
                }
                (Keyword::Items { prefix, rest }, Value::Array(items)) => {
                    let end = rest.map_or(prefix.len(), |_| items.len());
                    let end = end.min(items.len());
                    self.spend_steps(end as u64 / PARTS_PER_STEP)?;
                    seen.parts[..end].fill(true);
                }
                (Keyword::Contains { node, .. }, Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        seen.parts[index] |= self.validate(*node, item, ReportMode::Check)?;
                    }
                }
                (keyword, _) => self.collect_in_place(keyword, seen)?,
            }
        }
        Ok(())
    }

    fn collect_properties(
        &mut self,
        properties: &'a PropertyKeywords,
        map: &'a Map<String, Value>,
        seen: &mut EvaluatedParts<'a>,
    ) -> EvaluationResult<()> {
        for (place, name) in map.keys().enumerate() {
            self.spend_steps(1 + name.len() as u64 / BYTES_PER_STEP)?;
            let mut is_seen =
                properties.additional.is_some() || properties.position.contains_key(name);
            for (pattern, _) in &properties.patterns {
                is_seen = is_seen || self.is_pattern_match(*pattern, name)?;
            }
            seen.parts[place] |= is_seen;
        }
        Ok(())
    }

    /// Marks the parts that the schemas in `keyword` evaluate, of those for which the value is valid.
    fn collect_in_place(
        &mut self,
        keyword: &'a Keyword,
        seen: &mut EvaluatedParts<'a>,
    ) -> EvaluationResult<()> {
        let value = seen.value;
        match keyword {
            Keyword::If { condition, then, otherwise } => {
                let holds = self.validate(*condition, value, ReportMode::Check)?;
                if holds {
                    self.collect_evaluated_parts(*condition, seen, false)?;
                }
                let branch = if holds { then } else { otherwise };
                branch.map_or(Ok(()), |branch| self.collect_evaluated_parts(branch, seen, false))
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, node) in schemas {
                    if value.get(name).is_some() {
                        self.collect_evaluated_parts(*node, seen, false)?;
                    }
                }
                Ok(())
            }
            Keyword::Not(..) => Ok(()),
            keyword => {
                for node in keyword.in_place_subschemas() {
                    if self.validate(node, value, ReportMode::Check)? {
                        self.collect_evaluated_parts(node, seen, false)?;
                    }
                }
                Ok(())
            }
        }
    }
}
