//! Stateful: a client counts how often the server spoke to it and answers with the count; the
//! server adds all answers up.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

pub struct Visits;

/// A message of one number.
#[derive(Clone, Debug)]
pub struct Number(pub u64);

impl Message for Number {
    fn pack(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.f64(self.0 as f64);
        Body::new(meta.finish(), Vec::new())
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let number = meta.f64()? as u64;
        meta.finish()?;
        Ok(Number(number))
    }
}

/// Shapes of an exchange of two [`Number`]s.
pub fn two_numbers() -> ExchangeSketch {
    let number = BodySketch::new(8, Vec::new());
    ExchangeSketch { down: number.clone(), up: number, up_size: UpSize::Static }
}

/// A sum that streams.
#[derive(Debug)]
pub struct Total(pub u64);

impl Part for Total {
    fn merge(self, later: Self) -> Self {
        Total(self.0 + later.0)
    }
}

#[derive(Default)]
pub struct Count(u64);

impl ClientState for Count {
    fn save(&self) -> Body {
        Number(self.0).pack()
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        Ok(Count(Number::unpack(saved)?.0))
    }
}

impl Method for Visits {
    type Down = Number;
    type Up = Number;
    type Part = Total;
    type State = Count;
    type Server = VisitsServer;
    type Client = VisitsClient;

    fn server(&self, _lab: &Lab, _init: StreamKey) -> Result<VisitsServer, PolicyError> {
        Ok(VisitsServer { totals: Vec::new() })
    }

    fn client(&self) -> VisitsClient {
        VisitsClient
    }

    fn sketch(&self, _facts: &SketchFacts<'_>) -> ExchangeSketch {
        two_numbers()
    }

    fn fields(&self) -> &'static [Field] {
        &[Field { name: "visits", folding: Folding::Sum }]
    }

    fn lift(&self, _down: &Number, up: Number, _meta: &UpMeta) -> Result<Total, PolicyError> {
        Ok(Total(up.0))
    }
}

pub struct VisitsClient;

impl ClientPolicy<Visits> for VisitsClient {
    fn train(
        &self,
        members: &mut [Member<'_, Visits>],
        _lab: &Lab,
    ) -> Vec<Result<Outcome<Number>, Failure>> {
        let visit = |member: &mut Member<'_, Visits>| {
            member.state.0 += 1;
            Ok(Outcome { up: Number(member.state.0), metrics: Vec::new() })
        };
        members.iter_mut().map(visit).collect()
    }
}

pub struct VisitsServer {
    totals: Vec<u64>,
}

impl ServerPolicy<Visits> for VisitsServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Number>>, PolicyError> {
        Ok(shared(Number(0), seats))
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<Total>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        self.totals.push(folded.map_or(0, |total| total.0));
        Ok(Next::Continue)
    }

    fn predictor(&self, _lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        let totals = NamedTensor::new(
            "totals",
            [self.totals.len()],
            Values::U64(self.totals.clone().into()),
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
