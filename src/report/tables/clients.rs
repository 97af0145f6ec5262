//! `clients.csv`: what each client did and carried over the whole run; written when it ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::federation::ledger::Ledger;
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::quantity::{ClientId, VirtualTime};
use crate::report::csv::Csv;

const HEAD: [&str; 12] = [
    "client",
    "rounds_asked",
    "trained",
    "failed",
    "rejected",
    "samples_trained",
    "worked_s",
    "frames_down",
    "bytes_down",
    "frames_up",
    "bytes_up",
    "bytes_sent",
];

#[derive(Default)]
struct Account {
    asked: u64,
    trained: u64,
    failed: u64,
    rejected: u64,
    samples: u64,
    worked: u64,
}

/// Writes one row per client that was ever asked.
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
            let mut row = vec![client.0.to_string()];
            row.extend(integers(&[
                account.asked,
                account.trained,
                account.failed,
                account.rejected,
                account.samples,
            ]));
            row.push(VirtualTime(account.worked).as_seconds().to_string());
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
            Event::Trained { client, samples, worked, .. } => {
                let account = self.of(*client);
                account.trained += 1;
                account.samples += samples;
                account.worked += worked;
            }
            Event::ClientFailed { client, .. } => self.of(*client).failed += 1,
            Event::UpdateRejected { client, .. } => self.of(*client).rejected += 1,
            Event::FrameCharged { .. } => self.ledger.record(entry)?,
            // Rows of rounds are another table's business.
            Event::RoundClosed { round, .. } => drop(self.ledger.drain(*round)),
            Event::RunEnded { .. } => self.flush()?,
            _ => {}
        }
        Ok(())
    }
}
