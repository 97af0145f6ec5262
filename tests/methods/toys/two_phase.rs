//! Two phases with messages of their own, all uploads kept, and a phase that ends early.
//!
//! `collect`: every client says how many samples it has. `agree`: the server proposes the
//! median; a client answers whether it has at least as many; the phase, of at most ten rounds,
//! ends when at least half agree (which the median reaches in the first).

use std::sync::Arc;

use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

use super::visits::Constant;

pub struct Median;

/// Down and Up alike: a variant per phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Talk {
    Collect(u32),
    Agree(bool),
    Proposal(u32),
}

impl Message for Talk {
    fn pack(&self) -> Body {
        let (tag, value) = match self {
            Talk::Collect(samples) => (0, *samples),
            Talk::Agree(yes) => (1, u32::from(*yes)),
            Talk::Proposal(samples) => (2, *samples),
        };
        let value = NamedTensor::u32("value", [], vec![value]).unwrap();
        Body::new(vec![tag], vec![Section::new(Kind::Settings, vec![value])])
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let value = body.tensor(Kind::Settings, "value")?.as_u32()?[0];
        match body.meta[..] {
            [0] => Ok(Talk::Collect(value)),
            [1] => Ok(Talk::Agree(value == 1)),
            [2] => Ok(Talk::Proposal(value)),
            _ => Err(WireError::Malformed("an unknown phase".into())),
        }
    }
}

impl Method for Median {
    type Down = Talk;
    type Up = Talk;
    type Part = Keep<Talk>;
    type State = ();
    type Server = MedianServer;
    type Client = MedianClient;

    fn server(&self, _lab: &Lab, _init: StreamKey) -> Result<MedianServer, PolicyError> {
        Ok(MedianServer { median: 0 })
    }

    fn client(&self) -> MedianClient {
        MedianClient
    }

    fn phases(&self, _period: &Period, _rounds: u32) -> Vec<Phase> {
        vec![
            Phase { name: "collect", rounds: Rounds::Fixed(1), cohort: CohortRule::Sampled },
            Phase { name: "agree", rounds: Rounds::AtMost(10), cohort: CohortRule::Participants },
        ]
    }

    fn sketch(&self, _facts: &SketchFacts<'_>) -> ExchangeSketch {
        let body = Talk::Collect(0).pack().sketch();
        ExchangeSketch { down: body.clone(), up: body, up_size: UpSize::Static }
    }

    fn fields(&self) -> &'static [Field] {
        &[Field { name: "talk", folding: Folding::Keep }]
    }

    fn lift(&self, _down: &Talk, up: Talk, meta: &UpMeta) -> Result<Keep<Talk>, PolicyError> {
        Ok(Keep::one(meta.seat.id, up))
    }
}

pub struct MedianClient;

impl ClientPolicy<Median> for MedianClient {
    fn train(
        &self,
        members: &mut [Member<'_, Median>],
        _lab: &Lab,
    ) -> Vec<Result<Outcome<Talk>, Failure>> {
        let answer = |member: &Member<'_, Median>| {
            let samples = member.shard.len() as u32;
            let up = match *member.down {
                Talk::Proposal(median) => Talk::Agree(samples >= median),
                _ => Talk::Collect(samples),
            };
            Ok(Outcome { up, metrics: Vec::new() })
        };
        members.iter().map(answer).collect()
    }
}

pub struct MedianServer {
    median: u32,
}

impl ServerPolicy<Median> for MedianServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Talk>>, PolicyError> {
        let down = if round.phase == 0 { Talk::Collect(0) } else { Talk::Proposal(self.median) };
        Ok(shared(down, seats))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Keep<Talk>>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        let said = folded.map(|keep| keep.0).unwrap_or_default();
        if round.phase == 0 {
            let samples = |(_, talk): &(_, Talk)| match talk {
                Talk::Collect(samples) => Some(*samples),
                _ => None,
            };
            let mut all: Vec<u32> = said.iter().filter_map(samples).collect();
            all.sort_unstable();
            self.median = all[all.len() / 2];
            return Ok(Next::Continue);
        }
        let yes = said.iter().filter(|(_, talk)| *talk == Talk::Agree(true)).count();
        Ok(if 2 * yes >= said.len() { Next::EndPhase } else { Next::Continue })
    }

    fn predictor(&self, _lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        Talk::Proposal(self.median).pack()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        if let Talk::Proposal(median) = Talk::unpack(saved)? {
            self.median = median;
        }
        Ok(())
    }
}
