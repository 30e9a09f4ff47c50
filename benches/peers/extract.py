#!/usr/bin/env python3
"""The extraction kernel beside lxml, parsel and turbohtml: the same work, the same pages, one run.

    benches/peers/extract.py [--driver PATH] [--rounds N] [--pages N] [--json FILE]

Three things are measured, each in CPU time of one thread:

- parse: the page's bytes to a tree, with whatever each does about its encoding;
- xpath: all expressions of extract/xpaths.json over a tree that was just parsed, compiled beforehand where that exists;
- kernel: bytes to typed values by extract/schema.json (fallbacks, antiPatterns, coercion), freeing the tree included.

Rounds of all four alternate, and a figure is the median over the rounds, so a busy machine weighs on all alike. Ratios
are "how many times our time the peer takes", over expressions that the peer understands. The values that ours and
each peer find are compared as well: a ratio says little if the work was not the same.

A sum is ruled by its dearest members: `//a[@href = //link[@rel='canonical']/@href]`, which lxml evaluates anew for every
link, is half of lxml's time over these pages. So the ratio over all expressions stands beside the one without the peer's
dearest expression, the one without its dearest five, and the median of the ratios expression by expression.

Packages go to a virtual environment of their own: PEERS_VENV, or ~/.cache/gleaner/venv-peers.
"""

import argparse
import gc
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
PACKAGES = ["lxml", "parsel", "turbohtml"]
REGEXP = {"re": "http://exslt.org/regular-expressions", "set": "http://exslt.org/sets"}
PAGE_URL = "https://www.example.com/page.html"


def enter_venv():
    """Starts this script again inside the environment that has the peers, which is made on first use."""
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


def find_pages(limit):
    for folder in (ROOT / "../shared/data/pages", ROOT / "../../shared/data/pages", ROOT / "data/demo/pages"):
        if folder.is_dir():
            pages = sorted(path.resolve() for path in folder.rglob("*.html"))
            # A limit takes pages from all folders, not the first few of the alphabet.
            return pages if not limit else pages[:: max(1, len(pages) // limit)][:limit]
    sys.exit("no pages found")


# --- what a value is; the rules of src/page/src/extract in Python ------------------------------------------------------

FALSE_WORDS = set(
    "false no 0 n off none null nein non outofstock soldout discontinued unavailable notavailable notinstock nostock "
    "currentlyunavailable temporarilyoutofstock reserved disabled inactive nolongeravailable".split()
)
NUMBER = re.compile(r"[-−]?\d(?:[\d.,'’\u00a0\u202f ]*\d)?|[-−]?\.\d+")


def number(text):
    """A number as shops print it. Shorter than ours, and faster: the peers shall not lose by it."""
    found = NUMBER.search(text)
    if not found:
        return None
    digits = re.sub(r"['’\u00a0\u202f ]", "", found.group().replace("−", "-"))
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma > point:
        thousands = digits.count(",") > 1 or (point < 0 and len(digits) - comma == 4)
        digits = digits.replace(",", "") if thousands else digits.replace(".", "").replace(",", ".")
    else:
        digits = digits.replace(",", "")
        if digits.count(".") > 1:
            digits = digits.replace(".", "")
    try:
        return float(digits)
    except ValueError:
        return None


def boolean(text):
    bare = re.sub(r"^(https?://schema\.org/|schema:)", "", text, flags=re.I)
    return "".join(filter(str.isalnum, bare)).lower()[:40] not in FALSE_WORDS


def coerce(kind, text, base, urljoin):
    if kind.startswith("text"):
        return text
    if kind.startswith("url"):
        try:
            joined = urljoin(base, text)
        except ValueError:
            return None
        return joined if joined.startswith(("http://", "https://")) else None
    return number(text) if kind == "number" else boolean(text)


class Attribute:
    def __init__(self, raw, compile_one):
        self.name, self.kind = raw["name"], raw["type"]
        self.xpaths = [compile_one(xpath) for xpath in raw["xpaths"]]
        self.anti = [re.compile(pattern, re.I) for pattern in raw.get("antiPatterns", [])]
        limits = raw.get("validation", {})
        self.limits = limits
        self.pattern = re.compile(limits["pattern"]) if "pattern" in limits else None

    def is_valid(self, value):
        limits = self.limits
        if isinstance(value, list):
            return all(map(self.is_valid, value))
        if isinstance(value, str):
            fits = limits.get("minLength", 0) <= len(value) <= limits.get("maxLength", len(value))
            return fits and (self.pattern is None or self.pattern.search(value) is not None)
        if isinstance(value, float):
            return limits.get("min", value) <= value <= limits.get("max", value)
        return True


def extract(attributes, evaluate, text_of, base, urljoin):
    """Values by name. `evaluate(xpath)` gives a list or a scalar, `text_of(item)` a member's text."""
    values, valid = {}, 0
    for attribute in attributes:
        for xpath in attribute.xpaths:
            found = evaluate(xpath)
            value = one(attribute, found, text_of, base, urljoin)
            if value is not None:
                values[attribute.name] = value
                valid += attribute.is_valid(value)
                break
    return values


def one(attribute, found, text_of, base, urljoin):
    kind = attribute.kind
    if isinstance(found, bool):
        return found if kind == "boolean" else ("true" if found else "false")
    if isinstance(found, float):
        return found if found == found else None
    if isinstance(found, str):
        found = [found]
    members = [] if kind.endswith("[]") else None
    for item in found:
        text = " ".join((item if isinstance(item, str) else text_of(item)).split())
        if not text:
            if kind == "boolean":
                return True
            continue
        if any(pattern.search(text) for pattern in attribute.anti):
            if members is None:
                return None
            continue
        value = coerce(kind, text, base, urljoin)
        if members is None:
            return value
        if value is not None:
            members.append(value)
    return members or None


# --- the peers ----------------------------------------------------------------------------------------------------------


def base_of(href, urljoin):
    return urljoin(PAGE_URL, href[0].strip()) if href else PAGE_URL


class Lxml:
    """lxml itself: compiled expressions, no smart strings, parsel's has-class()."""

    def __init__(self, schema):
        import urllib.parse
        import parsel.xpathfuncs
        from lxml import etree

        parsel.xpathfuncs.setup()
        self.etree, self.urljoin = etree, urllib.parse.urljoin
        self.text, self.base = etree.XPath("string()", smart_strings=False), self.compile("//base/@href")
        self.attributes = [Attribute(raw, self.compile) for raw in schema]

    def compile(self, xpath):
        return self.etree.XPath(xpath, namespaces=REGEXP, smart_strings=False)

    def parse(self, page):
        # A parser for each page costs microseconds; huge_tree is what a crawler needs.
        parser = self.etree.HTMLParser(huge_tree=True)
        root = self.etree.fromstring(page, parser)
        return root if root is not None else self.etree.fromstring(b"<html></html>", self.etree.HTMLParser())

    def evaluate(self, tree, xpath):
        return xpath(tree)

    def kernel(self, page):
        tree = self.parse(page)
        base = base_of(self.base(tree), self.urljoin)
        return extract(self.attributes, lambda xpath: xpath(tree), self.text, base, self.urljoin)


class Parsel:
    """parsel as Scrapy uses it: w3lib finds the encoding, selectors evaluate."""

    def __init__(self, schema):
        import urllib.parse
        import parsel
        from w3lib.encoding import html_to_unicode

        self.selector, self.to_unicode, self.urljoin = parsel.Selector, html_to_unicode, urllib.parse.urljoin
        self.attributes = [Attribute(raw, self.compile) for raw in schema]

    def compile(self, xpath):
        return xpath

    def parse(self, page):
        return self.selector(text=self.to_unicode(None, page)[1], type="html")

    def evaluate(self, tree, xpath):
        return tree.xpath(xpath)

    @staticmethod
    def text_of(found):
        root = found.root
        return root if isinstance(root, str) else found.xpath("string()").get()

    def kernel(self, page):
        tree = self.parse(page)
        base = base_of(tree.xpath("//base/@href").getall(), self.urljoin)

        def evaluate(xpath):
            found = tree.xpath(xpath)
            if len(found) == 1 and not hasattr(found[0].root, "tag"):
                # A scalar: numbers and booleans come as such, texts (and the texts of nodes) as text.
                return found[0].root
            return found

        return extract(self.attributes, evaluate, self.text_of, base, self.urljoin)


class Turbohtml:
    """turbohtml: compiled expressions. It has no has-class(); the idiom of XPath 1.0 stands in for it."""

    IDIOM = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"

    def __init__(self, schema):
        import urllib.parse
        import turbohtml

        self.library, self.urljoin = turbohtml, urllib.parse.urljoin
        self.base = self.compile("//base/@href")
        self.attributes = [Attribute(raw, self.compile) for raw in schema]

    def compile(self, xpath):
        def idiom(call):
            return " and ".join(self.IDIOM.format(name) for name in re.findall(r"'([^']+)'", call.group()))

        return self.library.XPath(re.sub(r"has-class\([^)]*\)", idiom, xpath))

    def parse(self, page):
        return self.library.parse(page)

    def evaluate(self, tree, xpath):
        return xpath(tree)

    @staticmethod
    def text_of(found):
        return found.text

    def kernel(self, page):
        tree = self.parse(page)
        base = base_of([str(href) for href in self.base(tree)], self.urljoin)
        return extract(self.attributes, lambda xpath: xpath(tree), self.text_of, base, self.urljoin)


def understood(peer, expressions, page):
    """The expressions that the peer compiles and evaluates."""
    tree, able = peer.parse(page), []
    for xpath in expressions:
        try:
            peer.evaluate(tree, peer.compile(xpath))
            able.append(xpath)
        except Exception:  # Every library has errors of its own.
            pass
    return able


def peer_round(peer, pages, compiled):
    clock = time.thread_time_ns
    parse = xpath = 0
    costs = [0] * len(compiled)
    gc.collect()
    gc.disable()
    for page in pages:
        begun = clock()
        tree = peer.parse(page)
        parsed = clock()
        ended = parsed
        for number, expression in enumerate(compiled):
            peer.evaluate(tree, expression)
            before, ended = ended, clock()
            costs[number] += ended - before
        xpath += ended - parsed
        parse += parsed - begun
        del tree
    gc.collect()
    begun = clock()
    for page in pages:
        peer.kernel(page)
    kernel = clock() - begun
    gc.enable()
    return {"parse": parse, "xpath": xpath, "kernel": kernel, "costs": costs}


# --- ours ---------------------------------------------------------------------------------------------------------------


class Driver:
    def __init__(self, path, pages, schema, lists):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gleaner-peers-"))
        (folder / "pages").write_text("".join(f"{page}\n" for page in pages))
        files = []
        for number, expressions in enumerate(lists):
            files.append(str(folder / f"xpaths-{number}.json"))
            pathlib.Path(files[-1]).write_text(json.dumps({"all": expressions}))
        command = [path] if path else ["cargo", "run", "--quiet", "--release", "--example", "kernel", "--"]
        command += [str(folder / "pages"), str(schema), *files, "--serve"]
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the driver ended early")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def by_expression(ours, theirs):
    """Ratios from costs by expression: the median, and the whole without the peer's one and five dearest."""

    def without(count):
        kept = sorted(theirs, key=theirs.get)[: len(theirs) - count]
        return sum(theirs[xpath] for xpath in kept) / sum(ours[xpath] for xpath in kept)

    median = statistics.median(theirs[xpath] / ours[xpath] for xpath in theirs)
    slower = sum(theirs[xpath] < ours[xpath] for xpath in theirs)
    return {"median": median, "withoutDearest": without(1), "withoutFive": without(5), "slower": slower}


def agreement(ours, theirs):
    """How many values of all that either found are equal."""
    same = either = 0
    for left, right in zip(ours, theirs):
        for name in left.keys() | right.keys():
            either += 1
            same += left.get(name) == right.get(name)
    return same / max(1, either)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", help="a built examples/kernel (else cargo builds it)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=0, help="at most so many pages")
    parser.add_argument("--json", help="write the raw figures to this file")
    return parser.parse_args()


def main():
    enter_venv()
    options = arguments()
    files = find_pages(options.pages)
    pages = [path.read_bytes() for path in files]
    schema_file = HERE / "extract" / "schema.json"
    schema = json.loads(schema_file.read_text())["attributes"]
    kinds = json.loads((HERE / "extract" / "xpaths.json").read_text())
    expressions = [xpath for group in kinds.values() for xpath in group]

    peers = {"lxml": Lxml(schema), "parsel": Parsel(schema), "turbohtml": Turbohtml(schema)}
    able = {name: understood(peer, expressions, pages[0]) for name, peer in peers.items()}
    for name, list_ in able.items():
        for xpath in expressions:
            if xpath not in list_:
                print(f"left out for {name}: {xpath}")
    compiled = {name: [peers[name].compile(xpath) for xpath in able[name]] for name in peers}
    lists = [expressions] + [able[name] for name in peers]
    driver = Driver(options.driver, files, schema_file, lists)
    driver.ask("round")  # Warms up; the peers have been by `understood`.

    rounds = {"ours": [], **{name: [] for name in peers}}
    for number in range(options.rounds):
        rounds["ours"].append(driver.ask("round") | {"costs": driver.ask("costs")})
        for name, peer in peers.items():
            rounds[name].append(peer_round(peer, pages, compiled[name]))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    memory = driver.ask("memory")
    ours_values = driver.ask("values")
    agree = {name: agreement(ours_values, [peer.kernel(page) for page in pages]) for name, peer in peers.items()}
    driver.close()
    report(options, pages, schema, expressions, able, rounds, memory, agree)


def report(options, pages, schema, expressions, able, rounds, memory, agree):
    size = sum(map(len, pages))

    def ms(values):
        return statistics.median(values) / 1e6

    ours = {what: ms(r[what] for r in rounds["ours"]) for what in ("parse", "kernel")}
    per_list = [ms(r["xpath"][i] for r in rounds["ours"]) for i in range(1 + len(able))]
    attribute_xpaths = sum(len(raw["xpaths"]) for raw in schema)
    print(f"\n{len(pages)} pages, {size / 1e6:.1f} MB; {len(expressions)} XPaths; schema of {len(schema)} attributes ", end="")
    print(f"with {attribute_xpaths} XPaths; median of {options.rounds} rounds, thread CPU time\n")
    print(f"{'':12}{'parse':>10}{'MB/s':>8}{'xpath':>11}{'kernel':>11}{'pages/s':>9}   times ours: parse  xpath  kernel  same values")
    figures = {"ours": {**ours, "xpath": per_list[0]}}
    for number, name in enumerate(["ours", *able]):
        if name == "ours":
            row = figures["ours"]
        else:
            row = figures[name] = {what: ms(r[what] for r in rounds[name]) for what in ("parse", "xpath", "kernel")}
        line = f"{name:12}{row['parse']:8.0f}ms{size / 1e3 / row['parse']:8.0f}{row['xpath']:9.0f}ms"
        line += f"{row['kernel']:9.0f}ms{len(pages) / (row['kernel'] / 1e3):9.0f}"
        if name != "ours":
            row["ratio"] = {
                "parse": row["parse"] / ours["parse"],
                "xpath": row["xpath"] / per_list[number],
                "kernel": row["kernel"] / ours["kernel"],
            }
            ratio = row["ratio"]
            line += f"{'':15}{ratio['parse']:5.1f}x {ratio['xpath']:5.1f}x  {ratio['kernel']:5.1f}x{agree[name]:12.1%}"
        print(line)
    def cost(name, place):
        return statistics.median(one["costs"][place] for one in rounds[name])

    print("\nXPath ratios by expression:  median   without the peer's dearest   without its five dearest   we are slower in")
    for name, list_ in able.items():
        theirs = {xpath: cost(name, number) for number, xpath in enumerate(list_)}
        row = figures[name]["byExpression"] = by_expression({xpath: cost("ours", xpath) for xpath in list_}, theirs)
        print(f"{name:26}{row['median']:8.1f}x{row['withoutDearest']:23.1f}x{row['withoutFive']:26.1f}x{row['slower']:15}")

    shares = sorted(page["share"] for page in memory["pages"])
    over = sum(share > 6 for share in shares)
    print(f"\npeak memory of ours, the page as it came in not counted: {memory['peakShare']:.2f} times the page over all,")
    print(f"{statistics.median(shares):.2f} for the median page; {over} of {len(shares)} pages take more than 6 times;")
    print(f"{memory['peakShareMax']:.2f} for the worst of 32 KB or more")
    if options.json:
        raw = {"rounds": rounds, "figures": figures, "agreement": agree, "memory": memory}
        pathlib.Path(options.json).write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
