//! Parses the filters and tests after a value, and their arguments.

use serde_json::Value;

use super::{
    fault::{ExpressionFault, FaultKind},
    filters::{self, FilterArgument},
    operand,
    parse::{ExpressionNode, ParseResult, Parser},
    token::{ExpressionToken, TokenKind, shorten_for_message},
};
use crate::{grammar::foreign as words, nearest};

impl Parser<'_> {
    /// Parses the filters and tests after a value.
    pub(super) fn parse_filters_and_tests(&mut self, mut node: ExpressionNode) -> ParseResult {
        loop {
            if self.take_sign("|").is_some() {
                node = self.parse_filter(&node)?;
            } else if self.take_word("is").is_some() {
                node = self.parse_test(&node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn parse_filter(&mut self, node: &ExpressionNode) -> ParseResult {
        let token = self.expect_word("the name of a filter")?;
        let filter_name = self.token_text(&token);
        let arguments = self.parse_arguments()?;
        let Some(filter) = filters::JinjaFilter::find_by_name(&filter_name) else {
            self.note_unknown_filter(&token, "filter", filters::filter_names());
            return Ok(node.clone());
        };
        if let Err(message) = filter.check_arguments(&arguments) {
            self.note_new_fault(FaultKind::Filter, (token.start, self.last_token_end()), message);
        }
        self.check_attribute_test(filter, &arguments);
        let subject = self.translate_subject(node, filter.is_default());
        let text = format!("({subject}|{}({}))", filter.name, translate_arguments(&arguments));
        self.join_nodes(text, subject_and_arguments(node, &arguments))
    }

    fn parse_test(&mut self, node: &ExpressionNode) -> ParseResult {
        let negation = self.take_word("not").map_or("", |_| "not ");
        let token = self.expect_word("the name of a test")?;
        let test_name = self.token_text(&token);
        let arguments = if self.is_next_sign("(") {
            self.parse_arguments()?
        } else {
            self.parse_bare_argument()?
        };
        let Some(test) = filters::JinjaTest::find_by_name(&test_name) else {
            self.note_unknown_filter(&token, "test", filters::test_names());
            return Ok(node.clone());
        };
        if arguments.len() != test.arguments || arguments.iter().any(|a| a.name.is_some()) {
            let message = format!("the test `{test_name}` takes {} values", test.arguments);
            self.note_new_fault(FaultKind::Filter, (token.start, self.last_token_end()), message);
        }
        let subject = self.translate_subject(node, test.is_presence_test());
        let template =
            format!("({subject} is {negation}{test_name}({}))", translate_arguments(&arguments));
        self.join_nodes(template, subject_and_arguments(node, &arguments))
    }

    /// Parses the value of a test without parentheses: `is divisibleby 3`.
    fn parse_bare_argument(&mut self) -> ParseResult<Vec<FilterArgument>> {
        let has_argument = self.peek().is_some_and(|token| match token.kind {
            TokenKind::Text(_) | TokenKind::Number(_) => true,
            TokenKind::Word => !operand::KEYWORDS.contains(&self.token_text(&token).as_str()),
            TokenKind::Sign(_) => false,
        });
        let mut arguments = Vec::new();
        if has_argument {
            let (name, node) = (None, self.parse_value()?);
            arguments.push(FilterArgument { name, node });
        }
        Ok(arguments)
    }

    /// Parses arguments in parentheses, if there are any.
    pub(super) fn parse_arguments(&mut self) -> ParseResult<Vec<FilterArgument>> {
        let mut arguments = Vec::new();
        if self.take_sign("(").is_none() {
            return Ok(arguments);
        }
        while self.take_sign(")").is_none() {
            if !arguments.is_empty() {
                self.expect_sign(",")?;
            }
            let (name, node) = (self.take_argument_name(), self.parse_conditional()?);
            arguments.push(FilterArgument { name, node });
        }
        Ok(arguments)
    }

    /// Takes `name=` if it comes next.
    fn take_argument_name(&mut self) -> Option<String> {
        let token = self.peek().filter(|token| token.kind == TokenKind::Word)?;
        if self.peek_second()?.kind != TokenKind::Sign("=") {
            return None;
        }
        self.next_token();
        self.next_token();
        Some(self.token_text(&token))
    }

    fn expect_word(&mut self, expected: &str) -> ParseResult<ExpressionToken> {
        let Some(token) = self.peek().filter(|token| token.kind == TokenKind::Word) else {
            return self.halt_at_missing(expected);
        };
        self.next_token();
        Ok(token)
    }

    /// The translation of the subject. With `may_be_missing`, a path without a value is undefined instead of a fault.
    fn translate_subject(&mut self, node: &ExpressionNode, may_be_missing: bool) -> String {
        let Some(number) = node.reference.filter(|_| may_be_missing) else {
            return node.text.clone();
        };
        if let Some(reference) = self.references.get_mut(number) {
            reference.is_guarded = true;
        }
        format!("_u{number}")
    }

    /// Checks the name of a test that `selectattr` or `rejectattr` gets as a literal.
    fn check_attribute_test(
        &mut self,
        filter: &filters::JinjaFilter,
        arguments: &[FilterArgument],
    ) {
        let (Some(tests), Some(argument)) = (filter.attribute_tests(), arguments.get(1)) else {
            return;
        };
        let node = &argument.node;
        let Some(Value::String(test)) = self.literal_value(node).cloned() else {
            return;
        };
        if !tests.contains(&test.as_str()) {
            let text_span = (node.start + 1, node.end.saturating_sub(1));
            let message = format!("`{}` has no test `{}`", filter.name, shorten_for_message(&test));
            let fault = ExpressionFault::new(FaultKind::Filter, (node.start, node.end), message);
            self.note_with_suggestion(fault, text_span, &test, "test", tests);
        } else if arguments.len() == 2 {
            let message = format!("the test `{test}` needs a value to compare with");
            self.note_new_fault(FaultKind::Filter, (node.start, self.last_token_end()), message);
        }
    }

    fn note_unknown_filter<'n>(
        &mut self,
        token: &ExpressionToken,
        kind: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let name = self.token_text(token);
        let known: Vec<_> = known.collect();
        let message = format!("there is no {kind} `{}`", shorten_for_message(&name));
        let fault = ExpressionFault::new(FaultKind::Filter, token.span(), message);
        self.note_with_suggestion(fault, token.span(), &name, kind, &known);
    }

    /// Notes a fault about the word `name` at `span`; suggests the similar one of `known`, or else lists all of them.
    fn note_with_suggestion(
        &mut self,
        fault: ExpressionFault,
        span: (usize, usize),
        name: &str,
        kind: &str,
        known: &[&str],
    ) {
        let counterpart =
            words::find_value_counterpart(kind, name).filter(|word| known.contains(word));
        if let Some(advice) = words::find_filter_advice(name).filter(|_| kind == "filter") {
            return self.note_fault(fault.with_suggestion(advice));
        }
        let suggestion = counterpart.or_else(|| nearest::find_nearest(name, known.iter().copied()));
        self.note_fault(match suggestion {
            Some(suggestion) => fault.with_word_suggestion(span, suggestion),
            None => fault.with_suggestion(format!("the {kind}s are {}", known.join(", "))),
        });
    }
}

/// The subject of a filter or test, followed by its arguments.
fn subject_and_arguments<'n>(
    subject: &'n ExpressionNode,
    arguments: &'n [FilterArgument],
) -> impl Iterator<Item = &'n ExpressionNode> {
    let arguments = arguments.iter().map(|argument| &argument.node);
    std::iter::once(subject).chain(arguments)
}

/// The translation of arguments.
fn translate_arguments(arguments: &[FilterArgument]) -> String {
    let texts: Vec<_> = arguments.iter().map(FilterArgument::to_source).collect();
    texts.join(", ")
}
