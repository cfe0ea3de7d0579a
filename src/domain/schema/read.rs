//! Compiles JSON to a [`SchemaProgram`]. Faulty parts are reported and left out of the program, so one pass finds all
//! faults.

mod build;
mod form;
mod resource;

use std::collections::HashMap;

use serde_json::Value;

use self::resource::SchemaResources;
use super::{
    PatternQuota, SchemaFinding,
    keyword::DraftFamily,
    node::{Keyword, NodeId, PatternId, SchemaNode, SchemaProgram},
    pattern::RegexPattern,
};
use crate::{finding::Rule, limits};

/// A subschema of the document.
#[derive(Clone)]
struct Subschema<'a> {
    value: &'a Value,
    pointer: String,
    /// The number of its resource.
    resource: usize,
}

struct SchemaReader<'a> {
    subschemas: Vec<Subschema<'a>>,
    /// The number of each subschema by the address of its value, which does not move.
    ids: HashMap<usize, NodeId>,
    resources: SchemaResources<'a>,
    draft: DraftFamily,
    shared_nodes: Vec<NodeId>,
    patterns: Vec<RegexPattern>,
    pattern_ids: HashMap<&'a str, Option<PatternId>>,
    quota: &'a mut PatternQuota,
    faults: Vec<SchemaFinding>,
}

/// Reads a schema.
pub(super) fn read_schema(
    document: &Value,
    quota: &mut PatternQuota,
) -> (SchemaProgram, Vec<SchemaFinding>) {
    let mut reader = SchemaReader {
        subschemas: Vec::new(),
        ids: HashMap::new(),
        resources: SchemaResources::from_document(document),
        draft: DraftFamily::Year2020,
        shared_nodes: Vec::new(),
        patterns: Vec::new(),
        pattern_ids: HashMap::new(),
        quota,
        faults: Vec::new(),
    };
    reader.read_draft(document);
    reader.add_subschema(document, String::new(), 0);
    let mut nodes = Vec::new();
    let mut checked_count = 0;
    // A reference may add a subschema that no keyword contains, and that must be checked too.
    while nodes.len() < reader.subschemas.len() {
        while checked_count < reader.subschemas.len() {
            reader.check_form(checked_count);
            checked_count += 1;
        }
        let node = reader.compile_node(nodes.len());
        nodes.push(node);
    }
    let mut shared = std::mem::take(&mut reader.shared_nodes);
    shared.extend(revisited_nodes(&nodes));
    for id in shared {
        nodes[id].is_shared = true;
    }
    reader.check_reference_depth(&nodes);
    let SchemaReader { patterns, faults, .. } = reader;
    (SchemaProgram { nodes, patterns }, faults)
}

/// The nodes that `unevaluated…` may evaluate again for one value.
fn revisited_nodes(nodes: &[SchemaNode]) -> Vec<NodeId> {
    let keywords = || nodes.iter().flat_map(|node| &node.keywords);
    if !keywords().any(Keyword::is_unevaluated) {
        return Vec::new();
    }
    keywords().flat_map(Keyword::revisited_subschemas).collect()
}

fn address_of_value(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

fn join_pointer(pointer: &str, part: &str) -> String {
    format!("{pointer}/{}", part.replace('~', "~0").replace('/', "~1"))
}

impl<'a> SchemaReader<'a> {
    fn add_fault(
        &mut self,
        rule: Rule,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut SchemaFinding {
        self.faults.push(SchemaFinding {
            pointer: pointer.to_owned(),
            key: None,
            rule,
            message: message.into(),
            hint: None,
            replacement: None,
        });
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    /// Adds a fault of a value that is no schema, or one that cannot be evaluated.
    fn add_invalid_fault(
        &mut self,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut SchemaFinding {
        self.add_fault(Rule::InvalidSchema, pointer, message)
    }

    fn read_draft(&mut self, document: &Value) {
        let Some(uri) = document.get("$schema").and_then(Value::as_str) else {
            return;
        };
        if let Some(draft) = DraftFamily::from_uri(uri) {
            self.draft = draft;
            return;
        }
        let message = format!("`{uri}` is no draft of JSON Schema that is evaluated");
        let hint = "leave `$schema` out, or write https://json-schema.org/draft/2020-12/schema";
        self.add_invalid_fault("/$schema", message).hint = Some(hint.into());
    }

    fn add_subschema(&mut self, value: &'a Value, pointer: String, resource: usize) -> NodeId {
        let new_id = self.subschemas.len();
        let id = *self.ids.entry(address_of_value(value)).or_insert(new_id);
        if id == new_id {
            self.subschemas.push(Subschema { value, pointer, resource });
        }
        id
    }

    /// Finds cycles and too long chains of schemas that apply to the same value.
    fn check_reference_depth(&mut self, nodes: &[SchemaNode]) {
        /// Marks a node whose depth is being computed.
        const DEPTH_PENDING: usize = usize::MAX;
        let max_depth = limits::SCHEMA_CHAIN_MAX;
        // For each node the length of the longest chain of schemas that apply to the same value.
        let mut depths = vec![0; nodes.len()];
        for first in 0..nodes.len() {
            let mut stack = vec![first];
            while let Some(id) = stack.pop() {
                let targets = || nodes[id].keywords.iter().flat_map(Keyword::in_place_subschemas);
                if depths[id] == DEPTH_PENDING {
                    depths[id] = 1 + targets().map(|target| depths[target]).max().unwrap_or(0);
                } else if depths[id] == 0 {
                    depths[id] = DEPTH_PENDING;
                    stack.push(id);
                    if targets().any(|target| depths[target] == DEPTH_PENDING) {
                        return self.add_cycle_fault(id);
                    }
                    stack.extend(targets().filter(|target| depths[*target] == 0));
                }
            }
            if depths[first] > max_depth {
                let pointer = self.subschemas[first].pointer.clone();
                let message = format!(
                    "more than {max_depth} schemas lie inside each other for one value, references included"
                );
                self.add_fault(Rule::LimitExceeded, &pointer, message);
                return;
            }
        }
    }

    fn add_cycle_fault(&mut self, id: NodeId) {
        let pointer = self.subschemas[id].pointer.clone();
        let message = "the schema refers to itself for the same value, so it never comes to an end";
        let hint = "refer to it from within `properties` or `items`";
        self.add_invalid_fault(&pointer, message).hint = Some(hint.into());
    }
}
