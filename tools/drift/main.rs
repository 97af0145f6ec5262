//! Distance of a federation from the optimum of all its samples, round by round, with several methods.
//!
//! ```text
//! cargo run --release --example drift
//! ```
//! `scenarios/studies/client-drift.toml` has one optimum, which a single client with all samples finds. FedAvg ends
//! away from it, where the drifts of its clients balance each other; control variates (SCAFFOLD, FedDC) take the
//! drift away. The server's head is taken from the snapshots that a run offers after every round, so this program is
//! also an example of a reader of a simulation.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use fedcast::experiment::{assemble, write_atomically};
use fedcast::federation::{
    Cadence, Entry, EventSink, Interrupt, SinkError, Snapshot, SnapshotPlace, simulate,
};
use fedcast::methods::Registry;
use fedcast::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart, color, hex};
use fedcast::wire::{Body, Kind};

/// Methods by name, as changes of the scenario.
const METHODS: [(&str, &[&str]); 5] = [
    ("FedAvg", &[]),
    ("FedProx, mu 1", &["method={name=\"fedprox\",mu=1.0}"]),
    ("SCAFFOLD, option II", &["method={name=\"scaffold\"}"]),
    ("SCAFFOLD, option I", &["method={name=\"scaffold\",option=\"I\"}"]),
    ("FedDC, alpha 0.1", &["method={name=\"feddc\",alpha=0.1,rates=\"used\"}"]),
];

/// One site with all samples: many small rounds of the same steps.
const OPTIMUM: [&str; 3] =
    ["federation.clients=1", "partition={kind=\"iid\"}", "federation.rounds=2000"];

/// Distance to the optimum over rounds, for methods with and without control variates
#[derive(Debug, Parser)]
#[command(name = "drift", max_term_width = 100)]
struct Args {
    /// The scenario
    #[arg(default_value = "scenarios/studies/client-drift.toml")]
    scenario: PathBuf,
    /// The picture
    #[arg(short, long, default_value = "scenarios/studies/client-drift.svg")]
    out: PathBuf,
    /// The numbers, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

fn main() -> ExitCode {
    match draw(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn draw(args: &Args) -> Result<(), Box<dyn Error>> {
    let optimum = heads(&args.scenario, &OPTIMUM)?.pop().ok_or("no round was computed")?;
    let mut curves = Vec::new();
    for (name, changes) in METHODS {
        let heads = heads(&args.scenario, changes)?;
        let curve: Vec<f64> = heads.iter().map(|head| distance(head, &optimum)).collect();
        println!("{name:<22}{:>12.6} from the optimum at the end", curve.last().unwrap_or(&0.0));
        curves.push((name, curve));
    }
    write_atomically(&args.out, picture(&curves).as_bytes())?;
    if let Some(path) = &args.csv {
        write_atomically(path, table(&curves).as_bytes())?;
    }
    Ok(())
}

/// The server's head after every round, weights and biases in one.
fn heads(scenario: &Path, changes: &[&str]) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let methods = Registry::builtin();
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let scenario = assemble::load(scenario, &changes, &methods)?;
    let mut setup = assemble::assemble(&scenario, &methods, None)?.setup;
    setup.rules.snapshots = Cadence::Rounds(1);
    let heads = Heads::default();
    simulate(setup, Box::new(heads.clone()), Box::new(()), Interrupt::default())?;
    Ok(std::mem::take(&mut *heads.0.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Keeps the heads that it is shown.
#[derive(Clone, Default)]
struct Heads(Arc<Mutex<Vec<Vec<f32>>>>);

impl EventSink for Heads {
    fn record(&mut self, _: &Entry) -> Result<(), SinkError> {
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        true
    }

    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        if let SnapshotPlace::Round(_) = snapshot.place {
            let head = head(&snapshot.server).map_err(SinkError::Stop)?;
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(head);
        }
        Ok(())
    }
}

fn head(server: &Body) -> Result<Vec<f32>, String> {
    let mut values = Vec::new();
    for tensor in server.of_kind(Kind::Head) {
        values.extend_from_slice(tensor.as_f32().map_err(|error| error.to_string())?);
    }
    if values.is_empty() { Err("the server has no head".into()) } else { Ok(values) }
}

/// Euclidean.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

fn table(curves: &[(&str, Vec<f64>)]) -> String {
    let mut text = "method,round,distance\n".to_owned();
    for (name, curve) in curves {
        for (round, distance) in curve.iter().enumerate() {
            text.push_str(&format!("\"{name}\",{},{distance}\n", round + 1));
        }
    }
    text
}

fn picture(curves: &[(&str, Vec<f64>)]) -> String {
    let all = || curves.iter().flat_map(|(_, curve)| curve.iter().copied());
    let rounds = curves.iter().map(|(_, curve)| curve.len() as f64);
    let series = curves.iter().enumerate().map(|(number, (_, curve))| {
        let points = curve.iter().enumerate();
        let points = points.map(|(round, distance)| ChartPoint::new(round as f64 + 1.0, *distance));
        Series { number, points: points.collect(), look: Look::Band }
    });
    let (body, (width, height)) = chart(&[Panel {
        x: PlotAxis::from_zero("round", rounds, Label::Count),
        y: PlotAxis::wide("distance to the optimum", all(), Label::Number),
        series: series.collect(),
    }])
    .remove(0);
    let legend = curves.iter().enumerate().map(|(number, (name, _))| {
        let (y, stroke) = (100 + 18 * number as u32, hex(color(number)));
        let x = width - 190;
        format!(
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{stroke}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            x + 24,
            x + 30,
            y + 4
        )
    });
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-size=\"12\" \
         font-family=\"system-ui,sans-serif\"><title>Distance to the optimum over rounds</title>\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>{body}{}</svg>\n",
        legend.collect::<String>()
    )
}
