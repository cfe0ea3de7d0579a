//! Asks a person for values one by one: each by what its schema says, again where it is refused. What was typed before they
//! leave is handed back with the word that they left with.

use serde_json::{Map, Value};

use super::{
    field::Field,
    submission::is_begun,
    words::{At, Said, Word},
};
use crate::{
    cli::{
        link::Link,
        prompt::{Prompt, Typed},
        question,
        screen::{Screen, Style, one_line},
    },
    error::{Error, Result},
};

/// What came of asking.
#[derive(Debug, PartialEq)]
pub(super) enum Filled {
    /// The values that were given.
    Values(Map<String, Value>),
    /// Another answer than values, with what was typed before it.
    Word(Word, Map<String, Value>),
}

/// What was typed for one field.
enum Answer {
    Value(Option<Value>),
    /// Several fields at once, as JSON.
    Whole(Map<String, Value>),
    /// Another answer than a value, with what of it was typed before.
    Word(Word, Option<Value>),
}

/// What was typed in several lines.
pub(super) enum Lines {
    Whole(String),
    /// They were left, with this much of them.
    Left(Word, String),
}

/// Who asks, and whom.
pub(super) struct Asking<'a, 'b> {
    pub(super) prompt: &'a mut Prompt,
    pub(super) link: &'a mut Link<'b>,
    pub(super) screen: Screen,
    pub(super) at: At,
}

/// What asks for a further line.
pub(super) const MORE: &str = "...> ";

impl Asking<'_, '_> {
    /// Asks for each of the fields. `known` is kept: of what was refused only that is asked again.
    pub(super) async fn fill(
        &mut self,
        fields: &[Field],
        known: Map<String, Value>,
    ) -> Result<Filled> {
        let mut values = known;
        for one in fields {
            let name = one.name().to_owned();
            match self.value(one).await? {
                Answer::Value(Some(value)) => {
                    values.insert(name, value);
                }
                Answer::Value(None) => {
                    values.shift_remove(&name);
                }
                Answer::Whole(several) => {
                    values.extend(several);
                    break;
                }
                Answer::Word(word, begun) => {
                    values.extend(begun.map(|begun| (name, begun)));
                    return Ok(Filled::Word(word, values));
                }
            }
        }
        Ok(Filled::Values(values))
    }

    async fn value(&mut self, asked: &Field) -> Result<Answer> {
        question::prompt(&self.screen.block(Some(Style::Dim), "  ", &asked.told()))?;
        loop {
            let line = match self.line(&asked.asked(), &asked.choices()).await? {
                Typed::Line(line) => line.trim().to_owned(),
                left => return Ok(Answer::Word(left_with(&left), None)),
            };
            if line.is_empty() {
                if asked.is_required() {
                    self.complain(&format!("it is needed; {}", self.at.stopping()))?;
                    continue;
                }
                return Ok(Answer::Value(None));
            }
            match self.said(&line, &asked.told()).await? {
                Said::Value => {}
                Said::Word(word) => return Ok(Answer::Word(word, None)),
                Said::Explained(_) => continue,
            }
            if let Some(answer) = self.answer(asked, line).await? {
                return Ok(answer);
            }
        }
    }

    /// What a line means for a field, with the lines that follow it; `None` where that was refused, and why was said.
    async fn answer(&mut self, asked: &Field, line: String) -> Result<Option<Answer>> {
        let read = match self.structured(asked, &line).await? {
            Some(Answer::Value(Some(value))) => match asked.fault(&value) {
                Some(why) => Err(format!("{why}; typed was {}", one_line(&value.to_string()))),
                None => Ok(value),
            },
            Some(answer) => return Ok(Some(answer)),
            None => asked.read(&line),
        };
        match read {
            Ok(value) => Ok(Some(Answer::Value(Some(value)))),
            Err(why) => self.complain(&why).map(|()| None),
        }
    }

    /// What a line is that is typed here; of a failure without a reason, why it failed. A line that was explained, which is done
    /// here, after `about`, is asked again.
    pub(super) async fn said(&mut self, line: &str, about: &str) -> Result<Said> {
        let said = self.at.said(line);
        match &said {
            Said::Explained(words) => self.explain(format!("{about}\n{words}").trim_start())?,
            Said::Word(Word::Failed(why)) if why.is_empty() => return self.why().await,
            _ => {}
        }
        Ok(said)
    }

    async fn why(&mut self) -> Result<Said> {
        Ok(match self.line("why> ", &[]).await? {
            Typed::Line(why) if why.trim().is_empty() => {
                self.explain(NO_REASON)?;
                Said::Explained(NO_REASON.to_owned())
            }
            Typed::Line(why) => Said::Word(Word::Failed(why.trim().to_owned())),
            left => Said::Word(left_with(&left)),
        })
    }

    /// A list of several lines, or JSON that goes on in further lines; `None` where the line is all there is.
    async fn structured(&mut self, asked: &Field, line: &str) -> Result<Option<Answer>> {
        if let Some(item) = asked.item().filter(|_| !line.starts_with('[')) {
            return self.items(asked, &item, line.to_owned()).await.map(Some);
        }
        if !line.starts_with(['{', '[']) {
            return Ok(None);
        }
        let text = match self.json(line.to_owned()).await? {
            Lines::Whole(text) => text,
            Lines::Left(word, text) => return Ok(Some(Answer::Word(word, Some(text.into())))),
        };
        Ok(match serde_json::from_str(&text) {
            Ok(Value::Object(several)) if !asked.takes_object() => Some(Answer::Whole(several)),
            Ok(value) => Some(Answer::Value(Some(value))),
            Err(_) => None,
        })
    }

    /// Reads a list item by item, each as the field of an item says. A list that is too short goes on.
    async fn items(&mut self, asked: &Field, item: &Field, first: String) -> Result<Answer> {
        let (mut items, mut line) = (Vec::new(), first);
        loop {
            match item.read(&line) {
                Ok(value) => items.push(value),
                Err(why) => self.complain(&why)?,
            }
            line = match self.more_items(asked, &items).await? {
                Typed::Line(line) if line.is_empty() => {
                    return Ok(Answer::Value(Some(items.into())));
                }
                Typed::Line(line) => line,
                left => return Ok(Answer::Word(left_with(&left), Some(items.into()))),
            };
        }
    }

    /// The next line of a list; an empty one where it ends there.
    async fn more_items(&mut self, asked: &Field, items: &[Value]) -> Result<Typed> {
        loop {
            let too_short = asked.too_short(items);
            match (self.line(MORE, &[]).await?, too_short) {
                (Typed::Line(line), Some(why)) if line.trim().is_empty() => self.complain(&why)?,
                (Typed::Line(line), _) => return Ok(Typed::Line(line.trim().to_owned())),
                (Typed::End, None) => return Ok(Typed::Line(String::new())),
                (left, _) => return Ok(left),
            }
        }
    }

    /// Reads on until the JSON that a line begins is complete, or an empty line ends it.
    pub(super) async fn json(&mut self, begun: String) -> Result<Lines> {
        let mut text = begun;
        while is_begun(&text) {
            match self.line(MORE, &[]).await? {
                Typed::Line(more) if more.trim().is_empty() => break,
                Typed::Line(more) => text.extend(["\n", &more]),
                left => return Ok(Lines::Left(left_with(&left), text)),
            }
        }
        Ok(Lines::Whole(text))
    }

    pub(super) async fn line(&mut self, asked: &str, choices: &[String]) -> Result<Typed> {
        self.prompt.line(asked, choices, self.link).await
    }

    fn explain(&self, words: &str) -> Result<()> {
        question::prompt(&self.screen.block(None, "  ", words))
    }

    fn complain(&self, why: &str) -> Result<()> {
        question::prompt(&self.screen.block(Some(Style::Bad), "  ", why))
    }

    /// Says what was wrong with each value that was refused, or what else was.
    pub(super) fn complain_of(&self, error: &Error) -> Result<()> {
        if error.violations().is_empty() {
            return self.complain(error.message());
        }
        for violation in error.violations() {
            self.complain(&violation.message)?;
        }
        Ok(())
    }
}

const NO_REASON: &str = "nothing was handed in: a failure needs a reason";

/// What somebody leaves with who types no line.
pub(super) fn left_with(left: &Typed) -> Word {
    match left {
        Typed::Interrupt => Word::Interrupted,
        _ => Word::Later,
    }
}
