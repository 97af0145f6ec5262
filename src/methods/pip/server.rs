//! Prototypes at the server: merged as a round closes, and sent from the second round of a task on.

use std::collections::BTreeMap;

use super::prototypes::{COUNTS, MEANS, VARIANCES, prototypes_of};
use super::upload::described_in;
use super::{Gaussian, Pip, PipPrototypes, Weighing};
use crate::methods::averaging::{ClosedRound, SAMPLES};
use crate::methods::class_statistics::flag_bytes;
use crate::methods::parts::{Demands, DownloadExtras, ServerUpdate, TaskStart};
use crate::model::ParameterSet;
use crate::policy::{Capability, ExchangeFacts, Metrics, PolicyError, RoundContext, TensorSpec};
use crate::wire::{Dtype, Kind, Section};

/// Returns true if downloads hold prototypes: in every round of a task but the first.
fn is_sent(round_in_phase: u32) -> bool {
    round_in_phase > 0
}

impl DownloadExtras<PipPrototypes> for Pip {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let shape = [facts.view.rows.len(), facts.model.backbone.dim()];
        let table = |name| TensorSpec::new(Kind::Prototypes, name, &shape, Dtype::F32);
        let sent = is_sent(facts.round_in_phase);
        sent.then(|| [MEANS, VARIANCES].map(table)).into_iter().flatten().collect()
    }

    /// Returns true if prototypes are sent: those of classes that no client reported are missing.
    fn is_upper_bound(&self, facts: &ExchangeFacts<'_>) -> bool {
        is_sent(facts.round_in_phase)
    }

    fn sections(
        &self,
        known: &PipPrototypes,
        round: &RoundContext,
    ) -> Result<Vec<Section>, PolicyError> {
        match is_sent(round.round_in_phase) {
            true => Ok(known.section()?.into_iter().collect()),
            false => Ok(Vec::new()),
        }
    }

    fn field_template(&self, facts: &ExchangeFacts<'_>) -> Vec<u8> {
        vec![0; if is_sent(facts.round_in_phase) { flag_bytes(facts.view) } else { 0 }]
    }

    fn fields(&self, known: &PipPrototypes, round: &RoundContext) -> Vec<u8> {
        match is_sent(round.round_in_phase) {
            true => known.flags(&round.stage.view),
            false => Vec::new(),
        }
    }
}

impl ServerUpdate<PipPrototypes> for Pip {
    fn begin_task(&self, start: TaskStart<'_>, known: &mut PipPrototypes, _: &mut ParameterSet) {
        known.dim = start.model.backbone.dim();
    }

    fn server_update(
        &self,
        known: &mut PipPrototypes,
        ClosedRound { aggregate, .. }: ClosedRound<'_>,
        _theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        if !self.injects() {
            return Ok(Metrics::new());
        }
        let mut reports: BTreeMap<u32, Vec<(f64, Gaussian)>> = BTreeMap::new();
        for kept in &aggregate.kept_uploads {
            let rows = described_in(&kept.update)?;
            let visits = known.visit(kept.meta.participant.client);
            let counts = match self.proto_weights {
                Weighing::Classes if !rows.is_empty() => {
                    let counts = kept.update.tensor(Kind::Prototypes, COUNTS)?;
                    counts.shaped(&[rows.len()])?.numbers()
                }
                Weighing::Samples | Weighing::Classes => {
                    let samples = kept.update.tensor(Kind::Statistics, SAMPLES)?.numbers();
                    vec![samples.iter().sum(); rows.len()]
                }
                Weighing::Visits => vec![visits as f64; rows.len()],
            };
            for ((row, gaussian), count) in
                prototypes_of(&kept.update, &rows)?.into_iter().zip(counts)
            {
                reports.entry(row).or_default().push((count, gaussian));
            }
        }
        known.update(&reports, self.merge);
        Ok(vec![("prototypes", known.known.len() as f64)])
    }

    fn demands(&self) -> Demands {
        match self.injects() {
            true => Demands::restricting(
                &[Capability::MixedTasks],
                "its prototypes are of one task's classes",
            ),
            false => Demands::default(),
        }
    }
}
