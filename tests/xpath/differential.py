#!/usr/bin/env python3
"""Compares the XPath engine with lxml, expression by expression, on the same trees.

    cargo build --release --example differential
    python3 -m venv VENV && VENV/bin/pip install lxml parsel
    VENV/bin/python tests/xpath/differential.py target/release/examples/differential --pages ../shared/data/pages
        [--seed 1] [--count 240] [--expressions 16] [--spread 2] [--list tests/xpath/realworld.txt] [--bytes-max 250000]

The binary dumps each page's tree, which is rebuilt in lxml (see lxmltree.py). For every page `--expressions` are generated
from the seed and its own words, and asked there and on the `--spread` pages after it; those of `--list` are asked
everywhere. Node-sets are compared node by node in order, the document node included, other values by value.

A difference is excused only where it is *shown* to be one of libxml2's quirks (see `quirk`): the expression is rewritten so
that the quirk cannot act, and lxml's answer to that must be ours. Exit code 1 if anything else differs.
"""
import argparse, collections, json, math, multiprocessing, os, random, re, subprocess, sys, tempfile, time
from generator import Generator
from lxmltree import Asker, Page

SELF_NAME = re.compile(r"(?<![\w-])((?:ancestor-or-|descendant-or-)?self::[A-Za-z_][\w.-]*)(?![\w.:-]|\s*\()")
ID_CALL = re.compile(r"""(?<![\w-])id\(('[^']*'|"[^"]*")\)""")


def same(mine, theirs):
    if "number" in mine and "number" in theirs:
        a, b = float(mine["number"]), theirs["number"]
        return math.isnan(a) and math.isnan(b) or a == b
    empty = ({"texts": []}, {"nodes": []})
    return mine == theirs or mine in empty and theirs in empty


def rounded(answer):
    """The answer with every number in its text at twelve digits."""
    shorter = lambda found: f"{float(found.group()):.12g}"
    return re.sub(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d{15,}", shorter, answer.get("text", ""))


def quirk(xpath, mine, theirs, ask):
    """The quirk of libxml2's that makes the whole difference, if one does. `ask` asks lxml again."""
    plain = SELF_NAME.sub(r"\1[not(count(. | ../@*) = count(../@*))]", xpath)
    if plain != xpath and same(mine, ask(plain)):
        return "self::name matches an attribute"
    if "text" in mine and "text" in theirs and rounded(mine) == rounded(theirs):
        return "prints numbers with an exponent or 15 digits"
    by_attribute = ID_CALL.sub(r"(//*[@id=\1])[1]", xpath)
    if by_attribute != xpath and same(mine, ask(by_attribute)):
        return "id() needs a DTD"
    if "///" in xpath and "error" in theirs and same(mine, ask(xpath.replace("///", "//"))):
        return "/// is tolerated by us"
    return None


def sampled_pages(options, rng):
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(options.pages) for name in names
                   if name.endswith(".html") and os.path.getsize(os.path.join(folder, name)) < options.bytes_max)
    paths = sorted(rng.sample(paths, min(options.count, len(paths))))
    dumped = subprocess.run([options.binary, "trees", *paths], stdout=subprocess.PIPE, check=True).stdout
    pages = []
    for path, line in zip(paths, dumped.decode().split("\n")):
        events = json.loads(line)
        try:
            pages.append((path, events, Page(events)))
        except (ValueError, IndexError) as error:
            print(f"lxml cannot hold {path}: {error}")
    return pages


def make_cases(options, rng, pages):
    """For each page its expressions; how many were generated in all."""
    generated = []
    for _, _, page in pages:
        generator = Generator(rng, page)
        generated.append([generator.expression() for _ in range(options.expressions)])
    listed = [line.rstrip("\n") for line in open(options.list) if line.strip() and not line.startswith("# ")]
    cases = []
    for at, (path, _, _) in enumerate(pages):
        own = [xpath for back in range(options.spread + 1) for xpath in generated[at - back]]
        cases.append({"page": path, "xpaths": own + listed})
    return cases, len({xpath for some in generated for xpath in some}), len(set(listed))


def our_answers(options, cases):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        output = subprocess.run([options.binary, "run", file.name], stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in output.decode().split("\n") if line]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--pages", required=True)
    arguments.add_argument("--count", type=int, default=240)
    arguments.add_argument("--expressions", type=int, default=16)
    arguments.add_argument("--spread", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--bytes-max", type=int, default=250000)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=20, help="what lxml may take for an expression")
    arguments.add_argument("--list", default=os.path.join(here, "realworld.txt"))
    options = arguments.parse_args()
    start, rng = time.time(), random.Random(options.seed)
    pages = sampled_pages(options, rng)
    cases, generated, listed = make_cases(options, rng, pages)
    print(f"seed {options.seed}: {generated} generated and {listed} listed expressions, {len(pages)} pages", flush=True)
    answers = our_answers(options, cases)
    print(f"our answers after {time.time() - start:.0f} s", flush=True)
    results = multiprocessing.SimpleQueue()
    share = lambda number: (pages[number::options.jobs], cases[number::options.jobs], answers[number::options.jobs])
    workers = [multiprocessing.Process(target=compare_pages, args=(options, *share(number), results))
               for number in range(options.jobs)]
    for worker in workers:
        worker.start()
    total, shown = collections.Counter(), 0
    for _ in pages:
        counts, differences = results.get()
        total += counts
        for difference in differences:
            shown += 1
            if shown <= 20:
                print(difference, flush=True)
        if total["pages"] % 20 == 0:
            print(f"{total['pages']} pages, {time.time() - start:.0f} s", file=sys.stderr, flush=True)
    for worker in workers:
        worker.join()
    print(f"{total['compared']} pairs of page and expression after {time.time() - start:.0f} s:")
    for what, count in sorted(total.items()):
        print(f"{count:8}  {what}")
    print("no difference" if not total["DIFFER"] else "DIFFERENCES")
    sys.exit(total["DIFFER"] > 0 or total["pages"] < len(pages))


def compare_pages(options, pages, cases, answers, results):
    """Puts on the queue, page by page, what was counted and the differences in words."""
    for (path, events, _), case, mine_all in zip(pages, cases, answers):
        counts, differences = collections.Counter(pages=1), []
        asker = Asker(events, options.seconds)
        for xpath, mine in zip(case["xpaths"], mine_all):
            theirs = asker.evaluate(xpath)
            verdict = judge(xpath, mine, theirs, asker.evaluate)
            counts["compared"] += 1
            counts[verdict] += 1
            if verdict == "same: nodes and values":
                counts["same: not empty, not false, not 0"] += any(theirs.get(key) for key in ("nodes", "text", "number", "bool"))
                counts["same: holds the document node"] += 0 in (theirs.get("nodes") or [])[:1]
            elif verdict == "DIFFER" or verdict.startswith("our budget"):
                differences.append(f"{verdict}: {path}\n  {xpath}\n  ours   {str(mine)[:300]}\n  theirs {str(theirs)[:300]}")
        asker.stop()
        results.put((counts, differences))


def judge(xpath, mine, theirs, ask):
    if "none" in theirs:
        return f"not compared: lxml {theirs['none']}"
    if "error" in mine and mine["error"].startswith("evaluate:"):
        return "our budget ended"
    if "error" in mine and "error" in theirs:
        return "same: refused by both"
    if same(mine, theirs):
        return "same: nodes and values"
    if theirs.get("error", "").startswith(("error:", "PatternError:")):
        return "a pattern that Python's re refuses"
    why = quirk(xpath, mine, theirs, ask)
    return f"libxml2's quirk, shown: {why}" if why else "DIFFER"


if __name__ == "__main__":
    main()
