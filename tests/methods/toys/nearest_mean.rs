//! The second of two staged methods: class means of frozen features, collected in one round per
//! task; the nearest mean wins.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

pub struct NearestMean;

/// Per head row of the task: how many samples, and the sum of their features.
#[derive(Clone, Debug)]
pub struct Sums {
    first_row: usize,
    counts: Vec<u32>,
    sums: Vec<Vec<f64>>,
}

/// The server has nothing to say but which features to use, and that is an asset.
#[derive(Clone, Debug)]
pub struct Hello;

impl Message for Hello {
    fn pack(&self) -> Body {
        Body::default()
    }

    fn unpack(_body: &Body) -> Result<Self, WireError> {
        Ok(Hello)
    }
}

impl Message for Sums {
    fn pack(&self) -> Body {
        let dim = self.sums[0].len();
        let sums: Vec<f64> = self.sums.concat();
        let tensors = vec![
            NamedTensor::u32("counts", [self.counts.len()], self.counts.clone()).unwrap(),
            NamedTensor::f64("sums", [self.counts.len(), dim], sums).unwrap(),
        ];
        Body::new(vec![self.first_row as u8], vec![Section::new(Kind::Statistics, tensors)])
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let sums = body.tensor(Kind::Statistics, "sums")?;
        let dim = sums.shape()[1];
        Ok(Sums {
            first_row: usize::from(body.meta[0]),
            counts: body.tensor(Kind::Statistics, "counts")?.as_u32()?.to_vec(),
            sums: sums.as_f64()?.chunks(dim).map(<[f64]>::to_vec).collect(),
        })
    }
}

impl Part for Sums {
    fn merge(mut self, later: Self) -> Self {
        self.counts.iter_mut().zip(later.counts).for_each(|(a, b)| *a += b);
        for (mine, theirs) in self.sums.iter_mut().zip(later.sums) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        self
    }
}

impl Method for NearestMean {
    type Down = Hello;
    type Up = Sums;
    type Part = Sums;
    type State = ();
    type Server = NearestMeanServer;
    type Client = NearestMeanClient;

    fn server(&self, lab: &Lab, _init: StreamKey) -> Result<NearestMeanServer, PolicyError> {
        features(lab)?;
        Ok(NearestMeanServer { means: Vec::new() })
    }

    fn client(&self) -> NearestMeanClient {
        NearestMeanClient
    }

    fn phases(&self, _period: &Period, _rounds: u32) -> Vec<Phase> {
        vec![Phase { name: "statistics", rounds: Rounds::Fixed(1), cohort: CohortRule::Holders }]
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (rows, dim) = (facts.view.rows.len(), facts.model.backbone.dim());
        let tensors = vec![
            TensorSketch::new("counts", [rows], Dtype::U32),
            TensorSketch::new("sums", [rows, dim], Dtype::F64),
        ];
        ExchangeSketch {
            down: BodySketch::default(),
            up: BodySketch::new(1, vec![SectionSketch::new(Kind::Statistics, tensors)]),
            up_size: UpSize::Static,
        }
    }

    fn fields(&self) -> &'static [Field] {
        &[Field { name: "sums", folding: Folding::Sum }]
    }

    fn lift(&self, _down: &Hello, up: Sums, _meta: &UpMeta) -> Result<Sums, PolicyError> {
        Ok(up)
    }
}

fn features(lab: &Lab) -> Result<&Arc<dyn Predictor>, PolicyError> {
    let missing = || PolicyError::Unsupported("needs the features of a first method".into());
    lab.staged.as_ref().ok_or_else(missing)
}

pub struct NearestMeanClient;

impl NearestMeanClient {
    fn sums(member: &Member<'_, NearestMean>, lab: &Lab) -> Result<Sums, PolicyError> {
        let rows = member.seat.view.rows.clone();
        let dim = lab.backbone.dim();
        let (mut counts, mut sums) = (vec![0; rows.len()], vec![vec![0.0; dim]; rows.len()]);
        for batch in lab.statistics_loader(&member.shard).in_order(lab.evaluation_batch) {
            let batch = batch?;
            let found = features(lab)?.features(&lab.pixels(&batch)?)?.to_vec2::<f32>()?;
            for (feature, label) in found.iter().zip(batch.labels()) {
                let at = *label as usize - rows.start;
                counts[at] += 1;
                sums[at].iter_mut().zip(feature).for_each(|(sum, f)| *sum += f64::from(*f));
            }
        }
        Ok(Sums { first_row: rows.start, counts, sums })
    }
}

impl ClientPolicy<NearestMean> for NearestMeanClient {
    fn train(
        &self,
        members: &mut [Member<'_, NearestMean>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Sums>, Failure>> {
        let outcome = |member: &Member<'_, NearestMean>| {
            Ok(Outcome { up: Self::sums(member, lab)?, metrics: Vec::new() })
        };
        members.iter().map(outcome).collect()
    }
}

pub struct NearestMeanServer {
    /// By head row.
    means: Vec<Vec<f32>>,
}

impl ServerPolicy<NearestMean> for NearestMeanServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Hello>>, PolicyError> {
        Ok(shared(Hello, seats))
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<Sums>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        if let Some(Sums { first_row, counts, sums }) = folded {
            self.means.truncate(first_row);
            let mean = |(sum, count): (Vec<f64>, u32)| {
                sum.into_iter().map(|s| (s / f64::from(count.max(1))) as f32).collect()
            };
            self.means.extend(sums.into_iter().zip(counts).map(mean));
        }
        Ok(Next::Continue)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let features = Arc::clone(features(lab)?);
        Ok(Arc::new(Nearest { features, means: self.means.clone() }))
    }

    fn save(&self) -> Body {
        let dim = self.means.first().map_or(0, Vec::len);
        let means = NamedTensor::f32("means", [self.means.len(), dim], self.means.concat());
        Body::new(Vec::new(), vec![Section::new(Kind::Prototypes, vec![means.unwrap()])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let means = saved.tensor(Kind::Prototypes, "means")?;
        let dim = means.shape()[1].max(1);
        self.means = means.as_f32()?.chunks(dim).map(<[f32]>::to_vec).collect();
        Ok(())
    }
}

struct Nearest {
    features: Arc<dyn Predictor>,
    means: Vec<Vec<f32>>,
}

impl Predictor for Nearest {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        self.features.features(pixels)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let features = self.features(pixels)?.to_vec2::<f32>()?;
        let distance = |feature: &[f32], mean: &[f32]| -> f32 {
            feature.iter().zip(mean).map(|(f, m)| (f - m) * (f - m)).sum()
        };
        let means = &self.means[scope.rows()];
        let scores: Vec<f32> = features
            .iter()
            .flat_map(|feature| means.iter().map(|mean| -distance(feature, mean)))
            .collect();
        Ok(Tensor::from_vec(scores, (features.len(), means.len()), pixels.device())?)
    }
}
