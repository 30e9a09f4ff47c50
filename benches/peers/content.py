#!/usr/bin/env python3
"""The main content of pages beside trafilatura's: the same pages, one run.

    benches/peers/content.py FOLDER [--driver PATH] [--rounds N] [--json FILE]

FOLDER is a checkout of github.com/scrapinghub/article-extraction-benchmark: 181 pages of 126 sites, with the text of each
article as people marked it. What is measured:

- how much of that text is found, and how little else: precision, recall and F1 over runs of four words, as the
  benchmark's own evaluate.py defines them, of plain text without links and images;
- pages a second, in CPU time: for ours from bytes to Markdown, for trafilatura from decoded characters to text, which is
  its default output. Rounds of both alternate; a figure is the median.

Ours was tuned on the pages of one half of the sites (`tune`: those whose registered domain has an even SHA-256) and the
other half (`held`) was measured once, at the end. trafilatura's authors know the whole benchmark.

Packages go to a virtual environment of their own: PEERS_VENV, or ~/.cache/gleaner/venv-peers.
"""

import argparse
import collections
import gzip
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# lxml left its cleaner to a package of its own, which trafilatura's jusText needs.
PACKAGES = ["trafilatura", "lxml_html_clean"]
RUN_WORDS = 4


def enter_venv():
    """Starts this script again inside the environment that has the peer, which is made on first use."""
    venv = pathlib.Path(os.environ.get("PEERS_VENV", "~/.cache/gleaner/venv-peers")).expanduser()
    python = venv / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == venv.resolve():
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    found = "import " + ", ".join(PACKAGES)
    if subprocess.run([python, "-c", found], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    os.execv(python, [str(python), str(pathlib.Path(__file__).resolve()), *sys.argv[1:]])


def half_of(url):
    from tld import get_fld

    domain = get_fld(url, fail_silently=True) or url
    return "held" if int(hashlib.sha256(domain.encode()).hexdigest(), 16) % 2 else "tune"


def runs_of_words(text):
    words = re.findall(r"\w+", text or "")
    runs = (tuple(words[at : at + RUN_WORDS]) for at in range(max(1, len(words) - RUN_WORDS + 1)))
    return collections.Counter(run for run in runs if run)


def compare(truth, found):
    """Precision and recall of a page; `None` where it has nothing to say of one."""
    truth, found = runs_of_words(truth), runs_of_words(found)
    hits = sum((truth & found).values())
    precision = hits / sum(found.values()) if found else None
    recall = hits / sum(truth.values()) if truth else None
    return precision, recall


def score(pages, found):
    pairs = [compare(page["truth"], found[page["id"]]) for page in pages]
    precision = statistics.mean(one for one, _ in pairs if one is not None)
    recall = statistics.mean(one for _, one in pairs if one is not None)
    return {"f1": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}


def read_pages(folder):
    truth = json.loads((folder / "ground-truth.json").read_text())
    pages = []
    for key, entry in sorted(truth.items()):
        data = gzip.decompress((folder / "html" / f"{key}.html.gz").read_bytes())
        half = half_of(entry["url"])
        pages.append({"id": key, "url": entry["url"], "truth": entry["articleBody"], "half": half, "bytes": data})
    return pages


def ours(driver, listing, rounds):
    lines = subprocess.run([driver, listing, "--rounds", str(rounds)], check=True, capture_output=True).stdout
    *pages, last = map(json.loads, lines.splitlines())
    return {pathlib.Path(page["file"]).stem: page["text"] for page in pages}, last["seconds"]


def theirs(pages):
    import trafilatura

    texts = [(page["id"], page["bytes"].decode()) for page in pages]
    begun = time.process_time()
    # As the benchmark's own runner calls it.
    found = {key: trafilatura.extract(text, include_comments=False) for key, text in texts}
    return found, time.process_time() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--driver", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    driver = arguments.driver
    if driver is None:
        build = ["cargo", "build", "--release", "-p", "gleaner-content", "--example", "content"]
        subprocess.run(build, cwd=ROOT, check=True)
        driver = str(ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/examples/content")
    pages = read_pages(arguments.folder)
    seconds = {"ours": [], "trafilatura": []}
    with tempfile.TemporaryDirectory() as place:
        listing = pathlib.Path(place) / "pages"
        lines = []
        for page in pages:
            file = pathlib.Path(place) / f"{page['id']}.html"
            file.write_bytes(page["bytes"])
            lines.append(f"{file}\t{page['url']}\n")
        listing.write_text("".join(lines))
        found = {}
        for _ in range(arguments.rounds):
            found["ours"], spent = ours(driver, str(listing), 1)
            seconds["ours"] += spent
            found["trafilatura"], spent = theirs(pages)
            seconds["trafilatura"].append(spent)
    import trafilatura

    report = {"trafilatura_version": trafilatura.__version__, "pages": len(pages)}
    for name, texts in found.items():
        report[name] = {"pages_a_second": len(pages) / statistics.median(seconds[name])}
        for half in ("tune", "held", "all"):
            part = [page for page in pages if half in ("all", page["half"])]
            report[name][half] = {"pages": len(part), **score(part, texts)}
            figures = "  ".join(f"{key} {report[name][half][key]:.3f}" for key in ("f1", "precision", "recall"))
            print(f"{name:12} {half:5} {len(part):4} pages  {figures}")
        print(f"{name:12} {report[name]['pages_a_second']:.0f} pages a second")
    report["ratio"] = report["ours"]["pages_a_second"] / report["trafilatura"]["pages_a_second"]
    print(f"trafilatura {trafilatura.__version__} takes {report['ratio']:.1f} times our time")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    enter_venv()
    main()
