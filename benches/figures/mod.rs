//! Figures the engine must reach: each is printed on one line besides criterion's own report,
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

/// Requirement on a figure.
#[derive(Clone, Copy)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
    /// No requirement; the figure is informative.
    Nothing,
}

/// Sets the process up as the program does. To be called first.
pub fn begin() {
    keep_freed_memory();
    for pool in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::set_var(pool, "1") };
    }
}

/// Times in seconds that criterion measured of the same work.
#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    /// For `Bencher::iter_custom`: does the work so often, and notes what each took.
    pub fn take(&mut self, times: u64, mut work: impl FnMut() -> Duration) -> Duration {
        let taken: Vec<Duration> = (0..times).map(|_| work()).collect();
        self.0.extend(taken.iter().map(Duration::as_secs_f64));
        taken.iter().sum()
    }

    /// Notes a figure that was taken elsewhere.
    pub fn note(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// The middle one.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    /// The figure's line; `of` makes the figure of a noted time. Silent if criterion was asked to leave it out.
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

    /// The line of the most memory that was resident meanwhile, in MB.
    pub fn print_peak(&self, name: &str, limit: f64) {
        if let Some(peak) = memory::peak().filter(|_| !self.0.is_empty()) {
            print(&format!("{name}, resident memory"), "MB", Asked::AtMost(limit), peak);
        }
    }
}

/// The line of a single number.
pub fn print(name: &str, unit: &str, asked: Asked, number: f64) {
    Times(vec![number]).print(name, unit, asked, |number| number);
}
