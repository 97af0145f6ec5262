//! `clients.csv`: what chance gave each client and what it did and carried over the whole run;
//! written when the run ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::federation::ledger::Ledger;
use crate::federation::{Direction, Entry, Event, EventSink, SinkError};
use crate::policy::SeatKind;
use crate::quantity::{ClientId, VirtualTime};
use crate::report::csv::Csv;

const HEAD: [&str; 21] = [
    "client",
    "kind",
    "slowness",
    "setup_s",
    "down_mb_per_s",
    "up_mb_per_s",
    "round_trip_s",
    "leaves_s",
    "rounds_asked",
    "trained",
    "skipped",
    "failed",
    "rejected",
    "samples_trained",
    "worked_s",
    "kept_bytes",
    "frames_down",
    "bytes_down",
    "frames_up",
    "bytes_up",
    "bytes_sent",
];

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

/// What chance gave a client, as the table writes it.
struct Drawn([String; 6]);

impl Drawn {
    fn new(slowness: u64, setup: u64, rates: [Option<u64>; 2], times: (u64, Option<u64>)) -> Drawn {
        let millionths = |value: u64| (value as f64 / 1e6).to_string();
        let seconds = |value| VirtualTime(value).as_seconds().to_string();
        let [down, up] = rates.map(|rate| rate.map_or("inf".to_string(), millionths));
        Drawn([
            millionths(slowness),
            seconds(setup),
            down,
            up,
            seconds(times.0),
            times.1.map_or(String::new(), seconds),
        ])
    }
}

/// Writes one row per client that was ever asked. A load client is asked once per frame to it.
pub struct ClientsTable<W: Write> {
    csv: Csv<W>,
    accounts: BTreeMap<ClientId, Account>,
    ledger: Ledger,
}

impl<W: Write> ClientsTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(ClientsTable {
            csv: Csv::new(out, &HEAD)?,
            accounts: BTreeMap::new(),
            ledger: Ledger::default(),
        })
    }

    fn of(&mut self, client: ClientId) -> &mut Account {
        self.accounts.entry(client).or_default()
    }

    fn flush(&mut self) -> io::Result<()> {
        for (client, account) in std::mem::take(&mut self.accounts) {
            let integers = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>();
            let kind = if account.load { SeatKind::Load } else { SeatKind::Client };
            let mut row = vec![client.0.to_string(), kind.word().to_string()];
            // Empty where all are alike.
            row.extend(account.drawn.map(|drawn| drawn.0).unwrap_or_default());
            row.extend(integers(&[
                account.asked,
                account.trained,
                account.skipped,
                account.failed,
                account.rejected,
                account.samples,
            ]));
            row.push(VirtualTime(account.worked).as_seconds().to_string());
            row.push(account.kept.to_string());
            let carried = self.ledger.client(client);
            row.extend(integers(&[
                carried.down.frames,
                carried.down.bytes.0,
                carried.up.frames,
                carried.up.bytes.0,
                carried.down.sent.0 + carried.up.sent.0,
            ]));
            self.csv.row(&row)?;
        }
        self.csv.flush()
    }
}

impl<W: Write + Send> EventSink for ClientsTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::RoundOpened { cohort, .. } => {
                cohort.iter().for_each(|client| self.of(*client).asked += 1);
            }
            Event::ClientDrawn { client, slowness, setup, down, up, round_trip, leaves } => {
                let drawn = Drawn::new(*slowness, *setup, [*down, *up], (*round_trip, *leaves));
                self.of(*client).drawn = Some(drawn);
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
                if *kind == SeatKind::Load {
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
