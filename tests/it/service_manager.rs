//! What the box tells the service manager that has started it, as systemd would hear it.

use crate::harness::process::Process;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use tempfile::tempdir;

#[test]
fn a_service_manager_hears_when_the_box_is_ready_that_it_lives_and_that_it_ends() {
    let folder = tempdir().unwrap();
    let place = folder.path().join("notify");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let hear = || {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let data = folder.path().join("box");
    std::fs::create_dir(&data).unwrap();
    let environment = [("NOTIFY_SOCKET", place.into_os_string()), ("WATCHDOG_USEC", "200000".into())];
    let process = Process::start_under(&data, &[], &environment);
    let ready = hear();
    assert!(ready.starts_with("READY=1\nSTATUS=Serving at http://"), "{ready}");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    process.terminate();
    let ending = std::iter::repeat_with(hear).find(|message| message != "WATCHDOG=1").unwrap();
    assert!(ending.starts_with("STOPPING=1\n") && ending.contains("EXTEND_TIMEOUT_USEC="), "{ending}");
}
