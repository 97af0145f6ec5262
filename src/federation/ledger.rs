//! The exact account of all frames: integer sums, nothing averaged, nothing estimated.
//!
//! The ledger keeps rows of the rounds that are still open, by (round, client, direction, outcome), and totals of the
//! whole run by client and by direction and outcome. [`Ledger::drain`] hands rows out, so memory grows with the clients
//! that were ever contacted, not with rounds; the totals are what a checkpoint stores.
//!
//! Four quantities are kept apart. `bytes` is the whole frame; `sent` the part that crossed the link (less only when
//! lost); `distinct` leaves out frames equal to another one of their broadcast (what a multicast would send); `raw` is
//! the payload before its codec.
//!
//! ```
//! use fedcast::federation::ledger::{Charge, Ledger};
//! use fedcast::federation::{Direction, FrameOutcome};
//! use fedcast::quantity::{ClientId, Round};
//! use fedcast::wire::{BodyShape, CodecPlan, FrameSize, Kind, SectionShape, TensorShape};
//!
//! let head = SectionShape::new(Kind::Head, vec![TensorShape::f32("bias", [100])]);
//! let size = FrameSize::of_shape(&BodyShape::new(0, vec![head]), &CodecPlan::default());
//! let mut ledger = Ledger::default();
//! for client in 0..10 {
//!     let broadcast = Charge::new(Round(0), ClientId(client), Direction::Down, &size);
//!     ledger.charge(&Charge { copy: client > 0, ..broadcast });
//! }
//! let down = ledger.total(Direction::Down, FrameOutcome::Delivered);
//! assert_eq!((down.frames, down.payload.0, down.kinds.get(Kind::Head).0), (10, 4000, 4000));
//! assert_eq!(down.distinct, size.frame());
//! ```

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::{Direction, Entry, Event, EventSink, FrameBytes, FrameOutcome, SinkError};
use crate::document::Document;
use crate::policy::ParticipantKind;
use crate::quantity::{Bytes, ClientId, Round, TaskId};
use crate::wire::{FrameSize, Kind, KindBytes};

/// Frame whose outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The round it belongs to.
    pub round: Round,
    /// Task in which that round opened, from 0.
    pub task: TaskId,
    /// Index of its phase within the task.
    pub phase: u32,
    /// The client at the other end of the server's link.
    pub client: ClientId,
    /// Direction of the frame, seen from the client.
    pub direction: Direction,
    /// Outcome of the frame.
    pub outcome: FrameOutcome,
    /// Header, meta and table.
    pub control: Bytes,
    /// Payload before the codec.
    pub raw: Bytes,
    /// Payload by kind.
    pub kinds: KindBytes,
    /// Bytes that crossed the link.
    pub sent: Bytes,
    /// True if an equal frame was charged to another participant of the same broadcast.
    pub copy: bool,
    /// Kind of the participant.
    pub kind: ParticipantKind,
}

impl Charge {
    /// Returns a delivered frame of task and phase 0 that is no copy; change the fields that differ.
    pub fn new(round: Round, client: ClientId, direction: Direction, size: &FrameSize) -> Charge {
        Charge {
            round,
            task: TaskId(0),
            phase: 0,
            client,
            direction,
            outcome: FrameOutcome::Delivered,
            control: size.control(),
            raw: size.raw,
            kinds: size.kinds,
            sent: size.frame(),
            copy: false,
            kind: ParticipantKind::Client,
        }
    }

    /// Returns the charge of an event; `None` for other events, an error for a kind of a newer version.
    pub fn from_event(event: &Event) -> Result<Option<Charge>, SinkError> {
        let Event::FrameCharged {
            round,
            task,
            phase,
            client,
            direction,
            outcome,
            bytes,
            sent,
            copy,
            kind,
            ..
        } = event
        else {
            return Ok(None);
        };
        Ok(Some(Charge {
            round: *round,
            task: *task,
            phase: *phase,
            client: *client,
            direction: *direction,
            outcome: *outcome,
            control: Bytes(bytes.control()),
            raw: Bytes(bytes.raw),
            kinds: kinds_of(bytes)?,
            sent: Bytes(*sent),
            copy: *copy,
            kind: *kind,
        }))
    }

    /// Returns the bytes of the whole frame.
    pub fn frame(&self) -> Bytes {
        self.control + self.kinds.total()
    }
}

/// Returns the kinds of an event's frame, typed.
pub(super) fn kinds_of(bytes: &FrameBytes) -> Result<KindBytes, SinkError> {
    let mut kinds = KindBytes::default();
    for (name, bytes) in &bytes.kinds {
        let kind = Kind::from_name(name).ok_or_else(|| {
            SinkError::Stop(format!(
                "the journal charges bytes of kind `{name}`, which this version does not know"
            ))
        })?;
        kinds.add(kind, Bytes(*bytes));
    }
    Ok(kinds)
}

impl From<&FrameSize> for FrameBytes {
    fn from(size: &FrameSize) -> FrameBytes {
        FrameBytes {
            header: size.header.0,
            meta: size.meta.0,
            table: size.table.0,
            raw: size.raw.0,
            payload: size.payload.0,
            kinds: size.kinds.iter().map(|(k, b)| (k.name().to_owned(), b.0)).collect(),
        }
    }
}

/// Exact sums over frames. `bytes = control + payload`, and `payload` is the sum of `kinds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Sums {
    /// Number of frames.
    pub frames: u64,
    /// Whole frames: control + payload.
    pub bytes: Bytes,
    /// Bytes that crossed links: less than all only where frames were lost.
    pub sent: Bytes,
    /// Whole frames, those of a broadcast counted once.
    pub distinct: Bytes,
    /// Headers, typed fields and tensor tables.
    pub control: Bytes,
    /// Tensors before the codec.
    pub raw: Bytes,
    /// Tensors after the codec.
    pub payload: Bytes,
    /// Payload of a kind.
    #[document(keys("kind"))]
    pub kinds: KindBytes,
}

impl Sums {
    /// Adds one frame.
    pub fn add(&mut self, charge: &Charge) {
        let frame = charge.frame();
        *self += Sums {
            frames: 1,
            bytes: frame,
            sent: charge.sent,
            distinct: if charge.copy { Bytes(0) } else { frame },
            control: charge.control,
            raw: charge.raw,
            payload: charge.kinds.total(),
            kinds: charge.kinds,
        };
    }

    /// Returns `raw / payload`, the codec's compression of the tensors; `None` if there are none.
    pub fn ratio(&self) -> Option<f64> {
        (self.payload.0 > 0).then(|| self.raw.0 as f64 / self.payload.0 as f64)
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.sent += other.sent;
        self.distinct += other.distinct;
        self.control += other.control;
        self.raw += other.raw;
        self.payload += other.payload;
        self.kinds += other.kinds;
    }
}

/// Key of a row of sums. Ordered as rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// Round of the frames, from 0.
    pub round: Round,
    /// Task in which that round opened, from 0.
    pub task: TaskId,
    /// Index of the round's phase within the task, from 0.
    pub phase: u32,
    /// Client at the other end of the server's link.
    pub client: ClientId,
    /// Direction of the frames, seen from the client.
    pub direction: Direction,
    /// Outcome of the frames.
    pub outcome: FrameOutcome,
}

/// Whole-run sums of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTotals {
    /// Sums to the client, all outcomes.
    pub down: Sums,
    /// Sums from the client, all outcomes.
    pub up: Sums,
}

/// The account. See the module's introduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<RowKey, Sums>,
    clients: BTreeMap<ClientId, ClientTotals>,
    totals: BTreeMap<(Direction, FrameOutcome), Sums>,
}

/// The totals of a ledger as a checkpoint stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Sums by client, ascending.
    pub clients: Vec<(ClientId, ClientTotals)>,
    /// Sums by direction and outcome.
    pub run: Vec<(Direction, FrameOutcome, Sums)>,
}

impl Ledger {
    /// Adds a frame. The order in which frames are charged changes nothing.
    pub fn charge(&mut self, charge: &Charge) {
        let Charge { round, task, phase, client, direction, outcome, .. } = *charge;
        let key = RowKey { round, task, phase, client, direction, outcome };
        self.rows.entry(key).or_default().add(charge);
        let mine = self.clients.entry(client).or_default();
        match direction {
            Direction::Down => mine.down.add(charge),
            Direction::Up => mine.up.add(charge),
        }
        self.totals.entry((direction, outcome)).or_default().add(charge);
    }

    /// Takes the rows of all rounds up to `last`, in order of their keys; the totals stay.
    ///
    /// A frame charged to a drained round later (a late upload) opens a second row of its key, to be added to the
    /// first.
    pub fn drain(&mut self, last: Round) -> Vec<(RowKey, Sums)> {
        let open = self.rows.keys().copied().find(|k| k.round > last);
        let kept = open.map(|first| self.rows.split_off(&first)).unwrap_or_default();
        std::mem::replace(&mut self.rows, kept).into_iter().collect()
    }

    /// Returns the rows that were not drained yet.
    pub fn rows(&self) -> impl Iterator<Item = (&RowKey, &Sums)> {
        self.rows.iter()
    }

    /// Returns the run's sums of one direction and outcome.
    pub fn total(&self, direction: Direction, outcome: FrameOutcome) -> Sums {
        self.totals.get(&(direction, outcome)).copied().unwrap_or_default()
    }

    /// Returns the run's sums of one direction, over all outcomes.
    pub fn direction(&self, direction: Direction) -> Sums {
        let mut all = Sums::default();
        for ((way, _), sums) in &self.totals {
            if *way == direction {
                all += *sums;
            }
        }
        all
    }

    /// Returns the run's sums of one client; zeros for one that was never contacted.
    pub fn client(&self, client: ClientId) -> ClientTotals {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Returns every client that was contacted, ascending.
    pub fn clients(&self) -> impl Iterator<Item = (ClientId, &ClientTotals)> {
        self.clients.iter().map(|(id, totals)| (*id, totals))
    }

    /// Returns the totals that a checkpoint stores, taken when all rows are drained.
    pub fn totals(&self) -> Totals {
        Totals {
            clients: self.clients().map(|(id, t)| (id, *t)).collect(),
            run: self.totals.iter().map(|((way, outcome), s)| (*way, *outcome, *s)).collect(),
        }
    }
}

impl From<Totals> for Ledger {
    /// Creates a ledger that goes on from a checkpoint, without open rows.
    fn from(totals: Totals) -> Ledger {
        Ledger {
            rows: BTreeMap::new(),
            clients: totals.clients.into_iter().collect(),
            totals: totals.run.into_iter().map(|(way, o, s)| ((way, o), s)).collect(),
        }
    }
}

/// A ledger can listen to a run, or to the journal of one that is replayed.
impl EventSink for Ledger {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        if let Some(charge) = Charge::from_event(&entry.event)? {
            self.charge(&charge);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
