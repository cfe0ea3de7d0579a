//! Operators, functions and methods of other languages: each is a fault that says how to write it here. Parsing goes on
//! after it, so that all faults are found at once.

use super::{
    fault::{ExpressionFault, FaultKind},
    filters,
    parse::{ExpressionNode, ParseResult, Parser},
    token::{ExpressionToken, shorten_for_message},
};
use crate::grammar::foreign as words;

impl Parser<'_> {
    /// Notes an operator of another language, for which `replacement` is the one of ours.
    pub(super) fn note_foreign_operator(
        &mut self,
        token: &ExpressionToken,
        operator: &str,
        replacement: &str,
    ) {
        let message = format!("`{operator}` is not an operator here");
        let fault = foreign_token_fault(token, &message, &format!("write `{replacement}`"));
        self.note_fault(
            fault.with_replacement(token.span(), self.pad_operator(token, replacement)),
        );
    }

    /// `replacement` with a space where it would otherwise merge with its neighbours.
    fn pad_operator(&self, token: &ExpressionToken, replacement: &str) -> String {
        let before = self.source.get(..token.start).unwrap_or_default();
        let after = self.source.get(token.end..).unwrap_or_default();
        let pad_if = |is_needed: bool| if is_needed { " " } else { "" };
        format!(
            "{}{replacement}{}",
            pad_if(!before.ends_with(char::is_whitespace)),
            pad_if(!after.starts_with(char::is_whitespace))
        )
    }

    /// Parses `!x` after its sign.
    pub(super) fn parse_foreign_not(&mut self, token: &ExpressionToken) -> ParseResult {
        let mut operand = self.parse_nested(Self::parse_signed)?;
        let operand_text = self.source_slice((operand.start, operand.end));
        let fault = foreign_token_fault(token, "`!` is not an operator here", "write `not`");
        let replacement = format!("(not {operand_text})");
        self.note_fault(fault.with_replacement((token.start, operand.end), replacement));
        operand.start = token.start;
        self.join_nodes(format!("(not {})", operand.text), [&operand])
    }

    /// Notes `a ? b : c` and `a ?? b`, where an expression should have ended.
    pub(super) fn refuse_question_mark(&mut self, node: &ExpressionNode) -> ParseResult<()> {
        let condition = self.source_slice((node.start, node.end));
        if let Some(token) = self.take_sign("??") {
            let fallback = self.parse_conditional()?;
            let value = self.source_slice((fallback.start, fallback.end));
            let replacement = format!("({condition}) | default({value})");
            let fault =
                foreign_token_fault(&token, "`??` is not an operator here", "write `| default(…)`");
            self.note_fault(fault.with_replacement((node.start, fallback.end), replacement));
        } else if let Some(token) = self.take_sign("?") {
            let then_node = self.parse_conditional()?;
            self.expect_sign(":")?;
            let else_node = self.parse_conditional()?;
            let then_text = self.source_slice((then_node.start, then_node.end));
            let else_text = self.source_slice((else_node.start, else_node.end));
            let replacement = format!("(({then_text}) if {condition} else {else_text})");
            let message = "`? :` is not an operator here";
            let fault = foreign_token_fault(&token, message, "write `… if … else …`");
            self.note_fault(fault.with_replacement((node.start, else_node.end), replacement));
        }
        Ok(())
    }

    /// Parses `name(…)` after its name, and notes that there are no functions.
    pub(super) fn parse_foreign_function(
        &mut self,
        token: &ExpressionToken,
        name: &str,
    ) -> ParseResult {
        let start = self.add_literal_node(token, serde_json::Value::Null);
        let arguments = self.parse_grouped_arguments()?;
        let replacement = match arguments.as_slice() {
            [] => None,
            [subject, rest @ ..] => equivalent_expression(subject, name, rest),
        };
        let message = format!("there is no function `{}`", shorten_for_message(name));
        self.note_call_fault(token.start, message, replacement);
        Ok(self.placeholder_after_call(start))
    }

    /// Parses `value.name(…)`, and notes that there are no methods.
    pub(super) fn parse_foreign_method(&mut self, node: &ExpressionNode) -> ParseResult {
        self.next_token();
        let name = self.next_token().map(|token| self.token_text(&token)).unwrap_or_default();
        let arguments = self.parse_grouped_arguments()?;
        let replacement =
            equivalent_expression(&self.parenthesized_source(node), &name, &arguments);
        let message = format!("`.{}(…)`: there are no methods here", shorten_for_message(&name));
        self.note_call_fault(node.start, message, replacement);
        Ok(self.placeholder_after_call(node.clone()))
    }

    fn note_call_fault(&mut self, start: usize, message: String, replacement: Option<String>) {
        let span = (start, self.last_token_end());
        let fault = ExpressionFault::new(FaultKind::Foreign, span, message);
        let fault = if let Some(replacement) = replacement {
            let suggestion = format!("write `{}`", shorten_for_message(&replacement));
            fault.with_suggestion(suggestion).with_replacement(span, replacement)
        } else {
            let filters: Vec<_> = filters::filter_names().collect();
            let filters = filters.join(", ");
            fault.with_suggestion(format!("write `value | filter`; the filters are {filters}"))
        };
        self.note_fault(fault);
    }

    /// A node in place of a call that cannot be made, so that parsing goes on.
    fn placeholder_after_call(&self, mut node: ExpressionNode) -> ExpressionNode {
        node.end = self.last_token_end();
        node.reference = None;
        node.is_constant = false;
        node
    }

    /// Parses arguments: the source of each, in parentheses unless it is a single value.
    fn parse_grouped_arguments(&mut self) -> ParseResult<Vec<String>> {
        let arguments = self.parse_arguments()?;
        let texts = arguments.iter();
        Ok(texts.map(|argument| self.parenthesized_source(&argument.node)).collect())
    }

    /// The source of a node, in parentheses unless it is a single value.
    fn parenthesized_source(&self, node: &ExpressionNode) -> String {
        let text = self.source_slice((node.start, node.end));
        let is_single = node.reference.is_some() || node.is_constant;
        let is_enclosed = text.starts_with(['[', '{']) && node.depth > 0;
        if is_single || is_enclosed { text } else { format!("({text})") }
    }

    /// Stops at a token that cannot follow an expression.
    pub(super) fn stop_at_stray_token<T>(&mut self, token: &ExpressionToken) -> ParseResult<T> {
        let token_text = self.token_text(token);
        let message = format!("`{}` should not stand here", shorten_for_message(&token_text));
        let fault = ExpressionFault::new(FaultKind::Syntax, token.span(), message);
        self.halt_with_fault(
            fault.with_suggestion("an operator is missing before it, or it is too much"),
        )
    }

    /// Stops at a token where a value should begin.
    pub(super) fn stop_at_missing_value<T>(&mut self, token: &ExpressionToken) -> ParseResult<T> {
        let message = format!(
            "a value should stand here, not `{}`",
            shorten_for_message(&self.token_text(token))
        );
        self.halt_with_message(token.span(), &message)
    }
}

fn foreign_token_fault(
    token: &ExpressionToken,
    message: &str,
    suggestion: &str,
) -> ExpressionFault {
    ExpressionFault::new(FaultKind::Foreign, token.span(), message).with_suggestion(suggestion)
}

/// The expression that does the same as a call of another language, if there is one.
fn equivalent_expression(subject: &str, name: &str, arguments: &[String]) -> Option<String> {
    match (name, arguments) {
        ("includes" | "contains" | "has", [item]) => return Some(format!("({item} in {subject})")),
        ("startsWith" | "startswith", [start]) => {
            return Some(format!("({subject} is startingwith({start}))"));
        }
        ("endsWith" | "endswith", [end]) => {
            return Some(format!("({subject} is endingwith({end}))"));
        }
        ("defined", []) => return Some(format!("({subject} is defined)")),
        ("missing", []) => return Some(format!("({subject} is not defined)")),
        _ => {}
    }
    let lower = name.to_lowercase();
    let filter = filters::JinjaFilter::find_by_name(
        words::find_value_counterpart("filter", name).unwrap_or(&lower),
    )?;
    let (least, most) = filter.arguments;
    if arguments.len() < least || arguments.len() > most {
        return None;
    }
    let arguments = match arguments {
        [] => String::new(),
        some => format!("({})", some.join(", ")),
    };
    Some(format!("({subject} | {}{arguments})", filter.name))
}
