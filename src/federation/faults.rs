//! Faults of a run: messages lost at random, and faults that a scenario asks for.
//!
//! A fault is drawn for a participant from the fault's own stream, so it depends on nothing that happened before. Every
//! fault ends in events: a failed client, a lost frame, a rejected update, a frame that arrives twice, an update that
//! was forged, a server that starts again.
//!
//! ```
//! use fedcast::federation::{CrashTime, Fault, FaultKind, FaultRules, Victim};
//! use fedcast::quantity::{ClientId, Round};
//! let crash = Fault { clients: [ClientId(2)].into(), ..Fault::of(FaultKind::Crash { when: CrashTime::After }) };
//! let faults = FaultRules { entries: vec![crash], ..FaultRules::default() };
//! let strikes = |client| faults.crash(7, Victim { client: ClientId(client), round: Round(0), unit: 0 });
//! assert!(strikes(1).is_none());
//! assert_eq!(strikes(2).map(|(when, _)| when), Some(CrashTime::After));
//! ```

use std::collections::BTreeSet;
use std::fmt;

use rand_chacha::ChaCha8Rng;

use super::event::Direction;
use super::permutation::Permutation;
use crate::numerics::distributions::{below, chance, normal};
use crate::numerics::share::share_of;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, Round, VirtualTime};
pub use crate::scenario::{CrashTime, FaultKind, Forgery, MOST_FAULTS, Spoilage};
use crate::wire::{Body, BodyShape, Dtype, NamedTensor, TensorShape, TensorValues, checksum};

/// Faults of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultRules {
    /// Probability that a download is lost on its way.
    pub lose_down: f64,
    /// Probability that an upload is lost on its way.
    pub lose_up: f64,
    /// Other faults; [`MOST_FAULTS`] at most.
    pub entries: Vec<Fault>,
}

/// Kind of fault, with the clients and rounds that it strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Probability per participant; of a restart, per round.
    pub rate: f64,
    /// Clients that it strikes; all if empty.
    pub clients: BTreeSet<ClientId>,
    /// Rounds that it strikes; all if empty.
    pub rounds: Vec<Round>,
}

/// A server that is lost and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Time after the opening of a round at which the server is lost; a round that closed before is spared.
    pub after: VirtualTime,
    /// Time until the server is back.
    pub downtime: VirtualTime,
}

impl fmt::Display for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forgery::Scaled { factor } => write!(f, "scaled by {factor}"),
            Forgery::SignFlipped { factor } => write!(f, "scaled by {}", -factor),
            Forgery::Noise { deviation } => write!(f, "with noise of deviation {deviation}"),
        }
    }
}

impl Forgery {
    /// Returns the forged number for one that was `before` and is `after` training.
    pub fn of(self, before: f32, after: f32, rng: &mut ChaCha8Rng) -> f32 {
        let (before, after) = (f64::from(before), f64::from(after));
        let scaled = |factor: f64| before + factor * (after - before);
        let sent = match self {
            Forgery::Scaled { factor } => scaled(factor),
            Forgery::SignFlipped { factor } => scaled(-factor),
            Forgery::Noise { deviation } => normal(rng, after, deviation),
        };
        sent as f32
    }
}

/// A participant that a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Client of the participant.
    pub client: ClientId,
    /// Round of the participant, from 0.
    pub round: Round,
    /// Unit of the client plus one, or zero.
    pub unit: u32,
}

impl Fault {
    /// Creates a fault that always strikes, and every client.
    pub fn of(kind: FaultKind) -> Fault {
        Fault { kind, rate: 1.0, clients: BTreeSet::new(), rounds: Vec::new() }
    }

    /// Returns a fraction of the clients, drawn once for the entry `place`: rounded down, at least one.
    pub fn chosen(share: f64, clients: u32, seed: u64, place: usize) -> BTreeSet<ClientId> {
        // Task 1 separates this draw from other faults: those of participants have no task, restarts have task 2.
        let key = StreamKey::new(seed, Domain::Fault).task(1).step(place as u64);
        let order = Permutation::new(u64::from(clients), key);
        let count = share_of(clients as usize, share).max(1).min(clients as usize);
        (0..count as u64).map(|at| ClientId(order.at(at) as u32)).collect()
    }

    fn may_strike(&self, victim: Victim) -> bool {
        let listed = self.clients.is_empty() || self.clients.contains(&victim.client);
        listed && self.may_be_in(victim.round)
    }

    fn may_be_in(&self, round: Round) -> bool {
        self.rounds.is_empty() || self.rounds.contains(&round)
    }
}

impl FaultRules {
    /// Returns rules under which clients crash before they train, with this probability.
    pub fn crashing(rate: f64) -> FaultRules {
        let crash = Fault { rate, ..Fault::of(FaultKind::Crash { when: CrashTime::Before }) };
        FaultRules { entries: vec![crash], ..FaultRules::default() }
    }

    /// Returns the crash time of a participant's client, and a stream for further draws.
    pub fn crash(&self, seed: u64, victim: Victim) -> Option<(CrashTime, ChaCha8Rng)> {
        self.strike(seed, victim, |kind| match kind {
            FaultKind::Crash { when } => Some(when),
            _ => None,
        })
    }

    /// Returns true if the messages of a participant are lost.
    pub fn loses(&self, seed: u64, victim: Victim, direction: Direction) -> bool {
        let lose = FaultKind::Lose { direction };
        self.strike(seed, victim, |kind| (kind == lose).then_some(())).is_some()
    }

    /// Returns true if a message of a participant arrives twice.
    pub fn duplicates(&self, seed: u64, victim: Victim, direction: Direction) -> bool {
        let duplicate = FaultKind::Duplicate { direction };
        self.strike(seed, victim, |kind| (kind == duplicate).then_some(())).is_some()
    }

    /// Returns the stream that draws the damaged bit, if a message of a participant is damaged.
    pub fn corrupts(&self, seed: u64, victim: Victim, direction: Direction) -> Option<ChaCha8Rng> {
        let corrupt = FaultKind::Corrupt { direction };
        self.strike(seed, victim, |kind| (kind == corrupt).then_some(())).map(|((), rng)| rng)
    }

    /// Returns the forgery that a participant's client sends instead of its update, with its stream.
    pub fn lies(&self, seed: u64, victim: Victim) -> Option<(Forgery, ChaCha8Rng)> {
        self.strike(seed, victim, |kind| match kind {
            FaultKind::Malicious { how } => Some(how),
            _ => None,
        })
    }

    /// Returns the fault in the upload of a participant, with its stream.
    pub fn spoils(&self, seed: u64, victim: Victim) -> Option<(Spoilage, ChaCha8Rng)> {
        self.strike(seed, victim, |kind| match kind {
            FaultKind::BadUpdate { how } => Some(how),
            _ => None,
        })
    }

    /// Returns the server's restart in a round.
    pub fn restart(&self, seed: u64, round: Round) -> Option<Restart> {
        let key = StreamKey::new(seed, Domain::Fault).task(2).round(round.0);
        self.entries.iter().enumerate().find_map(|(place, fault)| {
            let FaultKind::ServerRestart { after_s, downtime_s } = fault.kind else { return None };
            let [after, downtime] = [after_s, downtime_s].map(VirtualTime::from_seconds);
            let mut rng = key.step(place as u64).rng();
            (fault.may_be_in(round) && chance(&mut rng, fault.rate))
                .then_some(Restart { after, downtime })
        })
    }

    /// Returns true if the server may restart.
    pub fn restarts(&self) -> bool {
        self.entries.iter().any(|fault| matches!(fault.kind, FaultKind::ServerRestart { .. }))
    }

    /// Returns the first fault of some kind that strikes.
    fn strike<T>(
        &self,
        seed: u64,
        victim: Victim,
        wanted: impl Fn(FaultKind) -> Option<T>,
    ) -> Option<(T, ChaCha8Rng)> {
        let Victim { client, round, unit } = victim;
        let key = StreamKey::new(seed, Domain::Fault).client(client.0).round(round.0).unit(unit);
        self.entries.iter().enumerate().find_map(|(place, fault)| {
            let found = wanted(fault.kind).filter(|_| fault.may_strike(victim))?;
            let mut rng = key.step(place as u64).rng();
            chance(&mut rng, fault.rate).then_some((found, rng))
        })
    }
}

/// Returns the upload with the fault in the first tensor that can have it, if there is one.
pub fn spoil(mut body: Body, how: Spoilage, rng: &mut ChaCha8Rng) -> Body {
    let mut tensors = body.sections.iter_mut().flat_map(|section| &mut section.tensors);
    let spoilt = tensors.find_map(|tensor| {
        let spoilt = match how {
            Spoilage::NotANumber => with_number(tensor, f64::NAN, rng),
            Spoilage::Infinite => with_number(tensor, f64::INFINITY, rng),
            Spoilage::WrongShape => shorter(tensor),
        };
        spoilt.map(|spoilt| (tensor, spoilt))
    });
    if let Some((tensor, spoilt)) = spoilt {
        *tensor = spoilt;
    }
    body
}

/// Returns the shapes of an upload with the fault.
pub fn spoilt_shape(mut shape: BodyShape, how: Spoilage) -> BodyShape {
    let mut tensors = shape.sections.iter_mut().flat_map(|section| &mut section.tensors);
    let fewer = |tensor: &TensorShape| {
        let number = matches!(tensor.dtype, Dtype::F32 | Dtype::F64);
        tensor.shape.iter().product::<usize>().checked_sub(1).filter(|_| number)
    };
    if how == Spoilage::WrongShape
        && let Some((tensor, fewer)) =
            tensors.find_map(|tensor| fewer(tensor).map(|fewer| (tensor, fewer)))
    {
        tensor.shape = vec![fewer];
    }
    shape
}

fn with_number(tensor: &NamedTensor, number: f64, rng: &mut ChaCha8Rng) -> Option<NamedTensor> {
    fn at<T: Copy>(values: &[T], place: u64, number: T) -> Vec<T> {
        let mut values = values.to_vec();
        values[place as usize] = number;
        values
    }
    let place = below(rng, tensor.elements());
    let values = match tensor.values() {
        TensorValues::F32(values) if !values.is_empty() => {
            TensorValues::F32(at(values, place, number as f32).into())
        }
        TensorValues::F64(values) if !values.is_empty() => {
            TensorValues::F64(at(values, place, number).into())
        }
        _ => return None,
    };
    NamedTensor::new(tensor.name().clone(), tensor.shape(), values).ok()
}

fn shorter(tensor: &NamedTensor) -> Option<NamedTensor> {
    let fewer = usize::try_from(tensor.elements()).ok()?.checked_sub(1)?;
    let values = match tensor.values() {
        TensorValues::F32(values) => TensorValues::F32(values[..fewer].into()),
        TensorValues::F64(values) => TensorValues::F64(values[..fewer].into()),
        _ => return None,
    };
    NamedTensor::new(tensor.name().clone(), [fewer], values).ok()
}

/// Flips a bit of a frame in transit and returns the error that its receiver finds.
pub fn damage(mut frame: Vec<u8>, rng: &mut ChaCha8Rng) -> Option<String> {
    let sent = checksum(&frame);
    let bit = below(rng, 8 * frame.len() as u64);
    *frame.get_mut((bit / 8) as usize)? ^= 1 << (bit % 8);
    let arrived = checksum(&frame);
    // Events name no checksum: it is of learned numbers, and events are the same on every machine.
    (arrived != sent).then(|| "the frame is corrupt: its checksum is wrong".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, Section};
    use proptest::prelude::*;

    fn victim(client: u32, round: u32) -> Victim {
        Victim { client: ClientId(client), round: Round(round), unit: 0 }
    }

    #[test]
    fn a_fault_strikes_at_its_rate_and_only_whom_it_names() {
        let lose = Fault { rate: 0.25, ..Fault::of(FaultKind::Lose { direction: Direction::Up }) };
        let of = |fault: &Fault| FaultRules { entries: vec![fault.clone()], ..Default::default() };
        let count = |rules: &FaultRules| {
            (0..4000).filter(|client| rules.loses(3, victim(*client, 1), Direction::Up)).count()
        };
        let all = of(&lose);
        assert!((850..1150).contains(&count(&all)), "{}", count(&all));
        assert!((0..4000).all(|client| !all.loses(3, victim(client, 1), Direction::Down)));
        let some =
            of(&Fault { clients: [ClientId(5), ClientId(9)].into(), rate: 1.0, ..lose.clone() });
        assert_eq!(count(&some), 2);
        let once = of(&Fault { rounds: vec![Round(2)], rate: 1.0, ..lose });
        assert_eq!(count(&once), 0);
        assert!(once.loses(3, victim(1, 2), Direction::Up));
    }

    #[test]
    fn faults_of_other_kinds_move_no_draw() {
        let crash = Fault { rate: 0.5, ..Fault::of(FaultKind::Crash { when: CrashTime::While }) };
        let alone = FaultRules { entries: vec![crash.clone()], ..Default::default() };
        let nan = Fault::of(FaultKind::BadUpdate { how: Spoilage::NotANumber });
        let both = FaultRules { entries: vec![crash, nan], ..Default::default() };
        for client in 0..50 {
            let when = |rules: &FaultRules| rules.crash(1, victim(client, 0)).map(|(when, _)| when);
            assert_eq!(when(&alone), when(&both));
        }
    }

    #[test]
    fn restarts_are_drawn_per_round() {
        let restart = FaultKind::ServerRestart { after_s: 0.0, downtime_s: 60.0 };
        let fault = Fault { rate: 0.25, ..Fault::of(restart) };
        let of = |fault: Fault| FaultRules { entries: vec![fault], ..Default::default() };
        let rounds = |rules: &FaultRules| -> Vec<u32> {
            (0..400).filter(|round| rules.restart(5, Round(*round)).is_some()).collect()
        };
        let some = rounds(&of(fault.clone()));
        assert!((70..130).contains(&some.len()), "{}", some.len());
        let listed = Fault { rounds: vec![Round(3), Round(8)], rate: 1.0, ..fault };
        assert_eq!(rounds(&of(listed)), [3, 8]);
    }

    fn body() -> Body {
        let counts = NamedTensor::u32("counts", [2], vec![1, 2]).unwrap();
        let head = NamedTensor::f32("head", [2, 3], vec![0.5; 6]).unwrap();
        Body::new(vec![], vec![Section::new(Kind::Head, vec![counts, head])])
    }

    #[test]
    fn spoilt_uploads_are_what_they_are_called() {
        let mut rng = StreamKey::new(1, Domain::Fault).rng();
        for how in [Spoilage::NotANumber, Spoilage::Infinite] {
            let spoilt = spoil(body(), how, &mut rng);
            assert_eq!(spoilt.shape(), body().shape());
            assert_eq!(&**spoilt.first_not_finite().expect("one is").name(), "head");
        }
        let spoilt = spoil(body(), Spoilage::WrongShape, &mut rng);
        assert!(spoilt.is_finite() && !spoilt.fills(&body().shape()));
        for how in [Spoilage::NotANumber, Spoilage::WrongShape] {
            let spoilt = spoil(body(), how, &mut rng);
            assert_eq!(spoilt.shape(), spoilt_shape(body().shape(), how));
        }
    }

    proptest! {
        /// The checksum finds every flipped bit.
        #[test]
        fn a_flipped_bit_is_found(frame in prop::collection::vec(any::<u8>(), 1..200), seed: u64) {
            let mut rng = StreamKey::new(seed, Domain::Fault).rng();
            prop_assert!(damage(frame, &mut rng).is_some());
        }
    }
}
