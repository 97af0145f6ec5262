//! Reports of clients about their classes, and the choice of reports from which Gaussians are pooled.

use std::collections::BTreeMap;

use clap::ValueEnum;

use super::moments::{ClientTaskMoments, Gaussians, pooled};
use crate::methods::powder::ClientTaskKey;
use crate::policy::PolicyError;
use crate::quantity::{ClientId, TaskId};
use crate::scenario::reader::Choice;
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

/// Moments from which the Gaussian of a class is pooled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum PooledMoments {
    /// Moments of all clients that have reported the class so far, in any stage.
    ///
    /// A client task counts once, however often its owner reports it.
    #[default]
    All,
    /// Moments of the clients that hold the class in this stage.
    Stage,
}

/// Latest report of each client task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reports {
    client_tasks: BTreeMap<ClientTaskKey, Report>,
}

/// Moments of a client task's classes, as its client reported them.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Class ids of the data set; a class that occurs in several tasks has one id.
    pub classes: Vec<u32>,
    /// Moments of the classes, in the same order.
    pub moments: ClientTaskMoments,
}

impl Report {
    /// Returns the classes of which the client has samples.
    fn classes_with_samples(&self) -> impl Iterator<Item = u32> {
        let counts = self.classes.iter().zip(&self.moments.counts);
        counts.filter(|(_, count)| **count > 0).map(|(class, _)| *class)
    }

    /// Returns the count and the mean of a class, if the client has samples of it.
    fn of(&self, class: u32) -> Option<(u32, &[f32])> {
        let place = self.classes.iter().position(|other| *other == class)?;
        let (count, dim) =
            (self.moments.counts[place], self.moments.means.len() / self.classes.len());
        (count > 0).then(|| (count, &self.moments.means[place * dim..(place + 1) * dim]))
    }
}

/// Returns true if two reports of a class are of the same samples.
///
/// Their counts are equal, and their means differ by less than a thousandth.
fn same_samples((count, mean): (u32, &[f32]), (other_count, other): (u32, &[f32])) -> bool {
    let square = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values.map(|value| f64::from(value).powi(2)).sum()
    };
    let apart = square(&mut mean.iter().zip(other).map(|(a, b)| a - b));
    let size = square(&mut mean.iter().copied()) + square(&mut other.iter().copied());
    count == other_count && apart <= 1e-6 * size
}

impl Reports {
    /// Stores the reports of a stage; with `PooledMoments::Stage`, earlier ones are dropped.
    ///
    /// A client that continues a client task reports the same samples again, which replaces its earlier report.
    pub fn take(
        &mut self,
        reported: impl IntoIterator<Item = (ClientTaskKey, Report)>,
        of: PooledMoments,
    ) {
        if of == PooledMoments::Stage {
            self.client_tasks.clear();
        }
        self.client_tasks.extend(reported);
    }

    /// Returns the Gaussians of the classes of each client task, pooled from all stored reports.
    ///
    /// # Errors
    /// When a report does not have the number of values that its classes need.
    pub fn gaussians<'a>(
        &self,
        client_tasks: impl IntoIterator<Item = &'a [u32]>,
        dim: usize,
    ) -> Result<Vec<Gaussians>, PolicyError> {
        let reports: Vec<(&[u32], &ClientTaskMoments)> = self
            .client_tasks
            .values()
            .map(|report| (&report.classes[..], &report.moments))
            .collect();
        let pooled = pooled(&reports, dim)?;
        Ok(client_tasks.into_iter().map(|classes| Gaussians::of(classes, &pooled, dim)).collect())
    }

    /// Returns the share of a stage's new classes that another client has reported, too.
    ///
    /// `None` if no client task begins in the stage.
    pub fn second_holders(&self, stage: TaskId) -> Option<f64> {
        self.share_of_new_classes(stage, |_, _| true)
    }

    /// Returns the share of a stage's new classes of which another client has reported other samples.
    ///
    /// The Gaussian of the remaining classes is the client's own, so there is nothing to compensate. Client tasks of a
    /// stage may have the same images.
    pub fn other_samples(&self, stage: TaskId) -> Option<f64> {
        self.share_of_new_classes(stage, |own, other| !same_samples(own, other))
    }

    /// Returns the share of a stage's new classes for which `counts` is true for some other report.
    fn share_of_new_classes(
        &self,
        stage: TaskId,
        counts: impl Fn((u32, &[f32]), (u32, &[f32])) -> bool,
    ) -> Option<f64> {
        let begins = self.client_tasks.iter().filter(|(client_task, _)| client_task.task == stage);
        let shared: Vec<bool> = begins
            .flat_map(|(client_task, report)| {
                report.classes_with_samples().map(move |class| (client_task.client, report, class))
            })
            .filter_map(|(client, report, class)| Some((client, report.of(class)?, class)))
            .map(|(client, own, class)| {
                let others = self
                    .client_tasks
                    .iter()
                    .filter(|(client_task, _)| client_task.client != client);
                others.filter_map(|(_, other)| other.of(class)).any(|other| counts(own, other))
            })
            .collect();
        let count = shared.iter().filter(|shared| **shared).count();
        (!shared.is_empty()).then(|| count as f64 / shared.len() as f64)
    }

    /// Returns the section for a checkpoint.
    pub fn save(&self) -> Section {
        let mut tensors = Vec::new();
        for (place, (client_task, Report { classes, moments })) in
            self.client_tasks.iter().enumerate()
        {
            let rows = [moments.counts.len(), moments.means.len() / moments.counts.len().max(1)];
            let about: Vec<u32> = [u32::from(client_task.task.0), client_task.client.0]
                .into_iter()
                .chain(classes.iter().copied())
                .collect();
            tensors.extend([
                NamedTensor::u32(format!("{place:05}/slot"), [about.len()], about),
                NamedTensor::f32(format!("{place:05}/means"), rows, moments.means.clone()),
                NamedTensor::f32(format!("{place:05}/variances"), rows, moments.variances.clone()),
                NamedTensor::u32(
                    format!("{place:05}/counts"),
                    [moments.counts.len()],
                    moments.counts.clone(),
                ),
            ]);
        }
        let tensors = tensors.into_iter().map(|tensor| tensor.expect("moments fill their shapes"));
        Section::new(Kind::Prototypes, tensors.collect())
    }

    /// Inverts [`save`](Reports::save).
    ///
    /// # Errors
    /// When the body was not written by [`save`](Reports::save).
    pub fn load(saved: &Body) -> Result<Reports, WireError> {
        let sections =
            saved.of_kind(Kind::Prototypes).filter(|tensor| tensor.name().ends_with("/slot"));
        let report = |place: usize| -> Result<(ClientTaskKey, Report), WireError> {
            let named = |name: &str| saved.tensor(Kind::Prototypes, &format!("{place:05}/{name}"));
            let about = named("slot")?.as_u32()?;
            let [task, client, classes @ ..] = &about[..] else {
                return Err(WireError::Malformed("a report belongs to no client task".to_owned()));
            };
            let client_task =
                ClientTaskKey { task: TaskId(*task as u16), client: ClientId(*client) };
            let moments = ClientTaskMoments {
                means: named("means")?.as_f32()?.to_vec(),
                variances: named("variances")?.as_f32()?.to_vec(),
                counts: named("counts")?.as_u32()?.to_vec(),
            };
            Ok((client_task, Report { classes: classes.to_vec(), moments }))
        };
        Ok(Reports { client_tasks: (0..sections.count()).map(report).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a report with these one-dimensional samples, by class.
    fn report(classes: &[(u32, &[f32])]) -> Report {
        let by_class: Vec<Vec<f32>> = classes.iter().map(|(_, values)| values.to_vec()).collect();
        let classes = classes.iter().map(|(class, _)| *class).collect();
        Report { classes, moments: ClientTaskMoments::fit(&by_class, 1) }
    }

    fn key(task: u16, client: u32) -> ClientTaskKey {
        ClientTaskKey { task: TaskId(task), client: ClientId(client) }
    }

    fn mean_of(reports: &Reports, class: u32) -> f32 {
        reports.gaussians([&[class][..]], 1).unwrap()[0].means[0]
    }

    /// Class 4: one sample of value 1 in the first stage, three of mean 5 in the second, where client 1 continues its
    /// client task.
    fn two_stages(of: PooledMoments) -> Reports {
        let mut reports = Reports::default();
        let went_on = report(&[(4, &[1.0]), (5, &[7.0])]);
        reports.take([(key(0, 0), report(&[(6, &[2.0])])), (key(0, 1), went_on.clone())], of);
        reports.take([(key(1, 0), report(&[(4, &[4.0, 5.0, 6.0])])), (key(0, 1), went_on)], of);
        reports
    }

    #[test]
    fn a_client_task_counts_once_however_often_it_is_reported() {
        let reports = two_stages(PooledMoments::All);
        assert_eq!(mean_of(&reports, 4), 4.0);
        assert_eq!(mean_of(&reports, 6), 2.0);
        assert_eq!(reports.client_tasks.len(), 3);
        let body = Body::new(Vec::new(), vec![reports.save()]);
        assert_eq!(Reports::load(&body).unwrap(), reports);
    }

    #[test]
    fn moments_of_the_stage_forget_those_before() {
        let reports = two_stages(PooledMoments::Stage);
        assert_eq!(mean_of(&reports, 4), 4.0); // client 1 said it again
        let gaussians = reports.gaussians([&[6][..]], 1).unwrap();
        assert_eq!(gaussians[0].variances, [-1.0]); // unreported
        let mut left = reports;
        left.take([(key(2, 0), report(&[(4, &[9.0])]))], PooledMoments::Stage);
        assert_eq!(mean_of(&left, 4), 9.0);
    }

    #[test]
    fn only_another_client_makes_a_second_holder() {
        let reports = two_stages(PooledMoments::All);
        // Client 0 holds class 4, which client 1 has reported.
        assert_eq!(reports.second_holders(TaskId(1)), Some(1.0));
        // Of classes 6, 4 and 5 of the first stage, only 4 is reported twice.
        assert_eq!(reports.second_holders(TaskId(0)), Some(1.0 / 3.0));
        assert_eq!(reports.second_holders(TaskId(2)), None);
        let mut alone = Reports::default();
        alone.take([(key(0, 0), report(&[(4, &[1.0])]))], PooledMoments::All);
        let empty: &[f32] = &[];
        alone.take(
            [(key(1, 0), report(&[(4, &[2.0])])), (key(1, 1), report(&[(4, empty)]))],
            PooledMoments::All,
        );
        assert_eq!(alone.second_holders(TaskId(1)), Some(0.0));
    }

    /// Class 4: clients 0 and 1 begin with the same two samples, client 2 has as many with another mean; class 5: one
    /// sample more of the same mean; class 6: no other client.
    #[test]
    fn who_has_the_same_samples_has_nothing_to_compensate() {
        let mut reports = Reports::default();
        let begin = |classes: &[(u32, &[f32])]| report(classes);
        let (first, second) = (key(0, 0), key(0, 1));
        let same: (u32, &[f32]) = (4, &[1.0, 3.0]);
        reports.take(
            [(first, begin(&[same, (6, &[1.0])])), (second, begin(&[same]))],
            PooledMoments::All,
        );
        assert_eq!(reports.second_holders(TaskId(0)), Some(2.0 / 3.0));
        assert_eq!(reports.other_samples(TaskId(0)), Some(0.0));
        let later = begin(&[(4, &[1.0, 3.1]), (5, &[2.0; 3])]);
        reports
            .take([(key(1, 2), later), (key(1, 0), begin(&[(5, &[2.0; 2])]))], PooledMoments::All);
        assert_eq!(reports.other_samples(TaskId(1)), Some(1.0));
        // Later reports count for client tasks that began before.
        assert_eq!(reports.other_samples(TaskId(0)), Some(2.0 / 3.0));
        assert_eq!(reports.other_samples(TaskId(2)), None);
    }
}
