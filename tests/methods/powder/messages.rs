//! Sizes of messages, and rejected uploads.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, TaskView};
use fedcast::methods::powder::{
    Attention, ClientTaskDownload, Downlink, Powder, PowderConfig, SharedTable, Similarity,
    SimilarityKeys,
};
use fedcast::model::VitConfig;
use fedcast::policy::{
    ClassCounts, ExchangeFacts, Message, MessageKind, MessageSpec, Method, ModelFacts, Stage,
    UploadSize, WireForm,
};
use fedcast::quantity::TaskId;
use fedcast::wire::{BodyShape, Codec, CodecPlan, FrameSize, Kind};

use super::{powder_with, small, task};
use crate::engine;
use crate::toys::watched::Engine;
use crate::toys::{facts, first_exchange, run_context};

/// Shapes of download and upload.
pub struct Sizes {
    pub down: BodyShape,
    pub up: MessageSpec,
}

/// Exchange of a phase of the first stage on ViT-B/16, for a client task of this number of classes among 25.
pub fn on_imagenet_r<M: Method>(
    classes: usize,
    phase: usize,
    method: impl Fn(&ModelFacts) -> M,
) -> Sizes {
    in_stage(0, (classes, phase), method)
}

/// Returns the exchange of any stage.
fn in_stage<M: Method>(
    stage: u16,
    (classes, phase): (usize, usize),
    method: impl Fn(&ModelFacts) -> M,
) -> Sizes {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let form = WireForm::Full;
    let model = ModelFacts {
        backbone: vit.into(),
        classes: 25 * classes,
        tasks: 5,
        clients: 5,
        form,
        auxiliary: None,
    };
    let rows = classes..2 * classes;
    let ids = rows.clone().map(|row| row as u32).collect();
    let view = Arc::new(TaskView { task: TaskId(0), rows, classes: ids });
    let counts = ClassCounts::new();
    let facts =
        ExchangeFacts { stage: TaskId(stage), phase, ..first_exchange(&model, &view, &counts) };
    let method = method(&model);
    Sizes {
        down: method.message_spec(MessageKind::Download, &facts).body(),
        up: method.message_spec(MessageKind::Upload, &facts),
    }
}

pub fn payload(shape: &BodyShape) -> u64 {
    FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0
}

/// Card, section 4 and invariant 6.
#[test]
fn powder_sends_the_bytes_of_its_card() {
    let method = |facts: &ModelFacts| Powder::new(PowderConfig::default(), facts);
    let of = |classes, phase| on_imagenet_r(classes, phase, method);
    assert_eq!(payload(&of(20, 1).up.body()), 983_120); // 245,780 floats
    assert_eq!(payload(&of(35, 2).up.body()), 1_029_260);
    // The client task as it is, with the similarities of its classes.
    assert_eq!(payload(&of(20, 1).down), 983_120 + 4 * 20);
    // And three sums over other client tasks, with two shares each.
    let needed = 4 * (4 * 230_400 + 15_380);
    assert_eq!(payload(&of(20, 2).down), needed + 4 * 20 + 4 * 2 * 3);
    assert_eq!(of(20, 2).up.size, UploadSize::Static);
    // All 25 client tasks: 24.58 MB; three rows of W with them.
    let table = |facts: &ModelFacts| {
        let config = PowderConfig { downlink: Downlink::Table, ..PowderConfig::default() };
        Powder::new(config, facts)
    };
    let download = on_imagenet_r(20, 2, table).down;
    assert_eq!(payload(&download), 24_578_000 + 4 * 20 + 4 + 3 * 25 * 8);
    // Keys and attention of the five client tasks of the first stage, and mean scores by class.
    let looks = of(20, 3);
    assert_eq!(payload(&looks.down), 5 * 4 * 3 * 10 * 2 * 768);
    // In the third stage every client may have moved twice.
    assert_eq!(payload(&in_stage(2, (20, 3), method).down), 3 * payload(&looks.down));
    assert_eq!(payload(&looks.up.body()), 4 * (20 * 3 * 5 * 10 + 20));
    assert_eq!(looks.up.size, UploadSize::FromValues);
    // All of that has its own kind, for the release sends nothing for it.
    let kinds = |body: &BodyShape| body.sections.iter().map(|of| of.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&looks.down), [Kind::Similarity]);
    assert_eq!(kinds(&looks.up.body()), [Kind::Similarity]);
    assert!(!kinds(&of(20, 2).down).contains(&Kind::Similarity));
    // A server that sees images needs no such phase.
    let rounds = |similarity, task: u16| {
        let config = PowderConfig { similarity, ..PowderConfig::default() };
        let view = Arc::new(TaskView { task: TaskId(task), rows: 0..2, classes: vec![0, 1] });
        let phases = Powder::new(config, &facts()).phases(&Stage::of(view, 5), 3);
        phases.iter().map(|phase| phase.rounds).collect::<Vec<_>>()
    };
    assert_eq!(rounds(Similarity::Clients, 0), [1, 0, 3, 1]);
    assert_eq!(rounds(Similarity::Clients, 4), [1, 0, 3, 0]);
    assert_eq!(rounds(Similarity::Server, 0), [0, 0, 3, 0]);
}

#[test]
fn messages_that_are_something_else_are_refused() {
    let ctx = run_context(3, ClassPermutation::Native);
    let mut run = Engine::new(powder_with(|_| ()), facts(), ctx);
    task(&mut run, 0, 1, 1);
    let download = run.exchanges.iter().find(|exchange| exchange.phase == "train").unwrap();
    let sent = Message::from_body(&download.down, &[]).unwrap();
    assert!(ClientTaskDownload::read(&sent).is_ok() && SimilarityKeys::read(&sent).is_err());
    let mut longer = sent.clone();
    longer.control.push(7);
    assert!(ClientTaskDownload::read(&longer).is_err());
    assert!(ClientTaskDownload::read(&Message { control: Vec::new(), ..sent }).is_err());
}

/// A table has as many client tasks as its heads have rows for.
#[test]
fn a_client_task_beyond_the_table_is_refused() {
    let mut run = engine(powder_with(|c| c.downlink = Downlink::Table), 3);
    task(&mut run, 0, 1, 1);
    let train = run.exchanges.iter().find(|exchange| exchange.phase == "train").unwrap();
    let sent = ClientTaskDownload::read(&Message::from_body(&train.down, &[]).unwrap()).unwrap();
    let shape = Powder::new(small(), &facts()).shape;
    let client_tasks = sent.table.as_ref().unwrap().weights.len() / shape.top;
    let at = |client_task: usize| {
        let table = sent
            .table
            .clone()
            .map(|table| SharedTable { client_task: client_task as u32, ..table });
        ClientTaskDownload::read(
            &ClientTaskDownload { table, ..sent.clone() }.write(&shape).unwrap(),
        )
    };
    assert!(at(client_tasks - 1).is_ok() && at(client_tasks).is_err());
}

/// Attention is as long as what was learned; what does not fit the classes of its client task is rejected, and nothing
/// else is.
#[test]
fn attention_of_another_width_is_refused() {
    let method = powder_with(|_| ());
    let mut run = engine(Arc::clone(&method), 3);
    task(&mut run, 0, 2, 1);
    let look = run.exchanges.iter().rfind(|exchange| exchange.phase == "look").unwrap();
    let upload = Message::from_body(look.up.as_ref().unwrap(), &[]).unwrap();
    let (model, counts) = (facts(), ClassCounts::new());
    let (view, shape) = (run.view(0), Powder::new(small(), &model).shape);
    let transform = |update: &Message, phase: usize| {
        let facts = ExchangeFacts { phase, ..first_exchange(&model, &view, &counts) };
        method
            .transform_upload(&facts, &Message::default(), update.clone())
            .map_err(|error| error.to_string())
    };
    assert!(transform(&upload, 3).is_ok());
    let found = Attention::read(&upload).unwrap();
    assert_eq!(found.over, [0, 1]);
    let spoilt = Attention { over: vec![0], ..found.clone() };
    let kept = Message { control: Attention::layout(&shape, 2, &[0]).control, ..upload.clone() };
    assert_eq!(Attention::read(&kept).unwrap(), spoilt);
    let why = transform(&kept, 3).unwrap_err();
    assert_eq!(why, "24 mean scores of 2 classes, where 2 classes have 6 each");
    let fewer = Attention { counts: vec![5], means: found.means[..12].to_vec(), ..found };
    assert!(transform(&fewer.write(&shape).unwrap(), 3).is_err());
    // A client task is no attention.
    let client_task = run.exchanges.iter().find(|exchange| exchange.phase == "train").unwrap();
    let client_task = Message::from_body(client_task.up.as_ref().unwrap(), &[]).unwrap();
    assert!(transform(&client_task, 1).is_ok() && transform(&client_task, 3).is_err());
}
