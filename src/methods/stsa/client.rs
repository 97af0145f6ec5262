//! STSA's client: one pass over its samples of the task, no gradient.

use std::sync::Arc;

use super::Stsa;
use super::config::Variant;
use super::features::collect;
use super::messages::{Down, Spread, Up};
use crate::numerics::symmetric::Gram;
use crate::policy::{ClientPolicy, Failure, Lab, Member, Outcome, PolicyError};

/// Serves every client: it keeps nothing.
pub struct StsaClient {
    pub(super) method: Arc<Stsa>,
}

impl ClientPolicy<Stsa> for StsaClient {
    fn train(
        &self,
        members: &mut [Member<'_, Stsa>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        members
            .iter()
            .map(|member| match member.shard.is_empty() {
                true => Err(Failure::NoData),
                false => Ok(self.sums(&member.down, member, lab)?),
            })
            .collect()
    }
}

impl StsaClient {
    fn sums(
        &self,
        down: &Down,
        member: &Member<'_, Stsa>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let config = &self.method.config;
        let layer = self.method.layer(down.seed);
        let exact = matches!(config.variant, Variant::Exact { .. });
        let found = collect(lab, &member.shard, &member.seat.view, &layer, exact)?;
        let up = Up {
            sums: found.sums,
            spread: match found.gram.map(Gram::finish) {
                Some(gram) => Spread::Gram(gram),
                None => Spread::Counts(found.counts),
            },
            payload: config.payload,
            symmetric: config.variant == Variant::Exact { symmetric: true },
        };
        Ok(Outcome { up, metrics: Vec::new() })
    }
}
