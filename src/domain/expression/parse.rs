//! Expressions as they are written, into expressions as the engine below takes them. Reading them here first
//! is what gives every fault its place, every path its name, and every operation its guard: the text that is
//! handed down holds no literal and no name of the author's, only numbered constants and references.
//!
//! From loose to tight: `a if c else b`, `or`, `and`, `not`, comparisons and `in`, `+ -`, `~`, `* / // %`,
//! `**`, `-`, then filters (`|`) and tests (`is`).

use serde_json::Value;

use super::{
    fault::{ExpressionFault, FaultKind},
    reference::{Reference, Root},
    token::{Kind, Token, Tokens, cut},
};
use crate::limits;

/// The expression could not be read to its end; the fault is noted.
pub(super) struct Halted;

pub(super) type ParseResult<T = Node> = Result<T, Halted>;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// As the engine takes it.
    pub(super) text: String,
    /// How deeply that is nested.
    pub(super) depth: usize,
    /// First byte in the source.
    pub(super) start: usize,
    /// The byte after the last.
    pub(super) end: usize,
    /// The reference, if it is one and nothing else.
    pub(super) reference: Option<usize>,
    /// A literal: it weighs nothing.
    pub(super) constant: bool,
}

/// What an expression was read to.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) text: String,
    pub(super) references: Vec<Reference>,
    pub(super) constants: Vec<Value>,
    /// The expression is a single path.
    pub(super) is_path: bool,
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    tokens: &'a [Token],
    at: usize,
    end: usize,
    pub(super) names: &'a [&'a str],
    pub(super) references: Vec<Reference>,
    constants: Vec<Value>,
    faults: Vec<ExpressionFault>,
    nesting: usize,
}

/// Reads one expression, or says everything that is wrong with it.
pub(super) fn parse(
    source: &str,
    tokens: &Tokens,
    names: &[&str],
) -> Result<Parsed, Vec<ExpressionFault>> {
    let mut parser = Parser::of(source, tokens, names);
    let node = parser.all();
    let node = node.ok().filter(|_| parser.faults.is_empty());
    let Some(node) = node else {
        return Err(parser.faults);
    };
    Ok(Parsed {
        is_path: node.reference.is_some(),
        text: node.text,
        references: parser.references,
        constants: parser.constants,
    })
}

/// Every path that is written in an expression, also where that cannot be read to its end.
pub(super) fn references(source: &str, tokens: &Tokens, names: &[&str]) -> Vec<Reference> {
    let mut parser = Parser::of(source, tokens, names);
    // What is wrong with it was told by who read it first.
    let _ = parser.all();
    parser.references
}

impl<'a> Parser<'a> {
    fn of(source: &'a str, tokens: &'a Tokens, names: &'a [&'a str]) -> Self {
        Self {
            source,
            tokens: &tokens.list,
            at: 0,
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
    fn all(&mut self) -> ParseResult {
        if self.tokens.is_empty() {
            return self.stop(self.end, self.end, "there is no expression here");
        }
        let node = self.expression()?;
        if let Some(token) = self.peek() {
            return self.stray(&token);
        }
        if node.reference.is_none() {
            self.refuse_secrets();
        }
        Ok(node)
    }

    fn refuse_secrets(&mut self) {
        let secrets = self.references.iter();
        let secrets: Vec<_> = secrets
            .filter(|r| r.root == Root::Secrets)
            .cloned()
            .collect();
        for secret in secrets {
            let (start, end) = (secret.offset, secret.offset + secret.length);
            let message =
                format!("nothing can be done with `{secret}`: its value is not known here");
            let fault = ExpressionFault::new(FaultKind::Secret, start, end, message);
            let alone =
                format!("write it alone, as `${{{{ {secret} }}}}`, inside the text that needs it");
            self.note(fault.suggest(alone));
        }
    }

    /// `a if c else b`, the loosest.
    pub(super) fn expression(&mut self) -> ParseResult {
        self.deeper(|parser| {
            let mut node = parser.disjunction()?;
            while parser.word("if").is_some() {
                let condition = parser.disjunction()?;
                if parser.word("else").is_none() {
                    let fault = parser.missing("`else` and what the value is otherwise");
                    return parser.halt(fault);
                }
                let other = parser.expression()?;
                let text = format!("({} if {} else {})", node.text, condition.text, other.text);
                node = parser.join(text, &[&node, &condition, &other])?;
            }
            parser.refuse_question_mark(&node)?;
            Ok(node)
        })
    }

    fn disjunction(&mut self) -> ParseResult {
        self.chain(Self::conjunction, &[("or", "or"), ("||", "or")])
    }

    fn conjunction(&mut self) -> ParseResult {
        self.chain(Self::not, &[("and", "and"), ("&&", "and")])
    }

    /// Operands with `or`, or with `and`, between them.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        spellings: &[(&str, &str)],
    ) -> ParseResult {
        let mut nodes = vec![operand(self)?];
        let mut joint = "";
        while let Some((token, written, meant)) = self.spelled(spellings) {
            if written != meant {
                self.foreign_operator(&token, written, meant);
            }
            joint = meant;
            nodes.push(operand(self)?);
        }
        self.joined(nodes, &format!(" {joint} "))
    }

    fn not(&mut self) -> ParseResult {
        let Some(token) = self.word("not") else {
            return self.compare();
        };
        let mut node = self.deeper(Self::not)?;
        node.start = token.start;
        self.join(format!("(not {})", node.text), &[&node])
    }

    fn compare(&mut self) -> ParseResult {
        let mut nodes = vec![self.sum()?];
        let mut signs = Vec::new();
        while let Some(operator) = self.comparison_operator()? {
            signs.push(operator);
            nodes.push(self.sum()?);
        }
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let text = if signs.iter().any(|sign| sign.starts_with(['<', '>'])) {
            self.ordered(&signs, &nodes)
        } else {
            compared(&signs, &nodes)
        };
        let parts: Vec<_> = nodes.iter().collect();
        self.join(text, &parts)
    }

    /// A comparison that asks for an order, which the engine would find between any two values.
    fn ordered(&mut self, signs: &[&str], nodes: &[Node]) -> String {
        for (sign, pair) in signs.iter().zip(nodes.windows(2)) {
            if sign.ends_with("in") {
                let fault =
                    "`in` and an order stand in one comparison: join two of them with `and`";
                let (start, end) = (pair[0].start, pair[1].end);
                self.note(ExpressionFault::new(FaultKind::Syntax, start, end, fault));
            } else if sign.starts_with(['<', '>']) {
                self.refuse_order(sign, &pair[0], &pair[1]);
            }
        }
        let signs = self.constant(Value::from(signs.join(" ")));
        format!("_order({signs}, {})", listed(nodes))
    }

    /// Literals say themselves whether there is an order between them.
    fn refuse_order(&mut self, sign: &str, left: &Node, right: &Node) {
        let literals = [self.literal_of(left), self.literal_of(right)];
        let is_ordered = match literals {
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
        let fault = ExpressionFault::new(FaultKind::Syntax, left.start, right.end, message);
        self.note(
            fault.suggest("write both alike, or make a number of a text with `| int` or `| float`"),
        );
    }

    /// The value of a literal.
    pub(super) fn literal_of(&self, node: &Node) -> Option<&Value> {
        let number = node.text.strip_prefix("_k").filter(|_| node.constant)?;
        self.constants.get(number.parse::<usize>().ok()?)
    }

    fn comparison_operator(&mut self) -> ParseResult<Option<&'static str>> {
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
        if let Some((token, written, meant)) = self.spelled(&spellings) {
            if written != meant {
                self.foreign_operator(&token, written, meant);
            }
            let known = ["==", "!=", "<=", ">=", "<", ">"].into_iter();
            return Ok(known.into_iter().find(|sign| *sign == meant));
        }
        if self.word("in").is_some() {
            return Ok(Some("in"));
        }
        if self.word("not").is_none() {
            return Ok(None);
        }
        if self.word("in").is_some() {
            return Ok(Some("not in"));
        }
        let fault = self.missing("`in` after `not`");
        self.halt(fault)
    }

    fn sum(&mut self) -> ParseResult {
        let mut nodes = vec![self.concatenation()?];
        let mut signs = String::new();
        while let Some((_, sign, _)) = self.spelled(&[("+", "+"), ("-", "-")]) {
            signs.push_str(sign);
            nodes.push(self.concatenation()?);
        }
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let signs = self.constant(Value::from(signs));
        let list = listed(&nodes);
        let parts: Vec<_> = nodes.iter().collect();
        self.join(format!("_sum({signs}, {list})"), &parts)
    }

    fn concatenation(&mut self) -> ParseResult {
        let mut nodes = vec![self.product()?];
        while self.sign("~").is_some() {
            nodes.push(self.product()?);
        }
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let parts: Vec<_> = nodes.iter().collect();
        self.join(format!("_text({})", listed(&nodes)), &parts)
    }

    fn product(&mut self) -> ParseResult {
        let signs = ["*", "/", "//", "%"];
        self.arithmetic(Self::power, &signs)
    }

    fn power(&mut self) -> ParseResult {
        self.arithmetic(Self::operand, &["**"])
    }

    /// Operands that must be numbers, with operators between them. Text and lists can be multiplied in Jinja:
    /// a short way to fill the memory.
    fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        signs: &[&'static str],
    ) -> ParseResult {
        let spellings: Vec<_> = signs.iter().map(|sign| (*sign, *sign)).collect();
        let mut nodes = vec![operand(self)?];
        let mut text = String::new();
        while let Some((_, sign, _)) = self.spelled(&spellings) {
            if text.is_empty() {
                text = number(&nodes[0]);
            }
            let node = operand(self)?;
            text = format!("{text} {sign} {}", number(&node));
            nodes.push(node);
        }
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let parts: Vec<_> = nodes.iter().collect();
        self.join(format!("({text})"), &parts)
    }

    /// A value with its sign, and the filters and tests after it.
    pub(super) fn operand(&mut self) -> ParseResult {
        let node = self.signed()?;
        self.filtered(node)
    }

    pub(super) fn signed(&mut self) -> ParseResult {
        if let Some(token) = self.sign("-") {
            let mut node = self.deeper(Self::signed)?;
            let text = format!("(-({}))", number(&node));
            node.start = token.start;
            return self.join(text, &[&node]);
        }
        if let Some(token) = self.sign("!") {
            return self.foreign_not(&token);
        }
        self.value()
    }
}

/// A number, or the fault that it is none, at its place.
pub(super) fn number(node: &Node) -> String {
    format!("_number({}, {}, {})", node.text, node.start, node.end)
}

/// Comparisons that need no order, as the engine takes them.
fn compared(signs: &[&str], nodes: &[Node]) -> String {
    let mut text = nodes[0].text.clone();
    for (sign, node) in signs.iter().zip(&nodes[1..]) {
        // A literal is as long as it is written; anything else may be large, and is weighed.
        let operand = if node.constant {
            node.text.clone()
        } else {
            format!("_charge({})", node.text)
        };
        text = format!("{text} {sign} {operand}");
    }
    format!("({text})")
}

pub(super) fn listed(nodes: &[Node]) -> String {
    let texts: Vec<_> = nodes.iter().map(|node| node.text.as_str()).collect();
    texts.join(", ")
}

/// What the parser works with.
impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).cloned()
    }

    /// The token after the next one.
    pub(super) fn peek_second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1)
    }

    /// Whether `.name(` stands here: a call of a method.
    pub(super) fn is_method(&self) -> bool {
        let parenthesis = self.tokens.get(self.at + 2);
        let called = parenthesis.is_some_and(|token| token.kind == Kind::Sign("("));
        called
            && self
                .peek_second()
                .is_some_and(|token| token.kind == Kind::Word)
    }

    /// Takes a bracket, what is in it and the bracket after, if that is all it holds.
    pub(super) fn take_subscript(&mut self) -> bool {
        let closing = self.tokens.get(self.at + 2);
        let closed = closing.is_some_and(|token| token.kind == Kind::Sign("]"));
        self.at += if closed { 3 } else { 0 };
        closed
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// Where the last token that was taken ends.
    pub(super) fn last_end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |token| token.end)
    }

    pub(super) fn written(&self, token: &Token) -> String {
        self.source
            .get(token.start..token.end)
            .unwrap_or_default()
            .to_owned()
    }

    /// Takes the next token if it is this word.
    pub(super) fn word(&mut self, word: &str) -> Option<Token> {
        let token = self.peek()?;
        let same = token.kind == Kind::Word && self.written(&token) == word;
        same.then(|| self.next()).flatten()
    }

    /// Takes the next token if it is this sign.
    pub(super) fn sign(&mut self, sign: &'static str) -> Option<Token> {
        let token = self.peek()?;
        (token.kind == Kind::Sign(sign))
            .then(|| self.next())
            .flatten()
    }

    pub(super) fn is_sign(&self, sign: &'static str) -> bool {
        self.peek()
            .is_some_and(|token| token.kind == Kind::Sign(sign))
    }

    /// Takes the next token if it is one of these, words or signs; with what it is written as and what it means.
    fn spelled<'s>(
        &mut self,
        spellings: &[(&'s str, &'s str)],
    ) -> Option<(Token, &'s str, &'s str)> {
        let token = self.peek()?;
        if matches!(token.kind, Kind::Text(_) | Kind::Number(_)) {
            return None;
        }
        let written = self.written(&token);
        let found = spellings
            .iter()
            .find(|(spelling, _)| *spelling == written)?;
        self.next();
        Some((token, found.0, found.1))
    }

    /// The name of a constant for the engine.
    pub(super) fn constant(&mut self, value: Value) -> String {
        self.constants.push(value);
        format!("_k{}", self.constants.len() - 1)
    }

    pub(super) fn deeper(&mut self, read: impl FnOnce(&mut Self) -> ParseResult) -> ParseResult {
        self.nesting += 1;
        if self.nesting > limits::EXPRESSION_DEPTH_MAX {
            return self.too_deep();
        }
        let node = read(self);
        self.nesting -= 1;
        node
    }

    /// One node of several, in the order they are written.
    pub(super) fn join(&mut self, text: String, parts: &[&Node]) -> ParseResult {
        let depth = parts.iter().map(|part| part.depth).max().unwrap_or(0) + 1;
        if depth > limits::EXPRESSION_DEPTH_MAX {
            return self.too_deep();
        }
        Ok(Node {
            text,
            depth,
            start: parts.first().map_or(0, |part| part.start),
            end: self.last_end(),
            reference: None,
            constant: false,
        })
    }

    fn joined(&mut self, mut nodes: Vec<Node>, joint: &str) -> ParseResult {
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        let texts: Vec<_> = nodes.iter().map(|node| node.text.as_str()).collect();
        let text = format!("({})", texts.join(joint));
        let parts: Vec<_> = nodes.iter().collect();
        self.join(text, &parts)
    }

    fn too_deep<T>(&mut self) -> ParseResult<T> {
        let most = limits::EXPRESSION_DEPTH_MAX;
        let message = format!("the expression is nested more than {most} levels deep");
        let end = self.last_end();
        self.halt(ExpressionFault::new(FaultKind::Limit, end, end, message))
    }

    /// Notes a fault and reads on.
    pub(super) fn note(&mut self, fault: ExpressionFault) {
        self.faults.push(fault);
    }

    /// Notes a fault after which there is no reading on.
    pub(super) fn halt<T>(&mut self, fault: ExpressionFault) -> ParseResult<T> {
        self.note(fault);
        Err(Halted)
    }

    pub(super) fn stop<T>(&mut self, start: usize, end: usize, message: &str) -> ParseResult<T> {
        self.halt(ExpressionFault::new(FaultKind::Syntax, start, end, message))
    }

    /// The fault that `what` should stand where the next token is.
    pub(super) fn missing(&self, what: &str) -> ExpressionFault {
        let (start, end, found) = match self.peek() {
            Some(token) => (
                token.start,
                token.end,
                format!("`{}`", cut(&self.written(&token))),
            ),
            None => (self.end, self.end, "the end".into()),
        };
        let message = format!("{what} should stand here, not {found}");
        ExpressionFault::new(FaultKind::Syntax, start, end, message)
    }

    pub(super) fn expect(&mut self, sign: &'static str) -> ParseResult<Token> {
        if let Some(token) = self.sign(sign) {
            return Ok(token);
        }
        let fault = self.missing(&format!("`{sign}`"));
        self.halt(fault)
    }
}
