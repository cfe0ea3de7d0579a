//! Generates the JSON Schemas of definition files from the grammar tables that the checker uses.

use serde_json::{Map, Value, json};

use midex_domain::{
    draft::WorkflowFormat,
    error::FAILED_HTTP_STATUSES,
    grammar::{self, IdKind, MappingKey, MappingShape, PERSONA_SHAPE, STEP_SHAPE, ValueShape},
    input::DefaultFrom,
    limits,
};

/// The start of a template, for values where `${{ … }}` is allowed.
const TEMPLATE_PATTERN: &str = r"\$\{\{";
/// The pattern of step ids and input names.
const IDENTIFIER_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_-]*$";
/// Unicode white space, for use inside a character class. Written out, since `\s` means a different set in each regular
/// expression dialect.
const WHITE_SPACE_CLASS: &str =
    r"\t\n\u000b\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";
/// Control characters, inside a character class.
const CONTROL_CHARS_CLASS: &str = r"\u0000-\u001f\u007f-\u009f";

/// The schema of a workflow, including the `$defs` that it refers to.
pub(super) fn workflow_schema(form: WorkflowFormat) -> Value {
    let record = form.workflow_shape();
    let mut schema = record_schema(record);
    let mut definitions = Map::from_iter([("stepId".to_owned(), step_id_schema())]);
    for key in record.keys {
        match key.shape {
            ValueShape::Steps(step) => {
                drop(definitions.insert("step".into(), record_schema(step).into()));
            }
            ValueShape::Inputs(input) => {
                drop(definitions.insert("input".into(), record_schema(input).into()));
            }
            _ => {}
        }
    }
    if form == WorkflowFormat::Manifest {
        definitions.insert("each".into(), foreach_body_schema().into());
    }
    schema.insert("$defs".into(), Value::Object(definitions));
    Value::Object(schema)
}

/// The schema of an agent.
pub(super) fn persona_schema() -> Value {
    Value::Object(record_schema(&PERSONA_SHAPE))
}

/// The schema of a mapping. Planned keys are left out, since the reader refuses them.
fn record_schema(record: &MappingShape) -> Map<String, Value> {
    let keys: Vec<_> = record.keys.iter().filter(|key| !key.is_planned()).collect();
    let mut schema = mapping_schema(&keys, record.is_open, key_schema);
    let mut rules = match record.label {
        what if what == STEP_SHAPE.label => build_step_rules(&keys),
        what if what == grammar::DEFAULT_SHAPE.label => default_rules(),
        what if what == grammar::INSERT_ITEM_SHAPE.label => {
            build_exactly_one_rule(&grammar::INSERT_PLACE_KEYS)
        }
        _ if record.exactly_one => {
            let alternatives = keys.iter().filter(|key| key.required_key.is_none());
            build_exactly_one_rule(&alternatives.map(|key| key.name).collect::<Vec<_>>())
        }
        _ => Vec::new(),
    };
    rules.extend(keys.iter().flat_map(|key| build_relation_rules(key)));
    if !rules.is_empty() {
        schema.insert("allOf".into(), Value::Array(rules));
    }
    schema
}

/// The rules that relate a key to others: a key that may replace it, and a key that it requires.
fn build_relation_rules(key: &MappingKey) -> Vec<Value> {
    let required = |name: &str| json!({ "required": [name] });
    let unless_rule =
        key.alternative_key.map(|other| json!({ "anyOf": [required(key.name), required(other)] }));
    let requires_rule = { key.required_key }
        .map(|other| json!({ "if": required(key.name), "then": required(other) }));
    unless_rule.into_iter().chain(requires_rule).collect()
}

/// The rule that exactly one of these keys is present.
fn build_exactly_one_rule(keys: &[&str]) -> Vec<Value> {
    let required: Vec<_> = keys.iter().map(|key| json!({ "required": [key] })).collect();
    vec![json!({ "oneOf": required })]
}

/// The schema of the `do` of a `foreach`: a step with fewer keys.
fn foreach_body_schema() -> Map<String, Value> {
    let keys = STEP_SHAPE.keys.iter();
    let keys = keys.filter(|key| !key.is_planned() && key.foreach_advice.is_none());
    let keys: Vec<_> = keys.collect();
    let mut schema = mapping_schema(&keys, false, |key| match key.name {
        "on_error" => json!({ "description": key.description, "enum": grammar::ON_ERROR_WORDS }),
        _ => key_schema(key),
    });
    schema.insert("allOf".into(), Value::Array(build_step_rules(&keys)));
    schema
}

fn mapping_schema(
    keys: &[&MappingKey],
    is_open: bool,
    schema_of: fn(&MappingKey) -> Value,
) -> Map<String, Value> {
    let properties = keys.iter().map(|key| (key.name.to_owned(), schema_of(key)));
    let properties: Map<_, _> = properties.collect();
    let required = keys.iter().filter(|key| key.required && key.alternative_key.is_none());
    let required: Vec<_> = required.map(|key| key.name).collect();
    let schema = [
        ("type", json!("object")),
        ("properties", Value::Object(properties)),
        ("required", json!(required)),
        ("additionalProperties", json!(is_open)),
    ];
    Map::from_iter(schema.map(|(key, value)| (key.to_owned(), value)))
}

fn build_not_both_rule(one: &str, other: &str) -> Value {
    json!({ "not": { "required": [one, other] } })
}

/// The rules of a step: exactly one kind, and which keys may be combined with it and with each other.
fn build_step_rules(keys: &[&MappingKey]) -> Vec<Value> {
    let required = |key: &&&MappingKey| json!({ "required": [key.name] });
    let kinds = || keys.iter().filter(|key| key.is_step_kind());
    let kind_rules: Vec<_> = kinds().map(|kind| required(&kind)).collect();
    let mut rules = vec![json!({ "oneOf": kind_rules })];
    let spellings = [("depends_on", "dependsOn")];
    let pairs = grammar::EXCLUSIVE_FIELD_PAIRS.iter().chain(&spellings);
    let has_key = |name: &str| keys.iter().any(|key| key.name == name);
    let pairs = pairs.filter(|(one, _)| has_key(one));
    rules.extend(pairs.map(|(one, other)| build_not_both_rule(one, other)));
    for kind in kinds() {
        let unused_keys = keys.iter().filter(|key| !key.applies_to_kind(kind.name));
        let unused_keys: Vec<_> = unused_keys.map(|key| required(&key)).collect();
        if !unused_keys.is_empty() {
            rules.push(json!({
                "if": { "required": [kind.name] },
                "then": { "not": { "anyOf": unused_keys } },
            }));
        }
    }
    rules
}

/// The rules for `value` under each `from` of a default.
fn default_rules() -> Vec<Value> {
    let when = |from: DefaultFrom, value: Value| {
        json!({
            "if": { "properties": { "from": { "const": from } } },
            "then": { "required": ["value"], "properties": { "value": value } },
        })
    };
    let no_template = json!({ "not": { "type": "string", "pattern": TEMPLATE_PATTERN } });
    let variable = json!({ "type": "string", "pattern": build_not_blank_pattern() });
    vec![when(DefaultFrom::Literal, no_template), when(DefaultFrom::Env, variable)]
}

/// The schema of a key, with its description. None is added next to a `$ref`: drafts before 2019-09 ignore all siblings
/// of `$ref`.
fn key_schema(key: &MappingKey) -> Value {
    let mut schema = shape_schema(&key.shape);
    if let Value::Object(map) = &mut schema
        && !map.contains_key("$ref")
    {
        map.insert("description".into(), json!(key.description));
    }
    schema
}

fn shape_schema(shape: &ValueShape) -> Value {
    match shape {
        ValueShape::Text(max) | ValueShape::Template(max) => text_schema(*max),
        ValueShape::FreeText(max) => json!({ "type": "string", "maxLength": max }),
        ValueShape::Version => {
            json!({ "type": ["string", "number"], "maxLength": limits::VERSION_BYTES_MAX })
        }
        ValueShape::Condition => {
            json!({ "anyOf": [text_schema(limits::EXPRESSION_BYTES_MAX), { "type": "boolean" }] })
        }
        ValueShape::Name(max) => name_schema(*max),
        ValueShape::Id(IdKind::Workflow) => workflow_name_schema(),
        ValueShape::IdOrTemplate(kind) => {
            json!({ "anyOf": [shape_schema(&ValueShape::Id(*kind)), template_schema()] })
        }
        ValueShape::Id(IdKind::Agent) => name_schema(limits::AGENT_NAME_BYTES_MAX),
        ValueShape::Id(IdKind::Step) => json!({ "$ref": "#/$defs/stepId" }),
        ValueShape::Id(IdKind::Input) => input_name_schema(),
        ValueShape::Ids => id_list_schema(),
        ValueShape::Word => {
            json!({ "type": "string", "maxLength": limits::WORD_BYTES_MAX, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" })
        }
        ValueShape::Operation => operation_schema(),
        ValueShape::Value | ValueShape::Data => {
            json!({ "type": ["string", "number", "boolean", "object", "array", "null"] })
        }
        ValueShape::NotNull => {
            json!({ "type": ["string", "number", "boolean", "array", "object"] })
        }
        ValueShape::ValuesOrTemplate => {
            json!({ "anyOf": [{ "type": "object" }, template_schema()] })
        }
        ValueShape::Values | ValueShape::Bindings(_) => json!({ "type": "object" }),
        ValueShape::Branches(branch) => branches_schema(branch),
        ValueShape::Memory(min) => memory_schema(*min),
        ValueShape::Scalars(max) => scalar_mapping_schema(*max),
        ValueShape::Items => json!({ "anyOf": [{ "type": "array" }, template_schema()] }),
        ValueShape::Flag => json!({ "type": "boolean" }),
        ValueShape::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueShape::CountOrTemplate(min, max) => {
            json!({ "anyOf": [shape_schema(&ValueShape::Count(*min, *max)), template_schema()] })
        }
        ValueShape::Tolerance(max) => json!({ "anyOf": [
            shape_schema(&ValueShape::Count(0, *max)),
            { "type": "string", "pattern": "^ *(100|[0-9]{1,2}) *% *$" },
            template_schema()
        ] }),
        ValueShape::NonNegativeInteger => json!({ "type": "integer", "minimum": 0 }),
        ValueShape::Number => json!({ "type": "number" }),
        ValueShape::Duration => duration_schema(),
        ValueShape::DurationOrTemplate => {
            json!({ "anyOf": [duration_schema(), template_schema()] })
        }
        ValueShape::InstantOrTemplate => json!({ "anyOf": [instant_schema(), template_schema()] }),
        ValueShape::Failure => {
            let (min, max) = FAILED_HTTP_STATUSES.into_inner();
            // A status may also be written as a text of digits.
            let mut word = name_schema(limits::WORD_BYTES_MAX);
            word["not"] = json!({ "pattern": "^[0-9]+$" });
            json!({ "anyOf": [
                word,
                { "type": "string", "pattern": "^[345][0-9]{2}$" },
                { "type": "integer", "minimum": min, "maximum": max }
            ] })
        }
        ValueShape::Choice(words) => json!({ "enum": words }),
        ValueShape::Join => {
            let number = r"(\s*[1-9][0-9]{0,3}\s*|\s*\$\{\{[\s\S]*\}\}\s*)";
            json!({ "type": "string", "pattern": format!(r"^(all|any|quorum\({number}\))$") })
        }
        ValueShape::Target(words) => {
            json!({ "anyOf": [{ "enum": words }, { "$ref": "#/$defs/stepId" }] })
        }
        ValueShape::List(of, min, max) => list_schema(of, *min, *max),
        ValueShape::Record(keys) => record_schema(keys).into(),
        ValueShape::FlagOr(keys) => {
            json!({ "anyOf": [{ "type": "boolean" }, record_schema(keys)] })
        }
        ValueShape::TextOr(keys) => {
            let first = keys.keys.first().map(|key| shape_schema(&key.shape));
            json!({ "anyOf": [first, record_schema(keys)] })
        }
        ValueShape::Inputs(_) => json!({
            "type": "object",
            "propertyNames": input_name_schema(),
            "additionalProperties": { "$ref": "#/$defs/input" },
            "maxProperties": limits::INPUTS_DECLARED_MAX,
        }),
        ValueShape::Steps(_) => json!({
            "type": "array",
            "items": { "$ref": "#/$defs/step" },
            "minItems": 1,
            "maxItems": limits::STEPS_MAX,
        }),
        ValueShape::Schema => json!({ "type": ["object", "boolean"] }),
        ValueShape::ForeachBody => json!({ "$ref": "#/$defs/each" }),
        // Planned keys are filtered out before this point.
        ValueShape::Planned => json!(false),
    }
}

/// The schema of a step's branches. Their keys are patterns `key.nested:value`, where no key is empty, and neither key
/// nor value has white space around it.
fn branches_schema(branch: &MappingShape) -> Value {
    let non_blank = format!("[^{WHITE_SPACE_CLASS}]");
    let patterns = [
        format!("^[^:.{WHITE_SPACE_CLASS}][^:.]*(\\.[^:.]+)*:"),
        format!("^[^:]*[^:{WHITE_SPACE_CLASS}]:"),
        format!("^[^:]*:{non_blank}([\\s\\S]*{non_blank})?$"),
    ];
    let patterns = patterns.map(|pattern| json!({ "pattern": pattern }));
    json!({
        "type": "object",
        "propertyNames": { "maxLength": limits::BRANCH_PATTERN_BYTES_MAX, "allOf": patterns },
        "additionalProperties": record_schema(branch),
        "minProperties": 1,
        "maxProperties": limits::STEP_BRANCHES_MAX,
    })
}

/// A text that is not blank.
fn text_schema(bytes_max: usize) -> Value {
    json!({ "type": "string", "maxLength": bytes_max, "pattern": build_not_blank_pattern() })
}

fn template_schema() -> Value {
    json!({ "type": "string", "maxLength": limits::EXPRESSION_BYTES_MAX, "pattern": TEMPLATE_PATTERN })
}

fn operation_schema() -> Value {
    let (word, space) =
        (format!("[^{CONTROL_CHARS_CLASS}{WHITE_SPACE_CLASS}]+"), format!("[{WHITE_SPACE_CLASS}]"));
    let pattern = format!("^{space}*{word}({space}+{word})+{space}*$");
    json!({ "type": "string", "maxLength": limits::WORD_BYTES_MAX, "pattern": pattern })
}

fn memory_schema(min: usize) -> Value {
    json!({
        "type": "object",
        "minProperties": min,
        "maxProperties": limits::MEMORY_ENTRIES_MAX,
        "propertyNames": { "pattern": IDENTIFIER_PATTERN, "maxLength": limits::MEMORY_NAME_BYTES_MAX },
    })
}

fn scalar_mapping_schema(max: usize) -> Value {
    let bytes_max = limits::METADATA_TEXT_BYTES_MAX;
    json!({
        "type": "object",
        "maxProperties": max,
        "propertyNames": { "maxLength": bytes_max },
        "additionalProperties": { "type": ["string", "number", "boolean", "null"], "maxLength": bytes_max },
    })
}

/// A duration: units from largest to smallest, each at most once, at least one of them, and not all zero.
fn duration_schema() -> Value {
    let units = ["d", "h", "m", "s", "ms"].map(|unit| format!("[0-9]+{unit}"));
    let pattern_from_unit = |first: usize| {
        let rest = units[first + 1..].iter().map(|unit| format!("({unit})?"));
        units[first].clone() + &rest.collect::<String>()
    };
    let all: Vec<_> = (0..units.len()).map(pattern_from_unit).collect();
    let padding = format!("[{WHITE_SPACE_CLASS}]*");
    json!({
        "type": "string",
        "pattern": format!("^{padding}({}){padding}$", all.join("|")),
        "allOf": [{ "pattern": "[1-9]" }],
    })
}

/// An instant, as far as a pattern can check it.
fn instant_schema() -> Value {
    json!({ "type": "string", "pattern": "^[-+]?[0-9]{4,6}-?[0-9]{2}-?[0-9]{2}[Tt ]" })
}

fn list_schema(item_shape: &ValueShape, min: usize, max: usize) -> Value {
    let mut schema = json!({
        "type": "array",
        "items": shape_schema(item_shape),
        "minItems": min,
        "maxItems": max,
    });
    let is_named =
        matches!(item_shape, ValueShape::Name(_) | ValueShape::Id(_) | ValueShape::Failure);
    if let (Value::Object(map), true) = (&mut schema, is_named) {
        map.insert("uniqueItems".into(), json!(true));
    }
    schema
}

fn build_not_blank_pattern() -> String {
    format!("[^{WHITE_SPACE_CLASS}]")
}

/// A name, without control characters and without white space around it.
fn name_schema(bytes_max: usize) -> Value {
    let (end, inner) = (
        format!("[^{CONTROL_CHARS_CLASS}{WHITE_SPACE_CLASS}]"),
        format!("[^{CONTROL_CHARS_CLASS}]"),
    );
    json!({
        "type": "string",
        "maxLength": bytes_max,
        "pattern": format!("^{end}({inner}*{end})?$"),
    })
}

fn workflow_name_schema() -> Value {
    json!({
        "type": "string",
        "maxLength": limits::WORKFLOW_NAME_BYTES_MAX,
        "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
    })
}

fn step_id_schema() -> Value {
    let words = "The id of a step: letters, digits, `_` and `-`, beginning with none of the latter";
    json!({
        "description": words,
        "type": "string",
        "maxLength": limits::STEP_ID_BYTES_MAX,
        "pattern": IDENTIFIER_PATTERN,
    })
}

fn input_name_schema() -> Value {
    json!({
        "description": "The name of an input: letters, digits, `_` and `-`, beginning with none of the latter",
        "type": "string",
        "maxLength": limits::INPUT_NAME_BYTES_MAX,
        "pattern": IDENTIFIER_PATTERN,
    })
}

fn id_list_schema() -> Value {
    let id = json!({ "$ref": "#/$defs/stepId" });
    let list = json!({
        "type": "array",
        "items": id,
        "maxItems": limits::DEPENDENCIES_MAX,
        "uniqueItems": true,
    });
    json!({ "anyOf": [id, list] })
}
