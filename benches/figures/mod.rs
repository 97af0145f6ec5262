//! Figures that benchmarks must reach. Each is printed on one line, in addition to criterion's report:
//!
//! ```text
//! figure  no-op, 32 kB: 512 rounds/s (best 530), asked at least 500: reached
//! ```
//! The number that counts is the median of criterion's samples.
#![allow(dead_code, unused_imports)] // every bench uses a part of it

pub mod arithmetic;
mod memory;
mod noise;
mod processor;
mod records;

use std::time::Duration;

use fedcast::experiment::keep_freed_memory;
pub use memory::{forget_peak, peak};
pub use noise::noise;
pub use processor::processor_time;
pub use records::Records;

/// Requirement for a figure.
#[derive(Clone, Copy)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
    /// No requirement, for informative figures.
    Nothing,
}

/// Sets the process up as the program does. Must be called first.
pub fn begin() {
    keep_freed_memory();
    for pool in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
        // SAFETY: no other thread that could read the environment is running yet.
        unsafe { std::env::set_var(pool, "1") };
    }
}

/// Times in seconds that criterion measured for the same work.
#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    /// Does the work `times` times, records each duration, and returns their sum, as `Bencher::iter_custom` needs it.
    pub fn take(&mut self, times: u64, mut work: impl FnMut() -> Duration) -> Duration {
        let taken: Vec<Duration> = (0..times).map(|_| work()).collect();
        self.0.extend(taken.iter().map(Duration::as_secs_f64));
        taken.iter().sum()
    }

    /// Records a figure that was measured elsewhere.
    pub fn note(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Returns the median of the recorded times.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    /// Prints the figure's line, where `of` converts a recorded time to the figure.
    ///
    /// Prints nothing if criterion's filter excluded the work.
    pub fn print(&self, name: &str, unit: &str, asked: Asked, of: impl Fn(f64) -> f64) {
        let mut figures: Vec<f64> = self.0.iter().map(|taken| of(*taken)).collect();
        figures.sort_by(f64::total_cmp);
        let Some(median) = figures.get(figures.len() / 2) else { return };
        let (Some(least), Some(most)) = (figures.first(), figures.last()) else { return };
        let (best, word, limit, reached) = match asked {
            Asked::AtLeast(limit) => (most, "at least", limit, *median >= limit),
            Asked::AtMost(limit) => (least, "at most", limit, *median <= limit),
            Asked::Nothing => return println!("figure  {name}: {median:.1} {unit}"),
        };
        let verdict = if reached { "reached" } else { "missed" };
        println!(
            "figure  {name}: {median:.1} {unit} (best {best:.1}), asked {word} {limit}: {verdict}"
        );
    }

    /// Prints the line of the peak memory since the last reset, in MB.
    pub fn print_peak(&self, name: &str, limit: f64) {
        if let Some(peak) = memory::peak().filter(|_| !self.0.is_empty()) {
            print(&format!("{name}, resident memory"), "MB", Asked::AtMost(limit), peak);
        }
    }
}

/// Prints the line of a single number.
pub fn print(name: &str, unit: &str, asked: Asked, number: f64) {
    Times(vec![number]).print(name, unit, asked, |number| number);
}
