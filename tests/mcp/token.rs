//! Tokens: made, forged, renewed, sent again.

mod forged;
mod lived;
