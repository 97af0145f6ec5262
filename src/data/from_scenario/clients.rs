//! Clients of a scenario: their samples.

use crate::data::{
    DataError, FreshClients, FreshPartition, NaturalClients, PartitionRule, Partitioner, Split,
};
use crate::scenario::{PartitionKind, PartitionSection};

impl Partitioner {
    /// Returns the rule of `[partition]` among `clients` that hold data; `seed` is `seed.partition`.
    ///
    /// # Errors
    /// Returns an error if the rule cannot divide a whole task.
    pub fn from_scenario(
        section: &PartitionSection,
        clients: u32,
        seed: u64,
    ) -> Result<Partitioner, DataError> {
        let kind = match section.kind {
            PartitionKind::Iid => PartitionRule::Iid,
            PartitionKind::Dirichlet { beta } => PartitionRule::Dirichlet { beta },
            PartitionKind::Capped { beta } => PartitionRule::Capped { beta },
            PartitionKind::Lda { alpha } => PartitionRule::Lda { alpha },
            PartitionKind::Quantity { classes_per_client } => {
                PartitionRule::Quantity { classes: classes_per_client as usize }
            }
            PartitionKind::Extended {
                beta,
                reserved_samples: picks,
                reserved_beta: picks_beta,
            } => PartitionRule::Extended { beta, reserve_beta: picks_beta, picks },
            PartitionKind::Slices { .. } => {
                return Err(DataError::unfit_at(
                    "partition.kind",
                    "slices need clients with their own tasks",
                    "set tasks.arrival = \"client-tasks\", or choose another partition",
                ));
            }
            // Plans use it while the data are not present, see `NaturalClients::from_scenario`.
            PartitionKind::Natural { .. } => PartitionRule::Iid,
            PartitionKind::File { .. } => {
                return Err(DataError::unfit_at(
                    "partition.file",
                    "a file assigns samples to clients, and the data are missing",
                    "check data.path",
                ));
            }
            PartitionKind::Ratios { .. } => {
                return Err(DataError::unfit_at(
                    "partition.kind",
                    "these shards are drawn by client, for clients that take part once",
                    "set participation.population = \"fresh\"",
                ));
            }
        };
        let (min_samples, attempts) = (section.min_samples, section.attempts);
        Ok(Partitioner { kind, clients, min_samples, attempts, seed })
    }
}

impl NaturalClients {
    /// Returns the clients that `[partition]` finds in the data; `None` where it divides them instead.
    ///
    /// # Errors
    /// Fails as [`NaturalClients::new`] does.
    pub fn from_scenario(
        section: &PartitionSection,
        clients: u32,
        split: &Split,
    ) -> Result<Option<NaturalClients>, DataError> {
        match section.kind {
            PartitionKind::Natural { leftover: rest } => {
                NaturalClients::new(split, clients, section.min_samples, rest).map(Some)
            }
            PartitionKind::File { .. } => {
                NaturalClients::listed(split, clients, section.min_samples).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Dirichlet concentration of a fresh client's labels if `[partition]` has none (`iid`): practically even.
const EVEN: f64 = 1e9;

impl FreshClients {
    /// Returns the stateless population of `[partition]`. It has ratios, or a concentration and `samples_per_client`.
    ///
    /// # Errors
    /// Returns an error if the rule has no meaning for single clients, or gives no size.
    pub fn from_scenario(section: &PartitionSection, seed: u64) -> Result<FreshClients, DataError> {
        let beta = match section.kind {
            PartitionKind::Dirichlet { beta } => beta,
            PartitionKind::Iid => EVEN,
            PartitionKind::Ratios { split, category, imbalance, counts_only } => {
                let distribution =
                    FreshPartition::Ratios { split, category, imbalance, counts_only };
                return Ok(FreshClients { distribution, seed });
            }
            PartitionKind::Slices { .. }
            | PartitionKind::Capped { .. }
            | PartitionKind::Lda { .. }
            | PartitionKind::Natural { .. }
            | PartitionKind::File { .. }
            | PartitionKind::Quantity { .. }
            | PartitionKind::Extended { .. } => {
                return Err(DataError::unfit_at(
                    "partition.kind",
                    "fresh clients are drawn one by one, but this partition divides a task among all",
                    "use partition.kind = \"dirichlet\", \"iid\" or \"ratios\" with a fresh population",
                ));
            }
        };
        let samples = section.samples_per_client.ok_or_else(|| {
            DataError::unfit("fresh clients need a size", "set partition.samples_per_client")
        })?;
        Ok(FreshClients { distribution: FreshPartition::Dirichlet { beta, samples }, seed })
    }
}
