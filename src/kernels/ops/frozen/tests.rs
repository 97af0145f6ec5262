//! Halves against the ops they are made of: the same bits, of values and of all gradients.

use candle_core::{DType, Result, Tensor, Var};

use super::super::affine::Affine;
use super::super::testing::{device, draw, pass, pass_at};
use super::super::*;

const EPS: f64 = 1e-6;
/// More rows than a piece has.
const TOKENS: usize = 70;
const BATCH: usize = 4;
const WIDTH: usize = 24;

fn affine(name: &str, outputs: usize, inputs: usize, precision: Precision) -> Affine {
    let weight = draw(&format!("{name}.w"), (outputs, inputs));
    Affine { weight, bias: draw(&format!("{name}.b"), outputs), precision }
}

fn norm(precision: Precision) -> Affine {
    Affine { weight: draw("norm.w", WIDTH), bias: draw("norm.b", WIDTH), precision }
}

fn x() -> Tensor {
    draw("x", (BATCH, TOKENS, WIDTH))
}

/// One's samples, none's and three's.
fn members() -> [Option<SampleGroups>; 2] {
    [None, Some(SampleGroups::new([1, 0, 3]))]
}

/// Limit between kernels and the composition, which multiplies in `f32` here.
fn tolerance(precision: Precision) -> f32 {
    match precision {
        Precision::F32 => 1e-5,
        Precision::Bf16 => 0.03,
    }
}

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Bf16];

#[test]
fn a_perceptron_has_the_bits_of_its_layers() {
    let activations = [PerceptronActivation::Gelu, PerceptronActivation::QuickGelu];
    for (precision, activation) in
        PRECISIONS.into_iter().flat_map(|precision| activations.map(|it| (precision, it)))
    {
        let norm = norm(precision);
        let (up, down) = (affine("up", 50, WIDTH, precision), affine("down", WIDTH, 50, precision));
        for groups in members() {
            let groups = groups.as_ref();
            let whole = |t: &[Tensor]| {
                let y = frozen_perceptron(&t[0], &norm, EPS, [&up, &down], activation, groups)?;
                Ok(y.expect("layers are frozen"))
            };
            let parts = |t: &[Tensor]| {
                let hidden = up.linear(&norm.norm(&t[0], EPS)?, groups)?;
                &t[0] + down.linear(&activation.of(&hidden)?, groups)?
            };
            let (x, case) = (x(), format!("{precision:?} {activation:?} {groups:?}"));
            let (found, wanted) = (pass(&[&x], DType::F32, whole), pass(&[&x], DType::F32, parts));
            found.assert_close(&wanted, 1e-6);
            assert!(found.bits() == wanted.bits(), "{case}");
            let there = without_kernels(|| pass(&[&x], DType::F32, whole));
            there.assert_close(&found, tolerance(precision));
            // Without a backward pass in pieces that are forgotten.
            let x = std::slice::from_ref(&x);
            let (plain, wanted) = (whole(x).unwrap(), parts(x).unwrap());
            let rows = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(rows(plain), rows(wanted), "{case}");
        }
    }
}

/// Computes the half from the ops.
fn composed(
    x: &Tensor,
    norm: &Affine,
    [pack, project]: [&Affine; 2],
    Attended { heads, prefix, queries, members }: Attended<'_>,
    groups: Option<&SampleGroups>,
) -> Result<Tensor> {
    let packed = pack.linear(&norm.norm(x, EPS)?, groups)?;
    let precision = pack.precision;
    let mixed = match members {
        None => attention_at(precision, &packed, heads, prefix, queries)?,
        Some(members) => grouped_attention_at(precision, &packed, heads, prefix, queries, members)?,
    };
    x.narrow(1, 0, queries)? + project.linear(&mixed, groups)?
}

#[test]
fn attention_has_the_bits_of_its_layers() {
    for precision in PRECISIONS {
        let norm = norm(precision);
        let pack = affine("pack", 3 * WIDTH, WIDTH, precision);
        let project = affine("proj", WIDTH, WIDTH, precision);
        let layers = [&pack, &project];
        // A prefix for all, one for each sample, one for each member, none.
        let forms: [(&[usize], Option<SampleGroups>); 4] = [
            (&[5, WIDTH], None),
            (&[BATCH, 5, WIDTH], None),
            (&[3, 5, WIDTH], Some(SampleGroups::new([1, 0, 3]))),
            (&[], None),
        ];
        for (shape, members) in &forms {
            let (keys, values) = (draw("keys", *shape), draw("values", *shape));
            for (queries, groups) in [(TOKENS, 0), (1, 0), (3, 1), (TOKENS, 1)] {
                let groups = self::members()[groups].clone();
                let case = format!("{precision:?} {shape:?} {queries} {groups:?}");
                let run = |t: &[Tensor], whole: bool| {
                    let prefix = t.get(1).map(|keys| (keys, &t[2]));
                    let members = members.as_ref();
                    let attended = Attended { heads: 2, prefix, queries, members };
                    let groups = groups.as_ref();
                    match whole {
                        false => composed(&t[0], &norm, layers, attended, groups),
                        true => {
                            let y = frozen_attention(&t[0], &norm, EPS, layers, attended, groups)?;
                            Ok(y.expect("layers are frozen"))
                        }
                    }
                };
                let x = x();
                let operands: Vec<&Tensor> =
                    if shape.is_empty() { vec![&x] } else { vec![&x, &keys, &values] };
                let found = pass(&operands, DType::F32, |t| run(t, true));
                let wanted = pass(&operands, DType::F32, |t| run(t, false));
                found.assert_close(&wanted, 1e-6);
                assert!(found.bits() == wanted.bits(), "{case}");
                let there = without_kernels(|| pass(&operands, DType::F32, |t| run(t, true)));
                there.assert_close(&found, tolerance(precision));
                if let [_, prefix @ ..] = &operands[..]
                    && !prefix.is_empty()
                {
                    // Where the prefix is frozen it passes the gradient on.
                    let of = |whole| {
                        pass(&[&x], DType::F32, |t| {
                            run(&[t[0].clone(), prefix[0].clone(), prefix[1].clone()], whole)
                        })
                    };
                    assert!(of(true).bits() == of(false).bits(), "{case}, prefix frozen");
                    // Without a backward pass nothing is kept.
                    let of = |whole| {
                        let t = [x.clone(), prefix[0].clone(), prefix[1].clone()];
                        let y = run(&t, whole).unwrap().flatten_all().unwrap();
                        y.to_vec1::<f32>().unwrap()
                    };
                    assert_eq!(of(true), of(false), "{case}, all frozen");
                    // Of the first block nothing but the prefix is tracked.
                    let of = |whole| {
                        pass(prefix, DType::F32, |t| {
                            run(&[x.clone(), t[0].clone(), t[1].clone()], whole)
                        })
                    };
                    let found = of(true);
                    assert!(found.bits() == of(false).bits(), "{case}, x frozen");
                    without_kernels(|| of(true)).assert_close(&found, tolerance(precision));
                }
            }
        }
    }
}

#[test]
fn layers_that_train_are_left_to_the_ops() -> Result<()> {
    let (precision, x) = (Precision::F32, x());
    let (norm, up) = (norm(precision), affine("up", 50, WIDTH, precision));
    let down = affine("down", WIDTH, 50, precision);
    let run = |up: &Affine| {
        frozen_perceptron(&x, &norm, EPS, [up, &down], PerceptronActivation::Gelu, None)
    };
    assert!(run(&up)?.is_some());
    assert!(without_kernels(|| run(&up))?.is_some());
    let trained = Affine { bias: Var::from_tensor(&up.bias)?.as_tensor().clone(), ..up.clone() };
    assert!(run(&trained)?.is_none());
    assert!(without_kernels(|| run(&trained))?.is_none());
    let half_weight = Affine { weight: up.weight.to_dtype(DType::BF16)?, ..up.clone() };
    assert!(without_kernels(|| run(&half_weight))?.is_none(), "a weight of another type");
    let halves = Affine { precision: Precision::Bf16, ..up.clone() };
    assert!(run(&halves)?.is_none(), "products of two kinds");
    for (first, second) in [(12, WIDTH), (50, 12)] {
        let other = affine("other", first, second, precision);
        assert!(run(&other).is_err(), "a layer of {first} x {second}");
    }
    let long = Affine { bias: draw("long", 51), ..up.clone() };
    assert!(run(&long).is_err(), "a bias that is too long");
    let narrow = Affine { weight: draw("n.w", 12), bias: draw("n.b", 12), precision };
    assert!(
        frozen_perceptron(&x, &narrow, EPS, [&up, &down], PerceptronActivation::Gelu, None)
            .is_err()
    );

    let (pack, project) =
        (affine("pack", 72, WIDTH, precision), affine("proj", WIDTH, WIDTH, precision));
    let attended = Attended { heads: 2, prefix: None, queries: TOKENS, members: None };
    let run = |x: &Tensor, pack: &Affine, attended| {
        frozen_attention(x, &norm, EPS, [pack, &project], attended, None)
    };
    assert!(run(&x, &pack, attended)?.is_some());
    assert!(without_kernels(|| run(&x, &pack, attended))?.is_some());
    assert!(run(&x, &up, attended).is_err(), "a layer of another width");
    assert!(run(&x, &pack, Attended { heads: 5, ..attended }).is_err());
    assert!(run(&x, &pack, Attended { queries: TOKENS + 1, ..attended }).is_err());
    Ok(())
}

/// Composed halves on the CPU, or on the GPU that `FEDCAST_TEST_DEVICE` names.
#[test]
fn halves_agree_on_any_device() -> Result<()> {
    let device = device();
    let precision = Precision::F32;
    let [norm, pack, project, up, down] = [
        norm(precision),
        affine("pack", 3 * WIDTH, WIDTH, precision),
        affine("proj", WIDTH, WIDTH, precision),
        affine("up", 48, WIDTH, precision),
        affine("down", WIDTH, 48, precision),
    ];
    let at = |affine: &Affine, dtype| -> Result<Affine> {
        let there = |t: &Tensor| t.to_device(&device)?.to_dtype(dtype);
        Ok(Affine { weight: there(&affine.weight)?, bias: there(&affine.bias)?, precision })
    };
    let members = SampleGroups::new([1, 0, 3]);
    let (x, keys, values) = (x(), draw("keys", (3, 6, WIDTH)), draw("values", (3, 6, WIDTH)));
    for (dtype, queries) in [(DType::F32, TOKENS), (DType::BF16, TOKENS), (DType::BF16, 1)] {
        let half = |t: &[Tensor], norm: &Affine, [a, b, c, d]: [&Affine; 4]| {
            let prefix = Some((&t[1], &t[2]));
            let attended = Attended { heads: 2, prefix, queries, members: Some(&members) };
            let y = frozen_attention(&t[0], norm, EPS, [a, b], attended, None)?;
            let y = y.expect("layers are frozen");
            let y = frozen_perceptron(&y, norm, EPS, [c, d], PerceptronActivation::Gelu, None)?;
            Ok(y.expect("layers are frozen"))
        };
        let here = [&x, &keys, &values];
        let wanted = pass(&here, DType::F32, |t| half(t, &norm, [&pack, &project, &up, &down]));
        let layers = [at(&pack, dtype)?, at(&project, dtype)?, at(&up, dtype)?, at(&down, dtype)?];
        let [a, b, c, d] = &layers;
        let norm = at(&norm, DType::F32)?;
        let there = || pass_at(&device, &here, dtype, |t| half(t, &norm, [a, b, c, d]));
        let limit = if dtype == DType::F32 { 1e-5 } else { 0.05 };
        without_kernels(there).assert_close(&wanted, limit);
    }
    Ok(())
}
