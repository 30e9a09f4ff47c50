//! `gleaner config`, and what shells and packagers are given.

use super::{Desk, lines, write};
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_a_configuration_is_told_at_once() {
    let desk = Desk::new();
    let good = desk.run(&["config", "check"]).await;
    assert_eq!((good.code, &*good.out), (Some(0), ""));
    assert!(good.err.contains("no fault in the defaults and the environment"), "{}", good.err);
    write(
        &desk.folder(),
        "appliance.toml",
        "[server]\nlisten = \"nowhere\"\nlisden = 1\n[dispatch]\nconcurrency = 0\n",
    );
    let mut command = desk.gleaner(&["config", "check"]);
    command.env("GLEANER_BI__MAX_ROWS", "lots");
    let typed = super::ended(command).await;
    assert_eq!(typed.code, Some(1));
    for part in [
        "appliance.toml: server.listen: \"nowhere\" is not an address",
        "appliance.toml: server.lisden: unknown",
        "appliance.toml: dispatch.concurrency: must be",
        "GLEANER_BI__MAX_ROWS: \"lots\" is not a value for bi.max_rows",
    ] {
        assert!(typed.out.contains(part), "{part}: {}", typed.out);
    }
    assert_eq!(typed.out.lines().count(), 4, "{}", typed.out);
    assert!(typed.err.contains("4 faults"), "{}", typed.err);
    let faults = desk.run(&["config", "check", "--json"]).await;
    let keys: Vec<_> =
        lines(&faults.out).iter().map(|fault| fault["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let missing = desk.run(&["config", "check", "--config", "none.toml"]).await;
    assert!(missing.code == Some(1) && missing.out.contains("none.toml: cannot be read"), "{}", missing.out);
}

/// What would keep the box from starting is found before: a configuration that names files which are not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_configuration_names_are_looked_at() {
    let desk = Desk::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    write(&desk.folder(), "cert.pem", &made.cert.pem());
    write(&desk.folder(), "key.pem", &made.signing_key.serialize_pem());
    write(&desk.folder(), "other.pem", &rcgen::KeyPair::generate().unwrap().serialize_pem());
    let mail = "[mail]\nhost = \"mail.example\"\nfrom = \"box@example.com\"\nusername = \"box\"\n";
    let public = "public_url = \"https://box.example\"\n";
    let with = |key: &str, rest: &str| {
        let tls = format!("[server]\n{public}[server.tls]\ncert = \"cert.pem\"\nkey = \"{key}\"\n");
        write(&desk.folder(), "appliance.toml", &format!("{tls}{mail}{rest}"));
    };
    with("none.pem", "password_file = \"none\"\n[providers]\ndir = \"nowhere\"\n");
    let typed = desk.run(&["config", "check"]).await;
    for part in [
        "appliance.toml: server.tls: cannot read the private key in ",
        "none.pem",
        "appliance.toml: mail.password_file: ",
        "appliance.toml: providers.dir: ",
    ] {
        assert!(typed.out.contains(part), "{part}: {}{}", typed.out, typed.err);
    }
    write(&desk.folder(), "password", "geheim");
    with("other.pem", "password_file = \"password\"\n");
    let typed = desk.run(&["config", "check"]).await;
    assert!(typed.out.contains("server.tls: cannot serve the certificates in "), "{}", typed.out);
    with("key.pem", "password_file = \"password\"\n");
    let typed = desk.run(&["config", "check"]).await;
    assert!(
        typed.code == Some(0) && typed.err.contains("no fault in appliance.toml"),
        "{}{}",
        typed.out,
        typed.err
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_force_is_shown_with_where_it_is_from_and_without_secrets() {
    let desk = Desk::new();
    write(
        &desk.folder(),
        "appliance.toml",
        "[server]\nmetrics_token = \"geheim-0123456789\"\n[mail]\npassword = \"geheim\"\n",
    );
    let mut command = desk.gleaner(&["config", "show", "--json"]);
    // The interface's own name for it, which is read from the process's environment like the others.
    command.env("SCHEDULER_MAX_URLS_PER_RUN", "7").env("GLEANER_LOG__LEVEL", "debug");
    let typed = super::ended(command).await;
    assert_eq!(typed.code, Some(0), "{}", typed.err);
    assert!(!typed.out.contains("geheim"), "{}", typed.out);
    let settings = lines(&typed.out);
    let of = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!(
        (of("server.metrics_token")["origin"].as_str(), of("log.format")["origin"].as_str()),
        (Some("file"), Some("default"))
    );
    assert_eq!(of("log.level")["origin"]["environment"], "GLEANER_LOG__LEVEL");
    assert_eq!(of("schedules.max_urls_per_run")["value"], 7);
    let text = desk.good(&["config", "show"]).await;
    assert!(text.contains("server.metrics_token = \"(hidden)\"  # file\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shells_can_read_their_completions() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = desk.good(&["completions", shell]).await;
        assert!(script.contains("schedules") && script.contains("forward-to"), "{shell}");
        write(&desk.folder(), shell, &script);
        let is_there =
            Command::new(shell).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !is_there.is_ok_and(|it| it.success()) {
            println!("skipped: {shell} is not installed");
            continue;
        }
        let mut check = desk.program(shell);
        check.arg("-n").arg(shell);
        let typed = super::ended(check).await;
        assert_eq!(typed.code, Some(0), "{shell}: {}", typed.err);
    }
}
