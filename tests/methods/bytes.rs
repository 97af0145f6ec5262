//! Messages have the bytes of the cards, and equal their layouts.

use std::sync::Arc;

use fedcast::data::{ClassOrder, Curriculum, TaskSizes};
use fedcast::methods::HeadForm;
use fedcast::methods::adapter::Adapter;
use fedcast::methods::averaged::{Averaged, Keeper};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::feddc::FedDc;
use fedcast::methods::gradma::GradMa;
use fedcast::methods::hgp::{CovarianceForm, Hgp, Learns};
use fedcast::methods::scaffold::Scaffold;
use fedcast::model::{BackboneConfig, VitConfig};
use fedcast::policy::{ClassCounts, Holdings, Method, ModelFacts, SketchFacts, WireForm};
use fedcast::wire::{BodySketch, Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::Engine;
use crate::toys::{facts, lab};
use crate::{built, small};

fn payload(sketch: &BodySketch) -> u64 {
    FrameSize::of_sketch(sketch, &CodecPlan::new(Codec::F32)).payload.0
}

/// The shapes of an exchange.
struct Exchanged {
    down: BodySketch,
    up: BodySketch,
}

/// The exchange of task `task` (of ten) on ViT-B/16 and CIFAR-100, all ten classes present.
fn on_cifar100(task: usize, form: WireForm, method: impl Averaged) -> Exchanged {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    on_model(&cifar100(vit.into(), form), task, method)
}

fn cifar100(backbone: BackboneConfig, form: WireForm) -> ModelFacts {
    ModelFacts { backbone, classes: 100, tasks: 10, clients: 1, form }
}

/// The same on a model of these dimensions.
fn on_model(model: &ModelFacts, task: usize, method: impl Averaged) -> Exchanged {
    let curriculum = Curriculum::new(100, &ClassOrder::Native, &TaskSizes::Even(10));
    let view = &curriculum.unwrap().tasks[task - 1];
    let counts: ClassCounts = view.rows.clone().map(|row| (row as u32, 50)).collect();
    let facts = SketchFacts {
        model,
        view,
        period: view.task,
        phase: 0,
        round_in_phase: 0,
        counts: &counts,
    };
    let method = built(method, model);
    Exchanged { down: method.down(&facts).body(), up: method.up(&facts).body() }
}

#[test]
fn hgp_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, form: WireForm, task: usize| {
        let sketch = on_cifar100(task, form, Hgp { head, ..Hgp::default() });
        (payload(&sketch.down), payload(&sketch.up))
    };
    use HeadForm::{Fixed, Growing};
    use WireForm::{Full, Lean};
    for task in [1, 5, 10] {
        assert_eq!(bytes(Fixed, Full, task), (3_379_600, 3_441_084));
        assert_eq!(bytes(Fixed, Lean, task), (3_379_600, 3_164_244));
        assert_eq!(bytes(Growing, Lean, task).1, 3_164_244);
    }
    assert_eq!(bytes(Growing, Full, 1), (3_102_760, 3_164_244));
    assert_eq!(bytes(Growing, Full, 10), (3_379_600, 3_441_084));
    let full = Hgp { covariance: CovarianceForm::Full, ..Hgp::default() };
    let up = on_cifar100(1, Full, full).up;
    assert_eq!(payload(&up), 3_379_604 + 10 * 4 * (1 + 768 + 768 * 769 / 2));
    let bare = Hgp { train: Learns::Head, ..Hgp::default() };
    let down = on_cifar100(1, Full, bare).down;
    assert_eq!(payload(&down), 307_600);
}

#[test]
fn fedavg_sends_the_bytes_of_its_card() {
    let bytes = |train: Train, head: HeadForm, task: usize| {
        let method = FedAvg { train, head, ..FedAvg::default() };
        let sketch = on_cifar100(task, WireForm::Full, method);
        (payload(&sketch.down), payload(&sketch.up))
    };
    assert_eq!(bytes(Train::All, HeadForm::Fixed, 1), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 1), (343_225_384, 343_225_388));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 10), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 1), (30_760, 30_764));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 10), (307_600, 307_604));
}

/// SCAFFOLD, invariant 7, FedDC, invariant 8, and GradMA, invariant 7: twice FedAvg's bytes of what trains, or FedAvg's.
#[test]
fn controlled_methods_send_the_bytes_of_their_cards() {
    let bytes = |method: &dyn Fn(&ModelFacts) -> Exchanged, model: &ModelFacts| {
        let sketch = method(model);
        (payload(&sketch.down), payload(&sketch.up))
    };
    let of = |variates: Keeper| {
        let scaffold = move |model: &ModelFacts| {
            on_model(model, 1, Scaffold { variates, ..Scaffold::default() })
        };
        let feddc =
            move |model: &ModelFacts| on_model(model, 1, FedDc { variates, ..FedDc::default() });
        (scaffold, feddc)
    };
    let gradma = |model: &ModelFacts| on_model(model, 1, GradMa::default());
    let vit = cifar100(VitConfig::preset("vit-base-patch16-224").unwrap().into(), WireForm::Full);
    let all = 343_502_224;
    let ((scaffold, feddc), (of_server, all_of_server)) = (of(Keeper::Client), of(Keeper::Server));
    assert_eq!(bytes(&scaffold, &vit), (2 * all, 2 * all + 4));
    assert_eq!(bytes(&feddc, &vit), (2 * all, 2 * all + 4));
    assert_eq!(bytes(&of_server, &vit), (2 * all, all + 12));
    assert_eq!(bytes(&all_of_server, &vit), (4 * all, all + 12));
    assert_eq!(bytes(&gradma, &vit), (all, all + 4));
    // Running statistics, and how many batches they are of, travel once.
    let resnet = cifar100(BackboneConfig::ResNet(Default::default()), WireForm::Full);
    let (trains, moments) = (4 * 11_220_132, 4 * (9_600 + 20));
    assert_eq!(bytes(&scaffold, &resnet), (2 * trains + moments, 2 * trains + moments + 4));
    assert_eq!(bytes(&gradma, &resnet), (trains + moments, trains + moments + 4));

    // What is held, by a hundred clients and their server.
    let vit = ModelFacts { clients: 100, ..vit.clone() };
    let held = |method: Arc<dyn Method>| {
        let Holdings { server, client } = method.holdings(&vit).unwrap();
        (server / all, client / all)
    };
    assert_eq!(held(built(Scaffold::default(), &vit)), (2, 1));
    assert_eq!(held(built(FedDc::default(), &vit)), (3, 2));
    let keeper = Scaffold { variates: Keeper::Server, ..Scaffold::default() };
    assert_eq!(held(built(keeper, &vit)), (102, 0));
    let keeper = FedDc { variates: Keeper::Server, ..FedDc::default() };
    assert_eq!(held(built(keeper, &vit)), (203, 0));
    assert_eq!(held(built(GradMa { memory: 30, ..GradMa::default() }, &vit)), (32, 0));
    assert_eq!(held(built(GradMa { memory: 300, ..GradMa::default() }, &vit)), (102, 0));
}

/// STSA card, section 4: 1,189,632 adapter parameters and a head of 10 x 768 + 1, each way; up with the
/// sample count.
#[test]
fn adapters_send_the_bytes_of_their_card() {
    let sketch = on_cifar100(1, WireForm::Full, Adapter::default());
    assert_eq!((payload(&sketch.down), payload(&sketch.up)), (4_789_252, 4_789_256));
    let kinds = FrameSize::of_sketch(&sketch.up, &CodecPlan::new(Codec::F32)).kinds;
    assert_eq!((kinds.get(Kind::Weights).0, kinds.get(Kind::Head).0), (4 * 1_189_632, 4 * 7_681));
}

#[test]
fn kinds_say_what_the_bytes_are_for() {
    let sketch = on_cifar100(1, WireForm::Full, Hgp::default());
    let kinds = FrameSize::of_sketch(&sketch.up, &CodecPlan::new(Codec::F32)).kinds;
    assert_eq!(kinds.get(Kind::Prompt).0, 5 * 200 * 768 * 4);
    assert_eq!(kinds.get(Kind::Head).0, 769 * 100 * 4);
    assert_eq!(kinds.get(Kind::Prototypes).0, 10 * 4 * (2 * 768 + 1));
    assert_eq!(kinds.get(Kind::Statistics).0, 4);
}

/// The engine of these tests compares every message with its layout.
#[test]
fn messages_equal_their_layouts_in_every_form() {
    for form in [WireForm::Full, WireForm::Lean] {
        for head in [HeadForm::Fixed, HeadForm::Growing] {
            for covariance in [CovarianceForm::Diagonal, CovarianceForm::Full] {
                let facts = ModelFacts { form, ..facts() };
                let method = small(|c| (c.head, c.covariance) = (head, covariance));
                let method = built(method, &facts);
                let run = Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 1);
                assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
            }
        }
    }
}

#[test]
fn lean_and_growing_messages_change_no_result() {
    let run = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let method = built(small(|c| c.head = head), &facts);
        Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 2).server.save().digest()
    };
    let full = run(WireForm::Full, HeadForm::Fixed);
    assert_eq!(run(WireForm::Lean, HeadForm::Fixed), full);
    assert_eq!(run(WireForm::Full, HeadForm::Growing), full);
    assert_eq!(run(WireForm::Lean, HeadForm::Growing), full);
}
