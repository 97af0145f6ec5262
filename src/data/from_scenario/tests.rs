use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::data::store::Store;
use crate::data::text::Tokenizer;
use crate::data::{Dataset, Jitter, Kernel, Normalization, Split, Step};
use crate::scenario::FolderLayout;
use crate::scenario::{
    AnyMethod, Crop, DataSection, DataSource, Evaluated, JitterSection, NominalSizes, Normalize,
    Scenario, SeedsSection, StatisticsTransform, StoredSize, TransformSection,
};

fn plain() -> TransformSection {
    TransformSection {
        resize: Some(256),
        squash: None,
        crop: Crop::Center,
        size: Some(224),
        padding: 0,
        scale: [0.08, 1.0],
        ratio: [0.75, 4.0 / 3.0],
        flip: 0.0,
        jitter: None,
        interpolation: Kernel::Pillow,
        normalize: Normalize::Half,
    }
}

fn digits_section() -> DataSection {
    DataSection {
        source: DataSource::Digits,
        path: None,
        subset: None,
        test_subset: None,
        validation_fraction: None,
        evaluate: Evaluated::Test,
        stored_size: StoredSize::Square(224),
        orientation: None,
        test_fraction: None,
        layout: FolderLayout::Classes,
        width: None,
        input: None,
        label: None,
        client: None,
        split: None,
        nominal: None,
        auxiliary: None,
        train: TransformSection { crop: Crop::RandomResized, flip: 0.5, ..plain() },
        test: plain(),
        statistics: StatisticsTransform::Raw,
        text: None,
        synthetic: None,
        shape: None,
    }
}

#[test]
fn nominal_sizes_are_those_of_the_data() {
    let mut section = digits_section();
    let data = Dataset::open(&section, &Tokenizer::Characters).unwrap();
    assert_eq!(nominal_class_sizes(&section), Some(data.class_sizes()));
    let sizes = section.sizes().unwrap();
    assert_eq!(sizes.train as usize, data.train.len());
    assert_eq!(sizes.test as usize, data.test.len());
    section.subset = Some(20);
    let data = Dataset::open(&section, &Tokenizer::Characters).unwrap();
    assert_eq!(data.class_sizes(), [20; 10]);
    assert_eq!(nominal_class_sizes(&section), Some(data.class_sizes()));
    section.nominal = Some(NominalSizes { classes: 4, train: 42, test: 8 });
    section.subset = None;
    assert_eq!(nominal_class_sizes(&section), Some(vec![11, 11, 10, 10]));
    // Stated sizes are those before a subset.
    section.subset = Some(5);
    assert_eq!(nominal_class_sizes(&section), Some(vec![5; 4]));
}

#[test]
fn a_test_subset_keeps_the_first_test_samples_of_every_class() {
    let open = |section: &DataSection| Dataset::open(section, &Tokenizer::Characters).unwrap();
    let all = open(&digits_section());
    let section = DataSection { test_subset: Some(3), ..digits_section() };
    let few = open(&section);
    assert_eq!(few.class_sizes(), all.class_sizes());
    for (whole, kept) in all.test.by_class().iter().zip(few.test.by_class()) {
        assert_eq!(kept.len(), 3);
        for (a, b) in whole.iter().zip(kept) {
            let (a, b) = (all.test.image(*a as usize), few.test.image(*b as usize));
            assert_eq!(a.unwrap().pixels, b.unwrap().pixels);
        }
    }
    let sizes = section.sizes().unwrap();
    assert_eq!((sizes.train as usize, sizes.test as usize), (few.train.len(), few.test.len()));
}

#[test]
fn stated_sizes_that_the_data_do_not_have_are_noted() {
    let sizes = |classes, train, test| Some(NominalSizes { classes, train, test });
    let notes = |section: &DataSection| {
        let data = Dataset::open(section, &Tokenizer::Characters).unwrap();
        data.noting_other_sizes(section).notes
    };
    let with = |nominal| DataSection { nominal, ..digits_section() };
    assert!(notes(&with(None)).is_empty() && notes(&with(sizes(10, 1433, 364))).is_empty());
    for (nominal, stated) in [
        (sizes(9, 1433, 364), "9 classes, 1433 training and 364 test samples"),
        (sizes(10, 286, 364), "10 classes, 286 training and 364 test samples"),
        (sizes(10, 1433, 73), "10 classes, 1433 training and 73 test samples"),
    ] {
        let [note] = &notes(&with(nominal))[..] else { panic!("{stated}") };
        assert!(note.contains(stated), "{note}");
        assert!(note.contains("10 classes, 1433 and 364"), "{note}");
    }
    // Classes of unlike sizes keep less than their mean.
    let few =
        DataSection { subset: Some(142), test_subset: Some(36), ..with(sizes(10, 1433, 364)) };
    assert!(notes(&few).is_empty());
}

#[test]
fn a_subset_keeps_the_first_samples_of_every_class() {
    let all = Dataset::open(&digits_section(), &Tokenizer::Characters).unwrap();
    let few =
        Dataset::open(&DataSection { subset: Some(3), ..digits_section() }, &Tokenizer::Characters)
            .unwrap();
    for class in 0..10 {
        for (a, b) in all.train.by_class()[class].iter().zip(&few.train.by_class()[class]) {
            let (a, b) = (all.train.image(*a as usize), few.train.image(*b as usize));
            assert_eq!(a.unwrap().pixels, b.unwrap().pixels);
        }
    }
    assert_eq!(few.test.len(), all.test.len());
}

#[test]
fn sections_become_the_steps_they_name() {
    let made = Transforms::from_scenario(&digits_section(), Some(3));
    let kernel = Kernel::Pillow;
    let resize = |side| Step::Resize { side, kernel };
    assert_eq!(made.test.steps, [resize(256), Step::CenterCrop { side: 224 }]);
    assert_eq!(made.train.steps[1..].len(), 2);
    assert!(!made.train.is_deterministic());
    assert_eq!(made.statistics.steps, [resize(224), Step::CenterCrop { side: 224 }]);
    assert_eq!(made.statistics.normalization, Normalization::None);
    assert_eq!(made.test.output_shape([1, 8, 8]), [3, 224, 224]);
}

#[test]
fn a_squash_stands_in_place_of_the_resize_and_jitter_comes_last() {
    let jitter = Some(JitterSection { brightness: 0.1, contrast: 0.2, saturation: 0.3 });
    let train = TransformSection {
        resize: None,
        squash: Some(256),
        flip: 0.5,
        jitter,
        interpolation: Kernel::Bilinear,
        ..plain()
    };
    let test = TransformSection { flip: 0.0, jitter: None, ..train.clone() };
    let made = Transforms::from_scenario(&DataSection { train, test, ..digits_section() }, None);
    let kernel = Kernel::Bilinear;
    let (squash, crop) = (|side| Step::Squash { side, kernel }, Step::CenterCrop { side: 224 });
    let jitter = Step::Jitter(Jitter { brightness: 0.1, contrast: 0.2, saturation: 0.3 });
    assert_eq!(
        made.train.steps,
        [squash(256), crop.clone(), Step::Flip { probability: 0.5 }, jitter]
    );
    assert_eq!(made.statistics.steps, [squash(224), crop]);
}

#[test]
fn a_data_set_without_a_path_says_so() {
    let section = DataSection { source: DataSource::Folder, ..digits_section() };
    let message = Dataset::open(&section, &Tokenizer::Characters).unwrap_err().to_string();
    assert!(message.contains("give data.path"), "{message}");
}

#[test]
fn validation_takes_the_place_of_the_test_set_only_where_it_is_asked_for() {
    let scenario = |evaluate, partition| {
        let data = DataSection { validation_fraction: Some(0.2), evaluate, ..digits_section() };
        let text = "schema = 2\n[data]\nsource = \"digits\"\n[tasks]\ncount = 5\n[partition]\n\
            kind = \"iid\"\n[method]\nname = \"any\"\n";
        let read = Scenario::from_toml(text, "t", Path::new("/"), &[], &AnyMethod).unwrap();
        let seed = SeedsSection { partition, ..read.scenario.seed };
        Scenario { data, seed, ..read.scenario }
    };
    let open =
        |scenario: &Scenario| Dataset::from_scenario(scenario, &Tokenizer::Characters).unwrap();
    let whole = Dataset::open(&digits_section(), &Tokenizer::Characters).unwrap();
    let origins = |split: &Split| -> Vec<u32> {
        (0..split.len() as u32).map(|sample| split.origin(sample)).collect()
    };
    let tested = open(&scenario(Evaluated::Test, 3));
    assert_eq!(tested.test.digest().unwrap(), whole.test.digest().unwrap());
    let validated = open(&scenario(Evaluated::Validation, 3));
    assert_eq!(origins(&tested.train), origins(&validated.train));
    let mut both = [origins(&validated.train), origins(&validated.test)].concat();
    both.sort_unstable();
    assert_eq!(both, (0..whole.train.len() as u32).collect::<Vec<_>>());
    let other = open(&scenario(Evaluated::Validation, 4));
    assert_ne!(
        origins(&other.test),
        origins(&validated.test),
        "the seed of the partition moves it"
    );
    // 142 training images of the first digit: 28.4 of them.
    assert_eq!(validated.test.by_class()[0].len(), whole.class_sizes()[0] / 5);
    let section = scenario(Evaluated::Validation, 3).data;
    assert_eq!(nominal_class_sizes(&section), Some(validated.class_sizes()));
}

#[test]
fn one_sample_at_least_is_held_out_and_never_all() {
    let held = |share, samples| {
        DataSection { validation_fraction: share, ..digits_section() }.held_out(samples)
    };
    assert_eq!([held(Some(0.2), 4), held(Some(0.2), 10), held(Some(0.2), 14)], [1, 2, 2]);
    assert_eq!([held(Some(0.99), 3), held(Some(0.5), 1), held(None, 10)], [2, 0, 0]);
}

#[test]
fn floats_that_are_normalized_twice_are_noted() {
    let notes = |values: &[f32], normalize: Normalize| {
        let train = TransformSection { normalize, ..plain() };
        let section = DataSection { test: train.clone(), train, ..digits_section() };
        let store = Store::Floats { values: values.to_vec(), shape: [1, 1, 1] };
        let split = Arc::new(Split::new(store, vec![0; values.len()], 1).unwrap());
        let (name, class_names) = ("a".to_owned(), vec!["b".to_owned()]);
        let (train, test) = (Arc::clone(&split), split);
        let data = Dataset { name, class_names, train, test, notes: vec![] };
        data.noting_normalized_floats(&section).notes
    };
    assert_eq!(notes(&[0.0, 1.0, 0.5], Normalize::Half), [""; 0]);
    let note = &notes(&[0.5, 1.5], Normalize::Half)[0];
    assert!(note.starts_with("images are floats from 0.500 to 1.500"), "{note}");
    assert!(notes(&[0.5, -2.0, 0.0], Normalize::Imagenet)[0].contains("from -2.000 to 0.500"));
    assert_eq!(notes(&[0.5, -2.0], Normalize::None), [""; 0]);
}
