//! Fuzz tests: whatever bytes are in a file of other origin, reading them ends, without a panic and within bounds,
//! in a value or in an error that says what is wrong.
//!
//! Inputs are a small corpus of valid ones, damaged at random: bytes changed, cut, doubled, pieces of others put in,
//! numbers made extreme. A test tries a few hundred; `FEDCAST_FUZZ_CASES=100000 cargo test --release --test library
//! fuzz` tries as many as it says. A failure is shown with its input, made as small as it fails with.

mod archives;
mod damage;
mod datasets;
mod frames;
mod recordings;
mod scenarios;
mod weights;

use proptest::test_runner::Config;

/// Number of inputs that a fuzz test tries.
fn cases(few: u32) -> Config {
    let asked = std::env::var("FEDCAST_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    // Nothing is written next to the tests: a finding becomes a separate test.
    Config { cases: asked.unwrap_or(few), failure_persistence: None, ..Config::default() }
}
