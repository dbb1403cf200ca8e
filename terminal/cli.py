"""The entry point of the command line. An error becomes one line and an exit status.

Only the standard library is imported at first: NumPy may be missing, or Python too old.
"""

import bdb
import os
import sys


def main(argv=None):
    """Return the exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    sys.stderr = sys.stderr or open(os.devnull, "w")  # print(file=None) would write to stdout
    if sys.hexversion < 0x30A0000:
        version = sys.version.split()[0]
        raise SystemExit("generate.py: tokenwise needs Python 3.10 or newer, not this " + version)
    from terminal import options, plugin

    try:
        from terminal import command

        command.run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except bdb.BdbQuit:  # the user left the debugger; `python -m pdb` catches this error
        sys.excepthook = lambda *_: None
        raise
    except Exception as error:
        plugin.report(error)
        return 2 if isinstance(error, options.Usage) else 1
    return 0
