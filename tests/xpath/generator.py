"""Random XPath expressions with the words of a page, biased to what people write."""
import re


class Generator:
    AXES = ["child", "descendant", "descendant-or-self", "parent", "ancestor", "ancestor-or-self", "following",
            "following-sibling", "preceding", "preceding-sibling", "self", "attribute"]

    def __init__(self, random, page):
        self.random, self.page = random, page
        self.name_list = sorted(page.names, key=lambda name: -page.names[name])
        self.attribute_list = [a for a in page.attributes if re.fullmatch(r"[A-Za-z_][\w.-]*", a)] or ["id"]

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, share):
        return self.random.random() < share

    def name(self):
        if self.chance(0.03):
            return "nothing"
        names = self.name_list[:12] if self.chance(0.6) else self.name_list
        name = self.pick(names)
        return name if re.fullmatch(r"[A-Za-z_][\w.-]*", name) else "div"

    def attribute(self):
        common = [a for a in ("class", "id", "href", "src", "content", "itemprop", "name") if a in self.page.attributes]
        return self.pick(common) if common and self.chance(0.6) else self.pick(self.attribute_list)

    def literal(self, text):
        text = text.replace("\n", " ")
        return f'"{text}"' if '"' not in text else f"'{text}'" if "'" not in text else "'x'"

    def value(self, attribute):
        return self.literal(self.pick(self.page.attributes.get(attribute) or ["x"])[:60])

    def token(self):
        values = self.page.attributes.get("class") or ["x"]
        return self.pick(self.pick(values).split() or ["x"]).replace("'", "")

    def word(self):
        return self.pick(self.page.words) if self.page.words and self.chance(0.9) else "zzz"

    def test(self, axis):
        if axis == "attribute":
            return self.pick([self.attribute(), self.attribute(), "*", "node()"])
        # An attribute's name now and then: libxml2's `self::` confuses the two.
        named = [self.name()] * 6 + ([self.attribute()] if self.chance(0.1) else [])
        return self.pick(named + ["*", "*", "node()", "text()", "text()", "comment()"])

    def step(self, depth):
        roll = self.random.random()
        if roll < 0.1:
            return self.pick([".", "..", "..", "@" + self.attribute(), "@*", "text()"])
        if roll < 0.65:
            head = self.pick([self.name()] * 5 + ["*", "node()"])
        else:
            axis = self.pick(self.AXES)
            head = f"{axis}::{self.test(axis)}"
        return head + self.predicates(depth)

    def predicates(self, depth):
        text = ""
        while depth > 0 and self.chance(0.35) and len(text) < 200:
            text += f"[{self.predicate(depth - 1)}]"
        return text

    def relative(self, depth, longest=3):
        steps = [self.step(depth) for _ in range(self.random.randint(1, longest))]
        text = steps[0]
        for step in steps[1:]:
            text += self.pick(["/", "/", "/", "//"]) + step
        return text

    def path(self, depth):
        roll = self.random.random()
        body = self.relative(depth)
        if roll < 0.58:
            return "//" + body
        if roll < 0.68:
            return "/html/" + self.pick(["body", "body", "head"]) + self.pick(["/", "//"]) + body
        if roll < 0.78:
            return ".//" + body
        if roll < 0.88:
            return f"({self.path(depth - 1) if depth > 0 else '//' + self.name()}){self.predicates(max(depth, 1))}"
        if roll < 0.92:
            # Where the document node may be among the results.
            start = self.pick(["/", "/..", "//..", "//node()/..", "/self::node()", "/descendant-or-self::node()",
                               "ancestor::node()", "ancestor-or-self::node()", "//*/ancestor::node()", "(/ | //*)"])
            return start + (self.predicates(depth) if not start.endswith("/") else "")
        return body

    def inner(self, depth):
        """A path as it stands in a predicate."""
        roll = self.random.random()
        if roll < 0.3:
            return "@" + self.attribute()
        if roll < 0.4:
            return self.pick([".", "text()", "..", "*"])
        if roll < 0.75:
            return self.pick(["", "", ".//"]) + self.relative(depth, 2)
        if roll < 0.95 or depth <= 0:
            axis = self.pick(self.AXES)
            return f"{axis}::{self.test(axis)}"
        return "//" + self.relative(depth - 1, 1)

    def predicate(self, depth):
        a = self.attribute()
        options = [
            lambda: str(self.random.randint(1, 4)), lambda: "last()",
            lambda: f"position(){self.pick(['<', '<=', '>', '=', '!='])}{self.random.randint(1, 4)}",
            lambda: f"last()-{self.random.randint(0, 2)}", lambda: "position() mod 2 = 1",
            lambda: f"@{a}", lambda: f"@{a}={self.value(a)}", lambda: f"@{a}={self.value(a)}",
            lambda: f"@{a}!={self.value(a)}", lambda: f"not(@{a})",
            lambda: f"contains(@{a}, {self.literal(self.value(a)[1:5])})",
            lambda: f"starts-with(@{a}, {self.literal(self.value(a)[1:4])})",
            lambda: f"contains(concat(' ', normalize-space(@class), ' '), ' {self.token()} ')",
            lambda: f"contains(concat(' ', @class, ' '), ' {self.token()} ')",
            # On any other node parsel's has-class brings lxml down.
            lambda: f"self::*[has-class({self.literal(self.token())})]",
            lambda: f"contains(., {self.literal(self.word())})",
            lambda: f"contains(text(), {self.literal(self.word())})",
            lambda: f"normalize-space()={self.literal(self.word())}",
            # Python functions of lxml never see the document node, hence string().
            lambda: f"re:test(string(.), {self.literal(self.word()[:2].lower())}, 'i')",
            lambda: f"re:test(string(@{a}), {self.literal(self.pick(['[^-]', '[a-z]', '.']) + self.pick(['', '+$', '?$']))})",
            # `$` before a newline that ends the text is Python's own.
            lambda: f"re:test(string({self.inner(0)}), '{self.pick(['^', '[a-z]', '[a-z0-9 ]+', '.', ''])}$')",
            lambda: f"string-length(normalize-space(.)) {self.pick(['>', '<'])} {self.random.randint(1, 60)}",
            lambda: f"count({self.inner(depth)}) {self.pick(['>', '=', '<', '!='])} {self.random.randint(0, 3)}",
            lambda: self.inner(depth), lambda: self.inner(depth), lambda: f"not({self.inner(depth)})",
            lambda: f"{self.inner(depth)} = {self.literal(self.word())}",
            lambda: f"{self.inner(depth)} {self.pick(['=', '!=', '<', '>='])} {self.inner(depth)}",
            lambda: f"{self.inner(depth)} {self.pick(['=', '<', '>'])} {self.random.randint(0, 20)}",
            lambda: f"name()='{self.name()}'", lambda: f"self::{self.name()}",
            lambda: f"sum({self.inner(0)}) {self.pick(['=', '<', '>='])} {self.random.randint(0, 20)}",
        ]
        if depth > 0:
            options += [lambda: f"{self.predicate(depth - 1)} and {self.predicate(depth - 1)}"] * 2
            options += [lambda: f"{self.predicate(depth - 1)} or {self.predicate(depth - 1)}"]
            options += [lambda: f"not({self.predicate(depth - 1)})"]
        return self.pick(options)()

    def text(self, depth):
        inner = self.path(depth)
        options = [
            lambda: f"string({inner})", lambda: f"normalize-space({inner})", lambda: f"name({inner})",
            lambda: f"local-name({inner})", lambda: f"concat({inner}, '-', count({inner}))",
            lambda: f"substring-before({inner}, {self.literal(self.word()[-2:])})",
            lambda: f"substring-after({inner}, {self.literal(self.word()[:2])})",
            lambda: f"substring({inner}, {self.random.randint(-2, 5)}, {self.random.randint(0, 9)})",
            lambda: f"substring({inner}, {self.random.randint(-2, 5)}.5)",
            lambda: f"translate({inner}, 'abcdefghijklmnopqrstuvwxyz ', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')",
            lambda: f"re:replace(string({inner}), '[aeiou]+', 'g', '_')",
        ]
        return self.pick(options)()

    def expression(self):
        depth = self.pick([0, 1, 1, 2, 2, 3])
        roll = self.random.random()
        if roll < 0.68:
            return self.path(depth)
        if roll < 0.74:
            return f"{self.path(depth)} | {self.path(depth)}"
        if roll < 0.86:
            return self.text(depth)
        if roll < 0.92:
            return f"{self.pick(['count', 'sum', 'boolean', 'not', 'count'])}({self.path(depth)})"
        if roll < 0.94:
            return f"set:{self.pick(['difference', 'intersection', 'leading', 'trailing'])}({self.path(0)}, {self.path(0)})"
        if roll < 0.97:
            return f"{self.path(depth)} {self.pick(['=', '!=', '<', '>', '<=', '>='])} {self.path(depth)}"
        return f"{self.pick(['floor', 'ceiling', 'round', 'number'])}({self.text(0)}) + count({self.path(0)})"
