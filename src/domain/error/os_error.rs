//! Translates errors of the operating system to plain words, so that readers need not know `ENOENT` or "entity not
//! found".

use std::{error::Error, io};

use rustix::io::Errno;

/// Words for errors that have no [`io::ErrorKind`] of their own.
const MESSAGES_BY_ERRNO: &[(Errno, &str)] = &[
    (Errno::IO, "the disk reports a fault"),
    (Errno::NFILE, "this machine has too many files open"),
    (Errno::MFILE, "this process has too many files open"),
    (Errno::LOOP, "its links lead in a circle"),
];

/// Words for the error kinds that users encounter.
const MESSAGES_BY_ERROR_KIND: &[(io::ErrorKind, &str)] = &[
    (io::ErrorKind::NotFound, "it is not there"),
    (io::ErrorKind::PermissionDenied, "this user has no permission for that"),
    (io::ErrorKind::AlreadyExists, "something is there already"),
    (io::ErrorKind::NotADirectory, "it, or what it is to lie in, is not a directory"),
    (io::ErrorKind::IsADirectory, "it is a directory"),
    (io::ErrorKind::DirectoryNotEmpty, "the directory is not empty"),
    (io::ErrorKind::ReadOnlyFilesystem, "the file system can only be read"),
    (io::ErrorKind::StorageFull, "no room is left there"),
    (io::ErrorKind::QuotaExceeded, "this user has no room left there"),
    (io::ErrorKind::FileTooLarge, "it would be too large"),
    (io::ErrorKind::InvalidFilename, "the name is too long"),
    (io::ErrorKind::InvalidInput, "the system does not take such a name or value"),
    (io::ErrorKind::InvalidData, "its content is damaged"),
    (io::ErrorKind::UnexpectedEof, "it ends too early"),
    (io::ErrorKind::ResourceBusy, "something else uses it"),
    (io::ErrorKind::AddrInUse, "another process listens there already"),
    (io::ErrorKind::AddrNotAvailable, "this machine has no such address"),
    (io::ErrorKind::ConnectionRefused, "nobody listens there"),
    (io::ErrorKind::ConnectionReset, "the other side broke the connection off"),
    (io::ErrorKind::TimedOut, "it took too long"),
    (io::ErrorKind::BrokenPipe, "its reader is gone"),
    (io::ErrorKind::OutOfMemory, "there is not enough memory"),
    (io::ErrorKind::Unsupported, "the file system or the machine cannot do that"),
];

/// The reason of the error as a clause that follows a colon. An error with a custom message keeps that message.
pub fn describe_io_error(error: &io::Error) -> String {
    if error.get_ref().is_some() {
        return error.to_string();
    }
    let number = error.raw_os_error();
    let errno_message =
        MESSAGES_BY_ERRNO.iter().find(|(known, _)| Some(known.raw_os_error()) == number);
    let find_kind_message =
        || MESSAGES_BY_ERROR_KIND.iter().find(|(kind, _)| *kind == error.kind());
    let words = errno_message
        .map(|(_, words)| *words)
        .or_else(|| find_kind_message().map(|(_, words)| *words));
    words.map_or_else(|| strip_error_number(&error.to_string()), str::to_owned)
}

/// The message of the system without the error number.
fn strip_error_number(text: &str) -> String {
    let words = text.split(" (os error ").next().unwrap_or(text);
    let mut letters = words.chars();
    let first = letters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// An error and its causes in one line, each once.
pub fn describe_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_are_described_in_plain_words() {
        for number in 1..=133 {
            let words = describe_io_error(&io::Error::from_raw_os_error(number));
            assert!(
                !words.is_empty() && !words.contains("os error") && !words.contains("entity"),
                "{number}: {words}"
            );
        }
        for (number, words) in [
            (2, "it is not there"),
            (28, "no room is left there"),
            (40, "its links lead in a circle"),
            (71, "protocol error"),
        ] {
            assert_eq!(describe_io_error(&io::Error::from_raw_os_error(number)), words);
        }
        assert_eq!(describe_io_error(&io::Error::other("our own words")), "our own words");
    }
}
