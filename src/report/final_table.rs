//! Final table of a run on stdout.

use std::fmt::Write as _;

use super::sampled::sampled_line;
use super::summary::{ClientMemoryUse, Summary};
use super::text_table::{TextTable, grouped, percent};
use super::time_parts::TimeParts;
use super::wall::WallTimes;
use super::words::{CONTROL, direction_word, outcome_word, workers_word};
use crate::federation::ledger::Sums;
use crate::federation::{Direction, EndReason};
use crate::learning::CacheCounts;
use crate::quantity::Bytes;
use crate::scenario::Evaluated;

/// Most columns that fit a terminal; a larger matrix is in `matrix.csv` only.
const WIDEST_MATRIX: usize = 12;

/// Renders accuracy, forgetting, bytes and times of a run as text.
pub fn final_table(summary: &Summary) -> String {
    let mut text = String::new();
    let name = if summary.name.is_empty() { "run" } else { &summary.name };
    let _ = writeln!(
        text,
        "{name}: {}, {} clients, {} tasks, {} rounds, seed {}\n",
        summary.method, summary.clients, summary.tasks, summary.rounds, summary.seed
    );
    if let Some(held_out) = &summary.validation {
        let _ = writeln!(text, "{held_out}\n");
    }
    text.push_str(&matrix(summary));
    text.push_str(&untested(summary));
    text.push_str(&accuracies(summary));
    text.push_str(&metric_lines(summary));
    if let Some(published) = &summary.published {
        let _ = write!(text, "\n{}", published.render());
    }
    text.push('\n');
    text.push_str(&bytes(summary));
    text.push('\n');
    text.push_str(&sampled_line(&summary.sampled, summary.clients));
    for ignored in &summary.ignored {
        let _ = writeln!(text, "not used    {ignored}");
    }
    text.push_str(&state_line(summary));
    text.push_str(&times(summary));
    if summary.failed + summary.rejected > 0 {
        let _ = writeln!(
            text,
            "dropped     {} participants sent nothing, {} updates were rejected",
            summary.failed, summary.rejected
        );
    }
    if summary.trained_nothing() {
        text.push_str("failed      no update was ever aggregated: the model is the initial one\n");
    }
    if summary.restarts > 0 {
        let (restarts, lost) = (summary.restarts, summary.lost_updates);
        let _ = writeln!(text, "server      {restarts} restarts, {lost} updates lost");
    }
    if summary.poisoned > 0 {
        let _ = writeln!(text, "malicious   {} poisoned updates", summary.poisoned);
    }
    if let Some(digests) = &summary.digests {
        let _ = writeln!(text, "digests     {digests}");
    }
    match summary.ended {
        Some(EndReason::Done) => {}
        Some(EndReason::Interrupted) => text.push_str("The run was interrupted.\n"),
        Some(EndReason::Aborted) => text.push_str("The run was aborted.\n"),
        None => text.push_str("The run has not ended.\n"),
    }
    text
}

fn matrix(summary: &Summary) -> String {
    let rows = &summary.accuracy.matrix;
    if rows.is_empty() {
        return "nothing was evaluated\n".to_string();
    }
    if rows.len() > WIDEST_MATRIX {
        return stages(summary);
    }
    let head = [measured(summary).to_string()]
        .into_iter()
        .chain((1..=rows.len()).map(|task| format!("task {task}")))
        .chain(["all seen".to_string()]);
    let mut table = TextTable::new(head);
    for (stage, row) in rows.iter().enumerate() {
        let mut cells = vec![format!("after task {}", stage + 1)];
        cells.extend((0..rows.len()).map(|task| row.get(task).map_or("·".to_string(), tested)));
        cells.push(seen(summary, stage));
        table.row(cells);
    }
    table.render()
}

/// Returns a cell of the matrix; `-` if there is no value, as for a task without test samples.
fn tested(accuracy: &Option<f64>) -> String {
    accuracy.map_or("-".to_string(), |accuracy| percent(Some(accuracy)))
}

fn seen(summary: &Summary, stage: usize) -> String {
    summary.accuracy.seen.get(stage).map_or_else(String::new, tested)
}

/// Returns a line on the tasks that are left out of means.
fn untested(summary: &Summary) -> String {
    let tasks: Vec<String> = summary.accuracy.untested_tasks.iter().map(u32::to_string).collect();
    match tasks.as_slice() {
        [] => String::new(),
        [task] => format!("task {task} has no test samples and is left out of means\n"),
        tasks => {
            format!("tasks {} have no test samples and are left out of means\n", tasks.join(", "))
        }
    }
}

/// Returns the caption of the matrix.
fn measured(summary: &Summary) -> &'static str {
    let known =
        summary.client_tasks.as_ref().is_some_and(|client_tasks| client_tasks.cil.is_none());
    match (known, on_validation(summary)) {
        (true, false) => "accuracy % (task known)",
        (true, true) => "validation % (task known)",
        (false, false) => "accuracy %",
        (false, true) => "validation %",
    }
}

/// Returns true if accuracies are those of held-out training samples.
fn on_validation(summary: &Summary) -> bool {
    summary.validation.is_some_and(|held| held.evaluate == Evaluated::Validation)
}

/// Renders the first column, the diagonal and all classes seen of a matrix too wide for a terminal.
fn stages(summary: &Summary) -> String {
    let mut table = TextTable::new([measured(summary), "task 1", "latest task", "all seen"]);
    for (stage, row) in summary.accuracy.matrix.iter().enumerate() {
        table.row([
            format!("after task {}", stage + 1),
            row.first().map_or_else(String::new, tested),
            row.get(stage).map_or_else(String::new, tested),
            seen(summary, stage),
        ]);
    }
    format!("{}other tasks: see matrix.csv\n", table.render())
}

fn accuracies(summary: &Summary) -> String {
    let accuracy = &summary.accuracy;
    if accuracy.matrix.is_empty() {
        return String::new();
    }
    if let Some(client_tasks) = &summary.client_tasks {
        return format!("\n{}", client_tasks.render());
    }
    format!(
        "\nfinal average accuracy (FAA, mean of the last row)  {:>6} %\n\
         {:<52}{:>6} %\n\
         average incremental accuracy (macro)                {:>6} %\n\
         average incremental accuracy (micro)                {:>6} %\n\
         average accuracy from the second stage on (macro)   {:>6} %\n\
         average accuracy from the second stage on (micro)   {:>6} %\n\
         forgetting since learned (mean over all tasks)      {:>6} points\n\
         forgetting since best (mean over old tasks)         {:>6} points\n\
         forgetting since best (mean over all tasks)         {:>6} points\n\
         forgetting from task to task (of all tasks)         {:>6} points\n\
         forgetting from task to task (of old tasks)         {:>6} points\n\
         forgetting from task to task (of old tasks, micro)  {:>6} points\n",
        tested(&accuracy.faa),
        if on_validation(summary) {
            "accuracy on all held-out samples (micro)"
        } else {
            "accuracy on all test samples (micro)"
        },
        tested(&accuracy.micro),
        tested(&accuracy.average_incremental),
        tested(&accuracy.average_incremental_micro),
        tested(&accuracy.average_from_second_stage),
        tested(&accuracy.average_from_second_stage_micro),
        tested(&accuracy.forgetting),
        tested(&accuracy.forgetting_from_best),
        tested(&accuracy.forgetting_from_best_of_all),
        tested(&accuracy.forgetting_consecutive),
        tested(&accuracy.forgetting_consecutive_old),
        tested(&accuracy.forgetting_consecutive_old_micro),
    )
}

fn metric_lines(summary: &Summary) -> String {
    let mut text = String::new();
    if summary.accuracy.matrix.is_empty() {
        return text;
    }
    for (name, value) in &summary.server_metrics {
        let _ = writeln!(text, "{:<52}{value:>12.5}", name.replace('_', " "));
    }
    for (name, value) in summary.bias.iter().flat_map(|bias| &bias.mean) {
        let name = format!("{} (first training of a task)", name.replace('_', " "));
        let _ = writeln!(text, "{name:<52}{value:>6.3}");
    }
    text
}

fn bytes(summary: &Summary) -> String {
    let (down, up) = (summary.total(Direction::Down), summary.total(Direction::Up));
    if down.frames + up.frames == 0 {
        return "bytes       none: no message crossed a link\n".to_string();
    }
    let mut table = TextTable::new(["bytes", "", "frames", "bytes", "share"]).left(2);
    for direction in [Direction::Down, Direction::Up] {
        let all = summary.total(direction);
        let word = direction_word(direction);
        let share = |part: Bytes| match all.bytes {
            Bytes(0) => String::new(),
            Bytes(whole) => format!("{:.2} %", 100.0 * part.0 as f64 / whole as f64),
        };
        for ((_, outcome), sum) in
            summary.traffic().iter().filter(|((way, _), _)| *way == direction)
        {
            table.row([
                word.to_string(),
                outcome_word(*outcome).to_string(),
                grouped(sum.frames),
                grouped(sum.bytes.0),
                share(sum.bytes),
            ]);
        }
        let control = [(CONTROL, all.control)];
        let kinds = all.kinds.iter().map(|(kind, bytes)| (kind.name(), bytes));
        for (kind, bytes) in control.into_iter().chain(kinds) {
            let label = format!("  {kind}");
            table.row([word.to_string(), label, String::new(), grouped(bytes.0), share(bytes)]);
        }
    }
    let mut text = table.render();
    let _ = writeln!(text, "all         {} down, {} up", down.sent, up.sent);
    text.push_str("            1 MB is 10^6 bytes\n");
    let kinds = [("dummy clients", summary.dummy_clients), ("load clients", summary.load_clients)];
    for (kind, sums) in kinds {
        let Some(Sums { frames, bytes, .. }) = sums else { continue };
        let _ = writeln!(text, "            of which {kind}: {frames} frames, {bytes}");
    }
    // The rows above are whole frames; of a lost one only a part crossed the link.
    let lost = Bytes((down.bytes.0 + up.bytes.0).saturating_sub(down.sent.0 + up.sent.0));
    if lost > Bytes(0) {
        let _ =
            writeln!(text, "            without {lost} of lost frames that did not cross a link");
    }
    let (raw, payload) = ((down.raw + up.raw).0, (down.payload + up.payload).0);
    if raw != payload && payload > 0 {
        let _ = writeln!(
            text,
            "codecs      {} of tensors sent as {}, {:.2} times smaller",
            Bytes(raw),
            Bytes(payload),
            raw as f64 / payload as f64
        );
    }
    text
}

/// Returns a line on the state that clients keep between rounds.
fn state_line(summary: &Summary) -> String {
    let Some(ClientMemoryUse { clients, bytes, largest }) = summary.memory else {
        return String::new();
    };
    format!(
        "clients     {clients} keep {} in total between rounds, {} at most per client\n",
        Bytes(bytes),
        Bytes(largest)
    )
}

/// Returns a line with the seconds of every task, or nothing if there are many tasks.
fn by_task(seconds: &[f64]) -> String {
    if !(2..=WIDEST_MATRIX).contains(&seconds.len()) {
        return String::new();
    }
    let each: Vec<String> = seconds.iter().map(|s| format!("{s:.1}")).collect();
    format!("            by task: {} s\n", each.join(", "))
}

fn times(summary: &Summary) -> String {
    let mut text = format!("virtual     {:.3} s of simulated time\n", summary.virtual_s);
    if let Some(TimeParts { work_s, links_s, waiting_s, server_s }) = summary.virtual_parts {
        let _ = writeln!(
            text,
            "            clients' work {work_s:.1} s, links {links_s:.1} s, waiting {waiting_s:.1} s, \
             server {server_s:.1} s"
        );
        text.push_str(&by_task(&summary.task_virtual_s));
    }
    if let Some(wall) = &summary.wall {
        let WallTimes { total_s, workers, train_s, evaluate_s, codec_s, aggregate_s, .. } = wall;
        let WallTimes { server_s, wait_s, journal_s, checkpoint_s, event_loop_wait_s, .. } = wall;
        let word = workers_word(*workers);
        let _ = writeln!(
            text,
            "wall        {total_s:.1} s; {workers} {word}: training {train_s:.1} s, \
             evaluation {evaluate_s:.1} s, codec {codec_s:.1} s, aggregation {aggregate_s:.1} s, \
             server {server_s:.1} s, waiting {wait_s:.1} s\n            \
             event loop: journal {journal_s:.1} s, checkpoints {checkpoint_s:.1} s, \
             waiting {event_loop_wait_s:.1} s"
        );
        text.push_str(&by_task(&wall.by_task_s));
        if let Some(peak) = wall.peak_memory_mb {
            let gpu = wall.peak_gpu_memory_mb;
            let gpu = gpu.map_or(String::new(), |peak| format!(", on a GPU {peak:.0} MB"));
            let _ = writeln!(text, "            peak memory {peak:.0} MB{gpu}");
        }
        let CacheCounts { computed, compute_s, loaded, read, .. } = wall.cache;
        if read > 0 {
            let _ = writeln!(
                text,
                "features    {} samples computed once in {compute_s:.1} s, {} found in files, \
                 {} rows read",
                grouped(computed),
                grouped(loaded),
                grouped(read)
            );
        }
        if let Some(retries) = wall.retries {
            let times = if retries == 1 { "once" } else { &*format!("{retries} times") };
            let _ = writeln!(
                text,
                "memory      full {times}: {:.1} s of training repeated with fewer clients; \
                 a lower devices.pack avoids this",
                wall.retry_s
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints accuracy over time for any number of tasks.
    #[test]
    fn of_many_tasks_all_classes_seen_are_left() {
        let of = |tasks: usize| {
            let mut summary = Summary::new("long");
            let stage =
                |seen: usize| (0..seen).map(|task| Some(task as f64 / seen as f64)).collect();
            summary.accuracy.matrix = (1..=tasks).map(stage).collect();
            summary.accuracy.seen = (1..=tasks).map(|seen| Some(0.5 / seen as f64)).collect();
            matrix(&summary)
        };
        let (few, many) = (of(WIDEST_MATRIX), of(20));
        assert!(few.contains("task 12") && !few.contains("matrix.csv"), "{few}");
        let last = many.lines().find(|line| line.starts_with("after task 20")).unwrap();
        let cells: Vec<&str> = last.split_whitespace().skip(3).collect();
        assert_eq!(cells, ["0.00", "95.00", "2.50"]);
        assert!(many.lines().count() == 23 && many.ends_with("see matrix.csv\n"), "{many}");
    }

    #[test]
    fn a_task_without_test_samples_is_said_once() {
        let mut summary = Summary::new("untested");
        summary.accuracy.matrix = vec![vec![Some(1.0)], vec![Some(0.25), None]];
        summary.accuracy.seen = vec![Some(1.0), Some(0.25)];
        assert_eq!(untested(&summary), "");
        summary.accuracy.untested_tasks = vec![2];
        let text = final_table(&summary);
        assert_eq!(text.matches("task 2 has no test samples and is left out of means").count(), 1);
        let last = text.lines().find(|line| line.starts_with("after task 2")).unwrap();
        let cells: Vec<&str> = last.split_whitespace().skip(3).collect();
        assert_eq!(cells, ["25.00", "-", "25.00"]);
        summary.accuracy.untested_tasks = vec![1, 2];
        assert!(untested(&summary).starts_with("tasks 1, 2 have"));
    }
}
