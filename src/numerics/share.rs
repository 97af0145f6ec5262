//! Whole numbers from shares of a total.
//!
//! In binary `0.29 * 100` is 28.999999999999996 and `0.07 * 100` is 7.000000000000001, but the author of such a share
//! means 29 and 7. So a number within a billionth of a whole number counts as that number.
//!
//! ```
//! use fedcast::numerics::share::{least_share_of, share_of};
//! assert_eq!((share_of(100, 0.29), share_of(15, 0.1)), (29, 1)); // rounded down
//! assert_eq!((least_share_of(100, 0.07), least_share_of(15, 0.1)), (7, 2)); // rounded up
//! ```

const SLACK: f64 = 1e-9;

/// Returns `share` of `n`, rounded down.
pub fn share_of(n: usize, share: f64) -> usize {
    floor(share * n as f64)
}

/// Returns `share` of `n`, rounded up.
pub fn least_share_of(n: usize, share: f64) -> usize {
    ceil(share * n as f64)
}

/// Returns a product or quotient rounded down, where nearly whole numbers count as whole; 0 below zero.
pub fn floor(exact: f64) -> usize {
    (exact + SLACK).floor() as usize
}

/// Returns a product or quotient rounded up, where nearly whole numbers count as whole; 0 below zero.
pub fn ceil(exact: f64) -> usize {
    (exact - SLACK).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_percentage_of_a_hundred_is_itself_either_way() {
        for percent in 0..=100 {
            let share = f64::from(percent) / 100.0;
            assert_eq!(share_of(100, share), percent as usize);
            assert_eq!(least_share_of(100, share), percent as usize);
        }
        assert_eq!((share_of(10, 0.99), least_share_of(10, 0.01)), (9, 1));
        assert_eq!((floor(-0.5), ceil(-0.5), share_of(0, 1.0)), (0, 0, 0));
    }
}
