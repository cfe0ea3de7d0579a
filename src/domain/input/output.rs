//! Defaults that refer to the final output of another workflow.

use serde_json::{Map, Value};

use crate::{
    expression::{EvaluationContext, Expression},
    id::WorkflowName,
};

/// A workflow and a path into its final output: `build`, or `build.image.tags[0]`.
#[derive(Debug)]
pub struct WorkflowOutputPath {
    pub(crate) workflow: WorkflowName,
    path: Expression,
}

impl WorkflowOutputPath {
    /// Parses the reference; the error describes the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let (workflow, path) = text.split_at(end);
        let workflow = WorkflowName::parse(workflow);
        let is_path_char = |c: char| c.is_alphanumeric() || "_-.[]".contains(c);
        let path = Some(path).filter(|path| path.chars().all(is_path_char));
        let path = path.and_then(|path| Expression::parse(&format!("inputs.output{path}")).ok());
        match (workflow, path) {
            (Ok(workflow), Some(path)) => Ok(Self { workflow, path }),
            _ => Err("a workflow, or a workflow and a path into what it came to: `build.image`"),
        }
    }

    /// The part of `output` that the path selects, if it exists.
    pub(crate) fn select_from_output(&self, output: &Value) -> Option<Value> {
        let context = EvaluationContext {
            inputs: Map::from_iter([("output".to_owned(), output.clone())]),
            ..EvaluationContext::default()
        };
        self.path.evaluate(&context).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_into_the_output() {
        let output = json!({ "image": { "tags": ["v1", "v2"], "my-name": null } });
        for (text, expected) in [
            ("build", Some(output.clone())),
            ("build.image.tags[1]", Some(json!("v2"))),
            ("build.image.my-name", Some(Value::Null)),
            ("build.image.size", None),
            ("build.image.tags[2]", None),
        ] {
            let of = WorkflowOutputPath::parse(text).expect(text);
            assert_eq!(of.workflow.as_str(), "build");
            assert_eq!(of.select_from_output(&output), expected, "{text}");
        }
        for bad in ["", ".image", "build.", "build[", "build.a b", "build.a + 1", "build.a | upper"]
        {
            assert!(WorkflowOutputPath::parse(bad).is_err(), "{bad}");
        }
    }
}
