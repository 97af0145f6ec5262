//! `lora`: moments of what enters the layers of a network with low-rank pairs, against PyTorch in float64.

use std::sync::Arc;

use crate::golden::Golden;
use crate::learning::{InputMoments, MomentForm};
use crate::model::vit::golden::lora::{adapted, filled};
use crate::model::vit::golden::{flat, on_both_paths, small_vit, stored};
use crate::model::{Adaptation, InputHook, LinearLayer, ModelError};
use crate::numerics::regression_mean::SecondMoments;

/// Second moments of the inputs of the layers of block 1, whole and diagonal.
///
/// The network has all pairs; the moments of the last block are over all tokens, too.
#[test]
fn golden_moments_of_inputs() -> Result<(), ModelError> {
    on_both_paths(|| {
        let (Some(golden), Some(images)) = (Golden::open("lora"), Golden::open("vit_tokens"))
        else {
            return Ok(());
        };
        let vit = small_vit(&images);
        let variables = filled(&golden, &vit, &LinearLayer::ALL);
        let plain = adapted(&variables)?;
        let x = stored(&images, "x");
        let tapped = |form| -> Result<_, ModelError> {
            let moments = Arc::new(InputMoments::new(form));
            let hook: Arc<dyn InputHook> = Arc::clone(&moments) as Arc<dyn InputHook>;
            let features = vit.features(&x, &Adaptation { hook: Some(hook), ..plain.clone() })?;
            let unlike = flat(&vit.features(&x, &plain)?);
            let near = flat(&features).iter().zip(&unlike).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(near, "a tap changes no answer");
            Ok(moments.finish().expect("sums"))
        };
        let (full, diagonal) = (tapped(MomentForm::Full)?, tapped(MomentForm::Diagonal)?);
        assert_eq!((full.len(), diagonal.len()), (16, 16));
        let SecondMoments::Full(qkv) = &full["blocks.1.attn.qkv.weight"] else {
            panic!("a matrix")
        };
        golden.assert_close("gram.attn.qkv", &qkv.full());
        let SecondMoments::Diagonal(fc2) = &diagonal["blocks.1.mlp.fc2.weight"] else {
            panic!("a vector")
        };
        golden.assert_close("gram.mlp.fc2.diag", fc2);
        for (name, matrix) in &full {
            let SecondMoments::Diagonal(own) = matrix.clone().shrunk(0.0) else {
                panic!("a vector")
            };
            let SecondMoments::Diagonal(alone) = &diagonal[name] else { panic!("a vector") };
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
            assert!(own.iter().zip(alone).all(near), "{name}");
        }
        // 4 images of 17 tokens with a layer norm before: in the last block too, energies are of all of them.
        let SecondMoments::Diagonal(last) = &diagonal["blocks.3.mlp.fc1.weight"] else {
            panic!("a vector")
        };
        let cls_alone = 4.0 * 48.0 * 1.5;
        assert!(last.iter().sum::<f64>() > 4.0 * cls_alone);
        Ok(())
    })
}
