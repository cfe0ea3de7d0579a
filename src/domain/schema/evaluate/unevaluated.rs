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
    is_evaluated: Vec<bool>,
    /// The schemas that were visited.
    visited_nodes: HashSet<NodeId>,
}

impl<'a> EvaluatedParts<'a> {
    fn new(value: &'a Value, count: usize) -> Self {
        Self { value, is_evaluated: vec![false; count], visited_nodes: HashSet::new() }
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
        let (mut is_valid, mut unexpected, mut names) = (true, 0, Vec::new());
        let parts = parts.zip(evaluated.is_evaluated);
        for ((key, part), _) in parts.filter(|(_, is_evaluated)| !is_evaluated) {
            if !self.is_false_schema(node) {
                is_valid &= self.validate_part(key, node, part, mode)?;
                continue;
            }
            unexpected += 1;
            if let PathKey::Name(name) = key {
                names.push(name);
            }
        }
        match names.as_slice() {
            _ if unexpected == 0 => Ok(is_valid),
            [] => self.report_violation(keyword, ViolatedPart::Items(unexpected), value, mode),
            names => self.report_violation(keyword, ViolatedPart::Names(names), value, mode),
        }
    }

    /// Marks the parts that a schema evaluates. The `unevaluated…` of the schema that `is_requesting_node` is left out.
    fn collect_evaluated_parts(
        &mut self,
        id: NodeId,
        evaluated: &mut EvaluatedParts<'a>,
        is_requesting_node: bool,
    ) -> EvaluationResult<()> {
        let program = self.program;
        self.spend_steps(program.nodes[id].cost)?;
        if !evaluated.visited_nodes.insert(id) {
            return Ok(());
        }
        for keyword in &program.nodes[id].keywords {
            match (keyword, evaluated.value) {
                (Keyword::UnevaluatedProperties(_), Value::Object(_))
                | (Keyword::UnevaluatedItems(_), Value::Array(_))
                    if !is_requesting_node =>
                {
                    self.spend_steps(evaluated.is_evaluated.len() as u64 / PARTS_PER_STEP)?;
                    evaluated.is_evaluated.fill(true);
                }
                (Keyword::Properties(properties), Value::Object(map)) => {
                    self.collect_properties(properties, map, evaluated)?;
                }
                (Keyword::Items { prefix, rest }, Value::Array(items)) => {
                    let end = rest.map_or(prefix.len(), |_| items.len());
                    let end = end.min(items.len());
                    self.spend_steps(end as u64 / PARTS_PER_STEP)?;
                    evaluated.is_evaluated[..end].fill(true);
                }
                (Keyword::Contains { node, .. }, Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        evaluated.is_evaluated[index] |=
                            self.validate(*node, item, ReportMode::Check)?;
                    }
                }
                (keyword, _) => self.collect_in_place(keyword, evaluated)?,
            }
        }
        Ok(())
    }

    fn collect_properties(
        &mut self,
        properties: &'a PropertyKeywords,
        map: &'a Map<String, Value>,
        evaluated: &mut EvaluatedParts<'a>,
    ) -> EvaluationResult<()> {
        for (index, name) in map.keys().enumerate() {
            self.spend_steps(1 + name.len() as u64 / BYTES_PER_STEP)?;
            let mut is_evaluated =
                properties.additional.is_some() || properties.index_by_name.contains_key(name);
            for (pattern, _) in &properties.patterns {
                is_evaluated = is_evaluated || self.is_pattern_match(*pattern, name)?;
            }
            evaluated.is_evaluated[index] |= is_evaluated;
        }
        Ok(())
    }

    /// Marks the parts that the schemas in `keyword` evaluate, of those for which the value is valid.
    fn collect_in_place(
        &mut self,
        keyword: &'a Keyword,
        evaluated: &mut EvaluatedParts<'a>,
    ) -> EvaluationResult<()> {
        let value = evaluated.value;
        match keyword {
            Keyword::If { condition, then, otherwise } => {
                let is_condition_met = self.validate(*condition, value, ReportMode::Check)?;
                if is_condition_met {
                    self.collect_evaluated_parts(*condition, evaluated, false)?;
                }
                let branch = if is_condition_met { then } else { otherwise };
                branch
                    .map_or(Ok(()), |branch| self.collect_evaluated_parts(branch, evaluated, false))
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, node) in schemas {
                    if value.get(name).is_some() {
                        self.collect_evaluated_parts(*node, evaluated, false)?;
                    }
                }
                Ok(())
            }
            Keyword::Not(..) => Ok(()),
            keyword => {
                for node in keyword.in_place_subschemas() {
                    if self.validate(node, value, ReportMode::Check)? {
                        self.collect_evaluated_parts(node, evaluated, false)?;
                    }
                }
                Ok(())
            }
        }
    }
}
