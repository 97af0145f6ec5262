//! Plan of a run as text.

use std::fmt::Write as _;

use super::text_table::{TextTable, grouped};
use crate::experiment::estimate::{Costs, Estimate};
use crate::experiment::plan::{
    FrameRange, Held, Plan, PlannedBackbone, PlannedFrame, PlannedPhase,
};
use crate::policy::UploadSize;
use crate::quantity::{Bytes, WallSeconds};

/// Renders the table that `fedcast plan` prints.
pub fn plan_table(plan: &Plan) -> String {
    let mut text = format!(
        "{}: {}, {} clients, {} classes, {} training samples\n\
         backbone: {}\n\n",
        plan.name,
        plan.method,
        plan.clients,
        plan.classes,
        grouped(plan.samples as u64),
        backbone(&plan.backbone)
    );
    if let Some(held_out) = &plan.validation {
        let _ = writeln!(text, "{held_out}\n");
    }
    text.push_str(&phases(plan));
    for ignored in &plan.ignored {
        let _ = writeln!(text, "not used: {ignored}");
    }
    text.push('\n');
    if plan.charged {
        text.push_str(&kinds(plan));
        text.push_str(&one_client(plan));
    } else {
        text.push_str("No message crosses a link: all data is at one site.\n");
    }
    text.push_str(&memory_line(plan));
    text.push_str(&totals(plan));
    text
}

/// Renders the memory of server and clients between rounds, which grows with the clients.
fn memory_line(plan: &Plan) -> String {
    let Some(Held { server, client, clients }) = plan.held else { return String::new() };
    let server = Bytes(server);
    let clients = match client {
        0 => "clients keep nothing".to_owned(),
        _ => format!(
            "every client keeps {}, all {} clients {}",
            Bytes(client),
            plan.clients,
            Bytes(clients)
        ),
    };
    format!("between rounds the server keeps {server}, {clients}\n\n")
}

fn backbone(of: &PlannedBackbone) -> String {
    let (image, dim) = (of.image, grouped(of.dim as u64));
    match (of.patch, of.depth) {
        (Some(patch), Some(depth)) => format!(
            "{image} pixels in patches of {patch}, {depth} blocks of width {dim}, {} parameters",
            grouped(of.parameters as u64)
        ),
        _ if of.kind == "bert" => format!(
            "bert, sequences of {image} tokens: features of width {dim}, {} parameters",
            grouped(of.parameters as u64)
        ),
        _ => {
            let kind = if of.parameters == 0 { "pixels as they are" } else { of.kind };
            format!(
                "{kind}, {} x {image} x {image}: features of width {dim}, {} parameters",
                of.channels,
                grouped(of.parameters as u64)
            )
        }
    }
}

fn phases(plan: &Plan) -> String {
    let rows = &plan.phases;
    if !plan.charged {
        let mut table = TextTable::new(["task", "phase", "classes", "rounds", "sampled"]).left(2);
        rows.iter().for_each(|row| table.row(head(row)));
        return table.render();
    }
    let mut table = TextTable::new([
        "task",
        "phase",
        "classes",
        "rounds",
        "sampled",
        "down payload",
        "+control",
        "up payload",
        "+control",
        "round",
        "task total",
    ])
    .left(2);
    for row in rows {
        let ranges = [&row.assets, &row.down, &row.up, &row.protocol_down, &row.protocol_up];
        let all: u64 = ranges.iter().map(|range| range.sum.frame).sum();
        table.row(
            head(row).into_iter().chain([
                range(&row.down, |frame| frame.payload),
                range(&row.down, |frame| frame.control),
                range(&row.up, |frame| frame.payload),
                range(&row.up, |frame| frame.control),
                all.checked_div(u64::from(row.rounds))
                    .map_or_else(String::new, |each| Bytes(each).to_string()),
                Bytes(all).to_string(),
            ]),
        );
    }
    let mut text = table.render();
    text.push_str(
        "bytes of one message to or from one client, 1 MB is 10^6 bytes; classes: new/seen; sampled: \
         participants of all rounds of the task together, dummy and load clients among them;\nround and task total: both directions\n",
    );
    text.push_str(&share_of_backbone(plan));
    if rows.iter().any(|row| !row.protocol_up.is_empty()) {
        text.push_str("totals include the frames of secure aggregation\n");
    }
    let assets: u64 = rows.iter().map(|row| row.assets.sum.frame).sum();
    if assets > 0 {
        let frames: u64 = rows.iter().map(|row| row.assets.frames).sum();
        let all = Bytes(assets);
        let _ = writeln!(text, "plus {} frames of assets, {all}", grouped(frames));
    }
    text.push_str(&upper_bounds(rows));
    text
}

/// Renders notes on messages that may be smaller in the run, with their phases if others are exact.
fn upper_bounds(rows: &[PlannedPhase]) -> String {
    let phases = |is_bound: fn(&PlannedPhase) -> bool| {
        let asked = rows.iter().filter(|row| row.participants > 0);
        let (bounds, exact): (Vec<_>, Vec<_>) = asked.partition(|row| is_bound(row));
        let mut names: Vec<&str> = bounds.iter().map(|row| &*row.phase).collect();
        names.sort_unstable();
        names.dedup();
        let of = if exact.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
        (!names.is_empty()).then_some(of)
    };
    let mut text = String::new();
    if let Some(of) = phases(|row| row.upload_size == UploadSize::FromValues) {
        let _ = writeln!(
            text,
            "the size of uploads{of} depends on learned values and is known only in the run"
        );
    }
    if let Some(of) = phases(|row| row.down_at_most) {
        let _ = writeln!(
            text,
            "downloads{of} hold what the server has learned so far: sizes are upper bounds"
        );
    }
    text
}

/// Renders the fraction of the model that is communicated, compared with full fine-tuning.
fn share_of_backbone(plan: &Plan) -> String {
    let (down, all) = (plan.numbers_down(), plan.backbone.parameters as u64);
    if down == 0 || all == 0 {
        return String::new();
    }
    let share = 100.0 * down as f64 / all as f64;
    let (down, bytes) = (grouped(down), plan.backbone.bytes());
    format!(
        "a download holds at most {down} numbers, {share:.1} % of the backbone's parameters \
         (full fine-tuning would send {bytes} of them)\n"
    )
}

fn head(row: &PlannedPhase) -> [String; 5] {
    [
        row.task.to_string(),
        row.phase.to_string(),
        format!("{}/{}", row.new_classes, row.seen_classes),
        row.rounds.to_string(),
        row.participants.to_string(),
    ]
}

fn range(range: &FrameRange, part: fn(&PlannedFrame) -> u64) -> String {
    let (low, high) = (part(&range.smallest), part(&range.largest));
    if low == high { grouped(high) } else { format!("{}–{}", grouped(low), grouped(high)) }
}

fn kinds(plan: &Plan) -> String {
    let mut table = TextTable::new(["whole run", "bytes", "share"]);
    let all = plan.total.down + plan.total.up;
    let share = |part: u64| match all {
        0 => String::new(),
        all => format!("{:.2} %", 100.0 * part as f64 / all as f64),
    };
    let mut row = |name: &str, bytes: u64| table.row([name, &grouped(bytes), &share(bytes)]);
    row("down", plan.total.down);
    row("up", plan.total.up);
    row("of both: control", plan.total.control);
    plan.total.kinds.iter().for_each(|(kind, bytes)| row(&format!("of both: {kind}"), *bytes));
    let mut text = table.render();
    let payload: u64 = plan.total.kinds.values().sum();
    if payload != plan.total.raw {
        let _ = writeln!(text, "before codecs the payload is {}", grouped(plan.total.raw));
    }
    text.push('\n');
    text
}

/// Renders the payload that one client uploads, in 2^20 bytes as in papers.
fn one_client(plan: &Plan) -> String {
    if plan.one_client.is_empty() {
        return "no client sends anything to the server\n\n".to_owned();
    }
    let mut table =
        TextTable::new(["one client, whole run", "frames up", "payload", "MiB", "+control"]);
    for row in &plan.one_client {
        table.row([
            &row.phase,
            &grouped(row.frames),
            &grouped(row.up.payload),
            &format!("{:.3}", row.up.payload as f64 / f64::from(1 << 20)),
            &grouped(row.up.control),
        ]);
    }
    let mut text = table.render();
    let secret = match plan.phases.iter().any(|row| !row.protocol_up.is_empty()) {
        true => ", with its frames of secure aggregation",
        false => "",
    };
    let _ = writeln!(text, "for the client that uploads most{secret}; MiB: 2^20 bytes\n");
    text
}

fn totals(plan: &Plan) -> String {
    let total = &plan.total;
    let jobs = total.training_jobs + total.skipped_jobs;
    let job = total.client_flops / jobs.max(1) as f64;
    let late = match total.skipped_jobs {
        0 => String::new(),
        late => format!(" and {} that are certainly late, not computed in a run", grouped(late)),
    };
    format!(
        "rounds        {}\ntraining      {} jobs{late}, {} sample passes (a forward and a backward each)\n\
         computing     {} at clients, {} a job on average; {} at the server; {} an answer\n\
         virtual time  {:.1} s {}\n",
        total.rounds,
        grouped(total.training_jobs),
        grouped(total.sample_passes.round() as u64),
        flops(total.client_flops),
        flops(job),
        flops(total.server_flops),
        flops(plan.inference_flops),
        total.virtual_s,
        if plan.faults { "with the faults of the scenario" } else { "if every client answers" }
    )
}

/// Renders floating-point operations with three digits and the prefix of a power of 1,000.
fn flops(count: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P", "E"];
    // What rounds to 1,000 has the next prefix.
    let power = (0..prefixes.len() - 1)
        .find(|power| count < 999.5 * 1000f64.powi(*power as i32))
        .unwrap_or(prefixes.len() - 1);
    let scaled = count / 1000f64.powi(power as i32);
    let digits = match scaled {
        _ if power == 0 || scaled >= 99.95 => 0,
        _ if scaled >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {}FLOP", prefixes[power])
}

/// Renders the estimated cost of the run on this machine, printed below the plan.
pub fn estimate_lines(of: &Estimate) -> String {
    let Estimate { wall_s, train_s, evaluate_s, features_s, other_s, disk, costs } = of;
    let memory = peak(costs);
    format!(
        "wall time     about {}: training {}, tests {}, features {} of all workers together, the rest {}\n\
         memory        {memory}\n\
         disk          about {}\n\
         measured      {} in {}: {} sample passes, {} answers\n",
        WallSeconds(*wall_s),
        WallSeconds(*train_s),
        WallSeconds(*evaluate_s),
        WallSeconds(*features_s),
        WallSeconds(*other_s),
        Bytes(*disk),
        costs.measured,
        WallSeconds(costs.took_s),
        grouped(costs.passes.round() as u64),
        grouped(costs.tested),
    )
}

/// Returns the peak of memory in a trial.
fn peak(costs: &Costs) -> String {
    let host = match costs.peak_memory_mb {
        Some(peak) => format!("about {peak:.1} MB at its peak, as in the trial"),
        None => "not reported by this system".to_owned(),
    };
    match costs.peak_gpu_memory_mb {
        Some(gpu) => format!("{host}; tensors on one GPU about {gpu:.0} MB"),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_that_are_known() {
        let of = |peak_memory_mb, peak_gpu_memory_mb| {
            peak(&Costs { peak_memory_mb, peak_gpu_memory_mb, ..Costs::default() })
        };
        let both = "about 38.0 MB at its peak, as in the trial; tensors on one GPU about 8740 MB";
        assert_eq!(of(Some(38.0), Some(8_740.0)), both);
        assert_eq!(of(Some(38.0), None), "about 38.0 MB at its peak, as in the trial");
        assert_eq!(of(None, None), "not reported by this system");
    }
}
