//! Every limit at its edge and past it, and the bytes that a model is sent.

mod sizes;
mod weight;
