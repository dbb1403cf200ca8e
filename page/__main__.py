"""Step through a page of pico/: python -m page pico.forward "The dragon was" code.html

The module is imported, and what stands in it below `if __name__ == "__main__":` runs as always,
while its functions, and those that it imports, are recorded. If it raises an error, the page
leads to the line that failed.
"""

import ast
import importlib
import linecache
import sys
from types import FunctionType

from loading.errors import UserError
from page.code import code_html
from page.file import writing
from page.sources import files_of
from page.trace import recording

MOST_BYTES = 1_500_000
USAGE = (
    "say which program, perhaps its words, and the page: pico.forward 'The dragon was' code.html"
)


def main(name="", *words):
    if not words:
        raise UserError(USAGE)
    *given, file = words
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"there is no program {name}: {error}") from None
    program = compile(ast.Module(main_of(module), []), str(module.__file__), "exec")
    sys.argv, files = [name, *given], files_of()
    nothing = UserError(f"{name} runs no model that can be shown: try pico.forward")

    def make(record):
        tokenizers = [x for x in vars(module).values() if hasattr(x, "token_bytes")]
        if not (record.passes and tokenizers):
            raise nothing
        return code_html(record, tokenizers[0], most=MOST_BYTES)

    with writing(file, recording(files, keep=True), make) as record:
        codes = [f.__code__ for f in vars(module).values() if isinstance(f, FunctionType)]
        places = {(files.get(code.co_filename), code.co_name) for code in codes}
        if not places & record.adder.loops.keys():
            raise nothing
        exec(program, vars(module))
    print(f"({file} is written: open it in a browser)", file=sys.stderr)
    if record.raised:
        raise record.raised


def main_of(module):  # -> the statements that only a program runs, not a module
    text = "".join(linecache.getlines(module.__file__))
    tests = [x for x in ast.parse(text).body if isinstance(x, ast.If)]
    return [line for x in tests if "__main__" in ast.unparse(x.test) for line in x.body]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted")
