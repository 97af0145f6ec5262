//! `FEDCAST_ARITHMETIC`: a narrower path than the widest one, for the whole process.
//!
//! Every path gives the same bits. So the variable serves to check that, and machines on which a wide path is slower
//! than a narrow one.

use std::ffi::OsStr;

use thiserror::Error;

use super::Vectors;

/// Name of the environment variable that forces a path.
pub const VARIABLE: &str = "FEDCAST_ARITHMETIC";

/// Reason why the value of [`VARIABLE`] cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArithmeticError {
    /// Word that names no path.
    #[error(
        "{VARIABLE}: unknown path `{word}`, expected `portable`, `avx2` or `avx512`\n  \
         help: unset it to use the widest path that this machine has (`{machine}`)"
    )]
    Unknown {
        /// Value of the variable.
        word: String,
        /// Widest path of this machine.
        machine: Vectors,
    },
    /// Path whose instructions this machine lacks.
    #[error(
        "{VARIABLE}: path `{word}` needs instructions that this machine lacks, its widest path is `{machine}`\n  \
         help: unset it, or ask for a narrower path; every path gives the same bits"
    )]
    TooWide {
        /// Value of the variable.
        word: String,
        /// Widest path of this machine.
        machine: Vectors,
    },
}

/// Returns the path that a value of [`VARIABLE`] requests, on a machine whose widest path is `machine`.
///
/// Without a value, or with an empty one, it is the widest. `avx512` includes products of `bf16` if the machine has
/// them.
///
/// # Errors
/// Returns an error if the value names no path, or one that is wider than the machine's.
pub(super) fn chosen(value: Option<&OsStr>, machine: Vectors) -> Result<Vectors, ArithmeticError> {
    let word = match value {
        Some(value) if !value.is_empty() => value.to_string_lossy().into_owned(),
        _ => return Ok(machine),
    };
    let asked = match word.as_str() {
        "portable" => Vectors::Baseline,
        "avx2" => Vectors::Avx2,
        "avx512" => machine.max(Vectors::Avx512),
        _ => return Err(ArithmeticError::Unknown { word, machine }),
    };
    if asked > machine {
        return Err(ArithmeticError::TooWide { word, machine });
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(word: &str, machine: Vectors) -> Result<Vectors, ArithmeticError> {
        chosen(Some(OsStr::new(word)), machine)
    }

    #[test]
    fn no_word_asks_for_the_widest_path() {
        for machine in Vectors::ALL {
            assert_eq!(chosen(None, machine), Ok(machine));
            assert_eq!(asked("", machine), Ok(machine));
        }
    }

    #[test]
    fn a_path_is_never_wider_than_the_machine() {
        use Vectors::{Avx2, Avx512, Avx512Bf16, Baseline};
        let found = |word: &str| Vectors::ALL.map(|machine| asked(word, machine).ok());
        assert_eq!(found("portable"), [Some(Baseline); 4]);
        assert_eq!(found("avx2"), [None, Some(Avx2), Some(Avx2), Some(Avx2)]);
        assert_eq!(found("avx512"), [None, None, Some(Avx512), Some(Avx512Bf16)]);
        let error = asked("avx512", Avx2).unwrap_err().to_string();
        assert!(
            error.contains("path `avx512`") && error.contains("widest path is `avx2`"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_word_is_an_error_with_all_words() {
        for word in ["AVX2", "avx2 ", "sse", "baseline", "avx512bf16"] {
            let error = asked(word, Vectors::Avx512Bf16).unwrap_err().to_string();
            for part in [word, "`portable`, `avx2` or `avx512`", "(`avx512`)", "\n  help: "] {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
    }
}
