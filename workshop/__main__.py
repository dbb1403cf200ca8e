"""Build GPT-2 yourself, step by step. `python -m workshop new mine.py` writes the file to fill."""

import sys
from pathlib import Path

SKELETON = Path(__file__).with_name("skeleton.py")


def new(path: Path) -> str:
    """Write the file to fill; never over a file that exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(SKELETON.read_text(encoding="utf-8"))
    except FileExistsError:
        sys.exit(f"{path} exists already, and is not overwritten: choose another name")
    except OSError as error:
        sys.exit(f"cannot write {path}: {error.strerror}")
    return f"{path} is written: fill in its first step, then run python -m workshop {path}"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "new":
        print(new(Path(sys.argv[2])))
    else:
        sys.exit("python -m workshop new mine.py")
