//! Progress of training at the server, such as that of a generator, during which no round closes.

use std::sync::Arc;

use super::text_table::grouped;
use super::watcher::News;
use crate::learning::{StepCount, StepsSoFar};

/// Returns a source of progress lines that has one whenever steps were taken since the last.
pub(super) fn server_steps(count: Arc<StepCount>) -> News {
    let mut reported = None;
    Box::new(move || {
        let now = count.now().filter(|now| now.done > 0 && reported != Some(*now))?;
        reported = Some(now);
        let StepsSoFar { what, done, all } = now;
        Some(format!("server: {what}, step {} of {}", grouped(done), grouped(all)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reports_new_steps() {
        let count = Arc::new(StepCount::default());
        let mut news = server_steps(Arc::clone(&count));
        assert_eq!(news(), None);
        let work = count.begin("generator", 2000);
        assert_eq!(news(), None, "nothing is done yet");
        work.step();
        work.step();
        assert_eq!(news().as_deref(), Some("server: generator, step 2 of 2,000"));
        assert_eq!(news(), None, "nothing new");
        work.step();
        drop(work);
        assert_eq!(news(), None, "it ended");
        let again = count.begin("generator", 2000);
        again.step();
        again.step();
        assert!(news().is_none(), "as far as the last report");
        again.step();
        assert!(news().is_some());
    }
}
