//! Progress of the feature extraction by the frozen network.
//!
//! A deep extractor on a large data set takes minutes to hours before the first round closes.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::text_table::grouped;
use crate::learning::FeatureCache;

/// Time between reports.
const EVERY: Duration = Duration::from_secs(5);

/// Thread that watches a cache until this is dropped.
pub(super) struct Extraction {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Extraction {
    /// Passes a line to `say` whenever features were computed since the last one.
    pub fn watch(cache: Arc<FeatureCache>, say: impl Fn(&str) + Send + 'static) -> Extraction {
        Extraction::watch_every(EVERY, cache, say)
    }

    fn watch_every(
        every: Duration,
        cache: Arc<FeatureCache>,
        say: impl Fn(&str) + Send + 'static,
    ) -> Extraction {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let (begun, mut told) = (Instant::now(), 0);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let figures = cache.figures();
                if figures.computed > told {
                    told = figures.computed;
                    let known = figures.computed + figures.loaded;
                    let rate = figures.computed as f64 / begun.elapsed().as_secs_f64();
                    say(&line(known, cache.samples(), rate));
                }
            }
        });
        Extraction { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Extraction {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A watcher that panicked has nothing more to report.
            let _ = thread.join();
        }
    }
}

/// Returns the line of progress; `rate` is samples per second since the run began.
fn line(known: u64, all: u64, rate: f64) -> String {
    let share = (all > 0).then(|| format!(" ({:.0} %)", 100.0 * known as f64 / all as f64));
    let (known, all, share) = (grouped(known), grouped(all), share.unwrap_or_default());
    format!("features of {known} of {all} samples{share}, {rate:.0} per second")
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use candle_core::Device;

    use super::*;
    use crate::data::{Transform, digits};
    use crate::model::{Backbone, FrozenPart, embedded_vit};

    #[test]
    fn it_tells_what_was_computed_and_then_is_silent() {
        let split = digits::embedded().unwrap().train;
        let backbone = Backbone::from(embedded_vit().unwrap());
        let cache = Arc::new(FeatureCache::default());
        let transform = Arc::new(Transform::default());
        let store = cache.store(&backbone, &split, &transform, FrozenPart::Whole).unwrap().unwrap();
        store.fill(&backbone, &Device::Cpu, &[3]).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lines);
        let watch = Extraction::watch_every(Duration::from_millis(1), cache, move |line| {
            told.lock().push(line.to_owned());
        });
        while lines.lock().is_empty() {
            std::thread::yield_now();
        }
        drop(watch);
        let lines = lines.lock();
        assert_eq!(lines.len(), 1);
        let rate = lines[0].strip_prefix("features of 32 of 1,433 samples (2 %), ");
        let rate = rate.and_then(|rate| rate.strip_suffix(" per second"));
        assert!(rate.is_some_and(|rate| rate.parse::<u64>().is_ok_and(|r| r > 0)), "{lines:?}");
    }
}
