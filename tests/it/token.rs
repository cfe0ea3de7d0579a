//! Tokens: made, forged, renewed, recognised, sent again.

mod forged;
mod lived;
mod recognised;
