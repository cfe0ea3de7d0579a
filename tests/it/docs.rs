//! What is written for users is so.

mod house;
mod manual;
mod readme;
