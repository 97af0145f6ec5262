//! `clients.csv`: what each client did and carried over the whole run; written when it ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::federation::{Direction, Entry, Event, EventSink, SinkError};
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
    frames: [u64; 2],
    bytes: [u64; 2],
    sent: u64,
}

/// Writes one row per client that was ever asked.
pub struct ClientsTable<W: Write> {
    csv: Csv<W>,
    accounts: BTreeMap<ClientId, Account>,
}

impl<W: Write> ClientsTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(ClientsTable { csv: Csv::new(out, &HEAD)?, accounts: BTreeMap::new() })
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
            row.extend(integers(&[
                account.frames[0],
                account.bytes[0],
                account.frames[1],
                account.bytes[1],
                account.sent,
            ]));
            self.csv.row(&row)?;
        }
        Ok(())
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
            Event::FrameCharged { client, direction, bytes, sent, .. } => {
                let way = usize::from(*direction == Direction::Up);
                let account = self.of(*client);
                account.frames[way] += 1;
                account.bytes[way] += bytes.frame();
                account.sent += sent;
            }
            Event::RunEnded { .. } => self.flush()?,
            _ => {}
        }
        Ok(())
    }
}
