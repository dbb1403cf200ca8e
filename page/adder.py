"""Add calls to a program's source that tell what each line and each operation computes.

Python's `ast` reads a file as a tree. Two kinds of calls are added: `_at(k)` before each statement
k, and `_see(k, value)`, which returns the value, around each operation k. For example,
`return softmax(x @ w)` becomes `_at(6); return _see(8, softmax(_see(7, x @ w)))`. Each operation is
still evaluated once, in the same order.
"""

import ast
import gc
import types
from typing import Any

OPERATIONS = ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Attribute, ast.IfExp
SKIPPED = {"__init__", "check_prompt", "_check_length", "running", "n_left", "finish"}  # plumbing
SKIPPED |= {"new_ids", "min_length", "make_sampler"}


class Adder(ast.NodeTransformer):
    """Adds the calls to trees, and for each call a node to `nodes`: [file, function, kind, line,
    column, last line, last column]. Of a statement with a body, only the head counts.

    operands: {node of x + y: [node of x, node of y]}. loops: {(file, function): the first and the
    last line in the loop over blocks} of each function that runs a pass."""

    def __init__(self):
        self.file, self.nodes, self.scope, self.inside = "", list[list](), list[str](), False
        self.operands: dict[int, list] = {}
        self.loops: dict[tuple, tuple] = {}

    def call(self, name, node, *value):  # -> the tree of _at(k) or _see(k, value)
        last = node.end_lineno, node.end_col_offset
        if name == "_at" and (body := getattr(node, "body", None)):
            last = max(node.lineno, body[0].lineno - 1), 999
        # kind: of x @ y, "MatMult"; of what is read or written, "Load" or "Store"
        kind = type(getattr(node, "op", getattr(node, "ctx", node))).__name__
        node.number = len(self.nodes)
        place = self.file, ".".join(self.scope)
        self.nodes.append([*place, kind, node.lineno, node.col_offset, *last])
        called = ast.Call(ast.Name(name, ast.Load()), [ast.Constant(node.number), *value], [])
        return ast.copy_location(called, node)

    def visit(self, node: Any):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            return node
        if isinstance(node, ast.Call):
            vars(node.func)["is_called"] = True
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        for operand in operands:
            vars(operand)["is_operand"] = True
        written = [ast.parse(ast.unparse(x)).body[0] for x in getattr(node, "targets", [])]
        new = super().visit(node)
        if not self.inside:
            return new  # the statements of a module or a class do not run again
        if isinstance(node, ast.Lambda):  # _at returns None
            new.body = ast.BoolOp(ast.Or(), [self.call("_at", node.body), new.body])
        elif isinstance(node, ast.While):  # a stop before each test
            new.test = ast.BoolOp(ast.Or(), [self.call("_at", node), new.test])
        elif isinstance(node, ast.stmt):
            stop = ast.copy_location(ast.Expr(self.call("_at", node)), node)
            return [stop, new, *self.written(node, written)]
        if not is_operation(node):
            return new
        new = self.call("_see", node, new)
        if operands:
            self.operands[node.number] = [getattr(one, "number", None) for one in operands]
        return new

    def written(self, node, copies):
        """Yield statements that see self.x[i] after the statement self.x[i] = y. copies: of its
        targets. If i calls a function, it is not seen: the function would run twice."""
        for target, copy in zip(getattr(node, "targets", []), copies):
            calls = any(isinstance(part, ast.Call) for part in ast.walk(copy))
            is_part = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute)
            if is_part and not calls:
                yield ast.copy_location(ast.Expr(self.call("_see", target, copy.value)), node)

    def visit_FunctionDef(self, node: Any):  # without decorators, default values and annotations
        if node.name in SKIPPED:
            return node
        outer = self.scope, self.inside
        self.scope, self.inside = [*self.scope, node.name], isinstance(node, ast.FunctionDef)
        if self.inside and {"ids", "token"} & {x.arg for x in node.args.args}:
            for loop in filter(is_over_blocks, node.body):
                place = self.file, ".".join(self.scope)
                self.loops[place] = loop.body[0].lineno, loop.end_lineno
        body = ast.Module(node.body, [])
        self.generic_visit(body)
        node.body = body.body
        self.scope, self.inside = outer
        return node

    visit_ClassDef = visit_FunctionDef


def is_over_blocks(node):  # for block in blocks: ...
    return isinstance(node, ast.For) and "block" in ast.unparse(node).splitlines()[0]


def is_operation(node):  # does the page show its value?
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    is_number = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)  # -1
    is_own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    is_function = hasattr(node, "is_called")  # x.mean in x.mean(-1)
    is_operand = hasattr(node, "is_operand")  # x in x @ w.T
    is_shown = isinstance(node, OPERATIONS) or (is_operand and isinstance(node, ast.Name))
    return is_shown and is_read and not (is_number or is_function or (is_own and not is_operand))


def codes(tree, file):
    """Compile a file's tree. Return {(file, line, name): code} for all of its functions."""
    found, rest = {}, [compile(tree, file, "exec", dont_inherit=True)]
    for code in rest:
        found[code.co_filename, code.co_firstlineno, code.co_name] = code
        rest += [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return found


def exchange(new):
    """Give functions their new code, wherever they are: in modules, classes, closures, ..."""
    for f in [x for x in gc.get_objects() if isinstance(x, types.FunctionType)]:
        code = f.__code__
        f.__code__ = new.get((code.co_filename, code.co_firstlineno, code.co_name), code)
