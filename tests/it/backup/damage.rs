//! A backup with a bit flipped, cut or without a file: refused by the file's name, and nothing is put in place.

use super::{Lab, files, pages};
use crate::harness::{collect, member, text};
use std::fs;
use std::path::Path;

/// A small generator with a seed, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn refused_by_name(lab: &Lab, id: &str, name: &str, what: &str) {
    let said = lab.refused("first", &["backup", "verify", "backups"]);
    assert!(said.contains(name), "{what}: {said}");
    let asked = ["restore", "backups", "--backup", id, "--passphrase-file", "passphrase"];
    let said = lab.refused("second", &asked);
    assert!(said.contains(name), "{what}: {said}");
    let put = fs::read_dir(lab.folder.path().join("second")).map_or(0, |entries| entries.count());
    assert_eq!(put, 0, "{what}: nothing is put in place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_anywhere_is_refused_by_name() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    for n in 0..5 {
        collect(&process.client().bearer(&ada.key), &web.url(&format!("/{n}"))).await;
    }
    let made = lab.back_up("first");
    let id = text(&made, "id");
    process.kill();
    let mut dice = Dice(0x5EED_0019);
    let everything = files(&lab.place());
    let named: Vec<_> = everything.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    assert!(named.len() >= 4, "rows, a pack, a list, the key, the manifest: {:?}", everything.keys());
    for (name, bytes) in named {
        let path = lab.place().join(name);
        let flips = 3;
        for _ in 0..flips {
            let (at, bit) = (dice.below(bytes.len()), dice.below(8));
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, flipped).unwrap();
            refused_by_name(&lab, id, name, &format!("{name}: bit {bit} of byte {at}"));
        }
        for cut in [0, dice.below(bytes.len()), bytes.len() - 1] {
            fs::write(&path, &bytes[..cut]).unwrap();
            refused_by_name(&lab, id, name, &format!("{name} cut to {cut}"));
        }
        if name.starts_with("objects") {
            fs::remove_file(&path).unwrap();
            refused_by_name(&lab, id, name, &format!("{name} is missing"));
        }
        fs::write(&path, bytes).unwrap();
    }
    lab.done("first", &["backup", "verify", "backups"]);

    // What was damaged and is there still is written anew by a full backup, and both are whole.
    let pack = pack(&lab.place(), made["summary"]["pageBytes"].as_u64().unwrap());
    let mut bytes = fs::read(&pack).unwrap();
    bytes[0] ^= 1;
    fs::write(&pack, bytes).unwrap();
    lab.refused("first", &["backup", "verify", "backups"]);
    lab.done("first", &["backup", "backups", "--passphrase-file", "passphrase", "--full"]);
    lab.done("first", &["backup", "verify", "backups"]);

    fs::write(lab.folder.path().join("wrong"), "incorrect horse battery").unwrap();
    let said = lab.refused("second", &["restore", "backups", "--passphrase-file", "wrong"]);
    assert!(said.contains("the passphrase is wrong: the key file was sealed with another one"), "{said}");
    let said = lab.refused("second", &["restore", "backups"]);
    assert!(said.contains("--passphrase-file: or --without-key must be given"), "{said}");
    let said = lab.refused("second", &["restore", "nowhere", "--passphrase-file", "passphrase"]);
    assert!(said.contains("nowhere has no backup"), "{said}");
    for unknown in ["x", "../../etc/passwd", "01900000-0000-7000-8000-000000000000"] {
        let asked = ["restore", "backups", "--backup", unknown, "--passphrase-file", "passphrase"];
        let said = lab.refused("second", &asked);
        assert!(said.contains("gleaner backup list"), "{said}");
    }
    lab.restore("second", id);
    lab.is_sound("second");
}

/// The object with the pages, which are all in one.
fn pack(place: &Path, page_bytes: u64) -> std::path::PathBuf {
    let objects = files(&place.join("objects"));
    let (name, _) = objects.iter().find(|(_, bytes)| bytes.len() as u64 == page_bytes).unwrap();
    place.join("objects").join(name)
}
