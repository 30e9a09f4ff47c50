//! A target whose disk is full: the backup fails with its name, the box goes on, and what was written goes.

use super::{Lab, files, pages};
use crate::harness::{collect, get, member};
use std::path::Path;
use std::process::{Command, Stdio};

/// A file system of its own in memory, unmounted in the end.
struct SmallDisk<'p>(&'p Path);

impl SmallDisk<'_> {
    /// None where this process may not mount one.
    fn mount(at: &Path, mebibytes: u32) -> Option<SmallDisk<'_>> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(at);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_target_fails_by_name_and_gets_its_room_back() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let place = lab.place();
    let Some(disk) = SmallDisk::mount(&place, 4) else {
        println!("skipped: no tmpfs may be mounted here");
        return;
    };
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let api = process.client().bearer(&ada.key);
    collect(&api, &web.url("/one")).await;
    let good = lab.back_up("first");
    let before: Vec<_> = files(&place).into_keys().collect();
    // Pages that do not compress, more than the disk takes.
    let org = lab.data("first").join("pages").join(&ada.org_id).join("00");
    std::fs::create_dir_all(&org).unwrap();
    let mut noise = vec![0; 1 << 20];
    for n in 0..8u8 {
        fill_with_noise(&mut noise);
        std::fs::write(org.join(format!("00{n:02x}{}.zst", "0".repeat(60))), &noise).unwrap();
    }
    let said = lab.refused("first", &["backup", "backups", "--passphrase-file", "passphrase"]);
    assert!(said.contains("backups/objects/") && said.contains("No space left"), "{said}");
    assert_eq!(files(&place).into_keys().collect::<Vec<_>>(), before, "what it had written is gone");
    let state = lab.done("first", &["admin", "backup"]);
    assert_eq!(state["last"]["id"], good["id"], "{state}");
    assert!(state["failure"].as_str().unwrap().contains("No space left"), "{state}");
    let metrics = get(&process.client(), "/metrics").await.text();
    assert!(metrics.contains("gleaner_backup_failed 1"), "{metrics}");
    // The box has felt nothing of it.
    collect(&api, &web.url("/two")).await;
    lab.done("first", &["backup", "verify", "backups"]);
    process.kill();
    drop(disk);
}

fn fill_with_noise(bytes: &mut [u8]) {
    use std::io::Read;
    std::fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
}
