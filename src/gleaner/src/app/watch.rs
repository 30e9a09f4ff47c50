//! What is watched while the box runs: the disk, and whether the feeds get on. Readiness, status and metrics ask here.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that must be left on the disk, where it counts them: a page, a segment and a result are a file each.
const FILES_RESERVE: u64 = 1_000;
/// A feed that has more to do and has done nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// An upkeep that has not looked for so long is not there any more.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// What was seen last.
#[derive(Default)]
pub(super) struct Watch {
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    looked: Option<Instant>,
    /// Of the machine's clock, that were seen.
    jumps: Option<u64>,
    room: Option<disk::Room>,
    /// What the disk lacks.
    short: Option<String>,
    /// The folder of all data as it was when the box opened it.
    data: Option<disk::Identity>,
    /// Where each feed stands, and since when.
    feeds: BTreeMap<&'static str, Feed>,
}

struct Feed {
    position: u64,
    since: Instant,
    behind: bool,
    lag: Duration,
}

/// What must stay free.
pub(super) struct Reserve {
    pub bytes: u64,
}

/// What a look at the disk has found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DiskLook {
    /// It has less room than must stay free.
    pub is_full: bool,
    /// The folder of all data is not the one any more that the box has opened.
    pub is_gone: bool,
}

impl Watch {
    /// Over the folder of all data as it is now.
    pub(super) fn over(data: &Path) -> Watch {
        let watch = Watch::default();
        watch.state.lock().data = disk::identity(data).ok();
        watch
    }

    /// Whether there are more jumps of the clock than at the look before.
    pub(super) fn clock_jumped(&self, jumps: u64) -> bool {
        self.state.lock().jumps.replace(jumps).is_some_and(|before| before != jumps)
    }

    /// Looks at the disk of `folders`, the first of which holds the others. One that cannot be asked is short of nothing, and
    /// said to be silent.
    pub(super) fn look(&self, folders: &[PathBuf], reserve: &Reserve) -> DiskLook {
        let gone = folders.first().and_then(|folder| self.gone(folder));
        let mut least: Option<disk::Room> = None;
        let mut silent = None;
        for folder in folders {
            match disk::room(folder) {
                Ok(room) => {
                    let files = |room: &disk::Room| room.files.unwrap_or(u64::MAX);
                    least = Some(least.map_or(room, |least| disk::Room {
                        bytes: least.bytes.min(room.bytes),
                        files: Some(files(&least).min(files(&room))).filter(|files| *files < u64::MAX),
                    }));
                }
                // One that is made when it is needed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    silent = Some(format!("the room of {} cannot be read: {error}", folder.display()))
                }
            }
        }
        let short = least.and_then(|room| shortage(&room, reserve));
        let look = DiskLook { is_full: short.is_some(), is_gone: gone.is_some() };
        let mut state = self.state.lock();
        state.looked = Some(Instant::now());
        state.room = least;
        state.short = gone.or(short).or(silent);
        look
    }

    /// Why `folder` is not the one any more that the box opened under this name, if so. Files that are open go on to be
    /// written wherever they are; what is opened anew comes to lie elsewhere, and one of the two lacks after the next start.
    fn gone(&self, folder: &Path) -> Option<String> {
        let found = disk::identity(folder);
        let first = self.state.lock().data;
        let reason = match (first, found) {
            (Some(first), Ok(now)) if first == now => return None,
            (Some(_), Ok(_)) => "another folder is there now".to_owned(),
            (Some(_), Err(error)) => error.to_string(),
            (None, _) => return None,
        };
        Some(format!(
            "the folder {} was moved, removed or unmounted under the box ({reason}); writes are refused until it is back",
            folder.display()
        ))
    }

    /// Notes where a feed stands, and how old what it has not taken in is.
    pub(super) fn follow(&self, name: &'static str, position: u64, lag: Duration) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let behind = lag > Duration::ZERO;
        let feed = state.feeds.entry(name).or_insert(Feed { position, since: now, behind, lag });
        if feed.position != position || !behind || !feed.behind {
            feed.since = now;
        }
        (feed.position, feed.behind, feed.lag) = (position, behind, lag);
    }

    /// Why the disk cannot be written, if so.
    pub(super) fn disk(&self) -> Result<(), String> {
        self.state.lock().short.clone().map_or(Ok(()), Err)
    }

    pub(super) fn room(&self) -> Option<disk::Room> {
        self.state.lock().room
    }

    /// How old what a feed has not taken in is, seconds.
    pub(super) fn lag_sec(&self, name: &str) -> f64 {
        self.state.lock().feeds.get(name).map_or(0.0, |feed| feed.lag.as_secs_f64())
    }

    /// Whether a feed gets on.
    pub(super) fn feed(&self, name: &str) -> Result<(), String> {
        let state = self.state.lock();
        let Some(feed) = state.feeds.get(name).filter(|feed| feed.behind) else { return Ok(()) };
        let still = feed.since.elapsed();
        if still < STUCK {
            return Ok(());
        }
        Err(format!(
            "it stands at change {} for {} s, and what it lacks is {} s old; the log says why",
            feed.position,
            still.as_secs(),
            feed.lag.as_secs()
        ))
    }

    /// Whether somebody looks at all.
    pub(super) fn upkeep(&self) -> Result<(), String> {
        match self.state.lock().looked.map(|looked| looked.elapsed()) {
            Some(ago) if ago > LOOK_MAX => {
                Err(format!("the disk was last looked at {} s ago", ago.as_secs()))
            }
            _ => Ok(()),
        }
    }
}

fn shortage(room: &disk::Room, reserve: &Reserve) -> Option<String> {
    if room.bytes < reserve.bytes {
        return Some(format!(
            "the disk has {} MiB of free space, less than its reserve of {} MiB (storage.reserve_mb); writes are refused",
            room.bytes >> 20,
            reserve.bytes >> 20
        ));
    }
    let files = room.files.filter(|files| *files < FILES_RESERVE)?;
    Some(format!(
        "the disk has room for {files} more files (inodes), less than the {FILES_RESERVE} that must be left; writes are \
         refused"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_short_of_bytes_or_of_files() {
        let reserve = Reserve { bytes: 100 << 20 };
        let room = |bytes, files| disk::Room { bytes, files };
        assert_eq!(shortage(&room(100 << 20, None), &reserve), None);
        assert_eq!(shortage(&room(100 << 20, Some(FILES_RESERVE)), &reserve), None);
        assert!(shortage(&room((100 << 20) - 1, None), &reserve).unwrap().contains("99 MiB of free space"));
        assert!(shortage(&room(1 << 40, Some(7)), &reserve).unwrap().contains("7 more files (inodes)"));
        assert!(shortage(&room(1 << 40, Some(7)), &Reserve { bytes: 0 }).is_some(), "also without a reserve");
    }

    #[test]
    fn a_feed_is_stuck_when_it_stands_still_with_work_left() {
        let watch = Watch::default();
        let lag = Duration::from_secs(5);
        watch.follow("search", 7, lag);
        let back = |by: Duration| {
            let mut state = watch.state.lock();
            let feed = state.feeds.get_mut("search").unwrap();
            feed.since = feed.since.checked_sub(by).unwrap();
        };
        back(STUCK);
        watch.follow("search", 7, lag);
        assert!(watch.feed("search").unwrap_err().contains("at change 7"));
        watch.follow("search", 8, lag);
        assert_eq!(watch.feed("search"), Ok(()), "it moved");
        back(STUCK);
        watch.follow("search", 8, Duration::ZERO);
        assert_eq!(watch.feed("search"), Ok(()), "it has everything");
        watch.follow("search", 8, lag);
        assert_eq!(watch.feed("search"), Ok(()), "it only just fell behind");
    }

    #[test]
    fn a_folder_that_is_not_there_yet_takes_no_part() {
        let temp = tempfile::tempdir().unwrap();
        let watch = Watch::default();
        let folders = [temp.path().to_owned(), temp.path().join("pages")];
        assert_eq!(watch.look(&folders, &Reserve { bytes: 0 }), DiskLook::default());
        assert!(watch.room().unwrap().bytes > 0);
        assert!(watch.look(&folders, &Reserve { bytes: u64::MAX }).is_full);
        assert!(watch.disk().unwrap_err().contains("reserve"));
        assert_eq!(watch.upkeep(), Ok(()));
    }

    #[test]
    fn a_folder_that_went_away_is_missed_until_it_is_back() {
        let temp = tempfile::tempdir().unwrap();
        let (data, aside) = (temp.path().join("data"), temp.path().join("aside"));
        std::fs::create_dir(&data).unwrap();
        let watch = Watch::over(&data);
        let look = || watch.look(std::slice::from_ref(&data), &Reserve { bytes: 0 });
        std::fs::rename(&data, &aside).unwrap();
        assert_eq!(look(), DiskLook { is_full: false, is_gone: true });
        let reason = watch.disk().unwrap_err();
        assert!(reason.contains("No such file") && reason.contains("writes are refused"), "{reason}");
        // What is found below a disk that was unmounted.
        std::fs::create_dir(&data).unwrap();
        assert!(look().is_gone);
        assert!(watch.disk().unwrap_err().contains("another folder"));
        std::fs::remove_dir(&data).unwrap();
        std::fs::rename(&aside, &data).unwrap();
        assert!(!look().is_gone);
        assert_eq!(watch.disk(), Ok(()));
    }
}
