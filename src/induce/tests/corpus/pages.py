#!/usr/bin/env python3
"""Takes the pages of recipe sites, each with its earlier versions, out of the history of hhursev/recipe-scrapers.

pages.py REPOSITORY FOLDER: REPOSITORY is the git directory of a full clone; FOLDER gets `host/url-time.html` for every version of
every page of a host of which some URL has more than one version, named by a hash of the URL's path and the time of the commit.
"""

import collections
import hashlib
import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

repository, folder = sys.argv[1:3]
GIT = ["git", "--git-dir", repository]


def first_seen():
    """Every blob of a page with the time of the commit that brought it."""
    log = GIT + ["log", "--reverse", "--raw", "--abbrev=40", "--no-renames", "--format=C %ct", "--", "tests/"]
    found, when = {}, 0
    for line in subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("C "):
            when = int(line[2:])
        elif line.startswith(":"):
            fields, path = line.split("\t")
            blob = fields.split()[3]
            if path.endswith(("html",)) and set(blob) - {"0"}:
                found.setdefault(blob, when)
    return found


def address(html):
    """Host and path, as the page says them of itself."""
    tags = (rb"<link[^>]*rel=[\"']?canonical[\"']?[^>]*>", rb"href"), (rb"<meta[^>]*og:url[\"'][^>]*>", rb"content")
    for tag, attribute in tags:
        element = re.search(tag, html, re.I)
        value = element and re.search(attribute + rb"=[\"']?([^\"' >]+)", element.group(0), re.I)
        if value:
            url = urlsplit(value.group(1).decode("utf8", "replace"))
            if url.hostname:
                return url.hostname.removeprefix("www.").lower(), url.path.rstrip("/").lower()
    return None


def main():
    cat = subprocess.Popen(GIT + ["cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    urls = collections.defaultdict(list)
    for blob, when in first_seen().items():
        cat.stdin.write(f"{blob}\n".encode())
        cat.stdin.flush()
        head = cat.stdout.readline().split()
        if head[-1] == b"missing":
            continue
        html = cat.stdout.read(int(head[2]))
        cat.stdout.read(1)
        known = address(html)
        if known:
            urls[known].append((when, html))
    hosts = {host for (host, _), versions in urls.items() if len(versions) > 1}
    for (host, path), versions in urls.items():
        if host not in hosts:
            continue
        name = hashlib.sha1(path.encode()).hexdigest()[:8]
        os.makedirs(f"{folder}/{host}", exist_ok=True)
        for when, html in versions:
            with open(f"{folder}/{host}/{name}-{when}.html", "wb") as file:
                file.write(html)
    print(len(urls), "URLs,", len(hosts), "hosts with versions")


main()
