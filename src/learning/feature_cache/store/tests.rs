use super::*;
use crate::data::{Kernel, Stacked, Step, digits};
use crate::learning::feature_cache::{BLOCK, FeatureCache, Storage};
use crate::model::{Adaptation, FROZEN_BATCH, Vit, VitConfig};
use crate::numerics::streams::{Domain, StreamKey};

fn backbone(seed: u64) -> Arc<Backbone> {
    let config = VitConfig {
        image: 8,
        patch: 4,
        channels: 1,
        dim: 12,
        depth: 2,
        heads: 3,
        mlp: 20,
        ..VitConfig::default()
    };
    let weights = Vit::initial_parameters(&config, StreamKey::new(seed, Domain::Init));
    Arc::new(Vit::from_parameters(config, &weights).unwrap().into())
}

fn split() -> Arc<Split> {
    digits::embedded().unwrap().train
}

fn plain() -> Arc<Transform> {
    Arc::default()
}

fn store(cache: &FeatureCache, backbone: &Arc<Backbone>, part: FrozenPart) -> Arc<FeatureStore> {
    cache.store(backbone, &split(), &plain(), part).unwrap().unwrap()
}

fn fill(store: &FeatureStore, backbone: &Backbone, samples: &[u32]) -> Result<(), LearningError> {
    store.fill(backbone, &Device::Cpu, samples)
}

fn row(store: &FeatureStore, sample: u32) -> Vec<f32> {
    let mut out = Vec::new();
    store.read(sample, &mut out).unwrap();
    out
}

/// Features of the block around a sample, computed by hand.
fn by_hand(backbone: &Backbone, sample: u32) -> (Vec<u32>, Vec<Vec<f32>>) {
    let split = split();
    let class = &split.by_class()[split.labels()[sample as usize] as usize];
    let block = class.chunks(BLOCK).find(|block| block.contains(&sample)).unwrap().to_vec();
    let Stacked { pixels, shape } = split.pixels(&plain(), &block).unwrap();
    let pixels = Tensor::from_vec(pixels, shape.as_slice(), &Device::Cpu).unwrap();
    let features = backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
    (block, features.to_vec2().unwrap())
}

#[test]
fn rows_are_those_of_the_canonical_block_to_the_bit() {
    let (backbone, cache) = (backbone(1), FeatureCache::default());
    let store = store(&cache, &backbone, FrozenPart::Whole);
    let mut samples = 0;
    for sample in [700, 3, 1000] {
        fill(&store, &backbone, &[sample]).unwrap();
        let (block, features) = by_hand(&backbone, sample);
        samples += block.len() as u64;
        for (sample, feature) in block.into_iter().zip(features) {
            assert_eq!(row(&store, sample), feature);
        }
    }
    let counts = store.counts();
    assert_eq!((counts.computed, counts.read, counts.loaded), (samples, samples, 0));
}

#[test]
fn streams_below_a_block_continue_to_the_features() {
    let (backbone, cache) = (backbone(1), FeatureCache::new(Storage::Memory, 1 << 30, true));
    let store = store(&cache, &backbone, FrozenPart::Below(1));
    fill(&store, &backbone, &[3]).unwrap();
    assert_eq!(store.shape(), [5, 12]);
    let (block, features) = by_hand(&backbone, 3);
    let rows: Vec<f32> = block.iter().flat_map(|sample| row(&store, *sample)).collect();
    let tokens = Tensor::from_vec(rows, (block.len(), 5, 12), &Device::Cpu).unwrap();
    assert_eq!(block.len() % FROZEN_BATCH, 0);
    for (first, features) in (0..).step_by(FROZEN_BATCH).zip(features.chunks(FROZEN_BATCH)) {
        let tokens = tokens.narrow(0, first, FROZEN_BATCH).unwrap();
        let continued = backbone.features_from(&tokens, 1, &Adaptation::none()).unwrap();
        assert_eq!(continued.to_vec2::<f32>().unwrap(), features);
    }
}

#[test]
fn threads_that_ask_for_the_same_blocks_share_the_work() {
    let (backbone, cache) = (backbone(1), FeatureCache::default());
    let store = store(&cache, &backbone, FrozenPart::Whole);
    let all: Vec<u32> = (0..split().len() as u32).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| fill(&store, &backbone, &all).unwrap());
        }
    });
    assert_eq!(store.counts().computed, all.len() as u64);
    fill(&store, &backbone, &all).unwrap();
    assert_eq!(store.counts().computed, all.len() as u64);
}

#[test]
fn a_failure_reaches_all_and_blocks_none() {
    let (backbone, cache) = (backbone(1), FeatureCache::default());
    let large = Transform {
        steps: vec![Step::Resize { side: 16, kernel: Kernel::Pillow }],
        ..Transform::default()
    };
    let store =
        cache.store(&backbone, &split(), &Arc::new(large), FrozenPart::Whole).unwrap().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert!(
                    fill(&store, &backbone, &[0, 500]).unwrap_err().to_string().contains("16 x 16")
                )
            });
        }
    });
    assert!(store.busy().is_empty());
    assert!(store.read(0, &mut Vec::new()).is_err());
}

#[test]
fn nothing_is_kept_of_what_draws_of_pixels_or_of_too_much() {
    let (vit, split) = (backbone(1), split());
    let made = |cache: &FeatureCache, backbone: &Arc<Backbone>, transform: Transform, part| {
        cache.store(backbone, &split, &Arc::new(transform), part).unwrap().is_some()
    };
    let flip = Transform { steps: vec![Step::Flip { probability: 0.5 }], ..Transform::default() };
    let (cache, plain) = (FeatureCache::default(), Transform::default());
    let whole = FrozenPart::Whole;
    assert!(made(&cache, &vit, plain.clone(), whole));
    assert!(!made(&cache, &vit, flip, whole));
    assert!(!made(&cache, &vit, plain.clone(), FrozenPart::Nothing));
    let no_tokens = FeatureCache::new(Storage::Memory, 1 << 30, false);
    assert!(made(&cache, &vit, plain.clone(), FrozenPart::Below(1)));
    assert!(!made(&no_tokens, &vit, plain.clone(), FrozenPart::Below(1)));
    let pixels = crate::model::PixelShape { channels: 1, image: 8 };
    assert!(!made(&cache, &Arc::new(Backbone::Pixels(pixels)), plain.clone(), whole));
    assert!(!made(&FeatureCache::new(Storage::Off, 1 << 30, true), &vit, plain.clone(), whole));
    let needed = (4 * 12 * split.len()) as u64;
    assert!(made(&FeatureCache::new(Storage::Memory, needed, true), &vit, plain.clone(), whole));
    assert!(!made(&FeatureCache::new(Storage::Memory, needed - 1, true), &vit, plain, whole));
}

fn in_folder(folder: &std::path::Path, program: &str) -> FeatureCache {
    let place = Storage::File { folder: folder.to_owned(), program: program.to_owned() };
    FeatureCache::new(place, 1 << 30, false)
}

fn files(folder: &std::path::Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".features")).count()
}

#[test]
fn a_later_run_reads_what_an_earlier_one_computed() {
    let folder = tempfile::tempdir().unwrap();
    let backbone = backbone(1);
    let first = store(&in_folder(folder.path(), "here"), &backbone, FrozenPart::Whole);
    fill(&first, &backbone, &[3, 4, 700]).unwrap();
    let second = store(&in_folder(folder.path(), "here"), &backbone, FrozenPart::Whole);
    fill(&second, &backbone, &[3, 4, 700]).unwrap();
    let counts = second.counts();
    assert_eq!((counts.computed, counts.loaded), (0, first.counts().computed));
    let memory = store(&FeatureCache::default(), &backbone, FrozenPart::Whole);
    fill(&memory, &backbone, &[3]).unwrap();
    assert_eq!(row(&second, 3), row(&memory, 3));
    fill(&second, &backbone, &[1200]).unwrap();
    let block = by_hand(&backbone, 1200).0.len() as u64;
    assert_eq!((second.counts().computed, files(folder.path())), (block, 1));
}

#[test]
fn other_weights_transforms_parts_and_machines_are_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (backbone(1), backbone(2));
    let normalized =
        Transform { normalization: crate::data::Normalization::Half, ..Transform::default() };
    let open = |program: &str, backbone: &Arc<Backbone>, transform: &Transform| {
        let transform = Arc::new(transform.clone());
        let cache = in_folder(folder.path(), program);
        cache.store(backbone, &split(), &transform, FrozenPart::Whole).unwrap();
        files(folder.path())
    };
    assert_eq!(open("here", &one, &plain()), 1);
    assert_eq!(open("here", &one, &plain()), 1);
    assert_eq!(open("here", &other, &plain()), 2);
    assert_eq!(open("here", &one, &normalized), 3);
    assert_eq!(open("there", &one, &plain()), 4);
    let few = Arc::new(split().first_of_each_class(5).unwrap());
    let cache = in_folder(folder.path(), "here");
    cache.store(&one, &few, &plain(), FrozenPart::Whole).unwrap();
    assert_eq!(files(folder.path()), 5);
}

#[test]
fn damaged_blocks_are_computed_again_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let backbone = backbone(1);
    let good = store(&in_folder(folder.path(), "here"), &backbone, FrozenPart::Whole);
    fill(&good, &backbone, &[3]).unwrap();
    let expected = row(&good, 3);
    let mut path = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path());
    let path = path.find(|p| p.extension().is_some_and(|e| e == "features")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // Some value of the only block that is written.
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let cache = in_folder(folder.path(), "here");
    let again = store(&cache, &backbone, FrozenPart::Whole);
    fill(&again, &backbone, &[3]).unwrap();
    let (counts, block) = (again.counts(), good.counts().computed);
    assert_eq!((counts.damaged, counts.computed, counts.loaded), (block, block, 0));
    assert_eq!(row(&again, 3), expected);
    assert!(cache.notices()[0].contains("were damaged"), "{:?}", cache.notices());
}

/// A repeated request returns the existing store; a request for anything else does not.
#[test]
fn what_was_asked_for_before_is_lent_again_and_nothing_else() {
    let (one, other, cache) = (backbone(1), backbone(2), FeatureCache::default());
    let halves = || {
        let normalization = crate::data::Normalization::Half;
        Arc::new(Transform { normalization, ..Transform::default() })
    };
    let (split, few) = (split(), Arc::new(split().first_of_each_class(5).unwrap()));
    let (whole, below) = (FrozenPart::Whole, FrozenPart::Below(1));
    let ask = |backbone: &Arc<Backbone>, split: &Arc<Split>, transform, part| {
        cache.store(backbone, split, &transform, part).unwrap().unwrap()
    };
    let first = ask(&one, &split, plain(), whole);
    let others = [
        ask(&other, &split, plain(), whole),
        ask(&one, &few, plain(), whole),
        ask(&one, &split, halves(), whole),
        ask(&one, &split, plain(), below),
    ];
    assert!(others.iter().all(|other| !Arc::ptr_eq(other, &first)));
    assert!(Arc::ptr_eq(&ask(&one, &split, plain(), whole), &first));
    assert!(Arc::ptr_eq(&ask(&one, &split, halves(), whole), &others[2]));
    assert!(Arc::ptr_eq(&ask(&other, &split, plain(), whole), &others[0]));
}
