//! Builds the console from `ui/` with Node.js and npm, and writes `files.rs` with what came of it.
//!
//! What a machine lacks does not fail the build: without npm, or without a network, it gets a box without a console and a
//! warning that says why. What is wrong in the source does: the types of the API are made from `data/openapi.json`, and where
//! the console does not fit them (a field was renamed, perhaps), the build fails with what the compiler says. All work is done
//! in `OUT_DIR`, so the source tree stays as it was checked out.
//!
//! `GLEANER_CONSOLE_STRICT=1` is for machines that are there to find such faults: where the types could not be checked, for want
//! of npm, of a network or of time, the build fails instead of warning.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io};

/// A registry that does not answer must not hold up a build for good.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(180);
const BUNDLE_TIME_MAX: Duration = Duration::from_secs(120);
/// It takes 5 to 15 s, by what else the machine does.
const CHECK_TIME_MAX: Duration = Duration::from_secs(300);
/// Folders that are made here and are no inputs.
const MADE: [&str; 3] = ["node_modules", "dist", "generated"];
/// What stands in a line of the compiler that tells of a fault.
const FAULT: &str = "error TS";
/// What npm is asked for. The compiler is among what it has for development, and NODE_ENV may leave that out.
const INSTALL: [&str; 7] = [
    "ci",
    "--include=dev",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--fetch-retries=1",
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    let (ui, document) = (here.join("ui"), here.join("../../data/openapi.json"));
    println!("cargo::rerun-if-env-changed=GLEANER_CONSOLE_DIST");
    println!("cargo::rerun-if-env-changed=GLEANER_CONSOLE_STRICT");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", document.display());
    watch(&ui);
    let dist = match env::var_os("GLEANER_CONSOLE_DIST") {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => {
            println!("cargo::rerun-if-changed={}", Path::new(&folder).display());
            Some(PathBuf::from(folder))
        }
        None => built(&ui, &document, &out).unwrap_or_else(|why| {
            lacks(&format!(
                "this box is built without its console: {why} (once that is mended: touch src/console/build.rs, and build again)"
            ));
            None
        }),
    };
    let files = dist.map(|folder| embedded(&folder, &out)).transpose();
    let files = files.unwrap_or_else(|why| {
        println!("cargo::warning=this box is built without its console: {why}");
        None
    });
    let text = format!("static FILES: &[File] = &[{}];\n", files.unwrap_or_default());
    fs::write(out.join("files.rs"), text).expect("OUT_DIR can be written");
}

/// Tells of what this machine could not do. A strict build fails by it once this program has ended; cargo sees to that.
fn lacks(what: &str) {
    let is_strict = env::var_os("GLEANER_CONSOLE_STRICT").is_some_and(|value| value == "1");
    println!("cargo::{}={what}", if is_strict { "error" } else { "warning" });
}

/// Has cargo run this again when a source changes.
fn watch(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if MADE.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if path.is_dir() {
            watch(&path);
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// Has cargo run this again when a program may have come: where it looks for programs, or what is there, has changed. (A file that is
/// not there yet cannot be named: cargo would run this, and build all that hangs on it, each time.)
fn watch_programs() {
    println!("cargo::rerun-if-env-changed=PATH");
    let path = env::var_os("PATH").unwrap_or_default();
    for folder in env::split_paths(&path).filter(|folder| folder.is_absolute() && folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}

/// The folder with the bundle; none where there is no npm.
fn built(ui: &Path, document: &Path, out: &Path) -> Result<Option<PathBuf>, String> {
    if !["node", "npm"].iter().all(|program| answers(program)) {
        watch_programs();
        lacks("Node.js and npm are not there, so this box is built without its console");
        return Ok(None);
    }
    let work = out.join("ui");
    let told = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    // What was installed before is used again when the lock file is the same, and so is what npm was asked for.
    let lock = fs::read(ui.join("package-lock.json")).map_err(told("read package-lock.json"))?;
    let made_with = [INSTALL.join(" ").as_bytes(), b"\n", &lock].concat();
    let installed = fs::read(work.join("installed.lock")).is_ok_and(|known| known == made_with);
    if installed {
        let _ = fs::remove_dir_all(work.join("src"));
    } else {
        let _ = fs::remove_dir_all(&work);
    }
    copy(ui, &work).map_err(told("copy the sources"))?;
    fs::copy(document, work.join("openapi.json")).map_err(told("copy data/openapi.json"))?;
    if !installed {
        run("npm", &INSTALL, &work, INSTALL_TIME_MAX)?;
        fs::write(work.join("installed.lock"), made_with).map_err(told("note what is installed"))?;
    }
    fits(&work)?;
    run("node", &["build.mjs", "openapi.json", "dist"], &work, BUNDLE_TIME_MAX)?;
    Ok(Some(work.join("dist")))
}

/// Holds that the console fits the API's types. Faults fail the build once this program has ended; cargo sees to that.
fn fits(work: &Path) -> Result<(), String> {
    run("node", &["types.mjs", "openapi.json", "src/generated/api.ts"], work, BUNDLE_TIME_MAX)?;
    // What did not change since is not looked at again.
    let compiler = [
        "node_modules/typescript/bin/tsc",
        "--noEmit",
        "--pretty",
        "false",
        "--incremental",
        "--tsBuildInfoFile",
        "types.tsbuildinfo",
    ];
    let checked = run("node", &compiler, work, CHECK_TIME_MAX);
    let said = fs::read_to_string(work.join("node.log")).unwrap_or_default();
    match checked {
        Ok(()) => (),
        Err(_) if said.lines().any(|line| line.contains(FAULT)) => {
            for line in said.lines().filter(|line| !line.trim().is_empty()) {
                println!("cargo::error=src/console/ui: {line}");
            }
        }
        Err(why) => lacks(&format!("the console's types were not checked: {why}")),
    }
    Ok(())
}

fn answers(program: &str) -> bool {
    let quiet = || Stdio::null();
    let status =
        Command::new(program).arg("--version").stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    status.is_ok_and(|status| status.success())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if MADE.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Runs a program to its end, or ends it; what it said goes into a file beside and, when it failed, into the reason.
fn run(program: &str, arguments: &[&str], folder: &Path, time_max: Duration) -> Result<(), String> {
    let told = |error: io::Error| format!("{program}: {error}");
    let path = folder.join(format!("{program}.log"));
    let log = fs::File::create(&path).map_err(told)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(told)?).stderr(log);
    let mut child = command.spawn().map_err(told)?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(told)? {
            let said = fs::read_to_string(&path).unwrap_or_default();
            let last: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
            let last = last[last.len().saturating_sub(6)..].join(" | ");
            return if status.success() {
                Ok(())
            } else {
                Err(format!("{program} {} failed: {last}", arguments[0]))
            };
        }
        if begun.elapsed() > time_max {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{program} {} took longer than {} s", arguments[0], time_max.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The list of the folder's files, copied to where they stay.
fn embedded(dist: &Path, out: &Path) -> Result<String, String> {
    let told = |error: io::Error| format!("{}: {error}", dist.display());
    let kept = out.join("files");
    let _ = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept).map_err(told)?;
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dist).map_err(told)? {
        let name = entry.map_err(told)?.file_name().to_string_lossy().into_owned();
        fs::copy(dist.join(&name), kept.join(&name)).map_err(told)?;
        if !name.ends_with(".gz") && !name.ends_with(".br") {
            names.push(name);
        }
    }
    names.sort();
    if !names.iter().any(|name| name == "index.html") {
        return Err(format!("{} has no index.html", dist.display()));
    }
    let mut text = String::new();
    for name in names {
        let path = kept.join(&name);
        let coded = |ending: &str| kept.join(format!("{name}.{ending}"));
        for ending in ["gz", "br"] {
            if !coded(ending).exists() {
                return Err(format!("{name}.{ending} is missing beside {name}"));
            }
        }
        let _ = write!(
            text,
            "File {{ name: {name:?}, plain: include_bytes!({path:?}), gzip: include_bytes!({gzip:?}), brotli: include_bytes!({brotli:?}) }},",
            gzip = coded("gz"),
            brotli = coded("br"),
        );
    }
    Ok(text)
}
