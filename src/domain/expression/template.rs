//! Templates: JSON values whose texts may hold expressions.

use serde_json::{Map, Value};

use super::{
    Expression,
    fault::{ExpressionFault, FaultKind},
    reference::{EvaluationContext, Reference, ReferenceRoot},
    secret_placeholder,
    segment::{Segment, to_dotted_path},
    token::tokenize,
    value_to_text,
};
use crate::{limits, truncate::json_length, words::InstructionBuilder};

/// A JSON value whose texts may hold `${{ … }}` anywhere.
///
/// A text that is one expression and nothing else but white space around it becomes the value itself, with its type and the
/// order of its keys; the result of an expression inside a longer text becomes text: a text as it is, null as nothing,
/// anything else as JSON. Keys of maps are taken as they are, and what an expression brings in is not read
/// again. There is no escape: `${{ '${{' }}` makes a literal `${{`, and `$${{ inputs.price }}` is a price in
/// dollars.
#[derive(Clone, Debug)]
pub struct Template {
    node: TemplateNode,
    references: Vec<Reference>,
    source: Value,
    instruction_keys: &'static [&'static str],
}

#[derive(Clone, Debug)]
enum TemplateNode {
    Constant(Value),
    SingleExpression(Box<Expression>),
    Text(Vec<TextPart>),
    List(Vec<TemplateNode>),
    Map(Vec<(String, TemplateNode)>),
}

#[derive(Clone, Debug)]
enum TextPart {
    Text(String),
    Expression(Box<Expression>),
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The place of a secret in a rendered value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SecretPlace {
    /// The name of the secret.
    pub name: String,
    /// The JSON pointer of the text that takes the secret.
    pub pointer: String,
    /// The byte of that text at which the placeholder begins.
    pub offset: usize,
}

/// A rendered value and the places of the secrets in it. A placeholder at any other place came in as data, and must stay
/// data.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RenderedValue {
    /// The value, with placeholders of secrets.
    pub value: Value,
    /// The places of the placeholders, in order.
    pub secrets: Vec<SecretPlace>,
}

impl RenderedValue {
    /// Reads a rendered value that was stored as JSON.
    ///
    /// # Errors
    /// `INTERNAL` if the value does not have that form.
    pub fn from_stored_json(value: &Value) -> crate::error::Result<Self> {
        serde::Deserialize::deserialize(value).map_err(|error: serde_json::Error| {
            crate::error::Error::internal("the input of a step cannot be read").with_source(error)
        })
    }
}

/// Returns the reason why a path has no value yet; `None` if it has a value or never will have one.
pub type MissingReasonFn<'a> = dyn Fn(&Reference) -> Option<String> + 'a;

/// An expression without a value, in a template that was rendered with incomplete data.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UnresolvedExpression {
    /// The path of the text in the value: `with.files[0]`.
    pub path: String,
    /// The expression as written.
    pub expression: String,
    /// The reason why it has no value.
    pub why: String,
}

impl RenderedValue {
    /// Fills the secrets in; the error is the name of a secret that `find` does not have.
    pub fn fill_secrets(&self, find: impl Fn(&str) -> Option<String>) -> Result<Value, String> {
        let mut value = self.value.clone();
        // From the last to the first, because each secret moves the text behind it.
        for place in self.secrets.iter().rev() {
            let secret = find(&place.name).ok_or_else(|| place.name.clone())?;
            if let Some(Value::String(text)) = value.pointer_mut(&place.pointer) {
                let end = place.offset + secret_placeholder(&place.name).len();
                if text.get(place.offset..end).is_some() {
                    text.replace_range(place.offset..end, &secret);
                }
            }
        }
        Ok(value)
    }
}

impl Template {
    /// Parses every text of `value`; the error has all faults of all texts.
    pub fn parse(value: &Value) -> Result<Self, Vec<ExpressionFault>> {
        Self::parse_with(value, &[])
    }

    /// [`Self::parse`], where `names` are further names of the item of a `foreach`.
    pub fn parse_with(value: &Value, names: &[&str]) -> Result<Self, Vec<ExpressionFault>> {
        let mut parser = TemplateParser::new(names);
        let node = parser.parse_node(value);
        if !parser.faults.is_empty() {
            return Err(parser.faults);
        }
        Ok(Self {
            node,
            references: parser.references,
            source: value.clone(),
            instruction_keys: &[],
        })
    }

    /// Marks the texts under these keys of the value as instructions for a model: [`InstructionBuilder`] quotes the values in them.
    #[must_use]
    pub(crate) fn mark_instruction_keys(self, keys: &'static [&'static str]) -> Self {
        Self { instruction_keys: keys, ..self }
    }

    /// All references of the expressions of a text, also of those with faults, and all faults.
    pub fn collect_references(
        text: &str,
        names: &[&str],
    ) -> (Vec<Reference>, Vec<ExpressionFault>) {
        let mut parser = TemplateParser::new(names);
        parser.parse_text(text);
        (parser.references, parser.faults)
    }

    /// Every path that the expressions read, each once, in order. Offsets are bytes of the text in which the path stands
    /// first.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Whether the value holds no expression, so that it renders to itself.
    pub fn is_constant(&self) -> bool {
        matches!(self.node, TemplateNode::Constant(_))
    }

    /// The value as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Evaluates every expression. Secrets render as placeholders.
    pub fn render(&self, roots: &EvaluationContext) -> Result<Value, ExpressionFault> {
        self.render_with_secret_places(roots).map(|rendered| rendered.value)
    }

    /// Renders with incomplete data: an expression that cannot be evaluated is left as written and reported. `missing_reason`
    /// returns the reason why a path has no value yet.
    pub fn preview(
        &self,
        roots: &EvaluationContext,
        missing_reason: &MissingReasonFn<'_>,
    ) -> (Value, Vec<UnresolvedExpression>) {
        let mut renderer =
            TemplateRenderer { missing_reason: Some(missing_reason), ..self.new_renderer(roots) };
        // With `unknown` set, faults are collected in `unresolved`, so rendering cannot fail.
        let value = renderer.render_node(&self.node).unwrap_or_default();
        (value, renderer.unresolved)
    }

    fn new_renderer<'a>(&self, roots: &'a EvaluationContext) -> TemplateRenderer<'a> {
        TemplateRenderer {
            roots,
            bytes_left: limits::TEMPLATE_RESULT_BYTES_MAX,
            path: Vec::new(),
            secrets: Vec::new(),
            instruction_keys: self.instruction_keys,
            missing_reason: None,
            unresolved: Vec::new(),
        }
    }

    /// [`Self::render`] with the places of the secrets, for [`RenderedValue::fill_secrets`].
    pub fn render_with_secret_places(
        &self,
        roots: &EvaluationContext,
    ) -> Result<RenderedValue, ExpressionFault> {
        let mut renderer = self.new_renderer(roots);
        let value = renderer.render_node(&self.node)?;
        Ok(RenderedValue { value, secrets: renderer.secrets })
    }
}

struct TemplateParser<'a> {
    names: &'a [&'a str],
    path: Vec<Segment>,
    references: Vec<Reference>,
    faults: Vec<ExpressionFault>,
    expression_count: usize,
}

impl<'a> TemplateParser<'a> {
    fn new(names: &'a [&'a str]) -> Self {
        Self {
            names,
            path: Vec::new(),
            references: Vec::new(),
            faults: Vec::new(),
            expression_count: 0,
        }
    }
}

impl TemplateParser<'_> {
    fn parse_node(&mut self, value: &Value) -> TemplateNode {
        if self.path.len() > limits::JSON_DEPTH_MAX {
            let max_depth = limits::JSON_DEPTH_MAX;
            let message = format!("the value is nested more than {max_depth} levels deep");
            self.add_fault(ExpressionFault::new(FaultKind::Limit, (0, 0), message));
            return TemplateNode::Constant(Value::Null);
        }
        let node = match value {
            Value::String(text) => self.parse_text(text),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let item = |(at, item)| self.parse_child(Segment::Index(at), item);
                TemplateNode::List(items.map(item).collect())
            }
            Value::Object(map) => {
                let entry = |(key, item): (&String, &Value)| {
                    (key.clone(), self.parse_child(Segment::Key(key.clone()), item))
                };
                TemplateNode::Map(map.iter().map(entry).collect())
            }
            other => return TemplateNode::Constant(other.clone()),
        };
        let is_constant = match &node {
            TemplateNode::List(items) => items.iter().all(TemplateNode::is_constant),
            TemplateNode::Map(entries) => entries.iter().all(|(_, node)| node.is_constant()),
            _ => return node,
        };
        if is_constant { TemplateNode::Constant(value.clone()) } else { node }
    }

    fn parse_child(&mut self, segment: Segment, value: &Value) -> TemplateNode {
        self.path.push(segment);
        let node = self.parse_node(value);
        self.path.pop();
        node
    }

    fn parse_text(&mut self, text: &str) -> TemplateNode {
        let (mut parts, mut offset) = (Vec::new(), 0);
        while let Some(start) = text[offset..].find("${{").map(|found| offset + found) {
            if start > offset {
                parts.push(TextPart::Text(text[offset..start].to_owned()));
            }
            let (expression, end) = self.parse_expression(text, start);
            parts.extend(expression.map(|expression| TextPart::Expression(Box::new(expression))));
            offset = end;
        }
        if offset < text.len() {
            parts.push(TextPart::Text(text[offset..].to_owned()));
        }
        // White space around a single expression does not make a text of its value: a block of YAML ends with a line break.
        let is_blank =
            |part: &TextPart| matches!(part, TextPart::Text(text) if text.trim().is_empty());
        if parts.iter().filter(|part| is_blank(part)).count() + 1 == parts.len()
            && let Some(at) = parts.iter().position(|part| !is_blank(part))
            && matches!(parts[at], TextPart::Expression(_))
        {
            parts = vec![parts.swap_remove(at)];
        }
        let single_part = if parts.len() == 1 { parts.pop() } else { None };
        match single_part {
            Some(TextPart::Expression(expression)) => TemplateNode::SingleExpression(expression),
            Some(TextPart::Text(text)) => TemplateNode::Constant(text.into()),
            None if parts.is_empty() => TemplateNode::Constant(text.into()),
            None => TemplateNode::Text(parts),
        }
    }

    /// Parses the expression that opens at `start`: returns it if it has no fault, and where it ends.
    fn parse_expression(&mut self, text: &str, start: usize) -> (Option<Expression>, usize) {
        self.expression_count += 1;
        if self.expression_count > limits::TEMPLATE_EXPRESSIONS_MAX {
            if self.expression_count == limits::TEMPLATE_EXPRESSIONS_MAX + 1 {
                let max_count = limits::TEMPLATE_EXPRESSIONS_MAX;
                let message = format!("there are more than {max_count} expressions in one value");
                let span = (start, start + 3);
                self.add_fault(ExpressionFault::new(FaultKind::Limit, span, message));
            }
            return (None, text.len());
        }
        let tokens = match tokenize(text, start + 3, true) {
            Ok(tokens) => tokens,
            Err(fault) => {
                self.add_fault(fault);
                let end = text[start..].find("}}").map_or(text.len(), |at| start + at + 2);
                return (None, end);
            }
        };
        if !tokens.is_closed {
            self.add_fault(super::unclosed_fault(text, start));
            return (None, text.len());
        }
        let end = tokens.end + 2;
        match Expression::parse_tokens(text, (start, end), &tokens, self.names) {
            Ok(expression) => {
                self.add_references(expression.references());
                (Some(expression), end)
            }
            Err(faults) => {
                self.add_references(&super::parse::collect_references(text, &tokens, self.names));
                for fault in faults {
                    self.add_fault(fault);
                }
                (None, end)
            }
        }
    }

    fn add_references(&mut self, references: &[Reference]) {
        for reference in references {
            let mut existing = self.references.iter_mut();
            match existing.find(|known| known.is_same_path(reference)) {
                Some(existing) => existing.is_guarded |= reference.is_guarded,
                None => self.references.push(reference.clone()),
            }
        }
    }

    fn add_fault(&mut self, fault: ExpressionFault) {
        if self.faults.len() < limits::FINDINGS_MAX {
            let place = self.path.clone();
            self.faults.push(ExpressionFault { place, ..fault });
        }
    }
}

impl TemplateNode {
    fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

struct TemplateRenderer<'a> {
    roots: &'a EvaluationContext,
    /// The bytes that the values of further expressions may take.
    bytes_left: usize,
    path: Vec<Segment>,
    secrets: Vec<SecretPlace>,
    instruction_keys: &'static [&'static str],
    /// Set for a preview: the reason why a path has no value yet.
    missing_reason: Option<&'a MissingReasonFn<'a>>,
    unresolved: Vec<UnresolvedExpression>,
}

impl TemplateRenderer<'_> {
    fn render_node(&mut self, node: &TemplateNode) -> Result<Value, ExpressionFault> {
        match node {
            // Constants need no limit: the size of the file bounds them.
            TemplateNode::Constant(value) => Ok(value.clone()),
            TemplateNode::SingleExpression(_) | TemplateNode::Text(_) if self.is_instruction() => {
                self.render_instructions(node).map(Value::from)
            }
            TemplateNode::SingleExpression(expression) => {
                let value = self.evaluate_or_preview(expression)?;
                self.record_secret_places(expression, 0);
                Ok(value)
            }
            TemplateNode::Text(parts) => self.render_text(parts).map(Value::from),
            TemplateNode::List(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| self.render_child(Segment::Index(at), item));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            TemplateNode::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, node) in entries {
                    map.insert(key.clone(), self.render_child(Segment::Key(key.clone()), node)?);
                }
                Ok(Value::Object(map))
            }
        }
    }

    fn render_child(
        &mut self,
        segment: Segment,
        node: &TemplateNode,
    ) -> Result<Value, ExpressionFault> {
        self.path.push(segment);
        let value = self.render_node(node);
        self.path.pop();
        value
    }

    /// Whether the text at the current path is an instruction for a model.
    fn is_instruction(&self) -> bool {
        match self.path.as_slice() {
            [Segment::Key(key)] => self.instruction_keys.contains(&key.as_str()),
            _ => false,
        }
    }

    /// Renders instructions for a model. Interpolated values are quoted if they could be read as instructions.
    fn render_instructions(&mut self, node: &TemplateNode) -> Result<String, ExpressionFault> {
        let mut instructions = InstructionBuilder::default();
        match node {
            TemplateNode::SingleExpression(expression) => {
                self.append_value(&mut instructions, expression)?;
            }
            TemplateNode::Text(parts) => {
                for part in parts {
                    match part {
                        TextPart::Text(part) => instructions.push_author_text(part),
                        TextPart::Expression(expression) => {
                            self.append_value(&mut instructions, expression)?;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(instructions.finish())
    }

    fn append_value(
        &mut self,
        instructions: &mut InstructionBuilder,
        expression: &Expression,
    ) -> Result<(), ExpressionFault> {
        let value = self.evaluate_or_preview(expression)?;
        let offset = instructions.push_value(&value_to_text(&value));
        self.record_secret_places(expression, offset);
        Ok(())
    }

    fn render_text(&mut self, parts: &[TextPart]) -> Result<String, ExpressionFault> {
        let mut text = String::new();
        for part in parts {
            match part {
                TextPart::Text(part) => text.push_str(part),
                TextPart::Expression(expression) => {
                    let value = self.evaluate_or_preview(expression)?;
                    self.record_secret_places(expression, text.len());
                    text.push_str(&value_to_text(&value));
                }
            }
        }
        Ok(text)
    }

    /// The value of an expression. In a preview, an expression without a value yields its source text.
    fn evaluate_or_preview(&mut self, expression: &Expression) -> Result<Value, ExpressionFault> {
        let Some(missing_reason) = self.missing_reason else {
            return self.evaluate_within_limit(expression);
        };
        let why = match expression.references().iter().find_map(missing_reason) {
            Some(why) => why,
            None => match self.evaluate_within_limit(expression) {
                Ok(value) => return Ok(value),
                Err(fault) => fault.message,
            },
        };
        let expression = expression.source().to_owned();
        self.unresolved.push(UnresolvedExpression {
            path: to_dotted_path(&self.path),
            expression: expression.clone(),
            why,
        });
        Ok(expression.into())
    }

    /// Evaluates an expression and deducts the size of its value from the room of the result.
    fn evaluate_within_limit(&mut self, expression: &Expression) -> Result<Value, ExpressionFault> {
        let value = expression.evaluate(self.roots).and_then(|value| {
            let bytes_left = self.bytes_left.checked_sub(json_length(&value));
            self.bytes_left = bytes_left.ok_or_else(|| result_too_large_fault(expression))?;
            Ok(value)
        });
        value.map_err(|mut fault| {
            fault.place.clone_from(&self.path);
            fault
        })
    }

    /// Records the places of the secrets of `expression`, whose value begins at byte `offset` of the current text.
    fn record_secret_places(&mut self, expression: &Expression, offset: usize) {
        let secrets = expression.references().iter();
        for secret in secrets.filter(|reference| reference.root == ReferenceRoot::Secrets) {
            self.secrets.push(SecretPlace {
                name: secret.secret_name().unwrap_or_default().into_owned(),
                pointer: json_pointer(&self.path),
                offset,
            });
        }
    }
}

fn result_too_large_fault(expression: &Expression) -> ExpressionFault {
    let max_mib = limits::TEMPLATE_RESULT_BYTES_MAX >> 20;
    let message = format!("the result is larger than {max_mib} MiB");
    ExpressionFault::new(FaultKind::Limit, expression.span, message)
}

fn json_pointer(path: &[Segment]) -> String {
    let format_segment = |segment: &Segment| match segment {
        Segment::Index(index) => format!("/{index}"),
        Segment::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
    };
    path.iter().map(format_segment).collect()
}
