//! Names and ids: parsed once, with limits; afterwards they are valid by construction.

use std::{
    borrow::Borrow,
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

use crate::{
    clock::{IdSource, Timestamp},
    error::{Code, Error, Result},
    limits,
};

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident, $what:literal, $max:expr, $rule:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses a name; the error says which rule it breaks.
            pub fn parse(text: &str) -> Result<Self> {
                check($what, text, $max, $rule)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(
                deserializer: D,
            ) -> std::result::Result<Self, D::Error> {
                struct NameVisitor;

                impl Visitor<'_> for NameVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }

                    // Also takes borrowed texts: a journal row has many names.
                    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<$name, E> {
                        $name::parse(text).map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(NameVisitor)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    )*};
}

names! {
    /// The id of one execution: any text without control characters, up to
    /// [`limits::EXECUTION_ID_BYTES_MAX`], that neither starts nor ends with a space.
    ExecutionId, "execution id", limits::EXECUTION_ID_BYTES_MAX, check_printable;
    /// The name of a workflow, up to [`limits::WORKFLOW_NAME_BYTES_MAX`].
    WorkflowName, "workflow name", limits::WORKFLOW_NAME_BYTES_MAX, check_printable;
    /// The name of an agent, up to [`limits::AGENT_NAME_BYTES_MAX`].
    AgentName, "agent name", limits::AGENT_NAME_BYTES_MAX, check_printable;
    /// The id of a step: letters, digits, `_` and `-`, up to [`limits::STEP_ID_BYTES_MAX`].
    StepId, "step id", limits::STEP_ID_BYTES_MAX, check_identifier;
    /// The name of an input: letters, digits, `_` and `-`, up to [`limits::INPUT_NAME_BYTES_MAX`].
    InputName, "input name", limits::INPUT_NAME_BYTES_MAX, check_identifier;
}

/// What stands for the id of a step where the workflow as a whole is meant: no file can give it to a step.
const WORKFLOW_PSEUDO_STEP_ID: &str = "$workflow";

impl WorkflowName {
    /// Parses the name that a file gives to a workflow, or calls one by: letters, digits, `_`, `.` and `-`. The error says which
    /// rule it breaks. Executions of earlier versions may have others.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse_declared(text: &str) -> Result<Self> {
        check("workflow name", text, limits::WORKFLOW_NAME_BYTES_MAX, check_workflow_name_chars)?;
        Ok(Self(text.into()))
    }
}

impl StepId {
    /// What stands for the step where the workflow as a whole is meant.
    pub fn workflow_pseudo_step() -> &'static Self {
        static ID: OnceLock<StepId> = OnceLock::new();
        ID.get_or_init(|| Self(WORKFLOW_PSEUDO_STEP_ID.into()))
    }

    /// Parses the id that a file gives to a step; the error says which rule it breaks.
    pub fn parse_declared(text: &str) -> Result<Self> {
        check("step id", text, limits::STEP_ID_BYTES_MAX, check_step_id_chars)?;
        Ok(Self(text.into()))
    }
}

type NameRule = fn(&str) -> Option<&'static str>;

fn check(what: &str, text: &str, bytes_max: usize, rule: NameRule) -> Result<()> {
    let broken = if text.trim().is_empty() {
        Some("is empty".to_owned())
    } else if text.len() > bytes_max {
        Some(format!("has {} bytes, the limit is {bytes_max}", text.len()))
    } else {
        rule(text).map(str::to_owned)
    };
    match broken {
        None => Ok(()),
        Some(broken) => {
            let shown: String = text.chars().take(60).collect();
            Err(Error::new(Code::ArgumentsInvalid, format!("{what} {shown:?} {broken}")))
        }
    }
}

fn check_printable(text: &str) -> Option<&'static str> {
    if text.trim() != text {
        return Some("starts or ends with white space");
    }
    text.chars().any(char::is_control).then_some("holds a control character")
}

fn check_identifier(text: &str) -> Option<&'static str> {
    (text != WORKFLOW_PSEUDO_STEP_ID).then(|| check_step_id_chars(text)).flatten()
}

fn check_workflow_name_chars(text: &str) -> Option<&'static str> {
    let is_first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = |c: char| is_first(c) || c == '.' || c == '-';
    (!(text.starts_with(is_first) && text.chars().all(rest))).then_some(
        "may hold only letters, digits, `_`, `.` and `-`, and may not start with `.` or `-`",
    )
}

fn check_step_id_chars(text: &str) -> Option<&'static str> {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (!(first && rest))
        .then_some("may hold only letters, digits, `_` and `-`, and may not start with `-`")
}

impl ExecutionId {
    /// A new id: `exec_` and 26 characters of Crockford's base 32, the first ten of them the time, so
    /// that ids sort by age; 80 bits are random.
    pub fn generate(now: Timestamp, ids: &dyn IdSource) -> Self {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let time = u128::try_from(now.milliseconds()).unwrap_or(0) & ((1 << 48) - 1);
        let bits = time << 80 | ids.random() >> 48;
        let text: String = (0..26)
            .rev()
            .map(|place| char::from(ALPHABET[(bits >> (place * 5) & 31) as usize]))
            .collect();
        Self(format!("exec_{text}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SeededIds;

    #[test]
    fn names_keep_their_limits() {
        let longest = "x".repeat(limits::EXECUTION_ID_BYTES_MAX);
        assert!(ExecutionId::parse(&longest).is_ok());
        assert!(ExecutionId::parse(&format!("{longest}x")).is_err());
        assert!(ExecutionId::parse("ключ with / and %").is_ok());
        for bad in ["", "  ", " x", "x ", "a\nb", "a\0b"] {
            assert!(ExecutionId::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["-x", "a b", "a.b", "é", ""] {
            assert!(StepId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(StepId::parse("code-review_2").is_ok());
    }

    #[test]
    fn generated_ids_sort_by_age() {
        let ids = SeededIds::new(1);
        let early = ExecutionId::generate(Timestamp::from_milliseconds(1_700_000_000_000), &ids);
        let late = ExecutionId::generate(Timestamp::from_milliseconds(1_700_000_000_001), &ids);
        assert!(early < late, "{early} {late}");
        assert_eq!(early.as_str().len(), 31);
    }
}
