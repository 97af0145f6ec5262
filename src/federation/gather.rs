//! Answers of several jobs, collected.

use parking_lot::Mutex;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::FederationError;
use super::guard::guard;
use crate::policy::PolicyError;

/// All answers in order, or the first failure.
type Gathered<T> = Result<Vec<T>, FederationError>;

/// Collects the answers of several jobs; hands them over, in order, when the last one is in.
pub(super) struct Gather<T> {
    inner: Mutex<GatherInner<T>>,
}

struct GatherInner<T> {
    parts: Vec<Option<Result<T, FederationError>>>,
    missing: usize,
    done: Option<oneshot::Sender<Gathered<T>>>,
}

impl<T> Gather<T> {
    /// Creates a place for `count` answers. The first failure, in order, is the answer of all.
    pub fn new(count: usize) -> (Arc<Gather<T>>, oneshot::Receiver<Gathered<T>>) {
        let (done, result) = oneshot::channel();
        let parts = (0..count).map(|_| None).collect();
        let inner = GatherInner { parts, missing: count, done: Some(done) };
        let gather = Arc::new(Gather { inner: Mutex::new(inner) });
        if count == 0 {
            gather.finish_if_complete(&mut gather.lock());
        }
        (gather, result)
    }

    /// Runs one of the jobs; a panic is a failure.
    pub fn put(&self, place: usize, work: impl FnOnce() -> Result<T, PolicyError>) {
        let answer = match guard(work) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(PolicyError::Data(error))) => Err(FederationError::Data(error.to_string())),
            Ok(Err(PolicyError::Cache(error))) => Err(FederationError::Data(error.to_string())),
            Ok(Err(error)) if error.is_out_of_memory() => {
                Err(FederationError::Memory(error.to_string()))
            }
            Ok(Err(error)) => Err(FederationError::Evaluation(error.to_string())),
            Err(panic) => Err(FederationError::Evaluation(format!("panicked: {panic}"))),
        };
        let mut inner = self.lock();
        inner.parts[place] = Some(answer);
        inner.missing -= 1;
        self.finish_if_complete(&mut inner);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, GatherInner<T>> {
        self.inner.lock()
    }

    fn finish_if_complete(&self, inner: &mut GatherInner<T>) {
        if inner.missing > 0 {
            return;
        }
        let parts = std::mem::take(&mut inner.parts).into_iter().flatten().collect();
        if let Some(done) = inner.done.take() {
            // No one listens after the run was stopped.
            let _ = done.send(parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataError;

    #[test]
    fn a_sample_that_cannot_be_read_is_an_error_of_the_data() {
        let (gather, mut result) = Gather::new(2);
        gather.put(1, || Err::<u8, _>(PolicyError::Unsupported("of this".into())));
        let error = DataError::Missing {
            path: "cat.png".into(),
            expected: "an image".into(),
            advice: "Fetch it".into(),
        };
        gather.put(0, || Err(error.into()));
        let error = result.try_recv().expect("both are in").expect_err("the first failure");
        assert!(matches!(&error, FederationError::Data(why) if why.contains("cat.png")), "{error}");
    }
}
