//! What servers may say that they should not, and what is taken as a key, a folder, a host's key. What a real server does is tested
//! with the whole box (tests/it/outputs/sftp.rs).

use super::wire::Wire;
use super::{FOLDER_BYTES_MAX, HOST_KEY_CHARS_MAX, Pin, check_folder, check_private_key};
use russh::keys::HashAlg;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ED25519: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

/// Begins a session with a server that says this, and asks for the size of a file where it may; what comes of it.
async fn hears(said: Vec<u8>) -> String {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let server = tokio::spawn(async move {
        theirs.write_all(&said).await.ok();
        // It goes on to listen, and says no more.
        theirs.shutdown().await.ok();
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.ok();
    });
    let told = match Wire::begin(Box::new(ours), Box::new(())).await {
        Err(fault) => fault.told,
        Ok(mut wire) => match wire.size("x").await {
            Err(fault) => fault.told,
            Ok(size) => format!("{size:?}"),
        },
    };
    server.abort();
    told
}

fn message(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

#[tokio::test]
async fn a_server_that_says_something_else_is_not_believed() {
    let version = message(&[2, 0, 0, 0, 3]);
    let after = |body: &[u8]| [version.clone(), message(body)].concat();
    let attributes = [&[105, 0, 0, 0, 1][..], &1_u32.to_be_bytes(), &7_u64.to_be_bytes()].concat();
    for (said, told) in [
        (Vec::new(), "the server has ended the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "what the server says is not SFTP"),
        (message(&[2, 0, 0, 0, 2]), "what the server says is not SFTP"),
        (u32::MAX.to_be_bytes().to_vec(), "what the server says is not SFTP"),
        (vec![0; 64], "what the server says is not SFTP"),
        (version.clone(), "the server has ended the connection"),
        (after(&[105, 0, 0, 0, 2, 0, 0, 0, 0]), "what the server says is not SFTP"),
        (after(&[105, 0, 0, 0, 1, 0, 0, 0, 1]), "what the server says is not SFTP"),
        (after(&[102, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), "what the server says is not SFTP"),
        (after(&[104, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), "what the server says is not SFTP"),
        (after(&[101, 0, 0, 0, 1, 0, 0, 0, 2]), "None"),
        (after(&[101, 0, 0, 0, 1, 0, 0, 0, 3]), "a file cannot be looked at: the user may not do this"),
        (after(&attributes), "Some(7)"),
    ] {
        assert_eq!(hears(said.clone()).await, told, "{said:?}");
    }
}

#[test]
fn a_host_key_is_a_key_or_its_fingerprint() {
    let pinned = Pin::parse(ED25519).unwrap();
    let Pin::Key(key) = &pinned else { panic!("{pinned:?}") };
    for same in
        [format!("files.example.com {ED25519}"), format!("{ED25519} root@files"), format!("  {ED25519}\n")]
    {
        assert_eq!(Pin::parse(&same).unwrap(), pinned, "{same}");
    }
    let by_sum = Pin::parse(&key.fingerprint(HashAlg::Sha256).to_string()).unwrap();
    assert!(pinned.is(key) && by_sum.is(key));
    let other = ED25519.replace("AAAAIJdD7", "AAAAIJdD8");
    let Pin::Key(other) = Pin::parse(&other).unwrap() else { panic!("{other}") };
    assert!(!pinned.is(&other) && !by_sum.is(&other));
    for bad in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:short", "MD5:00:11", "files.example.com"] {
        assert!(Pin::parse(bad).is_err(), "{bad}");
    }
    assert!(Pin::parse(&"x".repeat(HOST_KEY_CHARS_MAX + 1)).is_err());
}

#[test]
fn a_folder_leads_down_and_nowhere_else() {
    for good in ["", "/", "/upload", "upload/here", "/srv/data 2/ä"] {
        check_folder(good).unwrap();
    }
    for bad in ["../up", "a/../b", "a//b", "a/", "/a/", "./a", "a\0b", "a\nb"] {
        assert!(check_folder(bad).is_err(), "{bad}");
    }
    assert!(check_folder(&"a".repeat(FOLDER_BYTES_MAX + 1)).is_err());
}

#[test]
fn what_is_no_usable_private_key_is_refused() {
    for bad in [
        "",
        "password",
        ED25519,
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
        "PuTTY-User-Key-File-3: ssh-ed25519",
    ] {
        assert!(check_private_key(bad).is_err(), "{bad}");
    }
    assert!(check_private_key(&"x".repeat(20_000)).is_err());
}
