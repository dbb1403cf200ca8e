"""The notebooks for class: without outputs, so that a prediction is one.

    python notebooks/edition.py                       # into notebooks/class
    python notebooks/edition.py FOLDER --repository https://github.com/OWNER/NAME

With a repository, each begins with badges that open it on Colab, where its first cell clones that
repository, and on Binder; the folder must then be in the repository, at the place that FOLDER says.
"""

import argparse
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"


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
    """Badges that open `path` of the repository, and a first cell that clones it."""
    name = address.removeprefix("https://github.com/")
    badges = {
        f"{COLAB}/assets/colab-badge.svg": f"{COLAB}/github/{name}/blob/main/{path}",
        f"{BINDER}/badge_logo.svg": f"{BINDER}/v2/gh/{name}/main?labpath={path}",
    }
    badge = " ".join(f"[![Open it]({image})]({link})" for image, link in badges.items())
    title, setup = notebook.cells[:2]
    title.source = f"{badge}\n\n{title.source}"
    setup.source = setup.source.replace('os.environ.get("TOKENWISE_REPOSITORY")', f'"{address}"')
    return notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "class")
    parser.add_argument("--repository", help="its address on GitHub")
    args = parser.parse_args()
    place = args.folder.resolve()
    if args.repository and not place.is_relative_to(HERE.parent):
        parser.error(f"{place} is not in the repository")
    args.folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(HERE.glob("*.ipynb")):
        notebook, target = for_class(nbformat.read(source, as_version=4)), args.folder / source.name
        if args.repository:
            path = (place / source.name).relative_to(HERE.parent).as_posix()
            notebook = from_repository(notebook, args.repository, path)
        nbformat.write(notebook, target)
    print(f"{len(list(args.folder.glob('*.ipynb')))} notebooks in {args.folder}")


if __name__ == "__main__":
    main()
