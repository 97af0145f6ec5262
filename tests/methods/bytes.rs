//! Messages have the bytes of the cards, and equal their layouts.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, TaskSequence, TaskSizes};
use fedcast::methods::HeadForm;
use fedcast::methods::adapter::adapters;
use fedcast::methods::averaging::{Keeper, VectorKeeping};
use fedcast::methods::ccvr::Ccvr;
use fedcast::methods::class_statistics::{CovarianceForm, Rebalance};
use fedcast::methods::ewc::Ewc;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::feddc::FedDc;
use fedcast::methods::fedlwf_mc::FedLwfMc;
use fedcast::methods::fedproto::FedProto;
use fedcast::methods::fisheravg::FisherAvg;
use fedcast::methods::gradma::GradMa;
use fedcast::methods::hgp::{Hgp, Learns};
use fedcast::methods::l2p::L2p;
use fedcast::methods::lander::Lander;
use fedcast::methods::lorm::Lorm;
use fedcast::methods::lwf::Lwf;
use fedcast::methods::mfcl::{GeneratorSettings, Mfcl};
use fedcast::methods::parts::AveragingMethod;
use fedcast::methods::pilora::{Compete, Pilora};
use fedcast::methods::regmean::RegMean;
use fedcast::methods::scaffold::Scaffold;
use fedcast::methods::target::TargetMethod;
use fedcast::model::{BackboneConfig, VitConfig};
use fedcast::policy::{
    ClassCounts, ExchangeFacts, MemoryFootprint, MessageKind, Method, ModelFacts, WireForm,
};
use fedcast::wire::{BodyShape, Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::Engine;
use crate::toys::{facts, first_exchange, run_context};
use crate::{built, small};

fn payload(shape: &BodyShape) -> u64 {
    FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0
}

/// The shapes of an exchange.
struct Exchanged {
    down: BodyShape,
    /// Assets of a download that a fresh client lacks.
    assets: Vec<BodyShape>,
    up: BodyShape,
}

impl Exchanged {
    /// Bytes down to a fresh client, and up.
    fn bytes(&self) -> (u64, u64) {
        let assets = self.assets.iter().map(payload).sum::<u64>();
        (payload(&self.down) + assets, payload(&self.up))
    }
}

/// The exchange of task `task` (of ten) on ViT-B/16 and CIFAR-100, all ten classes present.
fn on_cifar100(task: usize, form: WireForm, method: impl AveragingMethod) -> Exchanged {
    in_round(0, task, form, method)
}

/// Returns the exchange in this round of the task.
fn in_round(round: u32, task: usize, form: WireForm, method: impl AveragingMethod) -> Exchanged {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    in_round_on(round, &cifar100(vit.into(), form), task, method)
}

fn cifar100(backbone: BackboneConfig, form: WireForm) -> ModelFacts {
    ModelFacts { backbone, classes: 100, tasks: 10, clients: 1, form, auxiliary: None }
}

/// The first round of a task on a model of these dimensions.
fn on_model(model: &ModelFacts, task: usize, method: impl AveragingMethod) -> Exchanged {
    in_round_on(0, model, task, method)
}

fn in_round_on(
    round: u32,
    model: &ModelFacts,
    task: usize,
    method: impl AveragingMethod,
) -> Exchanged {
    let task_sequence = TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10));
    let view = &task_sequence.unwrap().tasks[task - 1];
    let counts: ClassCounts = view.rows.clone().map(|row| (row as u32, 50)).collect();
    let facts = ExchangeFacts { round_in_phase: round, ..first_exchange(model, view, &counts) };
    let method = built(method, model);
    let (download, upload) = (
        method.message_spec(MessageKind::Download, &facts),
        method.message_spec(MessageKind::Upload, &facts).body(),
    );
    let assets = download.assets.iter().map(|asset| asset.body.clone()).collect();
    Exchanged { down: download.body(), assets, up: upload }
}

#[test]
fn hgp_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, form: WireForm, task: usize| {
        let shape = on_cifar100(task, form, Hgp { head_form: head, ..Hgp::default() });
        (payload(&shape.down), payload(&shape.up))
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
    let upload = on_cifar100(1, Full, full).up;
    assert_eq!(payload(&upload), 3_379_604 + 10 * 4 * (1 + 768 + 768 * 769 / 2));
    let bare = Hgp { train: Learns::Head, ..Hgp::default() };
    let download = on_cifar100(1, Full, bare).down;
    assert_eq!(payload(&download), 307_600);
}

#[test]
fn fedavg_sends_the_bytes_of_its_card() {
    let bytes = |train: Train, head: HeadForm, task: usize| {
        let method = FedAvg { train, head_form: head, ..FedAvg::default() };
        let shape = on_cifar100(task, WireForm::Full, method);
        (payload(&shape.down), payload(&shape.up))
    };
    assert_eq!(bytes(Train::All, HeadForm::Fixed, 1), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 1), (343_225_384, 343_225_388));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 10), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 1), (30_760, 30_764));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 10), (307_600, 307_604));
}

/// FisherAVG card, section 4.
#[test]
fn fisheravg_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, task: usize| {
        let fedavg = FedAvg { head_form: head, ..FedAvg::default() };
        let shape = on_cifar100(task, WireForm::Full, FisherAvg { fedavg, ..Default::default() });
        (payload(&shape.down), payload(&shape.up))
    };
    assert_eq!(bytes(HeadForm::Fixed, 1), (343_502_224, 687_004_448));
    assert_eq!(bytes(HeadForm::Growing, 10), (343_502_224, 687_004_448));
    assert_eq!(bytes(HeadForm::Growing, 1), (343_225_384, 686_450_768));
}

/// LwF's card, section 4; FedLwF.MC's invariant 6: from the second task on exactly twice the first task's bytes down.
#[test]
fn lwf_sends_the_bytes_of_its_card() {
    for sigmoids in [false, true] {
        let bytes = |head: HeadForm, task: usize| {
            let fedavg = FedAvg { head_form: head, ..FedAvg::default() };
            match sigmoids {
                false => on_cifar100(task, WireForm::Full, Lwf { fedavg, ..Lwf::default() }),
                true => {
                    let method = FedLwfMc { fedavg, ..FedLwfMc::default() };
                    on_cifar100(task, WireForm::Full, method)
                }
            }
        };
        let (model, up) = (343_502_224, 343_502_228);
        assert_eq!(bytes(HeadForm::Fixed, 1).bytes(), (model, up));
        for task in [2, 10] {
            let exchanged = bytes(HeadForm::Fixed, task);
            assert_eq!(exchanged.bytes(), (2 * model, up));
            assert_eq!(payload(&exchanged.down), model, "where the teacher is cached");
        }
        assert_eq!(bytes(HeadForm::Growing, 1).bytes(), (343_225_384, 343_225_388));
        // The teacher has the rows of earlier tasks only.
        assert_eq!(bytes(HeadForm::Growing, 10).bytes(), (2 * model - 4 * 10 * 769, up));
    }
}

/// L2P's keys go up where something pulls them, and always where all travels.
#[test]
fn l2p_sends_keys_back_that_something_pulls() {
    let up = |form: WireForm, pull_weight: f64| {
        let l2p = L2p { pool: 10, prompt_len: 5, pull_weight, ..L2p::default() };
        payload(&on_cifar100(1, form, l2p).up)
    };
    assert_eq!(up(WireForm::Lean, 0.5) - up(WireForm::Lean, 0.0), 4 * 10 * 768);
    assert_eq!(up(WireForm::Full, 0.5), up(WireForm::Full, 0.0));
}

/// FedProto's card, section 4: prototypes travel down from a task's second round on, and up in each.
#[test]
fn fedproto_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, round: u32, task: usize, weight: f64| {
        let fedavg = FedAvg { head_form: head, ..FedProto::default().fedavg };
        let method = FedProto { fedavg, weight, ..FedProto::default() };
        in_round(round, task, WireForm::Full, method).bytes()
    };
    assert_eq!(bytes(HeadForm::Fixed, 0, 10, 0.1), (343_502_224, 343_532_988));
    for round in [1, 4] {
        assert_eq!(bytes(HeadForm::Fixed, round, 10, 0.1), (343_532_944, 343_532_988));
        assert_eq!(bytes(HeadForm::Growing, round, 1, 0.1), (343_256_104, 343_256_148));
        assert_eq!(bytes(HeadForm::Fixed, round, 10, 0.0), (343_502_224, 343_502_228));
    }
}

/// CCVR's card, section 4.
#[test]
fn ccvr_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, task: usize, covariance: CovarianceForm| {
        let fedavg = FedAvg { head_form: head, ..FedAvg::default() };
        let method = Ccvr { fedavg, covariance, ..Ccvr::default() };
        on_cifar100(task, WireForm::Full, method).bytes()
    };
    use CovarianceForm::{Diagonal, Full};
    assert_eq!(bytes(HeadForm::Fixed, 10, Diagonal), (343_502_224, 343_563_708));
    assert_eq!(bytes(HeadForm::Growing, 1, Diagonal), (343_225_384, 343_286_868));
    assert_eq!(bytes(HeadForm::Fixed, 10, Full).1, 343_502_228 + 11_842_600);
    let mut none = Ccvr::default();
    none.calibration.over = Rebalance::None;
    assert_eq!(on_cifar100(1, WireForm::Full, none).bytes(), (343_502_224, 343_502_228));
}

/// EWC card, section 4. (The count with a Fisher, four bytes, is not in the card, which divides by the samples of
/// those who take part.)
#[test]
fn ewc_sends_the_bytes_of_its_card() {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let form = WireForm::Full;
    let model = ModelFacts {
        backbone: vit.into(),
        classes: 100,
        tasks: 10,
        clients: 1,
        form,
        auxiliary: None,
    };
    let task_sequence =
        TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let method = built(Ewc::default(), &model);
    let bytes = |task: usize, phase: usize| {
        let view = &task_sequence.tasks[task - 1];
        let counts = ClassCounts::new();
        let (model, stage, counts) = (&model, view.task, &counts);
        let facts = ExchangeFacts { stage, phase, ..first_exchange(model, view, counts) };
        let (download, upload) = (
            method.message_spec(MessageKind::Download, &facts),
            method.message_spec(MessageKind::Upload, &facts),
        );
        let assets: u64 = download.assets.iter().map(|asset| payload(&asset.body)).sum();
        (payload(&download.body()) + assets, payload(&upload.body()))
    };
    assert_eq!(bytes(1, 0), (343_502_224, 343_502_228));
    assert_eq!(bytes(10, 0), (1_030_506_672, 343_502_228));
    assert_eq!(bytes(10, 1), (343_502_224, 343_502_224 + 4));
}

/// SCAFFOLD, invariant 7, FedDC, invariant 8, and GradMA, invariant 7: twice FedAvg's bytes of what trains, or
/// FedAvg's.
#[test]
fn controlled_methods_send_the_bytes_of_their_cards() {
    let bytes = |method: &dyn Fn(&ModelFacts) -> Exchanged, model: &ModelFacts| {
        let shape = method(model);
        (payload(&shape.down), payload(&shape.up))
    };
    let of = |keeper: Keeper| {
        let keeping = VectorKeeping { keeper, ..VectorKeeping::default() };
        let scaffold = move |model: &ModelFacts| {
            on_model(model, 1, Scaffold { keeping, ..Scaffold::default() })
        };
        let feddc =
            move |model: &ModelFacts| on_model(model, 1, FedDc { keeping, ..FedDc::default() });
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
        let MemoryFootprint { server, client } = method.profile().memory_footprint.unwrap();
        (server / all, client / all)
    };
    assert_eq!(held(built(Scaffold::default(), &vit)), (2, 1));
    assert_eq!(held(built(FedDc::default(), &vit)), (3, 2));
    let keeping = VectorKeeping { keeper: Keeper::Server, ..VectorKeeping::default() };
    let by_server = Scaffold { keeping, ..Scaffold::default() };
    assert_eq!(held(built(by_server, &vit)), (102, 0));
    let by_server = FedDc { keeping, ..FedDc::default() };
    assert_eq!(held(built(by_server, &vit)), (203, 0));
    assert_eq!(held(built(GradMa { memory_clients: 30, ..GradMa::default() }, &vit)), (32, 0));
    assert_eq!(held(built(GradMa { memory_clients: 300, ..GradMa::default() }, &vit)), (102, 0));
}

/// MFCL card, section 4: a model of 44.88 MB both ways and, once per task, the old one and a generator of 33.70 MB.
#[test]
fn mfcl_sends_the_bytes_of_its_card() {
    let resnet = cifar100(BackboneConfig::ResNet(Default::default()), WireForm::Full);
    let moments = 4 * (9_600 + 20);
    let model = |rows: u64| 4 * (11_168_832 + 513 * rows) + moments;
    // Eight running moments of norms of 128, 128, 64 and 3 channels.
    let generator = 4 * (8_423_939 + 2 * (128 + 128 + 64 + 3));
    let first = on_model(&resnet, 1, Mfcl::default());
    assert_eq!((payload(&first.down), payload(&first.up)), (model(10), model(10) + 4));
    assert!(first.assets.is_empty(), "nothing is replayed in the first task");
    let last = on_model(&resnet, 10, Mfcl::default());
    assert_eq!((payload(&last.down), payload(&last.up)), (model(100), model(100) + 4));
    let assets: Vec<u64> = last.assets.iter().map(payload).collect();
    assert_eq!(assets, [model(90), generator]);
    let mb = |bytes: u64| (bytes as f64 / 1e4).round() / 100.0;
    // The card's 44.88 MB are the model without its running moments.
    assert_eq!((mb(model(100) - moments), mb(generator)), (44.88, 33.7));
    let tiny = Mfcl {
        generator: GeneratorSettings { upsamplings: 3, ..Mfcl::default().generator },
        ..Mfcl::default()
    };
    // Images of 32 pixels begin at 4 x 4: a quarter of the linear layer, and one more convolution.
    let fewer = (1_000 + 1) * 128 * 48;
    let more = 128 * 128 * 9 + 128 + 4 * 128;
    assert_eq!(payload(&on_model(&resnet, 2, tiny).assets[1]), generator + 4 * more - 4 * fewer);
    let plain = Mfcl { ft_weight: 0.0, kd_weight: 0.0, ..Mfcl::default() };
    assert!(on_model(&resnet, 10, plain).assets.is_empty());
}

/// LANDER card, section 4 and invariant 6: STSA's table 5 prints 79,047.9 MiB for nine tasks of 100 rounds, both ways,
/// with 10,496 images of 3,072 bytes each.
#[test]
fn lander_sends_the_bytes_of_stsa_s_table() {
    let resnet = cifar100(BackboneConfig::ResNet(Default::default()), WireForm::Full);
    let moments = 4 * (9_600 + 20);
    let model = |rows: u64| 4 * (11_168_832 + 262_656 + 513 * rows) + moments;
    let first = on_model(&resnet, 1, Lander::default());
    // In addition to the sample count two numbers of losses.
    assert_eq!((payload(&first.down), payload(&first.up)), (model(10), model(10) + 4 + 16));
    assert!(first.assets.is_empty(), "nothing is replayed in the first task");
    let mut total = 0;
    for task in 2..=10 {
        let shape = on_model(&resnet, task, Lander::default());
        let assets: Vec<u64> = shape.assets.iter().map(payload).collect();
        assert_eq!(assets, [model(10 * (task as u64 - 1)), 10_496 * 3_072]);
        // The old model is the last download of the task before, which the table does not count again.
        total += 100 * (payload(&shape.down) + payload(&shape.up)) + assets[1];
    }
    let mib = total as f64 / f64::from(1 << 20);
    assert!((79_047.8..=79_048.1).contains(&mib), "{mib}");
    let plain = Lander { pre_weight: 0.0, ..Lander::default() };
    assert!(on_model(&resnet, 10, plain).assets.is_empty());
}

/// TARGET card, section 4: on ViT-B/16 a model of 343,502,224 bytes each way, up with the sample count; from the second
/// task on the old model and 480 images of 150,528 bytes in the benchmark. On CIFAR-100 the release makes 2,560 images.
#[test]
fn target_sends_the_bytes_of_its_card() {
    let vit = cifar100(VitConfig::preset("vit-base-patch16-224").unwrap().into(), WireForm::Full);
    let fedavg = TargetMethod::default().fedavg;
    let mut method = TargetMethod {
        fedavg: FedAvg { head_form: HeadForm::Fixed, ..fedavg },
        ..TargetMethod::default()
    };
    (method.synthesis_rounds, method.synthesis.batch) = (30, 16);
    let first = on_model(&vit, 1, method.clone());
    assert_eq!((payload(&first.down), payload(&first.up)), (343_502_224, 343_502_228));
    assert!(first.assets.is_empty(), "nothing is replayed in the first task");
    let last = on_model(&vit, 10, method.clone());
    let assets: Vec<u64> = last.assets.iter().map(payload).collect();
    assert_eq!(assets, [343_502_224, 72_253_440]);
    let growing = on_model(&vit, 1, TargetMethod::default());
    assert_eq!((payload(&growing.down), payload(&growing.up)), (343_225_384, 343_225_388));
    let resnet = cifar100(BackboneConfig::ResNet(Default::default()), WireForm::Full);
    let images = |method: TargetMethod| payload(&on_model(&resnet, 2, method).assets[1]);
    assert_eq!(images(TargetMethod::default()), 2_560 * 3_072);
    let more = TargetMethod { synthesis_rounds: 200, ..TargetMethod::default() };
    assert_eq!(images(more), 8_000 * 3_072, "those that are replayed, of 51,200");
    let plain = TargetMethod { kd_weight: 0.0, ..TargetMethod::default() };
    assert!(on_model(&resnet, 10, plain).assets.is_empty());
}

/// STSA card, section 4: 1,189,632 adapter parameters and a head of 10 x 768 + 1, each way; up with the
/// sample count.
#[test]
fn adapters_send_the_bytes_of_their_card() {
    let shape = on_cifar100(1, WireForm::Full, adapters());
    assert_eq!((payload(&shape.down), payload(&shape.up)), (4_789_252, 4_789_256));
    let kinds = FrameSize::of_shape(&shape.up, &CodecPlan::new(Codec::F32)).kinds;
    assert_eq!((kinds.get(Kind::Weights).0, kinds.get(Kind::Head).0), (4 * 1_189_632, 4 * 7_681));
}

#[test]
fn kinds_say_what_the_bytes_are_for() {
    let shape = on_cifar100(1, WireForm::Full, Hgp::default());
    let kinds = FrameSize::of_shape(&shape.up, &CodecPlan::new(Codec::F32)).kinds;
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
                let method = small(|c| (c.head_form, c.covariance) = (head, covariance));
                let method = built(method, &facts);
                let run =
                    Engine::new(method, facts, run_context(3, ClassPermutation::Native)).run(2, 1);
                assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
            }
        }
    }
}

#[test]
fn lean_and_growing_messages_change_no_result() {
    let run = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let method = built(small(|c| c.head_form = head), &facts);
        Engine::new(method, facts, run_context(3, ClassPermutation::Native))
            .run(2, 2)
            .server
            .save()
            .digest()
    };
    let full = run(WireForm::Full, HeadForm::Fixed);
    assert_eq!(run(WireForm::Lean, HeadForm::Fixed), full);
    assert_eq!(run(WireForm::Full, HeadForm::Growing), full);
    assert_eq!(run(WireForm::Lean, HeadForm::Growing), full);
}

/// PILoRA card, section 4; up with the sample count and a count for each of ten classes.
#[test]
fn pilora_sends_the_bytes_of_its_card() {
    let bytes = |compete: Compete, task: usize| {
        let method = Pilora { compete, ..Pilora::default() };
        let shape = on_cifar100(task, WireForm::Lean, method);
        (payload(&shape.down), payload(&shape.up))
    };
    let up = 110_592 + 4 + 40;
    assert_eq!(bytes(Compete::Seen, 1), (79_872, up));
    assert_eq!(bytes(Compete::All, 1), (356_352, up));
    for compete in [Compete::Seen, Compete::All] {
        assert_eq!(bytes(compete, 10), (798_720, up));
    }
    let shape = on_cifar100(1, WireForm::Lean, Pilora::default());
    let kinds = FrameSize::of_shape(&shape.up, &CodecPlan::new(Codec::F32)).kinds;
    let of = |kind| kinds.get(kind).0;
    assert_eq!((of(Kind::Weights), of(Kind::Head)), (4 * 12_288, 4 * 7_680));
}

/// RegMean card, section 4.
#[test]
fn regmean_sends_the_bytes_of_its_card() {
    let bytes = |change: &dyn Fn(&mut RegMean), task: usize| {
        let mut method = RegMean::default();
        change(&mut method);
        let shape = on_cifar100(task, WireForm::Full, method);
        (payload(&shape.down), payload(&shape.up))
    };
    assert_eq!(bytes(&|_| (), 10), (343_502_224, 883_781_012));
    assert_eq!(bytes(&|own| own.statistics.symmetric = true, 1), (343_502_224, 613_772_180));
    let growing = bytes(&|own| own.fedavg.head_form = HeadForm::Growing, 1);
    assert_eq!(growing, (343_502_224 - 276_840, 883_781_012 - 276_840));
    assert_eq!(bytes(&|own| own.fedavg.head_form = HeadForm::Growing, 10), bytes(&|_| (), 10));
    let diagonal = |own: &mut RegMean| {
        (own.statistics.gamma_backbone, own.statistics.gamma_head) = (0.0, 0.0);
    };
    assert_eq!(bytes(&diagonal, 1).1, 343_502_224 + 4 + 4 * 65_280);
    // The server holds the parameters and, in f64, of each layer the moments and their product with its weights.
    let vit = cifar100(VitConfig::preset("vit-base").unwrap().into(), WireForm::Full);
    let held = |method: RegMean| built(method, &vit).profile().memory_footprint.unwrap();
    let block = [(768, 2_304), (768, 768), (768, 3_072), (3_072, 768)];
    let layers = || std::iter::repeat_n(block, 12).flatten().chain([(768, 100)]);
    let products: u64 = layers().map(|(inputs, outputs)| inputs * outputs).sum();
    let triangles: u64 = layers().map(|(inputs, _)| inputs * (inputs + 1) / 2).sum();
    let inputs: u64 = layers().map(|(inputs, _)| inputs).sum();
    let full = held(RegMean::default());
    assert_eq!((full.server, full.client), (343_502_224 + 8 * (products + triangles), 0));
    let mut of_inputs = RegMean::default();
    diagonal(&mut of_inputs);
    assert_eq!(held(of_inputs).server, 343_502_224 + 8 * (products + inputs));
}

/// LoRM card, section 4: by which factor a round trains; of earlier tasks their pairs; and at a task's end the moments
/// of the blocks.
#[test]
fn lorm_sends_the_bytes_of_its_card() {
    let of = |rank: u32, round: u32, task: usize| {
        let shape = in_round(round, task, WireForm::Full, Lorm { rank, ..Lorm::default() });
        let assets = shape.assets.iter().map(payload).sum::<u64>();
        (payload(&shape.down), assets, payload(&shape.up))
    };
    assert_eq!(of(1, 0, 1), (897_424, 0, 3_256_724));
    assert_eq!(of(1, 1, 1), (897_424, 0, 3_182_996));
    assert_eq!(of(1, 2, 10), (897_424, 5_308_416, 3_256_724));
    assert_eq!(of(16, 0, 10), (9_744_784, 84_934_656, 8_233_364));
    assert_eq!(of(16, 3, 10).2, 7_053_716);
    // A growing head has 90 rows less in the first task; whole matrices of the blocks are 538 MB.
    let with = |change: &dyn Fn(&mut Lorm)| {
        let mut method = Lorm { rank: 1, ..Lorm::default() };
        change(&mut method);
        let shape = in_round(0, 1, WireForm::Full, method);
        (payload(&shape.down), payload(&shape.up))
    };
    let growing = with(&|own| own.head_form = HeadForm::Growing);
    assert_eq!(growing, (897_424 - 276_840, 3_256_724 - 276_840));
    let whole = with(&|own| own.statistics.gamma_backbone = 1.0);
    assert_eq!(whole, (897_424, 3_256_724 + 4 * (134_479_872 - 64_512)));
    let vit = cifar100(VitConfig::preset("vit-base").unwrap().into(), WireForm::Full);
    let method = built(Lorm::default(), &vit);
    let view = Arc::new(fedcast::data::TaskView {
        task: fedcast::quantity::TaskId(1),
        rows: 10..20,
        classes: (10..20).collect(),
    });
    let counts: ClassCounts = (10..20).map(|row| (row, 50)).collect();
    let facts = ExchangeFacts { phase: 1, ..first_exchange(&vit, &view, &counts) };
    assert_eq!(payload(&method.message_spec(MessageKind::Upload, &facts).body()), 258_048);
    // The server keeps no network: pairs of ten tasks and of now, and the head; A's products of ten tasks and the
    // blocks' moments; the moments, the pair and the head of a round.
    let (inputs, pair, head) = (64_512, 147_456, 76_900);
    let of_round = inputs + 768 * 769 / 2 + 16 * pair + head;
    let server = 4 * (11 * 16 * pair + head) + 8 * (10 * 16 * inputs + inputs + of_round);
    let held =
        built(Lorm { rank: 16, ..Lorm::default() }, &vit).profile().memory_footprint.unwrap();
    assert_eq!((held.server, held.client), (server, 0));
}
