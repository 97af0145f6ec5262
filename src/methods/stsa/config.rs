//! Settings of STSA and STSA-E.

use clap::ValueEnum;

use crate::numerics::ridge::Penalty;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Scores that the head gives to features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadMode {
    /// Cosines of features and rows of the head (the code).
    ///
    /// `<h / |h|, w_c / |w_c|>`: short rows of rare classes count as much as long ones.
    Cosine,
    /// Inner products (the paper's text).
    ///
    /// `<h, w_c>`.
    Linear,
}

/// Unit of `lambda`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum LambdaScale {
    /// Absolute (the paper).
    Absolute,
    /// Multiple of tr(G) / D, for features of any scale.
    Trace,
}

/// Number type of statistics in messages; sums are f64 on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Payload {
    /// 4 bytes per number, as the paper counts.
    F32,
    /// 8 bytes per number, without rounding.
    F64,
}

/// Units of a class that count as its `U`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum UnitCount {
    /// Units that hold a sample of the class: unbiased.
    Nonempty,
    /// All parts of the round's clients, empty ones too (the released code).
    ///
    /// The estimated covariance is too small.
    Total,
}

/// Assumed scatter of a class that a single unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OneUnit {
    /// None: its samples equal their mean.
    Mean,
    /// Pooled scatter of the task's other classes.
    Pooled,
}

/// Statistics that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// STSA: the Gram matrix itself.
    Exact {
        /// Lower triangle alone.
        symmetric: bool,
    },
    /// STSA-E: counts, from which the server estimates it.
    Estimated(Estimation),
}

/// Keys of STSA only.
#[derive(Keys)]
struct GramForm {
    /// Lower triangle of the Gram matrix in messages, in place of the whole.
    #[key(default = false, source = "the paper's table counts all of G")]
    symmetric: bool,
}

/// Estimate of the Gram matrix by STSA-E.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Keys)]
pub struct Estimation {
    /// Units of a class that count as its U.
    #[key(default = UnitCount::Nonempty, source = "nonempty is unbiased; total in the code")]
    pub unit_count: UnitCount,
    /// Assumed scatter of a class that a single unit holds.
    #[key(default = OneUnit::Mean)]
    pub one_unit: OneUnit,
    /// Comparison of the estimate with the true Gram matrix in every round.
    #[key(default = false)]
    pub diagnostics: bool,
    /// Comparison of the head with that of the exact statistics and with the bound, in every round.
    #[key(default = false, source = "Proposition 3.2, Theorem 3.3")]
    pub head_error: bool,
}

/// Keys of the `[method]` table of STSA and STSA-E.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(given(variant: Variant))]
pub struct StsaConfig {
    /// Number added to the diagonal of the Gram matrix, in units of `lambda_scale`.
    #[key(default = 1e6, source = "paper: 1e6 on ViT, 1e4 on ResNet-18", at_least = 0.0)]
    pub lambda: f64,
    /// Width D of the random features; the width of the backbone turns them off.
    #[key(
        default = 1250,
        source = "paper: 1250 on ViT, 5000 on ResNet-18",
        at_least = 1.0,
        at_most = 65_536.0
    )]
    pub width: u32,
    /// Unit of `lambda`.
    #[key(default = LambdaScale::Absolute)]
    pub lambda_scale: LambdaScale,
    /// Largest number of tenfold increases of `lambda` if the Gram matrix has no Cholesky factor.
    #[key(default = 6, at_most = 300.0)]
    pub raises: u32,
    /// Scores that the head gives to features.
    #[key(default = HeadMode::Cosine, source = "code: cosine; paper's text: linear")]
    pub head_mode: HeadMode,
    /// Number type of statistics in messages.
    #[key(default = Payload::F32, source = "paper")]
    pub payload: Payload,
    /// Statistics in messages.
    #[key(value = variant)]
    pub variant: Variant,
}

impl StsaConfig {
    /// Reads the keys of a `[method]` table of STSA.
    pub fn exact(table: &mut TableReader<'_>) -> StsaConfig {
        let GramForm { symmetric } = GramForm::read(table);
        StsaConfig::read(table, Variant::Exact { symmetric })
    }

    /// Reads the keys of a `[method]` table of STSA-E.
    pub fn estimated(table: &mut TableReader<'_>) -> StsaConfig {
        let estimation = Estimation::read(table);
        StsaConfig::read(table, Variant::Estimated(estimation))
    }

    /// Returns the number added to the diagonal of the Gram matrix.
    pub(super) fn penalty(&self) -> Penalty {
        match self.lambda_scale {
            LambdaScale::Absolute => Penalty::Absolute(self.lambda),
            LambdaScale::Trace => Penalty::Relative(self.lambda),
        }
    }
}
