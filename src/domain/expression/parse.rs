//! The parser: translates an expression to the text of a minijinja expression. Our own parser gives every fault its place,
//! every path its name, and every operation its guard: the translated text holds no literal and no name of the author's,
//! only numbered constants and references.
//!
//! Operators from loose to tight: `a if c else b`, `or`, `and`, `not`, comparisons and `in`, `+ -`, `~`, `* / // %`,
//! `**`, `-`, then filters (`|`) and tests (`is`).

use serde_json::Value;

use super::{
    fault::{ExpressionFault, FaultKind},
    reference::{Reference, ReferenceRoot},
    token::{ExpressionToken, TokenKind, Tokens, shorten_for_message},
};
use crate::limits;

/// Parsing cannot go on; the fault is noted already.
pub(super) struct ParseHalted;

pub(super) type ParseResult<T = ExpressionNode> = Result<T, ParseHalted>;

/// A parsed part of an expression.
#[derive(Clone, Debug)]
pub(super) struct ExpressionNode {
    /// Its translation for minijinja.
    pub(super) text: String,
    /// The depth of nesting of the translation.
    pub(super) depth: usize,
    /// The first byte in the source.
    pub(super) start: usize,
    /// The byte after the last.
    pub(super) end: usize,
    /// The number of the reference, if the part is a single path.
    pub(super) reference: Option<usize>,
    /// Whether the part is a literal, which a comparison need not be charged for.
    pub(super) is_constant: bool,
}

/// A parsed expression.
#[derive(Debug)]
pub(super) struct ParsedExpression {
    pub(super) text: String,
    pub(super) references: Vec<Reference>,
    pub(super) constants: Vec<Value>,
    /// Whether the expression is a single path.
    pub(super) is_path: bool,
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    tokens: &'a [ExpressionToken],
    position: usize,
    end: usize,
    pub(super) names: &'a [&'a str],
    pub(super) references: Vec<Reference>,
    constants: Vec<Value>,
    faults: Vec<ExpressionFault>,
    nesting: usize,
}

/// Parses one expression; the error has all its faults.
pub(super) fn parse(
    source: &str,
    tokens: &Tokens,
    names: &[&str],
) -> Result<ParsedExpression, Vec<ExpressionFault>> {
    let mut parser = Parser::new(source, tokens, names);
    let node = parser.parse_all();
    let node = node.ok().filter(|_| parser.faults.is_empty());
    let Some(node) = node else {
        return Err(parser.faults);
    };
    Ok(ParsedExpression {
        is_path: node.reference.is_some(),
        text: node.text,
        references: parser.references,
        constants: parser.constants,
    })
}

/// Every path that is written in an expression, also in one that cannot be parsed to its end.
pub(super) fn collect_references(source: &str, tokens: &Tokens, names: &[&str]) -> Vec<Reference> {
    let mut parser = Parser::new(source, tokens, names);
    // Its faults were already reported when the expression was first parsed.
    let _ = parser.parse_all();
    parser.references
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, tokens: &'a Tokens, names: &'a [&'a str]) -> Self {
        Self {
            source,
            tokens: &tokens.list,
            position: 0,
            end: tokens.end,
            names,
            references: Vec::new(),
            constants: Vec::new(),
            faults: Vec::new(),
            nesting: 0,
        }
    }
}

impl Parser<'_> {
    /// Parses the whole text.
    fn parse_all(&mut self) -> ParseResult {
        if self.tokens.is_empty() {
            return self.halt_with_message((self.end, self.end), "there is no expression here");
        }
        let node = self.parse_conditional()?;
        if let Some(token) = self.peek() {
            return self.stop_at_stray_token(&token);
        }
        if node.reference.is_none() {
            self.refuse_secrets();
        }
        Ok(node)
    }

    fn refuse_secrets(&mut self) {
        let secrets = self.references.iter();
        let secrets: Vec<_> =
            secrets.filter(|r| r.root == ReferenceRoot::Secrets).cloned().collect();
        for secret in secrets {
            let message =
                format!("nothing can be done with `{secret}`: its value is not known here");
            let fault = ExpressionFault::new(FaultKind::Secret, secret.span(), message);
            let alone =
                format!("write it alone, as `${{{{ {secret} }}}}`, inside the text that needs it");
            self.note_fault(fault.with_suggestion(alone));
        }
    }

    /// Parses `a if c else b`, the loosest operator.
    pub(super) fn parse_conditional(&mut self) -> ParseResult {
        self.parse_nested(|parser| {
            let mut node = parser.parse_disjunction()?;
            while parser.take_word("if").is_some() {
                let condition = parser.parse_disjunction()?;
                if parser.take_word("else").is_none() {
                    return parser.halt_at_missing("`else` and what the value is otherwise");
                }
                let else_node = parser.parse_conditional()?;
                let text = format!("({} if {} else {})", node.text, condition.text, else_node.text);
                node = parser.join_nodes(text, [&node, &condition, &else_node])?;
            }
            parser.refuse_question_mark(&node)?;
            Ok(node)
        })
    }

    fn parse_disjunction(&mut self) -> ParseResult {
        self.parse_logical_chain(Self::parse_conjunction, &[("or", "or"), ("||", "or")])
    }

    fn parse_conjunction(&mut self) -> ParseResult {
        self.parse_logical_chain(Self::parse_not, &[("and", "and"), ("&&", "and")])
    }

    /// Parses operands with `or`, or with `and`, between them.
    fn parse_logical_chain(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        spellings: &[(&str, &str)],
    ) -> ParseResult {
        let mut nodes = vec![operand(self)?];
        let mut operator = "";
        while let Some((token, spelling, operator_word)) = self.take_spelling(spellings) {
            if spelling != operator_word {
                self.note_foreign_operator(&token, spelling, operator_word);
            }
            operator = operator_word;
            nodes.push(operand(self)?);
        }
        self.merge_nodes(nodes, |_, nodes| {
            format!("({})", join_translations(nodes, &format!(" {operator} ")))
        })
    }

    fn parse_not(&mut self) -> ParseResult {
        let Some(token) = self.take_word("not") else {
            return self.parse_comparison();
        };
        let mut node = self.parse_nested(Self::parse_not)?;
        node.start = token.start;
        self.join_nodes(format!("(not {})", node.text), [&node])
    }

    fn parse_comparison(&mut self) -> ParseResult {
        let mut nodes = vec![self.parse_sum()?];
        let mut signs = Vec::new();
        while let Some(operator) = self.parse_comparison_operator()? {
            signs.push(operator);
            nodes.push(self.parse_sum()?);
        }
        let has_ordering = signs.iter().any(|sign| sign.starts_with(['<', '>']));
        self.merge_nodes(nodes, |parser, nodes| {
            if has_ordering {
                parser.translate_ordered_comparison(&signs, nodes)
            } else {
                translate_comparison(&signs, nodes)
            }
        })
    }

    /// Translates a comparison that needs an order; minijinja would find one between any two values.
    fn translate_ordered_comparison(&mut self, signs: &[&str], nodes: &[ExpressionNode]) -> String {
        for (sign, pair) in signs.iter().zip(nodes.windows(2)) {
            if sign.ends_with("in") {
                let fault =
                    "`in` and an order stand in one comparison: join two of them with `and`";
                self.note_new_fault(FaultKind::Syntax, (pair[0].start, pair[1].end), fault);
            } else if sign.starts_with(['<', '>']) {
                self.refuse_unordered_literals(sign, &pair[0], &pair[1]);
            }
        }
        let signs = self.add_constant(Value::from(signs.join(" ")));
        format!("_order({signs}, {})", join_translations(nodes, ", "))
    }

    /// Refuses a comparison of literals that have no order; of other operands only the evaluation knows.
    fn refuse_unordered_literals(
        &mut self,
        sign: &str,
        left: &ExpressionNode,
        right: &ExpressionNode,
    ) {
        let literal_values = [self.literal_value(left), self.literal_value(right)];
        let is_ordered = match literal_values {
            [Some(left), Some(right)] => {
                left.is_number() && right.is_number() || left.is_string() && right.is_string()
            }
            [Some(one), None] | [None, Some(one)] => one.is_number() || one.is_string(),
            [None, None] => true,
        };
        if is_ordered {
            return;
        }
        let message = format!("`{sign}` compares two numbers, or two texts");
        let fault = ExpressionFault::new(FaultKind::Syntax, (left.start, right.end), message);
        self.note_fault(fault.with_suggestion(
            "write both alike, or make a number of a text with `| int` or `| float`",
        ));
    }

    /// The value of a literal; `None` for any other part.
    pub(super) fn literal_value(&self, node: &ExpressionNode) -> Option<&Value> {
        let number = node.text.strip_prefix("_k").filter(|_| node.is_constant)?;
        self.constants.get(number.parse::<usize>().ok()?)
    }

    fn parse_comparison_operator(&mut self) -> ParseResult<Option<&'static str>> {
        let spellings = [
            ("==", "=="),
            ("!=", "!="),
            ("<=", "<="),
            (">=", ">="),
            ("<", "<"),
            (">", ">"),
            ("===", "=="),
            ("!==", "!="),
            ("=", "=="),
        ];
        if let Some((token, spelling, operator)) = self.take_spelling(&spellings) {
            if spelling != operator {
                self.note_foreign_operator(&token, spelling, operator);
            }
            let signs = ["==", "!=", "<=", ">=", "<", ">"].into_iter();
            return Ok(signs.into_iter().find(|sign| *sign == operator));
        }
        if self.take_word("in").is_some() {
            return Ok(Some("in"));
        }
        if self.take_word("not").is_none() {
            return Ok(None);
        }
        if self.take_word("in").is_some() {
            return Ok(Some("not in"));
        }
        self.halt_at_missing("`in` after `not`")
    }

    fn parse_sum(&mut self) -> ParseResult {
        let mut nodes = vec![self.parse_concatenation()?];
        let mut signs = String::new();
        while let Some((_, sign, _)) = self.take_spelling(&[("+", "+"), ("-", "-")]) {
            signs.push_str(sign);
            nodes.push(self.parse_concatenation()?);
        }
        self.merge_nodes(nodes, |parser, nodes| {
            let signs = parser.add_constant(Value::from(signs));
            format!("_sum({signs}, {})", join_translations(nodes, ", "))
        })
    }

    fn parse_concatenation(&mut self) -> ParseResult {
        let mut nodes = vec![self.parse_product()?];
        while self.take_sign("~").is_some() {
            nodes.push(self.parse_product()?);
        }
        self.merge_nodes(nodes, |_, nodes| format!("_text({})", join_translations(nodes, ", ")))
    }

    fn parse_product(&mut self) -> ParseResult {
        let signs = ["*", "/", "//", "%"];
        self.parse_arithmetic(Self::parse_power, &signs)
    }

    fn parse_power(&mut self) -> ParseResult {
        self.parse_arithmetic(Self::parse_operand, &["**"])
    }

    /// Parses operands that must be numbers, with operators between them. Jinja also multiplies texts and lists, which is a
    /// short way to fill the memory.
    fn parse_arithmetic(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        signs: &[&'static str],
    ) -> ParseResult {
        let spellings: Vec<_> = signs.iter().map(|sign| (*sign, *sign)).collect();
        let mut nodes = vec![operand(self)?];
        let mut text = String::new();
        while let Some((_, sign, _)) = self.take_spelling(&spellings) {
            if text.is_empty() {
                text = translate_number(&nodes[0]);
            }
            let node = operand(self)?;
            text = format!("{text} {sign} {}", translate_number(&node));
            nodes.push(node);
        }
        self.merge_nodes(nodes, |_, _| format!("({text})"))
    }

    /// Parses a value with its sign, and the filters and tests after it.
    pub(super) fn parse_operand(&mut self) -> ParseResult {
        let node = self.parse_signed()?;
        self.parse_filters_and_tests(node)
    }

    pub(super) fn parse_signed(&mut self) -> ParseResult {
        if let Some(token) = self.take_sign("-") {
            let mut node = self.parse_nested(Self::parse_signed)?;
            let text = format!("(-({}))", translate_number(&node));
            node.start = token.start;
            return self.join_nodes(text, [&node]);
        }
        if let Some(token) = self.take_sign("!") {
            return self.parse_foreign_not(&token);
        }
        self.parse_value()
    }
}

/// Translates an operand that must be a number: the evaluation checks it, and a fault has the operand's place.
fn translate_number(node: &ExpressionNode) -> String {
    format!("_number({}, {}, {})", node.text, node.start, node.end)
}

/// Translates comparisons that need no order.
fn translate_comparison(signs: &[&str], nodes: &[ExpressionNode]) -> String {
    let mut text = nodes[0].text.clone();
    for (sign, node) in signs.iter().zip(&nodes[1..]) {
        // A literal is as long as it is written; any other value may be large, so the comparison is charged for it.
        let operand =
            if node.is_constant { node.text.clone() } else { format!("_charge({})", node.text) };
        text = format!("{text} {sign} {operand}");
    }
    format!("({text})")
}

/// The translations of `nodes`, with `separator` between them.
pub(super) fn join_translations(nodes: &[ExpressionNode], separator: &str) -> String {
    let texts: Vec<_> = nodes.iter().map(|node| node.text.as_str()).collect();
    texts.join(separator)
}

/// The tokens, nodes and faults that the parsing methods share.
impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<ExpressionToken> {
        self.tokens.get(self.position).cloned()
    }

    /// The token after the next one.
    pub(super) fn peek_second(&self) -> Option<&ExpressionToken> {
        self.tokens.get(self.position + 1)
    }

    /// Whether `.name(` comes next: a call of a method.
    pub(super) fn is_method(&self) -> bool {
        let second_token = self.tokens.get(self.position + 2);
        let has_parenthesis = second_token.is_some_and(|token| token.kind == TokenKind::Sign("("));
        has_parenthesis && self.peek_second().is_some_and(|token| token.kind == TokenKind::Word)
    }

    /// Takes `[`, one token and `]`, if these come next.
    pub(super) fn take_subscript(&mut self) -> bool {
        let closing = self.tokens.get(self.position + 2);
        let is_closed = closing.is_some_and(|token| token.kind == TokenKind::Sign("]"));
        self.position += if is_closed { 3 } else { 0 };
        is_closed
    }

    pub(super) fn next_token(&mut self) -> Option<ExpressionToken> {
        let token = self.peek();
        self.position += usize::from(token.is_some());
        token
    }

    /// The end of the last token that was taken.
    pub(super) fn last_token_end(&self) -> usize {
        let last = self.position.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |token| token.end)
    }

    /// The text of a token in the source.
    pub(super) fn token_text(&self, token: &ExpressionToken) -> String {
        self.source_slice(token.span())
    }

    /// A part of the source.
    pub(super) fn source_slice(&self, (start, end): (usize, usize)) -> String {
        self.source.get(start..end).unwrap_or_default().to_owned()
    }

    /// Takes the next token if it is this word.
    pub(super) fn take_word(&mut self, word: &str) -> Option<ExpressionToken> {
        let token = self.peek()?;
        let is_match = token.kind == TokenKind::Word && self.token_text(&token) == word;
        is_match.then(|| self.next_token()).flatten()
    }

    /// Takes the next token if it is this sign.
    pub(super) fn take_sign(&mut self, sign: &'static str) -> Option<ExpressionToken> {
        let token = self.peek()?;
        (token.kind == TokenKind::Sign(sign)).then(|| self.next_token()).flatten()
    }

    pub(super) fn is_next_sign(&self, sign: &'static str) -> bool {
        self.peek().is_some_and(|token| token.kind == TokenKind::Sign(sign))
    }

    /// Takes the next token if it is one of these words or signs; returns it with its spelling and its meaning.
    fn take_spelling<'s>(
        &mut self,
        spellings: &[(&'s str, &'s str)],
    ) -> Option<(ExpressionToken, &'s str, &'s str)> {
        let token = self.peek()?;
        if matches!(token.kind, TokenKind::Text(_) | TokenKind::Number(_)) {
            return None;
        }
        let text = self.token_text(&token);
        let spelling = spellings.iter().find(|(spelling, _)| *spelling == text)?;
        self.next_token();
        Some((token, spelling.0, spelling.1))
    }

    /// Adds a constant and returns its name in the translation.
    pub(super) fn add_constant(&mut self, value: Value) -> String {
        self.constants.push(value);
        format!("_k{}", self.constants.len() - 1)
    }

    /// Parses a nested part, within the limit of nesting.
    pub(super) fn parse_nested(
        &mut self,
        parse: impl FnOnce(&mut Self) -> ParseResult,
    ) -> ParseResult {
        self.nesting += 1;
        if self.nesting > limits::EXPRESSION_DEPTH_MAX {
            return self.stop_at_nesting_limit();
        }
        let node = parse(self);
        self.nesting -= 1;
        node
    }

    /// Makes one node with the translation `text` of several, which are in the order of the source.
    pub(super) fn join_nodes<'n>(
        &mut self,
        text: String,
        parts: impl IntoIterator<Item = &'n ExpressionNode>,
    ) -> ParseResult {
        let (mut start, mut depth) = (None, 0);
        for part in parts {
            start.get_or_insert(part.start);
            depth = depth.max(part.depth);
        }
        if depth >= limits::EXPRESSION_DEPTH_MAX {
            return self.stop_at_nesting_limit();
        }
        Ok(ExpressionNode {
            text,
            depth: depth + 1,
            start: start.unwrap_or(0),
            end: self.last_token_end(),
            reference: None,
            is_constant: false,
        })
    }

    /// The only one of `nodes`, or one node with the translation that `translate` makes of them.
    fn merge_nodes(
        &mut self,
        mut nodes: Vec<ExpressionNode>,
        translate: impl FnOnce(&mut Self, &[ExpressionNode]) -> String,
    ) -> ParseResult {
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let text = translate(self, &nodes);
        self.join_nodes(text, &nodes)
    }

    fn stop_at_nesting_limit<T>(&mut self) -> ParseResult<T> {
        let max_depth = limits::EXPRESSION_DEPTH_MAX;
        let message = format!("the expression is nested more than {max_depth} levels deep");
        let end = self.last_token_end();
        self.halt_with_fault(ExpressionFault::new(FaultKind::Limit, (end, end), message))
    }

    /// Notes a fault; parsing goes on.
    pub(super) fn note_new_fault(
        &mut self,
        kind: FaultKind,
        span: (usize, usize),
        message: impl Into<String>,
    ) {
        self.note_fault(ExpressionFault::new(kind, span, message));
    }

    /// Notes a fault; parsing goes on.
    pub(super) fn note_fault(&mut self, fault: ExpressionFault) {
        self.faults.push(fault);
    }

    /// Notes a fault after which parsing cannot go on.
    pub(super) fn halt_with_fault<T>(&mut self, fault: ExpressionFault) -> ParseResult<T> {
        self.note_fault(fault);
        Err(ParseHalted)
    }

    pub(super) fn halt_with_message<T>(
        &mut self,
        span: (usize, usize),
        message: &str,
    ) -> ParseResult<T> {
        self.halt_with_fault(ExpressionFault::new(FaultKind::Syntax, span, message))
    }

    /// Stops because `expected` should stand where the next token is.
    pub(super) fn halt_at_missing<T>(&mut self, expected: &str) -> ParseResult<T> {
        let (span, actual) = match self.peek() {
            Some(token) => {
                (token.span(), format!("`{}`", shorten_for_message(&self.token_text(&token))))
            }
            None => ((self.end, self.end), "the end".into()),
        };
        self.halt_with_message(span, &format!("{expected} should stand here, not {actual}"))
    }

    pub(super) fn expect_sign(&mut self, sign: &'static str) -> ParseResult<ExpressionToken> {
        if let Some(token) = self.take_sign(sign) {
            return Ok(token);
        }
        self.halt_at_missing(&format!("`{sign}`"))
    }
}
