use super::*;
use crate::methods::averaging::quadratics::flat;
use crate::methods::server_moments::tests::{assert_models, fedavg, four_rounds};

fn fedavgm(change: impl Fn(&mut FedAvgM)) -> FedAvgM {
    let mut method = FedAvgM { fedavg: fedavg(), ..FedAvgM::default() };
    change(&mut method);
    method
}

/// Half a step of the server, with the momentum 0.9 of the paper.
#[test]
fn models_of_four_rounds_follow_the_formula() {
    let (_, models) = four_rounds(fedavgm(|method| method.server_lr = 0.5));
    assert_models(
        &models,
        &[
            [0.4956747, 0.7893797, 0.3228008, 0.581138, 0.0639988, 0.6340868],
            [0.4405689, 1.5046822, -0.0507524, 0.9298322, -0.8367762, 0.7999747],
            [0.4546091, 1.9114812, -0.3970959, 0.9109244, -1.5888747, 1.1897194],
            [0.4344459, 2.3317387, -0.7563308, 0.9558756, -2.2740248, 1.5588155],
        ],
        "plain",
    );
    let (_, models) = four_rounds(fedavgm(|method| {
        (method.server_lr, method.nesterov) = (0.5, true);
    }));
    assert_models(
        &models,
        &[
            [0.491782, 1.0498215, 0.1633214, 0.6541621, -0.3284023, 0.7547648],
            [0.376921, 2.0411812, -0.3304702, 1.2346225, -1.451663, 0.9001383],
            [0.4420046, 2.0541211, -0.6047779, 0.8507297, -1.8826033, 1.4657466],
            [0.3802758, 2.3753999, -0.8718451, 0.9813694, -2.2759333, 1.6871306],
        ],
        "Nesterov",
    );
}

#[test]
fn without_momentum_it_is_fedavg_to_the_bit() {
    let (_, plain) = four_rounds(fedavg());
    for nesterov in [false, true] {
        let still = |method: &mut FedAvgM| (method.momentum, method.nesterov) = (0.0, nesterov);
        assert_eq!(four_rounds(fedavgm(still)).1, plain, "nesterov {nesterov}");
    }
    let (_, moved) = four_rounds(fedavgm(|_| ()));
    assert_eq!(moved[0], plain[0], "the first velocity is the mean difference");
    assert_ne!(moved[1], plain[1]);
}

/// At `eta = 1` the model moves by the velocity that is remembered.
#[test]
fn the_velocity_is_the_last_step() {
    let (simulation, models) = four_rounds(fedavgm(|_| ()));
    let velocity = simulation.memory();
    assert_eq!(velocity.rounds(), 4);
    let last = models[3].iter().zip(&models[2]).map(|(new, old)| new - old);
    for (velocity, step) in flat(velocity.of_order(0)).iter().zip(last) {
        assert!((velocity - step).abs() < 1e-6, "{velocity} {step}");
    }
}
