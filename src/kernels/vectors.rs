//! Vector instructions that kernels use: the widest of the machine, or narrower ones on request.
//!
//! The choice only affects speed: every path gives the same bits.

mod environment;

use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;

pub use environment::{ArithmeticError, VARIABLE};

/// Instruction sets that kernels are compiled for. Each includes all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// Instructions that every machine of the platform has.
    Baseline,
    /// 256 bits, and fused multiply-add.
    Avx2,
    /// 512 bits.
    Avx512,
    /// 512 bits, and products of `bf16`.
    Avx512Bf16,
}

thread_local! {
    static LIMIT: Cell<Vectors> = const { Cell::new(Vectors::Avx512Bf16) };
}

impl Vectors {
    /// All instruction sets, from narrow to wide.
    pub const ALL: [Vectors; 4] =
        [Vectors::Baseline, Vectors::Avx2, Vectors::Avx512, Vectors::Avx512Bf16];

    /// Returns the widest set of the machine, or the one that [`VARIABLE`] requests; read once per process.
    ///
    /// An invalid value is ignored here: programs report it by [`from_environment`](Vectors::from_environment) before
    /// they compute.
    pub fn of_machine() -> Vectors {
        static FOUND: LazyLock<Vectors> = LazyLock::new(|| {
            Vectors::from_environment().unwrap_or_else(|_| Vectors::of_hardware())
        });
        *FOUND
    }

    /// Returns the set that [`VARIABLE`] requests; without it, the widest of the machine.
    ///
    /// # Errors
    /// Returns an error if the value names no path, or one that the machine does not have.
    pub fn from_environment() -> Result<Vectors, ArithmeticError> {
        environment::chosen(std::env::var_os(VARIABLE).as_deref(), Vectors::of_hardware())
    }

    /// Returns the set that kernels on this thread use.
    #[inline]
    pub fn in_use() -> Vectors {
        Vectors::of_machine().min(LIMIT.get())
    }

    /// Runs `work` on this thread with no wider vectors than these. Tests and benchmarks compare widths by it.
    pub fn limit<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(Vectors);
        impl Drop for Restore {
            fn drop(&mut self) {
                LIMIT.set(self.0);
            }
        }
        let _restore = Restore(LIMIT.replace(self));
        work()
    }

    /// Returns the widest set of the machine, regardless of [`VARIABLE`].
    #[cfg(target_arch = "x86_64")]
    pub fn of_hardware() -> Vectors {
        use std::is_x86_feature_detected as has;
        if !(has!("avx2") && has!("fma")) {
            return Vectors::Baseline;
        }
        if !(has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq")) {
            return Vectors::Avx2;
        }
        if has!("avx512bf16") { Vectors::Avx512Bf16 } else { Vectors::Avx512 }
    }

    /// Returns the baseline, the only set on this platform.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_hardware() -> Vectors {
        Vectors::Baseline
    }
}

impl fmt::Display for Vectors {
    /// Writes the word for [`VARIABLE`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vectors::Baseline => "portable",
            Vectors::Avx2 => "avx2",
            Vectors::Avx512 | Vectors::Avx512Bf16 => "avx512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_its_work_and_never_widens() {
        let all = Vectors::in_use();
        assert_eq!(all, Vectors::of_machine());
        let within = Vectors::Baseline.limit(|| {
            assert_eq!(Vectors::in_use(), Vectors::Baseline);
            Vectors::Avx512Bf16.limit(Vectors::in_use)
        });
        assert_eq!((within, Vectors::in_use()), (all, all));
    }
}
