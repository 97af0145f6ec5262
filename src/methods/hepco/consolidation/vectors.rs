//! Losses of the server against the package's own vectors: terms, signs, weights and directions.
//!
//! The loops of the server are compared with what the released code makes of the same models.

use candle_core::{Tensor, Var};

use super::generation::{GenerationLoss, GeneratorObjective};
use super::head_distillation::HeadStudent;
use super::models::{ConsolidationTeacher, Model, omega};
use super::prompt_distillation::{DistillationBatch, Student};
use super::{KlForm, MseGradient, OmegaForm};
use crate::golden::Golden;

fn model(golden: &Golden, name: &str) -> Model {
    let of = |part: &str| golden.tensor(&format!("{name}.{part}"));
    let blocks = |part: &str| (0..2).map(|j| of(part).get(j).unwrap()).collect();
    let (keys, prompts) = (blocks("keys"), blocks("prompts"));
    Model { keys, prompts, weight: of("weight"), bias: of("bias") }
}

fn shares(golden: &Golden, form: OmegaForm) -> Vec<Vec<f32>> {
    let counts: Vec<Vec<u32>> = golden.labels("counts").chunks(6).map(<[u32]>::to_vec).collect();
    omega(&counts, form)
}

/// Two clients that count by so much.
fn clients(golden: &Golden, weights: Vec<Vec<f32>>) -> Vec<ConsolidationTeacher> {
    let teacher = |(i, weights)| ConsolidationTeacher {
        model: model(golden, &format!("client{i}")),
        weights,
    };
    weights.into_iter().enumerate().map(teacher).collect()
}

#[test]
fn golden_own_shares_of_clients() {
    let golden = Golden::own("hepco");
    for (name, form) in
        [("omega.release", OmegaForm::Release), ("omega.normalised", OmegaForm::Normalized)]
    {
        golden.assert_close(name, &shares(&golden, form).concat());
    }
}

#[test]
fn golden_own_objective_of_a_generator() {
    let golden = Golden::own("hepco");
    let (server, labels) = (model(&golden, "server"), golden.labels("labels"));
    let counted = clients(&golden, shares(&golden, OmegaForm::Normalized));
    let alike = clients(&golden, vec![vec![1.0; 6]; 2]);
    use KlForm::{ClientServer, ServerClient};
    for (name, teachers, form, gradient) in [
        ("detached", &counted, ClientServer, MseGradient::Detached),
        ("mean", &counted, ClientServer, MseGradient::Mean),
        ("sum", &counted, ClientServer, MseGradient::Sum),
        ("paper", &alike, ServerClient, MseGradient::Sum),
    ] {
        let loss = GenerationLoss { kl: 0.7, mse: 0.3, gradient, form };
        let objective = GeneratorObjective::new(&server, teachers, loss).unwrap();
        let z = golden.variable("z");
        let (total, value) = objective.value(&z, &labels).unwrap();
        golden.assert_loss(name, &total, &z);
        if form == ClientServer {
            golden.assert_close("terms.classification", &[value.heads.classification]);
            golden.assert_close("terms.client_server", &[value.heads.divergence]);
            golden.assert_close("terms.distance", &[value.distance]);
            golden.assert_close("terms.accuracy", &[value.heads.accuracy().unwrap()]);
        }
    }
    let loss =
        GenerationLoss { kl: 1.0, mse: 0.0, gradient: MseGradient::Detached, form: ServerClient };
    let objective = GeneratorObjective::new(&server, &counted, loss).unwrap();
    let value = objective.value(&golden.tensor("z"), &labels).unwrap().1;
    golden.assert_close("terms.server_client", &[value.heads.divergence]);
}

/// Clients without weight for a batch's labels contribute nothing to accuracy, loss or distillation.
#[test]
fn clients_that_do_not_count_say_nothing() {
    let golden = Golden::own("hepco");
    let (server, z) = (model(&golden, "server"), golden.variable("z"));
    let silent = clients(&golden, vec![vec![0.0; 6]; 2]);
    let form = KlForm::ClientServer;
    let loss = GenerationLoss { kl: 1.0, mse: 1.0, gradient: MseGradient::Sum, form };
    let objective = GeneratorObjective::new(&server, &silent, loss).unwrap();
    let (total, value) = objective.value(&z, &golden.labels("labels")).unwrap();
    assert_eq!((value.heads.accuracy(), value.distance), (None, 0.0));
    assert_eq!(total.to_scalar::<f32>().unwrap(), 0.0);
    let gradients = total.backward().unwrap();
    let slopes = gradients.get(&z).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(slopes.iter().all(|slope| *slope == 0.0));
}

#[test]
fn golden_own_distillation_of_prompts_and_head() {
    let golden = Golden::own("hepco");
    let (server, z, z_old) = (model(&golden, "server"), golden.tensor("z"), golden.tensor("z_old"));
    let (labels, labels_old) = (golden.labels("labels"), golden.labels("labels_old"));
    let counted = clients(&golden, shares(&golden, OmegaForm::Normalized));
    let previous =
        [ConsolidationTeacher { model: model(&golden, "previous"), weights: vec![1.0; 6] }];
    let batches = [
        DistillationBatch { queries: z.clone(), labels: labels.clone(), teachers: &counted },
        DistillationBatch {
            queries: z_old.clone(),
            labels: labels_old.clone(),
            teachers: &previous,
        },
    ];
    let mut student = Student::new(&server).unwrap();
    let (loss, by_keys) = student.gradients(&batches).unwrap();
    golden.assert_close("distillation", &[loss]);
    golden.assert_close("distillation.grad_keys", &by_keys.concat());
    golden.assert_close("distillation.grad_prompts", &student.by_prompts.concat());

    let head = HeadStudent::new(&server).unwrap();
    let all = Tensor::cat(&[&z, &z_old], 0).unwrap();
    let loss = head.loss(&all, &[labels, labels_old].concat()).unwrap();
    golden.assert_tensor("head", &loss);
    let gradients = loss.backward().unwrap();
    let of = |variable: &Var| gradients.get(variable).unwrap().clone();
    golden.assert_tensor("head.grad_weight", &of(&head.weight));
    golden.assert_tensor("head.grad_bias", &of(&head.bias));
}

/// The release's `Trainer.train_generator` as a whole: shares of clients that also count classes no client has, the
/// divergence KL(client || server) and its sign, and a distance that has a value and no gradient.
#[test]
fn golden_released_training_of_generators() {
    let golden = Golden::own("released_hepco");
    let server = model(&golden, "server");
    let counted = clients(&golden, shares(&golden, OmegaForm::Release));
    let previous = previous(&golden);
    let gradient = MseGradient::Detached;
    let loss = GenerationLoss { kl: 0.7, mse: 0.3, gradient, form: KlForm::ClientServer };
    for (name, teachers, z, labels) in [
        ("generator", &counted[..], "z", "labels"),
        ("generator_old", &previous[..], "z_old", "labels_old"),
    ] {
        let objective = GeneratorObjective::new(&server, teachers, loss).unwrap();
        let z = golden.variable(z);
        golden.assert_loss(name, &objective.value(&z, &golden.labels(labels)).unwrap().0, &z);
    }
}

/// The server before, which counts fully for what it has seen.
fn previous(golden: &Golden) -> [ConsolidationTeacher; 1] {
    let seen = |count: i64| if count > 0 { 1.0 } else { 0.0 };
    let weights = golden.i64("counts_before").into_iter().map(seen).collect();
    [ConsolidationTeacher { model: model(golden, "previous"), weights }]
}

/// The release's `Trainer.knowledge_distillation` as a whole: prompts, then the head, with a quarter of old queries.
#[test]
fn golden_released_distillation() {
    let golden = Golden::own("released_hepco");
    let server = model(&golden, "server");
    let counted = clients(&golden, shares(&golden, OmegaForm::Release));
    let previous = previous(&golden);
    let z = golden.tensor("z");
    let of = |what: &str| (golden.labels(what), golden.labels(&format!("{what}_old")));
    let (labels, labels_old) = of("prompts.labels");
    let z_old = golden.tensor("z_old").narrow(0, 0, labels_old.len()).unwrap();
    assert_eq!((labels.len(), labels_old.len()), (64, 16));
    let batches = [
        DistillationBatch { queries: z.clone(), labels, teachers: &counted },
        DistillationBatch { queries: z_old.clone(), labels: labels_old, teachers: &previous },
    ];
    let mut student = Student::new(&server).unwrap();
    let (loss, by_keys) = student.gradients(&batches).unwrap();
    golden.assert_close("distillation", &[loss]);
    golden.assert_close("distillation.grad_keys", &by_keys.concat());
    golden.assert_close("distillation.grad_prompts", &student.by_prompts.concat());

    let head = HeadStudent::new(&server).unwrap();
    let (labels, labels_old) = of("head.labels");
    let all = Tensor::cat(&[&z, &z_old], 0).unwrap();
    let loss = head.loss(&all, &[labels, labels_old].concat()).unwrap();
    golden.assert_tensor("head", &loss);
    let gradients = loss.backward().unwrap();
    // Rows of classes that no client has seen do not move.
    let padded = |variable: &Var, width: usize| {
        let own = gradients.get(variable).unwrap().flatten_all().unwrap().to_vec1::<f32>();
        [own.unwrap(), vec![0.0; 2 * width]].concat()
    };
    golden.assert_close("head.grad_weight", &padded(&head.weight, 4));
    golden.assert_close("head.grad_bias", &padded(&head.bias, 1));
}
