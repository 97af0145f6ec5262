//! Accuracy on every task after every task, as one tinted table per arm.

use maud::{Markup, html};
use serde_json::Value;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::tint;
use crate::results::{Arm, Spread};

/// Most tasks that fit a table of the page.
const MOST: usize = 25;

/// Accuracies by task learned, then task tested; `None` if the task has no test samples.
type Matrix = Vec<Vec<Option<Spread>>>;

/// Returns the section, one table per arm.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let matrices: Vec<(String, Matrix)> = (0..content.arms.len())
        .filter_map(|arm| Some((content.label(arm), matrix(&content.arms[arm])?)))
        .collect();
    let body = html! {
        p.note {
            "Mean accuracy in percent on the classes of a task (column) after learning a task (row), among all classes "
            "seen and without task identity. Deeper tints are higher values; a cell is empty if its task has no test \
             samples."
        }
        div.row { @for (name, matrix) in &matrices { (table(name, matrix)) } }
    };
    (!matrices.is_empty()).then_some(PageSection::of("matrices", "Accuracy by task", body))
}

/// Returns means over the runs of an arm; rows and columns are tasks.
fn matrix(arm: &Arm) -> Option<Matrix> {
    let of = |run: &crate::results::RunRecord| -> Option<Vec<Vec<Option<f64>>>> {
        let rows = run.summary.as_ref()?.pointer("/accuracy/matrix")?.as_array()?.iter();
        // `null` if a task has no test samples.
        let row = |row: &Value| Some(row.as_array()?.iter().map(Value::as_f64).collect());
        rows.map(row).collect()
    };
    let runs: Vec<Vec<Vec<Option<f64>>>> = arm.done().filter_map(of).collect();
    let tasks = runs.iter().map(Vec::len).max().filter(|tasks| (2..=MOST).contains(tasks))?;
    let cell = |trained: usize, tested: usize| {
        let all: Vec<f64> = runs.iter().filter_map(|run| *run.get(trained)?.get(tested)?).collect();
        Spread::of(&all)
    };
    Some((0..tasks).map(|row| (0..=row).map(|column| cell(row, column)).collect()).collect())
}

fn table(name: &str, matrix: &[Vec<Option<Spread>>]) -> Markup {
    html! {
        div.wide {
            table.heat {
                caption { (name) }
                thead { tr {
                    th scope="col" class="text" { "after" }
                    @for task in 1..=matrix.len() { th scope="col" { "task " (task) } }
                } }
                tbody { @for (row, cells) in matrix.iter().enumerate() { tr {
                    th scope="row" class="text" { "task " (row + 1) }
                    @for cell in cells {
                        @if let Some(cell) = cell {
                            td class=(tint(cell.mean)) { (format!("{:.1}", 100.0 * cell.mean)) }
                        } @else { td {} }
                    }
                    @for _ in cells.len()..matrix.len() { td {} }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_test_samples_keeps_its_column() {
        let cell = |mean| Spread::of(&[mean]);
        let matrix = [vec![cell(1.0)], vec![cell(0.5), None], vec![cell(0.25), None, cell(0.75)]];
        let text = table("arm", &matrix).into_string();
        let row = text.split("task 3</th>").last().unwrap();
        let cells: Vec<&str> =
            row.split("</td>").map(|td| td.rsplit('>').next().unwrap()).collect();
        assert_eq!(&cells[..3], ["25.0", "", "75.0"], "{text}");
    }
}
