use std::collections::BTreeSet;

use super::client::turned;
use super::*;
use crate::golden::Golden;
use crate::learning::OptimizerConfig;
use crate::methods::averaging::quadratics::{self, QuadraticStep, World, uneven};
use crate::methods::fedavg::Train;
use crate::model::Parameter;
use crate::numerics::cone::Program;
use crate::quantity::ClientId;
use crate::wire::Saved;

/// Entries of `theta`: a weight of six and a bias of four.
const SIZE: usize = 10;
const TENSORS: [(&str, std::ops::Range<usize>); 2] = [("weight", 0..6), ("bias", 6..10)];

/// The quadratics of the golden file.
struct Clients {
    curvature: Vec<f64>,
    optimum: Vec<f64>,
    noise: Vec<f64>,
    rate: f64,
    decay: f64,
}

/// A client's way: where it came, in which directions, and the active rows of both tensors.
struct Way {
    path: Vec<Vec<f64>>,
    directions: Vec<Vec<f64>>,
    active: Vec<f64>,
}

impl Clients {
    fn of(golden: &Golden) -> Clients {
        Clients {
            curvature: golden.f64("H"),
            optimum: golden.f64("a"),
            noise: golden.f64("xi"),
            rate: golden.f64("gamma_l")[0],
            decay: golden.f64("wd")[0],
        }
    }

    fn gradient(&self, (round, client, step): (usize, usize, usize), at: &[f64]) -> Vec<f64> {
        let noise = &self.noise[((round * 4 + client) * 5 + step) * SIZE..][..SIZE];
        let entry = |row: usize| {
            let own = &self.curvature[(client * SIZE + row) * SIZE..][..SIZE];
            let optimum = &self.optimum[client * SIZE..][..SIZE];
            let gaps = at.iter().zip(optimum).map(|(at, optimum)| at - optimum);
            let slope: f64 = own.iter().zip(gaps).map(|(h, gap)| h * gap).sum();
            slope + noise[row] + if row < 6 { self.decay * at[row] } else { 0.0 }
        };
        (0..SIZE).map(entry).collect()
    }

    fn walk(&self, (round, client): (usize, usize), start: &[f64], rho: f64) -> Way {
        let mut way =
            Way { path: vec![start.to_vec()], directions: Vec::new(), active: Vec::new() };
        for step in 0..5 {
            let here = way.path[step].clone();
            let slopes = [&here, &way.path[step.saturating_sub(1)], start]
                .map(|at| self.gradient((round, client, step), at));
            let back: Vec<f64> = here.iter().zip(start).map(|(here, start)| here - start).collect();
            let mut direction = Vec::new();
            for (_, part) in TENSORS {
                let [own, previous, first] = slopes.each_ref().map(|slope| &slope[part.clone()]);
                let rows = [previous, first, &back[part.clone()]];
                direction.extend(turned(own, &rows, rho));
                let multipliers = Program::of(own, &rows, rho).by_enumeration();
                let multipliers = multipliers.unwrap_or_else(|| vec![0.0; 3]);
                way.active.extend(multipliers.iter().map(|z| f64::from(u8::from(*z > 0.0))));
            }
            let next = here.iter().zip(&direction).map(|(here, way)| here - self.rate * way);
            way.path.push(next.collect());
            way.directions.push(direction);
        }
        way
    }
}

fn set(values: &[f64]) -> ParameterSet {
    let one = |(name, part): (&str, std::ops::Range<usize>)| {
        let values: Vec<f32> = values[part].iter().map(|value| *value as f32).collect();
        (name.to_owned(), Parameter { shape: vec![values.len()], values: values.into() })
    };
    TENSORS.into_iter().map(one).collect()
}

fn flat(set: Option<&ParameterSet>) -> Vec<f64> {
    let Some(set) = set else { return vec![0.0; SIZE] };
    let part = |name: &str| set.get(name).unwrap().values.iter().map(|value| f64::from(*value));
    part("weight").chain(part("bias")).collect()
}

#[test]
fn golden_steps_of_a_client_of_gradma() {
    let Some(golden) = Golden::open("gradma") else { return };
    let (clients, start) = (Clients::of(&golden), golden.f64("w0"));
    let way = clients.walk((0, 1), &start, 0.0);
    golden.assert_close("client.path", &way.path.concat());
    golden.assert_close("client.projected", &way.directions.concat());
    golden.assert_close("client.active", &way.active);
    golden.assert_close("client.rho_path", &clients.walk((0, 1), &start, 0.05).path.concat());
    // Card, invariant 3: no step leads further away from the start than by its own length.
    for (here, direction) in way.path.iter().zip(&way.directions) {
        for (_, part) in TENSORS {
            let back = here[part.clone()].iter().zip(&start[part.clone()]).map(|(a, b)| a - b);
            let along: f64 = back.zip(&direction[part]).map(|(back, way)| back * way).sum();
            assert!(along >= -1e-9, "{along}");
        }
    }
}

/// Three rounds with a memory of three of four clients.
#[test]
fn golden_server_of_gradma() {
    let Some(golden) = Golden::open("gradma") else { return };
    let clients = Clients::of(&golden);
    let (n, chosen) = (golden.i64("n"), golden.i64("chosen"));
    for rho in [0.0, 0.05] {
        let method = GradMa { server_margin: rho, memory_clients: 3, ..GradMa::default() };
        let mut memory = UpdateMemory::default();
        let mut w = golden.f64("w0");
        let (mut path, mut momentum, mut raw) = (w.clone(), Vec::new(), Vec::new());
        let [mut kept, mut counts, mut updates, mut ends] = [(); 4].map(|()| Vec::new());
        for round in 0..3 {
            let present: BTreeSet<usize> =
                chosen[2 * round..2 * round + 2].iter().map(|m| *m as usize).collect();
            let last = flat(memory.vector("momentum"));
            let ids: BTreeSet<ClientId> = present.iter().map(|m| ClientId(*m as u32)).collect();
            memory.admit(&ids, 3);
            let before = set(&w);
            let (mut sum, mut weight) = (vec![0.0; SIZE], 0.0);
            let mut theta = vec![0.0; 4 * SIZE];
            for m in &present {
                let end = clients.walk((round, *m), &w, 0.0).path[5].clone();
                let update: Vec<f64> = w.iter().zip(&end).map(|(w, end)| w - end).collect();
                let share = n[*m] as f64;
                sum.iter_mut().zip(&update).for_each(|(sum, update)| *sum -= share * update);
                weight += share;
                memory.add(&ClientDelta { client: ClientId(*m as u32), update: set(&update) });
                theta[m * SIZE..][..SIZE].copy_from_slice(&end);
            }
            let step = |(last, sum): (&f64, &f64)| method.momentum * last - sum / weight;
            raw.extend(last.iter().zip(&sum).map(step));
            let sums = [("weight", sum[..6].to_vec()), ("bias", sum[6..].to_vec())];
            let of = |name: &str| sums.iter().find(|(n, _)| *n == name).map(|(_, sum)| &sum[..]);
            let stepped = memory.step(&method, &before, of, weight);
            w = flat(Some(&stepped.theta));
            path.extend(&w);
            momentum.extend(flat(memory.vector("momentum")));
            for m in 0..4 {
                let answers = memory.answers_of(ClientId(m));
                kept.push(f64::from(u8::from(answers.is_some())));
                counts.push(f64::from(answers.unwrap_or(0)));
                updates.extend(flat(memory.vector(&format!("update.{m}"))));
            }
            ends.extend(theta);
        }
        if rho > 0.0 {
            golden.assert_close_f32("server.rho_w", &path);
            continue;
        }
        let parts = [("w", path), ("momentum", momentum), ("raw", raw), ("theta", ends)];
        for (part, values) in parts.into_iter().chain([("memory", updates)]) {
            golden.assert_close_f32(&format!("server.{part}"), &values);
        }
        golden.assert_close("server.remembered", &kept);
        golden.assert_close("server.counter", &counts);
    }
}

fn ids(all: &[u32]) -> BTreeSet<ClientId> {
    all.iter().map(|id| ClientId(*id)).collect()
}

/// Card, invariant 4: never more than `M`; who answered least makes room, unless it answers now, and is forgotten
/// whole.
#[test]
fn a_full_memory_forgets_who_answered_least() {
    let mut memory = UpdateMemory::default();
    let mut round = |present: &[u32]| {
        memory.admit(&ids(present), 2);
        for client in ids(present) {
            memory.add(&ClientDelta { client, update: set(&[1.0; SIZE]) });
        }
        assert!(memory.len() <= 2);
        (0..5).map(|id| memory.answers_of(ClientId(id)).unwrap_or(0)).collect::<Vec<_>>()
    };
    assert_eq!(round(&[1, 2]), [0, 1, 1, 0, 0]);
    assert_eq!(round(&[1]), [0, 2, 1, 0, 0]);
    assert_eq!(round(&[3]), [0, 2, 0, 1, 0]);
    // Both answer: there is no room for anybody else.
    assert_eq!(round(&[1, 3, 4]), [0, 3, 0, 2, 0]);
    assert_eq!(round(&[3, 4]), [0, 0, 0, 3, 1]);
    assert!(memory.vector("update.1").is_none() && memory.vector("update.4").is_some());
}

/// Card, invariant 4: a row is the sum of a client's updates, each as old as its rounds.
#[test]
fn updates_fade_with_their_age() {
    let method = GradMa { memory_decay: 0.5, momentum: 0.0, ..GradMa::default() };
    let mut memory = UpdateMemory::default();
    let before = set(&[0.0; SIZE]);
    for (round, present) in [true, false, true].into_iter().enumerate() {
        let sum = vec![-1.0; SIZE];
        if present {
            memory.admit(&ids(&[7]), 3);
            let update = set(&[(round + 1) as f64; SIZE]);
            memory.add(&ClientDelta { client: ClientId(7), update });
        }
        memory.step(&method, &before, |_| Some(&sum), 1.0);
    }
    // After the last round all have aged once more: 1 / 8 of the first, 3 / 2 of the third.
    assert_eq!(flat(memory.vector("update.7")), [0.125 + 1.5; SIZE]);
}

/// Card, invariant 5: who is remembered alone and answers alone asks for nothing else than what it sent; and a step
/// that goes against an absent client is turned.
#[test]
fn a_step_opposes_no_remembered_update() {
    let method = GradMa { momentum: 0.0, memory_decay: 1.0, ..GradMa::default() };
    let mut memory = UpdateMemory::default();
    let before = set(&[0.0; SIZE]);
    let own: Vec<f64> = (0..SIZE).map(|at| at as f64 - 4.0).collect();
    let sum: Vec<f64> = own.iter().map(|value| -value).collect();
    let part = |name: &str| Some(if name == "weight" { &sum[..6] } else { &sum[6..] });
    memory.admit(&ids(&[1]), 2);
    memory.add(&ClientDelta { client: ClientId(1), update: set(&own) });
    let stepped = memory.step(&method, &before, part, 1.0);
    assert_eq!((stepped.turned, flat(memory.vector("momentum"))), (0, own.clone()));
    assert_eq!(flat(Some(&stepped.theta)), sum);

    // Another client has gone the other way; its answer is remembered, and not against.
    let mut against = UpdateMemory::default();
    against.admit(&ids(&[2]), 2);
    against.add(&ClientDelta { client: ClientId(2), update: set(&sum) });
    let stepped = against.step(&method, &before, part, 1.0);
    assert_eq!(stepped.turned, 2);
    for value in flat(against.vector("momentum")) {
        assert!(value.abs() < 1e-6, "nothing is left of a step straight against: {value}");
    }
    assert_eq!(UpdateMemory::load(&against.save()).unwrap(), against);
}

/// Card, invariant 6: it does not matter which client is which.
#[test]
fn the_order_of_clients_does_not_matter() {
    let method = GradMa::default();
    let ends = [[0, 1, 2], [2, 0, 1], [1, 2, 0]].map(|ids: [u32; 3]| {
        let mut memory = UpdateMemory::default();
        let (mut w, mut turned) = (vec![0.0; SIZE], 0);
        for round in 0..4 {
            let mut sum = [0.0; SIZE];
            let mut answers = Vec::new();
            for client in (0..3).filter(|client| (client + round) % 3 > 0) {
                let entry = |at: usize| ((5 * at + 3 * client + 7 * round) % 11) as f64 - 5.0;
                let update: Vec<f64> = (0..SIZE).map(entry).collect();
                sum.iter_mut().zip(&update).for_each(|(sum, update)| *sum -= update);
                answers.push(ClientDelta { client: ClientId(ids[client]), update: set(&update) });
            }
            memory.admit(&answers.iter().map(|answer| answer.client).collect(), 3);
            answers.iter().for_each(|answer| memory.add(answer));
            let part = |name: &str| Some(if name == "weight" { &sum[..6] } else { &sum[6..] });
            let stepped = memory.step(&method, &set(&w), part, 2.0);
            (w, turned) = (flat(Some(&stepped.theta)), turned + stepped.turned);
        }
        assert!(turned > 0);
        w
    });
    for other in &ends[1..] {
        for (w, other) in ends[0].iter().zip(other) {
            assert!((w - other).abs() < 1e-5, "{w} {other}");
        }
    }
}

/// Updates belong to a client and not to its place in a round: of three clients the first is not sampled.
#[test]
fn updates_are_kept_by_client_whatever_its_place() {
    let fedavg = FedAvg { train: Train::Head, ..FedAvg::default() };
    let (project, memory_decay) = (Project::Server, 1.0);
    let method = GradMa { fedavg, project, memory_decay, ..GradMa::default() };
    let mut simulation = World::new(method, uneven(), &[0.0; quadratics::SIZE]);
    simulation.ctx.training.optimizer = OptimizerConfig::sgd(0.1);
    let step = QuadraticStep { rate: 0.1, noise: vec![0.0; quadratics::SIZE] };
    let walked = simulation.round(&[1, 2], |_| vec![step.clone(); 2], |_, _, _| ());
    let memory = simulation.memory();
    let answers = [0, 1, 2].map(|id| memory.answers_of(ClientId(id)));
    assert_eq!(answers, [None, Some(1), Some(1)]);
    for one in walked {
        let name = format!("update.{}", one.client);
        let kept = quadratics::flat(memory.vector(&name).unwrap());
        let gaps = kept.iter().zip(&one.end).map(|(update, end)| (update + end).abs());
        assert!(gaps.fold(0.0, f64::max) < 1e-6, "{name}");
    }
}

/// No direction agrees with two opposite rows by a margin: the gradient stays as it is. Without the second row it is
/// turned.
#[test]
fn a_gradient_stays_where_the_cone_is_empty() {
    let g = [1.0, 2.0];
    let rows: [&[f64]; 2] = [&[-1.0, 0.0], &[1.0, 0.0]];
    assert_eq!(turned(&g, &rows, 0.1), g);
    let one = turned(&g, &rows[..1], 0.0);
    assert!(one[0].abs() < 1e-9 && (one[1] - 2.0).abs() < 1e-9, "{one:?}");
}
