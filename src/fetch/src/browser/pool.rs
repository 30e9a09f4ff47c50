//! The box's browsers: started when they are needed, shared, watched, and ended.
//!
//! A browser takes seconds and a hundred megabytes to start and each page in it a fraction of that, so pages share
//! browsers, each in a context of its own: no page sees another's cookies, cache or storage. How many pages there are at
//! once is the operator's; more wait for their turn. A browser is ended when nobody has used it for a while, after so
//! many pages, when it takes more memory than it may ([`BrowserSettings`]), and with the box.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::BrowserSettings;
use super::launch::{Process, find, group_bytes};
use super::protocol::Client;

/// Pages at once in one browser.
const PAGES_PER_BROWSER: usize = 8;
/// How often a browser is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// All browsers of the box.
pub struct Browsers {
    settings: BrowserSettings,
    executable: Option<PathBuf>,
    turns: Arc<Semaphore>,
    /// Held while one is chosen or started, so that two pages do not start two.
    running: tokio::sync::Mutex<Vec<Arc<Running>>>,
    watches: Mutex<Vec<JoinHandle<()>>>,
    started: AtomicUsize,
}

/// One browser, as far as its pages are concerned.
pub struct Running {
    pub client: Client,
    pub user_agent: String,
    pages: AtomicUsize,
    served: AtomicUsize,
    served_max: usize,
    idle_timeout: Duration,
    is_retired: AtomicBool,
    /// Set when it took more memory than it may, which ends all its pages.
    is_too_big: AtomicBool,
    idle_since: Mutex<Instant>,
    stop: Notify,
}

/// A page's place in a browser.
pub struct Turn {
    pub browser: Arc<Running>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.browser.idle_since.lock() = Instant::now();
        self.browser.pages.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Running {
    /// Lets nobody in any more; it ends when its last page does.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
    }

    pub fn is_too_big(&self) -> bool {
        self.is_too_big.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        let usable = !self.is_retired.load(Ordering::Relaxed) && !self.client.is_gone();
        usable && self.pages.load(Ordering::SeqCst) < PAGES_PER_BROWSER
    }

    /// Whether nobody is in it and nobody will want it.
    fn is_done(&self) -> bool {
        let idle = self.idle_since.lock().elapsed() > self.idle_timeout;
        self.pages.load(Ordering::SeqCst) == 0 && (idle || self.is_retired.load(Ordering::Relaxed))
    }
}

impl Browsers {
    /// Looks for the browser and starts none. Removes what a box that was killed has left behind.
    pub fn new(mut settings: BrowserSettings) -> Arc<Browsers> {
        if let Ok(absolute) = std::path::absolute(&settings.profiles) {
            settings.profiles = absolute;
        }
        let executable = find(&settings.executable, std::env::var_os("PATH").as_deref());
        if settings.profiles.exists()
            && let Err(error) = std::fs::remove_dir_all(&settings.profiles)
        {
            tracing::warn!(%error, "old browser profiles could not be removed");
        }
        let turns = Arc::new(Semaphore::new(settings.pages));
        Arc::new(Browsers {
            settings,
            executable,
            turns,
            running: tokio::sync::Mutex::default(),
            watches: Mutex::default(),
            started: AtomicUsize::new(0),
        })
    }

    /// Why no page can be rendered on this box, in words for a customer; none when one can.
    pub fn lack(&self) -> Option<String> {
        if self.settings.pages == 0 {
            return Some("this box renders no pages (its operator has set browser.pages = 0)".to_owned());
        }
        if self.executable.is_none() {
            return Some(
                "this box has no Chromium: its operator installs one, or names it as browser.executable"
                    .to_owned(),
            );
        }
        None
    }

    /// A place for a page, as soon as there is one. The error is for a customer.
    pub async fn turn(self: &Arc<Self>) -> Result<Turn, String> {
        let permit =
            self.turns.clone().acquire_owned().await.map_err(|_| "the box is stopping".to_owned())?;
        let pool = self.clone();
        // A task of its own: whoever cannot wait for a start has at least started it for the next one.
        let chosen = tokio::spawn(async move {
            let browser = pool.choose().await?;
            Ok(Turn { browser, _permit: permit })
        });
        chosen.await.unwrap_or_else(|_| Err("the browser could not be started".to_owned()))
    }

    async fn choose(self: &Arc<Self>) -> Result<Arc<Running>, String> {
        let mut running = self.running.lock().await;
        running.retain(|browser| !browser.client.is_gone());
        let mut found: Vec<&Arc<Running>> = running.iter().filter(|browser| browser.has_room()).collect();
        found.sort_by_key(|browser| std::cmp::Reverse(browser.pages.load(Ordering::SeqCst)));
        if let Some(browser) = found.into_iter().find_map(enter) {
            return Ok(browser);
        }
        if self.turns.is_closed() {
            return Err("the box is stopping".to_owned());
        }
        let Some(executable) = &self.executable else { return Err(self.lack().unwrap_or_default()) };
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let profile = self.settings.profiles.join(number.to_string());
        let process =
            Process::start(executable, self.settings.sandbox, profile).await.inspect_err(|error| {
                tracing::warn!(%error, executable = %executable.display(), "a browser could not be started");
            })?;
        let browser = Arc::new(Running {
            client: process.client.clone(),
            user_agent: process.user_agent.clone(),
            pages: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            served_max: self.settings.pages_served_max,
            idle_timeout: self.settings.idle_timeout,
            is_retired: AtomicBool::new(false),
            is_too_big: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            stop: Notify::new(),
        });
        running.push(browser.clone());
        let mut watches = self.watches.lock();
        watches.retain(|watch| !watch.is_finished());
        watches.push(tokio::spawn(watch(process, browser.clone(), self.settings.memory_bytes_max)));
        enter(&browser).ok_or_else(|| "the browser ended as soon as it was started".to_owned())
    }

    /// Ends every browser, and lets nobody start one.
    pub async fn close(&self) {
        self.turns.close();
        for browser in self.running.lock().await.drain(..) {
            browser.retire();
            browser.stop.notify_one();
        }
        let watches = std::mem::take(&mut *self.watches.lock());
        for watch in watches {
            // It panics as little as it can fail; if it did, its process group died with it.
            let _ = watch.await;
        }
    }
}

/// Takes a place in a browser, unless it has been retired meanwhile: whoever retires it looks at its pages afterwards, and
/// whoever enters looks afterwards whether it is retired, so that one of the two always sees the other.
fn enter(browser: &Arc<Running>) -> Option<Arc<Running>> {
    browser.pages.fetch_add(1, Ordering::SeqCst);
    if browser.is_retired.load(Ordering::SeqCst) {
        browser.pages.fetch_sub(1, Ordering::SeqCst);
        return None;
    }
    if browser.served.fetch_add(1, Ordering::Relaxed) + 1 >= browser.served_max {
        browser.retire();
    }
    Some(browser.clone())
}

/// Stays with a browser until it ends or has to be ended.
async fn watch(mut process: Process, browser: Arc<Running>, memory_bytes_max: u64) {
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = process.ended() => {
                tracing::warn!("a browser has ended by itself");
                break;
            }
            () = browser.stop.notified() => break,
            _ = ticks.tick() => {}
        }
        if browser.is_done() {
            // Nobody may enter between the look and the end.
            browser.retire();
            if browser.pages.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
        let Some(group) = process.group() else { continue };
        let bytes = tokio::task::spawn_blocking(move || group_bytes(group)).await.unwrap_or(0);
        if bytes > memory_bytes_max {
            tracing::warn!(bytes, memory_bytes_max, "a browser took too much memory and is ended");
            browser.is_too_big.store(true, Ordering::Relaxed);
            break;
        }
    }
    browser.retire();
    process.end().await;
}
