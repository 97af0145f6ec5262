//! Progress bar of a download on a terminal; no output if stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar for `total` bytes, if the number is known.
pub(super) fn bar(shown: bool, name: &str, total: Option<u64>) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let style = "{msg}  {bar:24} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.with_message(name.to_owned())
}
