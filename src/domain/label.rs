//! Labels: pairs of a name and a value by which people find executions again.

use std::collections::BTreeMap;

use crate::{
    error::{Code, Error, Result},
    limits,
};

/// The labels of an execution, by name.
pub type Labels = BTreeMap<String, String>;

/// Parses a label as it is written on a command line: `NAME=VALUE`.
///
/// # Errors
/// The rule that the label breaks, as a sentence.
pub fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label is NAME=VALUE, as pr=123")?;
    check_label(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Collects the labels of a command line.
///
/// # Errors
/// `USAGE_INVALID` if two of them have the same name.
pub fn collect_labels(pairs: &[(String, String)]) -> Result<Labels> {
    let mut labels = Labels::new();
    for (name, value) in pairs {
        if labels.insert(name.clone(), value.clone()).is_some() {
            let message = format!("the label `{name}` is given twice");
            return Err(Error::new(Code::UsageInvalid, message)
                .with_action("Give each name once: an execution has one value for it"));
        }
    }
    Ok(labels)
}

/// Checks the labels that an execution would have: those of its workflow, and those that a caller gives.
///
/// # Errors
/// `ARGUMENTS_INVALID` where a name or a value breaks its rules, or where there are more than [`limits::LABELS_MAX`].
pub fn check_labels(labels: &Labels) -> Result<()> {
    if labels.len() > limits::LABELS_MAX {
        let message = format!(
            "{} labels, with those of the workflow; an execution has at most {}",
            labels.len(),
            limits::LABELS_MAX
        );
        return Err(Error::argument_rule("/labels", "maxProperties", &message));
    }
    labels.iter().try_for_each(|(name, value)| {
        check_label(name, value)
            .map_err(|message| Error::argument_rule("/labels", "format", &message))
    })
}

/// Checks one label.
///
/// # Errors
/// The rule that the label breaks, as a sentence.
pub fn check_label(name: &str, value: &str) -> std::result::Result<(), String> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if name.is_empty()
        || name.len() > limits::LABEL_NAME_BYTES_MAX
        || !name.bytes().all(is_name_byte)
    {
        let shown: String = name.chars().take(limits::LABEL_NAME_BYTES_MAX).collect();
        return Err(format!(
            "`{shown}` cannot be the name of a label: it has letters, digits and `._-/`, at most {} of them",
            limits::LABEL_NAME_BYTES_MAX
        ));
    }
    if value.len() > limits::LABEL_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(format!(
            "the value of the label `{name}` has at most {} bytes, on one line",
            limits::LABEL_VALUE_BYTES_MAX
        ));
    }
    Ok(())
}
