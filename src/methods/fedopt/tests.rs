use super::*;
use crate::methods::averaging::quadratics::flat;
use crate::methods::server_moments::tests::{assert_models, fedavg, four_rounds};

fn fedopt(optimizer: ServerOptimizer, change: impl Fn(&mut FedOpt)) -> FedOpt {
    let mut method = FedOpt { fedavg: fedavg(), ..FedOpt::with(optimizer) };
    change(&mut method);
    method
}

/// Algorithm 2: no correction, `v` from `tau^2` on, and decays of one half, so that a few rounds show them.
fn as_in_the_paper(method: &mut FedOpt) {
    let decay = MomentDecay { beta_2: 0.5, bias_correction: false };
    method.second = match method.second {
        SecondMoment::Sum => SecondMoment::Sum,
        SecondMoment::Mean(_) => SecondMoment::Mean(decay),
        SecondMoment::Signed(_) => SecondMoment::Signed(decay),
    };
    (method.server_lr, method.beta_1, method.tau) = (0.1, 0.5, 0.25);
    method.initial_v = InitialMoment::TauSquared;
}

/// By default as the release has it.
#[test]
fn models_of_four_rounds_follow_the_release() {
    for (optimizer, expected) in [
        (
            ServerOptimizer::Adagrad,
            &[
                [0.4103621, 0.5998275, 0.4002814, 0.5993875, 0.4001145, 0.5996285],
                [0.3134996, 0.6862964, 0.321454, 0.6946814, 0.3192604, 0.6330175],
                [0.4082418, 0.6570787, 0.3120186, 0.6175399, 0.3126893, 0.7191444],
                [0.4164408, 0.6975429, 0.2668208, 0.6325966, 0.2651144, 0.7489848],
            ],
        ),
        (
            ServerOptimizer::Adam,
            &[
                [0.4965563, 0.5072985, 0.4927792, 0.5069936, 0.4926596, 0.5071577],
                [0.4903736, 0.5155844, 0.4843973, 0.5145693, 0.484208, 0.5149831],
                [0.4924135, 0.5205556, 0.4768822, 0.5145412, 0.4768288, 0.5232002],
                [0.4939244, 0.5266539, 0.4686944, 0.5154882, 0.4687271, 0.5317261],
            ],
        ),
        (
            ServerOptimizer::Yogi,
            &[
                [0.4965563, 0.5072985, 0.4927792, 0.5069936, 0.4926596, 0.5071577],
                [0.4903739, 0.5155745, 0.4844114, 0.5145664, 0.4842219, 0.5149536],
                [0.4924113, 0.5205175, 0.4769452, 0.5145384, 0.4768439, 0.5231517],
                [0.4939158, 0.5265625, 0.468828, 0.5154786, 0.4687735, 0.5316259],
            ],
        ),
    ] {
        let (_, models) = four_rounds(fedopt(optimizer, |_| ()));
        assert_models(&models, expected, &format!("{optimizer:?}"));
    }
}

#[test]
fn models_of_four_rounds_follow_algorithm_2() {
    for (optimizer, expected) in [
        (
            ServerOptimizer::Adagrad,
            &[
                [0.4991352, 0.5328674, 0.4740824, 0.5148049, 0.4623205, 0.5217451],
                [0.4902005, 0.5780566, 0.437343, 0.5510024, 0.4155006, 0.5428849],
                [0.4991886, 0.5884347, 0.4153004, 0.5369725, 0.3890404, 0.5788438],
                [0.5025037, 0.6102996, 0.3884561, 0.536726, 0.35638, 0.6087405],
            ],
        ),
        (
            ServerOptimizer::Adam,
            &[
                [0.4989868, 0.5415899, 0.4681682, 0.5176099, 0.4510902, 0.5263304],
                [0.4871165, 0.6046939, 0.4177741, 0.5651522, 0.3834719, 0.5557896],
                [0.4996992, 0.6225165, 0.381157, 0.5447108, 0.3340117, 0.6059491],
                [0.5045969, 0.6645075, 0.3347118, 0.5442679, 0.2704877, 0.654133],
            ],
        ),
        (
            ServerOptimizer::Yogi,
            &[
                [0.4991348, 0.5396648, 0.4706612, 0.5171862, 0.452368, 0.5237835],
                [0.489738, 0.5982985, 0.4261697, 0.5626257, 0.390533, 0.5484348],
                [0.5002415, 0.6125042, 0.3993519, 0.5444266, 0.3555932, 0.5930501],
                [0.5039391, 0.6478039, 0.3612038, 0.5440098, 0.300886, 0.6332753],
            ],
        ),
    ] {
        let (simulation, models) = four_rounds(fedopt(optimizer, as_in_the_paper));
        assert_models(&models, expected, &format!("{optimizer:?}"));
        assert_eq!(simulation.memory().rounds(), 4);
        assert!(flat(simulation.memory().of_order(1)).iter().all(|v| *v > 0.0), "{optimizer:?}");
    }
}

/// With `tau` far above differences the rate is that of all numbers: FedAvgM with a damped velocity.
#[test]
fn a_large_tau_leaves_no_adaptivity() {
    let (_, plain) = four_rounds(fedavg());
    for optimizer in [ServerOptimizer::Adagrad, ServerOptimizer::Adam, ServerOptimizer::Yogi] {
        let (_, models) = four_rounds(fedopt(optimizer, |method| {
            as_in_the_paper(method);
            (method.server_lr, method.tau, method.beta_1) = (1e7, 1e7, 0.0);
            method.initial_v = InitialMoment::Zero;
        }));
        for (got, want) in models.iter().flatten().zip(plain.iter().flatten()) {
            assert!((got - want).abs() < 1e-5, "{optimizer:?}: {got} {want}");
        }
    }
}

#[test]
fn fedadagrad_has_no_decay_to_set() {
    let keys =
        |optimizer| entry(optimizer).params().into_iter().map(|key| key.key).collect::<Vec<_>>();
    let has = |optimizer, name: &str| keys(optimizer).iter().any(|key| key == name);
    for name in ["beta_2", "bias_correction"] {
        assert!(!has(ServerOptimizer::Adagrad, name) && has(ServerOptimizer::Yogi, name), "{name}");
    }
    for name in ["server_lr", "beta_1", "tau", "initial_v", "reset", "client_weighting", "train"] {
        assert!(has(ServerOptimizer::Adagrad, name) && has(ServerOptimizer::Adam, name), "{name}");
    }
}
