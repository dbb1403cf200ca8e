"""The entry of the command line. An error becomes one line and an exit status.

Only the standard library is imported at the top: NumPy may be missing, or Python too old.
"""

import bdb
import os
import platform
import sys

PYTHON = platform.python_version()
FIRST = ("numpy", "regex", "safetensors", "threadpoolctl")


def main(argv=None):
    """Return the exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    sys.stderr = sys.stderr or open(os.devnull, "w")  # if closed, print would write to stdout
    if sys.hexversion < 0x30A0000:
        raise SystemExit("generate.py: tokenwise needs Python 3.10 or newer, not this " + PYTHON)
    try:
        from terminal import command

        command.run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except bdb.BdbQuit:  # the end of a debugger; `python -m pdb` waits for it
        sys.excepthook = lambda *_: None
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in FIRST:
            libraries = " ".join(FIRST)
            raise SystemExit(
                f"generate.py: {error.name} is not installed: pip install {libraries}"
            ) from None
        from terminal import options, plugin

        plugin.report(error)
        return 2 if isinstance(error, options.Usage) else 1
    return 0
