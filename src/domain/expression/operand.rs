//! Parses the values of an expression: literals, lists, maps and paths.

use serde_json::Value;

use super::{
    fault::{ExpressionFault, FaultKind},
    parse::{ExpressionNode, ParseResult, Parser, join_translations},
    reference::{Reference, ReferenceRoot},
    segment::Segment,
    token::{ExpressionToken, TokenKind, shorten_for_message},
};
use crate::{grammar::foreign as words, nearest};

/// Keywords of the language.
pub(super) const KEYWORDS: &[&str] = &["and", "or", "not", "in", "is", "if", "else"];

impl Parser<'_> {
    pub(super) fn parse_value(&mut self) -> ParseResult {
        let Some(token) = self.next_token() else {
            return self.halt_at_missing("a value");
        };
        let node = match token.kind.clone() {
            TokenKind::Text(text) => self.add_literal_node(&token, text.into()),
            TokenKind::Number(number) => self.add_literal_node(&token, number.into()),
            TokenKind::Word => self.parse_name(&token)?,
            TokenKind::Sign("(") => self.parse_group(&token)?,
            TokenKind::Sign("[") => self.parse_list(&token)?,
            TokenKind::Sign("{") => self.parse_map(&token)?,
            TokenKind::Sign(_) => return self.stop_at_missing_value(&token),
        };
        self.parse_postfix(node)
    }

    pub(super) fn add_literal_node(
        &mut self,
        token: &ExpressionToken,
        value: Value,
    ) -> ExpressionNode {
        ExpressionNode {
            text: self.add_constant(value),
            depth: 0,
            start: token.start,
            end: token.end,
            reference: None,
            is_constant: true,
        }
    }

    fn parse_name(&mut self, token: &ExpressionToken) -> ParseResult {
        let word = self.token_text(token);
        let literal = match word.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            "null" | "none" | "None" => Some(Value::Null),
            _ => None,
        };
        if let Some(literal) = literal {
            return Ok(self.add_literal_node(token, literal));
        }
        if KEYWORDS.contains(&word.as_str()) {
            return self.stop_at_missing_value(token);
        }
        if let Some(root) = ReferenceRoot::from_word(&word, self.names) {
            return self.parse_path(token, root);
        }
        if self.is_next_sign("(") {
            return self.parse_foreign_function(token, &word);
        }
        self.note_unknown_root(token, &word)
    }

    /// Reports an unknown first word of a path, and skips the path.
    fn note_unknown_root(&mut self, token: &ExpressionToken, word: &str) -> ParseResult {
        let known_names = ReferenceRoot::ALL.iter().map(|(word, _)| *word);
        let known_names = known_names.chain(self.names.iter().copied());
        let counterpart = words::find_value_counterpart("root", word);
        let suggestion = counterpart.or_else(|| nearest::find_nearest(word, known_names));
        let message = format!("`{}` stands for nothing here", shorten_for_message(word));
        let fault = ExpressionFault::new(FaultKind::UnknownName, token.span(), message);
        let (_, end) = self.parse_segments(token.end)?;
        let fault = if let Some(suggestion) = suggestion {
            let rest = self.source_slice((token.end, end));
            match rest.split_once(".outputs") {
                Some((id, _)) => fault.with_suggestion(format!(
                    "did you mean `{suggestion}{}.summary`, or a field of its `result`?",
                    shorten_for_message(id)
                )),
                None => fault.with_word_suggestion(token.span(), suggestion).with_suggestion(
                    format!("did you mean `{suggestion}{}`?", shorten_for_message(&rest)),
                ),
            }
        } else {
            let words = ReferenceRoot::ALL.iter().map(|(word, _)| format!("`{word}`"));
            let words = words.collect::<Vec<_>>().join(", ");
            fault.with_suggestion(format!("quote it if it is text; names begin with {words}"))
        };
        self.note_fault(fault);
        let mut node = self.add_literal_node(token, Value::Null);
        node.end = end;
        node.is_constant = false;
        Ok(node)
    }

    fn parse_path(&mut self, token: &ExpressionToken, root: ReferenceRoot) -> ParseResult {
        let (mut path, end) = self.parse_segments(token.end)?;
        if root == ReferenceRoot::Steps {
            self.check_step_segment(token, &mut path, end);
        }
        if root == ReferenceRoot::Secrets && path.len() != 1 {
            let message = "a secret is `secrets.` and its name, nothing less and nothing more";
            self.note_new_fault(FaultKind::Secret, (token.start, end), message);
        }
        let path: Vec<_> = path.into_iter().map(|(segment, _)| segment).collect();
        let reference = Reference {
            root,
            path,
            offset: token.start,
            length: end - token.start,
            is_guarded: false,
        };
        Ok(self.add_reference_node(reference))
    }

    /// Checks that the id of a step is written out, so that the steps an expression needs are known beforehand. Drops an
    /// `output` straight after the id, which changes nothing.
    fn check_step_segment(
        &mut self,
        token: &ExpressionToken,
        path: &mut Vec<(Segment, bool)>,
        end: usize,
    ) {
        if path.is_empty() {
            let message = "`steps` needs the id of a step, written out";
            let fault = ExpressionFault::new(FaultKind::Syntax, (token.start, end), message);
            self.note_fault(fault.with_suggestion("write `steps.ID`, or `steps[\"ID\"]`"));
        }
        let dotted_output = (Segment::Key("output".into()), true);
        if path.get(1) == Some(&dotted_output) {
            path.remove(1);
        }
    }

    fn add_reference_node(&mut self, reference: Reference) -> ExpressionNode {
        let (start, end) = reference.span();
        let existing = self.references.iter().position(|known| known.is_same_path(&reference));
        let number = existing.unwrap_or(self.references.len());
        if existing.is_none() {
            self.references.push(reference);
        }
        ExpressionNode {
            text: format!("_r{number}"),
            depth: 0,
            start,
            end,
            reference: Some(number),
            is_constant: false,
        }
    }

    /// Parses the literal segments of a path, each with whether it follows a dot, and returns the end of the last one.
    fn parse_segments(&mut self, start: usize) -> ParseResult<(Vec<(Segment, bool)>, usize)> {
        let (mut path, mut end) = (Vec::new(), start);
        loop {
            if self.is_next_sign(".") && !self.is_method() {
                path.push((self.parse_dot_segment()?, true));
            } else if let Some(segment) = self.parse_subscript() {
                path.push((segment, false));
            } else {
                return Ok((path, end));
            }
            end = self.last_token_end();
        }
    }

    /// Takes a dot, and the name or index after it.
    fn parse_dot_segment(&mut self) -> ParseResult<Segment> {
        self.next_token();
        match self.next_token().filter(|token| token.kind == TokenKind::Word) {
            Some(token) => Ok(Segment::from_word(&self.token_text(&token))),
            None => self.halt_at_missing("a name or an index"),
        }
    }

    /// Takes `["name"]` or `[3]` if it comes next.
    fn parse_subscript(&mut self) -> Option<Segment> {
        if !self.is_next_sign("[") {
            return None;
        }
        let segment = match &self.peek_second()?.kind {
            TokenKind::Text(text) => Segment::Key(text.clone()),
            TokenKind::Number(number) => Segment::Index(usize::try_from(number.as_u64()?).ok()?),
            _ => return None,
        };
        self.take_subscript().then_some(segment)
    }

    /// Parses the further segments after a value, which only the evaluation can follow.
    fn parse_postfix(&mut self, mut node: ExpressionNode) -> ParseResult {
        loop {
            if self.is_next_sign(".") {
                if self.is_method() {
                    node = self.parse_foreign_method(&node)?;
                    continue;
                }
                let key = match self.parse_dot_segment()? {
                    Segment::Key(key) => Value::from(key),
                    Segment::Index(index) => Value::from(index),
                };
                let key = self.add_constant(key);
                node = self.join_nodes(format!("{}[{key}]", node.text), [&node])?;
            } else if self.is_next_sign("[") {
                node = self.parse_computed_subscript(node)?;
            } else if self.is_next_sign("(") {
                return self.halt_at_missing("an operator or the end");
            } else {
                return Ok(node);
            }
        }
    }

    /// Parses `[expression]` or `[from:to]`.
    fn parse_computed_subscript(&mut self, node: ExpressionNode) -> ParseResult {
        self.next_token();
        let none_text = "none".to_owned();
        let mut parts = vec![node];
        let mut bounds = [none_text.clone(), none_text];
        if !self.is_next_sign(":") {
            let index = self.parse_conditional()?;
            bounds[0].clone_from(&index.text);
            parts.push(index);
        }
        let slice = self.take_sign(":").is_some();
        if slice && !self.is_next_sign("]") {
            let index = self.parse_conditional()?;
            bounds[1].clone_from(&index.text);
            parts.push(index);
        }
        self.expect_sign("]")?;
        let [from, to] = bounds;
        let text = if slice {
            format!("_slice({}, {from}, {to})", parts[0].text)
        } else {
            format!("{}[{from}]", parts[0].text)
        };
        self.join_nodes(text, &parts)
    }

    fn parse_group(&mut self, open: &ExpressionToken) -> ParseResult {
        let mut node = self.parse_conditional()?;
        self.expect_sign(")")?;
        (node.start, node.end) = (open.start, self.last_token_end());
        Ok(node)
    }

    fn parse_list(&mut self, open: &ExpressionToken) -> ParseResult {
        let mut nodes = Vec::new();
        while self.has_next_item(nodes.len(), "]")? {
            nodes.push(self.parse_conditional()?);
        }
        let mut node = self.join_nodes(format!("[{}]", join_translations(&nodes, ", ")), &nodes)?;
        node.start = open.start;
        Ok(node)
    }

    /// Whether another item comes before the sign `close`. Takes the comma after the `count` items before, or `close`.
    fn has_next_item(&mut self, count: usize, close: &'static str) -> ParseResult<bool> {
        if count > 0 && !self.is_next_sign(close) {
            self.expect_sign(",")?;
        }
        Ok(self.take_sign(close).is_none())
    }

    fn parse_map(&mut self, open: &ExpressionToken) -> ParseResult {
        let (mut entries, mut nodes) = (Vec::new(), Vec::new());
        while self.has_next_item(nodes.len(), "}")? {
            let Some(TokenKind::Text(key)) = self.peek().map(|token| token.kind) else {
                return self.halt_at_missing("a key in quotes");
            };
            self.next_token();
            let key = self.add_constant(key.into());
            self.expect_sign(":")?;
            let node = self.parse_conditional()?;
            entries.push(format!("{key}: {}", node.text));
            nodes.push(node);
        }
        let mut node = self.join_nodes(format!("{{{}}}", entries.join(", ")), &nodes)?;
        node.start = open.start;
        Ok(node)
    }
}
