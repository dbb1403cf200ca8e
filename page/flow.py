"""Tell which values are token ids: those that a program carries from or into a name `ids`.

    best = int(np.argmax(logits[-1]))
    ids.append(best)  # so `best` is an id, and so is what int returns; len(ids) is none

Each name, each operation and each part of a tree is a place; a program carries values from place to
place. It also carries them into functions and back, if the trees have them.
"""

import ast
from collections import defaultdict

CARRIERS = {"int", "list", "tuple", "array", "asarray", "append", "concatenate", "takewhile"}
METHODS = {"tolist", "item", "copy", "reshape"}  # x.f() returns x in another form, like f(x) above
CHANGES = {"append", "extend", "insert"}  # x.f(y) carries y into x
LIBRARIES = {"np", "numpy", "itertools"}


class Flow(ast.NodeVisitor):
    """Follows values in trees that adder.py has changed. trees: {file: tree}. A name's place is a
    text, such as "gpt2.py GPT2.block x"; an operation's place is its number. A visit of an
    expression returns its place. ids: all places that have token ids."""

    def __init__(self, trees):
        self.after, self.before, self.scope = defaultdict(set), defaultdict(set), list[str]()
        nodes = [node for tree in trees.values() for node in ast.walk(tree)]
        known = {node.name for node in nodes if isinstance(node, ast.FunctionDef)} - METHODS
        self.known = {name for name in known - CHANGES if name[0] != "_"}
        for self.file, tree in trees.items():
            self.visit(tree)
        self.ids = {*reached(reached(["ids"], self.after), self.before)}

    def carry(self, *places):  # all but the last one -> into the last one, which is returned
        *given, end = places
        for place in given:
            self.after[place].add(end)
            self.before[end].add(place)
        return end

    def name(self, name):  # -> the place of a local name
        place = f"{self.file} {'.'.join(self.scope)} {name}"
        if name in ("ids", "token"):
            self.carry(place, "ids")
            self.carry("ids", place)
        return place

    def visit(self, node):
        found = super().visit(node)
        return node if found is None else found

    def visit_ClassDef(self, node):
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_FunctionDef(self, node):
        self.scope.append(node.name)
        own = [x.arg for x in node.args.args if x.arg != "self"]
        for i, name in enumerate(own if node.name not in CHANGES or len(own) == 1 else []):
            self.carry(f"{node.name} argument {i}", self.name(name))
        self.generic_visit(node)
        self.scope.pop()

    def visit_Call(self, node):
        name, owner = called(node), getattr(node.func, "value", None)
        if name == "_see":
            number, value = node.args
            return self.carry(self.visit(value), number.value)
        given = [self.visit(one) for one in node.args]
        if name == "model" and given:
            self.carry(given[0], "ids")
        if name in self.known:
            for i, place in enumerate(given):
                self.carry(place, f"{name} argument {i}")
            return f"{name} returns"
        if owner is None or getattr(owner, "id", "") in LIBRARIES:
            return self.carry(*given if name in CARRIERS else [], node)
        if name in CHANGES and len(given) == 1:  # of a list, or of a class that is like one
            self.carry(*given, self.visit(owner))
            self.carry(*given, f"{name} argument 0")
        return self.carry(*[self.visit(owner)] * (name in METHODS), node)

    def visit_Name(self, node):
        return self.name(node.id)

    def visit_Attribute(self, node):
        self.visit(node.value)
        return "ids" if node.attr == "ids" else f"self.{node.attr}"

    def visit_Subscript(self, node):
        self.visit(node.slice)
        return self.visit(node.value)

    def visit_Starred(self, node):
        return self.visit(node.value)

    def visit_List(self, node):
        return self.carry(*map(self.visit, node.elts), node)

    def visit_BinOp(self, node):
        both = self.visit(node.left), self.visit(node.right)
        return self.carry(*both if isinstance(node.op, ast.Add) else (), node)

    def visit_Return(self, node):
        for i, part in enumerate(getattr(node.value, "elts", [])):
            self.carry(self.visit(part), f"{self.scope[-1]} returns {i}")
        self.carry(self.visit(node.value or node), f"{self.scope[-1]} returns")

    visit_Yield = visit_Return

    def visit_For(self, node):
        self.assign(node.target, node.iter)
        self.generic_visit(node)

    def visit_Assign(self, node):
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            self.assign(target, node.value)

    visit_AugAssign = visit_Assign

    def assign(self, target, value):
        """Carry the right side into the left side: part by part, if they have parts."""
        place = self.visit(value)
        if not isinstance(target, ast.Tuple):
            self.carry(place, self.visit(target))
            return
        value = value.args[1] if called(value) == "_see" else value
        name, parts = called(value), getattr(value, "elts", getattr(value, "args", []))
        places = [*map(self.visit, parts if name in ("zip", "") else [])]
        if name in self.known:
            places = [f"{name} returns {i}" for i in range(len(target.elts))]
        for place, part in zip(places, target.elts):
            self.carry(place, self.visit(part))


def called(node):  # -> the name of the function that is called, or ""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def reached(places, steps):  # -> all places that one can reach from these
    found = [*places]
    for place in found:
        found += [x for x in steps[place] if x not in found]
    return found
