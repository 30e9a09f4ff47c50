//! The box's browsers: started when they are needed, shared, watched, and ended.
//!
//! A browser takes seconds and a hundred megabytes to start and each page in it a fraction of that, so pages share
//! browsers, each in a context of its own: no page sees another's cookies, cache or storage. How many pages there are at
//! once is the operator's; more wait for their turn, and organizations take turns ([`FairSemaphore`]). A browser is ended when
//! nobody has used it for a while, after so many pages, when it takes more memory than it may ([`BrowserSettings`]), and
//! with the box.
//!
//! A page may bring its browser down, and then nobody knows which one it was. So each of them is tried again in a browser
//! of its own (`apart`), where what happens is its own doing; and for a while their organizations share no browser with
//! others ([`SUSPECTED_FOR`]), so that whoever brings browsers down again and again does so to itself.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::BrowserSettings;
use super::launch::{Process, find, group_bytes};
use super::protocol::Client;
use base::ids::OrgId;
use base::line::{FairPermit, FairSemaphore, FairnessRules};

/// Pages at once in one browser.
const PAGES_PER_BROWSER: usize = 8;
/// One place in so many is there once more, beside the others, for organizations with less than their share.
const PLACES_KEPT_PART: usize = 4;
/// How long such an organization waits for one of the others first.
const KEPT_OUT_MAX: Duration = Duration::from_secs(2);
/// How often a browser is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long an organization has browsers of its own after one with a page of its was lost.
const SUSPECTED_FOR: Duration = Duration::from_secs(10 * 60);

/// Whose a page is; none: the box's own.
pub type Owner = Option<OrgId>;

/// The right to have a page open.
pub type PagePermit = FairPermit<Owner>;

/// All browsers of the box.
pub struct Browsers {
    settings: BrowserSettings,
    executable: Option<PathBuf>,
    line: Arc<FairSemaphore<Owner>>,
    /// Held while one is chosen or started, so that two pages do not start two.
    running: tokio::sync::Mutex<Vec<Arc<RunningBrowser>>>,
    /// When a browser was lost in which each of these had a page.
    suspects: Mutex<HashMap<Owner, Instant>>,
    watches: Mutex<Vec<JoinHandle<()>>>,
    started: AtomicUsize,
}

/// Whose pages a browser is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenancy {
    Everybody,
    Of(Owner),
    /// One page, and then it ends.
    One,
}

/// Why a browser ended, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserEnd {
    ByItself,
    /// It took more memory than it may.
    TooBig,
    /// The box ended it.
    Stopped,
}

/// One browser, as far as its pages are concerned.
pub struct RunningBrowser {
    pub client: Client,
    pub user_agent: String,
    guests: Tenancy,
    served_max: usize,
    idle_timeout: Duration,
    stay: Mutex<BrowserUsage>,
    stop: Notify,
}

struct BrowserUsage {
    pages: usize,
    served: usize,
    is_retired: bool,
    idle_since: Instant,
    /// Why it ended, and how many pages were open then.
    end: Option<(BrowserEnd, usize)>,
}

/// A page's place in a browser.
pub struct PageLease {
    pub browser: Arc<RunningBrowser>,
    _place: PagePermit,
}

impl Drop for PageLease {
    fn drop(&mut self) {
        let mut stay = self.browser.stay.lock();
        stay.idle_since = Instant::now();
        stay.pages -= 1;
    }
}

impl RunningBrowser {
    fn new(process: &Process, guests: Tenancy, settings: &BrowserSettings) -> Arc<RunningBrowser> {
        let stay =
            BrowserUsage { pages: 0, served: 0, is_retired: false, idle_since: Instant::now(), end: None };
        Arc::new(RunningBrowser {
            client: process.client.clone(),
            user_agent: process.user_agent.clone(),
            guests,
            served_max: if guests == Tenancy::One { 1 } else { settings.pages_served_max },
            idle_timeout: settings.idle_timeout,
            stay: Mutex::new(stay),
            stop: Notify::new(),
        })
    }

    /// Lets nobody in any more; it ends when its last page does.
    pub fn retire(&self) {
        self.stay.lock().is_retired = true;
    }

    /// Notes that it ends. What was noted first stands, with the pages that were open then.
    pub fn note_end(&self, why: BrowserEnd) -> (BrowserEnd, usize) {
        let mut stay = self.stay.lock();
        stay.is_retired = true;
        let pages = stay.pages;
        *stay.end.get_or_insert((why, pages))
    }

    /// Why it ended and with how many pages; none as long as it has not.
    pub fn end(&self) -> Option<(BrowserEnd, usize)> {
        if self.client.is_gone() {
            return Some(self.note_end(BrowserEnd::ByItself));
        }
        self.stay.lock().end
    }

    /// Takes a place in it, unless nobody is let in any more.
    fn enter(self: &Arc<Self>, place: PagePermit) -> Result<PageLease, PagePermit> {
        let mut stay = self.stay.lock();
        if stay.is_retired || stay.pages >= PAGES_PER_BROWSER {
            return Err(place);
        }
        stay.pages += 1;
        stay.served += 1;
        stay.is_retired = stay.served >= self.served_max;
        drop(stay);
        Ok(PageLease { browser: self.clone(), _place: place })
    }

    fn pages(&self) -> usize {
        self.stay.lock().pages
    }

    /// Retires it if nobody is in it and it has been so for longer than this, or it is retired anyway; and says so.
    fn retire_idle(&self, timeout: Duration) -> bool {
        let mut stay = self.stay.lock();
        let is_done = stay.pages == 0 && (stay.is_retired || stay.idle_since.elapsed() > timeout);
        stay.is_retired |= is_done;
        is_done
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
        let line = FairSemaphore::new(FairnessRules {
            places: settings.pages,
            kept: settings.pages.div_ceil(PLACES_KEPT_PART),
            kept_after: KEPT_OUT_MAX,
            // Each has a slot of the box, and those are few.
            waiting_max: usize::MAX,
        });
        Arc::new(Browsers {
            settings,
            executable,
            line,
            running: tokio::sync::Mutex::default(),
            suspects: Mutex::default(),
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

    /// A place for a page of the organization's, as soon as it has one. The error is for a customer.
    pub async fn place(&self, owner: Owner) -> Result<PagePermit, String> {
        self.line.enter(owner).await.map_err(|_| stopping())
    }

    /// Pages that are open or about to be, and that wait for a place.
    pub fn counts(&self) -> (usize, usize) {
        (self.line.taken(), self.line.waiting())
    }

    /// Has a page's browser at hand: one that it shares, or one of its own. The error is for a customer.
    pub async fn open(
        self: &Arc<Self>,
        owner: Owner,
        place: PagePermit,
        is_apart: bool,
    ) -> Result<PageLease, String> {
        let pool = self.clone();
        // A task of its own: whoever cannot wait for a start has at least started it for the next one.
        let chosen = tokio::spawn(async move {
            match is_apart {
                true => pool.start(Tenancy::One, place).await,
                false => pool.choose(owner, place).await,
            }
        });
        chosen.await.unwrap_or_else(|_| Err("the browser could not be started".to_owned()))
    }

    /// A browser was lost in which the organization had a page: it shares none with others for a while.
    pub fn suspect(&self, owner: Owner) {
        let mut suspects = self.suspects.lock();
        suspects.retain(|_, since| since.elapsed() < SUSPECTED_FOR);
        suspects.insert(owner, Instant::now());
    }

    fn guests_with(&self, owner: Owner) -> Tenancy {
        let since = self.suspects.lock().get(&owner).copied();
        match since.is_some_and(|since| since.elapsed() < SUSPECTED_FOR) {
            true => Tenancy::Of(owner),
            false => Tenancy::Everybody,
        }
    }

    async fn choose(&self, owner: Owner, mut place: PagePermit) -> Result<PageLease, String> {
        let guests = self.guests_with(owner);
        let mut running = self.running.lock().await;
        running.retain(|browser| !browser.client.is_gone());
        let mut fitting: Vec<_> = running.iter().filter(|browser| browser.guests == guests).collect();
        fitting.sort_by_key(|browser| std::cmp::Reverse(browser.pages()));
        for browser in fitting {
            place = match browser.enter(place) {
                Ok(turn) => return Ok(turn),
                Err(place) => place,
            };
        }
        // There are never more than there may be pages, even if each of them has one for itself.
        if running.len() >= self.line.places() {
            let idle = running.iter().filter(|browser| browser.retire_idle(Duration::ZERO));
            idle.for_each(|browser| browser.stop.notify_one());
        }
        let (browser, process) = self.launch(guests).await?;
        let turn = browser.enter(place).map_err(|_| "the browser ended as soon as it was started")?;
        self.watch(process, &browser);
        running.push(browser);
        Ok(turn)
    }

    /// Starts a browser for a page alone. Nobody waits for that but the page itself.
    async fn start(&self, guests: Tenancy, place: PagePermit) -> Result<PageLease, String> {
        let (browser, process) = self.launch(guests).await?;
        let turn = browser.enter(place).map_err(|_| "the browser ended as soon as it was started")?;
        let mut running = self.running.lock().await;
        self.watch(process, &browser);
        running.push(browser);
        if self.line.is_closed() {
            // The others were ended before this one was among them.
            running.iter().for_each(|browser| browser.stop.notify_one());
        }
        Ok(turn)
    }

    async fn launch(&self, guests: Tenancy) -> Result<(Arc<RunningBrowser>, Process), String> {
        if self.line.is_closed() {
            return Err(stopping());
        }
        let Some(executable) = &self.executable else { return Err(self.lack().unwrap_or_default()) };
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let profile = self.settings.profiles.join(number.to_string());
        let process =
            Process::start(executable, self.settings.sandbox, profile).await.inspect_err(|error| {
                tracing::warn!(%error, executable = %executable.display(), "a browser could not be started");
            })?;
        Ok((RunningBrowser::new(&process, guests, &self.settings), process))
    }

    fn watch(&self, process: Process, browser: &Arc<RunningBrowser>) {
        let mut watches = self.watches.lock();
        watches.retain(|watch| !watch.is_finished());
        watches.push(tokio::spawn(watch(process, browser.clone(), self.settings.memory_bytes_max)));
    }

    /// Ends every browser, and lets nobody start one.
    pub async fn close(&self) {
        self.line.close();
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

fn stopping() -> String {
    "the box is stopping".to_owned()
}

/// Stays with a browser until it ends or has to be ended.
async fn watch(mut process: Process, browser: Arc<RunningBrowser>, memory_bytes_max: u64) {
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = process.ended() => {
                tracing::warn!("a browser has ended by itself");
                browser.note_end(BrowserEnd::ByItself);
                break;
            }
            () = browser.stop.notified() => {
                browser.note_end(BrowserEnd::Stopped);
                break;
            }
            _ = ticks.tick() => {}
        }
        // Nobody may enter between the look and the end.
        if browser.retire_idle(browser.idle_timeout) {
            break;
        }
        let Some(group) = process.group() else { continue };
        let bytes = tokio::task::spawn_blocking(move || group_bytes(group)).await.unwrap_or(0);
        if bytes > memory_bytes_max {
            tracing::warn!(bytes, memory_bytes_max, "a browser took too much memory and is ended");
            browser.note_end(BrowserEnd::TooBig);
            break;
        }
    }
    process.end().await;
}
