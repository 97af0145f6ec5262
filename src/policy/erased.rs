//! The thin typed adapter between methods and the engine: the only place that downcasts.
//!
//! The federation handles [`AnyMethod`], [`AnyServer`] and opaque payloads; [`erase`] wraps a
//! typed [`Method`] into them. A failed downcast is a broken invariant of the engine (a payload
//! of one method handed to another) and panics.

use std::sync::Arc;

use super::additive::UNMARKED;
use super::any::{no_mean, no_sum};
use super::{
    AnyMember, AnyMethod, AnyOutcome, AnyPart, AnyServer, AnyState, Asset, AssetSketch,
    ClientPolicy, ClientState, ExchangeSketch, Failure, Field, Folding, Lab, Member, Message,
    Method, Next, Outcome, ParameterAverage, Part, Payload, Period, Phase, PolicyError, Predictor,
    RoundContext, Seat, ServerPolicy, SketchFacts, UpMeta, averaged,
};
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::ClientId;
use crate::wire::{Body, BodySketch, WireError};

/// Puts a method's types away.
pub fn erase<M: Method>(method: M) -> Arc<dyn AnyMethod> {
    let client = method.client();
    Arc::new(Erased { method, client })
}

struct Erased<M: Method> {
    method: M,
    client: M::Client,
}

impl<M: Method> Erased<M> {
    /// That the server keeps a field whole, and what for.
    fn kept(&self, why: Option<&str>) -> Option<String> {
        let mut fields = self.method.fields().iter();
        let Field { name, .. } = fields.find(|field| field.folding == Folding::Keep)?;
        let why = why.map(|why| format!(", {why}")).unwrap_or_default();
        Some(format!("the server keeps the field `{name}` of every client whole{why}"))
    }
}

struct ErasedServer<M: Method>(M::Server);

fn open<T: 'static>(payload: &Payload) -> &T {
    payload.downcast_ref().expect("payload belongs to this method")
}

fn typed<T: Send + Sync + 'static>(payload: &Payload) -> Arc<T> {
    Arc::clone(payload).downcast().expect("payload belongs to this method")
}

fn part_of<M: Method>(part: AnyPart) -> M::Part {
    *part.downcast().expect("part belongs to this method")
}

fn state_of<M: Method>(state: &AnyState) -> &M::State {
    state.downcast_ref().expect("state belongs to this method")
}

impl<M: Method> AnyMethod for Erased<M> {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn AnyServer>, PolicyError> {
        Ok(Box::new(ErasedServer::<M>(self.method.server(lab, init)?)))
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.method.phases(period, rounds)
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        self.method.sketch(facts)
    }

    fn feature_sketch(&self) -> BodySketch {
        self.method.feature_sketch()
    }

    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        self.method.asset_sketches(facts)
    }

    fn fields(&self) -> Vec<Field> {
        self.method.fields().to_vec()
    }

    fn charged(&self) -> bool {
        self.method.charged()
    }

    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.method.work(phase, samples, plan)
    }

    fn stateless(&self) -> bool {
        M::State::STATELESS
    }

    fn fresh_state(&self) -> AnyState {
        Box::new(M::State::default())
    }

    fn save_state(&self, state: &AnyState) -> Body {
        state_of::<M>(state).save()
    }

    fn load_state(&self, saved: &Body) -> Result<AnyState, WireError> {
        Ok(Box::new(M::State::load(saved)?))
    }

    fn state_bytes(&self, state: &AnyState) -> u64 {
        state_of::<M>(state).kept_bytes()
    }

    fn train(&self, members: &mut [AnyMember], lab: &Lab) -> Vec<Result<AnyOutcome, Failure>> {
        let mut typed_members: Vec<Member<'_, M>> = members
            .iter_mut()
            .map(|member| Member {
                seat: member.seat.clone(),
                phase: member.phase,
                down: typed(&member.down),
                state: member.state.downcast_mut().expect("state belongs to this method"),
                shard: Arc::clone(&member.shard),
                key: member.key,
                missed: member.missed.clone(),
            })
            .collect();
        let outcomes = self.client.train(&mut typed_members, lab);
        outcomes
            .into_iter()
            .map(|outcome| {
                outcome.map(|Outcome { up, metrics }| AnyOutcome { up: Arc::new(up), metrics })
            })
            .collect()
    }

    fn largest_pack(&self, _view: &Arc<TaskView>, phase: usize) -> usize {
        self.client.largest_pack(phase)
    }

    fn client_predictor(
        &self,
        down: &Payload,
        up: &Payload,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.client.predictor(open::<M::Down>(down), open::<M::Up>(up), lab)
    }

    fn pack_down(&self, down: &Payload) -> Body {
        open::<M::Down>(down).pack()
    }

    fn down_assets(&self, down: &Payload) -> Vec<Arc<Asset>> {
        open::<M::Down>(down).assets()
    }

    fn unpack_down(&self, body: &Body, assets: &[Arc<Asset>]) -> Result<Payload, WireError> {
        Ok(Arc::new(M::Down::unpack_with(body, assets)?))
    }

    fn pack_up(&self, up: &Payload) -> Body {
        open::<M::Up>(up).pack()
    }

    fn unpack_up(&self, body: &Body) -> Result<Payload, WireError> {
        Ok(Arc::new(M::Up::unpack(body)?))
    }

    fn lift(&self, down: &Payload, up: &Body, meta: &UpMeta) -> Result<AnyPart, PolicyError> {
        let up = M::Up::unpack(up)?;
        Ok(Box::new(self.method.lift(open::<M::Down>(down), up, meta)?))
    }

    fn merge(&self, earlier: AnyPart, later: AnyPart) -> AnyPart {
        Box::new(part_of::<M>(earlier).merge(part_of::<M>(later)))
    }

    fn not_a_sum(&self) -> Option<String> {
        let why = self.method.additive().err();
        self.kept(why.filter(|why| *why != UNMARKED)).or_else(|| why.map(str::to_string))
    }

    fn summand(&self, down: &Payload, up: &Payload, meta: &UpMeta) -> Result<Body, PolicyError> {
        let additive = self.method.additive().map_err(no_sum)?;
        additive.summand(open::<M::Down>(down), open::<M::Up>(up), meta)
    }

    fn part_of_sum(&self, sum: &Body) -> Result<AnyPart, PolicyError> {
        Ok(Box::new(self.method.additive().map_err(no_sum)?.part(sum)?))
    }

    fn not_averaged(&self) -> Option<String> {
        let why = self.method.averaged().err();
        self.kept(why.filter(|why| *why != averaged::UNMARKED)).or_else(|| why.map(str::to_string))
    }

    fn average<'a>(&self, part: &'a mut AnyPart) -> Option<&'a mut ParameterAverage> {
        let averaged = self.method.averaged().ok()?;
        Some(averaged.average(part.downcast_mut().expect("part belongs to this method")))
    }

    fn changed(
        &self,
        down: &Payload,
        up: &Payload,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Payload, PolicyError> {
        let averaged = self.method.averaged().map_err(no_mean)?;
        Ok(Arc::new(averaged.changed(open::<M::Down>(down), open::<M::Up>(up), change)?))
    }

    fn not_late(&self) -> Option<String> {
        self.method.late().err().map(str::to_string)
    }

    fn not_mixed(&self) -> Option<String> {
        self.method.mixed().err().map(str::to_string)
    }

    fn symmetric(&self) -> Vec<&'static str> {
        self.method.symmetric().to_vec()
    }
}

impl<M: Method> AnyServer for ErasedServer<M> {
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.0.begin_period(period, lab)
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.0.seats(round, cohort)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Payload>, PolicyError> {
        let downs = self.0.broadcast(round, seats, lab)?;
        Ok(downs.into_iter().map(|down| down as Payload).collect())
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<AnyPart>,
        lab: &Lab,
    ) -> Result<Next, PolicyError> {
        self.0.end_round(round, folded.map(part_of::<M>), lab)
    }

    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.0.end_period(period, lab)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.0.predictor(lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.0.figures()
    }

    fn save(&self) -> Body {
        self.0.save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.0.load(saved)
    }
}
