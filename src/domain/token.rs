//! Continuation tokens: `base64url` of `{execution_id, step_name, issued_at, nonce}`.
//!
//! A token is not signed: it is valid only if it matches the grant that the execution holds. The comparison takes
//! constant time.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IgnoredAny};
use subtle::ConstantTimeEq;

use super::{
    document::write_hex,
    id::{ExecutionId, StepId},
};
use crate::{
    clock::{IdSource, Timestamp},
    error::{Code, Error, Result},
    limits,
};

/// 128 random bits; shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Nonce([u8; 16]);

/// JSON never holds a nonce, except as part of a [`Token`]: what is exported must give nobody the right to finish a step.
impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_unit()
        } else {
            self.0.serialize(serializer)
        }
    }
}

/// A nonce that JSON left out consists of zeros.
impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            IgnoredAny::deserialize(deserializer).map(|_| Self::default())
        } else {
            <[u8; 16]>::deserialize(deserializer).map(Self)
        }
    }
}

impl Nonce {
    /// A fresh nonce.
    pub fn generate(ids: &dyn IdSource) -> Self {
        Self(ids.random().to_be_bytes())
    }

    fn parse(text: &str) -> Option<Self> {
        let lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let value = u128::from_str_radix(text, 16).ok()?;
        (text.len() == 32 && lower).then_some(Self(value.to_be_bytes()))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A nonce is a secret, so logs do not show it.
        f.write_str("Nonce(..)")
    }
}

/// The part of a token that an execution stores: the two fields that the visit does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenGrant {
    /// The secret part of the token.
    pub nonce: Nonce,
    /// When it was issued, from which its lifetime is counted.
    pub issued_at: Timestamp,
}

impl TokenGrant {
    /// A fresh grant.
    pub fn issue(now: Timestamp, ids: &dyn IdSource) -> Self {
        Self { nonce: Nonce::generate(ids), issued_at: now }
    }

    /// Whether `token` carries this grant. Takes constant time.
    pub fn matches(&self, token: &Token) -> bool {
        let time = self.issued_at.milliseconds().ct_eq(&token.issued_at.milliseconds());
        bool::from(self.nonce.0.ct_eq(&token.nonce.0) & time)
    }
}

/// A continuation token: the right to finish one attempt of one step visit. Its JSON is the payload of the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The execution it belongs to.
    pub execution_id: ExecutionId,
    /// The step it finishes.
    pub step_name: StepId,
    /// When it was issued.
    pub issued_at: Timestamp,
    #[serde(with = "digits")]
    nonce: Nonce,
}

/// A nonce in JSON: its hexadecimal digits.
mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Nonce;

    pub(super) fn serialize<S: Serializer>(nonce: &Nonce, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(nonce)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nonce, D::Error> {
        let text = String::deserialize(from)?;
        Nonce::parse(&text).ok_or_else(|| D::Error::custom("32 hexadecimal digits are expected"))
    }
}

impl Token {
    /// The token for `grant` of a visit of this step.
    pub fn new(execution_id: ExecutionId, step_name: StepId, grant: TokenGrant) -> Self {
        Self { execution_id, step_name, issued_at: grant.issued_at, nonce: grant.nonce }
    }

    /// The grant that the token carries.
    pub fn grant(&self) -> TokenGrant {
        TokenGrant { nonce: self.nonce, issued_at: self.issued_at }
    }

    /// The text form, which clients hold.
    pub fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.payload())
    }

    fn payload(&self) -> Vec<u8> {
        // A token has four string fields, so serialising it cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a token. Only the one text that [`Token::encode`] gives is accepted, so that no second
    /// spelling of a token exists.
    ///
    /// # Errors
    /// `TOKEN_MALFORMED` for everything else.
    pub fn parse(text: &str) -> Result<Self> {
        Self::decode_text(text)
            .ok_or_else(|| Error::new(Code::TokenMalformed, "Invalid or malformed token"))
    }

    fn decode_text(text: &str) -> Option<Self> {
        if text.len() > limits::TOKEN_BYTES_MAX {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let token: Self = serde_json::from_slice(&bytes).ok()?;
        // The base64 decoder is strict, so only the JSON text is left to compare.
        (token.payload() == bytes).then_some(token)
    }

    /// Refuses a token that was issued after `now`.
    pub fn check_not_from_future(&self, now: Timestamp) -> Result<()> {
        if self.issued_at <= now {
            return Ok(());
        }
        Err(Error::new(Code::TokenFromFuture, "Token issued in the future")
            .with_context("step_id", self.step_name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SeededIds;

    fn sample_token() -> Token {
        let now = Timestamp::from_milliseconds(1_736_935_200_123);
        let grant = TokenGrant::issue(now, &SeededIds::new(3));
        let id = ExecutionId::parse("exec 1/ü").expect("an id");
        Token::new(id, StepId::parse("design").expect("a step"), grant)
    }

    #[test]
    fn token_encodes_the_documented_payload() {
        let text = sample_token().encode();
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(&text).expect("base64url");
        let payload: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(payload["issued_at"], "2025-01-15T10:00:00.123Z");
        assert_eq!(payload["nonce"].as_str().map(str::len), Some(32));
        assert_eq!(Token::parse(&text).expect("own token"), sample_token());
    }

    #[test]
    fn corrupted_text_is_never_the_same_token() {
        let text = sample_token().encode();
        for at in 0..text.len() {
            assert!(Token::parse(&text[..at]).is_err());
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                if let Some(other) =
                    String::from_utf8(bytes).ok().and_then(|text| Token::parse(&text).ok())
                {
                    assert_ne!(other, sample_token());
                }
            }
        }
    }

    #[test]
    fn alternate_encodings_are_refused() {
        let text = sample_token().encode();
        let json = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&text).expect("base64url"))
            .expect("UTF-8");
        for other in [
            json.replace(':', ": "),
            json.replace(".123Z", ".1230Z"),
            json.replace('}', ",\"a\":1}"),
        ] {
            assert_ne!(other, json);
            assert!(Token::parse(&BASE64_URL_SAFE_NO_PAD.encode(other)).is_err());
        }
        assert!(Token::parse(&format!("{text}=")).is_err());
        assert!(Token::parse(&format!(" {text}")).is_err());
        assert!(Token::parse(&"A".repeat(limits::TOKEN_BYTES_MAX + 1)).is_err());
    }
}
