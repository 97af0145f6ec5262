//! Trained parameters get gradients, masked ones get none.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::ClassPermutation;
use fedcast::learning::{Classifier, QueryView};
use fedcast::methods::fedavg::Train;
use fedcast::methods::fedavg_prompt::WeightedPool;
use fedcast::model::{LinearHead, ops};
use fedcast::policy::parameters_of;

use crate::hepco::fedavg_prompt;
use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, run_context};
use crate::{far, fedavg_of, hgp_with};

/// Present, finite and not all zero.
pub fn every_variable_has_a_gradient(model: &Classifier, loss: &Tensor) {
    let gradients = loss.backward().unwrap();
    for (name, variable) in model.variables() {
        let gradient = gradients.get(variable).unwrap_or_else(|| panic!("{name}: none"));
        let gradient = gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(gradient.iter().all(|g| g.is_finite()), "{name} is not finite");
        assert!(gradient.iter().any(|g| *g != 0.0), "{name} is all zero");
    }
}

/// Every declared trainable gets a gradient that is present, finite and not all zero.
#[test]
fn every_trainable_trains() {
    let ctx = run_context(3, ClassPermutation::Native);
    for method in
        [hgp_with(|_| ()), fedavg_of(Train::All), fedavg_of(Train::Head), fedavg_of(Train::Prompt)]
    {
        let run = Engine::new(method, facts(), ctx.clone());
        let received = parameters_of(&run.server.save()).unwrap();
        let model = Classifier::trainable(&ctx.backbone, &received, 2..4).unwrap();
        let shard = deal(&ctx, &run.view(1), 1).remove(0);
        let batch = ctx.train_loader(&shard).in_order(16).next().unwrap().unwrap();
        let loss = model.masked_loss(&ctx.pixels(&batch).unwrap(), batch.labels()).unwrap();
        assert_eq!(model.variables().len(), received.len());
        every_variable_has_a_gradient(&model, &loss);
    }
}

/// Checks prompts that depend on a query.
#[test]
fn every_pool_trains() {
    let ctx = run_context(3, ClassPermutation::Native);
    let run = Engine::new(fedavg_prompt(), facts(), ctx.clone());
    let received = parameters_of(&run.server.save()).unwrap();
    let pool = Arc::new(WeightedPool { blocks: 2 });
    let model =
        Classifier::pack_with(&ctx.backbone, vec![received.clone()], 2..4, Some(pool)).unwrap();
    let shard = deal(&ctx, &run.view(1), 1).remove(0);
    let loader = ctx.with_queries(ctx.train_loader(&shard), QueryView::Clean).unwrap();
    let batch = loader.in_order(16).next().unwrap().unwrap();
    let loss = model.batch_loss(&batch, &ctx.device).unwrap();
    assert_eq!(model.variables().len(), received.len());
    every_variable_has_a_gradient(&model, &loss);
}

/// Protocol 9.5: the masked loss gives rows outside the task a gradient of exactly zero, so
/// leaving those rows out altogether is the same.
#[test]
fn the_mask_keeps_other_rows_out() {
    let ctx = run_context(3, ClassPermutation::Native);
    let run = Engine::new(fedavg_of(Train::Head), facts(), ctx.clone());
    let received = parameters_of(&run.server.save()).unwrap();
    let shard = deal(&ctx, &run.view(1), 1).remove(0);
    let batch = ctx.train_loader(&shard).in_order(16).next().unwrap().unwrap();
    let pixels = ctx.pixels(&batch).unwrap();

    let whole = Classifier::trainable(&ctx.backbone, &received, 0..CLASSES).unwrap();
    let logits = whole.logits(&whole.features(&pixels).unwrap()).unwrap();
    let masked = ops::cross_entropy(&logits, batch.labels(), 2..4).unwrap();
    let part = Classifier::trainable(&ctx.backbone, &received, 2..4).unwrap();
    let own = part.masked_loss(&pixels, batch.labels()).unwrap();
    let number = |loss: &candle_core::Tensor| loss.to_scalar::<f32>().unwrap();
    assert!((number(&masked) - number(&own)).abs() < 1e-6);

    let rows = |model: &Classifier, loss: &candle_core::Tensor| -> Vec<Vec<f32>> {
        let (_, weight) =
            model.variables().iter().find(|(n, _)| &**n == LinearHead::WEIGHT).unwrap();
        loss.backward().unwrap().get(weight).unwrap().to_vec2().unwrap()
    };
    let (all, some) = (rows(&whole, &masked), rows(&part, &own));
    for row in [0, 1, 4, 5] {
        assert!(all[row].iter().all(|g| *g == 0.0), "row {row}");
    }
    assert!(far(&all[2..4].concat(), &some.concat()) < 1e-6);
}
