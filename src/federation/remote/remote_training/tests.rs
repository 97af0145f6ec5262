//! Members and answers there and back.

use proptest::prelude::*;

use super::super::cache_index::CacheIndex;
use super::super::packet;
use super::super::remote_job::RequestHeader;
use super::*;
use crate::federation::client::Broadcast;
use crate::federation::frames::SentDownload;
use crate::federation::rules::Rules;
use crate::federation::testing::{Remembering, participant, setup};
use crate::policy::{RoundContext, Stage};
use crate::quantity::VirtualTime;
use crate::wire::{NamedTensor, Section};

fn body(kind: Kind, meta: &[u8], bits: &[u32]) -> Body {
    let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
    let tensor = NamedTensor::f32("v", [values.len()], values).expect("fills");
    Body::new(meta.to_vec(), vec![Section::new(kind, vec![tensor])])
}

fn world() -> SimulationContext {
    let setup = setup(Rules { clients: 4, ..Rules::default() });
    let setup = crate::federation::Setup { method: Arc::new(Remembering), ..setup };
    SimulationContext::new(&setup).expect("possible")
}

fn context(simulation: &SimulationContext) -> RoundContext {
    RoundContext {
        round: Round(9),
        stage: Stage::of(Arc::clone(&simulation.task_sequence.tasks[1]), 2),
        phase: 3,
        phase_name: "estimate",
        round_in_phase: 4,
        rounds_in_phase: 6,
        run_seed: u64::MAX - 1,
    }
}

fn sent_down(message: Message) -> Arc<SentDownload> {
    let (message, bytes) = (Arc::new(message), Arc::default());
    Arc::new(SentDownload { message, bytes, assets: Vec::new(), alike: 0 })
}

/// Everything a policy sees of a member.
fn seen(member: &Member) -> impl PartialEq + std::fmt::Debug + use<> {
    let Member { participant, phase, download, state, shard, key, missed } = member;
    let assets: Vec<_> = download.assets.iter().map(|a| (a.version, a.kind, a.digest())).collect();
    let messages = (download.body().digest(), state.digest(), assets);
    (format!("{participant:?}"), *phase, messages, shard.to_vec(), *key, missed.clone())
}

prop_compose! {
    fn bits()(bits in prop::collection::vec(any::<u32>(), 0..5)) -> Vec<u32> { bits }
}

proptest! {
    #[test]
    fn members_are_the_same_there(
        (down, asset, control) in (bits(), prop::option::of(bits()), any::<[u8; 2]>()),
        states in prop::collection::vec(bits(), 1..4),
        (role, dummy_client, own) in (0u8..3, prop::option::of(0u32..9), any::<bool>()),
        missed in any::<bool>(),
    ) {
        let (simulation, mut sent, mut cache) = (world(), CacheIndex::default(), RankCache::default());
        let context = Arc::new(context(&simulation));
        let asset = asset.map(|bits| {
            Arc::new(Asset::new("teacher", 2, Kind::Generator, body(Kind::Weights, &[], &bits)))
        });
        let download = body(Kind::Statistics, &control, &down);
        let assets = asset.into_iter().collect::<Vec<_>>();
        let download = sent_down(Message::from_body(&download, &assets).expect("is one"));
        // The second remote job names what the first has brought.
        for again in [false, true] {
            let job = |(place, bits): (usize, &Vec<u32>)| {
                let mut participant = participant(&crate::federation::testing::setup(Rules::default()), place as u32);
                (participant.role, participant.dummy_client) = (Role(role), dummy_client);
                if own {
                    let view = TaskView { rows: 1..3, classes: vec![9, 4], ..(*participant.view).clone() };
                    participant.view = Arc::new(view);
                }
                let view = &simulation.task_sequence.tasks[1];
                let missed = missed.then(|| MissedTask {
                    task: view.task,
                    shard: simulation.shard(view, participant.client),
                });
                let (context, download) = (Arc::clone(&context), Arc::clone(&download));
                let (masking, closes, aggregation, charge) = (None, None, None, None);
                let broadcast =
                    Broadcast { context, participant, download, masking, closes, aggregation, charge };
                let state = body(Kind::Statistics, &[7], bits);
                let time = (VirtualTime(5), VirtualTime(5));
                TrainingJob::new(broadcast, state, missed.into_iter().collect(), time).0
            };
            let jobs: Vec<TrainingJob> = states.iter().enumerate().map(job).collect();
            let remote_job = RemoteTraining::new(Arc::new(self::world()), jobs);
            let mut packing = Packing::new(&mut sent);
            let order = remote_job.order(&mut packing).expect("travels");
            let asked = |forget| RequestHeader { ticket: 1, forget, order };
            let bytes = packing.seal(asked).expect("is small");
            let (asked, frames): (RequestHeader, _) = packet::open(bytes).expect("is one");
            let bodies = frames.read().expect("are frames");
            let brought = if again { 0 } else { 1 + assets.len() };
            prop_assert_eq!(bodies.len(), states.len() + brought);
            let JobRequest::Train(order) = asked.order else { panic!("another order") };
            prop_assert_eq!((order.round_in_phase, order.rounds_in_phase), (4, 6));
            let there = order.unpack(&simulation, &mut cache, &bodies).expect("is whole").members;
            let (_, here) = members(&simulation, remote_job.jobs);
            let seen = |members: &[Member]| members.iter().map(self::seen).collect::<Vec<_>>();
            prop_assert_eq!(seen(&there), seen(&here));
        }
    }

    #[test]
    fn remote_training_gives_the_same_update(
        (up, state, loss) in (bits(), bits(), any::<f64>()),
        fails in any::<bool>(),
    ) {
        let metrics = [("loss".to_owned(), MetricValue(loss))].into();
        let upload = Message::from_body(&body(Kind::Prototypes, &[1], &up), &[]).expect("is one");
        let outcome = match fails {
            true => Err(Failure::NonFinite("the loss".into())),
            false => Ok(Learning { upload, metrics }),
        };
        let mut frames = Vec::new();
        let state = body(Kind::Statistics, &[], &state);
        let trained = RemoteTrainingResult::new(outcome.clone(), Some(&state), &mut frames);
        let bytes = packet::seal(&[trained], &frames).expect("is small");
        let (mut trained, frames): (Vec<RemoteTrainingResult>, _) = packet::open(bytes).expect("is one");
        let bodies = frames.read().expect("are frames");
        let (read, kept) = trained.remove(0).read(&bodies).expect("is whole");
        prop_assert_eq!(kept.map(|kept| kept.digest()), (!fails).then(|| state.digest()));
        let said = |outcome: Result<Learning, Failure>| {
            outcome.map(|Learning { upload, metrics }| (upload.body().digest(), metrics))
        };
        prop_assert_eq!(said(read), said(outcome));
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(mut bytes: Vec<u8>, frames in 0u8..4) {
        if let Some(count) = bytes.get_mut(8..16) {
            count.fill(0);
            count[0] = frames;
        }
        if let Ok((_, frames)) = packet::open::<RequestHeader>(bytes) {
            let _ = frames.read();
        }
    }
}
