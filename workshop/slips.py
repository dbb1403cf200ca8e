"""Slips: mistakes that can happen in any line, such as a wrong axis or > instead of >=.

`slips` makes each slip in each place of a function where it is possible. A slip in our function is
a known mistake. A slip in the reader's function may also mend a mistake.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any

from workshop.mistakes import REFERENCE, Mistake, body, definitions, line_starts, read

SYMBOLS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
SYMBOLS |= {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
SYMBOLS |= {ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//"}
OTHERS = {  # a symbol or a function -> those that replace it
    "+": "- *",
    "-": "+",
    "*": "/ +",
    "/": "* -",
    ">": ">= <",
    ">=": "> <=",
    "<": "<= >",
    "<=": "< >=",
    "==": "!=",
    "!=": "==",
    "max": "min mean",
    "min": "max",
    "sum": "mean max",
    "mean": "sum",
    "softmax": "np.exp",
}
REDUCTIONS = "max", "min", "sum", "mean", "cumsum", "std", "var"
ALWAYS = {"True": "always", "False": "never"}
SHOWN = ast.expr, ast.keyword, ast.Return  # what a message may quote
WITH_SYMBOLS = ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp


def slips(source: str, function: str, confused=False, mends=False) -> Iterator[Mistake]:
    """Yield the slips in a function, such as "Cache.append" of "workshop/reference.py". confused:
    whether to yield only those that take a name or an argument for another. mends: whether a slip
    may mend a mistake, so that its message calls the old text wrong."""
    top: Any = definitions(source).get(function)
    if isinstance(top, ast.ClassDef):
        for method in (node for node in top.body if isinstance(node, ast.FunctionDef)):
            yield from slips(source, f"{function}.{method.name}", confused, mends)
        return
    if not top or top.body[1:] == [] and ast.get_docstring(top):
        return
    code = Code(source, top)
    begin, end = body(source, function)
    found = code.confused() if confused else code.slips(mends)
    if mends and confused and (right := definitions(REFERENCE).get(function)):
        found = itertools.chain(found, code.inserted(right))
    for node, a, b, new in dict.fromkeys(found):
        if begin <= a:  # it is not a docstring
            says = code.message(node, a, b, new, mends)
            yield Mistake(says, source, function, code.text[begin:a] + new + code.text[b:end])


class Code:
    """The code of a function. A slip is (a node, begin, end, the new text)."""

    def __init__(self, source: str, top: Any):
        self.text, self.starts, self.top = read(source), line_starts(source), top
        self.arguments = [arg.arg for arg in top.args.args if arg.arg != "self"]
        inside = (node for statement in top.body for node in ast.walk(statement))
        self.nodes = [node for node in inside if hasattr(node, "lineno")]
        self.parents = {}
        for node in ast.walk(top):
            self.parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
        names = (node for node in self.nodes if isinstance(node, ast.Name))
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        self.variables = {*self.arguments}
        if len(stored) < 9:
            self.variables |= stored

    def place(self, node):
        first, last = (self.starts[line - 1] for line in (node.lineno, node.end_lineno))
        return first + node.col_offset, last + node.end_col_offset

    def show(self, node):
        a, b = self.place(node)
        return self.text[a:b]

    def part(self, node):  # the text of a part of a longer expression
        return f"({self.show(node)})" if isinstance(node, WITH_SYMBOLS) else self.show(node)

    def message(self, node, a, b, new, mends):
        """Say what is wrong, such as "with `x + 1` instead of `x`". Show enough code to find it."""
        old, before, after = self.text[a:b], "", ""
        line = f" in line {node.lineno}" if mends else " in our code"
        if a == b:
            return f"without `{new.strip()}`"
        if (a, b) != self.place(node):  # the statement changes places with the next one
            one = self.show(node)
            both = one, new.removesuffix(one)
            first, second = map(one_line, both if mends else both[::-1])
            return f"with `{brief(first)}` before `{brief(second)}`{line}"
        while len(before + old + after) < 12 and isinstance(node, SHOWN):
            first, last = self.place(node)
            before, after, node = self.text[first:a], self.text[b:last], self.parents.get(node)
        texts = before + old + after, before + new + after
        right, wrong = texts[::-1] if mends else texts
        right, wrong = one_line(right), one_line(wrong)
        if wrong in ALWAYS and right not in ALWAYS:
            return f"as if `{brief(right)}` {ALWAYS[wrong]} held{line}"
        if wrong == "pass" or len(right) > 50 and wrong and wrong in right:
            return f"without `{rest(right, wrong)}`{line}"
        if right == "pass" or len(wrong) > 50 and right and right in wrong:
            return f"with `{rest(wrong, right)}`{line}, which is too much"
        return f"with `{brief(wrong)}` instead of `{brief(right)}`{line}"

    def slips(self, mends):
        ways = [self.by_place, self.of_expression, self.of_statement, self.of_leaf]
        for way in [self.complete] * mends + ways:
            for node in self.nodes:
                yield from ((node, *self.place(node), new) for new in way(node))
        for block in (self.top, *self.nodes):
            inside = getattr(block, "body", None)
            for one, other in itertools.pairwise(inside) if isinstance(inside, list) else ():
                (a, b), (c, d) = self.place(one), self.place(other)
                yield one, a, d, self.text[c:d] + "\n" + " " * one.col_offset + self.text[a:b]

    def inserted(self, right: Any) -> Iterator[tuple]:
        """Yield the calls of our function that the reader's lacks, after each statement. right: our
        function. If the reader's has the call with other arguments, yield it there."""
        statements = [node for node in self.nodes if isinstance(node, ast.stmt)]
        mine = {name_of(node): node for node in statements if name_of(node)}
        call: Any
        for call in filter(name_of, ast.walk(right)):
            name, new = name_of(call), ast.unparse(call)
            if name in mine:
                yield (mine[name], *self.place(mine[name]), new)
                continue
            one = len(call.value.args) == 1  # it may have another name
            calls = [new, *(f"{name}({variable})" for variable in sorted(self.variables) if one)]
            for node, new in itertools.product(statements, calls):
                end = self.place(node)[1]
                yield node, end, end, "\n" + " " * node.col_offset + new

    def complete(self, node: Any) -> Iterator[str]:
        """Yield a call with one more argument, a copy of a list, and names for a call's results."""
        match node:
            case ast.Expr(ast.Call(args=[*_, ast.Name(a), ast.Name(b)])):
                yield f"{a}, {b} = {self.show(node)}"
            case ast.Call(keywords=[_, *_]):
                known = {keyword.arg for keyword in node.keywords}
                more = (name for name in self.arguments if name not in known)
                yield from (f"{self.show(node)[:-1]}, {name}={name})" for name in more)
            case ast.Attribute(_, "ids", ast.Load()):
                yield f"list({self.show(node)})"

    def confused(self):
        for node in self.nodes:
            yield from ((node, *self.place(node), new) for new in self.others(node))

    def by_place(self, node: Any) -> Iterator[str]:
        """Yield another condition, or another sequence for a loop."""
        match self.parents.get(node):
            case ast.If(test) if test is node:
                yield from ("True", "False")
            case ast.For(iter=one) | ast.comprehension(iter=one) if one is node:
                every = self.show(node) if isinstance(node, ast.Name) else f"[*{self.show(node)}]"
                yield from (every + some for some in ("[:1]", "[1:]", "[:-1]", "[-1:]", "[::-1]"))

    def of_leaf(self, node: Any) -> Iterator[str]:
        """Yield another number, function or attribute."""
        match node:
            case ast.Name(name):
                yield from OTHERS.get(name, "").split()
            case ast.Attribute(value, "T"):
                one = self.part(value)
                yield from (one, f"{one}.reshape({one}.shape[::-1])")
            case ast.Attribute(_, "shape"):
                yield from (f"{name}.shape" for name in sorted(self.variables))
            case ast.Attribute(value, name):
                yield from (f"{self.part(value)}.{one}" for one in OTHERS.get(name, "").split())
            case ast.Constant(bool(value)):
                yield str(not value)
            case ast.Constant(int(n)) if not isinstance(self.parents[node], ast.UnaryOp):
                yield from sorted({f"{n + 1}", f"{n - 1}", "0"} - {f"{n}"})
            case ast.Constant(float(n)):
                yield from (f"{n * factor:.12g}" for factor in (2, 0.5, 10, 0.1))
            case ast.UnaryOp(ast.USub(), ast.Constant(int(n))):
                yield from (f"{n}", "0", f"-{n + 1}")
            case ast.UnaryOp(_, value):
                yield from (self.show(value), "0.0", "-np.inf")

    def of_expression(self, node: Any) -> Iterator[str]:
        """Yield another operation with the same parts, or only a part."""
        show, part = self.show, self.part
        match node:
            case ast.BinOp(a, op, b):
                sign = SYMBOLS.get(type(op), "%")
                yield from (show(a), show(b))
                yield from (f"({part(a)} {o} {part(b)})" for o in OTHERS.get(sign, "").split())
                if sign not in "+*":
                    yield f"({part(b)} {sign} {part(a)})"
                if sign == "**":
                    yield f"{show(a)} * {show(b)}"
                if isinstance(b, ast.BinOp):
                    yield f"{part(a)} {sign} {show(b)}"
            case ast.Compare(a, [op], [b]):
                signs = OTHERS.get(SYMBOLS.get(type(op), ""), "").split()
                yield from (f"{show(a)} {sign} {show(b)}" for sign in signs)
            case ast.BoolOp(_, parts):
                yield from map(show, parts)
            case ast.IfExp(_, yes, no):
                yield from (show(yes), show(no))
            case ast.Call():
                yield from self.of_call(node)
            case ast.Subscript(value, index):
                yield show(value)
                axes = index.elts if isinstance(index, ast.Tuple) else [index]
                for i, new in ((i, new) for i, axis in enumerate(axes) for new in indices(axis)):
                    now = ", ".join(new if i == j else show(axis) for j, axis in enumerate(axes))
                    yield f"{show(value)}[{now}]"
            case ast.List(items) | ast.Tuple(items) if len(items) > 1:
                for new in swapped(list(map(show, items))):
                    yield {"[": f"[{new}]", "(": f"({new})"}.get(show(node)[0], new)

    def of_statement(self, node: Any) -> Iterator[str]:
        """Yield `pass` instead of a statement."""
        match node:
            case ast.Expr(ast.Call()) | ast.Break() | ast.AugAssign():
                yield "pass"
            case ast.Assign([ast.Name(name)], value):
                yield from ["pass"] * bool(re.search(rf"\b{name}\b", self.show(value)))
            case ast.Assign():
                yield "pass"

    def others(self, node: Any) -> Iterator[str]:
        """Yield other variables instead of a variable, and calls with two arguments swapped."""
        match node:
            case ast.Name(name, ast.Load()) if name in self.variables:
                parent = self.parents.get(node)
                owner = self.show(parent.func) if isinstance(parent, ast.Call) else ""
                yield from sorted(self.variables - {name, owner.partition(".")[0]})
            case ast.Constant(int()) if isinstance(self.parents[node], ast.Call | ast.Subscript):
                yield from sorted(self.variables)
            case ast.Call(function, arguments):
                rest = [self.show(keyword) for keyword in node.keywords]
                for new in swapped(list(map(self.show, arguments))):
                    yield f"{self.show(function)}({', '.join([new, *rest])})"
            case ast.Assign(value=value) | ast.Return(value) if value:
                text = self.show(node)
                inside = sorted(self.variables & {*re.findall(r"(?<![\w.])\w+", self.show(value))})
                head = text.removesuffix(self.show(value))
                for a, b in itertools.combinations(inside, 2):
                    pieces = re.split(rf"(?<![\w.])({a}|{b})\b", text.removeprefix(head))
                    yield head + "".join(str({a: b, b: a}.get(one, one)) for one in pieces)

    def of_call(self, node: ast.Call) -> Iterator[str]:
        """Yield calls with other arguments, and what is left without the call."""
        name, arguments = self.show(node.func), [self.show(a) for a in node.args]
        keywords = [self.show(k) for k in node.keywords]

        def call(*inside):
            return f"{name}({', '.join(inside)})"

        yield from (self.part(a) for a in node.args[:2] if not re.fullmatch(r"-?\d", self.show(a)))
        if name == "len":
            yield from (f"{arguments[0]}.shape[-1]", f"{arguments[0]}.shape[-2]")
        if name.rpartition(".")[2] in REDUCTIONS:
            yield from (call(), f"{name.rpartition('.')[0]}.flat[-1]")
        for i in range(len(keywords)):
            yield call(*arguments, *keywords[:i], *keywords[i + 1 :])
        for keyword in node.keywords:
            if not keyword.arg:
                yield call(*arguments, self.show(keyword.value) + '["w"]')


def name_of(node: Any) -> str:
    """Return the name of the function that a statement calls, or ""."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return ast.unparse(node.value.func) if is_call else ""


def swapped(items: list[str]) -> Iterator[str]:
    """Yield the items as a text, with two of them swapped."""
    for i, j in itertools.combinations(range(len(items)), 2):
        other = list(items)
        other[i], other[j] = items[j], items[i]
        yield ", ".join(other)


def indices(axis: ast.AST) -> Iterator[str]:
    """Yield other indices and slices of an axis: one too far, one too early, or the other end."""
    match axis:
        case ast.Slice(lower, upper, None):
            a, b = (ast.unparse(x) if x else "" for x in (lower, upper))
            bounds = {(a, ""), ("", b), (b, a), ("-1", ""), (f"-{b}" * bool(b), "")} - {(a, b)}
            bounds |= {("", a[1:])} if a.startswith("-") else set()
            bounds |= {(other, b) for other in beside(a)} | {(a, other) for other in beside(b)}
            yield from (f"{a}:{b}" for a, b in sorted(bounds))
        case ast.Name(name):
            yield from (f"{name} + 1", f"{name} - 1", "0", "-1", ":")
        case ast.expr():
            yield ":"


def beside(bound: str) -> list[str]:
    if bound.endswith((" + 1", " - 1")):
        return [bound[:-4], bound[:-1] + "2"]
    return [f"{bound} + 1", f"{bound} - 1"] if bound else []


def one_line(text: str) -> str:
    """Return an expression without comments, and without parentheses around it."""
    text = " ".join(re.sub("#.*", "", text).split())
    try:
        return text if text[:1] + text[-1:] != "()" or ast.parse(text[1:-1]) is None else text[1:-1]
    except SyntaxError:
        return text


def rest(long: str, short: str) -> str:  # without `short`: "x + short" -> "x +"
    text = long.replace(f"({short}", "(...", 1).replace(f", {short}", ", ...", 1)
    return text.replace(short, "", 1).strip()


def brief(text: str) -> str:
    return text if len(text) < 70 else f"{text[:45]} ... {text[-20:]}"
