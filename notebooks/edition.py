"""The notebooks for class: without outputs, so that a prediction is one.

    python notebooks/edition.py                       # into notebooks/class
    python notebooks/edition.py FOLDER --repository https://github.com/OWNER/NAME

With a repository, each begins with a badge that opens it on Colab, where its first cell clones
that repository; the folder must then be in the repository, at the place that FOLDER says.
"""

import argparse
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"


def for_class(notebook):
    """The same cells, without outputs and counts, and without links to the solutions."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            lines = cell.source.splitlines()
            cell.source = "\n".join(line for line in lines if "(solutions/" not in line)
    return notebook


def from_repository(notebook, address, path):
    """A badge that opens `path` of the repository on Colab, and a first cell that clones it."""
    colab = address.replace("https://github.com/", "https://colab.research.google.com/github/")
    badge = f"[![Open in Colab]({BADGE})]({colab}/blob/main/{path})"
    title, setup = notebook.cells[:2]
    title.source = f"{badge}\n\n{title.source}"
    setup.source = setup.source.replace('os.environ["TOKENWISE_REPOSITORY"]', f'"{address}"')
    return notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "class")
    parser.add_argument("--repository", help="its address on GitHub")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(HERE.glob("*.ipynb")):
        notebook, target = for_class(nbformat.read(source, as_version=4)), args.folder / source.name
        if args.repository:
            path = target.resolve().relative_to(HERE.parent).as_posix()
            notebook = from_repository(notebook, args.repository, path)
        nbformat.write(notebook, target)
    print(f"{len(list(args.folder.glob('*.ipynb')))} notebooks in {args.folder}")


if __name__ == "__main__":
    main()
