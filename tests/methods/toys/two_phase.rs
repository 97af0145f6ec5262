//! Two phases with messages of their own, and all uploads kept.
//!
//! `collect`: every client says how many samples it has. `agree`, two rounds: the server proposes
//! the median; a client answers whether it has at least as many.

use std::sync::Arc;

use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

use super::visits::Constant;

pub struct Median;

/// download and upload alike: a variant per phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Talk {
    Collect(u32),
    Agree(bool),
    Proposal(u32),
}

impl Talk {
    fn layout(tag: u8) -> MessageSpec {
        let value = TensorSpec::new(Kind::Settings, "value", &[], Dtype::U32);
        MessageSpec { control: vec![tag], extra: vec![value.kept()], ..MessageSpec::default() }
    }

    fn write(&self) -> Result<Message, PolicyError> {
        let (tag, value) = match self {
            Talk::Collect(samples) => (0, *samples),
            Talk::Agree(yes) => (1, u32::from(*yes)),
            Talk::Proposal(samples) => (2, *samples),
        };
        let value = TensorValues::U32([value].into());
        Ok(Message::filling(&Talk::layout(tag), Default::default(), [value])?)
    }

    pub fn read(message: &Message) -> Result<Talk, WireError> {
        let value = message.tensor(Kind::Settings, "value")?.as_u32()?[0];
        match message.control[..] {
            [0] => Ok(Talk::Collect(value)),
            [1] => Ok(Talk::Agree(value == 1)),
            [2] => Ok(Talk::Proposal(value)),
            _ => Err(WireError::Malformed("an unknown phase".into())),
        }
    }
}

fn answer(member: &Member) -> Result<ClientResult, PolicyError> {
    let samples = member.shard.len() as u32;
    let up = match Talk::read(&member.download)? {
        Talk::Proposal(median) => Talk::Agree(samples >= median),
        _ => Talk::Collect(samples),
    };
    Ok(ClientResult { upload: up.write()?, metrics: Vec::new() })
}

impl Method for Median {
    fn server(&self, _ctx: &RunContext, _init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(MedianServer { median: 0, agreed: 0 }))
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }

    fn phases(&self, _stage: &Stage, _rounds: u32) -> Vec<Phase> {
        vec![
            Phase::new("collect", 1, CohortRule::Sampled),
            Phase::new("agree", 2, CohortRule::Participants),
        ]
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        Talk::layout(match (facts.phase, message) {
            (0, _) => 0,
            (_, MessageKind::Download) => 2,
            _ => 1,
        })
    }

    fn train(
        &self,
        members: &mut [Member],
        _ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        members.iter().map(|member| answer(member).map_err(Failure::from)).collect()
    }
}

pub struct MedianServer {
    median: u32,
    agreed: u32,
}

impl Server for MedianServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let down = if round.phase == 0 { Talk::Collect(0) } else { Talk::Proposal(self.median) };
        Ok(shared(down.write()?, participants))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let kept = aggregate.map(|aggregate| aggregate.kept_uploads).unwrap_or_default();
        let said = kept.iter().map(|kept| Talk::read(&kept.update));
        let said = said.collect::<Result<Vec<Talk>, WireError>>()?;
        if round.phase == 0 {
            let samples = |talk: &Talk| match talk {
                Talk::Collect(samples) => Some(*samples),
                _ => None,
            };
            let mut all: Vec<u32> = said.iter().filter_map(samples).collect();
            all.sort_unstable();
            self.median = all[all.len() / 2];
        } else {
            self.agreed = said.iter().filter(|talk| **talk == Talk::Agree(true)).count() as u32;
        }
        Ok(())
    }

    fn predictor(&self, _ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        let values = vec![self.median, self.agreed];
        let values = NamedTensor::u32("median and agreed", [2], values).unwrap();
        Body::new(Vec::new(), vec![Section::new(Kind::Settings, vec![values])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let values = saved.tensor(Kind::Settings, "median and agreed")?.as_u32()?;
        (self.median, self.agreed) = (values[0], values[1]);
        Ok(())
    }
}
