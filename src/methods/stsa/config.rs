//! The settings of STSA and STSA-E.

use clap::ValueEnum;

use crate::numerics::ridge::Penalty;
use crate::scenario::reader::{Choice, Param, TableReader};

/// How the head scores features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadMode {
    /// Features and rows of the head at length one (the code).
    ///
    /// `<h / |h|, w_c / |w_c|>`: short rows of rare classes count as much as long ones.
    Cosine,
    /// Plain inner products (the paper's text).
    ///
    /// `<h, w_c>`.
    Linear,
}

/// What lambda is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
enum LambdaScale {
    /// Added as it is (the paper).
    Absolute,
    /// Times tr(G) / D, for features of any scale.
    Trace,
}

/// The numbers in which statistics travel; sums are f64 on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Payload {
    /// Four bytes a number, as the paper counts.
    F32,
    /// Eight bytes a number, nothing is rounded.
    F64,
}

/// Which units of a class count as its `U`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum UnitCount {
    /// Units that hold a sample of the class: unbiased.
    Nonempty,
    /// All parts of the round's clients, empty ones too (the released code).
    ///
    /// The covariance comes out too small.
    Total,
}

/// What is assumed of a class that a single unit holds: its scatter is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OneUnit {
    /// No scatter: its samples lie at their mean.
    Mean,
    /// The scatter of the task's other classes, pooled.
    Pooled,
}

/// What clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// STSA: the Gram matrix itself.
    Exact {
        /// Whether only its lower triangle travels.
        symmetric: bool,
    },
    /// STSA-E: counts, from which the server estimates it.
    Estimated(Estimation),
}

/// How STSA-E estimates the Gram matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimation {
    /// Which units count.
    pub unit_count: UnitCount,
    /// What a class of one unit gets.
    pub one_unit: OneUnit,
    /// Whether the estimate is compared with the true matrix in every round.
    pub diagnostics: bool,
    /// Whether the head is compared with that of the exact statistics in every round.
    pub head_error: bool,
}

/// The `[method]` table of STSA and STSA-E.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StsaConfig {
    /// `D`, the width of the random features; the width of the backbone's switches them off.
    pub width: u32,
    /// Added to the diagonal of the Gram matrix.
    pub lambda: Penalty,
    /// How often lambda may be raised tenfold where there is no Cholesky factor.
    pub raises: u32,
    /// How the head scores features.
    pub head_mode: HeadMode,
    /// The numbers in which statistics travel.
    pub payload: Payload,
    /// What travels.
    pub variant: Variant,
}

impl StsaConfig {
    /// Reads the keys of a `[method]` table of STSA.
    pub fn exact(table: &mut TableReader<'_>) -> StsaConfig {
        let symmetric = Param::new("symmetric", false, "send the lower triangle of G only");
        let symmetric = table.get(&symmetric.source("the paper's table counts all of G"));
        StsaConfig::read(table, Variant::Exact { symmetric })
    }

    /// Reads the keys of a `[method]` table of STSA-E.
    pub fn estimated(table: &mut TableReader<'_>) -> StsaConfig {
        let unit_count = Param::new("unit_count", UnitCount::Nonempty, "which units are U");
        let one_unit = Param::new("one_unit", OneUnit::Mean, "scatter of a class of one unit");
        let diagnostics =
            Param::new("diagnostics", false, "compare the estimate with the true G every round");
        let head_error = Param::new(
            "head_error",
            false,
            "compare the head with that of the true G and P every round, and with the bound",
        );
        let estimation = Estimation {
            unit_count: table.get(&unit_count.source("nonempty is unbiased; the code has total")),
            one_unit: table.get(&one_unit),
            diagnostics: table.get(&diagnostics),
            head_error: table.get(&head_error.source("Proposition 3.2, Theorem 3.3")),
        };
        StsaConfig::read(table, Variant::Estimated(estimation))
    }

    fn read(table: &mut TableReader<'_>, variant: Variant) -> StsaConfig {
        let width = Param::new("width", 1250, "D; the backbone's own width switches the layer off")
            .source("paper: 1250 on ViT, 5000 on ResNet-18")
            .at_least(1.0)
            .at_most(65_536.0);
        let lambda = Param::new("lambda", 1e6, "added to the diagonal of G")
            .source("paper: 1e6 on ViT, 1e4 on ResNet-18")
            .at_least(0.0);
        let scale = Param::new("lambda_scale", LambdaScale::Absolute, "what lambda counts");
        let raises =
            Param::new("raises", 6, "tenfold raises of lambda where G has no Cholesky factor")
                .at_most(300.0);
        let head_mode = Param::new("head_mode", HeadMode::Cosine, "how the head scores");
        let payload = Param::new("payload", Payload::F32, "numbers of the uploaded sums");
        let lambda = table.get(&lambda);
        StsaConfig {
            width: table.get(&width),
            lambda: match table.get(&scale) {
                LambdaScale::Absolute => Penalty::Absolute(lambda),
                LambdaScale::Trace => Penalty::Relative(lambda),
            },
            raises: table.get(&raises),
            head_mode: table.get(&head_mode.source("code: cosine; paper's text: linear")),
            payload: table.get(&payload.source("paper")),
            variant,
        }
    }
}
