//! Asks a person at the terminal for what comes of a step: value by value where it declares them, else in words.

use serde_json::{Map, Value, json};

use super::{
    field::{Field, refused},
    form::{Asking, Filled, Lines, MORE, left_with},
    submission::{Next, Report, of_person, takes_any, written},
    words::{self, At, Said, Word},
};
use crate::{
    cli::{
        link::Link,
        prompt::{Prompt, Typed},
        question,
        screen::{Screen, Style},
        value::{field, list},
        wrong,
    },
    error::{Error, Result},
    limits,
};

/// A person at the terminal, with what they have typed for a step and was refused or interrupted.
#[derive(Default)]
pub(super) struct Person {
    prompt: Option<Prompt>,
    /// The values of the last answer, which are not asked for again where only others were refused.
    values: Map<String, Value>,
    unfinished: Option<Map<String, Value>>,
    /// What was said last of how else one can answer.
    told: Option<At>,
}

/// What is asked of a step.
enum Form {
    Fields(Vec<Field>),
    Words,
}

impl Form {
    fn of(step: &Value) -> Self {
        let fields = match step["input"].get("properties") {
            Some(properties) if step["kind"] == "input" => {
                Some(list(properties).iter().map(Field::of_input).collect())
            }
            _ => Field::of_schema(&step["output_schema"]),
        };
        fields.map_or(Self::Words, Self::Fields)
    }
}

impl Person {
    pub(super) fn prompt(&mut self) -> &mut Prompt {
        self.prompt.get_or_insert_with(Prompt::stdin)
    }

    pub(super) fn take_unfinished(&mut self) -> Option<Map<String, Value>> {
        self.unfinished.take()
    }

    /// Asks until there is an answer to the first of the open steps, or to the one that is named.
    pub(super) async fn answer(
        &mut self,
        open: &[Value],
        complaint: Option<Error>,
        link: &mut Link<'_>,
    ) -> Result<Next> {
        let mut complaint = complaint;
        loop {
            let filled = match Form::of(&open[0]) {
                Form::Fields(fields) => {
                    let at = at(&open[0]);
                    self.fields(at, &fields, complaint.take(), link).await?
                }
                Form::Words => match self.words(open, complaint.take(), link).await? {
                    Words::Submit(next) => return Ok(next),
                    Words::Filled(filled) => filled,
                    Words::Again => continue,
                },
            };
            let next = match filled {
                Filled::Values(values) => {
                    self.values.clone_from(&values);
                    let report = Report::Output(Value::Object(values));
                    Some(Next::Submit(0, of_person(open, 0, report)))
                }
                Filled::Word(word, values) => {
                    if matches!(word, Word::Later | Word::Pause | Word::Interrupted) {
                        self.unfinished = Some(values).filter(|values| !values.is_empty());
                    }
                    following(open, word)
                }
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    fn asking<'a, 'b>(&'a mut self, at: At, link: &'a mut Link<'b>) -> Asking<'a, 'b> {
        Asking {
            prompt: self.prompt(),
            link,
            screen: Screen::stdout(),
            at,
        }
    }

    /// Says how else one can answer, once for steps of a kind.
    fn tell(&mut self, at: At) -> Result<()> {
        if self.told.replace(at) == Some(at) {
            return Ok(());
        }
        question::prompt(&Screen::stdout().block(Some(Style::Dim), "  ", at.others()))
    }

    async fn fields(
        &mut self,
        at: At,
        fields: &[Field],
        complaint: Option<Error>,
        link: &mut Link<'_>,
    ) -> Result<Filled> {
        self.tell(at)?;
        let Some(error) = complaint else {
            self.values.clear();
            return self.asking(at, link).fill(fields, Map::new()).await;
        };
        let values = std::mem::take(&mut self.values);
        let again = refused(fields, error.violations());
        let mut asking = self.asking(at, link);
        asking.complain_of(&error)?;
        asking.fill(&again, values).await
    }

    /// Asks for an output in words, which may take several lines.
    async fn words(
        &mut self,
        open: &[Value],
        complaint: Option<Error>,
        link: &mut Link<'_>,
    ) -> Result<Words> {
        let at = at(&open[0]);
        self.tell(at)?;
        if let Some(error) = complaint {
            question::prompt(&format!("{}\n", wrong(&error)))?;
        }
        let what = if takes_any(&open[0]) {
            "text or JSON"
        } else {
            "what came of it"
        };
        let what = format!("{what}, ended by an empty line");
        question::prompt(&Screen::stdout().block(Some(Style::Dim), "  ", &what))?;
        // The step may have scrolled off the screen.
        let asked = format!("{}> ", field(&open[0], "step_name"));
        let mut asking = self.asking(at, link);
        let text = match lines(&mut asking, &asked).await? {
            Text::Lines(text) => text,
            Text::Other(filled) => return Ok(Words::Filled(filled)),
        };
        match written(&text, open) {
            Ok((at, submission)) => Ok(Words::Submit(Next::Submit(at, submission))),
            Err(error) => {
                question::prompt(&format!("{}\n", wrong(&error)))?;
                Ok(Words::Again)
            }
        }
    }
}

/// What follows from an answer that is no output; `None` where it is asked again, for it was explained where it was typed.
fn following(open: &[Value], word: Word) -> Option<Next> {
    let error = |error: Value| Next::Submit(0, of_person(open, 0, Report::Error(error)));
    Some(match word {
        Word::Help => return None,
        Word::Skip => error(words::skipped()),
        Word::Failed(why) => error(json!({ "message": why })),
        Word::Pause => Next::Pause,
        Word::Later => Next::Stop("stopped".to_owned()),
        Word::Interrupted => Next::Stop("interrupted".to_owned()),
    })
}

/// What a step's answers are: whether it may be left out.
fn at(step: &Value) -> At {
    At::Step {
        is_optional: step["optional"] == true,
    }
}

/// What came of asking for words.
enum Words {
    Submit(Next),
    Filled(Filled),
    /// None that can be used: it is asked again.
    Again,
}

enum Text {
    Lines(String),
    Other(Filled),
}

impl Text {
    /// Another answer than lines, with the lines that were typed before it.
    fn left(word: Word, text: String) -> Self {
        let typed = [("summary".to_owned(), Value::from(text))];
        let typed = typed.into_iter().filter(|(_, text)| text != "").collect();
        Self::Other(Filled::Word(word, typed))
    }
}

/// Reads lines up to an empty one. JSON ends where it is complete, and a word with a meaning of its own at once.
async fn lines(asking: &mut Asking<'_, '_>, asked: &str) -> Result<Text> {
    let mut text = String::new();
    loop {
        let question = if text.is_empty() { asked } else { MORE };
        let line = match asking.line(question, &[]).await? {
            Typed::Line(line) => line,
            Typed::End if !text.is_empty() => return Ok(Text::Lines(text)),
            left => return Ok(Text::left(left_with(&left), text)),
        };
        let line = line.trim_end();
        if text.is_empty() {
            if line.is_empty() {
                return Ok(Text::left(Word::Later, text));
            }
            match asking.said(line, "").await? {
                Said::Value => {}
                Said::Word(word) => return Ok(Text::left(word, text)),
                Said::Explained(_) => continue,
            }
            if line.starts_with(['{', '[']) {
                return Ok(match asking.json(line.to_owned()).await? {
                    Lines::Whole(text) => Text::Lines(text),
                    Lines::Left(word, text) => Text::left(word, text),
                });
            }
        } else if line.is_empty() {
            return Ok(Text::Lines(text));
        } else {
            text.push('\n');
        }
        text.push_str(line);
        if text.len() > limits::FRAME_BYTES_MAX {
            return Ok(Text::Lines(text));
        }
    }
}
