#!/usr/bin/env python3
"""What the binary is made of: `inventory.py sbom` prints a CycloneDX 1.5 document, `inventory.py licences` the licences' texts.

Both are of the crates that are linked into the binary on this machine's target, as Cargo.lock has them; build tools and tests
are left out. Needs cargo and the crates' sources, which a build has fetched.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LICENCE_FILE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def metadata():
    host = re.search(r"^host: (\S+)$", subprocess.check_output(["rustc", "-vV"], text=True), re.MULTILINE).group(1)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def linked(found):
    """The packages that `gleaner` links, by their ids."""
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    is_macro = {
        key for key, package in packages.items() if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    first = next(key for key, package in packages.items() if package["name"] == "gleaner")
    seen, waiting = {first}, [first]
    edges = {}
    while waiting:
        key = waiting.pop()
        below = []
        for dependency in nodes[key]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in is_macro:
                below.append(dependency["pkg"])
        edges[key] = below
        waiting += [one for one in below if one not in seen]
        seen.update(below)
    return first, {key: packages[key] for key in seen}, edges


def checksums():
    text = open(os.path.join(ROOT, "Cargo.lock"), encoding="utf-8").read()
    rows = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]+)"', text)
    return {(name, version): checksum for name, version, checksum in rows}


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, known):
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package.get("license"):
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = known.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def sbom(first, packages, edges):
    known = checksums()
    own = packages[first]
    rest = sorted((package for key, package in packages.items() if key != first), key=purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own, known) | {"type": "application"}},
        "components": [component(package, known) for package in rest],
        "dependencies": [
            {"ref": purl(packages[key]), "dependsOn": sorted(purl(packages[one]) for one in below)}
            for key, below in sorted(edges.items(), key=lambda edge: purl(packages[edge[0]]))
        ],
    }


def licences(packages):
    """Each text once, with the crates that it stands in."""
    texts, silent = {}, []
    for package in sorted(packages.values(), key=purl):
        if package["source"] is None:
            continue
        folder = os.path.dirname(package["manifest_path"])
        files = sorted(name for name in os.listdir(folder) if LICENCE_FILE.match(name))
        name = f"{package['name']} {package['version']} ({package.get('license') or 'see its file'})"
        found = False
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                text = open(path, encoding="utf-8", errors="replace").read().strip()
                texts.setdefault(hashlib.sha256(text.encode()).hexdigest(), (text, []))[1].append(name)
                found = True
        if not found:
            silent.append(name)
    parts = ["Libraries that are linked into gleaner, each with its licence as its authors give it."]
    for text, names in sorted(texts.values(), key=lambda entry: (-len(entry[1]), entry[1])):
        parts.append("=" * 78 + "\n" + "\n".join(sorted(set(names))) + "\n" + "-" * 78 + "\n" + text)
    if silent:
        parts.append("=" * 78 + "\nWithout a file of their own; the licence is named in their manifests:\n" + "\n".join(silent))
    return "\n\n".join(parts) + "\n"


def main():
    if sys.argv[1:] not in (["sbom"], ["licences"]):
        sys.exit("inventory.py sbom|licences")
    first, packages, edges = linked(metadata())
    if sys.argv[1] == "sbom":
        print(json.dumps(sbom(first, packages, edges), indent=1))
    else:
        print(licences(packages), end="")


main()
