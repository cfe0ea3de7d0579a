//! Validates a value against a compiled schema within a budget. Each application of a schema costs steps, and further work
//! (searching texts, hashing names, comparing items) is charged beforehand; when no steps are left, the evaluation stops.
//!
//! No schema explodes. Results of schemas that one value may meet more than once, by references or by `unevaluated…`, are
//! remembered, so each is evaluated at most twice for each value: once to check it, once to report its violations. So an
//! evaluation costs schemas × values, with nested `unevaluated…` at most schemas² × values; it never doubles with each level.
//! That is why no shape of schema is refused for its cost.

#[cfg(test)]
mod memory;
mod unevaluated;

use std::collections::HashMap;

use regex_automata::hybrid::dfa::Cache;
use serde_json::{Map, Value};

use super::{
    equal,
    node::{CountLimit, CountUnit, Keyword, NodeId, PatternId, PropertyKeywords, SchemaProgram},
    words::{self, ViolatedPart, keyword_violation},
};
use crate::{error::Violation, limits, truncate::truncate_to_chars};

/// Why an evaluation stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvaluationStop {
    /// The budget is spent.
    BudgetExhausted,
    /// There are as many violations as may be reported.
    ViolationLimitReached,
}

type EvaluationResult<T = bool> = Result<T, EvaluationStop>;

/// A running evaluation.
pub(super) struct Evaluation<'a> {
    program: &'a SchemaProgram,
    /// The name of the whole value in messages.
    name: &'a str,
    /// The steps that are left.
    steps_left: u64,
    depth: usize,
    /// Results by schema and by the address of the value, which does not move.
    cached_results: HashMap<(NodeId, usize), CachedResult>,
    path: Vec<PathKey<'a>>,
    caches: HashMap<PatternId, Cache>,
    pub(super) violations: Vec<Violation>,
    /// Whether several schemas of a `oneOf` may be valid.
    is_lenient: bool,
    /// Whether several schemas of a `oneOf` were valid.
    pub(super) has_multiple_matches: bool,
}

/// The remembered result of a schema for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CachedResult {
    Valid,
    Invalid,
    /// The value is invalid, and all its violations were reported.
    Reported,
}

/// A step of the path to a value.
#[derive(Clone, Copy, Debug)]
enum PathKey<'a> {
    Name(&'a str),
    Index(usize),
}

/// Whether all violations are reported, or the first one ends the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportMode {
    Report,
    Check,
}

/// The bytes of a text that cost one step if they are only traversed.
const BYTES_PER_STEP: u64 = 256;
/// The parts of a value that cost one step if they are only counted or marked.
const PARTS_PER_STEP: u64 = 8;

impl<'a> Evaluation<'a> {
    /// An evaluation with a budget of `steps`.
    pub(super) fn new(program: &'a SchemaProgram, name: &'a str, steps: u64) -> Self {
        Self {
            program,
            name,
            steps_left: steps,
            depth: 0,
            cached_results: HashMap::new(),
            path: Vec::new(),
            caches: HashMap::new(),
            violations: Vec::new(),
            is_lenient: false,
            has_multiple_matches: false,
        }
    }

    /// Makes the evaluation lenient: several schemas of a `oneOf` may be valid.
    pub(super) fn make_lenient(self) -> Self {
        Self { is_lenient: true, ..self }
    }

    /// Validates a value against the whole schema, and leaves its violations in `found`.
    pub(super) fn run(&mut self, value: &'a Value) -> EvaluationResult {
        self.validate(0, value, ReportMode::Report)
    }

    fn spend_steps(&mut self, steps: u64) -> EvaluationResult<()> {
        let remaining = self.steps_left.checked_sub(steps);
        self.steps_left = remaining.unwrap_or(0);
        remaining.map(drop).ok_or(EvaluationStop::BudgetExhausted)
    }

    fn validate(&mut self, id: NodeId, value: &'a Value, mode: ReportMode) -> EvaluationResult {
        let node = &self.program.nodes[id];
        self.spend_steps(node.cost)?;
        let key = (id, std::ptr::from_ref(value) as usize);
        if node.is_shared {
            match self.cached_results.get(&key) {
                Some(CachedResult::Valid) => return Ok(true),
                Some(CachedResult::Invalid) if mode == ReportMode::Check => return Ok(false),
                Some(CachedResult::Reported) => return Ok(false),
                _ => {}
            }
        }
        if self.depth >= limits::SCHEMA_DEPTH_MAX {
            return Err(EvaluationStop::BudgetExhausted);
        }
        self.depth += 1;
        let is_valid = self.validate_keywords(id, value, mode)?;
        self.depth -= 1;
        if node.is_shared && self.cached_results.len() < limits::SCHEMA_KNOWN_MAX {
            let cached = match (is_valid, mode) {
                (true, _) => CachedResult::Valid,
                (false, ReportMode::Report) => CachedResult::Reported,
                (false, ReportMode::Check) => CachedResult::Invalid,
            };
            self.cached_results.insert(key, cached);
        }
        Ok(is_valid)
    }

    fn validate_keywords(
        &mut self,
        id: NodeId,
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let program = self.program;
        let mut is_valid = true;
        for keyword in &program.nodes[id].keywords {
            is_valid &= match keyword {
                Keyword::Properties(properties) => {
                    self.validate_properties(keyword, properties, value, mode)?
                }
                Keyword::Items { prefix, rest } => {
                    self.validate_items(prefix, *rest, value, mode)?
                }
                Keyword::AllOf(nodes) => self.validate_all(nodes, value, mode)?,
                Keyword::Reference(node) => self.validate(*node, value, mode)?,
                Keyword::If { condition, then, otherwise } => {
                    let is_condition_met = self.validate(*condition, value, ReportMode::Check)?;
                    let branch = if is_condition_met { then } else { otherwise };
                    self.validate_all(branch.as_slice(), value, mode)?
                }
                Keyword::DependentSchemas(schemas) => {
                    let present = schemas.iter().filter(|(name, _)| value.get(name).is_some());
                    let present: Vec<_> = present.map(|(_, node)| *node).collect();
                    self.validate_all(&present, value, mode)?
                }
                Keyword::Required(names) => self.check_required(keyword, names, value, mode)?,
                Keyword::DependentRequired(lists) => {
                    let mut is_valid = true;
                    for (_, names) in lists.iter().filter(|(name, _)| value.get(name).is_some()) {
                        is_valid &= self.check_required(keyword, names, value, mode)?;
                    }
                    is_valid
                }
                Keyword::UnevaluatedProperties(node) | Keyword::UnevaluatedItems(node) => {
                    self.validate_unevaluated(id, keyword, *node, value, mode)?
                }
                keyword => match self.find_broken_part(keyword, value)? {
                    None => true,
                    Some(ViolatedPart::Whole)
                        if mode == ReportMode::Report && keyword.is_choice() =>
                    {
                        self.report_choice_violation(id, keyword, value)?
                    }
                    Some(part) => self.report_violation(keyword, part, value, mode)?,
                },
            };
            if !is_valid && mode == ReportMode::Check {
                return Ok(false);
            }
        }
        Ok(is_valid)
    }

    /// Validates the value against all of these schemas.
    fn validate_all(
        &mut self,
        nodes: &[NodeId],
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let mut is_valid = true;
        for node in nodes {
            is_valid &= self.validate(*node, value, mode)?;
            if !is_valid && mode == ReportMode::Check {
                break;
            }
        }
        Ok(is_valid)
    }

    /// Checks that the value, if it is an object, has all properties of these names.
    fn check_required(
        &mut self,
        keyword: &Keyword,
        names: &[String],
        value: &Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let Value::Object(map) = value else {
            return Ok(true);
        };
        let mut is_valid = true;
        for name in names.iter().filter(|name| !map.contains_key(*name)) {
            is_valid = self.report_violation(keyword, ViolatedPart::Property(name), value, mode)?;
        }
        Ok(is_valid)
    }

    /// Reports the violations of the alternative that the discriminator of the value selects. If it selects none, or if
    /// there is no discriminator, reports that no alternative is valid.
    fn report_choice_violation(
        &mut self,
        id: NodeId,
        keyword: &'a Keyword,
        value: &'a Value,
    ) -> EvaluationResult {
        let program = self.program;
        let mut keywords = program.nodes[id].keywords.iter();
        let discriminator = keywords.find_map(|keyword| match keyword {
            Keyword::Discriminator(discriminator) => Some(&**discriminator),
            _ => None,
        });
        let discriminator = discriminator
            .and_then(|told| Some((told, value.as_object()?.get_key_value(&told.property)?)));
        let Some((discriminator, (name, property_value))) = discriminator else {
            return self.report_violation(keyword, ViolatedPart::Whole, value, ReportMode::Report);
        };
        let option = discriminator.options.iter().find(|(option, _)| *property_value == **option);
        let Some((_, node)) = option else {
            self.path.push(PathKey::Name(name));
            let is_valid = self.report_violation(
                &discriminator.values,
                ViolatedPart::Whole,
                property_value,
                ReportMode::Report,
            )?;
            self.path.pop();
            return Ok(is_valid);
        };
        let count_before = self.violations.len();
        self.validate(*node, value, ReportMode::Report)?;
        if self.violations.len() == count_before {
            // The violations were reported before, or the alternative is valid and another part of the schema is not.
            return self.report_violation(keyword, ViolatedPart::Whole, value, ReportMode::Report);
        }
        Ok(false)
    }

    /// Reports a violation if the mode asks for it. Always returns `Ok(false)`, that the value is invalid.
    fn report_violation(
        &mut self,
        keyword: &Keyword,
        part: ViolatedPart<'_>,
        value: &Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        if mode == ReportMode::Report {
            self.spend_steps(words::count_violation_steps(keyword))?;
            let path = self.current_pointer();
            let quoted = format!("`{path}`");
            let name = if path.is_empty() { self.name } else { &quoted };
            let violation = keyword_violation(keyword, part, (path, name), value);
            self.violations.push(violation);
            if self.violations.len() >= limits::VIOLATIONS_MAX {
                return Err(EvaluationStop::ViolationLimitReached);
            }
        }
        Ok(false)
    }

    /// The JSON pointer of the current value, shortened as in violations.
    fn current_pointer(&self) -> String {
        let max_chars = limits::VIOLATION_PART_CHARS_MAX;
        let mut pointer = String::new();
        for key in &self.path {
            pointer.push('/');
            match key {
                PathKey::Name(name) => {
                    let name = truncate_to_chars(name, max_chars);
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                PathKey::Index(index) => pointer.push_str(&index.to_string()),
            }
            // A character has at most four bytes.
            if pointer.len() > 4 * max_chars {
                break;
            }
        }
        truncate_to_chars(&pointer, max_chars).into_owned()
    }

    fn validate_part(
        &mut self,
        key: PathKey<'a>,
        node: NodeId,
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        self.path.push(key);
        let is_valid = self.validate(node, value, mode)?;
        self.path.pop();
        Ok(is_valid)
    }

    /// The part of a keyword that the value violates, for keywords about the value itself or about its schemas together.
    fn find_broken_part(
        &mut self,
        keyword: &'a Keyword,
        value: &'a Value,
    ) -> EvaluationResult<Option<ViolatedPart<'static>>> {
        let violated_if = |broken: bool| broken.then_some(ViolatedPart::Whole);
        Ok(match (keyword, value) {
            (Keyword::FalseSchema, _) => violated_if(true),
            (Keyword::Type(types), value) => violated_if(!types.has_type_of(value)),
            (Keyword::Const(one), value) => violated_if(!equal::is_equal(one, value)),
            (Keyword::Enum(options), value) => {
                violated_if(!options.iter().any(|option| equal::is_equal(option, value)))
            }
            (Keyword::Bound(bound, limit), Value::Number(number)) => {
                violated_if((bound.2)(equal::compare_numbers(number, limit)))
            }
            (Keyword::MultipleOf(of), Value::Number(number)) => {
                violated_if(!equal::is_multiple(number, of))
            }
            (Keyword::CountBound(amount, limit), value) => {
                violated_if(self.is_out_of_range(amount, *limit, value)?)
            }
            (Keyword::Pattern(pattern, _), Value::String(text)) => {
                violated_if(!self.is_pattern_match(*pattern, text)?)
            }
            (Keyword::Format(format), Value::String(text)) => {
                self.spend_steps(format.validation_steps(text))?;
                violated_if(!format.is_valid(text))
            }
            (Keyword::UniqueItems, Value::Array(items)) => {
                violated_if(!self.are_items_unique(items)?)
            }
            (Keyword::PropertyNames(node), Value::Object(map)) => {
                self.check_property_names(*node, map)?
            }
            (
                Keyword::Contains { node, min_count: least, max_count: most },
                Value::Array(items),
            ) => {
                let mut count = 0;
                for item in items {
                    count += u64::from(self.validate(*node, item, ReportMode::Check)?);
                }
                match most {
                    Some(most) if count > *most => Some(ViolatedPart::TooMany),
                    _ => violated_if(count < *least),
                }
            }
            (Keyword::AnyOf(nodes), value) => violated_if(self.count_valid(nodes, value, 1)? == 0),
            (Keyword::OneOf(nodes), value) => match self.count_valid(nodes, value, 2)? {
                0 => Some(ViolatedPart::Whole),
                1 => None,
                _ if self.is_lenient => {
                    self.has_multiple_matches = true;
                    None
                }
                _ => Some(ViolatedPart::TooMany),
            },
            (Keyword::Not(node, _), value) => {
                violated_if(self.validate(*node, value, ReportMode::Check)?)
            }
            _ => None,
        })
    }

    /// The number of schemas for which the value is valid; counting stops at `stop_at`.
    fn count_valid(
        &mut self,
        nodes: &[NodeId],
        value: &'a Value,
        stop_at: usize,
    ) -> EvaluationResult<usize> {
        let mut count = 0;
        for node in nodes {
            count += usize::from(self.validate(*node, value, ReportMode::Check)?);
            if count == stop_at {
                break;
            }
        }
        Ok(count)
    }

    fn is_out_of_range(
        &mut self,
        amount: &CountLimit,
        limit: u64,
        value: &Value,
    ) -> EvaluationResult {
        let (_, _, unit, violating_ordering) = amount;
        let count = match (unit, value) {
            (CountUnit::Character, Value::String(text)) => {
                self.spend_steps(text.len() as u64 / BYTES_PER_STEP)?;
                text.chars().count()
            }
            (CountUnit::Item, Value::Array(items)) => items.len(),
            (CountUnit::Property, Value::Object(map)) => map.len(),
            _ => return Ok(false),
        };
        Ok((count as u64).cmp(&limit) == *violating_ordering)
    }

    fn is_pattern_match(&mut self, id: PatternId, text: &str) -> EvaluationResult {
        let pattern = &self.program.patterns[id];
        let cache = self.caches.entry(id).or_insert_with(|| pattern.new_cache());
        match pattern.is_match(cache, text, self.steps_left) {
            Ok((found, steps)) => {
                // The search is done already; if its cost exceeds the budget the evaluation stops here.
                self.spend_steps(steps)?;
                Ok(found)
            }
            Err(steps) => self.spend_steps(steps).map(|()| false),
        }
    }

    fn are_items_unique(&mut self, items: &'a [Value]) -> EvaluationResult {
        let mut hashed_items = Vec::with_capacity(items.len());
        for item in items {
            self.spend_steps(1 + equal::traversal_steps(item))?;
            hashed_items.push((equal::hash_value(item), item));
        }
        hashed_items.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        // Different values may have the same fingerprint, so values with the same one are compared in pairs.
        for group in hashed_items.chunk_by(|(a, _), (b, _)| a == b) {
            for (index, (_, item)) in group.iter().enumerate().skip(1) {
                for (_, other) in &group[..index] {
                    self.spend_steps(equal::traversal_steps(item))?;
                    if equal::is_equal(item, other) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn check_property_names(
        &mut self,
        node: NodeId,
        map: &'a Map<String, Value>,
    ) -> EvaluationResult<Option<ViolatedPart<'static>>> {
        for name in map.keys() {
            self.spend_steps(name.len() as u64 / BYTES_PER_STEP)?;
            let text = Value::String(name.clone());
            // An evaluation of its own, because results are remembered by address and this text is dropped.
            let mut inner = Evaluation::new(self.program, self.name, self.steps_left);
            inner.depth = self.depth;
            inner.is_lenient = self.is_lenient;
            inner.caches = std::mem::take(&mut self.caches);
            let is_valid = inner.validate(node, &text, ReportMode::Check);
            self.steps_left = inner.steps_left;
            self.caches = inner.caches;
            if !is_valid? {
                return Ok(Some(ViolatedPart::Whole));
            }
        }
        Ok(None)
    }

    fn validate_properties(
        &mut self,
        keyword: &'a Keyword,
        properties: &'a PropertyKeywords,
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let Value::Object(map) = value else {
            return Ok(true);
        };
        let mut is_valid = true;
        for (name, node) in &properties.named {
            if let Some((name, value)) = map.get_key_value(name) {
                is_valid &= self.validate_part(PathKey::Name(name), *node, value, mode)?;
                if !is_valid && mode == ReportMode::Check {
                    return Ok(false);
                }
            }
        }
        if properties.patterns.is_empty() && properties.additional.is_none() {
            return Ok(is_valid);
        }
        let mut unexpected = Vec::new();
        for (name, value) in map {
            self.spend_steps(1 + name.len() as u64 / BYTES_PER_STEP)?;
            let mut is_matched = properties.index_by_name.contains_key(name);
            for (pattern, node) in &properties.patterns {
                if self.is_pattern_match(*pattern, name)? {
                    is_matched = true;
                    is_valid &= self.validate_part(PathKey::Name(name), *node, value, mode)?;
                }
            }
            match properties.additional {
                Some(node) if !is_matched && self.is_false_schema(node) => {
                    unexpected.push(name.as_str());
                }
                Some(node) if !is_matched => {
                    is_valid &= self.validate_part(PathKey::Name(name), node, value, mode)?;
                }
                _ => {}
            }
            if (!is_valid || !unexpected.is_empty()) && mode == ReportMode::Check {
                return Ok(false);
            }
        }
        if unexpected.is_empty() {
            return Ok(is_valid);
        }
        self.report_violation(keyword, ViolatedPart::Names(&unexpected), value, mode)
    }

    fn is_false_schema(&self, node: NodeId) -> bool {
        matches!(self.program.nodes[node].keywords[..], [Keyword::FalseSchema])
    }

    fn validate_items(
        &mut self,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        value: &'a Value,
        mode: ReportMode,
    ) -> EvaluationResult {
        let Value::Array(items) = value else {
            return Ok(true);
        };
        let mut is_valid = true;
        for (index, item) in items.iter().enumerate() {
            let Some(node) = prefix.get(index).copied().or(rest) else {
                break;
            };
            is_valid &= self.validate_part(PathKey::Index(index), node, item, mode)?;
            if !is_valid && mode == ReportMode::Check {
                return Ok(false);
            }
        }
        Ok(is_valid)
    }
}
