//! Figures with bars: what the benches `history` and `records` print, and fail on.

use std::process::ExitCode;

use tokio::runtime::Runtime;

/// Runs one group of measurements and prints its figures.
pub(crate) type Table = fn(&Runtime, &mut Figures);

/// The figures that missed their bars.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    missed: Vec<String>,
}

impl Figures {
    /// Prints a figure that nothing is asked of.
    pub(crate) fn print(name: &str, figure: f64, unit: &str) {
        println!("{name:>52} {figure:>10.2} {unit}");
    }

    /// Prints a figure with the most that it may be.
    pub(crate) fn hold(&mut self, name: &str, figure: f64, unit: &str, most: f64) {
        println!("{name:>52} {figure:>10.2} {unit:<14} {most:>8} at most");
        if figure > most {
            self.missed.push(format!("{name}, {figure:.2} {unit} where {most} are allowed"));
        }
    }
}

/// Runs the groups that the arguments of the process name, or all of them. Fails if a figure missed its bar.
pub(crate) fn run_tables(tables: &[(&str, Table)]) -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let wanted: Vec<_> = std::env::args().collect();
    let is_named = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let all = !tables.iter().any(|(name, _)| is_named(name));
    let mut figures = Figures::default();
    for (_, table) in tables.iter().filter(|(name, _)| all || is_named(name)) {
        table(&runtime, &mut figures);
    }
    if figures.missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: missed: {}", figures.missed.join("; "));
    ExitCode::FAILURE
}
