//! `unevaluatedProperties` and `unevaluatedItems`: what no other schema for the same value has looked at.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    super::{
        node::{Keyword, NodeId},
        words::Part,
    },
    BYTES_PER_STEP, Eval, Evaluation, Key, Mode, PARTS_PER_STEP,
};

/// The parts of a value that were looked at.
struct Evaluated<'a> {
    value: &'a Value,
    parts: Vec<bool>,
    /// Schemas that were asked already.
    asked: HashSet<NodeId>,
}

impl<'a> Evaluated<'a> {
    fn new(value: &'a Value, count: usize) -> Self {
        Self {
            value,
            parts: vec![false; count],
            asked: HashSet::new(),
        }
    }
}

impl<'a> Evaluation<'a> {
    pub(super) fn unevaluated_properties(
        &mut self,
        id: NodeId,
        keyword: &'a Keyword,
        node: NodeId,
        value: &'a Value,
        mode: Mode,
    ) -> Eval {
        let Value::Object(map) = value else {
            return Ok(true);
        };
        self.spend(map.len() as u64 / PARTS_PER_STEP)?;
        let mut seen = Evaluated::new(value, map.len());
        self.collect(id, &mut seen, true)?;
        let (mut holds, mut unexpected) = (true, Vec::new());
        for ((name, value), seen) in map.iter().zip(seen.parts) {
            if seen {
            } else if self.is_never(node) {
                unexpected.push(name.as_str());
            } else {
                holds &= self.validate_part(Key::Name(name), node, value, mode)?;
            }
        }
        if unexpected.is_empty() {
            return Ok(holds);
        }
        self.violate(keyword, Part::Names(&unexpected), value, mode)
    }

    pub(super) fn unevaluated_items(
        &mut self,
        id: NodeId,
        keyword: &'a Keyword,
        node: NodeId,
        value: &'a Value,
        mode: Mode,
    ) -> Eval {
        let Value::Array(items) = value else {
            return Ok(true);
        };
        self.spend(items.len() as u64 / PARTS_PER_STEP)?;
        let mut seen = Evaluated::new(value, items.len());
        self.collect(id, &mut seen, true)?;
        let (mut holds, mut unexpected) = (true, 0);
        for (index, item) in items.iter().enumerate() {
            if seen.parts[index] {
            } else if self.is_never(node) {
                unexpected += 1;
            } else {
                holds &= self.validate_part(Key::Index(index), node, item, mode)?;
            }
        }
        if unexpected == 0 {
            return Ok(holds);
        }
        self.violate(keyword, Part::Items(unexpected), value, mode)
    }

    /// Notes what a schema looks at. Of the schema that asks, its own `unevaluated…` is left out.
    fn collect(&mut self, id: NodeId, seen: &mut Evaluated<'a>, asks: bool) -> Eval<()> {
        let program = self.program;
        self.spend(program.nodes[id].cost)?;
        if !seen.asked.insert(id) {
            return Ok(());
        }
        for keyword in &program.nodes[id].keywords {
            match (keyword, seen.value) {
                (Keyword::UnevaluatedProperties(_), Value::Object(_))
                | (Keyword::UnevaluatedItems(_), Value::Array(_))
                    if !asks =>
                {
                    self.spend(seen.parts.len() as u64 / PARTS_PER_STEP)?;
                    seen.parts.fill(true);
                }
                (Keyword::Properties(_), Value::Object(map)) => {
                    self.collect_properties(keyword, map, seen)?;
                }
                (Keyword::Items { prefix, rest }, Value::Array(items)) => {
                    let end = rest.map_or(prefix.len(), |_| items.len());
                    let end = end.min(items.len());
                    self.spend(end as u64 / PARTS_PER_STEP)?;
                    seen.parts[..end].fill(true);
                }
                (Keyword::Contains { node, .. }, Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        seen.parts[index] |= self.validate(*node, item, Mode::Check)?;
                    }
                }
                (keyword, _) => self.collect_in_place(keyword, seen)?,
            }
        }
        Ok(())
    }

    fn collect_properties(
        &mut self,
        keyword: &'a Keyword,
        map: &'a Map<String, Value>,
        seen: &mut Evaluated<'a>,
    ) -> Eval<()> {
        let Keyword::Properties(properties) = keyword else {
            return Ok(());
        };
        for (place, name) in map.keys().enumerate() {
            self.spend(1 + name.len() as u64 / BYTES_PER_STEP)?;
            let mut is_seen =
                properties.additional.is_some() || properties.position.contains_key(name);
            for (pattern, _) in &properties.patterns {
                is_seen = is_seen || self.is_match(*pattern, name)?;
            }
            seen.parts[place] |= is_seen;
        }
        Ok(())
    }

    /// What the schemas look at that the value satisfies.
    fn collect_in_place(&mut self, keyword: &'a Keyword, seen: &mut Evaluated<'a>) -> Eval<()> {
        let value = seen.value;
        match keyword {
            Keyword::If {
                condition,
                then,
                otherwise,
            } => {
                let holds = self.validate(*condition, value, Mode::Check)?;
                if holds {
                    self.collect(*condition, seen, false)?;
                }
                let branch = if holds { then } else { otherwise };
                branch.map_or(Ok(()), |branch| self.collect(branch, seen, false))
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, node) in schemas {
                    if value.get(name).is_some() {
                        self.collect(*node, seen, false)?;
                    }
                }
                Ok(())
            }
            Keyword::Not(..) => Ok(()),
            keyword => {
                for node in keyword.in_place() {
                    if self.validate(node, value, Mode::Check)? {
                        self.collect(node, seen, false)?;
                    }
                }
                Ok(())
            }
        }
    }
}
