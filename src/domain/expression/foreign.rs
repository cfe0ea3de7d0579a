//! Operators, functions and methods of other languages: each is a fault that says how to write it here. Parsing goes on
//! after it, so that all faults are found at once.

use super::{
    fault::{ExpressionFault, FaultKind},
    filters,
    parse::{Node, ParseResult, Parser},
    token::{Token, cut},
};
use crate::grammar::foreign as words;

impl Parser<'_> {
    /// Notes an operator of another language, for which `meant` is the one of ours.
    pub(super) fn foreign_operator(&mut self, token: &Token, written: &str, meant: &str) {
        let message = format!("`{written}` is not an operator here");
        let fault = foreign(token, &message, &format!("write `{meant}`"));
        self.note(fault.replace(token.span(), self.spaced(token, meant)));
    }

    /// `meant` with a space where it would otherwise merge with its neighbours.
    fn spaced(&self, token: &Token, meant: &str) -> String {
        let before = self.source.get(..token.start).unwrap_or_default();
        let after = self.source.get(token.end..).unwrap_or_default();
        let space = |wanted: bool| if wanted { " " } else { "" };
        format!(
            "{}{meant}{}",
            space(!before.ends_with(char::is_whitespace)),
            space(!after.starts_with(char::is_whitespace))
        )
    }

    /// Parses `!x` after its sign.
    pub(super) fn foreign_not(&mut self, token: &Token) -> ParseResult {
        let mut operand = self.deeper(Self::signed)?;
        let written = self.between((operand.start, operand.end));
        let fault = foreign(token, "`!` is not an operator here", "write `not`");
        let instead = format!("(not {written})");
        self.note(fault.replace((token.start, operand.end), instead));
        operand.start = token.start;
        self.join(format!("(not {})", operand.text), [&operand])
    }

    /// Notes `a ? b : c` and `a ?? b`, where an expression should have ended.
    pub(super) fn refuse_question_mark(&mut self, node: &Node) -> ParseResult<()> {
        let before = self.between((node.start, node.end));
        if let Some(token) = self.sign("??") {
            let other = self.expression()?;
            let value = self.between((other.start, other.end));
            let instead = format!("({before}) | default({value})");
            let fault = foreign(
                &token,
                "`??` is not an operator here",
                "write `| default(…)`",
            );
            self.note(fault.replace((node.start, other.end), instead));
        } else if let Some(token) = self.sign("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            let yes = self.between((yes.start, yes.end));
            let no_text = self.between((no.start, no.end));
            let instead = format!("(({yes}) if {before} else {no_text})");
            let message = "`? :` is not an operator here";
            let fault = foreign(&token, message, "write `… if … else …`");
            self.note(fault.replace((node.start, no.end), instead));
        }
        Ok(())
    }

    /// Parses `name(…)` after its name, and notes that there are no functions.
    pub(super) fn foreign_function(&mut self, token: &Token, name: &str) -> ParseResult {
        let start = self.literal(token, serde_json::Value::Null);
        let arguments = self.grouped_arguments()?;
        let instead = match arguments.as_slice() {
            [] => None,
            [subject, rest @ ..] => instead(subject, name, rest),
        };
        let message = format!("there is no function `{}`", cut(name));
        self.call_fault(token.start, message, instead);
        Ok(self.after_call(start))
    }

    /// Parses `value.name(…)`, and notes that there are no methods.
    pub(super) fn foreign_method(&mut self, node: &Node) -> ParseResult {
        self.next();
        let name = self
            .next()
            .map(|token| self.written(&token))
            .unwrap_or_default();
        let arguments = self.grouped_arguments()?;
        let instead = instead(&self.grouped_text(node), &name, &arguments);
        let message = format!("`.{}(…)`: there are no methods here", cut(&name));
        self.call_fault(node.start, message, instead);
        Ok(self.after_call(node.clone()))
    }

    fn call_fault(&mut self, start: usize, message: String, instead: Option<String>) {
        let span = (start, self.last_end());
        let fault = ExpressionFault::new(FaultKind::Foreign, span, message);
        let fault = if let Some(instead) = instead {
            let suggestion = format!("write `{}`", cut(&instead));
            fault.suggest(suggestion).replace(span, instead)
        } else {
            let filters: Vec<_> = filters::names().collect();
            let filters = filters.join(", ");
            fault.suggest(format!("write `value | filter`; the filters are {filters}"))
        };
        self.note(fault);
    }

    /// A node in place of a call that cannot be made, so that parsing goes on.
    fn after_call(&self, mut node: Node) -> Node {
        node.end = self.last_end();
        node.reference = None;
        node.constant = false;
        node
    }

    /// Parses arguments: the source of each, in parentheses unless it is a single value.
    fn grouped_arguments(&mut self) -> ParseResult<Vec<String>> {
        let arguments = self.arguments()?;
        let texts = arguments.iter();
        Ok(texts
            .map(|argument| self.grouped_text(&argument.node))
            .collect())
    }

    /// The source of a node, in parentheses unless it is a single value.
    fn grouped_text(&self, node: &Node) -> String {
        let text = self.between((node.start, node.end));
        let single = node.reference.is_some() || node.constant;
        let enclosed = text.starts_with(['[', '{']) && node.depth > 0;
        if single || enclosed {
            text
        } else {
            format!("({text})")
        }
    }

    /// Stops at a token that cannot follow an expression.
    pub(super) fn stray<T>(&mut self, token: &Token) -> ParseResult<T> {
        let written = self.written(token);
        let message = format!("`{}` should not stand here", cut(&written));
        let fault = ExpressionFault::new(FaultKind::Syntax, token.span(), message);
        self.halt(fault.suggest("an operator is missing before it, or it is too much"))
    }

    /// Stops at a token where a value should begin.
    pub(super) fn no_value<T>(&mut self, token: &Token) -> ParseResult<T> {
        let message = format!(
            "a value should stand here, not `{}`",
            cut(&self.written(token))
        );
        self.stop(token.span(), &message)
    }
}

fn foreign(token: &Token, message: &str, suggestion: &str) -> ExpressionFault {
    ExpressionFault::new(FaultKind::Foreign, token.span(), message).suggest(suggestion)
}

/// The expression that does the same as a call of another language, if there is one.
fn instead(subject: &str, name: &str, arguments: &[String]) -> Option<String> {
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
    let filter = filters::Filter::of(words::value("filter", name).unwrap_or(&lower))?;
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
