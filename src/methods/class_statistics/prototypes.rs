//! Gaussians at the server, by class and client.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

use super::{ClassStatistics, messages};
use crate::methods::averaging::ServerState;
use crate::policy::Aggregate;
use crate::quantity::ClientId;
use crate::scenario::reader::Choice;
use crate::wire::{Body, Kind, MetaReader, MetaWriter, Saved, WireError};

/// Lifetime of a client's Gaussian of the current task at the server.
///
/// A class that no client describes in a round keeps its earlier Gaussians, except with `cohort`, as in the public
/// code: it discards all Gaussians of the task in every round and draws no features of such a class. With full
/// participation there is no such class, and `round` and `cohort` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum GaussianLifetime {
    /// Until any client describes the class again.
    Round,
    /// Until the same client describes the class again.
    Task,
    /// Until the next round, whose cohort gives all Gaussians of the task.
    Cohort,
}

/// Gaussians of one class, by client.
pub type Cells = BTreeMap<ClientId, Arc<ClassStatistics>>;

/// Gaussians that the server holds, by class and client.
#[derive(Clone, Debug, Default)]
pub struct Prototypes {
    cells: BTreeMap<u32, Cells>,
}

impl Prototypes {
    /// Stores the Gaussians of a round, by client.
    ///
    /// With `forget`, a class that any client describes loses its earlier Gaussians first; other classes keep theirs.
    pub fn update(&mut self, arrived: &[(ClientId, Vec<Arc<ClassStatistics>>)], forget: bool) {
        if forget {
            for class in arrived.iter().flat_map(|(_, classes)| classes) {
                self.cells.remove(&class.row);
            }
        }
        for (client, classes) in arrived {
            for class in classes {
                self.cells.entry(class.row).or_default().insert(*client, Arc::clone(class));
            }
        }
    }

    /// Stores the Gaussians of a round's kept uploads; `task` are the head rows of the current task.
    ///
    /// # Errors
    /// When an upload does not contain valid Gaussians.
    pub fn take(
        &mut self,
        aggregate: &Aggregate,
        lifetime: GaussianLifetime,
        task: Range<usize>,
    ) -> Result<(), WireError> {
        let reported = aggregate
            .kept_uploads
            .iter()
            .map(|upload| {
                Ok((upload.meta.participant.client, messages::statistics_of(&upload.update)?))
            })
            .collect::<Result<Vec<_>, WireError>>()?;
        if lifetime == GaussianLifetime::Cohort {
            self.cells.retain(|row, _| !task.contains(&(*row as usize)));
        }
        self.update(&reported, lifetime == GaussianLifetime::Round);
        Ok(())
    }

    /// Removes the Gaussians of all classes outside of `rows`.
    pub fn keep_rows(&mut self, rows: Range<usize>) {
        self.cells.retain(|row, _| rows.contains(&(*row as usize)));
    }

    /// Returns one Gaussian per class, merged from those of its clients in the order of their ids.
    ///
    /// It is stored under the first of these clients.
    pub fn merged(&self) -> Prototypes {
        let merged = |(row, cells): (&u32, &Cells)| {
            let (first, one) = cells.first_key_value()?;
            let rest = cells.values().skip(1);
            let all = rest.fold(one.gaussian.clone(), |all, cell| all.merge(&cell.gaussian));
            let class = Arc::new(ClassStatistics { row: *row, gaussian: all });
            Some((*row, BTreeMap::from([(*first, class)])))
        };
        Prototypes { cells: self.cells.iter().filter_map(merged).collect() }
    }

    /// Returns the Gaussians of the classes in `rows`, by class and client.
    pub fn of(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, &Cells)> {
        self.cells.range(rows).map(|(row, cells)| (*row, cells))
    }

    /// Returns all Gaussians, by class and then by client.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Arc<ClassStatistics>)> {
        self.cells.values().flatten().map(|(client, cell)| (*client, cell))
    }

    /// Returns the number of Gaussians.
    pub fn len(&self) -> usize {
        self.cells.values().map(BTreeMap::len).sum()
    }

    /// Returns true if the server holds no Gaussian.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the number of samples behind each class of `rows` that has a Gaussian.
    pub fn totals(&self, rows: Range<u32>) -> BTreeMap<u32, f64> {
        let sum = |of: &Cells| of.values().map(|cell| cell.gaussian.count()).sum();
        self.cells.range(rows).map(|(row, clients)| (*row, sum(clients))).collect()
    }
}

impl Saved for Prototypes {
    fn save(&self) -> Body {
        let (mut rows, mut clients) = (Vec::new(), Vec::new());
        for (client, cell) in self.iter() {
            rows.push(cell.row);
            clients.push(client.0);
        }
        let mut meta = MetaWriter::new();
        meta.u32s(&rows).u32s(&clients);
        let cells: Vec<_> = self.iter().map(|(_, cell)| Arc::clone(cell)).collect();
        Body::new(meta.finish(), messages::section(&cells).into_iter().collect())
    }

    fn load(saved: &Body) -> Result<Prototypes, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (rows, clients) = (meta.u32s()?, meta.u32s()?);
        meta.finish()?;
        let cells = messages::read(&rows, |name| saved.tensor(Kind::Prototypes, name))?;
        let mut prototypes = Prototypes::default();
        for (client, cell) in clients.into_iter().zip(cells) {
            prototypes.cells.entry(cell.row).or_default().insert(ClientId(client), cell);
        }
        Ok(prototypes)
    }
}

impl ServerState for Prototypes {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::TaskView;
    use crate::methods::class_statistics::{ClassGaussian, fields};
    use crate::numerics::gaussian::DiagonalGaussian;
    use crate::policy::{KeptUpload, Message, Stage, UploadMeta, one_participant_per_client};
    use crate::quantity::{Round, TaskId};

    /// Gaussians are stored by client, not by participant of a round: if the first of three clients is not sampled,
    /// later Gaussians of the others replace their own.
    #[test]
    fn gaussians_are_kept_by_client_whatever_its_place() {
        let view = Arc::new(TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] });
        let round = |sampled: &[(ClientId, f64)]| {
            let clients: Vec<ClientId> = sampled.iter().map(|(client, _)| *client).collect();
            let participants =
                one_participant_per_client(&Stage::of(Arc::clone(&view), 1), &clients);
            let kept = participants.into_iter().zip(sampled).map(|(participant, (_, mean))| {
                let gaussian =
                    DiagonalGaussian { count: 2, mean: vec![*mean], variance: vec![1.0] };
                let gaussian = ClassGaussian::Diagonal(gaussian);
                let class = Arc::new(ClassStatistics { row: 1, gaussian });
                let extra = messages::section(&[class]).into_iter().collect();
                let update = Message { control: fields(0, &[1]), extra, ..Message::default() };
                let meta = UploadMeta::timely(participant, Round(0));
                KeptUpload { meta, sent: Arc::default(), update }
            });
            Aggregate { kept_uploads: kept.collect(), ..Aggregate::default() }
        };
        let [one, two] = [ClientId(1), ClientId(2)];
        let mut all = Prototypes::default();
        let means = |all: &Prototypes| -> Vec<(ClientId, f64)> {
            let of = |(client, class): (ClientId, &Arc<ClassStatistics>)| match &class.gaussian {
                ClassGaussian::Diagonal(gaussian) => (client, gaussian.mean[0]),
                ClassGaussian::Full(_) => panic!("diagonal"),
            };
            all.iter().map(of).collect()
        };
        all.take(&round(&[(one, 3.0), (two, 5.0)]), GaussianLifetime::Task, 0..2).unwrap();
        assert_eq!(means(&all), [(one, 3.0), (two, 5.0)]);
        all.take(&round(&[(two, 7.0)]), GaussianLifetime::Task, 0..2).unwrap();
        assert_eq!(means(&all), [(one, 3.0), (two, 7.0)]);
    }
}
