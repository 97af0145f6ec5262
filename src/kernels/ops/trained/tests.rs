//! Halves against the ops they are made of: the same bits, of values and of all gradients.

use candle_core::{DType, Result, Tensor, Var};

use super::super::affine::Affine;
use super::super::frozen::Attended;
use super::super::testing::{draw, pass, values};
use super::super::*;
use super::pairs::LowRankPair;

const EPS: f64 = 1e-6;
const TOKENS: usize = 70;
const BATCH: usize = 4;
const WIDTH: usize = 24;
const HIDDEN: usize = 50;
const RANK: usize = 3;

/// Place of a pair: one of the two layers, first column, number of columns.
type Place = (usize, usize, usize);

/// One case: which tensors train, and in what pack.
struct HalfCase {
    precision: Precision,
    trained: Trained,
    places: Vec<Place>,
    groups: Option<SampleGroups>,
    /// A pair for each member of the pack.
    own: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trained {
    Pairs,
    All,
    Weights,
    Norm,
    Biases,
    /// The second layer alone; pairs are frozen.
    Second,
}

/// Tensors of a half: `x` first, then those that train.
struct HalfInputs {
    names: Vec<String>,
    tensors: Vec<Tensor>,
}

impl HalfCase {
    fn says(&self) -> String {
        let HalfCase { precision, trained, places, groups, own } = self;
        format!("{precision:?} {trained:?} {places:?} {groups:?} {own}")
    }

    fn members(&self) -> usize {
        self.groups.as_ref().map_or(1, SampleGroups::members)
    }

    /// All tensors of a half whose layers have these extents, and the names of those that train.
    fn inputs(&self, extents: [(usize, usize); 2]) -> HalfInputs {
        let mut all: Vec<(String, Vec<usize>, bool)> = vec![
            ("x".into(), vec![BATCH, TOKENS, WIDTH], true),
            ("norm.w".into(), vec![WIDTH], matches!(self.trained, Trained::All | Trained::Norm)),
            ("norm.b".into(), vec![WIDTH], self.trained == Trained::All),
        ];
        for (at, (outputs, inputs)) in extents.into_iter().enumerate() {
            let weights = matches!(self.trained, Trained::All | Trained::Weights)
                || (self.trained == Trained::Second && at == 1);
            let biases = matches!(self.trained, Trained::All | Trained::Biases);
            all.push((format!("{at}.w"), vec![outputs, inputs], weights));
            all.push((format!("{at}.b"), vec![outputs], biases));
        }
        for (at, (layer, _, columns)) in self.places.iter().enumerate() {
            let trained = self.trained != Trained::Second;
            let [a, b] = self.pair(*columns, extents[*layer].1);
            all.push((format!("pair{at}.a"), a, trained));
            all.push((format!("pair{at}.b"), b, trained));
        }
        let (names, tensors) = all
            .into_iter()
            .filter(|(.., trained)| *trained)
            .map(|(name, shape, _)| (name.clone(), draw(&name, shape)))
            .unzip();
        HalfInputs { names, tensors }
    }

    /// Shapes of the factors of a pair.
    fn pair(&self, columns: usize, inputs: usize) -> [Vec<usize>; 2] {
        let stack: &[usize] = if self.own { &[self.members()] } else { &[] };
        [[RANK, inputs], [columns, RANK]].map(|rest| [stack, &rest].concat())
    }

    fn layers(
        &self,
        given: &GivenTensors,
        extents: [(usize, usize); 2],
    ) -> (Affine, [AdaptedLinear; 2]) {
        let affine = |name: &str, weight: &[usize], bias: usize| Affine {
            weight: given.tensor(&format!("{name}.w"), weight),
            bias: given.tensor(&format!("{name}.b"), &[bias]),
            precision: self.precision,
        };
        let layer = |at: usize| {
            let (outputs, inputs) = extents[at];
            let places = self.places.iter().enumerate().filter(|(_, place)| place.0 == at);
            let pairs = places.map(|(pair, (_, first, columns))| {
                let [a, b] = self.pair(*columns, inputs);
                let a = given.tensor(&format!("pair{pair}.a"), &a);
                let b = given.tensor(&format!("pair{pair}.b"), &b);
                LowRankPair { a, b, first: *first }
            });
            let pairs = pairs.collect();
            AdaptedLinear { layer: affine(&at.to_string(), &[outputs, inputs], outputs), pairs }
        };
        (affine("norm", &[WIDTH], WIDTH), [layer(0), layer(1)])
    }

    /// Applies a linear layer by the ops.
    fn linear(&self, x: &Tensor, of: &AdaptedLinear) -> Result<Tensor> {
        let mut y = of.layer.linear(x, self.groups.as_ref())?;
        for LowRankPair { a, b, first } in &of.pairs {
            let linear = |x: &Tensor, weight: &Tensor| match &self.groups {
                None => linear(x, weight, None),
                Some(groups) => grouped_linear(x, weight, None, groups),
            };
            y = add_columns(&y, &linear(&linear(x, a)?, b)?, *first)?;
        }
        Ok(y)
    }
}

/// Tensors by name; others are frozen.
struct GivenTensors<'a> {
    names: &'a [String],
    tensors: &'a [Tensor],
}

impl GivenTensors<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Tensor {
        match self.names.iter().position(|own| own == name) {
            Some(at) => self.tensors[at].clone(),
            None => draw(name, shape),
        }
    }
}

fn cases(places: &[&[Place]]) -> Vec<HalfCase> {
    let all = [
        Trained::Pairs,
        Trained::All,
        Trained::Weights,
        Trained::Norm,
        Trained::Biases,
        Trained::Second,
    ];
    let packs = [(None, false), (Some([1, 0, 3]), false), (Some([1, 0, 3]), true)];
    let mut cases = Vec::new();
    for precision in [Precision::F32, Precision::Bf16] {
        for trained in all {
            for places in places {
                for (groups, own) in packs {
                    let (places, groups) = (places.to_vec(), groups.map(SampleGroups::new));
                    cases.push(HalfCase { precision, trained, places, groups, own });
                }
            }
        }
    }
    cases
}

/// Compares values and gradients of a half with those of its ops, with and without a gradient of `x`.
fn compare(
    case: &str,
    inputs: &HalfInputs,
    run: impl Fn(&GivenTensors<'_>, bool) -> Result<Tensor>,
) {
    let HalfInputs { names, tensors } = inputs;
    let of = |t: &[Tensor], whole: bool| run(&GivenTensors { names, tensors: t }, whole);
    let all: Vec<&Tensor> = tensors.iter().collect();
    let found = pass(&all, DType::F32, |t| of(t, true));
    let wanted = pass(&all, DType::F32, |t| of(t, false));
    found.assert_close(&wanted, 1e-5);
    assert!(found.bits() == wanted.bits(), "{case}");
    if all.len() > 1 {
        let with_x = |t: &[Tensor]| [std::slice::from_ref(&tensors[0]), t].concat();
        let found = pass(&all[1..], DType::F32, |t| of(&with_x(t), true));
        let wanted = pass(&all[1..], DType::F32, |t| of(&with_x(t), false));
        assert!(found.bits() == wanted.bits(), "{case}, x is frozen");
    }
    let (plain, wanted) = (of(tensors, true).unwrap(), of(tensors, false).unwrap());
    assert_eq!(values(&plain), values(&wanted), "{case}, without a backward pass");
}

#[test]
fn a_trained_perceptron_has_the_bits_of_its_layers() {
    let extents = [(HIDDEN, WIDTH), (WIDTH, HIDDEN)];
    let places: [&[Place]; 3] =
        [&[], &[(0, 0, HIDDEN)], &[(0, 0, HIDDEN), (1, 0, WIDTH), (0, 20, 30), (0, 0, 10)]];
    for case in cases(&places) {
        let activation = PerceptronActivation::Gelu;
        let groups = case.groups.as_ref();
        compare(&case.says(), &case.inputs(extents), |given, whole| {
            let (x, (norm, layers)) = (&given.tensors[0], case.layers(given, extents));
            if whole {
                let y = trained_perceptron(x, &norm, EPS, layers, activation, groups)?;
                return Ok(y.expect("the kernels serve it"));
            }
            let hidden = case.linear(&norm.norm(x, EPS)?, &layers[0])?;
            x + case.linear(&activation.of(&hidden)?, &layers[1])?
        });
    }
}

#[test]
fn a_trained_attention_has_the_bits_of_its_layers() {
    let extents = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH)];
    let (q, v) = ((0, 0, WIDTH), (0, 2 * WIDTH, WIDTH));
    let places: [&[Place]; 4] = [&[], &[q], &[q, v], &[q, v, (1, 0, WIDTH), (1, 5, 7), v]];
    for case in cases(&places) {
        for (prefixed, queries) in [(false, TOKENS), (false, 1), (true, 3)] {
            let mut inputs = case.inputs(extents);
            if prefixed {
                for name in ["keys", "values"] {
                    inputs.names.push(name.into());
                    inputs.tensors.push(draw(name, (5, WIDTH)));
                }
            }
            let says = format!("{} {prefixed} {queries}", case.says());
            compare(&says, &inputs, |given, whole| {
                let (x, (norm, layers)) = (&given.tensors[0], case.layers(given, extents));
                let (keys, values) =
                    (given.tensor("keys", &[5, WIDTH]), given.tensor("values", &[5, WIDTH]));
                let prefix = prefixed.then_some((&keys, &values));
                let groups = case.groups.as_ref();
                if whole {
                    let attended = Attended { heads: 2, prefix, queries, members: None };
                    let y = trained_attention(x, &norm, EPS, layers, attended, groups)?;
                    return Ok(y.expect("the kernels serve it"));
                }
                let packed = case.linear(&norm.norm(x, EPS)?, &layers[0])?;
                let mixed = attention_at(case.precision, &packed, 2, prefix, queries)?;
                let asking = if queries == TOKENS { x.clone() } else { x.narrow(1, 0, queries)? };
                asking + case.linear(&mixed, &layers[1])?
            });
        }
    }
}

/// A second backward pass through the same graph finds what the first one found.
#[test]
fn a_half_can_go_back_twice() -> Result<()> {
    let vars: Vec<Var> = [("w", vec![HIDDEN, WIDTH]), ("b", vec![HIDDEN])]
        .into_iter()
        .map(|(name, shape)| Var::from_tensor(&draw(name, shape)))
        .collect::<Result<_>>()?;
    let plain = |layer: Affine| AdaptedLinear { layer, pairs: Vec::new() };
    let precision = Precision::F32;
    let affine = |weight: Tensor, bias: Tensor| Affine { weight, bias, precision };
    let norm = affine(draw("n", WIDTH), draw("nb", WIDTH));
    let up = affine(vars[0].as_tensor().clone(), vars[1].as_tensor().clone());
    let down = affine(draw("d", (WIDTH, HIDDEN)), draw("db", WIDTH));
    let layers = [plain(up), plain(down)];
    let activation = PerceptronActivation::Gelu;
    let x = draw("x", (2, 3, WIDTH));
    let y = trained_perceptron(&x, &norm, EPS, layers, activation, None)?.expect("served");
    let loss = y.sqr()?.sum_all()?;
    let gradient =
        || Ok::<_, candle_core::Error>(values(&loss.backward()?.remove(&vars[0]).expect("one")));
    assert_eq!(gradient()?, gradient()?);
    Ok(())
}

#[test]
fn what_does_not_fit_is_left_to_the_ops() -> Result<()> {
    let precision = Precision::F32;
    let affine = |name: &str, outputs: usize, inputs: usize| Affine {
        weight: draw(name, (outputs, inputs)),
        bias: draw(name, outputs),
        precision,
    };
    let norm = Affine { weight: draw("n", WIDTH), bias: draw("nb", WIDTH), precision };
    let half = |pairs: Vec<LowRankPair>, groups: Option<&SampleGroups>| {
        let up = AdaptedLinear { layer: affine("up", HIDDEN, WIDTH), pairs };
        let down = AdaptedLinear { layer: affine("down", WIDTH, HIDDEN), pairs: Vec::new() };
        let x = draw("x", (2, 3, WIDTH));
        trained_perceptron(&x, &norm, EPS, [up, down], PerceptronActivation::Gelu, groups)
    };
    let pair =
        |a: &[usize], b: &[usize], first| LowRankPair { a: draw("a", a), b: draw("b", b), first };
    assert!(half(vec![pair(&[RANK, WIDTH], &[HIDDEN, RANK], 0)], None)?.is_some());
    let others = [
        pair(&[RANK, WIDTH], &[HIDDEN, RANK], 1),
        pair(&[RANK, HIDDEN], &[HIDDEN, RANK], 0),
        pair(&[RANK, WIDTH], &[HIDDEN, RANK + 1], 0),
        pair(&[2, RANK, WIDTH], &[2, HIDDEN, RANK], 0),
        pair(&[600, WIDTH], &[HIDDEN, 600], 0),
    ];
    for other in others {
        let case = format!("{other:?}");
        assert!(half(vec![other], None)?.is_none(), "{case}");
    }
    let groups = SampleGroups::new([1, 1]);
    let own = pair(&[2, RANK, WIDTH], &[2, HIDDEN, RANK], 0);
    assert!(half(vec![own], Some(&groups))?.is_some());
    assert!(without_kernels(|| half(Vec::new(), None))?.is_none());
    Ok(())
}
