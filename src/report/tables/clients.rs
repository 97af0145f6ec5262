//! `clients.csv`: device, link, work and traffic of each client over the whole run, written when the run ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::federation::ledger::Ledger;
use crate::federation::{Direction, Entry, Event, EventSink, SinkError};
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, VirtualTime};
use crate::report::column::{CLIENT, Columns};
use crate::report::csv::{Csv, Number};

/// Drawn values are empty if all clients are alike.
#[derive(Columns, Serialize)]
pub(in crate::report) struct ClientRow {
    #[column(as_in = CLIENT)]
    client: u32,
    /// Kind of client: `client`, or `load_client` for one that makes traffic without training.
    kind: &'static str,
    /// Compute time relative to a client of slowness 1, as drawn; empty if all clients are alike.
    slowness: Option<Number>,
    /// Virtual time before the first sample of a training, as drawn; empty if all clients are alike.
    setup_s: Option<Number>,
    /// Download bandwidth, as drawn; `inf` if it is unlimited, empty if all clients are alike.
    down_mb_per_s: Option<Number>,
    /// Upload bandwidth, as drawn; `inf` if it is unlimited, empty if all clients are alike.
    up_mb_per_s: Option<Number>,
    /// Round-trip time, as drawn; empty if all clients are alike.
    round_trip_s: Option<Number>,
    /// Virtual time at which the client leaves permanently, as drawn; empty if it stays.
    leaves_s: Option<Number>,
    /// Rounds in which the client was sampled; for a load client, frames sent to it.
    rounds_sampled: u64,
    /// Local trainings that the client completed.
    trained: u64,
    /// Local trainings that were certain to be late and were not computed.
    skipped: u64,
    /// Number of times that the client sent nothing (crashed, lost, without data, ...).
    failed: u64,
    /// Uploads of the client that were rejected.
    rejected: u64,
    /// Training samples of the client, summed over its trainings.
    samples_trained: u64,
    /// Virtual time of the client's local work.
    work_s: Number,
    /// Bytes that the client keeps after its last training.
    bytes_state: u64,
    /// Frames sent to the client.
    frames_down: u64,
    /// Bytes of whole frames to the client, lost ones included.
    bytes_down: u64,
    /// Frames sent by the client.
    frames_up: u64,
    /// Bytes of whole frames from the client, lost ones included.
    bytes_up: u64,
    /// Bytes that crossed the client's links; less than the sum of both only if frames were lost.
    bytes_sent: u64,
}

#[derive(Default)]
struct Account {
    load: bool,
    sampled: u64,
    trained: u64,
    skipped: u64,
    failed: u64,
    rejected: u64,
    samples: u64,
    worked: u64,
    /// Bytes of the state that the client keeps after its last training.
    state_bytes: u64,
    drawn: Option<Drawn>,
}

/// Drawn device and links of a client.
#[derive(Clone, Copy)]
struct Drawn {
    slowness: u64,
    setup: u64,
    /// Download bandwidth in bytes per second; `None` if frames take no time.
    down: Option<u64>,
    up: Option<u64>,
    round_trip: u64,
    leaves: Option<u64>,
}

/// Writes one row per client that was ever sampled. A load client is sampled once per frame to it.
pub struct ClientsTable<W: Write> {
    csv: Csv<W, ClientRow>,
    accounts: BTreeMap<ClientId, Account>,
    ledger: Ledger,
}

impl<W: Write> ClientsTable<W> {
    /// Writes the header.
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
            let kind =
                if account.load { ParticipantKind::LoadClient } else { ParticipantKind::Client };
            let drawn = account.drawn;
            let carried = self.ledger.client(client);
            self.csv.row(&ClientRow {
                client: client.0,
                kind: kind.word(),
                slowness: drawn.map(|of| millionths(of.slowness)),
                setup_s: drawn.map(|of| seconds(of.setup)),
                down_mb_per_s: drawn.map(|of| rate(of.down)),
                up_mb_per_s: drawn.map(|of| rate(of.up)),
                round_trip_s: drawn.map(|of| seconds(of.round_trip)),
                leaves_s: drawn.and_then(|of| of.leaves).map(seconds),
                rounds_sampled: account.sampled,
                trained: account.trained,
                skipped: account.skipped,
                failed: account.failed,
                rejected: account.rejected,
                samples_trained: account.samples,
                work_s: seconds(account.worked),
                bytes_state: account.state_bytes,
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
                cohort.iter().for_each(|client| self.of(*client).sampled += 1);
            }
            &Event::ClientProfiled {
                client,
                slowness,
                setup_ns: setup,
                down,
                up,
                round_trip,
                leaves_ns: leaves,
            } => {
                let drawn = Drawn { slowness, setup, down, up, round_trip, leaves };
                self.of(client).drawn = Some(drawn);
            }
            Event::ClientTrained { client, samples, work_ns: worked, state_bytes, .. } => {
                let account = self.of(*client);
                account.state_bytes = *state_bytes;
                account.trained += 1;
                account.samples += samples;
                account.worked += worked;
            }
            Event::ClientSkipped { client, work_ns: worked, .. } => {
                let account = self.of(*client);
                account.skipped += 1;
                account.worked += worked;
            }
            Event::ClientFailed { client, .. } => self.of(*client).failed += 1,
            Event::UpdateRejected { client, .. } => self.of(*client).rejected += 1,
            Event::FrameCharged { client, kind, direction, asset, .. } => {
                if *kind == ParticipantKind::LoadClient {
                    let account = self.of(*client);
                    account.load = true;
                    account.sampled += u64::from(*direction == Direction::Down && asset.is_none());
                }
                self.ledger.record(entry)?;
            }
            // The ledger's rows of rounds belong to `bytes.csv`.
            Event::RoundClosed { round, .. } => drop(self.ledger.drain(*round)),
            Event::RunEnded { .. } => self.flush()?,
            _ => {}
        }
        Ok(())
    }
}
