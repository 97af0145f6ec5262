//! Invariants of the card on layers and messages of a few numbers.

use std::sync::Arc;

use super::messages::{
    ReportedPart, contribution, entries_of, knowledge, knowledge_spec, read_report, report,
    report_spec, upload, upload_spec,
};
use super::state::{WeitState, taken_over};
use super::terms::{LayerValues, PastLayer, TermWeights};
use super::{FedWeit, FedWeitMethod, SplitLayer, SplitLayers, WeitShape};
use crate::model::{BackboneConfig, Parameter, ParameterSet, PixelShape, ResNetConfig};
use crate::policy::{ClientState, Message, ModelFacts, WireForm};
use crate::wire::Saved;

fn shape() -> WeitShape {
    let layer = |name: &str, shape: &[usize]| SplitLayer { name: name.into(), shape: shape.into() };
    WeitShape {
        layers: vec![layer("a.weight", &[4, 3]), layer("b.weight", &[5, 2])],
        local: vec![("head.bias".to_owned(), vec![2])],
    }
}

/// Numbers that differ, in the shapes of the layers.
fn base(first: f32) -> ParameterSet {
    let mut next = first;
    let mut layer = |layer: &SplitLayer| {
        let values = (0..layer.numbers()).map(|_| {
            next += 0.25;
            next
        });
        let values = values.collect();
        (layer.name.clone(), Parameter { shape: layer.shape.clone(), values })
    };
    shape().layers.iter().map(&mut layer).collect()
}

fn masks(of: impl Fn(usize) -> f32) -> ParameterSet {
    shape().rows(SplitLayer::units, |_, count| (0..count).map(&of).collect())
}

fn values(set: &ParameterSet) -> Vec<f32> {
    set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
}

/// Invariants 1 and 4.
#[test]
fn open_masks_and_nothing_else_leave_the_base() {
    let base = [1.5f32, -2.0, 0.25, 8.0];
    let entry = [3.0f32, -1.0, 2.0, 5.0];
    let zeros = [0.0f32; 4];
    let of = |mask: &'static [f32], alpha: f32| LayerValues {
        base: &base,
        mask,
        adaptive: &zeros,
        knowledge: vec![(alpha, &entry)],
    };
    assert_eq!(of(&[60.0, 60.0], 0.0).compose(), base);
    // The gradient of the base is then that of the weight, and the mask has none.
    let slopes = of(&[60.0, 60.0], 0.0).slopes(&[0.5, 1.0, -2.0, 4.0]);
    assert_eq!((slopes.base, slopes.adaptive.len()), (vec![0.5, 1.0, -2.0, 4.0], 4));
    assert!(slopes.mask.iter().all(|slope| slope.abs() < 1e-12));
    assert_eq!(slopes.attention, [1.5 - 1.0 - 4.0 + 20.0]);
    // A mask is of its whole row.
    assert_eq!(of(&[60.0, -60.0], 0.0).compose()[..2], base[..2]);
    assert!(of(&[60.0, -60.0], 0.0).compose()[2..].iter().all(|value| value.abs() < 1e-6));
    let lent = of(&[60.0, 60.0], 0.5).compose();
    assert_eq!(lent, [3.0, -2.5, 1.25, 10.5]);
}

/// Invariant 2, and the sign and weight of every term.
#[test]
fn terms_are_those_of_the_card() {
    let (base, mask, adaptive) = ([2.0f32, 4.0], [0.0f32], [0.5f32, -0.25]);
    let layer =
        LayerValues { base: &base, mask: &mask, adaptive: &adaptive, knowledge: Vec::new() };
    let weights = TermWeights { decay: 0.1, base_decays: true, sparsity: 0.01, drift: 10.0 };
    let (past_mask, past, start) = ([0.0f32], [1.0f32, -3.0], [2.0f32, -1.5]);
    let earlier = PastLayer { mask: &past_mask, adaptive: &past, start: &start };
    let mut slopes = layer.slopes(&[0.0, 0.0]);
    let terms = layer.add_terms(&weights, &[earlier], true, &mut slopes);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} instead of {b}");
    near(terms.decay, 0.05 * (0.25 + 0.0625 + 4.0 + 16.0));
    near(terms.sparsity, 0.01 * (0.75 + 4.0));
    // Gaps: 2 / 2 + 1 - 2 = 0 and 4 / 2 - 3 + 1.5 = 0.5.
    near(terms.drift, 5.0 * 0.25);
    for (found, wanted) in slopes.base.iter().zip([0.2, 0.4 + 10.0 * 0.5 * 0.5]) {
        near(*found, wanted);
    }
    for (found, wanted) in slopes.adaptive.iter().zip([0.05 + 0.01, -0.025 - 0.01]) {
        near(*found, wanted);
    }
    near(slopes.mask[0], 0.0);
    let (of_mask, of_adaptive) = &slopes.past[0];
    near(of_mask[0], 10.0 * 0.5 * 4.0 * 0.25);
    near(of_adaptive[0], 0.01);
    near(of_adaptive[1], 5.0 - 0.01);
}

/// Invariant 3: an entry of one sender is copied, one of two is their mean, one of none stays the client's own.
#[test]
fn units_count_where_they_were_sent() {
    let shape = shape();
    let zeros = base(0.0).zipped(&base(0.0), |_, _| 0.0);
    let mut average = crate::policy::ElementwiseAverage::default();
    let senders = [(base(1.0), masks(|at| at as f32)), (base(7.0), masks(|at| -(at as f32)))];
    for (base, mask) in &senders {
        let (message, sent) = upload(&shape, base, mask, 0.3).unwrap();
        // floor(1.2) = 1 of 4 and floor(1.5) = 1 of 5: the limit is 1, and units 2 and up are sent.
        assert_eq!(sent, 2 * 3 + 3 * 2);
        let spec = upload_spec(&shape, 0.3).body();
        assert!(message.body().fills(&spec), "as planned");
        let own = contribution(&shape, &zeros, &message).unwrap();
        for (name, parameter) in own.parameters.iter() {
            let weights = own.named(&format!("sent.{name}")).unwrap().as_f32().unwrap().clone();
            let none = vec![0.0; weights.len()];
            let mut one = crate::policy::ElementwiseAverage::default();
            one.insert(name, 0, (&none, &parameter.values, &weights));
            average = average.merge(one);
        }
    }
    // merge() of different names keeps both.
    let mean = average.apply(zeros);
    let own = base(100.0);
    let taken = taken_over(&own, &mean);
    let found = taken.get("a.weight").unwrap().values.to_vec();
    assert_eq!(found[..6], own.get("a.weight").unwrap().values[..6]);
    let [one, other] = [&senders[0].0, &senders[1].0].map(|set| set.get("a.weight").unwrap());
    let pairs = one.values.iter().zip(other.values.iter());
    let means: Vec<f32> = pairs.map(|(one, other)| (one + other) / 2.0).collect();
    assert_eq!(found[6..], means[6..]);
}

/// An upload of another shape is refused, not spread.
#[test]
fn uploads_of_another_shape_are_refused() {
    let (shape, sent) = (shape(), base(0.0));
    let (message, _) = upload(&shape, &base(1.0), &masks(|at| at as f32), 0.3).unwrap();
    assert!(contribution(&shape, &sent, &Message::default()).is_err());
    assert!(contribution(&shape, &ParameterSet::new(), &message).is_err());
    let mut wider = shape.clone();
    wider.layers[0].shape = vec![4, 4];
    assert!(contribution(&wider, &base(0.0), &message).is_err());
}

#[test]
fn reports_and_knowledge_come_back() {
    let shape = shape();
    let adaptive = base(-2.5);
    let one = |count: usize| Parameter { shape: vec![count], values: vec![0.5; count].into() };
    let part = ReportedPart {
        first_row: 4,
        adaptive: adaptive.clone(),
        mask: masks(|at| at as f32 - 1.0),
        attention: shape.rows(|_| 3, |_, count| vec![0.25; count]),
        local: [("head.bias", one(2))].into_iter().collect(),
    };
    let earlier = ReportedPart {
        first_row: 2,
        attention: ParameterSet::new(),
        local: ParameterSet::new(),
        adaptive: base(0.0),
        mask: masks(|at| at as f32),
    };
    let message = report(&shape, &[earlier.clone(), part.clone()], 0.6).unwrap();
    let read = read_report(&shape, &message).unwrap();
    let kept = |set: &ParameterSet| -> Vec<f32> {
        values(set).into_iter().map(|v| if v.abs() > 0.6 { v } else { 0.0 }).collect()
    };
    assert_eq!(values(&read[1].adaptive), kept(&adaptive));
    assert_eq!((read[0].first_row, &read[0].mask), (2, &earlier.mask));
    assert_eq!((&read[1].mask, &read[1].attention), (&part.mask, &part.attention));
    assert_eq!((read[1].first_row, &read[1].local), (4, &part.local));
    // Without a number below the limit it is as large as planned.
    let whole = ReportedPart { adaptive: base(1.0), ..part.clone() };
    let dense = report(&shape, &[ReportedPart { adaptive: base(1.0), ..earlier }, whole], 0.6);
    let bytes = |body: &crate::wire::Body| -> u64 {
        body.tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    };
    let planned: u64 = report_spec(&shape, 2, 3)
        .tensor_specs()
        .map(|place| {
            let width = if place.dtype == crate::wire::Dtype::U8 { 1 } else { 4 };
            width * place.shape.iter().product::<usize>() as u64
        })
        .sum();
    assert_eq!(bytes(&dense.unwrap().body()), planned);
    assert!(
        read_report(&shape, &report(&shape, &[ReportedPart::default()], 0.6).unwrap()).is_err()
    );

    let entries = [(2, &read[0].adaptive), (9, &read[1].adaptive)];
    let asset = knowledge(&shape, entries.into_iter(), 1).unwrap();
    let found = entries_of(&shape, &asset.body).unwrap();
    assert_eq!(found, [read[0].adaptive.clone(), read[1].adaptive.clone()]);
    let full = [(0, &base(1.0)), (1, &base(2.0))];
    let full = knowledge(&shape, full.into_iter(), 1).unwrap();
    assert!(full.body.fills(&knowledge_spec(&shape, 2, 1).body));
}

/// A new task keeps the parts of the old one; weights at the start are without `K`.
#[test]
fn states_keep_the_parts_of_all_tasks() {
    let shape = shape();
    let mut state = WeitState::default();
    state.begin(0);
    state.take_base(&base(1.0));
    state.put("mask", masks(|_| 0.0));
    state.put("adaptive", base(2.0));
    state.put("transfer", base(50.0));
    state.put("attention", masks(|_| 1.0));
    (state.factor, state.waited, state.lowest) = (0.5, 2, 0.25);
    assert!(state.works_on(0) && !state.works_on(2) && state.past().is_empty());
    state.begin(2);
    state.mark_starts(&shape, &base(1.0));
    assert_eq!((state.factor, state.waited, state.lowest), (1.0, 0, f64::INFINITY));
    assert_eq!(state.past(), [0]);
    assert!(!state.has("attention") && !state.has("mask"));
    let start = values(&state.set("past.0000000000.start"));
    let wanted: Vec<f32> =
        values(&base(1.0)).iter().zip(values(&base(2.0))).map(|(b, a)| b / 2.0 + a).collect();
    assert_eq!(start, wanted);
    assert_eq!(WeitState::load(&state.save()).unwrap(), state);
    assert!(state.state_bytes() > 0);
    // Zeros of a base that arrives keep the client's own values.
    let mut received = values(&base(9.0));
    received[3] = 0.0;
    let mut from = received.iter().copied();
    let layer = |layer: &SplitLayer| {
        let values = from.by_ref().take(layer.numbers()).collect();
        (layer.name.clone(), Parameter { shape: layer.shape.clone(), values })
    };
    let set: ParameterSet = shape.layers.iter().map(layer).collect();
    state.take_base(&set);
    let now = values(&state.set("base"));
    assert_eq!(now[3], values(&base(1.0))[3]);
    assert_eq!((now[2], now[4]), (received[2], received[4]));
    assert_eq!(state.set("initial"), base(1.0));
}

/// Convolutions and linear layers are split; norms, biases and the head are the client's own.
#[test]
fn layers_of_networks_are_split() {
    let model = |backbone| ModelFacts {
        backbone,
        classes: 10,
        tasks: 2,
        clients: 3,
        form: WireForm::Full,
        auxiliary: None,
    };
    let resnet = model(BackboneConfig::ResNet(ResNetConfig::default()));
    let shape = WeitShape::new(SplitLayers::Network, &resnet, 5);
    assert!(shape.layers.iter().all(|layer| layer.shape.len() == 4), "convolutions alone");
    let local: Vec<&str> = shape.local.iter().map(|(name, _)| name.as_str()).collect();
    assert!(local.contains(&"bn1.weight") && local.contains(&"bn1.running_mean"));
    assert!(local.contains(&"head.weight") && local.contains(&"head.bias"));
    let all = resnet.backbone.parameter_shapes();
    let all: usize = all.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
    assert_eq!(shape.numbers() + shape.local_numbers(), all + 5 * 513);
    let pixels = model(BackboneConfig::Pixels(PixelShape { channels: 1, image: 2 }));
    let head = WeitShape::new(SplitLayers::Head, &pixels, 5);
    assert_eq!(head.layers[0], SplitLayer { name: "head.weight".into(), shape: vec![5, 4] });
    assert_eq!((head.units(), head.local), (5, vec![("head.bias".to_owned(), vec![5])]));
    let method = FedWeitMethod::new(FedWeit::default(), &resnet);
    assert_eq!(Arc::new(method).shape(5), shape);
}
