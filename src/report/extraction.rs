//! Progress of the feature extraction by the frozen network.
//!
//! A deep extractor on a large data set takes minutes to hours before the first round closes.

use std::sync::Arc;
use std::time::Instant;

use super::text_table::grouped;
use super::watcher::News;
use crate::learning::FeatureCache;

/// Returns a source of progress lines that has one whenever features were computed since the last.
pub(super) fn extraction(cache: Arc<FeatureCache>) -> News {
    let (start, mut reported) = (Instant::now(), 0);
    Box::new(move || {
        let counts = cache.counts();
        if counts.computed <= reported {
            return None;
        }
        reported = counts.computed;
        let known = counts.computed + counts.loaded;
        let rate = counts.computed as f64 / start.elapsed().as_secs_f64();
        Some(line(known, cache.samples(), rate))
    })
}

/// Returns the line of progress; `rate` is samples per second since the run began.
fn line(known: u64, all: u64, rate: f64) -> String {
    let share = (all > 0).then(|| format!(" ({:.0} %)", 100.0 * known as f64 / all as f64));
    let (known, all, share) = (grouped(known), grouped(all), share.unwrap_or_default());
    format!("features of {known} of {all} samples{share}, {rate:.0} per second")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use candle_core::Device;
    use parking_lot::Mutex;

    use super::*;
    use crate::data::{Transform, digits};
    use crate::model::{Backbone, FrozenPart, embedded_vit};
    use crate::report::watcher::NewsWatcher;

    #[test]
    fn it_reports_computed_features_and_then_is_silent() {
        let split = digits::embedded().unwrap().train;
        let backbone = Backbone::from(embedded_vit().unwrap());
        let cache = Arc::new(FeatureCache::default());
        let transform = Arc::new(Transform::default());
        let store = cache.store(&backbone, &split, &transform, FrozenPart::Whole).unwrap().unwrap();
        store.fill(&backbone, &Device::Cpu, &[3]).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen_lines = Arc::clone(&lines);
        let news = vec![extraction(cache)];
        let watch = NewsWatcher::watch_every(Duration::from_millis(1), news, move |line| {
            seen_lines.lock().push(line.to_owned());
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
