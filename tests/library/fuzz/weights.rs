//! Files of weights.

use proptest::prelude::*;

use super::cases;
use super::damage::damaged;
use fedcast::model::vit::Checkpoint;
use fedcast::model::{Parameter, ParameterSet, VitConfig, to_safetensors};

const HEADS: Option<usize> = Some(2);

/// A transformer of one block, so that most damage strikes the index of the file.
fn corpus() -> Vec<Vec<u8>> {
    let config = VitConfig {
        image: 4,
        patch: 2,
        channels: 1,
        dim: 4,
        depth: 1,
        heads: 2,
        mlp: 4,
        ..VitConfig::default()
    };
    let mut all = ParameterSet::new();
    for (name, shape) in config.parameter_shapes() {
        let values = vec![0.25; shape.iter().product()];
        all.insert(name, Parameter { shape, values: values.into() });
    }
    vec![to_safetensors(&all).unwrap()]
}

#[test]
fn the_corpus_is_valid() {
    Checkpoint::from_bytes("a", &corpus()[0], HEADS).unwrap();
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_weights_are_read_or_refused(bytes in damaged(corpus())) {
        if let Err(error) = Checkpoint::from_bytes("a", &bytes, HEADS) {
            let told = error.to_string();
            prop_assert!(told.len() < 5_000, "{} bytes", told.len());
        }
    }
}
