#!/usr/bin/env python3
"""Makes facts.txt: what feedparser and ElementTree, which share nothing with ours, read of the documents beside this file.

    python3 -m venv v && v/bin/pip install feedparser==6.0.14
    v/bin/python facts.py > facts.txt

Of a feed: its title, and of each entry address, id, title, published, updated and categories. feedparser knows neither sitemaps nor
JSON: those that are well-formed are read by ElementTree and json. A line is JSON: the document's name, and what was read of it
(`failed`, where that was a crash). tests/facts.rs reads it, and lists where we differ and why.
"""

import datetime
import gzip
import html.parser
import io
import json
import pathlib
import re
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

import feedparser

HERE = pathlib.Path(__file__).parent
ADDRESS = "https://feeds.example.org/all.xml"
# What stands in titles is compared as it came, not as it would be safe to show.
feedparser.SANITIZE_HTML = False


def cases():
    for file in sorted(HERE.glob("*.txt")):
        if file.name == "facts.txt":
            continue
        for part in file.read_text(encoding="utf-8").split("##### ")[1:]:
            name, rest = part.split("\n", 1)
            told = {"document": ADDRESS, "charset": "", "encode": ""}
            while found := re.match(r"(document|charset|encode): (.*)\n", rest):
                told[found[1]] = found[2]
                rest = rest[found.end():]
            text = rest.split("-----\n", 1)[0]
            yield name, told, text.removesuffix("\n")


def encoded(text, words):
    mark, encoding = "", "utf-8"
    for word in words:
        if word == "crlf":
            text = text.replace("\n", "\r\n")
        elif word in ("bom", "utf-8-sig"):
            mark = "\ufeff"
        elif word not in ("gzip", "cut"):
            encoding = word
    found = (mark + text).encode(encoding)
    if "gzip" in words:
        found = gzip.compress(found)
    return found[:-4] if "cut" in words else found


def stamp(parsed):
    return time.strftime("%Y-%m-%dT%H:%M:%S", parsed) if parsed else None


def words(text):
    return " ".join(text.split()) or None if text else None


class Shown(html.parser.HTMLParser):
    """What one reads of HTML."""

    def __init__(self, text):
        super().__init__()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_data(self, data):
        self.text += data


def title(holder):
    detail = holder.get("title_detail")
    if not detail:
        return None
    return words(detail.value if detail.type == "text/plain" else Shown(detail.value).text)


def lasting(text):
    """A date of the W3C's profile, at its first second."""
    if not text:
        return None
    if len(text) in (4, 7):
        text += "-01-01" if len(text) == 4 else "-01"
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo:
        found = found.astimezone(datetime.timezone.utc)
    return found.strftime("%Y-%m-%dT%H:%M:%S")


def of_feed(found):
    entries = []
    for entry in found.entries:
        entries.append({
            "url": entry.get("feedburner_origlink") or entry.get("link"),
            "id": entry.get("id"),
            "title": title(entry),
            # Without a date of its own each of the two stands in for the other.
            "published": stamp(entry.get("published_parsed") if dict.__contains__(entry, "published_parsed") else None),
            "updated": stamp(entry.get("updated_parsed") if dict.__contains__(entry, "updated_parsed") else None),
            "categories": [tag.term or tag.label for tag in entry.get("tags", [])],
        })
    return {"title": title(found.feed), "entries": entries}


def of_sitemap(data, document):
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    root = ElementTree.fromstring(data)
    space = root.tag.rsplit("}", 1)[0] + "}" if "}" in root.tag else ""
    entries = []
    for entry in root:
        loc, changed = entry.find(f"{space}loc"), entry.find(f"{space}lastmod")
        if loc is not None and (loc.text or "").strip():
            changed = lasting(words(changed.text)) if changed is not None else None
            # ElementTree keeps what stands before a comment apart from what stands behind it.
            text = "".join(loc.itertext()).strip()
            entries.append({"url": urllib.parse.urljoin(document, text), "updated": changed})
    return {"entries": entries}


def of_json(data):
    found = json.loads(data)
    entries = []
    for item in found.get("items", []):
        tags = item.get("tags") or []
        # An id is an address where it is a whole one.
        own = str(item.get("id"))
        entries.append({
            "url": item.get("url") or item.get("external_url") or (own if own.startswith("http") else None),
            "id": str(item["id"]) if "id" in item else None,
            "title": words(item.get("title")),
            "published": lasting(item.get("date_published")),
            "updated": lasting(item.get("date_modified")),
            "categories": [tags] if isinstance(tags, str) else list(dict.fromkeys(tags)),
        })
    return {"title": words(found.get("title")), "entries": entries} if "version" in found else None


for name, told, text in cases():
    data = encoded(text, told["encode"].split())
    found = None
    if "<urlset" in text or "<sitemapindex" in text or "sm:urlset" in text:
        try:
            found = of_sitemap(data, told["document"])
        except (ElementTree.ParseError, EOFError):
            pass
    elif text.startswith("{"):
        try:
            found = of_json(data)
        except json.JSONDecodeError:
            pass
    elif "<rss" in text.lower() or "<feed" in text or ":feed" in text or "RDF" in text or "<entry" in text:
        charset = told["charset"].strip('"')
        kind = "application/xml" + (f"; charset={charset}" if charset else "")
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        headers = {"content-location": told["document"], "content-type": kind}
        try:
            found = of_feed(feedparser.parse(io.BytesIO(data), response_headers=headers))
        except Exception as error:
            found = {"failed": type(error).__name__}
    if found is not None:
        print(json.dumps({"name": name, **found}, ensure_ascii=False))
