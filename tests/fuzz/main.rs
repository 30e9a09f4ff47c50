//! Seeded fuzzers of the extraction kernel, of the reader of feeds and of plain questions, for the stable toolchain: no coverage feedback, but strong oracles.
//!
//! `cargo run --release --example fuzz -- --target parser|compiler|jsonpath|numbers|feeds|induce|ask [--seconds 600] [--seed 1] [--case N]`
//!
//! Every case has a number, and its input follows from seed and number alone, so `--case` repeats a finding. A finding is
//! a panic, a broken invariant, an answer that an oracle contradicts (html5ever for trees, algebraic laws for
//! expressions and queries, an independent reading for numbers, one text in several encodings for feeds), or more than half a second. It is shrunk, printed and written to a
//! file; the exit code is then 1. Cases run on a thread with a small stack, so that recursion over the input ends the
//! process; which case that was stands in the journal file that is printed first.

mod ask;
mod compiler;
mod feeds;
mod induce;
mod jsonpath;
mod numbers;
mod parser;

use std::io::{Seek as _, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use page_oracle::clock::thread_time;
use page_oracle::soup::Random;

/// What the issue allows a hostile input.
pub const INPUT_TIME_MAX: Duration = Duration::from_millis(500);
/// Recursion over a document or a text would need more than this.
const STACK_BYTES: usize = 1 << 20;
/// After so many findings the run ends.
const FINDINGS_MAX: usize = 5;
/// Tries to make a finding smaller.
const SHRINK_TRIES_MAX: usize = 3_000;

/// What a target does: makes an input of a generator, and checks one.
pub trait Target {
    /// What goes in beside the text (which way to parse, and so on).
    type How: Copy + std::fmt::Debug;
    /// What a whole check may take, in time computed.
    const CHECK_TIME_MAX: Duration = INPUT_TIME_MAX;
    /// An input.
    fn generate(&self, random: &mut Random) -> (Self::How, String);
    /// Runs the kernel on it; says what is wrong.
    fn check(&self, how: Self::How, text: &str) -> Result<(), String>;
    /// A line about what was covered, for the end of the run.
    fn covered(&self) -> String;
}

struct Options {
    target: String,
    duration: Duration,
    seed: u64,
    case: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { target: String::new(), duration: Duration::from_secs(60), seed: 1, case: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name}: {error}"));
        match name.as_str() {
            "--target" => options.target = value,
            "--seconds" => options.duration = Duration::from_secs(number()?),
            "--seed" => options.seed = number()?,
            "--case" => options.case = Some(number()?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let run =
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || match options.target.as_str() {
            "parser" => run(&parser::ParserTarget::new(), &options),
            "compiler" => run(&compiler::CompilerTarget::new(), &options),
            "jsonpath" => run(&jsonpath::JsonPathTarget::new(), &options),
            "numbers" => run(&numbers::NumbersTarget, &options),
            "feeds" => run(&feeds::FeedsTarget::new(), &options),
            "induce" => run(&induce::InduceTarget, &options),
            "ask" => run(&ask::AskTarget, &options),
            other => {
                eprintln!(
                    "--target is parser, compiler, jsonpath, numbers, feeds, induce or ask, not `{other}`"
                );
                2
            }
        });
    let code = run.expect("a thread can be started").join().unwrap_or(1);
    ExitCode::from(code)
}

fn run<T: Target>(target: &T, options: &Options) -> u8 {
    let journal_path =
        std::env::temp_dir().join(format!("gleaner-fuzz-{}-{}.case", options.target, options.seed));
    let mut journal = std::fs::File::create(&journal_path).expect("the temporary folder takes a file");
    println!("target {}, seed {}, journal {}", options.target, options.seed, journal_path.display());
    // A panic is reported by us, shrunk; the default hook would print each try of the shrinking.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (mut cases, mut findings, mut bytes, mut slowest) = (0_u64, 0, 0_usize, Duration::ZERO);
    let mut number = options.case.unwrap_or(0);
    while start.elapsed() < options.duration && findings < FINDINGS_MAX {
        let _ = journal.seek(SeekFrom::Start(0));
        let _ = write!(journal, "{number:020}");
        let mut random = Random(options.seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ number << 20);
        let (how, text) = target.generate(&mut random);
        let (problem, took) = examine(target, how, &text);
        slowest = slowest.max(took);
        cases += 1;
        bytes += text.len();
        if let Some(problem) = problem {
            findings += 1;
            report(target, options, number, how, &text, &problem);
        }
        if options.case.is_some() {
            break;
        }
        number += 1;
    }
    println!(
        "{}: {cases} cases, {} MB of input in {:.0} s, slowest {:.0} ms, {findings} findings; {}",
        options.target,
        bytes >> 20,
        start.elapsed().as_secs_f64(),
        slowest.as_secs_f64() * 1e3,
        target.covered()
    );
    u8::from(findings > 0)
}

/// Runs one case; what is wrong with it, if anything, and how long it took.
fn examine<T: Target>(target: &T, how: T::How, text: &str) -> (Option<String>, Duration) {
    let start = Instant::now();
    let before = thread_time(start);
    let result = catch_unwind(AssertUnwindSafe(|| target.check(how, text)));
    let took = thread_time(start).saturating_sub(before);
    let problem = match result {
        Ok(Ok(())) if took <= T::CHECK_TIME_MAX => None,
        Ok(Ok(())) => Some(format!("took {took:?}")),
        Ok(Err(problem)) => Some(problem),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("panicked: {}", message.unwrap_or("without a message")))
        }
    };
    (problem, took)
}

fn report<T: Target>(target: &T, options: &Options, number: u64, how: T::How, text: &str, problem: &str) {
    let is_slow = problem.starts_with("took ");
    let small = if is_slow { text.to_owned() } else { shrink(target, how, text) };
    let again = examine(target, how, &small).0.unwrap_or_else(|| problem.to_owned());
    let path =
        std::env::temp_dir().join(format!("gleaner-fuzz-{}-{}-{number}.txt", options.target, options.seed));
    let _ = std::fs::write(&path, &small);
    let shown: String = small.chars().take(600).collect();
    println!(
        "finding: --target {} --seed {} --case {number}, {how:?}, {} bytes in {}\n  {shown:?}\n  {again}",
        options.target,
        options.seed,
        small.len(),
        path.display()
    );
}

/// Takes away pieces, of half the text down to one character, while the case still fails.
fn shrink<T: Target>(target: &T, how: T::How, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let mut piece = characters.len() / 2;
    let mut tries = 0;
    while piece > 0 && tries < SHRINK_TRIES_MAX {
        let mut at = 0;
        let mut shrunk = false;
        while at < characters.len() && tries < SHRINK_TRIES_MAX {
            let mut fewer = characters.clone();
            fewer.drain(at..(at + piece).min(fewer.len()));
            tries += 1;
            let candidate: String = fewer.iter().collect();
            let fails = catch_unwind(AssertUnwindSafe(|| target.check(how, &candidate)));
            if matches!(fails, Ok(Ok(()))) {
                at += piece;
            } else {
                characters = fewer;
                shrunk = true;
            }
        }
        if !shrunk || piece > 1 {
            piece /= 2;
        }
    }
    characters.into_iter().collect()
}
