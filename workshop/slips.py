"""Slips: mistakes that can happen in any line, such as a wrong axis or > instead of >=.

`slips` makes each slip in each place of a function where it is possible. Each message says which
text of the project's function is replaced, or what the replacement computes.
"""

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

from workshop.mistakes import Mistake, body, find_node, line_starts, read

Slip = tuple[Any, str, str]  # the node of the syntax tree to replace, the new text, the message

SIGNS: dict[type, list] = {  # operator -> the operators that replace it, and what happens to {b}
    ast.Add: [("-", "with `{b}` subtracted instead of added"), ("*", "with `{b}` as a factor")],
    ast.Sub: [("+", "with `{b}` added instead of subtracted")],
    ast.Mult: [("/", "divided by `{b}` instead of multiplied"), ("+", "with `{b}` added")],
    ast.Div: [("*", "multiplied by `{b}` instead of divided"), ("-", "with `{b}` subtracted")],
}
COMPARISONS = {ast.Gt: (">=", "<"), ast.GtE: (">", "<"), ast.Lt: ("<=", ">"), ast.LtE: ("<", ">")}
SYMBOLS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.MatMult: "@",
}
SYMBOLS |= {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<="}
OTHERS = {  # function -> the functions that replace it
    "max": ("min", "mean"),
    "min": ("max",),
    "sum": ("mean", "max"),
    "mean": ("sum",),
    "argmax": ("argmin",),
}
REDUCTIONS = "max", "min", "sum", "mean", "cumsum", "std", "var"


def slips(source: str, function: str) -> Iterator[Mistake]:
    """Yield all slips in a function, such as "Cache.append" of "workshop/reference.py"."""
    top = find_node(source, function)
    if isinstance(top, ast.ClassDef):
        for method in top.body:
            if isinstance(method, ast.FunctionDef) and len(method.body) > 1:  # or only a docstring
                yield from slips(source, f"{function}.{method.name}")
        return
    begin, end = body(source, function)
    text, starts = read(source), line_starts(source)
    names = [arg.arg for arg in top.args.args if arg.arg != "self"]
    stored = {
        n.id for n in ast.walk(top) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    variables = {*names, *stored} if len({*names, *stored}) < 10 else {*names}

    def place(node):
        first, last = (starts[line - 1] for line in (node.lineno, node.end_lineno))
        return first + node.col_offset, last + node.end_col_offset

    def found(node):
        """Yield (where to begin, where to end, the new text, the message)."""
        for inside in ast.walk(node):
            for old, new, says in changes(inside, names):
                if not re.search("[A-Z]{4}", says):  # it belongs to a style
                    yield *place(old), new, says

    def listed(node):
        """Yield slips that are made for only some of a list's parts, such as the values."""
        for inside in (n for n in ast.walk(node) if isinstance(n, ast.ListComp)):
            (first, last), (begin, end) = place(inside), place(inside.elt)
            old, target = text[begin:end], show(inside.generators[0].target)
            slipped = [(begin, end, target, f"with `{target}` as it was")]
            for a, b, new, says in itertools.chain(slipped, found(inside.elt)):
                part, rest = text[begin:a] + new + text[b:end], show(inside.generators[0].iter)
                for test, which in ("_ == 0", "only for the first"), ("_ > 0", "not for the first"):
                    new = f"[{part} if {test} else {old} for _, ({target}) in enumerate({rest})]"
                    yield first, last, new, f"{says}, but {which} `{target}`"

    def renamed(node):
        for parent, child in ((p, c) for p in ast.walk(node) for c in ast.iter_child_nodes(p)):
            if (
                isinstance(child, ast.Name)
                and child.id in variables
                and isinstance(child.ctx, ast.Load)
            ):
                where = f" in `{brief(show(parent))}`" if isinstance(parent, ast.expr) else ""
                for other in sorted(variables - {child.id}):
                    yield *place(child), other, f"with `{other}` instead of `{child.id}`{where}"

    indent = " " * top.body[-1].col_offset
    first = ((begin, begin, f"{indent}{new}\n", says) for new, says in of_parameters(top.args))
    ways = (way(statement) for way in (found, listed, renamed) for statement in top.body)
    for a, b, new, says in itertools.chain(*ways, first):
        if begin <= a:  # no docstring
            says = says if says.startswith("of") else f"of our code {says}"
            yield Mistake(says, source, function, text[begin:a] + new + text[b:end])


def of_parameters(arguments):
    """Yield statements that change the arguments at the beginning of a function."""
    names = [arg.arg for arg in arguments.args if arg.arg != "self"]
    defaults = [show(default) for default in arguments.defaults]
    for name, default in zip(names[len(names) - len(defaults) :], defaults):
        yield f"{name} = {default}", f"with {name}={default}, whatever {name} is"
    for a, b in itertools.pairwise(names):
        yield f"{a}, {b} = {b}, {a}", f"with {a} and {b} swapped"
    for name in names:
        yield f"{name} = {name}[..., :1, :]", f"with the first row of {name} for all rows"


def changes(node: Any, parameters: list[str]) -> Iterator[Slip]:
    match node:
        case ast.Attribute(value, "T"):
            yield node, show(value), f"with {show(value)} instead of {show(node)}"
        case ast.BinOp():
            yield from in_arithmetic(node)
        case ast.Compare(left, [op], [right]) if type(op) in COMPARISONS:
            for new in COMPARISONS[type(op)]:
                says = f"with {new} instead of {SYMBOLS[type(op)]} in `{brief(show(node))}`"
                yield node, f"{show(left)} {new} {show(right)}", says
        case ast.BoolOp(values=[a, b]):
            yield node, show(a), f"without the condition `{show(b)}`"
            yield node, show(b), f"without the condition `{show(a)}`"
        case ast.IfExp(test, yes, no):
            for kept in yes, no:
                yield node, show(kept), f"with `{show(kept)}` always, whether or not `{show(test)}`"
        case ast.If(test):
            yield test, "True", f"without the condition `{show(test)}`"
            yield test, "False", f"as if `{show(test)}` were never true"
        case ast.For(target, sequence) | ast.comprehension(target, sequence):
            yield from in_loop(sequence, show(target))
        case ast.Call():
            yield from in_call(node)
        case ast.Subscript(value, index):
            yield from in_index(show(value), index)
        case ast.UnaryOp(ast.USub(), ast.Constant(float(number))):
            for new in ("0.0", "-1.0", "1e10", "-1e9", "-np.inf", show(node.operand)):
                yield node, new, f"with {new} instead of -{number:g}"
        case ast.List([a, b]):
            yield node, f"[{show(b)}, {show(a)}]", f"with `{show(b)}` before `{show(a)}`"
        case ast.Constant(float(number)) if 0 < number < 1:
            for factor in (1 / number, 0.5, 10, 0.1):
                says = f"with {number * factor:g} instead of {number:g}"
                yield node, str(number * factor), says
        case ast.Expr(ast.Call()) | ast.Break() | ast.AugAssign():
            yield node, "pass", f"without `{brief(show(node))}`"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield node, "pass", f"without `{brief(show(node))}`"
        case ast.Assign([ast.Tuple(names)], _):
            for i, j in itertools.combinations(range(len(names)), 2):
                order = [show(name) for name in names]
                order[i], order[j] = order[j], order[i]
                yield node.targets[0], ", ".join(order), f"with {order[j]} and {order[i]} swapped"
        case ast.Assign([ast.Name(name)], value):
            if re.search(rf"\b{name}\b", show(value)):
                yield node, "pass", f"without `{brief(show(node))}`"
            if isinstance(value, ast.BinOp) and name in parameters and show(value.left) == name:
                new = f"{name} {SYMBOLS[type(value.op)]}= {show(value.right)}"
                yield node, new, f"of a function that changes its argument {name} in place"
        case ast.Return(value) if value is not None:
            for name in parameters[:2]:
                new = f"{name}[...] = {show(value)}; return {name}"
                yield node, new, f"of a function that writes its result over its argument {name}"


@functools.cache
def show(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript):
        return f"{show(node.value)}[{show(node.slice)}]"
    text = ast.unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) and len(node.elts) > 1 else text


def brief(text: str) -> str:
    return text if len(text) < 50 else f"{text[:24]} ... {text[-20:]}"


def in_arithmetic(node):
    a, b = (
        f"({show(x)})" if isinstance(x, ast.BinOp) else show(x) for x in (node.left, node.right)
    )
    sign = SYMBOLS.get(type(node.op))
    if isinstance(node.right, ast.BinOp):  # a / (b ** c), a * (b + c)
        inner, one, two = node.right, show(node.right.left), show(node.right.right)
        if isinstance(inner.op, ast.Pow):
            yield node, f"{a} {sign} {one} * {two}", f"with `* {two}` instead of `** {two}`"
        elif sign in ("*", "/", "-"):
            new = f"{a} {sign} {one} {SYMBOLS.get(type(inner.op))} {two}"
            yield node, new, f"without the parentheses around `{brief(show(inner))}`"
    for new, says in SIGNS.get(type(node.op), ()):
        yield node, f"({a} {new} {b})", says.format(b=brief(b))
    if sign in ("+", "*"):
        yield node, b, f"without `{brief(a)}` before `{sign} {brief(b)}`"
    if sign in ("-", "/", "@", "+"):
        yield node, f"({b} {sign} {a})", f"with `{brief(b)} {sign} {brief(a)}`, the wrong way round"
    if sign and sign != "@":
        yield node, a, f"without `{sign} {brief(b)}`"


def in_loop(sequence, target):
    text = show(sequence)
    for part, says in (
        ("[:1]", "with only the first turn of"),
        ("[-1:]", "with only the last turn of"),
        ("[1:]", "without the first turn of"),
        ("[:-1]", "without the last turn of"),
        ("[::-1]", "in reverse order:"),
    ):
        yield sequence, f"[*{text}]{part}", f"{says} `for {target} in {text}`"
    lists = sequence.args if "," in target and isinstance(sequence, ast.Call) else [sequence]
    for one in map(show, lists) if not text.startswith("range(") else ():
        new = f"[*{one}][:1] * len([*{one}])"
        yield sequence, text.replace(one, new), f"with the first of `{one}` each time"
    if text.startswith("enumerate("):
        index, _, rest = target.partition(", ")
        yield sequence, f"((0, {rest}) for {target} in {text})", f"with {index} = 0 each time"


def in_call(node):
    """Yield slips of a function's name, its axis, its arguments and its keywords."""
    name, arguments = show(node.func), [show(a) for a in node.args]
    keywords = {k.arg: show(k.value) for k in node.keywords if k.arg}
    last = name.rpartition(".")[2]

    def call(name=name, arguments=arguments, keywords=keywords, rest=True):
        splat = [show(k) for k in node.keywords if not k.arg and rest]
        named = [f"{key}={value}" for key, value in keywords.items()]
        return f"{name}({', '.join([*arguments, *splat, *named])})"

    for other in OTHERS.get(last, ()):
        new = call(name.removesuffix(last) + other)
        yield node, new, f"with {other} instead of {last} in `{brief(show(node))}`"
    if last in REDUCTIONS and arguments[-1:] == ["-1"]:
        what = f"the {last} of `{name.rpartition('.')[0]}`"
        for axis in "0", "1", "-2":
            yield node, call(arguments=[axis]), f"with {what} over axis {axis} instead of each row"
        yield node, call(arguments=[], keywords={}), f"with {what} as a whole instead of each row"
    for key in keywords:
        rest = {k: v for k, v in keywords.items() if k != key}
        yield node, call(keywords=rest), f"without {key}={keywords[key]} in `{brief(show(node))}`"
        for new in ("0", "1", "None") if re.fullmatch(r"[a-z_.]+", keywords[key]) else ():
            says = f"with {key}={new} in `{brief(show(node))}`"
            yield node, call(keywords={**keywords, key: new}), says
    for one in node.args:
        if isinstance(one, ast.Name):
            for new in "0", "1", f"sorted({one.id})", f"{one.id} - 1":
                yield one, new, f"with {new} instead of `{one.id}` in `{name}`"
        if isinstance(one, ast.Name | ast.Attribute | ast.BinOp):
            text = show(one) if not isinstance(one, ast.BinOp) else f"({show(one)})"
            for part in "[-1:]", "[:-1]", "[:1]", "[..., :1, :]", "[..., :1, :, :]":
                says = f"with `{text}{part}` instead of `{show(one)}` in `{name}`"
                yield one, text + part, says
    for keyword in node.keywords:
        if not keyword.arg:
            new = call(arguments=[*arguments, show(keyword.value) + '["w"]'], rest=False)
            yield node, new, f"without the bias in `{brief(show(node))}`"
    if last == "swapaxes":
        inner = name.removesuffix(".swapaxes")
        yield node, f"{inner}.T", f"with {inner}.T instead of {brief(show(node))}"
        yield node, inner, f"without {last}({', '.join(arguments)}) of `{inner}`"
        for axes in ("-1, -2", "0, 1", "1, 2", "-2, -3"):
            new = call(arguments=[axes])
            yield node, new, f"with axes {axes} swapped instead of {', '.join(arguments)}"
    elif arguments and last not in ("range", "zip", "enumerate", "min", "max", "model", "len"):
        yield node, f"({arguments[0]})", f"without {name} of `{brief(arguments[0])}`"
    for i, j in itertools.combinations(range(len(arguments)), 2):
        swapped = list(arguments)
        swapped[i], swapped[j] = arguments[j], arguments[i]
        says = f"with `{arguments[i]}` and `{arguments[j]}` swapped in `{brief(show(node))}`"
        yield node, call(arguments=swapped), says
    for one in node.args if last in ("range", "arange") else ():
        for new in f"{show(one)} + 1", f"{show(one)} - 1":
            yield one, new, f"with `{new}` instead of `{show(one)}` in `{brief(show(node))}`"


def in_index(value, index):
    """Yield slips of an index or a slice: one too far, one too early, or the other end."""
    old, parts = f"{value}[{show(index)}]", index.elts if isinstance(index, ast.Tuple) else [index]
    if len(parts) == 3:  # [..., i, :], although the array may have more axes or fewer
        for new in show(parts[1]), f":, {show(parts[1])}":
            yield index, new, f"with `{value}[{new}]` instead of `{old}`"
    for part in parts:
        for new in other_indices(part):
            now = [new if p is part else show(p) for p in parts]
            yield part, new, f"with `{value}[{', '.join(now)}]` instead of `{old}`"


def other_indices(part):
    match part:
        case ast.Slice(lower, upper):
            a, b = (show(x) if x else "" for x in (lower, upper))
            bounds = {(a, ""), ("", b)} if a and b else {("", "")}
            bounds |= {(f"{a} {sign} 1", b) for sign in "+-" if a}
            bounds |= {(a, f"{b} {sign} 1") for sign in "+-" if b}
            bounds |= {(b, a)} if not (a and b) else set()
            yield from (f"{a}:{b}" for a, b in sorted(bounds))
        case ast.UnaryOp(ast.USub(), ast.Constant(1)):
            yield from ("0", "-2", ":")
        case ast.Constant(int(number)):
            yield from (str(number + 1), str(number - 1), "-1" if number == 0 else "0")
        case ast.Name(name):
            yield from (f"{name} + 1", f"{name} - 1", "0", "-1", ":", f":, {name}")
        case ast.BinOp(a, ast.Sub() | ast.Add(), ast.Constant(1)):
            yield from (show(a), f"{show(a)} - 2", f"{show(a)} + 1")
