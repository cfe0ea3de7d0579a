//! What is written for users is so.

mod manual;
mod readme;
