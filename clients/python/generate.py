#!/usr/bin/env python3
"""Makes the generated half of the package out of `data/openapi.json`, and the blocking client out of the async one.

    python3 generate.py            writes what differs
    python3 generate.py --check    writes nothing; ends with 1 where something differs, and names it

Needs nothing but Python. The same document gives the same bytes.

- `gleaner/models.py`: a TypedDict for every schema; members are named as on the wire.
- `gleaner/_async/operations.py`: a class for every area (tag), a method for every operation.
- `gleaner/_sync/*.py`: every file of `gleaner/_async` with `async` and `await` taken out.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "gleaner"
DOCUMENT = HERE.parent.parent / "data" / "openapi.json"
METHODS = ("get", "put", "post", "delete", "patch")
WIDTH = 118

# The list of events; the stream is `client.events.stream`.
RENAMED = {"streamEvents": "list_events"}

# What a caller of this package does not set: the package does, or what it would answer (304, 206) has no value here.
HEADERS_LEFT_OUT = {"If-None-Match", "Accept", "Range", "If-Range", "Last-Event-ID"}

# POSTs that may be sent again although nobody knows whether the first was taken: they change nothing, or the second one
# changes nothing more (data/docs/api.md, "Idempotency").
REPEATABLE_POSTS = {
    "createUrls": "one row for each URL",
    "uploadUrls": "one row for each URL",
    "pollJobs": "reads",
    "testXpath": "reads",
    "validateWorkflow": "reads",
    "cancelBatch": "asked again it changes nothing",
}

# Members whose null says something that leaving them out does not, by operation.
NULL_IS_SENT = {("setWorkflowRoute", "route")}

NOTE = "# Made by generate.py; changes are lost.\n"


def main(arguments: list[str]) -> int:
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    made = {PACKAGE / "models.py": models(document), PACKAGE / "_codes.py": codes(document)}
    made[PACKAGE / "_async" / "operations.py"] = operations(document)
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        source = made.get(path) or path.read_text(encoding="utf-8")
        made[PACKAGE / "_sync" / path.name] = blocking(source)
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in (PACKAGE / "_sync").glob("*.py") if path not in made]
    for path in stale:
        print(path.relative_to(HERE))
        if "--check" not in arguments:
            if path in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(made[path], encoding="utf-8")
            else:
                path.unlink()
    return 1 if stale and "--check" in arguments else 0


# -- names and texts ---------------------------------------------------------------------------------------------------


def snake(name: str) -> str:
    """`pageType` and `If-Match` as Python names them; `from` is `from_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("-", "_")).lower()
    return name + "_" if keyword.iskeyword(name) else name


def camel(tag: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[-_]", tag))


def wrapped(text: str, indent: str) -> str:
    """A text in lines; its paragraphs and lists stay."""
    lines: list[str] = []
    for paragraph in text.strip().replace("\\", "\\\\").replace('"""', "'''").split("\n\n"):
        if paragraph.lstrip().startswith("- "):
            for item in re.split(r"\n(?=- )", paragraph):
                lines += textwrap.wrap(" ".join(item.split()), WIDTH - len(indent), subsequent_indent="  ",
                                       break_long_words=False, break_on_hyphens=False)
        else:
            lines += textwrap.wrap(" ".join(paragraph.split()), WIDTH - len(indent), break_long_words=False,
                                   break_on_hyphens=False)
        lines.append("")
    return "\n".join(f"{indent}{line}" if line else "" for line in lines[:-1])


def docstring(text: str, indent: str) -> str:
    body = wrapped(text, indent).lstrip()
    end = f"\n{indent}" if "\n" in body or len(body) > WIDTH - len(indent) - 8 or body.endswith('"') else ""
    return f'{indent}"""{body}{end}"""\n'


def comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - len(indent) - 3, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{indent}#: {line}\n" for line in lines)


# -- types -------------------------------------------------------------------------------------------------------------


def reference(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[-1]


def annotation(schema: Any, *, prefix: str = "", is_input: bool = False) -> str:
    """The Python type of a schema. An argument (`is_input`) takes what is easily made one: any sequence, a datetime."""
    if schema is True or schema == {} or not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        return prefix + reference(schema)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return union([annotation(part, prefix=prefix, is_input=is_input) for part in schema[several]])
    if "enum" in schema:
        return "Literal[" + ", ".join(json.dumps(value) for value in schema["enum"]) + "]"
    kinds = schema.get("type")
    if kinds is None:
        return "Any"
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return union([simple(kind, schema, prefix, is_input) for kind in kinds])


def union(parts: list[str]) -> str:
    unique = list(dict.fromkeys(part for whole in parts for part in split(whole)))
    if "Any" in unique:
        return "Any"
    unique.sort(key=lambda part: part == "None")
    return " | ".join(unique)


def split(whole: str) -> list[str]:
    return [whole] if "[" in whole else whole.split(" | ")


def simple(kind: str, schema: dict[str, Any], prefix: str, is_input: bool) -> str:
    if kind == "array":
        inner = annotation(schema.get("items", True), prefix=prefix, is_input=is_input)
        return f"Sequence[{inner}]" if is_input else f"list[{inner}]"
    if kind == "object":
        inner = annotation(schema.get("additionalProperties", True), prefix=prefix)
        return f"Mapping[str, {inner}]" if is_input else f"dict[str, {inner}]"
    if kind == "string" and is_input:
        return {"date-time": "Time", "uuid": "Id"}.get(schema.get("format", ""), "str")
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[kind]


# -- models.py ---------------------------------------------------------------------------------------------------------

MODELS_HEAD = '''"""What the API takes and gives, as types: a TypedDict for every schema of the OpenAPI document.

Members are named as on the wire (`job["resultId"]`). At run time they are plain dicts, so a box of a later release may
give members that are not here.
"""

''' + NOTE + '''
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired
else:  # Of the types nothing but their names is used at run time.
    NotRequired = Union

'''


def models(document: dict[str, Any]) -> str:
    schemas: dict[str, Any] = document["components"]["schemas"]
    parts = [MODELS_HEAD]
    later = []
    for name, schema in schemas.items():
        if "properties" in schema and "oneOf" not in schema:
            parts.append(structure(name, schema))
        else:
            later.append(alias(name, schema))
    # Names of unions are looked up when they are defined, so they come behind what they unite.
    later.sort(key=lambda text: "Union[" in text)
    return "\n".join(parts) + "\n" + "\n".join(later)


def structure(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    members = {
        member: annotation(it) if member in required else f"NotRequired[{annotation(it)}]"
        for member, it in schema["properties"].items()
    }
    text = schema.get("description", "")
    if any(not member.isidentifier() or keyword.iskeyword(member) for member in members):
        inner = "".join(f'        "{member}": {quoted(it)},\n' for member, it in members.items())
        says = docstring(text, "") if text else ""
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{inner}    }},\n)\n{says}'
    lines = [f"class {name}(TypedDict):\n"]
    if text:
        lines.append(docstring(text, "    ") + "\n")
    for member, it in members.items():
        says = schema["properties"][member].get("description", "")
        lines.append((comment(says, "    ") if says else "") + f"    {member}: {it}\n")
    if not members:
        lines.append("    pass\n")
    return "".join(lines) + "\n"


def quoted(it: str) -> str:
    return f"'{it}'" if '"' in it else f'"{it}"'


def alias(name: str, schema: dict[str, Any]) -> str:
    says = docstring(schema["description"], "") if schema.get("description") else ""
    if "oneOf" in schema:
        inner = ", ".join(annotation(part) for part in schema["oneOf"])
        return f"{name} = Union[{inner}]\n{says}"
    if schema.get("type") == "object":
        return f"{name} = dict[str, {annotation(schema.get('additionalProperties', True))}]\n{says}"
    it = annotation(schema)
    if "|" in it:
        it = f"Union[{', '.join(split(it))}]"
    return f"{name} = {it}\n{says}"


# -- _codes.py ---------------------------------------------------------------------------------------------------------


def codes(document: dict[str, Any]) -> str:
    found: dict[str, str] = {}
    for _, _, operation in each(document):
        for status, answer in operation["responses"].items():
            if status[0] in "45":
                for code, title in re.findall(r"`(\w+)`: (.*?)\.(?= `|$)", answer.get("description", "")):
                    found.setdefault(code, title)
    lines = "".join(f'    "{code}": {json.dumps(found[code])},\n' for code in sorted(found))
    return (
        '"""The codes of errors that the OpenAPI document names, with their titles."""\n\n' + NOTE
        + "\nfrom __future__ import annotations\n\nTITLES: dict[str, str] = {\n" + lines + "}\n"
    )


# -- operations.py -----------------------------------------------------------------------------------------------------

OPERATIONS_HEAD = '''"""Every operation of the API as a method, grouped by area."""

''' + NOTE + '''
from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from .. import models
from .._http import NULL, Body, Id, Time, path
from .transport import AsyncTransport


class Area:
    """Operations that belong together."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


'''


def each(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(address, method, operations[method])
            for address, operations in document["paths"].items() for method in METHODS if method in operations]


def operations(document: dict[str, Any]) -> str:
    areas: dict[str, list[str]] = {}
    for address, method, operation in each(document):
        areas.setdefault(operation["tags"][0], []).extend(operation_methods(document, address, method, operation))
    described = {tag["name"]: tag.get("description", "") for tag in document.get("tags", [])}
    text = OPERATIONS_HEAD
    for tag, methods in areas.items():
        says = described.get(tag) or f"The operations of `{tag}`."
        text += f"class {camel(tag)}(Area):\n{docstring(says, '    ')}\n" + "\n".join(methods) + "\n\n"
    text += "class Areas:\n" + docstring("All areas of one client.", "    ") + "\n"
    text += "    def __init__(self, transport: AsyncTransport) -> None:\n"
    for tag in areas:
        text += f"        self.{snake(tag)} = {camel(tag)}(transport)\n"
    return text


class Argument:
    """An argument of a method: where it goes, and what it is."""

    def __init__(self, place: str, name: str, schema: dict[str, Any], says: str, is_needed: bool) -> None:
        self.place, self.wire, self.name = place, name, snake(name)
        it = annotation(schema, prefix="models.", is_input=True)
        self.is_needed = is_needed
        self.type = it if is_needed else union([it, "None"]) if "[" not in it else it.removesuffix(" | None") + " | None"
        self.says = says

    def signature(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.is_needed else " = None")


def arguments_of(document: dict[str, Any], operation: dict[str, Any]) -> list[Argument]:
    found = []
    for it in operation.get("parameters", []):
        if it["in"] == "header" and it["name"] in HEADERS_LEFT_OUT:
            continue
        schema = {key: value for key, value in it["schema"].items() if key != "default"}
        found.append(Argument(it["in"], it["name"], schema, it.get("description", ""), it.get("required", False)))
    media = operation.get("requestBody", {}).get("content", {})
    if "application/json" in media:
        schema = media["application/json"]["schema"]
        schema = document["components"]["schemas"][reference(schema)] if "$ref" in schema else schema
        needed = set(schema.get("required", ())) if operation["requestBody"].get("required") else set()
        for member, it in schema["properties"].items():
            is_needed = member in needed or (operation["operationId"], member) in NULL_IS_SENT
            found.append(Argument("body", member, it, it.get("description", ""), is_needed))
    names = [it.name for it in found]
    doubled = {name for name in names if names.count(name) > 1}
    assert not doubled, f"{operation['operationId']}: {doubled} would be two arguments"
    return found


def answer_of(operation: dict[str, Any]) -> tuple[str, str]:
    """How the answer is read (`json`, `bytes`, `nothing`), and its type."""
    types: list[str] = []
    for status, answer in operation["responses"].items():
        if status[0] != "2" or status == "206":
            continue
        content = answer.get("content", {})
        if "application/json" in content and content["application/json"]["schema"].get("format") != "binary":
            types.append(annotation(content["application/json"]["schema"], prefix="models."))
        elif content:
            return "bytes", "bytes"
    return ("json", union(types)) if types else ("nothing", "None")


def operation_methods(document: dict[str, Any], address: str, method: str, operation: dict[str, Any]) -> list[str]:
    identity = operation["operationId"]
    name = RENAMED.get(identity) or snake(identity)
    arguments = arguments_of(document, operation)
    reads, gives = answer_of(operation)
    takes_file = "application/octet-stream" in operation.get("requestBody", {}).get("content", {})
    in_path = [it for it in arguments if it.place == "path"]
    named = [it for it in arguments if it.place != "path"]
    named.sort(key=lambda it: not it.is_needed)
    signature = [it.signature() for it in in_path]
    if takes_file:
        signature.append("content: Body")
    signature += ["*"] if named or takes_file else []
    if takes_file:
        signature += ["content_type: str", "content_encoding: str | None = None"]
    signature += [it.signature() for it in named]

    call = [address_of(address, in_path)]
    if reads != "bytes":
        call.insert(0, f'"{method.upper()}"')
    for place, what in (("query", "query"), ("header", "headers")):
        chosen = [it for it in arguments if it.place == place]
        if chosen:
            call.append(f"{what}=" + mapping(chosen))
    body = [it for it in arguments if it.place == "body"]
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        call.append("body=" + mapping(body, identity))
    if takes_file:
        call.append("content=content")
        call.append("content_type=content_type")
        call.append("content_encoding=content_encoding")
    if identity in REPEATABLE_POSTS:
        call.append("is_repeatable=True")
    made = [method_text(name, signature, gives, documentation(operation, address, method, arguments, takes_file),
                        call_text(reads, gives, call))]
    items = items_of(document, operation)
    if items and reads == "json":
        made.append(iterator(name, arguments, in_path, named, items, operation))
    return made


def address_of(address: str, in_path: list[Argument]) -> str:
    if not in_path:
        return f'"{address}"'
    inner = ", ".join(f"{it.wire}={it.name}" if it.wire.isidentifier() else f"**{{'{it.wire}': {it.name}}}" for it in in_path)
    return f'path("{address}", {inner})'


def mapping(chosen: list[Argument], identity: str = "") -> str:
    def value(it: Argument) -> str:
        return f"NULL if {it.name} is None else {it.name}" if (identity, it.wire) in NULL_IS_SENT else it.name

    return "{" + ", ".join(f'"{it.wire}": {value(it)}' for it in chosen) + "}"


def call_text(reads: str, gives: str, call: list[str]) -> str:
    inner = "".join(f"            {it},\n" for it in call)
    begin = {"json": f"        answer: {gives} = await self._transport.json(\n",
             "bytes": "        return await self._transport.file(\n",
             "nothing": "        await self._transport.json(\n"}[reads]
    return begin + inner + "        )\n" + ("        return answer\n" if reads == "json" else "")


def method_text(name: str, signature: list[str], gives: str, says: str, body: str, verb: str = "async def") -> str:
    one = f"    {verb} {name}({', '.join(['self', *signature])}) -> {gives}:\n"
    if len(one) > WIDTH:
        one = f"    {verb} {name}(\n        self,\n" + "".join(f"        {it},\n" for it in signature) + f"    ) -> {gives}:\n"
    return one + docstring_lines(says) + body


def docstring_lines(says: str) -> str:
    return f'        """{says}"""\n'


def documentation(operation: dict[str, Any], address: str, method: str, arguments: list[Argument], takes_file: bool) -> str:
    indent = " " * 8
    text = wrapped(operation.get("summary", ""), indent).lstrip() + "\n\n"
    if operation.get("description"):
        text += wrapped(operation["description"], indent) + "\n\n"
    text += f"{indent}`{method.upper()} {address}`\n"
    said = [(it.name, it.says) for it in arguments if it.says]
    if takes_file:
        said[:0] = [("content", "The file: bytes, or what gives bytes piece by piece."),
                    ("content_type", "Its media type."), ("content_encoding", "`gzip` or `zstd`, where it is packed.")]
    if said:
        text += f"\n{indent}Args:\n"
        for name, says in said:
            lines = textwrap.wrap(f"{name}: " + " ".join(says.replace("\\", "\\\\").split()), WIDTH - 16,
                                  break_long_words=False, break_on_hyphens=False)
            text += "\n".join(f"{indent}    {'    ' if at else ''}{line}" for at, line in enumerate(lines)) + "\n"
    return text + indent


def items_of(document: dict[str, Any], operation: dict[str, Any]) -> str | None:
    """The type of the items of a list that is read page by page; none where it is no such list."""
    if not any(it["name"] == "cursor" for it in operation.get("parameters", [])):
        return None
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    properties = document["components"]["schemas"][reference(schema)]["properties"]
    if "nextCursor" not in properties:
        return None
    return annotation(properties["items"]["items"], prefix="models.")


def iterator(name: str, arguments: list[Argument], in_path: list[Argument], named: list[Argument], items: str,
             operation: dict[str, Any]) -> str:
    """The list's method that goes on from page to page by itself."""
    rest = [it for it in named if it.wire not in ("limit", "cursor")]
    signature = [it.signature() for it in in_path] + ["*"] + [it.signature() for it in rest]
    signature.append("page_size: int | None = None")
    says = (wrapped(operation.get("summary", ""), " " * 8).lstrip()
            + f"\n\n        Gives item after item and asks for the next page when it is needed; `{name}` has the arguments.\n\n"
            + "        Args:\n            page_size: Rows of a page: 50 unless given, 200 at most.\n        ")
    given = [it.name for it in in_path] + [f"{it.name}={it.name}" for it in rest]
    inner = "".join(f"                {it},\n" for it in [*given, "limit=page_size", "cursor=cursor"])
    body = (
        "        cursor: str | None = None\n        while True:\n"
        f"            page = await self.{name}(\n{inner}            )\n"
        '            for item in page["items"]:\n                yield item\n'
        '            cursor = page["nextCursor"]\n            if cursor is None:\n                return\n'
    )
    renamed = re.sub(r"^(list|get)_", "iter_", name)
    assert renamed != name, f"{name} is a list by another name"
    return method_text(renamed, signature, f"AsyncIterator[{items}]", says, body)


# -- the blocking client -----------------------------------------------------------------------------------------------

# In this order: a longer name stands before what it contains.
BLOCKING: list[tuple[str, str]] = [
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\bimport asyncio\b", "import time"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclose\b", "close"),
    (r"\baiter_(bytes|lines|raw)\b", r"iter_\1"),
    (r"\baread\b", "read"),
    (r"\basynchronous\b", "blocking"),
    (r"\b_async\b", "_sync"),
]


def blocking(source: str) -> str:
    for pattern, replacement in BLOCKING:
        source = re.sub(pattern, replacement, source)
    return source if NOTE in source else source.replace('"""\n', '"""\n\n' + NOTE.rstrip() + " It is _async, blocking.\n", 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
