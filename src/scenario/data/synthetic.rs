//! `[data.synthetic]`: size and shape of a synthetic data set.

use serde::Serialize;

use crate::scenario::reader::{Keys, TableReader};

/// Synthetic data set: one Gaussian per class, around a mean that is drawn once.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = section.check(table))]
pub struct SyntheticSection {
    /// Number of classes.
    #[key(default = 10, at_least = 2.0, at_most = 1e6)]
    pub classes: u32,
    /// Numbers per row.
    #[key(default = 32, at_least = 1.0, at_most = 1e6)]
    pub width: u32,
    /// Training samples per class.
    #[key(default = 100, at_least = 1.0, at_most = 1e8)]
    pub train_samples: u32,
    /// Test samples per class.
    #[key(default = 20, at_least = 1.0, at_most = 1e8)]
    pub test_samples: u32,
    /// Expected distance of two class means, in standard deviations of a class.
    #[key(default = 4.0, at_least = 0.0)]
    pub separation: f64,
    /// Natural owners of the samples, for `partition.kind = "natural"`.
    #[key(at_least = 1.0, at_most = 4e9)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Number of classes of a natural owner; default: all.
    #[key(when = clients.is_some(), at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes_per_client: Option<u32>,
    /// Expected distance between the same class at two natural owners, in standard deviations of a class.
    // Zero is left out of an effective scenario, which may lack the `clients` that the key needs.
    #[key(when = clients.is_some(), default = 0.0, at_least = 0.0)]
    #[serde(skip_serializing_if = "is_zero")]
    pub client_shift: f64,
    /// Seed of means and samples; `--seed` does not change it, because it belongs to the data set.
    #[key(default = 0)]
    pub seed: u64,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl SyntheticSection {
    /// Returns the numbers of classes, of training samples and of test samples.
    pub(super) fn totals(&self) -> (u32, u32, u32) {
        (self.classes, self.classes * self.train_samples, self.classes * self.test_samples)
    }

    fn check(&self, table: &mut TableReader<'_>) {
        if self.classes_per_client.is_some_and(|held| held > self.classes) {
            let message = format!("a client cannot hold more than all {} classes", self.classes);
            let help = "lower it, or remove it: every client then holds every class";
            table.reject("classes_per_client", &message, "above `classes`", help);
        }
        let most = u64::from(u32::MAX);
        for (key, samples) in
            [("train_samples", self.train_samples), ("test_samples", self.test_samples)]
        {
            if u64::from(samples) * u64::from(self.classes) > most {
                let message = format!("more than {most} samples of all classes together");
                table.reject(key, &message, "too many", "lower it, or `classes`");
            }
        }
    }
}
