//! `midex bench`: prints the report of the crate `midex-bench` as tables or as JSON.

use midex_bench::BenchArgs;
use midex_domain::error::Result;
use midex_server::config::Config;

use super::{
    EXIT_OK, Output,
    end_signals::{self, EXIT_INTERRUPTED},
    print_warning,
    screen::{Screen, TextStyle},
};

/// Measures, and prints a table per group, or everything as JSON.
pub(super) async fn run_bench(args: BenchArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let interrupt_signal = end_signals::wait_for_signal(end_signals::subscribe_to_signals()?);
    let Some(report) = midex_bench::bench(args, config, interrupt_signal).await? else {
        print_warning(
            "the measurement was interrupted: its figures are not shown, and its files are removed",
        );
        return Ok(EXIT_INTERRUPTED);
    };
    let screen = Screen::stdout();
    let text = || {
        report
            .text(|title| screen.paint(TextStyle::Bold, title), |header| screen.make_table(header))
    };
    out.print(|| report.json(), text)?;
    Ok(EXIT_OK)
}
