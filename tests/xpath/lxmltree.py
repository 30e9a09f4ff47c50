"""A tree that the engine dumped, rebuilt node by node in lxml, and asked in a process of its own.

The tree is built through lxml's API, so that libxml2's HTML parser has no say. lxml cannot be interrupted within an
expression and dies of some, hence the process: an expression that takes too long, or that kills it, is an answer too.
"""
import multiprocessing, re
import lxml.html
from lxml import etree
import parsel.xpathfuncs

parsel.xpathfuncs.setup()
XML, XLINK = "{http://www.w3.org/XML/1998/namespace}", "{http://www.w3.org/1999/xlink}"
etree.register_namespace("xlink", XLINK[1:-1])
NAMESPACES = {"re": "http://exslt.org/regular-expressions", "set": "http://exslt.org/sets"}


class Page:
    """The tree, with the engine's numbers of its nodes, and the words that expressions can be made of."""

    def __init__(self, events):
        self.numbers, self.texts = {}, {}
        self.names, self.attributes, self.words = {}, {}, []
        makeelement = lxml.html.HTMLParser().makeelement
        root, stack, before, after, last = None, [], [], [], None
        for kind, *event in events:
            if kind == "end":
                last = stack.pop()
                continue
            number = event[0]
            if kind == "text":
                self.add_text(stack[-1], last, number, event[1])
                continue
            if kind == "element":
                node = etree.SubElement(stack[-1], event[1]) if stack else makeelement(event[1])
                for name, value in event[2]:
                    # The engine's names are flat, yet `lang()` and `local-name()` know these two prefixes.
                    node.set(re.sub("^xml:", XML, re.sub("^xlink:", XLINK, name)), value)
                    self.attributes.setdefault(name, []).append(value)
                self.names[event[1]] = self.names.get(event[1], 0) + 1
                root = node if root is None else root
                stack.append(node)
                last = None
            else:
                node = etree.Comment("") if kind == "comment" else etree.PI(event[1], event[2])
                if kind == "comment":
                    node.text = event[1]
                if stack:
                    stack[-1].append(node)
                else:
                    (before if root is None else after).append(node)
                last = node
            self.numbers[node] = number
        for node in before:
            root.addprevious(node)
        for node in reversed(after):
            root.addnext(node)
        self.tree = root.getroottree()

    def add_text(self, parent, last, number, text):
        if last is None:
            parent.text = text
            self.texts[(parent, False)] = number
        else:
            last.tail = text
            self.texts[(last, True)] = number
        self.words += re.findall(r"\w{3,}", text)[:3]

    def number(self, node):
        if not isinstance(node, str):
            return self.numbers[node]
        parent = node.getparent()
        name = node.attrname and node.attrname.replace(XML, "xml:").replace(XLINK, "xlink:")
        return [self.numbers[parent], name] if node.is_attribute else self.texts[(parent, bool(node.is_tail))]

    def ask(self, xpath):
        return self.tree.xpath(xpath, namespaces=NAMESPACES)

    def evaluate(self, xpath):
        try:
            value = self.ask(xpath)
            if isinstance(value, bool):
                return {"bool": value}
            if isinstance(value, float):
                return {"number": value}
            if isinstance(value, str):
                return {"text": str(value)}
            if value and all(getattr(v, "tag", "") == "match" and v not in self.numbers for v in value):
                return {"texts": [v.text or "" for v in value]}
            nodes = [self.number(node) for node in value]
            # lxml leaves the document node out of its results, but not out of its counting.
            if value == [] and "re:match" in xpath:
                return {"nodes": nodes}
            hidden = self.ask(f"count({xpath})") - len(nodes)
            return {"nodes": [0] * int(hidden) + nodes}
        except (etree.XPathError, TypeError, AttributeError, ValueError, re.error) as error:
            return {"error": f"{type(error).__name__}: {error}"}


def serve(events, pipe):
    page = Page(events)
    while True:
        pipe.send(page.evaluate(pipe.recv()))


class Asker:
    """Asks lxml about one page, with a time limit for each expression."""

    def __init__(self, events, seconds):
        self.events, self.seconds, self.process = events, seconds, None

    def start(self):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(self.events, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def evaluate(self, xpath):
        """lxml's answer; {"none": why} where it gave none."""
        if not self.process:
            self.start()
        try:
            self.pipe.send(xpath)
            if self.pipe.poll(self.seconds):
                return self.pipe.recv()
            why = f"took over {self.seconds} s"
        except (EOFError, OSError):
            why = "died"
        self.stop()
        return {"none": why}
