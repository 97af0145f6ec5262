//! `record.single_task`: accuracies of client tasks that were trained alone. They come from the table of
//! `fedcast single-task` or the `client_tasks.csv` of another run.
//!
//! Forward transfer compares the accuracy of a client task in the run with its accuracy after one round of the same
//! method alone. The table must be of the same client tasks (same `tasks`, `partition`, clients and
//! `seed.class_order`). Only lines in which a client task is finished count, with accuracies among the client task's
//! own rows.

use super::csv::{self, CsvFault};

/// Client task and its accuracy if trained alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleTaskLine {
    /// Stage of the client task, from 1.
    pub stage: u16,
    /// Client, from 0.
    pub client: u32,
    /// Accuracy in `0..=1`; `None` for a client task without test images.
    pub accuracy: Option<f64>,
}

/// Reads the finished client tasks of a table, for `stages` stages and `clients` clients.
pub(super) fn lines(
    text: &str,
    stages: u32,
    clients: u32,
) -> Result<Vec<SingleTaskLine>, CsvFault> {
    let mut rows = csv::rows(text);
    let Some(header) = rows.next() else { return Err(csv::nothing(text, "header")) };
    let [stage, client, finished, accuracy] =
        csv::columns(&header, ["stage", "client", "finished", "accuracy_til"])?;
    let whole = |value: f64, least: u32, end: u32| {
        value.fract() == 0.0 && f64::from(least) <= value && value < f64::from(end)
    };
    let which = format!("a stage from 1 to {stages}");
    let who = format!("a client below {clients}");
    let mut lines: Vec<SingleTaskLine> = Vec::new();
    for row in rows {
        let cell = |place| csv::cell(&row, place, header.len());
        if csv::number(cell(finished)?, |flag| flag == 0.0 || flag == 1.0, "0 or 1")? == 0.0 {
            continue;
        }
        let number = csv::number(cell(stage)?, |p| whole(p, 1, stages + 1), &which)?;
        let id = csv::number(cell(client)?, |id| whole(id, 0, clients), &who)?;
        let share = match cell(accuracy)? {
            empty if empty.text.trim().is_empty() => None,
            cell => Some(csv::number(cell, |a| (0.0..=1.0).contains(&a), "from 0 to 1")?),
        };
        let line = SingleTaskLine { stage: number as u16, client: id as u32, accuracy: share };
        if lines.iter().any(|known| (known.stage, known.client) == (line.stage, line.client)) {
            return Err(CsvFault::at(
                cell(stage)?,
                format!("client {id} finishes its client task of stage {number} a second time"),
                "second line",
                "take the `client_tasks.csv` of one run",
            ));
        }
        lines.push(line);
    }
    if lines.is_empty() { Err(csv::nothing(text, "finished client tasks")) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_client_tasks_are_read_and_others_left() {
        let read = |text: &str| {
            let text = format!("after_task,stage,client,finished,accuracy_til\n{text}");
            lines(&text, 3, 2).map_err(|fault| fault.message)
        };
        let line = |stage, client, accuracy| SingleTaskLine { stage, client, accuracy };
        let found = read("1,1,0,1,0.5\n1,1,1,0,0.9\n2,1,1,1,0.25\n2,2,0,1,\n");
        // The client task of stage 2 has no test images.
        let known = [line(1, 0, Some(0.5)), line(1, 1, Some(0.25)), line(2, 0, None)];
        assert_eq!(found, Ok(known.to_vec()));
        for (text, why) in [
            ("1,4,0,1,0.5", "from 1 to 3"),
            ("1,1,2,1,0.5", "below 2"),
            ("1,1,0,1,50", "from 0 to 1"),
            ("1,1,0,2,0.5", "0 or 1"),
            ("1,1,0,0,0.5", "no finished client tasks"),
            ("1,1,0,1,0.5\n2,1,0,1,0.5", "a second time"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(lines("stage,client\n1,0", 1, 1).unwrap_err().message.contains("finished"));
    }
}
