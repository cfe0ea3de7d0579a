//! Checks paths into the response of a `run` step against the response schema of its OpenAPI document. Documents are
//! less complete than real responses, so a path is reported only as a warning, and only if no alternative of the schema
//! has it.

use serde_json::Value;

use super::super::{
    draft::StepDraft,
    expression::{Reference, Segment},
    finding::{Finding, Rule},
    schema::{
        composed_schemas, find_ref_target, follow_references, member_schemas, non_null_types,
    },
};
use super::{
    commands::{OperationSignature, join_first_names},
    site::ExpressionSite,
};
use crate::limits;

/// The result of following a path through a response schema.
#[derive(Debug, PartialEq)]
pub(super) enum ResponsePathResult<'a> {
    /// The schema does not exclude the path.
    Possible,
    /// The segment at this index of the path is not declared; the declared names.
    Missing(usize, Vec<&'a str>),
    /// The value before the segment at this index is a list, and the segment is not a list index.
    NoIndex(usize),
    /// The path ends at one of these schemas.
    Resolved(Vec<&'a Value>),
}

impl<'a> ResponsePathResult<'a> {
    /// Follows `path` through the response schema of an operation. With `is_gathered`, the response is the list of all
    /// pages' items. `None` if the document has no response schema.
    pub(super) fn new(
        callable: &'a OperationSignature,
        is_gathered: bool,
        path: &[Segment],
    ) -> Option<Self> {
        let output = callable.output.as_ref()?;
        let mut walker = SchemaWalker::new(output);
        Some(match (is_gathered, path) {
            (false, path) => walker.follow_path(vec![output], path, 0),
            (true, []) => Self::Possible,
            (true, [first, rest @ ..]) => match (walker.list_item_schema(callable), first) {
                (None, _) => Self::Possible,
                (Some(_), Segment::Key(_)) => Self::NoIndex(0),
                (Some(item), Segment::Index(_)) => walker.follow_path(vec![item], rest, 1),
            },
        })
    }
}

/// The result of applying one segment to one schema.
enum SegmentResult<'a> {
    /// The schema says nothing about the segment.
    Unspecified,
    /// The schema allows any value there.
    Unrestricted,
    Schemas(Vec<&'a Value>),
    NoIndex,
    Missing(Vec<&'a str>),
}

/// Follows paths through a self-contained schema, whose references point into its own `$defs`.
pub(super) struct SchemaWalker<'a> {
    root_schema: &'a Value,
    /// The number of schemas that may still be visited. Nested alternatives grow exponentially.
    visits_left: usize,
}

impl<'a> SchemaWalker<'a> {
    pub(super) fn new(root_schema: &'a Value) -> Self {
        Self { root_schema, visits_left: limits::ANSWER_SCHEMAS_WALKED_MAX }
    }

    /// Counts one visited schema; false once the limit is reached.
    fn try_count_visit(&mut self) -> bool {
        let left = self.visits_left.checked_sub(1);
        self.visits_left = left.unwrap_or_default();
        left.is_some()
    }

    /// Follows a path that starts at any of these schemas.
    pub(super) fn follow_path(
        &mut self,
        schemas: Vec<&'a Value>,
        path: &[Segment],
        start_index: usize,
    ) -> ResponsePathResult<'a> {
        let mut current = schemas;
        for (index, segment) in path.iter().enumerate() {
            let steps = current.into_iter().map(|schema| self.apply_segment(schema, segment));
            match combine_any_of(steps.collect()) {
                SegmentResult::Unspecified | SegmentResult::Unrestricted => {
                    return ResponsePathResult::Possible;
                }
                SegmentResult::Schemas(next) => current = next,
                SegmentResult::NoIndex => return ResponsePathResult::NoIndex(start_index + index),
                SegmentResult::Missing(known) => {
                    return ResponsePathResult::Missing(start_index + index, known);
                }
            }
        }
        ResponsePathResult::Resolved(current)
    }

    /// Applies a segment to a schema with its `allOf` parts and references, and with its alternatives.
    fn apply_segment(&mut self, schema: &'a Value, segment: &Segment) -> SegmentResult<'a> {
        if !self.try_count_visit() {
            return SegmentResult::Unrestricted;
        }
        let mut results = vec![apply_to_own_keywords(schema, segment)];
        let parts = member_schemas(schema, "allOf");
        for part in find_ref_target(schema, self.root_schema).into_iter().chain(parts) {
            results.push(self.apply_segment(part, segment));
        }
        for choice in ["anyOf", "oneOf"] {
            let choices = member_schemas(schema, choice);
            if !choices.is_empty() {
                let steps = choices.iter().map(|one| self.apply_segment(one, segment));
                results.push(combine_any_of(steps.collect()));
            }
        }
        combine_all_of(results)
    }

    /// The schema of the items of the list in a response: at the path known for the operation, else the response itself
    /// or its only list property. Pagination gathers its items from the same place.
    pub(super) fn list_item_schema(
        &mut self,
        callable: &'a OperationSignature,
    ) -> Option<&'a Value> {
        let answer = callable.output.as_ref()?;
        let path = callable.items_path.as_deref();
        let items = path.and_then(|path| self.schema_at_path(answer, path)?.get("items"));
        items.or_else(|| self.find_only_list(answer))
    }

    fn find_only_list(&self, answer: &'a Value) -> Option<&'a Value> {
        let answer = follow_references(answer, self.root_schema);
        if let Some(items) = answer.get("items") {
            return Some(items);
        }
        let properties = answer.get("properties")?.as_object()?.values();
        let mut lists =
            properties.filter_map(|value| follow_references(value, self.root_schema).get("items"));
        lists.next().filter(|_| lists.next().is_none())
    }

    /// The schema at a dotted path of property names; an empty path means the schema itself.
    fn schema_at_path(&mut self, schema: &'a Value, dotted: &str) -> Option<&'a Value> {
        let mut names = dotted.split('.').filter(|name| !name.is_empty());
        let at = names.try_fold(schema, |at, name| {
            let mut properties = self.declared_properties(at).into_iter();
            let property = properties.find(|(known, _)| *known == name);
            property.map(|(_, value)| value)
        });
        at.map(|at| follow_references(at, self.root_schema))
    }

    /// The properties that a schema declares, including those of its parts and alternatives.
    pub(super) fn declared_properties(&mut self, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        if !self.try_count_visit() {
            return Vec::new();
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        let mut declared: Vec<_> = properties.map(|(name, value)| (name.as_str(), value)).collect();
        for part in composed_schemas(schema, self.root_schema) {
            declared.extend(self.declared_properties(part));
        }
        declared
    }

    /// The types of a value other than null; empty if any type is allowed.
    pub(super) fn non_null_types(&mut self, schema: &'a Value) -> Vec<&'a str> {
        if !self.try_count_visit() {
            return Vec::new();
        }
        let types = non_null_types(schema);
        if !types.is_empty() {
            return types;
        }
        let parts = composed_schemas(schema, self.root_schema);
        parts.flat_map(|part| self.non_null_types(part)).collect()
    }
}

/// Applies a segment to the schema's own keywords, without following references.
fn apply_to_own_keywords<'a>(schema: &'a Value, segment: &Segment) -> SegmentResult<'a> {
    let key = segment.as_key();
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_null = schema.get("type").is_some_and(|name| name == "null");
    match (non_null_types(schema).as_slice(), schema.get("items")) {
        ([], _) if is_null => SegmentResult::Missing(Vec::new()),
        ([], None) if properties.is_none() => SegmentResult::Unspecified,
        (["array"], items) | ([], items @ Some(_)) if properties.is_none() => match segment {
            Segment::Index(_) => items
                .map_or(SegmentResult::Unrestricted, |items| SegmentResult::Schemas(vec![items])),
            Segment::Key(_) => SegmentResult::NoIndex,
        },
        ([] | ["object"], _) => match properties.and_then(|all| all.get(&*key)) {
            Some(property) => SegmentResult::Schemas(vec![property]),
            None => undeclared_property_result(schema),
        },
        ([_], _) => SegmentResult::Missing(Vec::new()),
        _ => SegmentResult::Unrestricted,
    }
}

/// The result for a property that an object schema does not declare. A schema that declares properties and says nothing
/// about others is treated as closed, because documents rarely say `additionalProperties: false`.
fn undeclared_property_result(schema: &Value) -> SegmentResult<'_> {
    let properties = schema.get("properties").and_then(Value::as_object);
    match (schema.get("additionalProperties"), properties) {
        _ if schema.get("patternProperties").is_some() => SegmentResult::Unrestricted,
        (None | Some(Value::Bool(false)), Some(properties)) if !properties.is_empty() => {
            SegmentResult::Missing(properties.keys().map(String::as_str).collect())
        }
        (Some(others @ Value::Object(_)), _) => SegmentResult::Schemas(vec![others]),
        (None, _) => SegmentResult::Unspecified,
        _ => SegmentResult::Unrestricted,
    }
}

/// Combines alternatives (`anyOf`): the path exists if one of them has it, and is possible if one of them says nothing.
fn combine_any_of(results: Vec<SegmentResult<'_>>) -> SegmentResult<'_> {
    let (mut next, mut known, mut is_list) = (Vec::new(), Vec::new(), false);
    for step in results {
        match step {
            SegmentResult::Unspecified | SegmentResult::Unrestricted => {
                return SegmentResult::Unrestricted;
            }
            SegmentResult::Schemas(more) => next.extend(more),
            SegmentResult::Missing(more) => known.extend(more),
            SegmentResult::NoIndex => is_list = true,
        }
    }
    match (next.is_empty(), is_list) {
        (false, _) => SegmentResult::Schemas(next),
        (true, true) => SegmentResult::NoIndex,
        (true, false) => SegmentResult::Missing(known),
    }
}

/// Combines the parts of one schema (`allOf`): a property that one part declares exists, even if other parts do not
/// declare it.
fn combine_all_of(said: Vec<SegmentResult<'_>>) -> SegmentResult<'_> {
    let results: Vec<_> =
        said.into_iter().filter(|step| !matches!(step, SegmentResult::Unspecified)).collect();
    let is_open = |step: &SegmentResult<'_>| matches!(step, SegmentResult::Unrestricted);
    let has_next = results.iter().any(|step| matches!(step, SegmentResult::Schemas(_)));
    if results.is_empty() {
        SegmentResult::Unspecified
    } else if !has_next && results.iter().any(is_open) {
        SegmentResult::Unrestricted
    } else {
        combine_any_of(results.into_iter().filter(|step| !is_open(step)).collect())
    }
}

/// The warning for a path that the response schema does not have.
pub(super) fn undeclared_path_finding(
    site: &ExpressionSite<'_>,
    reference: &Reference,
    step: &StepDraft,
    answer: &ResponsePathResult<'_>,
) -> Option<Finding> {
    let operation = step.find_field("run")?.value.as_text()?;
    match answer {
        ResponsePathResult::Possible | ResponsePathResult::Resolved(_) => None,
        // The author provides a default value, and so knows that the value may be missing.
        ResponsePathResult::Missing(..) if reference.is_guarded => None,
        ResponsePathResult::Missing(place, known) => {
            let name = segment_below_response(reference, step, *place)?.as_key().into_owned();
            let message = format!(
                "`{reference}` is hardly there: the document names no `{name}` in the answer of `{operation}`"
            );
            let rule = Rule::StepTemplateOutputPathMissing;
            let hint = match known.as_slice() {
                [] => "nothing stands below it there".to_owned(),
                known => format!("there are {}", join_first_names(known)),
            };
            let finding = site.reference_finding(rule, reference, message).suggest(hint);
            Some(site.suggest_name(&[], finding, reference, &name, known.iter().copied()))
        }
        ResponsePathResult::NoIndex(place) => {
            let name = segment_below_response(reference, step, *place)?.as_key().into_owned();
            let message = format!(
                "`{reference}` leads through a list: `{operation}` answers several, each of which may have `{name}`"
            );
            let rule = Rule::StepTemplateArrayOutputMissingIndex;
            let finding = site.reference_finding(rule, reference, message);
            let is_list = *place == 0 && step.find_field("paginate").is_some();
            let hint = match &step.id {
                Some(id) if is_list => format!(
                    "with `paginate` the output is the list of all items: write `steps.{}`",
                    id.value
                ),
                _ => format!(
                    "say which one is meant: `[0].{name}`, or go through all with `foreach`"
                ),
            };
            Some(finding.suggest(hint))
        }
    }
}

/// The segment at index `place` of the path below the response.
fn segment_below_response<'r>(
    reference: &'r Reference,
    step: &StepDraft,
    place: usize,
) -> Option<&'r Segment> {
    // The step id precedes the path, and for a `foreach` the index of an item.
    let prefix_len = if step.id.is_some() { 1 } else { 2 };
    reference.path.get(prefix_len + place)
}
