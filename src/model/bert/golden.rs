//! Golden vectors: a small BERT with formula weights.

use super::sequences::Sequences;
use super::{Bert, BertConfig, BertPooling};
use crate::golden::{Golden, Wave};
use crate::model::{ModelError, Parameter, ParameterSet};

const CONFIG: BertConfig = BertConfig {
    vocabulary: 100,
    hidden: 64,
    layers: 2,
    heads: 4,
    intermediate: 128,
    positions: 32,
    length: 12,
    pooling: BertPooling::Cls,
};

fn parameters(golden: &Golden, wave: Wave, embeddings: f64) -> ParameterSet {
    let filled = |(name, shape): (String, Vec<usize>)| {
        let scale = |w: f64| match name.as_str() {
            _ if name.ends_with("LayerNorm.weight") => 1.0 + 0.1 * w,
            _ if name.ends_with(".bias") => 0.05 * w,
            _ if name.starts_with("embeddings.") => embeddings * w,
            _ => 0.2 * w,
        };
        let values = golden.map_wave(wave, &name, &shape, scale).into();
        (name, Parameter { shape, values })
    };
    CONFIG.parameter_shapes().into_iter().map(filled).collect()
}

fn rows(golden: &Golden, name: &str) -> Vec<Vec<u32>> {
    let values: Vec<u32> = golden.i64(name).into_iter().map(|v| v as u32).collect();
    values.chunks(golden.shape(name)[1]).map(<[u32]>::to_vec).collect()
}

#[test]
fn golden_bert_small() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("bert_small") else { return Ok(()) };
    let mut keys = golden.keys();
    keys.retain(|(name, _)| !name.starts_with("pooler.") && !name.ends_with("position_ids"));
    keys.sort();
    assert_eq!(CONFIG.parameter_shapes(), keys);
    let (ids, types) = (rows(&golden, "input_ids"), rows(&golden, "token_type_ids"));
    let sequences = Sequences::new(&ids, Some(&types));
    // Zeros where there is padding, behind the sequences.
    let states = |wave, embeddings| -> Result<Vec<Vec<Vec<f32>>>, ModelError> {
        let bert = Bert::from_parameters(CONFIG, &parameters(&golden, wave, embeddings))?;
        let hidden = bert.hidden_states(&sequences)?.to_vec2::<f32>()?;
        let sample = |tokens: &std::ops::Range<usize>| {
            let mut own = hidden[tokens.clone()].to_vec();
            own.resize(CONFIG.length, vec![0.0; CONFIG.hidden]);
            own
        };
        Ok(sequences.tokens.iter().map(sample).collect())
    };
    let hidden = states(Wave::Chirp, 0.5)?;
    let mask = golden.i64("attention_mask");
    let filled = ids.iter().flatten().map(|word| i64::from(*word != BertConfig::PADDING));
    assert!(filled.eq(mask.iter().copied()));
    let mut last = Vec::new();
    for (state, kept) in hidden.iter().flatten().zip(&mask) {
        last.extend(state.iter().map(|v| v * *kept as f32));
    }
    golden.assert_close("last_hidden", &last);
    let cls = |hidden: &[Vec<Vec<f32>>]| -> Vec<f32> {
        hidden.iter().flat_map(|sample| sample[0].clone()).collect()
    };
    golden.assert_close("cls", &cls(&hidden));
    golden.assert_close("sine.cls", &cls(&states(Wave::Sine, 0.5)?));
    golden.assert_close("eps.cls", &cls(&states(Wave::Chirp, 5e-7)?));
    let mut mean = Vec::new();
    for (sample, kept) in hidden.iter().zip(mask.chunks(CONFIG.length)) {
        let count = kept.iter().sum::<i64>() as f32;
        for at in 0..CONFIG.hidden {
            let sum: f32 = sample.iter().zip(kept).map(|(s, kept)| s[at] * *kept as f32).sum();
            mean.push(sum / count);
        }
    }
    golden.assert_close("mean", &mean);
    Ok(())
}
