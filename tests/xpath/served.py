#!/usr/bin/env python3
"""Compares what the kernel extracts from HTML as served with what parsel (Scrapy) finds, and explains each difference.

    cargo build --release --example differential
    VENV/bin/python tests/xpath/served.py target/release/examples/differential --pages ../shared/data/pages
        [--schema benches/peers/extract/schema.json] [--show 3]

Both start from the page's bytes, decode, parse, evaluate the schema's XPaths with its fallbacks and antiPatterns, and make
typed values. A pair of page and attribute that differs gets the class of the first change to *parsel's* side that makes it
agree, so a class is shown, not guessed:

- coercion: the texts agree, what was made of them (number, address, truth) does not;
- charset: agrees once parsel is given our decoded characters;
- references: agrees once windows-1252 references (`&#150;`) and stray control characters are read as browsers read them;
- tree: agrees once lxml evaluates over the HTML5 tree instead of libxml2's; told apart further by what libxml2 did;
- tbody: agrees once `tr` steps look through `<tbody>`: our tolerance for expressions written for another tree.

What is left is printed whole, and is a bug. Exit code 1 if less than 95 % agree or anything is left.
"""
import argparse, collections, html, json, os, re, subprocess, sys, urllib.parse
from parsel import Selector
from w3lib.encoding import html_to_unicode
from lxmltree import Page

PAGE_ADDRESS = "https://site.example/section/page.html"
AGREEMENT_MIN = 0.95
FALSE_WORDS = set("""false no 0 n off none null nein non outofstock soldout discontinued unavailable notavailable notinstock
nostock currentlyunavailable temporarilyoutofstock reserved disabled inactive nolongeravailable""".split())


def collapse(text):
    return " ".join(text.split())


def number(text):
    """The first number, read as our users' own helpers do: the last mark is the decimal one, but for a lone group of three
    after a comma."""
    found = re.search(r"-?(?:\d[\d.,'’\u00a0\u202f]*\d|\.?\d)", text)
    if not found:
        return None
    digits = re.sub(r"['’\s]", "", found.group())
    marks = re.sub(r"[^.,]", "", digits)
    if len(marks) == 1 and marks == "," and re.search(r"\d,\d{3}$", digits) or len(marks) > 1 and len(set(marks)) == 1:
        digits = digits.replace(marks[0], "")
    elif len(set(marks)) == 2:
        digits = digits.replace(marks[0], "")
    try:
        return float(digits.replace(",", "."))
    except ValueError:
        return None


def coerce(kind, text, base):
    if kind == "number":
        return number(text)
    if kind == "boolean":
        word = re.sub(r"[\W_]", "", re.sub(r"^(https?://schema\.org/|schema:)", "", text, flags=re.I)).lower()
        return word not in FALSE_WORDS
    if kind.startswith("url"):
        try:
            address = urllib.parse.urljoin(base, text)
        except ValueError:
            return None
        return address if re.match("https?://.", address) else None
    return text


def found_texts(nodes):
    """The texts of an evaluation's results, in order; a bare number or truth as itself."""
    if isinstance(nodes, (bool, float)):
        return nodes
    if isinstance(nodes, str):
        return [nodes]
    return [node if isinstance(node, str) else str(node.xpath("string()")) for node in nodes]


def extract(attribute, evaluate, base, typed):
    """The attribute's value by the rules of src/page/src/extract, or None."""
    kind = attribute["type"] if typed else "text[]" if attribute["type"].endswith("[]") else "text"
    patterns = [re.compile(pattern, re.I) for pattern in attribute.get("antiPatterns") or []]
    for xpath in attribute["xpaths"]:
        texts = found_texts(evaluate(xpath))
        if isinstance(texts, bool):
            if kind == "boolean":
                return texts
            texts = ["true" if texts else "false"]
        if isinstance(texts, float):
            if texts != texts or kind == "number":
                if texts == texts:
                    return texts
                continue
            texts = [f"{texts:.12g}"]
        values = []
        for text in map(collapse, texts):
            if not text:
                if kind == "boolean":
                    return True
                continue
            refused = any(pattern.search(text) for pattern in patterns)
            value = None if refused else coerce(kind, text, base)
            if value is not None:
                values.append(value)
            if not kind.endswith("[]"):
                break
        if values:
            return values if kind.endswith("[]") else values[0]
    return None


class Served:
    """A page as parsel has it."""

    def __init__(self, text):
        self.root = Selector(text=text, type="html").root
        hrefs = [href for href in self.root.xpath("//base/@href")] if self.root is not None else []
        self.base = base_of(hrefs)

    def evaluate(self, xpath):
        return self.root.xpath(xpath, namespaces=NAMESPACES)


NAMESPACES = {"re": "http://exslt.org/regular-expressions", "set": "http://exslt.org/sets"}


def base_of(hrefs):
    base = urllib.parse.urljoin(PAGE_ADDRESS, hrefs[0].strip()) if hrefs else PAGE_ADDRESS
    return base if base.startswith(("http://", "https://")) else PAGE_ADDRESS


def same(mine, theirs):
    """Equal, addresses in whichever of the two ways to write them."""
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if not isinstance(mine, str) or not isinstance(theirs, str):
        return mine == theirs and isinstance(mine, bool) == isinstance(theirs, bool)
    return mine == theirs or mine.startswith("http") and address_key(mine) == address_key(theirs)


def address_key(address):
    """WHATWG's serialization and Python's differ in what is escaped and in a slash after the host."""
    parts = urllib.parse.urlsplit(urllib.parse.unquote(address, errors="replace").replace("\\", "/"))
    return (parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", parts.query, parts.fragment)


WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}


def as_browsers_read(text):
    """References to C1 controls as windows-1252, which HTML5 has and libxml2 has not."""
    text = re.sub(r"&#(1[2-5]\d);?", lambda m: WINDOWS.get(int(m[1])) or m[0], text)
    text = re.sub(r"&#[xX]([89][0-9a-fA-F]);?", lambda m: WINDOWS.get(int(m[1], 16)) or m[0], text)
    # Named references: libxml2 knows those of HTML 4.
    text = re.sub(r"&[A-Za-z][A-Za-z0-9]*;", lambda m: m[0] if m[0] in KEEP else html.unescape(m[0]), text)
    return text.replace("\0", "")


KEEP = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&nbsp;"}


def explain(attribute, mine, ours, body, parsel_text, our_text, events):
    """The class of a difference; see the head of the file."""
    typed = lambda page: extract(attribute, page.evaluate, page.base, True)
    plain = lambda page: extract(attribute, page.evaluate, page.base, False)
    if same(ours["plain"].get(attribute["name"]), plain(Served(parsel_text))):
        return "coercion"
    if our_text != parsel_text and same(mine, typed(Served(our_text))):
        return "charset: w3lib decodes otherwise"
    if same(mine, typed(Served(as_browsers_read(our_text)))):
        return "references: HTML 4's, and C1 controls"
    rebuilt = Page(events)
    on_our_tree = extract(attribute, rebuilt.ask, base_of(rebuilt.ask("//base/@href")), True)
    loose = dict(attribute, xpaths=[through_tbody(xpath) for xpath in attribute["xpaths"]])
    on_our_tree_loose = extract(loose, rebuilt.ask, base_of(rebuilt.ask("//base/@href")), True)
    if same(mine, on_our_tree) or same(mine, on_our_tree_loose):
        return "tree: " + tree_difference(our_text, Served(our_text).root, rebuilt, mine, typed(Served(our_text)))
    on_plain = extract(attribute, rebuilt.ask, base_of(rebuilt.ask("//base/@href")), False)
    if same(ours["plain"].get(attribute["name"]), on_plain):
        return "tree and coercion"
    return "unexplained"


def through_tbody(xpath):
    return re.sub(r"(?<=[\w\])])/tr\b", "/*[self::tbody or self::tr]/descendant-or-self::tr", xpath)


def tree_difference(source, theirs, ours, mine, found):
    """What libxml2 did with the page, by the first thing that is seen of it."""
    root = ours.tree.getroot()
    if len(theirs.xpath("//*")) * 1.1 < len(root.xpath("//*")):
        return "libxml2 gave up on part of the page"
    if dict(theirs.attrib) != dict(root.attrib):
        return "a second <html> adds its attributes"
    if re.search(r"<[aA]\s[^<>\"']*=[^\s\"'<>]+<", source):
        return "libxml2 loses a tag with `<` in an unquoted value"
    if root.xpath("boolean(//svg//title/*)"):
        return "elements in an SVG <title>"
    formatting = "count(//a | //b | //i | //em | //strong | //font | //u | //small | //big | //code)"
    if theirs.xpath(formatting) < root.xpath(formatting):
        return "formatting elements reopened after a block"
    if theirs.xpath("count(//noscript//*)") != root.xpath("count(//noscript//*)"):
        return "<noscript> and what it closes"
    if isinstance(mine, list) and isinstance(found, list) and collapse(" ".join(mine)) == collapse(" ".join(found)):
        return "the same text, cut into other elements"
    if theirs.xpath("count(//p)") != root.xpath("count(//p)"):
        return "<p> that a block closes, or </p> alone"
    if theirs.xpath("count(//tbody)") != root.xpath("count(//tbody)"):
        return "implied <tbody>, fostered content"
    shape = lambda tree: collections.Counter((n.tag, n.getparent().tag) for n in tree.iter("*") if n.getparent() is not None)
    different = shape(theirs) - shape(root)
    if different:
        return "nesting of elements"
    return "attributes or text alone"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--pages", required=True)
    arguments.add_argument("--schema", default="benches/peers/extract/schema.json")
    arguments.add_argument("--show", type=int, default=2, help="examples of each class")
    options = arguments.parse_args()
    schema = json.load(open(options.schema))["attributes"]
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(options.pages) for name in names
                   if name.endswith(".html"))
    plain_schema = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"gleaner-plain-schema-{os.getpid()}.json")
    plain = [dict(a, type="text[]" if a["type"].endswith("[]") else "text") for a in schema]
    json.dump({"attributes": plain}, open(plain_schema, "w"))
    run = lambda *given: [json.loads(line) for line in subprocess.run([options.binary, *given], stdout=subprocess.PIPE,
                                                                    check=True).stdout.decode().split("\n") if line]
    typed_values, plain_values = run("extract", options.schema, *paths), run("extract", plain_schema, *paths)
    os.unlink(plain_schema)
    agree = collections.Counter()
    by_attribute = collections.defaultdict(collections.Counter)
    classes, shown = collections.Counter(), collections.defaultdict(list)
    for path, ours, ours_plain in zip(paths, typed_values, plain_values):
        body = open(path, "rb").read()
        parsel_text = html_to_unicode(None, body)[1]
        served = Served(parsel_text)
        events = None
        for attribute in schema:
            name = attribute["name"]
            mine, theirs = ours["values"].get(name), extract(attribute, served.evaluate, served.base, True)
            kind = "both empty" if mine is None and theirs is None else "agree" if same(mine, theirs) else "differ"
            agree[kind] += 1
            by_attribute[name][kind] += 1
            if kind == "differ":
                if events is None:
                    events = run("trees", path)[0]
                    our_text = subprocess.run([options.binary, "text", path], stdout=subprocess.PIPE,
                                              check=True).stdout.decode()
                why = explain(attribute, mine, {"plain": ours_plain["values"]}, body, parsel_text, our_text, events)
                classes[why] += 1
                shown[why].append((path, name, mine, theirs))
    total = sum(agree.values())
    share = (agree["agree"] + agree["both empty"]) / total
    filled = agree["agree"] / max(1, agree["agree"] + agree["differ"])
    print(f"{'attribute':18} agree  empty differ")
    for name, counts in by_attribute.items():
        print(f"{name:18} {counts['agree']:5} {counts['both empty']:6} {counts['differ']:6}")
    print(f"\n{len(paths)} pages x {len(schema)} attributes: {share:.2%} agree; of those that anybody found, {filled:.2%}\n")
    for why, count in classes.most_common():
        print(f"{count:5}  {why}")
        for path, name, mine, theirs in shown[why][: 50 if why == "unexplained" else options.show]:
            print(f"         {os.path.relpath(path, options.pages)} {name}\n           ours   {str(mine)[:110]}\n           "
                  f"parsel {str(theirs)[:110]}")
    sys.exit(share < AGREEMENT_MIN or classes["unexplained"] > 0)


if __name__ == "__main__":
    main()
