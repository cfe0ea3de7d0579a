//! How much of a randomised test is run, and from which seed.
//!
//! `cargo test` runs a share of each such test; `MIDEX_LONG=1 cargo test --release` runs all of it.
//! `MIDEX_SEED=N` replays what a failure printed.

/// How often a test is repeated: `short` times, or `long` times in the long run.
pub fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var_os("MIDEX_LONG").is_some() { long } else { short }
}

/// One of so many of `all`, from another beginning with another seed; all of them in the long run.
pub fn share<T>(all: Vec<T>, of: usize) -> Vec<T> {
    let of = usize::try_from(rounds(of as u64, 1)).expect("a small number");
    let first = usize::try_from(seed(0) % of as u64).expect("below a small number");
    all.into_iter().skip(first).step_by(of).collect()
}

/// The seed of a randomised test, printed so that a failure names it: `MIDEX_SEED`, else `fixed`.
#[expect(clippy::print_stdout, reason = "the test harness shows it with a failure")]
pub fn seed(fixed: u64) -> u64 {
    let given = std::env::var("MIDEX_SEED").ok();
    let seed = given.map_or(fixed, |text| text.parse().expect("MIDEX_SEED is a number"));
    println!("MIDEX_SEED={seed}");
    seed
}

/// A plain generator of numbers: the same seed, the same test.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
