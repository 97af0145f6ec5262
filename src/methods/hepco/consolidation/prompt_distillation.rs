//! Distillation of prompts: on pseudo-queries the server's weighted prompts approach those of its teachers.
//!
//! `L = sum_b sum_i w_i(b) sum_j |rho_w - rho_i|^2`. With `R = sum_i w_i (rho_w - rho_i)` its gradient is `2 c^T R` in
//! the prompts and `2 R P^T` in the cosines. Server and teachers take the same products in the same shapes, so between
//! equal models all of it is exactly zero.

use candle_core::{Result, Tensor, Var};

use super::generation::adam;
use super::models::{ConsolidationTeacher, Model};
use crate::learning::losses::closed_form;
use crate::learning::optimizer::lend;
use crate::learning::{LearningError, Optimizer};
use crate::model::ops;
use crate::model::ops::matrix::{Matrix, MatrixMut};
use crate::model::prompts::cosines;

/// Pseudo-queries and their teachers.
pub struct DistillationBatch<'a> {
    /// `(b, d)`.
    pub queries: Tensor,
    /// Head rows they were made for.
    pub labels: Vec<u32>,
    /// Teachers, each with its weight per label.
    pub teachers: &'a [ConsolidationTeacher],
}

/// Pools of the server, which are trained.
pub struct Student {
    /// `(pool, d)` by block.
    pub keys: Vec<Var>,
    /// `(pool, length * d)` by block.
    pub prompts: Vec<Var>,
    /// Gradients of the prompts; reused from step to step.
    pub(super) by_prompts: Vec<Vec<f32>>,
}

impl Student {
    /// Creates a student that is a copy of the server's pools.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn new(server: &Model) -> Result<Student> {
        let vars = |tensors: &[Tensor]| tensors.iter().map(Var::from_tensor).collect::<Result<_>>();
        let by_prompts = server.prompts.iter().map(|p| vec![0.0; p.elem_count()]).collect();
        Ok(Student { keys: vars(&server.keys)?, prompts: vars(&server.prompts)?, by_prompts })
    }

    /// Returns Adam over the keys of all blocks, then their prompts.
    pub fn optimizer(&self, rate: f64) -> Optimizer {
        adam(rate).over(self.keys.iter().chain(&self.prompts).cloned().collect())
    }

    /// Makes one step and returns the loss before it.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn step(
        &mut self,
        batches: &[DistillationBatch<'_>],
        optimizer: &mut Optimizer,
        rate: f64,
    ) -> std::result::Result<f64, LearningError> {
        let (loss, by_keys) = self.gradients(batches)?;
        let all: Vec<&[f32]> = by_keys.iter().chain(&self.by_prompts).map(Vec::as_slice).collect();
        optimizer.step_slices(&all, rate, 1.0)?;
        Ok(loss)
    }

    /// Returns the loss and its gradients in the keys, by block; those in the prompts go to `by_prompts`.
    pub(super) fn gradients(
        &mut self,
        batches: &[DistillationBatch<'_>],
    ) -> Result<(f64, Vec<Vec<f32>>)> {
        self.by_prompts.iter_mut().for_each(|gradient| gradient.fill(0.0));
        let (mut total, mut by_keys) = (0.0, Vec::with_capacity(self.keys.len()));
        for block in 0..self.keys.len() {
            let mut sum = ops::sum_all(&self.keys[block].zeros_like()?)?;
            for batch in batches {
                let (value, loss) = self.block(block, batch)?;
                total += value;
                sum = (sum + loss)?;
            }
            let gradients = sum.backward()?;
            let found = gradients.get(&self.keys[block]);
            let zeros = || vec![0.0; self.keys[block].elem_count()];
            by_keys.push(found.map_or_else(|| Ok(zeros()), |g| g.flatten_all()?.to_vec1())?);
        }
        Ok((total, by_keys))
    }

    /// Returns the loss of one block on a batch, as a number and as a tensor with its gradient in the keys.
    ///
    /// The gradient in the prompts is added to `by_prompts`.
    fn block(&mut self, block: usize, batch: &DistillationBatch<'_>) -> Result<(f64, Tensor)> {
        let DistillationBatch { queries, labels, teachers } = batch;
        let own = cosines(queries, &self.keys[block])?;
        let (rows, pool) = own.dims2()?;
        let width = self.prompts[block].dim(1)?;
        let weighted = |cosines: &Tensor, prompts: &Tensor| {
            lend(cosines, |c| {
                lend(prompts, |p| {
                    let mut rho = vec![0f32; rows * width];
                    let product = (Matrix::dense(c, rows, pool), Matrix::dense(p, pool, width));
                    MatrixMut::dense(&mut rho, rows, width).set(1.0, product.0, product.1);
                    Ok(rho)
                })
            })
        };
        let rho = weighted(&own, &self.prompts[block])?;
        let (mut value, mut residual) = (0.0, vec![0f32; rows * width]);
        for ConsolidationTeacher { model, weights } in *teachers {
            let theirs = weighted(&cosines(queries, &model.keys[block])?, &model.prompts[block])?;
            let rows = rho.chunks_exact(width).zip(theirs.chunks_exact(width));
            for ((rows, label), residual) in rows.zip(labels).zip(residual.chunks_exact_mut(width))
            {
                value += learn(rows, weights[*label as usize], residual);
            }
        }
        let residual = Matrix::dense(&residual, rows, width);
        let by_prompts = MatrixMut::dense(&mut self.by_prompts[block], pool, width);
        lend(&own, |c| {
            by_prompts.add(2.0, Matrix::dense(c, rows, pool).t(), residual);
            Ok(())
        })?;
        let by_cosines = lend(&self.prompts[block], |p| {
            let mut by_cosines = vec![0f32; rows * pool];
            let prompts = Matrix::dense(p, pool, width).t();
            MatrixMut::dense(&mut by_cosines, rows, pool).set(2.0, residual, prompts);
            Ok(by_cosines)
        })?;
        Ok((value, closed_form(&own, |_| (value, by_cosines))?))
    }
}

/// Returns `weight |own - theirs|^2` and adds `weight (own - theirs)` to the residual.
fn learn((own, theirs): (&[f32], &[f32]), weight: f32, residual: &mut [f32]) -> f64 {
    if weight == 0.0 {
        return 0.0;
    }
    let mut sum = 0.0;
    // Runs of 64 numbers are summed in f32, which is fast, and the runs in f64, which keeps the digits of long sums.
    let runs = own.chunks(64).zip(theirs.chunks(64)).zip(residual.chunks_mut(64));
    for ((own, theirs), residual) in runs {
        let mut part = 0f32;
        for ((own, theirs), residual) in own.iter().zip(theirs).zip(residual) {
            let gap = own - theirs;
            part += gap * gap;
            *residual += weight * gap;
        }
        sum += f64::from(part);
    }
    f64::from(weight) * sum
}
