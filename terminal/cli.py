"""The entry point of the command line. It reports an error in one line and as an exit status.

At first, it imports only the standard library, because NumPy may be missing or Python too old.
"""

import bdb
import io
import os
import sys


def main(argv=None):
    """Run a command line. Return the exit status: 0 (success), 1 (an error) or 130 (Ctrl-C)."""
    if sys.hexversion < 0x30A0000:
        version = sys.version.split()[0]
        raise SystemExit("generate.py: tokenwise needs Python 3.10 or newer, not this " + version)
    from terminal.plugin import report

    sys.stdin = sys.stdin or open(os.devnull)  # it is None if the caller has closed it
    if sys.stdout is None:
        raise SystemExit("generate.py: standard output is closed")
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):  # '?' for what a terminal cannot display
            stream.reconfigure(errors="replace")
    try:
        import numpy as np

        from terminal.command import run

        with np.errstate(all="ignore"):  # no warnings: a draw detects NaNs
            run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the next program, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except bdb.BdbQuit:  # the user has left the debugger; `python -m pdb` catches this
        raise
    except Exception as error:
        report(error, "generate.py: ")
        return 1
    return 0
