#!/usr/bin/env python3
"""Makes w3c.facts: what feedparser reads of the documents with which the W3C tests its feed validator.

    git clone https://github.com/w3c/feedvalidator     (43dabeb, 2025-12-16)
    python3 -m venv v && v/bin/pip install feedparser==6.0.14
    v/bin/python w3c.py feedvalidator/testcases > w3c.facts

The documents stay where they are: they are not ours. A line is JSON: a document's path and SHA-256 (the first 16 digits), and of
each entry its address and dates as feedparser has them; `failed`, where that crashed. tests/it/w3c.rs compares.
"""

import hashlib
import io
import json
import pathlib
import sys
import time

import feedparser

ADDRESS = "https://feeds.example.org/all.xml"
# The others are no feeds that a reader of ours claims to know: KML, OPML, OpenSearch.
FOLDERS = ("atom", "ext", "gbase", "rss", "rss11", "rss20", "xml")


def stamp(parsed):
    return time.strftime("%Y-%m-%dT%H:%M:%S", parsed) if parsed else None


folder = pathlib.Path(sys.argv[1])
for file in sorted(file for kind in FOLDERS for file in (folder / kind).rglob("*.xml")):
    data = file.read_bytes()
    facts = {"path": str(file.relative_to(folder)), "sha256": hashlib.sha256(data).hexdigest()[:16]}
    headers = {"content-location": ADDRESS, "content-type": "application/xml"}
    try:
        found = feedparser.parse(io.BytesIO(data), response_headers=headers)
        facts["entries"] = [
            [
                entry.get("feedburner_origlink") or entry.get("link"),
                stamp(entry.get("published_parsed") if dict.__contains__(entry, "published_parsed") else None),
                stamp(entry.get("updated_parsed") if dict.__contains__(entry, "updated_parsed") else None),
            ]
            for entry in found.entries
        ]
    except Exception as error:
        facts["failed"] = type(error).__name__
    print(json.dumps(facts, ensure_ascii=False))
