//! The bearer token that clients must present.

use std::{
    io::{ErrorKind, Read},
    path::Path,
};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use midex_domain::{
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_folder::{is_accessible_to_others, open_regular};

const WRITE_TOKEN_ACTION: &str =
    "Write a token into it: `(umask 077; openssl rand -hex 32 > {path})`";

/// A bearer token. Only its SHA-256 digest is kept.
#[derive(Clone)]
pub struct BearerToken([u8; 32]);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken")
    }
}

impl BearerToken {
    /// Takes a token: visible ASCII, [`limits::BEARER_TOKEN_BYTES_MIN`] to [`limits::BEARER_TOKEN_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `USAGE_INVALID` if the text has another length or other characters.
    pub fn new(text: &str) -> Result<Self> {
        let allowed_lengths = limits::BEARER_TOKEN_BYTES_MIN..=limits::BEARER_TOKEN_BYTES_MAX;
        if !allowed_lengths.contains(&text.len())
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let message = format!(
                "a bearer token is {} to {} visible ASCII characters",
                allowed_lengths.start(),
                allowed_lengths.end()
            );
            return Err(Error::new(Code::UsageInvalid, message));
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Reads the token from a file that only its owner may access. Surrounding white space is ignored.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` if the file cannot be read, or if group or others have permissions on it; `USAGE_INVALID` as
    /// [`BearerToken::new`].
    pub fn read_token_file(path: &Path) -> Result<Self> {
        Self::new(&Self::read_text(path)?)
    }

    /// Reads the text of a token, for a program that presents it: as [`BearerToken::read_token_file`].
    ///
    /// # Errors
    /// As [`BearerToken::read_token_file`].
    pub fn read_text(path: &Path) -> Result<String> {
        let path_text = path.display().to_string();
        let unusable = |what: &str| {
            Error::new(Code::FileUnusable, format!("{path_text} {what}"))
                .with_context("path", path_text.clone())
        };
        let (file, metadata) = open_regular(path).map_err(|error| {
            let is_missing = error.kind() == ErrorKind::NotFound;
            let error = unusable(&format!("cannot be read: {}", describe_io_error(&error)))
                .with_source(error);
            if is_missing { error.with_action(WRITE_TOKEN_ACTION) } else { error }
        })?;
        let unreadable = |error| unusable("cannot be read").with_source(error);
        // The metadata is that of the open file, so replacing the path in the meantime has no effect.
        if is_accessible_to_others(&metadata) {
            return Err(unusable("can be read by others, so its token is no secret")
                .with_action("Run `chmod 600 {path}`"));
        }
        let max_bytes = 2 * limits::BEARER_TOKEN_BYTES_MAX as u64;
        if metadata.len() > max_bytes {
            return Err(unusable("is too large for a token"));
        }
        let mut text = String::new();
        file.take(max_bytes).read_to_string(&mut text).map_err(unreadable)?;
        let text = text.trim();
        Self::new(text).map(|_| text.to_owned()).map_err(|error| {
            Error::new(error.code(), format!("{path_text} holds no token: {}", error.message()))
                .with_action("Write one into it, for example with `openssl rand -hex 32`")
        })
    }

    /// Whether an `Authorization` header carries this bearer token. The comparison takes constant time, so that its
    /// duration reveals nothing about the token.
    pub fn is_authorized(&self, authorization: Option<&str>) -> bool {
        let credentials = authorization.and_then(|value| value.split_once(' '));
        let Some((_, token)) =
            credentials.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        else {
            return false;
        };
        let digest: [u8; 32] = Sha256::digest(token.trim()).into();
        digest.ct_eq(&self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_the_exact_token_is_accepted() {
        let token = BearerToken::new(TOKEN).expect("a token");
        for good in [format!("Bearer {TOKEN}"), format!("bearer  {TOKEN} ")] {
            assert!(token.is_authorized(Some(&good)), "{good}");
        }
        let shorter = &TOKEN[..TOKEN.len() - 1];
        for bad in [
            TOKEN.to_owned(),
            format!("Basic {TOKEN}"),
            format!("Bearer {shorter}"),
            format!("Bearer {TOKEN}0"),
            "Bearer ".into(),
            String::new(),
        ] {
            assert!(!token.is_authorized(Some(&bad)), "{bad}");
        }
        assert!(!token.is_authorized(None));
        assert!(!format!("{token:?}").contains(TOKEN));
    }

    #[test]
    fn token_length_is_limited() {
        let sized = |size| BearerToken::new(&"a".repeat(size)).is_ok();
        assert!(sized(limits::BEARER_TOKEN_BYTES_MIN) && sized(limits::BEARER_TOKEN_BYTES_MAX));
        assert!(!sized(limits::BEARER_TOKEN_BYTES_MIN - 1));
        assert!(!sized(limits::BEARER_TOKEN_BYTES_MAX + 1));
        assert!(BearerToken::new(&format!("{TOKEN} x")).is_err());
    }

    #[test]
    fn token_file_readable_by_others_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), format!("{TOKEN}\n")).expect("written");
        let mode = |mode| fs::set_permissions(file.path(), fs::Permissions::from_mode(mode));
        mode(0o600).expect("set");
        let token = BearerToken::read_token_file(file.path()).expect("a token");
        assert!(token.is_authorized(Some(&format!("Bearer {TOKEN}"))));
        mode(0o640).expect("set");
        let refused = BearerToken::read_token_file(file.path()).expect_err("others may read it");
        assert_eq!(refused.code(), Code::FileUnusable);
        assert!(refused.suggested_action().starts_with("Run `chmod 600 /"));
        mode(0o600).expect("set");
        fs::write(file.path(), "short").expect("written");
        let refused = BearerToken::read_token_file(file.path()).expect_err("no token");
        assert_eq!(refused.code(), Code::UsageInvalid);
    }
}
