use candle_core::{Device, Tensor, Var};

use super::*;
use crate::golden::{Golden, assert_close};

/// `f(x) = 1/2 x^T Q x - b^T x` of the golden file, its gradient in f32.
struct GoldenQuadratic {
    q: Vec<f64>,
    b: Vec<f64>,
    start: Vec<f32>,
}

impl GoldenQuadratic {
    fn of(golden: &Golden) -> GoldenQuadratic {
        let start = golden.f64("theta0").iter().map(|&v| v as f32).collect();
        GoldenQuadratic { q: golden.f64("Q"), b: golden.f64("b"), start }
    }

    fn gradient(&self, at: &[f32]) -> Vec<f32> {
        let rows = self.q.chunks_exact(at.len()).zip(&self.b);
        rows.map(|(row, b)| {
            let product: f64 = row.iter().zip(at).map(|(q, &x)| q * f64::from(x)).sum();
            (product - b) as f32
        })
        .collect()
    }

    /// Returns the start and ten steps of `rule`, through `Var`s and a `GradStore`.
    fn trajectory(
        &self,
        rule: OptimizerConfig,
        rate: impl Fn(u32) -> f64,
        change: impl Fn(&[f32], &mut Vec<f32>),
        mut scale: impl FnMut(&GradStore, &[Var]) -> f64,
    ) -> Vec<f32> {
        let var = Var::from_slice(&self.start, self.start.len(), &Device::Cpu).unwrap();
        let vars = vec![var.clone()];
        let mut optimizer = rule.over(vars.clone());
        let mut all = self.start.clone();
        for step in 0..10 {
            let at = var.to_vec1::<f32>().unwrap();
            let mut gradient = self.gradient(&at);
            change(&at, &mut gradient);
            let slope = Tensor::from_vec(gradient, at.len(), &Device::Cpu).unwrap();
            let gradients = (&slope * var.as_tensor()).unwrap().sum_all().unwrap();
            let gradients = gradients.backward().unwrap();
            let scale = scale(&gradients, &vars);
            optimizer.step(&gradients, rate(step), scale).unwrap();
            all.extend(var.to_vec1::<f32>().unwrap());
        }
        all
    }
}

#[test]
fn golden_optimizers() {
    let Some(golden) = Golden::open("optimisers") else { return };
    let f = GoldenQuadratic::of(&golden);
    let plain = |_: &[f32], _: &mut Vec<f32>| {};
    let check = |name: &str, rule: OptimizerConfig, rate: f64| {
        golden.assert_close_f32(name, &f.trajectory(rule, |_| rate, plain, |_, _| 1.0));
    };
    let adamw = OptimizerConfig::adamw(3e-3);
    check("adamw_wd0", adamw.clone(), 3e-3);
    check("adamw_wd0.01", adamw.clone().weight_decay(0.01), 3e-3);
    let coupled = Adam { weight_decay: 0.01, decay: Decay::Coupled, ..Adam::default() };
    check("adam_l2_0.01", OptimizerConfig::Adam(coupled), 3e-3);
    let sgd = OptimizerConfig::sgd(0.04).momentum(0.9).weight_decay(5e-4);
    check("sgd_m0.9_wd5e-4", sgd, 0.04);

    let cosine = |step: u32| Schedule::Cosine.rate(0.01, step / 2, 5);
    let sgd = OptimizerConfig::sgd(0.01).momentum(0.9);
    golden.assert_close_f32("sgd_m0.9_cosine", &f.trajectory(sgd, cosine, plain, |_, _| 1.0));

    let tiny = |_: &[f32], g: &mut Vec<f32>| g.iter_mut().for_each(|g| *g *= 1e-7);
    let got = f.trajectory(adamw.clone(), |_| 3e-3, tiny, |_, _| 1.0);
    golden.assert_close_f32("adamw_eps_small_grad", &got);

    let towards_start = |at: &[f32], g: &mut Vec<f32>| {
        for ((g, x), x0) in g.iter_mut().zip(at).zip(&f.start) {
            *g += 0.1 * (x - x0);
        }
    };
    let got = f.trajectory(OptimizerConfig::sgd(0.05), |_| 0.05, towards_start, |_, _| 1.0);
    golden.assert_close_f32("fedprox", &got);
}

#[test]
fn golden_optimizers_clipping() {
    let Some(golden) = Golden::open("optimisers") else { return };
    let f = GoldenQuadratic::of(&golden);
    let mut norms = Vec::new();
    let clip = |gradients: &GradStore, vars: &[Var]| {
        norms.push(global_norm(gradients, vars).unwrap());
        clip_factor(norms[norms.len() - 1], 1.0)
    };
    let got = f.trajectory(OptimizerConfig::adamw(3e-3), |_| 3e-3, |_, _| {}, clip);
    golden.assert_close_f32("adamw_clip1", &got);
    golden.assert_close_f32("clip.norms", &norms);
}

#[test]
fn golden_optimizers_schedules() {
    let Some(golden) = Golden::open("optimisers") else { return };
    let rates = |schedule: Schedule, base: f64, name: &str| {
        let n = golden.shape(name)[0] as u32;
        let got: Vec<f64> = (0..n).map(|e| schedule.rate(base, e, n)).collect();
        golden.assert_close(name, &got);
    };
    rates(Schedule::Cosine, 0.01, "lr.cosine5");
    rates(Schedule::Cosine, 0.2, "lr.cosine_rounds10");
    rates(Schedule::QuarterCosine, 1e-3, "lr.hepco");
    let steps = Schedule::MultiStep { milestones: vec![50, 75], factor: 0.1 };
    rates(steps, 0.1, "lr.multistep");
}

/// Ten epochs of Powder's `CosineSchedule(K=50)`, `cos(99 pi e / (200 * 49))`.
///
/// 50 epochs are counted in.
#[test]
fn a_stretched_schedule_is_the_beginning_of_a_longer_one() {
    let powder = Schedule::Stretched { schedule: Box::new(Schedule::QuarterCosine), over: 50 };
    for (epoch, share) in [(0, 1.0), (1, 0.999_496_440), (9, 0.959_484_763), (49, 0.015_707_317)] {
        let got = powder.rate(0.005, epoch, 10);
        assert!((got - 0.005 * share).abs() < 1e-11, "epoch {epoch}: {got}");
    }
    // Over: the last rate is kept, where the cosine would go on below zero.
    assert_eq!(powder.rate(0.005, 60, 100), powder.rate(0.005, 49, 10));
    let cosine = Schedule::Stretched { schedule: Box::new(Schedule::Cosine), over: 4 };
    let rates = [0, 1, 2, 3, 4].map(|epoch| cosine.rate(2.0, epoch, 2));
    let wanted = [2.0, 1.707_106_781, 1.0, 0.292_893_219, 0.292_893_219];
    assert!(rates.iter().zip(wanted).all(|(rate, one)| (rate - one).abs() < 1e-9), "{rates:?}");
}

#[test]
fn a_variable_without_a_gradient_is_an_error_and_nothing_moves() {
    let x = Var::new(&[1f32, 2.0], &Device::Cpu).unwrap();
    let y = Var::new(&[1f32], &Device::Cpu).unwrap();
    let mut sgd = OptimizerConfig::sgd(1.0).over(vec![x.clone(), y]);
    let gradients = x.sum_all().unwrap().backward().unwrap();
    assert!(matches!(sgd.step(&gradients, 1.0, 1.0), Err(LearningError::NoGradient { .. })));
    assert_eq!(x.to_vec1::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn strided_gradients_are_read_in_the_order_of_the_variable() {
    let x = Var::zeros((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
    let slope = Tensor::arange(0f32, 6.0, &Device::Cpu).unwrap().reshape((3, 2)).unwrap();
    let loss = (x.t().unwrap() * &slope).unwrap().sum_all().unwrap();
    let mut sgd = OptimizerConfig::sgd(1.0).over(vec![x.clone()]);
    sgd.step(&loss.backward().unwrap(), 1.0, 1.0).unwrap();
    let got: Vec<f64> =
        x.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect();
    assert_close("x", &got, &[0.0, -2.0, -4.0, -1.0, -3.0, -5.0], 0.0);
}

#[test]
fn plain_gradients_step_as_those_of_a_graph() {
    let vars = || {
        let var = |v: &[f32]| Var::from_slice(v, v.len(), &Device::Cpu).unwrap();
        vec![var(&[1.0, -2.0]), var(&[0.5])]
    };
    let (a, b) = (vars(), vars());
    let mut with_graph = OptimizerConfig::adamw(0.1).weight_decay(0.1).over(a.clone());
    let mut without = OptimizerConfig::adamw(0.1).weight_decay(0.1).over(b.clone());
    for optimizer in [&mut with_graph, &mut without] {
        optimizer.set_rate_factors(vec![1.0, 0.5]);
    }
    let read =
        |vars: &[Var]| -> Vec<Vec<f32>> { vars.iter().map(|v| v.to_vec1().unwrap()).collect() };
    for _ in 0..3 {
        let loss = (a[0].sqr().unwrap().sum_all().unwrap() + a[1].sum_all().unwrap()).unwrap();
        with_graph.step(&loss.backward().unwrap(), 0.1, 0.5).unwrap();
        let slope = b[0].affine(2.0, 0.0).unwrap().to_vec1::<f32>().unwrap();
        without.step_slices(&[slope, vec![1.0]], 0.1, 0.5).unwrap();
    }
    assert_eq!(read(&a), read(&b));
    assert!(without.step_slices(&[vec![0.0; 2]], 0.1, 1.0).is_err());
}

/// Twelve steps of three members that rest at different times, with a save and a restore.
///
/// Each has a matrix and a vector with rates of their own.
fn three_members(rule: &OptimizerConfig) -> (Vec<Vec<f32>>, OptimizerState) {
    let var = |values: Vec<f32>, shape: &[usize]| {
        Var::from_slice(&values, shape, &Device::Cpu).expect("as many values as the shape has")
    };
    let slope = |n: usize| (0..n).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<f32>>();
    let vars = vec![var(slope(3 * 8), &[3, 4, 2]), var(slope(3 * 2), &[3, 2])];
    let members = |scale: f64, step: u32| {
        let stride = Stride { rate: 0.05, scale };
        let each = [Some(stride), Some(Stride { rate: 0.1, ..stride }), Some(stride)];
        let mut each = each.to_vec();
        each[2] = each[2].filter(|_| step.is_multiple_of(3));
        each[0] = each[0].filter(|_| step < 7);
        each
    };
    let fresh = || {
        let mut optimizer = rule.clone().over_pack(vars.clone(), 3);
        optimizer.set_rate_factors(vec![1.0, 0.3]);
        optimizer
    };
    let mut optimizer = fresh();
    for step in 0..12u32 {
        let loss = (vars[0].sqr().unwrap().sum_all().unwrap() * 0.5).unwrap()
            + vars[1].sin().unwrap().sum_all().unwrap();
        let gradients = loss.unwrap().backward().unwrap();
        let halves = Tensor::new(&[0.5f32, 1.0, 0.25], &Device::Cpu).unwrap();
        let strides = members(1.0 - 0.05 * f64::from(step), step);
        optimizer.step_scaled(&gradients, &strides, (step > 4).then_some(&halves)).unwrap();
        if step == 5 {
            // All members go on with the steps of the one that took most.
            let state = optimizer.into_state().unwrap();
            optimizer = fresh();
            optimizer.resume(state).unwrap();
        }
    }
    let values = vars.iter().map(|v| v.flatten_all().unwrap().to_vec1().unwrap()).collect();
    (values, optimizer.into_state().unwrap())
}

#[test]
fn rules_are_the_same_with_and_without_kernels() {
    let adam = |decay| {
        OptimizerConfig::Adam(Adam {
            weight_decay: 0.1,
            decay,
            learning_rate: 0.1,
            ..Adam::default()
        })
    };
    for rule in [
        OptimizerConfig::sgd(0.1),
        OptimizerConfig::sgd(0.1).weight_decay(0.2),
        OptimizerConfig::sgd(0.1).momentum(0.9).weight_decay(0.2),
        adam(Decay::Decoupled),
        adam(Decay::Coupled),
    ] {
        let (here, there) =
            (three_members(&rule), crate::model::ops::without_kernels(|| three_members(&rule)));
        let near = |a: &[f32], b: &[f32]| {
            assert_eq!(a.len(), b.len(), "{rule:?}");
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{rule:?}: {a} and {b}");
            }
        };
        here.0.iter().zip(&there.0).for_each(|(a, b)| near(a, b));
        assert_eq!(here.1.steps, there.1.steps);
        for (a, b) in here.1.moments.iter().zip(&there.1.moments) {
            near(&a.first, &b.first);
            near(&a.second, &b.second);
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_stays_with_its_member() {
    crate::model::ops::without_kernels(|| {
        let x = Var::new(&[[1f32, 2.0], [0.0, 4.0]], &Device::Cpu).unwrap();
        let mut adam = OptimizerConfig::adamw(0.1).over_pack(vec![x.clone()], 2);
        let gradients = x.sqrt().unwrap().sum_all().unwrap().backward().unwrap();
        let stride = Stride { rate: 0.1, scale: 1.0 };
        // The second member, whose gradient is infinite, rests.
        adam.step_members(&gradients, &[Some(stride), None]).unwrap();
        let values = x.to_vec2::<f32>().unwrap();
        assert_eq!(values[1], [0.0, 4.0]);
        assert!(values[0].iter().all(|v| v.is_finite()) && values[0] != [1.0, 2.0]);
    });
}

#[test]
#[should_panic(expected = "does not divide among 2 members")]
fn members_have_as_many_values_each() {
    let var = Var::from_slice(&[0f32; 5], 5, &Device::Cpu).unwrap();
    let _ = OptimizerConfig::adamw(0.1).over_pack(vec![var], 2);
}

#[test]
#[should_panic(expected = "does not divide among 0 members")]
fn a_pack_without_members_is_refused() {
    let var = Var::from_slice(&[0f32; 4], 4, &Device::Cpu).unwrap();
    let _ = OptimizerConfig::adamw(0.1).over_pack(vec![var], 0);
}
