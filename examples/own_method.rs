//! The program `fedcast` with one more method, added from outside the crate: FedAvg whose server takes a part of each
//! step.
//!
//! The server moves by `rate` times the mean change of its clients, `theta <- theta + rate (mean - theta)`: the server
//! optimizer SGD of Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 1. Everything else is
//! FedAvg's, so that secure aggregation, medians, late uploads and exact bytes work without another line.
//!
//! Every command knows the method, and processes of a study start this program:
//!
//! ```text
//! cargo build --release --example own_method
//! alias own=target/release/examples/own_method
//! own methods show damped-fedavg
//! own new own.toml --method damped-fedavg --study damped-fedavg,fedavg
//! own run own.toml --set method.rate=0.8 -o runs/own
//! own replay runs/own --verify
//! own study own.study.toml && own report studies/own
//! ```

use std::process::ExitCode;

use fedcast::prelude::*;

/// The `[method]` table: FedAvg's keys and one more.
#[derive(Clone)]
struct DampedFedAvg {
    fedavg: FedAvg,
    /// `rate`: fraction of a round's step that the server takes.
    rate: f64,
}

impl DampedFedAvg {
    fn read(table: &mut TableReader<'_>) -> DampedFedAvg {
        let rate = Param::new("rate", 0.5, "fraction of a round's step that the server takes");
        let rate = table.get(&rate.above(0.0).at_most(1.0));
        DampedFedAvg { fedavg: FedAvg::read(table), rate }
    }

    fn entry() -> MethodEntry {
        MethodEntry {
            idea: "FedAvg whose server takes a fraction of each step.",
            source: "Reddi et al., ICLR 2021, Algorithm 1 with SGD as the server optimizer",
            state: "server: the parameters; client: nothing",
            ..MethodEntry::averaging("damped-fedavg", DampedFedAvg::read)
        }
    }
}

impl AveragingMethod for DampedFedAvg {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        Parts { server: self, ..self.fedavg.base() }
    }
}

impl ServerUpdate<()> for DampedFedAvg {
    /// Moves from the parameters before the round towards their mean after it.
    fn server_update(
        &self,
        _: &mut (),
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let mut squared = 0.0;
        for (name, before) in closing.before.iter() {
            let Some(mean) = theta.get(name).cloned() else { continue };
            let pairs = before.values.iter().zip(mean.values.iter());
            let values: Vec<f32> =
                pairs.map(|(before, mean)| before + self.rate as f32 * (mean - before)).collect();
            let steps = before.values.iter().zip(&values).map(|(before, after)| after - before);
            squared += steps.map(|step| f64::from(step * step)).sum::<f64>();
            theta.insert(name.clone(), Parameter { shape: mean.shape, values: values.into() });
        }
        // Metrics of a server are in the journal, in rounds.csv and in summary.json.
        Ok(vec![("step_norm", squared.sqrt())])
    }
}

fn main() -> ExitCode {
    let methods = Registry::builtin().with(DampedFedAvg::entry());
    fedcast::cli::main_with(std::env::args_os(), &methods).into()
}
