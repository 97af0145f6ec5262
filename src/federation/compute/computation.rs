//! A result that is known, or that workers will have.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::oneshot;

use crate::federation::guard::guard;
use crate::federation::sink::JobKind;
use crate::federation::worker_pool::Work;
use crate::policy::RunContext;

/// Result that is known, or that workers will compute.
pub(in crate::federation) enum Computation<T> {
    /// A known result.
    Known(T),
    /// A result of these jobs, and of jobs that were handed to workers before.
    Posted { jobs: Vec<(JobKind, Work)>, result: Pin<Box<dyn Future<Output = T> + Send>> },
}

impl<T: Send + 'static> Computation<T> {
    /// Creates one job for a worker of this process; `lost` builds the result of one that panicked.
    pub fn job(
        kind: JobKind,
        work: impl FnOnce(&RunContext) -> T + Send + 'static,
        lost: impl FnOnce(String) -> T + Send + 'static,
    ) -> Computation<T> {
        let (answer, result) = oneshot::channel();
        let work = Work::Local(Box::new(move |ctx| {
            // No one listens after the run was stopped.
            let _ = answer.send(guard(|| work(ctx)));
        }));
        let result =
            Box::pin(async move { answered(result, |gone| gone).await.unwrap_or_else(lost) });
        Computation::Posted { jobs: vec![(kind, work)], result }
    }
}

impl<T: Send + 'static, E: Send + 'static> Computation<Result<T, E>> {
    /// Creates jobs that put their common result into a channel.
    ///
    /// `lost` makes the error of a channel that stays empty.
    pub fn jobs(
        jobs: Vec<(JobKind, Work)>,
        result: oneshot::Receiver<Result<T, E>>,
        lost: fn(String) -> E,
    ) -> Computation<Result<T, E>> {
        Computation::Posted { jobs, result: Box::pin(answered(result, lost)) }
    }
}

impl<T: 'static> Computation<T> {
    /// Returns the computation whose result is that of `change` applied to the result of this one.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Computation<U> {
        match self {
            Computation::Known(known) => Computation::Known(change(known)),
            Computation::Posted { jobs, result } => {
                Computation::Posted { jobs, result: Box::pin(async move { change(result.await) }) }
            }
        }
    }
}

/// Waits for the answer in a channel; `lost` makes the error of a worker that never answers.
pub(in crate::federation) async fn answered<T, E>(
    result: oneshot::Receiver<Result<T, E>>,
    lost: fn(String) -> E,
) -> Result<T, E> {
    result.await.unwrap_or_else(|_| Err(lost("the worker has ended".to_string())))
}
