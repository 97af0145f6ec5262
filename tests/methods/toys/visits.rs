//! Stateful: a client counts how often the server spoke to it and answers with the count; the
//! server adds all answers up.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

pub struct Visits;

/// The place of one whole number.
pub fn number(name: &'static str) -> TensorSpec {
    TensorSpec::new(Kind::Settings, name, &[1], Dtype::U64)
}

/// A message of nothing but that number.
pub fn saying(place: TensorSpec, number: u64) -> Result<Message, PolicyError> {
    let layout = MessageSpec { extra: vec![place], ..MessageSpec::default() };
    Ok(Message::filling(&layout, Default::default(), [TensorValues::U64([number].into())])?)
}

/// The number of such a message.
pub fn said(message: &Message, name: &str) -> Result<u64, WireError> {
    Ok(message.tensor(Kind::Settings, name)?.as_u64()?[0])
}

#[derive(Default)]
pub struct Count(u64);

impl ClientState for Count {}

impl Saved for Count {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(self.0);
        Body::new(meta.finish(), Vec::new())
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let count = meta.u64()?;
        meta.finish()?;
        Ok(Count(count))
    }
}

fn visited(member: &mut Member) -> Result<ClientResult, PolicyError> {
    let Count(before) = Count::of(&member.state)?;
    member.state = Count(before + 1).save();
    Ok(ClientResult { upload: saying(number("visits"), before + 1)?, metrics: Vec::new() })
}

impl Method for Visits {
    fn server(&self, _ctx: &RunContext, _init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(VisitsServer { totals: Vec::new() }))
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile { stateless: false, ..MethodProfile::default() }
    }

    fn message_spec(&self, message: MessageKind, _facts: &ExchangeFacts<'_>) -> MessageSpec {
        let counts = (message != MessageKind::Download)
            .then(|| number("visits").summed(StalenessRule::Whole));
        MessageSpec { extra: counts.into_iter().collect(), ..MessageSpec::default() }
    }

    fn train(
        &self,
        members: &mut [Member],
        _ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        members.iter_mut().map(|member| visited(member).map_err(Failure::from)).collect()
    }
}

pub struct VisitsServer {
    totals: Vec<u64>,
}

impl Server for VisitsServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        participants: &[Participant],
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(Message::default(), participants))
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        aggregate: Option<Aggregate>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let total =
            aggregate.map_or(Ok(0.0), |aggregate| aggregate.sum("visits").map(|sum| sum[0]))?;
        self.totals.push(total as u64);
        Ok(())
    }

    fn predictor(&self, _ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        let totals = NamedTensor::new(
            "totals",
            [self.totals.len()],
            TensorValues::U64(self.totals.clone().into()),
        );
        Body::new(Vec::new(), vec![Section::new(Kind::Settings, vec![totals.unwrap()])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.totals = saved.tensor(Kind::Settings, "totals")?.as_u64()?.to_vec();
        Ok(())
    }
}

/// Always says row 0.
pub struct Constant;

impl Predictor for Constant {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(pixels.flatten_from(1)?)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let shape = (pixels.dim(0)?, scope.rows().len());
        Ok(Tensor::zeros(shape, candle_core::DType::F32, pixels.device())?)
    }
}
