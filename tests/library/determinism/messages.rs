//! Codecs, assets and frames that were sent before.

use super::*;

#[test]
fn lossy_codecs_change_training_and_verify_changes_nothing() {
    let with = |coding| run(Setup { coding, ..stateful(rules()) });
    let plain = with(Coding::default());
    let verified = with(Coding { verify: true, ..Coding::default() });
    done(&verified);
    assert_eq!(plain.digests, verified.digests);
    let plan = CodecPlan::new(Codec::Int8);
    let lossy = |verify| with(Coding { down: plan.clone(), up: plan.clone(), verify });
    let (direct, through_bytes) = (lossy(false), lossy(true));
    done(&direct);
    assert_eq!(direct.digests, through_bytes.digests);
    assert_ne!(plain.digests.numbers, direct.digests.numbers);
    assert_ne!(plain.digests.events, direct.digests.events, "frames are smaller");
}

#[test]
fn assets_are_shipped_to_those_who_lack_them() {
    let shipped = |cache| {
        let ran = run(setup::<()>(Rules { cache, ..rules() }, SoftmaxFault::Asset));
        done(&ran);
        let assets = ran.entries.iter().filter(|e| match &e.event {
            Event::FrameCharged { asset: Some(name), bytes, .. } => {
                assert_eq!((name.as_str(), bytes.kinds["generator"]), ("teacher@1", 4000));
                true
            }
            _ => false,
        });
        assets.count()
    };
    assert_eq!(shipped(AssetCache::None), 60);
    assert_eq!(shipped(AssetCache::Task), 30);
    assert_eq!(shipped(AssetCache::Run), 6);
}

#[test]
fn assets_survive_codecs_and_are_not_coded() {
    let plan = CodecPlan::new(Codec::Int8);
    for verify in [false, true] {
        let coding = Coding { down: plan.clone(), up: plan.clone(), verify };
        let ran = run(Setup { coding, ..setup::<()>(rules(), SoftmaxFault::Asset) });
        done(&ran);
        assert!(ran.failures().is_empty(), "{:?}", ran.failures());
        let mut sizes = ran.entries.iter().filter_map(|e| match &e.event {
            Event::FrameCharged { asset: Some(_), bytes, .. } => Some(bytes.payload),
            _ => None,
        });
        assert!(sizes.next() == Some(4000) && sizes.all(|size| size == 4000));
    }
}

#[test]
fn the_first_of_equal_frames_in_a_round_is_no_copy() {
    let faults = FaultRules { lose_down: 0.4, ..FaultRules::default() };
    let rules = Rules { cache: AssetCache::Task, faults, ..rules() };
    let ran = run(setup::<()>(rules, SoftmaxFault::Asset));
    let mut sent = std::collections::BTreeSet::new();
    let mut copies = 0;
    let frames = ran.entries.iter().filter_map(|e| match &e.event {
        Event::FrameCharged {
            round, participant, direction: Direction::Down, copy, asset, ..
        } => Some((*round, asset.clone(), *participant, *copy)),
        _ => None,
    });
    let mut frames: Vec<_> = frames.collect();
    frames.sort_by_key(|(round, _, participant, _)| (*round, *participant));
    for (round, asset, participant, copy) in frames {
        assert_eq!(
            copy,
            !sent.insert((round, asset.clone())),
            "{asset:?} to {participant} in {round}"
        );
        copies += u32::from(copy);
    }
    assert!(copies > 0);
}

#[test]
fn an_uncharged_method_costs_nothing_and_learns_the_same() {
    let free = run(Setup { charged: false, ..stateful(rules()) });
    done(&free);
    assert_eq!(free.count("frame_charged"), 0);
    let paid = run(stateful(rules()));
    let scores = |ran: &Ran| -> Vec<_> {
        let tested = ran.entries.iter().filter(|e| e.event.name() == "evaluated");
        tested.map(|e| e.numbers.clone()).collect()
    };
    assert_eq!(scores(&free), scores(&paid));
}
