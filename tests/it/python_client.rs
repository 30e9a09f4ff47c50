//! The Python client (`clients/python`): its own tests, run with the binary as shipped, and that it is of this document.
//!
//! What they need comes from PyPI, in fixed versions, into a folder of the cache that is reused. Where there is no Python
//! or no registry the test says so and is skipped.

use crate::clients::{run, skipped, tools};
use crate::harness::binary;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// The client's one dependency, its extras, and what its tests are run, typed and built with.
const PACKAGES: &[&str] = &[
    "anyio==4.16.0",
    "ast_serialize==0.13.1",
    "certifi==2026.10.18",
    "h11==0.16.0",
    "hatchling==1.33.0",
    "httpcore==1.0.9",
    "httpx==0.28.1",
    "idna==3.20",
    "iniconfig==2.3.1",
    "librt==0.16.0",
    "mypy==2.4.1",
    "mypy_extensions==1.2.0",
    "numpy==2.4.6",
    "packaging==26.3",
    "pandas==3.1.1",
    "pandas-stubs==3.1.0.261029",
    "pathspec==1.1.1",
    "pluggy==1.7.0",
    "pyarrow==26.0.1",
    "Pygments==2.21.0",
    "pytest==9.2.0",
    "python-dateutil==4.0.0",
    "tomlkit==0.15.2",
    "trove-classifiers==2026.9.21.13",
    "typing_extensions==4.16.0",
    "tzdata==2026.6",
];

/// All of its tests; they start boxes of their own.
const TESTS_TIME_MAX: Duration = Duration::from_secs(1_800);
const CHECK_TIME_MAX: Duration = Duration::from_secs(300);

fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_passes_its_tests_with_the_binary() {
    let install = |folder: &Path| {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
        ]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(folder).args(PACKAGES);
        pip
    };
    let tools = match tools("python3", PACKAGES, install).await {
        Ok(tools) => tools,
        Err(why) => return skipped("what the Python client's tests need", &why),
    };
    let work = TempDir::new().unwrap();
    let path = std::env::join_paths([client().join("src"), tools]).unwrap();
    let mut pytest = Command::new("python3");
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp"])
        .arg(work.path().join("tests"));
    pytest.current_dir(client()).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("GLEANER_BINARY", binary()).env_remove("GLEANER_URL").env_remove("GLEANER_API_KEY");
    let printed = run(&mut pytest, TESTS_TIME_MAX).await.unwrap_or_else(|error| panic!("{error}"));
    // With all of the packages there none of them has a reason to be left out.
    let last = printed.lines().rfind(|line| line.contains("passed")).unwrap_or_default();
    assert!(!last.is_empty() && !last.contains("skipped") && !last.contains("failed"), "{printed}");
}

#[tokio::test]
async fn the_python_client_is_made_of_this_document() {
    let mut generate = Command::new("python3");
    generate.args(["generate.py", "--check"]).current_dir(client());
    if Command::new("python3").arg("--version").output().await.is_err() {
        return skipped("Python", "there is no python3");
    }
    if let Err(stale) = run(&mut generate, CHECK_TIME_MAX).await {
        panic!("run python3 clients/python/generate.py, which changes:\n{stale}");
    }
}
