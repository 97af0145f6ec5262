//! Results of runs whose clients have tasks of their own: six measures, with and without task identity.

use std::collections::BTreeMap;

use serde::Serialize;

use super::text_table::{TextTable, percent};
use crate::document::Document;
use crate::federation::ClientTaskScore;
use crate::learning::ClientTaskAccuracies;
use crate::learning::evaluation::accuracy;
use crate::learning::metrics::Direct;
use crate::quantity::{ClientId, TaskId};

/// Accuracies of client tasks trained alone, the reference of forward transfer.
pub type TrainedAlone = BTreeMap<(TaskId, ClientId), f64>;

/// Measures of all evaluation points, one at the end of every stage. Accuracies in `0..=1`.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct ClientTaskReport {
    /// Number of client tasks and their accuracy at every evaluation point.
    pub points: Vec<ClientTaskPoint>,
    /// Predictions among the head rows of the client task, whose identity is known (task-incremental).
    ///
    /// These are the numbers that the papers of this benchmark report.
    #[document(name = "<til|cil>")]
    pub til: ClientTaskMeasures,
    /// Predictions among the head rows of all client tasks begun (class-incremental), if evaluated.
    #[document(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cil: Option<ClientTaskMeasures>,
}

/// One evaluation point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Document)]
pub struct ClientTaskPoint {
    /// Client tasks begun by the end of the stage.
    #[serde(rename = "begun")]
    pub started: usize,
    /// Client tasks finished at the end of the stage.
    pub finished: usize,
    /// Mean accuracy of begun client tasks, task identity known; null if none of them has test samples.
    #[document(unit = "share")]
    pub til: Option<f64>,
    /// Mean accuracy of begun client tasks, task identity not known.
    #[document(unit = "share")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cil: Option<f64>,
}

/// Six measures of client tasks.
///
/// [`ClientTaskAccuracies`] defines them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Document)]
#[document(unit = "share")]
pub struct ClientTaskMeasures {
    /// Average accuracy at the end, with task identity known (`til`) or not (`cil`).
    pub avg: Option<f64>,
    /// Average incremental accuracy: mean over stages of the average accuracy.
    pub aia: Option<f64>,
    /// Forgetting measure: best accuracy at earlier stages minus the current one.
    pub fm: Option<f64>,
    /// Forward transfer against client tasks trained alone, if `record.single_task` gives all of them.
    pub ft: Option<f64>,
    /// Forward transfer as the published script computes it.
    pub ft_script: Option<f64>,
    /// Backward transfer: current accuracy minus that when the client task was finished.
    pub bt: Option<f64>,
    /// Sum of forward and backward transfer.
    pub tt: Option<f64>,
}

impl ClientTaskReport {
    /// Computes the measures from the scores at the end of each stage, for this number of clients.
    pub fn of(
        points: &[Vec<ClientTaskScore>],
        clients: u32,
        alone: &TrainedAlone,
    ) -> ClientTaskReport {
        let own = matrix(points, clients, |score| score.within);
        let asked = points.iter().flatten().all(|score| score.correct.is_some());
        let all = asked.then(|| matrix(points, clients, |score| score.correct.unwrap_or(0)));
        let own_points = own.accuracy().points;
        let all_points = all.as_ref().map(|all| all.accuracy().points);
        let point = |(at, scores): (usize, &Vec<ClientTaskScore>)| ClientTaskPoint {
            started: scores.len(),
            finished: scores.iter().filter(|score| score.finished).count(),
            til: own_points[at],
            cil: all_points.as_ref().and_then(|points| points[at]),
        };
        let mut direct = vec![None; points.len() * clients as usize];
        for ((task, client), accuracy) in alone {
            if let Some(place) = direct.get_mut(number(*task, *client, clients)) {
                *place = Some(*accuracy);
            }
        }
        ClientTaskReport {
            points: points.iter().enumerate().map(point).collect(),
            til: ClientTaskMeasures::of(&own, &direct),
            cil: all.map(|all| ClientTaskMeasures::of(&all, &direct)),
        }
    }

    /// Renders points and measures as text.
    pub fn render(&self) -> String {
        let cell =
            |share: Option<f64>| share.map_or("·".to_string(), |share| percent(Some(share)));
        let mut points =
            TextTable::new(["accuracy %", "tasks begun", "task known", "task not known"]);
        for (stage, point) in self.points.iter().enumerate() {
            points.row([
                format!("after stage {}", stage + 1),
                point.started.to_string(),
                cell(point.til),
                cell(point.cil),
            ]);
        }
        let mut measures =
            TextTable::new(["client tasks, % and points", "task known", "task not known"]);
        type Measure = fn(&ClientTaskMeasures) -> Option<f64>;
        let rows: [(&str, Measure); 6] = [
            ("Avg (mean over client tasks at the end)", |m| m.avg),
            ("AIA (mean of Avg over stages)", |m| m.aia),
            ("FM (drop from the best)", |m| m.fm),
            ("FT (against tasks trained alone)", |m| m.ft),
            ("BT (since finished)", |m| m.bt),
            ("TT (FT plus BT)", |m| m.tt),
        ];
        for (name, of) in rows {
            let all = self.cil.as_ref().and_then(of);
            measures.row([name.to_string(), cell(of(&self.til)), cell(all)]);
        }
        format!("{}\n{}", points.render(), measures.render())
    }
}

impl ClientTaskMeasures {
    /// A client task trained alone has no other head rows, so both evaluations have the same `direct`.
    fn of(client_tasks: &ClientTaskAccuracies, direct: &[Option<f64>]) -> ClientTaskMeasures {
        let forward = client_tasks.forward(direct, Direct::Own);
        ClientTaskMeasures {
            avg: client_tasks.average(),
            aia: client_tasks.incremental(),
            fm: client_tasks.forgetting().mean,
            ft: forward.as_ref().and_then(|forward| forward.mean),
            ft_script: client_tasks
                .forward(direct, Direct::Script)
                .and_then(|forward| forward.mean),
            bt: client_tasks.backward().mean,
            tt: forward.and_then(|forward| client_tasks.total(&forward).mean),
        }
    }
}

fn number(task: TaskId, client: ClientId, clients: u32) -> usize {
    task.index() * clients as usize + client.index()
}

fn matrix(
    points: &[Vec<ClientTaskScore>],
    clients: u32,
    right: impl Fn(&ClientTaskScore) -> u64,
) -> ClientTaskAccuracies {
    let mut client_tasks = ClientTaskAccuracies::default();
    for scores in points {
        let mut accuracies = vec![None; points.len() * clients as usize];
        let mut finished = Vec::new();
        for score in scores {
            let place = number(score.task, score.client, clients);
            accuracies[place] = accuracy(right(score), score.total);
            finished.extend(score.finished.then_some(place));
        }
        client_tasks.push(&accuracies, &finished);
    }
    client_tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(task: u16, client: u32, right: (u64, u64), finished: bool) -> ClientTaskScore {
        let (within, correct) = right;
        let (task, client) = (TaskId(task), ClientId(client));
        ClientTaskScore {
            task,
            client,
            row: 0,
            within,
            correct: Some(correct),
            total: 10,
            finished,
        }
    }

    #[test]
    fn forward_transfer_needs_client_tasks_trained_alone() {
        let points = [
            vec![score(0, 0, (8, 6), true), score(0, 1, (6, 6), false)],
            vec![score(0, 0, (7, 2), false), score(0, 1, (9, 5), true), score(1, 0, (5, 4), true)],
        ];
        let report = ClientTaskReport::of(&points, 2, &TrainedAlone::new());
        assert_eq!((report.points[1].started, report.points[0].finished), (3, 1));
        let near = |found: Option<f64>, wanted: f64| {
            assert!(found.is_some_and(|f| (f - wanted).abs() < 1e-12), "{found:?} is not {wanted}");
        };
        near(report.til.avg, 0.7);
        near(report.til.aia, 0.7);
        let all = report.cil.expect("was asked");
        near(all.bt, -0.2);
        assert_eq!((report.til.ft, report.til.tt), (None, None));
        let client_task = |task, client| (TaskId(task), ClientId(client));
        let mut alone: TrainedAlone = [(client_task(0, 0), 0.6), (client_task(0, 1), 0.6)].into();
        assert_eq!(
            ClientTaskReport::of(&points, 2, &alone).til.ft,
            None,
            "client task (1, 0) is missing"
        );
        alone.insert(client_task(1, 0), 0.4);
        let own = ClientTaskReport::of(&points, 2, &alone).til;
        // 0.8 - 0.6 and (0.9 + 0.5) / 2 - (0.6 + 0.4) / 2.
        assert!((own.ft.unwrap() - 0.2).abs() < 1e-12, "{own:?}");
        // 0.2 + 0 and, at the last point, FT alone.
        assert!((own.tt.unwrap() - 0.2).abs() < 1e-12, "{own:?}");
        assert!((own.ft_script.unwrap() - 0.15).abs() < 1e-12, "{own:?}");
        assert!(report.render().contains("FT (against tasks trained alone)                  ·"));
    }

    #[test]
    fn a_client_task_without_test_images_is_in_no_mean() {
        let untested = ClientTaskScore { total: 0, ..score(0, 1, (0, 0), true) };
        let report =
            ClientTaskReport::of(&[vec![score(0, 0, (8, 6), true), untested]], 2, &[].into());
        assert_eq!((report.til.avg, report.points[0].til), (Some(0.8), Some(0.8)));
        assert_eq!((report.points[0].started, report.cil.unwrap().avg), (2, Some(0.6)));
        let nothing = ClientTaskReport::of(&[vec![untested]], 2, &TrainedAlone::new());
        assert_eq!((nothing.til.avg, nothing.til.bt, nothing.points[0].til), (None, None, None));
        assert!(nothing.render().contains("Avg (mean over client tasks at the end)"));
    }

    #[test]
    fn what_was_not_asked_has_no_measures() {
        let points = [vec![ClientTaskScore { correct: None, ..score(0, 0, (8, 0), true) }]];
        let report = ClientTaskReport::of(&points, 1, &TrainedAlone::new());
        assert_eq!((report.til.avg, report.cil, report.points[0].cil), (Some(0.8), None, None));
        let text = report.render();
        assert!(text.lines().any(|line| line.starts_with("AIA") && line.ends_with('·')), "{text}");
    }
}
