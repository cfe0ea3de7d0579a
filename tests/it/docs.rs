//! What is written for users is so.

mod configuration;
mod house;
mod manual;
mod readme;
