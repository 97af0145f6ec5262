use super::*;
use crate::golden::Golden;
use crate::learning::{OptimizerConfig, TrainingPlan};
use crate::methods::averaging::quadratics::{
    QuadraticStep, SIZE, World, flat, slope_of_all, uneven,
};
use crate::methods::averaging::{Keeper, LocalTrainingResult, PackClient, Reset, renew};
use crate::methods::fedavg::Train;
use crate::methods::scaffold::tests::{golden_clients, golden_cohorts, golden_steps};
use crate::quantity::ClientId;

fn feddc(change: impl Fn(&mut FedDc)) -> FedDc {
    let read = FedDc::default();
    let fedavg = FedAvg { train: Train::Head, ..read.fedavg.clone() };
    let mut method = FedDc { fedavg, ..read };
    change(&mut method);
    method
}

fn after(
    simulation: &World<FedDc>,
    member: &mut PackClient<'_, VectorStore>,
    trained: &mut LocalTrainingResult,
) {
    if simulation.base.method.keeping.keeper == Keeper::Client {
        let parts = simulation.base.parts();
        let context = parts.context(simulation.facts(), &simulation.ctx);
        renew(&simulation.base.method, &context, member, (trained, None)).unwrap();
    }
}

/// Returns a client's vector of this name.
fn known(simulation: &World<FedDc>, name: &str, client: usize) -> Vec<f64> {
    let set = match simulation.base.method.keeping.keeper {
        Keeper::Client => simulation.state(client).get(name).map(flat),
        Keeper::Server => {
            let of_client = VectorStore::of_client(name, ClientId(client as u32));
            simulation.memory().get(&of_client).map(flat)
        }
    };
    set.unwrap_or_else(|| vec![0.0; SIZE])
}

fn mean(simulation: &World<FedDc>, name: &str) -> Vec<f64> {
    flat(simulation.memory().get(name).unwrap())
}

/// `w`, `g`, the mean drift, all drifts, all `g_m`, local results and norms of three rounds: plain, and clipped with a
/// weight decay on top.
#[test]
fn golden_control_variates_of_feddc() {
    let Some(golden) = Golden::open("control") else { return };
    let (eta, alpha) = (golden.f64("feddc.eta"), golden.f64("feddc.alpha")[0]);
    for (run, clip, decay) in
        [("plain", None, 0.0), ("clip", Some(golden.f64("feddc.max_norm")[0]), 0.01)]
    {
        for variates in [Keeper::Client, Keeper::Server] {
            let method = feddc(|method| (method.alpha, method.keeping.keeper) = (alpha, variates));
            let mut simulation = World::new(method, golden_clients(&golden), &golden.f64("w0"));
            let (mut w, mut theta) = (simulation.model(), Vec::new());
            let [mut g, mut hbar] = [(); 2].map(|()| vec![0.0; SIZE]);
            let [mut h, mut g_m] = [(); 2].map(|()| vec![0.0; 3 * SIZE]);
            let mut norms = Vec::new();
            for (round, cohort) in golden_cohorts(&golden).iter().enumerate() {
                simulation.ctx.training = TrainingPlan {
                    epochs: golden.i64("feddc.K")[0] as u32,
                    batch: 1_000_000,
                    optimizer: OptimizerConfig::sgd(eta[round]).weight_decay(decay),
                    first_rate: Some(eta[0]),
                    clip,
                    ..TrainingPlan::default()
                };
                let steps = |m| golden_steps(&golden, (round, m), |_| eta[round]);
                let walked = simulation.round(cohort, steps, after);
                w.extend(simulation.model());
                g.extend(mean(&simulation, CONTROL));
                hbar.extend(mean(&simulation, DRIFT));
                for m in 0..3 {
                    h.extend(known(&simulation, DRIFT, m));
                    g_m.extend(known(&simulation, CONTROL, m));
                    let one = walked.iter().find(|one| one.client == m);
                    theta.extend(one.map_or(vec![0.0; SIZE], |one| one.end.clone()));
                    let mut own = one.map_or(Vec::new(), |one| one.norms.clone());
                    own.resize(5, 0.0);
                    norms.extend(own);
                }
            }
            let parts = [("w", w), ("g", g), ("hbar", hbar), ("h", h), ("g_m", g_m)];
            for (part, values) in parts.into_iter().chain([("theta", theta)]) {
                golden.assert_close_f32(&format!("feddc.{run}.{part}"), &values);
            }
            if clip.is_some() {
                golden.assert_close_f32("feddc.clip.norms", &norms);
            }
        }
    }
}

/// Card, invariants 2, 3 and 5: uneven quadratics end at the common optimum, where no client drifts any more.
///
/// The server's drift is the mean of the clients', each the sum of that client's changes, for any participants.
#[test]
fn uneven_quadratics_end_without_client_drift() {
    for (variates, rates, cohorts) in [
        (Keeper::Client, Rates::Used, vec![vec![0, 1, 2]]),
        (Keeper::Server, Rates::First, vec![vec![0, 1, 2]]),
        (Keeper::Client, Rates::Used, vec![vec![0, 1], vec![2], vec![1, 2], vec![0]]),
    ] {
        let method = feddc(|method| {
            (method.keeping.keeper, method.rates, method.alpha) = (variates, rates, 0.5);
        });
        let whole = cohorts.len() == 1;
        let mut simulation = World::new(method, uneven(), &[0.0; SIZE]);
        simulation.ctx.training = TrainingPlan {
            epochs: 5,
            batch: 1_000,
            optimizer: OptimizerConfig::sgd(0.02),
            clip: None,
            ..TrainingPlan::default()
        };
        let step = QuadraticStep { rate: 0.02, noise: vec![0.0; SIZE] };
        let mut ways = vec![vec![0.0; SIZE]; 3];
        let rounds = if whole { 1_500 } else { 8 };
        for round in 0..rounds {
            let before = simulation.model();
            let walked =
                simulation.round(&cohorts[round % cohorts.len()], |_| vec![step.clone(); 5], after);
            for one in walked {
                let way = one.end.iter().zip(&before).map(|(end, before)| end - before);
                ways[one.client].iter_mut().zip(way).for_each(|(sum, way)| *sum += way);
            }
            let mean_drift = mean(&simulation, DRIFT);
            for at in 0..SIZE {
                let all: f64 = (0..3).map(|m| known(&simulation, DRIFT, m)[at]).sum();
                assert!((mean_drift[at] - all / 3.0).abs() < 1e-4, "{round}");
                for (m, way) in ways.iter().enumerate() {
                    assert!(
                        (known(&simulation, DRIFT, m)[at] - way[at]).abs() < 1e-3,
                        "{round} {m}"
                    );
                }
            }
        }
        if whole {
            let (slope, drift) =
                (slope_of_all(&simulation.clients, &simulation.model()), mean(&simulation, DRIFT));
            assert!(slope < 1e-3, "{variates:?}: {slope}");
            assert!(drift.iter().all(|drift| drift.abs() < 1e-3), "{drift:?}");
        }
    }
}

/// Card, invariant 6: without a pull and with a constant gradient, the variate is that gradient; a schedule makes that
/// of the public code smaller, by what it has lowered the rate.
#[test]
fn the_variate_of_a_constant_gradient_is_that_gradient() {
    for (rates, lowered) in [(Rates::Used, 1.0), (Rates::First, 0.25)] {
        let method = feddc(|method| (method.alpha, method.rates) = (0.0, rates));
        let mut clients = uneven();
        clients.iter_mut().for_each(|client| client.curvature = vec![0.0; SIZE * SIZE]);
        let mut simulation = World::new(method, clients, &[0.0; SIZE]);
        let rate = 0.1 * lowered;
        simulation.ctx.training = TrainingPlan {
            epochs: 4,
            batch: 1_000,
            optimizer: OptimizerConfig::sgd(rate),
            first_rate: Some(0.1),
            clip: None,
            ..TrainingPlan::default()
        };
        let noise = |client: usize| vec![[1.0, -2.0, 0.5][client]; SIZE];
        let steps = |client| vec![QuadraticStep { rate, noise: noise(client) }; 4];
        simulation.round(&[0, 1, 2], steps, after);
        for client in 0..3 {
            for value in known(&simulation, CONTROL, client) {
                let expected = lowered * noise(client)[0];
                assert!((value - expected).abs() < 1e-5, "{rates:?}: {value} {expected}");
            }
        }
    }
}

/// Card, invariant 4: the pull is zero, and so is its gradient, at `w - h_m`; elsewhere it is `alpha_m (theta - w +
/// h_m)`: half as strong for a client of twice the mean size.
#[test]
fn a_drifted_model_is_pulled_back() {
    for (client, size) in [(0, 2.0), (1, 0.5)] {
        let mut clients = uneven();
        clients[0].samples = 40;
        clients.iter_mut().for_each(|client| client.curvature = vec![0.0; SIZE * SIZE]);
        let mut simulation = World::new(feddc(|method| method.alpha = 0.5), clients, &[0.0; SIZE]);
        simulation.ctx.training.optimizer = OptimizerConfig::sgd(1.0);
        simulation.ctx.training.clip = None;
        // It has drifted by 1, and nothing else is known of it.
        let like = simulation.memory();
        let like = like.get(DRIFT).unwrap();
        let mut state = VectorStore::default();
        state.begin(simulation.view().task, Reset::Task);
        state.set(DRIFT, like.zipped(like, |_, _| 1.0));
        simulation.states[client] = crate::wire::Saved::save(&state);
        let still = vec![QuadraticStep { rate: 1.0, noise: vec![0.0; SIZE] }];
        let walked = simulation.round(&[client], |_| still.clone(), after);
        for moved in &walked[0].end {
            assert!((moved + 0.5 / size).abs() < 1e-6, "{client}: {moved}");
        }
    }
}

/// Card, invariant 7: the gradient of an only client is that of all, so that nothing is corrected.
#[test]
fn a_single_client_has_nothing_to_correct() {
    let mut clients = uneven();
    clients.truncate(1);
    let mut simulation = World::new(feddc(|method| method.alpha = 0.5), clients, &[0.0; SIZE]);
    simulation.ctx.training = TrainingPlan {
        epochs: 3,
        batch: 1_000,
        optimizer: OptimizerConfig::sgd(0.1),
        clip: None,
        ..TrainingPlan::default()
    };
    let step = QuadraticStep { rate: 0.1, noise: vec![0.0; SIZE] };
    for _ in 0..4 {
        simulation.round(&[0], |_| vec![step.clone(); 3], after);
        let (own, all) = (known(&simulation, CONTROL, 0), mean(&simulation, CONTROL));
        assert!(own.iter().any(|value| value.abs() > 1e-2));
        for (own, all) in own.iter().zip(all) {
            assert!((own - all).abs() < 1e-5, "{own} {all}");
        }
    }
}
