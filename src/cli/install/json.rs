//! Edits a JSON text that people edit too. `jsonc-parser` keeps the comments, the order and the indentation of all that
//! is not edited.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
};
use serde_json::{Map, Value, json};

use super::uneditable_text_error;
use midex_domain::error::{Error, Result};

/// The value of the text; an empty object if the text holds no value.
pub(super) fn read_value(text: &str) -> Result<Value> {
    let value = parse(text)?.to_serde_value();
    Ok(value.unwrap_or_else(|| json!({})))
}

/// The text with these fields in the object at `path`, which is created if missing, and without the fields `removed_names`.
pub(super) fn set_fields(
    text: &str,
    path: [&str; 2],
    removed_names: &[&str],
    fields: &Map<String, Value>,
) -> Result<String> {
    let root = parse(text)?;
    let object = ensure_object(&ensure_object(&ensure_root_object(&root), path[0])?, path[1])?;
    for (name, value) in fields {
        set_field(&object, name, value);
    }
    let removed_fields = removed_names.iter().filter_map(|name| find_field(&object, name));
    removed_fields.for_each(CstObjectProp::remove);
    Ok(root.to_string())
}

/// The text without the value at `path`; unchanged if there is none.
pub(super) fn remove_value(text: &str, path: [&str; 2]) -> Result<String> {
    let root = parse(text)?;
    if let Some(parent) = root.object_value().and_then(|root| find_field(&root, path[0])) {
        let parent = parent.object_value().ok_or_else(|| wrong_type_error(&parent, "an object"))?;
        if let Some(field) = find_field(&parent, path[1]) {
            field.remove();
        }
    }
    Ok(root.to_string())
}

/// Parses a text that holds an object or no value.
pub(super) fn parse(text: &str) -> Result<CstRootNode> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let root = CstRootNode::parse(text, &options).map_err(|error| {
        uneditable_text_error(error.range().start, error.kind().to_string().to_lowercase())
    })?;
    match root.value() {
        Some(value) if value.as_object().is_none() => {
            Err(uneditable_text_error(node_offset(&value), "the whole is not an object"))
        }
        _ => Ok(root),
    }
}

/// The object that a text holds, created if missing.
pub(super) fn ensure_root_object(root: &CstRootNode) -> CstObject {
    let mut children = root.children().into_iter();
    // Blanks alone are no indentation for what follows.
    if children.all(|child| child.is_whitespace() || child.is_newline()) {
        root.clear_children();
    }
    root.object_value_or_set()
}

/// A field of an object. If a name occurs several times the last one counts, as it does for the host that reads the
/// file.
pub(super) fn find_field(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    let mut fields = object.properties().into_iter();
    fields.rfind(|field| field.decoded_name().as_deref() == Some(name))
}

/// Gives a field this value. A field that has it already keeps its text.
pub(super) fn set_field(object: &CstObject, name: &str, value: &Value) {
    match find_field(object, name) {
        Some(field) if field.to_serde_value().as_ref() == Some(value) => {}
        Some(field) => field.set_value(to_cst_value(value)),
        None => {
            object.append(name, to_cst_value(value));
        }
    }
}

/// Appends a value to an array. The array is laid out over several lines.
pub(super) fn append_value(array: &CstArray, value: &Value) {
    array.ensure_multiline();
    array.append(to_cst_value(value));
}

/// The object in a field, created if missing.
pub(super) fn ensure_object(object: &CstObject, name: &str) -> Result<CstObject> {
    let field =
        find_field(object, name).unwrap_or_else(|| object.append(name, to_cst_value(&json!({}))));
    let object = field.object_value();
    object.ok_or_else(|| wrong_type_error(&field, "an object"))
}

/// The array in a field, created if missing.
pub(super) fn ensure_array(object: &CstObject, name: &str) -> Result<CstArray> {
    let field =
        find_field(object, name).unwrap_or_else(|| object.append(name, to_cst_value(&json!([]))));
    let array = field.array_value();
    array.ok_or_else(|| wrong_type_error(&field, "an array"))
}

fn wrong_type_error(field: &CstObjectProp, expected: &str) -> Error {
    let ancestors = field.ancestors().filter_map(|it| it.as_object_prop());
    let mut names: Vec<_> = ancestors.filter_map(|it| it.decoded_name()).collect();
    names.reverse();
    names.extend(field.decoded_name());
    let offset = field.value().as_ref().map_or(0, node_offset);
    uneditable_text_error(offset, format!("`{}` is not {expected}", names.join(".")))
}

/// The byte offset of a node in the text.
fn node_offset(node: &CstNode) -> usize {
    let preceding = node.previous_siblings().map(|it| it.to_string().len());
    let parent = node.parent().map(CstNode::from);
    preceding.sum::<usize>() + parent.as_ref().map_or(0, node_offset)
}

fn to_cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_cst_value).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            CstInputValue::Object(
                fields.map(|(name, it)| (name.clone(), to_cst_value(it))).collect(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: [&str; 2] = ["servers", "midex"];

    fn set_block(text: &str) -> String {
        let fields = json!({ "command": "/x", "args": ["a\"\n"] });
        let fields = fields.as_object().expect("an object");
        set_fields(text, PATH, &["url"], fields).expect("JSON")
    }

    /// Texts with an object `servers`, in many formatting styles.
    fn sample_texts() -> Vec<String> {
        let mut texts = Vec::new();
        for newline in ["\n", "\r\n", " "] {
            for indent in ["  ", "\t"] {
                for (comma, comment) in [("", ""), (",", ""), ("", " /* , */"), (",", " /* } */")] {
                    for servers in 0..3 {
                        let servers =
                            (0..servers).map(|n| format!("{indent}{indent}\"{n}\": [{n}]"));
                        let mut servers = servers.collect::<Vec<_>>().join(&format!(",{newline}"));
                        if !servers.is_empty() {
                            servers =
                                format!("{newline}{servers}{comma}{comment}{newline}{indent}");
                        }
                        texts.push(format!(
                            "{{{newline}{indent}\"a\": 1,{newline}{indent}\"servers\": {{{servers}}}{comma}{comment}{newline}}}{newline}"
                        ));
                    }
                }
            }
        }
        let lines = texts.iter().filter(|text| text.contains('\n'));
        let lines: Vec<_> = lines.map(|it| it.replace(" /* } */", " // }\t")).collect();
        [texts, lines].concat()
    }

    #[test]
    fn only_the_block_changes_and_removing_it_restores_the_text() {
        for text in sample_texts() {
            let changed = set_block(&text);
            let mut expected = read_value(&text).expect("JSON");
            expected["servers"]["midex"] = json!({ "command": "/x", "args": ["a\"\n"] });
            let parsed = read_value(&changed).expect("JSON");
            assert_eq!(parsed, expected, "{text:?} became {changed:?}");
            assert_eq!(set_block(&changed), changed);
            let comments = |text: &str| text.matches("/*").count() + text.matches("//").count();
            assert_eq!(comments(&changed), comments(&text), "{text:?} became {changed:?}");
            let without = remove_value(&changed, PATH).expect("JSON");
            if text.contains('\n') {
                assert_eq!(without, text, "by way of {changed:?}");
            } else {
                // An object in one line has got several.
                let words = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(words(&without), words(&text), "by way of {changed:?}");
            }
        }
    }

    #[test]
    fn any_number_of_comments_may_follow() {
        let comments = "/**/".repeat(10_000);
        let text = format!("{{\n\"servers\": {{}}{comments}\n}}");
        let changed = set_block(&text);
        assert!(changed.ends_with(&format!("}}{comments}\n}}")), "{changed}");
        assert_eq!(remove_value(&changed, PATH).expect("JSON"), text);
    }

    #[test]
    fn last_of_duplicate_fields_counts() {
        let text = r#"{"servers": {}, "servers": {"midex": {"command": "/y", "url": "u"}}}"#;
        let changed = set_block(text);
        assert!(changed.starts_with(r#"{"servers": {}, "servers": {"#), "{changed}");
        let expected = json!({ "command": "/x", "args": ["a\"\n"] });
        assert_eq!(read_value(&changed).expect("JSON")["servers"]["midex"], expected);
    }

    #[test]
    fn a_text_without_a_value_gets_an_object() {
        for (text, start) in [
            ("", "{\n  \"servers\": {\n"),
            (" \n\t", "{\n  \"servers\": {\n"),
            ("// c", "// c\n{\n  \"servers\": {\n"),
            ("/* c */\r\n", "/* c */\r\n{\r\n  \"servers\": {\r\n"),
        ] {
            let changed = set_block(text);
            assert!(
                changed.starts_with(start) && changed.ends_with("}\n") | changed.ends_with("}\r\n"),
                "{changed:?}"
            );
            assert_eq!(remove_value(text, PATH).expect("JSON"), text);
        }
    }
}
