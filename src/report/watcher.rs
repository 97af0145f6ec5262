//! Thread that reports progress of work which takes long and records no entries.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between reports.
const EVERY: Duration = Duration::from_secs(5);

/// Source of progress lines; returns `None` if there is nothing new.
pub(super) type News = Box<dyn FnMut() -> Option<String> + Send>;

/// Thread that polls sources of progress lines until this is dropped.
pub(super) struct NewsWatcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NewsWatcher {
    /// Starts a thread that passes the lines of these sources to `say`, every five seconds.
    pub fn watch(news: Vec<News>, say: impl Fn(&str) + Send + 'static) -> NewsWatcher {
        NewsWatcher::watch_every(EVERY, news, say)
    }

    pub(super) fn watch_every(
        every: Duration,
        mut news: Vec<News>,
        say: impl Fn(&str) + Send + 'static,
    ) -> NewsWatcher {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                news.iter_mut().filter_map(|news| news()).for_each(|line| say(&line));
            }
        });
        NewsWatcher { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for NewsWatcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A watcher that panicked has nothing more to report.
            let _ = thread.join();
        }
    }
}
