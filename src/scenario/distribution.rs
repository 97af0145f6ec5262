//! Distributions by name: `slowness = 2`, `slowness = { dist = "pareto", median = 1, alpha = 1.5 }`.
//!
//! A plain number is a constant. In a table, keys that are left out keep the values of the preset as long as its
//! distribution is kept: `{ sigma = 1.2 }` only changes the spread.
//!
//! | `dist` | keys | values |
//! |---|---|---|
//! | `constant` | `value` | always `value` |
//! | `uniform` | `low`, `high` | uniform between both |
//! | `normal` | `mean`, `sd` | normal; give a `min` if values must be positive |
//! | `log-normal` | `median`, `sigma` | `sigma` is the standard deviation of the logarithm |
//! | `exponential` | `mean` | exponential waiting times |
//! | `pareto` | `median`, `alpha` | heavy tail; no mean if `alpha` is at most 1 |
//! | `zipf` | `ranks`, `exponent` | rank from 1, with probability proportional to `rank^-exponent` |
//! | `empirical` | `file`, `column` | numbers of a column of a CSV file with a header |
//!
//! All accept `offset` (added to every value), `min` and `max` (values outside are set to these).

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};
use crate::numerics::scalar_distribution::{DistributionKind, ScalarDistribution};

/// Distribution as a scenario writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DistributionSection {
    /// Name and parameters.
    #[serde(flatten)]
    pub shape: DistributionKindSection,
    /// Number added to every value. Default 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: f64,
    /// Lower bound; smaller values become this. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Upper bound; larger values become this. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// Name and parameters of a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "dist", rename_all = "kebab-case")]
#[allow(missing_docs)] // the module has the table
pub enum DistributionKindSection {
    Constant {
        value: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    Normal {
        mean: f64,
        sd: f64,
    },
    LogNormal {
        median: f64,
        sigma: f64,
    },
    Exponential {
        mean: f64,
    },
    Pareto {
        median: f64,
        alpha: f64,
    },
    Zipf {
        ranks: u32,
        exponent: f64,
    },
    Empirical {
        file: PathBuf,
        #[serde(skip_serializing_if = "Option::is_none")]
        column: Option<String>,
        /// Content of the file; read when the scenario is loaded.
        #[serde(skip)]
        values: Arc<[f64]>,
    },
}

/// Words of [`DistributionKindSection`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Dist {
    /// Always `value`.
    Constant,
    /// Uniform between `low` and `high`.
    Uniform,
    /// Normal, by `mean` and `sd`.
    Normal,
    /// Log-normal, by `median` and `sigma` of the logarithm.
    LogNormal,
    /// Exponential, by `mean`.
    Exponential,
    /// Pareto (heavy tail), by `median` and `alpha`.
    Pareto,
    /// Zipf: one of `ranks` ranks, by `exponent`.
    Zipf,
    /// Numbers of a CSV `file`, by `column`.
    Empirical,
}

/// Range of valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Positive,
    AtLeastZero,
}

impl Bound {
    pub fn admits(self, value: f64) -> bool {
        match self {
            Bound::Positive => value > 0.0,
            Bound::AtLeastZero => value >= 0.0,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Bound::Positive => "above 0",
            Bound::AtLeastZero => "at least 0",
        }
    }
}

/// Keys of all distributions.
const KEYS: [&str; 12] = [
    "value", "low", "high", "mean", "sd", "median", "sigma", "alpha", "ranks", "exponent", "file",
    "column",
];

/// Largest number; larger ones are typing errors, and their nanoseconds would not fit.
const LARGEST: f64 = 1e12;

/// Allows infinity for keys such as bandwidths and times of stay.
fn may_be_endless(key: &str, number: Param<f64>) -> Param<f64> {
    match key {
        "down_mb_per_s" | "up_mb_per_s" | "stay_s" => number.or_infinite(),
        _ => number,
    }
}

impl DistributionSection {
    fn plain(shape: DistributionKindSection) -> DistributionSection {
        DistributionSection { shape, offset: 0.0, min: None, max: None }
    }

    /// Returns a constant.
    pub fn constant(value: f64) -> DistributionSection {
        DistributionSection::plain(DistributionKindSection::Constant { value })
    }

    /// Returns true if it is a single number.
    pub fn is_fixed(&self) -> bool {
        matches!(self.shape, DistributionKindSection::Constant { .. })
    }

    /// Returns a log-normal distribution by median and standard deviation of the logarithm.
    pub fn log_normal(median: f64, sigma: f64) -> DistributionSection {
        DistributionSection::plain(DistributionKindSection::LogNormal { median, sigma })
    }

    /// Returns an exponential distribution by its mean.
    pub fn exponential(mean: f64) -> DistributionSection {
        DistributionSection::plain(DistributionKindSection::Exponential { mean })
    }

    /// Returns a Pareto distribution by median and tail exponent, cut at `max`.
    pub fn pareto(median: f64, alpha: f64, max: f64) -> DistributionSection {
        let shape = DistributionKindSection::Pareto { median, alpha };
        DistributionSection { max: Some(max), ..DistributionSection::plain(shape) }
    }

    /// Reads the key `key` of a table: a number or a table.
    pub(super) fn read(
        table: &mut TableReader<'_>,
        key: &'static str,
        default: &DistributionSection,
        bound: Bound,
        doc: &'static str,
    ) -> DistributionSection {
        if table.given(key) && !table.given_table(key) {
            let number = Param::new(key, default.distribution().at_normal(0.0), doc);
            let number = may_be_endless(key, number);
            return DistributionSection::constant(table.get(&match bound {
                Bound::Positive => number.above(0.0),
                Bound::AtLeastZero => number.at_least(0.0),
            }));
        }
        let section =
            table.table(key, |table| DistributionSection::fields(table, key, default, doc));
        let lowest = section.distribution().lowest();
        // Content of a file is checked when it is read.
        let known = !matches!(section.shape, DistributionKindSection::Empirical { .. });
        if known && !bound.admits(lowest) {
            table.reject(
                key,
                &format!(
                    "`{key}` must be {}, but this distribution can give {lowest}",
                    bound.words()
                ),
                "too low",
                "add a `min`, such as `min = 0.01`",
            );
        }
        section
    }

    fn fields(
        table: &mut TableReader<'_>,
        key: &str,
        default: &DistributionSection,
        doc: &'static str,
    ) -> DistributionSection {
        let dist: Dist = table.get(&Param::new("dist", default.shape.dist(), doc));
        // A parameter keeps its default if the distribution stays; otherwise it is required.
        let of = |name: &'static str, example: f64, doc| match default.shape.number(name) {
            Some(value) if default.shape.dist() == dist => Param::new(name, value, doc),
            _ => Param::required(name, example, doc),
        };
        let any = |p: Param<f64>| p.at_least(-LARGEST).at_most(LARGEST);
        let positive = |p: Param<f64>| p.above(0.0).at_most(LARGEST);
        let shape = match dist {
            Dist::Constant => {
                let value = may_be_endless(key, of("value", 1.0, "constant value"));
                DistributionKindSection::Constant { value: table.get(&value) }
            }
            Dist::Uniform => DistributionKindSection::Uniform {
                low: table.get(&any(of("low", 0.5, "smallest value"))),
                high: table.get(&any(of("high", 2.0, "largest value"))),
            },
            Dist::Normal => DistributionKindSection::Normal {
                mean: table.get(&any(of("mean", 1.0, "center"))),
                sd: table.get(&of("sd", 0.2, "standard deviation").at_least(0.0).at_most(LARGEST)),
            },
            Dist::LogNormal => DistributionKindSection::LogNormal {
                median: table.get(&positive(of(
                    "median",
                    1.0,
                    "median: half of the values are below",
                ))),
                sigma: table.get(
                    &of("sigma", 0.5, "standard deviation of the logarithm")
                        .at_least(0.0)
                        .at_most(10.0),
                ),
            },
            Dist::Exponential => DistributionKindSection::Exponential {
                mean: table.get(&positive(of("mean", 1.0, "mean, before `offset`"))),
            },
            Dist::Pareto => DistributionKindSection::Pareto {
                median: table.get(&positive(of(
                    "median",
                    1.0,
                    "median: half of the values are below",
                ))),
                alpha: table.get(
                    &of("alpha", 1.5, "exponent of the tail; smaller is heavier")
                        .at_least(0.01)
                        .at_most(1e3),
                ),
            },
            Dist::Zipf => DistributionKindSection::Zipf {
                ranks: table
                    .get(&Param::required("ranks", 10, "largest rank").at_least(1.0).at_most(1e6)),
                exponent: table.get(
                    &of("exponent", 1.2, "exponent of the weights").at_least(0.0).at_most(1e3),
                ),
            },
            Dist::Empirical => DistributionKindSection::Empirical {
                file: table.get(&Param::required(
                    "file",
                    PathBuf::from("values.csv"),
                    "CSV file with a header, relative to the scenario",
                )),
                column: table.optional(&Param::unset(
                    "column",
                    "column by its name in the header; default: the first",
                )),
                values: Arc::new([]),
            },
        };
        table.foreign(&KEYS, &format!("dist = \"{}\"", dist.word()));
        let kept = default.shape.dist() == dist;
        let offset = if kept { default.offset } else { 0.0 };
        let offset = table.get(&any(Param::new("offset", offset, "number added to every value")));
        let min = edge(
            table,
            "min",
            default.min.filter(|_| kept),
            "lower bound; smaller values become this",
        );
        let max = edge(
            table,
            "max",
            default.max.filter(|_| kept),
            "upper bound; larger values become this",
        );
        if let (Some(low), Some(high)) = (min, max)
            && low > high
        {
            table.reject(
                "max",
                "`max` is less than `min`",
                "too small",
                "raise it, or lower `min`",
            );
        }
        if let DistributionKindSection::Uniform { low, high } = shape
            && low > high
        {
            table.reject("high", "`high` is less than `low`", "too small", "raise it");
        }
        DistributionSection { shape, offset, min, max }
    }

    /// Returns the distribution; an unread file stands for the constant 1.
    pub fn distribution(&self) -> ScalarDistribution {
        let distribution = match &self.shape {
            DistributionKindSection::Constant { value } => ScalarDistribution::constant(*value),
            DistributionKindSection::Uniform { low, high } => {
                ScalarDistribution::new(DistributionKind::Uniform { low: *low, high: *high })
            }
            DistributionKindSection::Normal { mean, sd } => {
                ScalarDistribution::new(DistributionKind::Normal { mean: *mean, deviation: *sd })
            }
            DistributionKindSection::LogNormal { median, sigma } => {
                ScalarDistribution::log_normal(*median, *sigma)
            }
            DistributionKindSection::Exponential { mean } => {
                ScalarDistribution::new(DistributionKind::Exponential { mean: *mean })
            }
            DistributionKindSection::Pareto { median, alpha } => {
                ScalarDistribution::new(DistributionKind::Pareto { median: *median, alpha: *alpha })
            }
            DistributionKindSection::Zipf { ranks, exponent } => {
                ScalarDistribution::zipf(*ranks, *exponent)
            }
            DistributionKindSection::Empirical { values, .. } => {
                ScalarDistribution::empirical(values.to_vec())
                    .unwrap_or(ScalarDistribution::constant(1.0))
            }
        };
        ScalarDistribution {
            offset: self.offset,
            min: self.min.unwrap_or(f64::NEG_INFINITY),
            max: self.max.unwrap_or(f64::INFINITY),
            ..distribution
        }
    }
}

impl DistributionKindSection {
    fn dist(&self) -> Dist {
        match self {
            DistributionKindSection::Constant { .. } => Dist::Constant,
            DistributionKindSection::Uniform { .. } => Dist::Uniform,
            DistributionKindSection::Normal { .. } => Dist::Normal,
            DistributionKindSection::LogNormal { .. } => Dist::LogNormal,
            DistributionKindSection::Exponential { .. } => Dist::Exponential,
            DistributionKindSection::Pareto { .. } => Dist::Pareto,
            DistributionKindSection::Zipf { .. } => Dist::Zipf,
            DistributionKindSection::Empirical { .. } => Dist::Empirical,
        }
    }

    /// Returns the parameter with this name.
    fn number(&self, name: &str) -> Option<f64> {
        match (self, name) {
            (DistributionKindSection::Constant { value }, "value") => Some(*value),
            (DistributionKindSection::LogNormal { median, .. }, "median") => Some(*median),
            (DistributionKindSection::LogNormal { sigma, .. }, "sigma") => Some(*sigma),
            (DistributionKindSection::Exponential { mean }, "mean") => Some(*mean),
            (DistributionKindSection::Pareto { median, .. }, "median") => Some(*median),
            (DistributionKindSection::Pareto { alpha, .. }, "alpha") => Some(*alpha),
            // No preset has another distribution.
            _ => None,
        }
    }
}

/// Reads a bound that may have a default.
fn edge(
    table: &mut TableReader<'_>,
    name: &'static str,
    default: Option<f64>,
    doc: &'static str,
) -> Option<f64> {
    match default {
        Some(value) => Some(table.get(&Param::new(name, value, doc))),
        None => table.optional(&Param::unset(name, doc)),
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
