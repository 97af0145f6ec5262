//! Typed methods as the engine sees them, until each has become data: every upload is kept, and lifted and merged when the
//! round closes.

use std::sync::Arc;

use super::{ClientPolicy, Member, Method, OldMessage, Outcome, Part, ServerPolicy};
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    AnyMember, AnyMethod, AnyOutcome, AnyServer, ClientState, ExchangeSketch, Failure, Folded,
    Kept, Lab, Layout, Message, Period, Phase, Place, PolicyError, Predictor, RoundContext, Seat,
    SketchFacts,
};
use crate::wire::{Body, BodySketch, Kind, WireError};

/// Puts a method's types away.
pub fn erase<M: Method>(method: M) -> Arc<dyn AnyMethod> {
    let client = method.client();
    Arc::new(Erased { method: Arc::new(method), client })
}

struct Erased<M: Method> {
    method: Arc<M>,
    client: M::Client,
}

struct ErasedServer<M: Method>(M::Server, Arc<M>);

fn down_of<M: Method>(message: &Message) -> Result<M::Down, WireError> {
    M::Down::unpack_with(&message.body(), &message.assets)
}

fn message_of<T: OldMessage>(typed: &T) -> Message {
    Message::from_body(&typed.pack(), &typed.assets()).expect("parameters are f32")
}

fn layout(sketch: &BodySketch, kept: bool, size: crate::policy::UpSize) -> Layout {
    let mut layout = Layout { control: vec![0; sketch.meta], size, ..Layout::default() };
    for section in &sketch.sections {
        for tensor in &section.tensors {
            let place =
                Place::new(section.kind, Arc::clone(&tensor.name), &tensor.shape, tensor.dtype);
            let place = if kept { place.kept() } else { place };
            match section.kind {
                Kind::Weights | Kind::Prompt | Kind::Head => layout.parameters.push(place),
                _ => layout.extra.push(place),
            }
        }
    }
    layout
}

impl<M: Method> AnyMethod for Erased<M> {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn AnyServer>, PolicyError> {
        Ok(Box::new(ErasedServer::<M>(self.method.server(lab, init)?, Arc::clone(&self.method))))
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.method.phases(period, rounds)
    }

    fn down(&self, facts: &SketchFacts<'_>) -> Layout {
        let ExchangeSketch { down, .. } = self.method.sketch(facts);
        let assets = self.method.asset_sketches(facts);
        Layout { assets, ..layout(&down, false, crate::policy::UpSize::Static) }
    }

    fn up(&self, facts: &SketchFacts<'_>) -> Layout {
        let ExchangeSketch { up, up_size, .. } = self.method.sketch(facts);
        layout(&up, true, up_size)
    }

    fn feature_sketch(&self) -> BodySketch {
        self.method.feature_sketch()
    }

    fn charged(&self) -> bool {
        self.method.charged()
    }

    fn work(&self, _view: &TaskView, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.method.work(phase, samples, plan)
    }

    fn stateless(&self) -> bool {
        M::State::STATELESS
    }

    fn kept_bytes(&self, state: &Body) -> u64 {
        M::State::of(state).map_or(0, |state| state.kept_bytes())
    }

    fn train(&self, members: &mut [AnyMember], lab: &Lab) -> Vec<Result<AnyOutcome, Failure>> {
        let read = |member: &AnyMember| -> Result<_, PolicyError> {
            Ok((Arc::new(down_of::<M>(&member.down)?), M::State::of(&member.state)?))
        };
        let mut typed = Vec::with_capacity(members.len());
        for member in members.iter() {
            match read(member) {
                Ok(read) => typed.push(read),
                Err(error) => {
                    let failure = Failure::from(error);
                    return members.iter().map(|_| Err(failure.clone())).collect();
                }
            }
        }
        let mut pack: Vec<Member<'_, M>> = members
            .iter()
            .zip(&mut typed)
            .map(|(member, (down, state))| Member {
                seat: member.seat.clone(),
                phase: member.phase,
                down: Arc::clone(down),
                state,
                shard: Arc::clone(&member.shard),
                key: member.key,
                missed: member.missed.clone(),
            })
            .collect();
        let outcomes = self.client.train(&mut pack, lab);
        for (member, (_, state)) in members.iter_mut().zip(&typed) {
            member.state = state.save();
        }
        let outcome = |Outcome { up, metrics }| AnyOutcome { up: message_of(&up), metrics };
        outcomes.into_iter().map(|one| one.map(outcome)).collect()
    }

    fn largest_pack(&self, _view: &Arc<TaskView>, phase: usize) -> usize {
        self.client.largest_pack(phase)
    }

    fn own_model(
        &self,
        _facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.client.predictor(&down_of::<M>(sent)?, &M::Up::unpack(&own.body())?, lab)
    }
}

impl<M: Method> ErasedServer<M> {
    fn part(&self, kept: Kept) -> Result<M::Part, PolicyError> {
        let up = M::Up::unpack(&kept.update.body())?;
        self.1.lift(&down_of::<M>(&kept.sent)?, up, &kept.meta)
    }
}

/// Merges in the tree over seats.
fn tree<P: Part>(mut parts: Vec<(usize, P)>) -> Option<P> {
    while parts.len() > 1 || parts.first().is_some_and(|(place, _)| *place > 0) {
        let mut next: Vec<(usize, P)> = Vec::new();
        for (place, part) in parts {
            match next.pop() {
                Some((known, left)) if known == place / 2 => next.push((known, left.merge(part))),
                other => {
                    next.extend(other);
                    next.push((place / 2, part));
                }
            }
        }
        parts = next;
    }
    parts.pop().map(|(_, part)| part)
}

impl<M: Method> AnyServer for ErasedServer<M> {
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.0.begin_period(period, lab)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let downs = self.0.broadcast(round, seats, lab)?;
        let mut known: Vec<(Arc<M::Down>, Arc<Message>)> = Vec::new();
        Ok(downs
            .into_iter()
            .map(|down| {
                if let Some((_, message)) = known.iter().find(|(one, _)| Arc::ptr_eq(one, &down)) {
                    return Arc::clone(message);
                }
                let message = Arc::new(message_of(&*down));
                known.push((down, Arc::clone(&message)));
                message
            })
            .collect())
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        let mut part = None;
        if let Some(Folded { kept, .. }) = folded {
            let (own, late): (Vec<Kept>, Vec<Kept>) =
                kept.into_iter().partition(|kept| kept.meta.base == round.round);
            let of = |kept: Kept| Ok((kept.meta.seat.id.index(), self.part(kept)?));
            part = tree(own.into_iter().map(of).collect::<Result<Vec<_>, PolicyError>>()?);
            for kept in late {
                let more = self.part(kept)?;
                part = Some(match part {
                    Some(part) => M::Part::merge(part, more),
                    None => more,
                });
            }
        }
        self.0.end_round(round, part, lab).map(drop)
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
