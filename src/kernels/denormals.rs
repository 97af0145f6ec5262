//! Check of denormal numbers: they are kept, as results of a run assume, or flushed to zero.
//!
//! A library that was compiled with fast math may make the processor flush them, for the thread that loads it and all
//! threads that this one starts.

use std::hint::black_box;

/// Returns true if arithmetic on this thread produces and reads denormal numbers.
pub fn are_kept() -> bool {
    let smallest = black_box(f32::MIN_POSITIVE);
    // Flushing results makes the first product zero; reading denormals as zero makes the second one zero.
    let half = black_box(smallest * black_box(0.5));
    black_box(half * black_box(2.0)) == smallest
}

#[cfg(test)]
mod tests {
    #[test]
    fn denormals_are_kept_by_this_program() {
        assert!(super::are_kept());
    }
}
