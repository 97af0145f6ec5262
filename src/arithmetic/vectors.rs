//! Which vector instructions kernels use: the widest that the machine has, or fewer where a test asks for it.

use std::cell::Cell;
use std::sync::LazyLock;

/// Instruction sets that kernels are compiled for, each with all that comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// What every machine of the platform has.
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
    /// All, narrow to wide.
    pub const ALL: [Vectors; 4] =
        [Vectors::Baseline, Vectors::Avx2, Vectors::Avx512, Vectors::Avx512Bf16];

    /// The widest that the machine has.
    pub fn of_machine() -> Vectors {
        static FOUND: LazyLock<Vectors> = LazyLock::new(Vectors::detect);
        *FOUND
    }

    /// What kernels in this thread use.
    #[inline]
    pub fn in_use() -> Vectors {
        Vectors::of_machine().min(LIMIT.get())
    }

    /// Runs `work` in this thread with no wider vectors than these: how tests and benches compare widths.
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

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Vectors {
        use std::is_x86_feature_detected as has;
        if !(has!("avx2") && has!("fma")) {
            return Vectors::Baseline;
        }
        if !(has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq")) {
            return Vectors::Avx2;
        }
        if has!("avx512bf16") { Vectors::Avx512Bf16 } else { Vectors::Avx512 }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Vectors {
        Vectors::Baseline
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
