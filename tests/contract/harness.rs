//! Runs a scenario and compares the result with its expectations.

mod disk;
mod engine;
mod history;
mod play;
mod script;
mod server;

pub(crate) use self::{
    play::{Scenario, play},
    server::findings_of,
};

/// One test for each scenario: its name, and the fields of [`Scenario`].
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                #[allow(clippy::needless_update, reason = "a scenario may need every field")]
                let scenario =
                    $crate::harness::Scenario { $($field: $value,)* ..Default::default() };
                $crate::harness::play(&scenario);
            }
        )*
    };
}
