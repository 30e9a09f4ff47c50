//! `gleaner demo --once`, as the README tells a newcomer to run it.

use crate::harness::binary;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_demo_collects_extracts_finds_and_answers() {
    let begun = Instant::now();
    let output = Command::new(binary()).args(["demo", "--once"]).output().unwrap();
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    for visit in ["first visit", "second visit"] {
        let line =
            text.lines().find(|line| line.contains(visit)).unwrap_or_else(|| panic!("no {visit} in {text}"));
        let percent = line.rsplit_once('(').and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        assert!(percent.parse::<f64>().unwrap() >= 95.0, "{line}");
        assert!(line.contains("71 pages"), "{line}");
    }
    assert!(text.contains("What changed since the first visit: 19 of 71 pages"), "{text}");
    assert!(text.contains("Search for \"plane\" among products: "), "{text}");
    assert!(text.contains("USD"), "the SQL answer names the currencies: {text}");
    assert!(text.contains("This box ends now"), "nobody is told to go on with a box that is gone: {text}");
    println!("the demo took {took:?}");
    // A bound against hanging, not a measurement: the figure is in data/docs/benchmarks.md.
    assert!(took < Duration::from_secs(120));
}
