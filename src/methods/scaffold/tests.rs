use super::*;
use crate::golden::Golden;
use crate::learning::OptimizerConfig;
use crate::methods::averaging::quadratics::{
    Quadratic, QuadraticStep, SIZE, World, flat, slope_of_all, uneven,
};
use crate::methods::averaging::{ClientWeighting, Keeper, LocalTrainingResult, PackClient, renew};
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::parts::AveragingMethod;
use crate::model::Parameter;

fn scaffold(change: impl Fn(&mut Scaffold)) -> Scaffold {
    let fedavg = FedAvg {
        train: Train::Head,
        client_weighting: ClientWeighting::Uniform,
        ..FedAvg::default()
    };
    let mut method = Scaffold { fedavg, ..Scaffold::default() };
    change(&mut method);
    method
}

/// As algorithm 1, whose means over the clients of a round are plain.
#[test]
fn clients_have_equal_weights_by_default() {
    assert_eq!(Scaffold::default().fedavg.client_weighting, ClientWeighting::Uniform);
}

/// Renews the variates of a client after its training.
fn after(
    simulation: &World<Scaffold>,
    member: &mut PackClient<'_, VectorStore>,
    trained: &mut LocalTrainingResult,
) {
    let method = &simulation.base.method;
    // The loss is not that of samples.
    let gradient = (method.option == Renewal::Gradient).then(|| {
        let own = &simulation.clients[member.participant.client.index()];
        let mut gradient = own.gradient(&flat(&member.received)).into_iter();
        let one = |(name, like): (&std::sync::Arc<str>, &Parameter)| {
            let values = gradient.by_ref().take(like.values.len()).map(|v| v as f32).collect();
            (name.clone(), Parameter { shape: like.shape.clone(), values })
        };
        member.received.iter().map(one).collect()
    });
    if method.keeping.keeper == Keeper::Client {
        let parts = method.parts();
        let context = parts.context(simulation.facts(), &simulation.ctx);
        renew(method, &context, member, (trained, gradient)).unwrap();
    }
}

/// The clients of the golden file.
pub(in crate::methods) fn golden_clients(golden: &Golden) -> Vec<Quadratic> {
    let (h, a, n) = (golden.f64("H"), golden.f64("a"), golden.i64("n"));
    let client = |m: usize| Quadratic {
        curvature: h[m * SIZE * SIZE..][..SIZE * SIZE].to_vec(),
        optimum: a[m * SIZE..][..SIZE].to_vec(),
        samples: n[m] as usize,
    };
    (0..3).map(client).collect()
}

/// Returns the participants of each round.
pub(in crate::methods) fn golden_cohorts(golden: &Golden) -> Vec<Vec<usize>> {
    let present = golden.i64("present");
    present.chunks(3).map(|row| (0..3).filter(|m| row[*m] == 1).collect()).collect()
}

/// The steps of a client in a round, at these rates.
pub(in crate::methods) fn golden_steps(
    golden: &Golden,
    (round, client): (usize, usize),
    rate: impl Fn(usize) -> f64,
) -> Vec<QuadraticStep> {
    let (xi, k) = (golden.f64("xi"), golden.i64("K")[client] as usize);
    let step = |at: usize| {
        let first = ((round * 3 + client) * 5 + at) * SIZE;
        QuadraticStep { rate: rate(at), noise: xi[first..first + SIZE].to_vec() }
    };
    (0..k).map(step).collect()
}

/// `x`, `c`, all `c_m` and local results of three rounds: both options, means by samples, half a step of the server.
#[test]
fn golden_control_variates_of_scaffold() {
    let Some(golden) = Golden::open("control") else { return };
    let eta = golden.f64("eta");
    for (run, option, weights, server_lr) in [
        ("II", Renewal::Way, ClientWeighting::Uniform, 1.0),
        ("I", Renewal::Gradient, ClientWeighting::Uniform, 1.0),
        ("II_samples", Renewal::Way, ClientWeighting::BySamples, 1.0),
        ("II_half", Renewal::Way, ClientWeighting::Uniform, 0.5),
    ] {
        for variates in [Keeper::Client, Keeper::Server] {
            if (option, variates) == (Renewal::Gradient, Keeper::Server) {
                continue;
            }
            let method = scaffold(|method| {
                (method.option, method.server_lr) = (option, server_lr);
                (method.fedavg.client_weighting, method.keeping.keeper) = (weights, variates);
            });
            let mut simulation = World::new(method, golden_clients(&golden), &golden.f64("w0"));
            simulation.ctx.training.clip = None;
            simulation.ctx.training.optimizer = OptimizerConfig::sgd(0.1);
            let (mut x, mut c, mut own) =
                (simulation.model(), vec![0.0; SIZE], vec![0.0; 3 * SIZE]);
            let mut y = Vec::new();
            for (round, cohort) in golden_cohorts(&golden).iter().enumerate() {
                let steps = |m| golden_steps(&golden, (round, m), |k| eta[round * 5 + k]);
                let walked = simulation.round(cohort, steps, after);
                x.extend(simulation.model());
                c.extend(flat(simulation.memory().get(CONTROL).unwrap()));
                for m in 0..3 {
                    let kept = match variates {
                        Keeper::Client => simulation.state(m).get(CONTROL).map(flat),
                        Keeper::Server => {
                            let name = VectorStore::of_client(
                                CONTROL,
                                crate::quantity::ClientId(m as u32),
                            );
                            simulation.memory().get(&name).map(flat)
                        }
                    };
                    own.extend(kept.unwrap_or_else(|| vec![0.0; SIZE]));
                    let end = walked.iter().find(|one| one.client == m).map(|one| one.end.clone());
                    y.extend(end.unwrap_or_else(|| vec![0.0; SIZE]));
                }
            }
            for (part, values) in [("x", x), ("c", c), ("c_m", own), ("y", y)] {
                golden.assert_close_f32(&format!("scaffold.{run}.{part}"), &values);
            }
        }
    }
}

/// Card, invariant 6: with any number of local steps and curvatures as unequal as can be, the end is the optimum of
/// all; invariant 4: `c` is the mean of all `c_m`, and invariant 8: for any participants.
#[test]
fn uneven_quadratics_end_at_the_optimum_of_all() {
    for (variates, cohorts) in [
        (Keeper::Client, vec![vec![0, 1, 2]]),
        (Keeper::Server, vec![vec![0, 1, 2]]),
        (Keeper::Client, vec![vec![0, 1], vec![2], vec![1, 2], vec![0]]),
    ] {
        let mut simulation =
            World::new(scaffold(|method| method.keeping.keeper = variates), uneven(), &[0.0; SIZE]);
        simulation.ctx.training.optimizer = OptimizerConfig::sgd(0.1);
        simulation.ctx.training.clip = None;
        let step = QuadraticStep { rate: 0.05, noise: vec![0.0; SIZE] };
        let steps = |client| vec![step.clone(); 3 + 2 * client];
        for round in 0..1_500 {
            simulation.round(&cohorts[round % cohorts.len()], steps, after);
            let all = simulation.memory();
            let own = (0..3).map(|m| match variates {
                Keeper::Client => simulation.state(m).get(CONTROL).map(flat),
                Keeper::Server => all
                    .get(&VectorStore::of_client(CONTROL, crate::quantity::ClientId(m as u32)))
                    .map(flat),
            });
            let mut mean = [0.0; SIZE];
            for own in own.flatten() {
                mean.iter_mut().zip(own).for_each(|(mean, own)| *mean += own / 3.0);
            }
            for (mean, c) in mean.iter().zip(flat(all.get(CONTROL).unwrap())) {
                assert!((mean - c).abs() < 1e-4, "{round}: {mean} {c}");
            }
        }
        let slope = slope_of_all(&simulation.clients, &simulation.model());
        assert!(slope < 1e-3, "{variates:?} {}: {slope}", cohorts.len());
    }
}

/// Card, invariant 5: where the gradient is constant, the variate is that gradient, whatever steps were taken before
/// and whatever the correction was: option II is option I.
#[test]
fn the_variate_of_a_constant_gradient_is_that_gradient() {
    let flat_loss = |slope: f64| Quadratic {
        curvature: vec![0.0; SIZE * SIZE],
        optimum: vec![0.0; SIZE],
        samples: slope as usize,
    };
    let mut simulation =
        World::new(scaffold(|_| ()), vec![flat_loss(2.0), flat_loss(5.0)], &[0.5; SIZE]);
    simulation.ctx.training.clip = None;
    simulation.ctx.training.optimizer = OptimizerConfig::sgd(0.1);
    let slope = |client: usize| [-1.5, 0.75][client];
    for rates in [vec![0.1, 0.05], vec![0.2], vec![0.01, 0.02, 0.03]] {
        let step =
            |client: usize, rate: f64| QuadraticStep { rate, noise: vec![slope(client); SIZE] };
        let steps = |client| rates.iter().map(|rate| step(client, *rate)).collect();
        simulation.round(&[0, 1], steps, after);
        for client in 0..2 {
            for value in flat(simulation.state(client).get(CONTROL).unwrap()) {
                assert!((value - slope(client)).abs() < 1e-4, "{client}: {value}");
            }
        }
    }
}
