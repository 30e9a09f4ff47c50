#!/usr/bin/env python3
"""What the binary is made of: `inventory.py sbom` prints a CycloneDX 1.5 document, `inventory.py licences` the licences' texts.

Both are of the crates that are linked into the binary on this machine's target, as Cargo.lock has them, and of the packages that
are bundled into its console, as package-lock.json has them; build tools and tests are left out. Needs cargo and the sources: the
crates' are asked for where they are not there (without a network, `cargo fetch --locked` has to have been before: a build leaves out
those of tests); the texts of the console's licences are where a build has installed its packages, else their names stand alone.
"""
import base64
import glob
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONSOLE = os.path.join(ROOT, "src", "console", "ui", "package-lock.json")
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


def bundled():
    """The packages in the console, by their folders; esbuild only makes it."""
    locked = json.load(open(CONSOLE, encoding="utf-8"))["packages"]
    return {
        folder: package | {"name": folder.rpartition("node_modules/")[2]}
        for folder, package in sorted(locked.items())
        if folder and not package.get("dev") and not package.get("optional") and folder != "node_modules/esbuild"
    }


def bundled_component(package):
    address = f"pkg:npm/{package['name'].replace('@', '%40')}@{package['version']}"
    made = {"type": "library", "bom-ref": address, "name": package["name"], "version": package["version"], "purl": address}
    if package.get("license"):
        made["licenses"] = [{"expression": package["license"]}]
    algorithm, _, digest = package.get("integrity", "").partition("-")
    if algorithm == "sha512":
        made["hashes"] = [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}]
    return made


def installed():
    """Where a build has installed the console's packages; the newest."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    found = glob.glob(os.path.join(glob.escape(target), "*", "build", "gleaner-console-*", "out", "ui", "node_modules"))
    return os.path.dirname(max(found, key=os.path.getmtime)) if found else ""


def sbom(first, packages, edges):
    known = checksums()
    own = packages[first]
    rest = sorted((package for key, package in packages.items() if key != first), key=purl)
    console = [bundled_component(package) for package in bundled().values()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own, known) | {"type": "application"}},
        "components": [component(package, known) for package in rest] + console,
        "dependencies": [
            {"ref": purl(packages[key]), "dependsOn": sorted(purl(packages[one]) for one in below)}
            for key, below in sorted(edges.items(), key=lambda edge: purl(packages[edge[0]]))
        ],
    }


def licences(packages):
    """Each text once, with the crates that it stands in."""
    texts, silent = {}, []
    linked_ones = [package for package in sorted(packages.values(), key=purl) if package["source"] is not None]
    sources = [(package, os.path.dirname(package["manifest_path"])) for package in linked_ones]
    sources += [(package, os.path.join(installed(), folder)) for folder, package in bundled().items()]
    for package, folder in sources:
        files = sorted(name for name in os.listdir(folder) if LICENCE_FILE.match(name)) if os.path.isdir(folder) else []
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
    parts = ["Libraries that are linked into gleaner or bundled into its console, each with its licence as its authors give it."]
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
