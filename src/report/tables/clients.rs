//! `clients.csv`: what chance gave each client and what it did and carried over the whole run;
//! written when the run ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::federation::ledger::Ledger;
use crate::federation::{Direction, Entry, Event, EventSink, SinkError};
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, VirtualTime};
use crate::report::column::{CLIENT, Columns};
use crate::report::csv::{Csv, Number};

/// What chance gave a client is empty where all are alike.
#[derive(Columns, Serialize)]
pub(in crate::report) struct Row {
    #[column(as_in = CLIENT)]
    client: u32,
    /// `client`, or `load` for one that only loads links.
    kind: &'static str,
    /// Drawn: how many times longer it computes than a client of slowness 1; empty where all are alike, as the next
    /// five.
    slowness: Option<Number>,
    /// Drawn: virtual time before its first sample.
    setup_s: Option<Number>,
    /// Drawn: its download, `inf` where nothing limits it.
    down_mb_per_s: Option<Number>,
    /// Drawn: its upload, `inf` where nothing limits it.
    up_mb_per_s: Option<Number>,
    /// Drawn: its round trip.
    round_trip_s: Option<Number>,
    /// Drawn: virtual time at which it leaves for good; empty if it stays.
    leaves_s: Option<Number>,
    /// Rounds in which it was sampled; of a load client frames to it.
    rounds_sampled: u64,
    /// Local trainings that it ended.
    trained: u64,
    /// Local trainings that were certainly too late and not computed.
    skipped: u64,
    /// Times that it sent nothing: crashed, lost, without data, ...
    failed: u64,
    /// Uploads of it that were refused.
    rejected: u64,
    /// Samples it held, summed over its trainings.
    samples_trained: u64,
    /// Virtual time of its local work.
    worked_s: Number,
    /// What it keeps after the last time it trained.
    bytes_kept: u64,
    /// Frames to it.
    frames_down: u64,
    /// Whole frames to it, whatever became of them.
    bytes_down: u64,
    /// Frames from it.
    frames_up: u64,
    /// Whole frames from it, whatever became of them.
    bytes_up: u64,
    /// What of both crossed its link: less only where frames were lost.
    bytes_sent: u64,
}

#[derive(Default)]
struct Account {
    load: bool,
    asked: u64,
    trained: u64,
    skipped: u64,
    failed: u64,
    rejected: u64,
    samples: u64,
    worked: u64,
    /// After the last time it trained.
    kept: u64,
    drawn: Option<Drawn>,
}

/// What chance gave a client.
#[derive(Clone, Copy)]
struct Drawn {
    slowness: u64,
    setup: u64,
    /// `None`: nothing of it takes time.
    down: Option<u64>,
    up: Option<u64>,
    round_trip: u64,
    leaves: Option<u64>,
}

/// Writes one row per client that was ever asked. A load client is asked once per frame to it.
pub struct ClientsTable<W: Write> {
    csv: Csv<W, Row>,
    accounts: BTreeMap<ClientId, Account>,
    ledger: Ledger,
}

impl<W: Write> ClientsTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(ClientsTable {
            csv: Csv::new(out)?,
            accounts: BTreeMap::new(),
            ledger: Ledger::default(),
        })
    }

    fn of(&mut self, client: ClientId) -> &mut Account {
        self.accounts.entry(client).or_default()
    }

    fn flush(&mut self) -> io::Result<()> {
        for (client, account) in std::mem::take(&mut self.accounts) {
            let kind = if account.load { ParticipantKind::Load } else { ParticipantKind::Client };
            let drawn = account.drawn;
            let carried = self.ledger.client(client);
            self.csv.row(&Row {
                client: client.0,
                kind: kind.word(),
                slowness: drawn.map(|of| millionths(of.slowness)),
                setup_s: drawn.map(|of| seconds(of.setup)),
                down_mb_per_s: drawn.map(|of| rate(of.down)),
                up_mb_per_s: drawn.map(|of| rate(of.up)),
                round_trip_s: drawn.map(|of| seconds(of.round_trip)),
                leaves_s: drawn.and_then(|of| of.leaves).map(seconds),
                rounds_sampled: account.asked,
                trained: account.trained,
                skipped: account.skipped,
                failed: account.failed,
                rejected: account.rejected,
                samples_trained: account.samples,
                worked_s: seconds(account.worked),
                bytes_kept: account.kept,
                frames_down: carried.down.frames,
                bytes_down: carried.down.bytes.0,
                frames_up: carried.up.frames,
                bytes_up: carried.up.bytes.0,
                bytes_sent: carried.down.sent.0 + carried.up.sent.0,
            })?;
        }
        Ok(())
    }
}

fn millionths(value: u64) -> Number {
    Number(value as f64 / 1e6)
}

fn seconds(nanoseconds: u64) -> Number {
    Number(VirtualTime(nanoseconds).as_seconds())
}

/// Megabytes per second.
fn rate(bytes_per_second: Option<u64>) -> Number {
    bytes_per_second.map_or(Number(f64::INFINITY), millionths)
}

impl<W: Write + Send> EventSink for ClientsTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::RoundOpened { cohort, .. } => {
                cohort.iter().for_each(|client| self.of(*client).asked += 1);
            }
            &Event::ClientDrawn { client, slowness, setup, down, up, round_trip, leaves } => {
                let drawn = Drawn { slowness, setup, down, up, round_trip, leaves };
                self.of(client).drawn = Some(drawn);
            }
            Event::Trained { client, samples, worked, kept, .. } => {
                let account = self.of(*client);
                account.kept = *kept;
                account.trained += 1;
                account.samples += samples;
                account.worked += worked;
            }
            Event::Skipped { client, worked, .. } => {
                let account = self.of(*client);
                account.skipped += 1;
                account.worked += worked;
            }
            Event::ClientFailed { client, .. } => self.of(*client).failed += 1,
            Event::UpdateRejected { client, .. } => self.of(*client).rejected += 1,
            Event::FrameCharged { client, kind, direction, asset, .. } => {
                if *kind == ParticipantKind::Load {
                    let account = self.of(*client);
                    account.load = true;
                    account.asked += u64::from(*direction == Direction::Down && asset.is_none());
                }
                self.ledger.record(entry)?;
            }
            // Rows of rounds are another table's business.
            Event::RoundClosed { round, .. } => drop(self.ledger.drain(*round)),
            Event::RunEnded { .. } => self.flush()?,
            _ => {}
        }
        Ok(())
    }
}
