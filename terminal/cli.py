"""The entry point of the command line. It reports an error in one line and as an exit status.

At first, it imports only the standard library, because NumPy may be missing or Python too old.
"""

import sys


def main(argv=None):
    """Run a command line. Return the exit status: 0 (success), 1 (an error) or 130 (Ctrl-C)."""
    if sys.hexversion < 0x30A0000:
        version = sys.version.split()[0]
        raise SystemExit("generate.py: tokenwise needs Python 3.10 or newer, not this " + version)
    from terminal.streams import open_streams, report

    open_streams()
    try:
        import numpy as np

        from terminal.command import run

        with np.errstate(all="ignore"):  # no warnings: a draw detects NaNs
            run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except Exception as error:
        report(error, "generate.py: ")
        return 1
    return 0
