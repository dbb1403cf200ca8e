"""Make other editions of the lessons from the saved notebooks.

    python notebooks/edition.py                       # for a class, in notebooks/class
    python notebooks/edition.py FOLDER --repository https://github.com/OWNER/NAME
    python notebooks/edition.py --html [FOLDER]       # pages to read, in notebooks/html
    python notebooks/edition.py --titles              # write the top of each lesson again

The class edition has no outputs and no solutions. After each prediction, it has a cell for the
reader's guess, and the answer is folded. After each question, it has a cell for the reader's
answer. A cell tagged `yours` keeps only the signatures of its functions. With --repository, each notebook begins with badges that open it on Colab and on Binder.
They open the notebook from GitHub, so commit and push the folder.

A text cell tagged `answer` is always folded. The table in README.md determines the lessons' order,
numbers, titles and minutes.
"""

import argparse
import ast
import hashlib
import os
import re
import sys
from pathlib import Path
from urllib.parse import quote

import nbformat

HERE = Path(__file__).resolve().parent
COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"
GITHUB = r"(?:\S*[/@])?(?:www\.)?github\.com[:/]([\w-]+/[\w.-]+?)(?:\.git)?/*"
MARK = "sha256 of the rest: "  # precedes the checksum in each file that is written
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")  # matches `file` in [text](file#...)
GUESS = "guess = ...  # your guess, a number or a word"  # lessons.here compares it
FOLDED = "<details><summary>{}</summary>\n\n{}\n\n</details>\n\n"
BORDER = re.compile(r"^(?:#|\*\*Predict|\*\*Question)", re.MULTILINE)  # a folded answer ends here


def table() -> dict[str, tuple[str, str, str]]:
    """Return {file name without .ipynb: (number and title, minutes, the core's minutes)}.

    README.md has this table. Its order is that of the lessons.
    """
    index = (HERE / "README.md").read_text(encoding="utf-8")
    row = r"^\| \[(.+?)\]\((\w+)\.ipynb\) \| (\d+) \| ([\d +]+) \|"
    return {name: (title, *spent) for title, name, *spent in re.findall(row, index, re.MULTILINE)}


def read(name):
    """Return a lesson's saved notebook; name: its file name without .ipynb."""
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def tagged(cell, tag):
    return tag in cell.metadata.get("tags", [])


def titled(name) -> str:
    """Return the text of a lesson's first cell as the table wants it: title, minutes and links."""
    lessons = table()
    title, whole, core = lessons[name]
    paragraphs = read(name).cells[0].source.split("\n\n")
    _, colon, subtitle = paragraphs[0].partition(":")
    paragraphs[0] = f"# {title}{colon}{subtitle}"
    while paragraphs[-1].startswith("["):
        paragraphs.pop()
    spent = "" if core == whole else f", {core} of them the core"
    if "+" in core:
        spent = f". The core is two sessions, of {core.replace('+', 'and')}"
    paragraphs[1] = f"*About {whole} minutes{spent}; exercises apart.*"
    names, links = list(lessons), []
    place = names.index(name)
    for step, text in (-1, "← {}"), (1, "{} →"):
        if 0 <= place + step < len(names):
            neighbour = names[place + step]
            links.append(f"[{text.format(lessons[neighbour][0])}]({neighbour}.ipynb)")
    solutions = f"[Solutions](solutions/{name}.py)"
    return "\n\n".join([*paragraphs, " | ".join(links), solutions])


# --- the class edition ----------------------------------------------------------------------------


def with_answers(cells):
    """Yield (cell, whether it answers a prediction). The code that follows the prediction and the
    next text do, and each text tagged `answer`."""
    ran = None  # None if every prediction is answered; otherwise, whether code has followed it
    for cell in cells:
        if cell.cell_type == "code":
            ran = ran if ran is None else True
            yield cell, ran is not None
        else:
            answers = ran or tagged(cell, "answer")
            ran = False if "**Predict" in cell.source else None if answers else ran
            yield cell, answers


def for_class(notebook, name):
    """Remove a notebook's outputs and solutions, fold its answers, and add cells for guesses."""
    cells = []
    for cell, answers in with_answers(notebook.cells):
        cells.append(cell)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if tagged(cell, "yours"):
                cell.source = stubs(cell.source)
                give_up = f'# If you give up: lessons.ours("{name}", "{cell.id}")'
                cells.append(new_cell(cell, "ours", give_up))
            continue
        cell.source = without_solutions(cell.source)
        if answers:
            cell.source = folded(cell.source)
        if "**Question" in cell.source:
            cells.append(new_cell(cell, "reply", "*My answer:* ", nbformat.v4.new_markdown_cell))
        if "**Predict" in cell.source:
            cells.append(new_cell(cell, "guess", GUESS))
    notebook.cells = cells
    return notebook


def new_cell(cell, tag, source, make=nbformat.v4.new_code_cell):
    """Return a new cell with this tag. Its id begins with the id of `cell`."""
    return make(source, id=f"{cell.id}-{tag}", metadata={"tags": [tag]})


def without_solutions(text):
    """Return a text without the paragraphs that link to a solution."""
    return "\n\n".join(part for part in text.split("\n\n") if "](solutions/" not in part)


def folded(text, summary="The answer, after you have run the cell"):
    """Fold a text up to its first heading, question or prediction."""
    border = BORDER.search(text)
    end = border.start() if border else len(text)
    answer = text[:end].strip()
    return FOLDED.format(summary, answer) + text[end:] if answer else text


def stubs(source):
    """Return a cell's functions with `...` instead of their bodies."""
    lines, found = source.splitlines(), []
    for node in ast.parse(source).body:
        signature = lines[node.lineno - 1 : node.body[0].lineno - 1]
        found.append("\n".join([*signature, "    ..."]))
    return "\n\n\n".join(found)


def relinked(notebook, folder, address=None):
    """Change a notebook's relative links so that they work from another folder.

    If the repository's address on GitHub is given, all of them lead there. Otherwise, links between
    lessons stay as they are, because the other folder contains all lessons.
    """

    def moved(match):
        """Return the new target of a link that LINK has matched."""
        target = match.group(1)
        if not address:
            return target if is_lesson(target) else quote(os.path.relpath(HERE / target, folder))
        place = folder if is_lesson(target) else HERE
        path = (place / target).resolve().relative_to(HERE.parent).as_posix()
        return f"{address}/blob/main/{quote(path)}"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(moved, cell.source)
    return notebook


def is_lesson(target):
    return target.endswith(".ipynb") and "/" not in target


def from_repository(notebook, address, path):
    """Add badges that open the notebook at `path`. Let its setup cell clone the repository."""
    name, path = address.removeprefix("https://github.com/"), quote(path)
    badges = {
        f"{COLAB}/assets/colab-badge.svg": f"{COLAB}/github/{name}/blob/main/{path}",
        f"{BINDER}/badge_logo.svg": f"{BINDER}/v2/gh/{name}/main?labpath={path}",
    }
    badge = " ".join(f"[![Open it]({image})]({link})" for image, link in badges.items())
    title, setup = notebook.cells[:2]
    title.source = f"{badge}\n\n{title.source}"
    for cell in notebook.cells:
        if tagged(cell, "drawing"):  # Colab hides the code of a cell that is a form
            cell.metadata["cellView"], cell.source = "form", f"# @title\n{cell.source}"
    setup.source = setup.source.replace('os.environ.get("TOKENWISE_REPOSITORY")', f'"{address}"')
    return notebook


# --- the command ----------------------------------------------------------------------------------


def write_class(folder, address):
    """Write the class edition into a folder. If the address on GitHub is given, add badges."""
    for name in table():
        notebook = relinked(for_class(read(name), name), folder, address)
        if address:
            path = (folder / f"{name}.ipynb").relative_to(HERE.parent).as_posix()
            notebook = from_repository(notebook, address, path)
        notebook.metadata["edition"] = MARK
        write(folder / f"{name}.ipynb", nbformat.writes(notebook) + "\n")
    print(f"{len(table())} notebooks in {folder}")


def write_pages(folder):
    """Write a page for each lesson into a folder. The answers to predictions are folded."""
    from pages import page  # only this edition needs the packages that pages.py imports

    for name in table():
        notebook = relinked(read(name), folder)
        cells = list(with_answers(notebook.cells[:1] + notebook.cells[2:]))  # skip the setup cell
        for cell, answers in cells:
            if answers and cell.cell_type == "markdown":
                cell.source = folded(cell.source, "The answer")
        write(folder / f"{name}.html", f"{page(cells)}<!-- {MARK}-->\n")
    print(f"{len(table())} pages in {folder}")


def write(path, text):
    """Write a text, with its checksum after MARK. Keep a file without a right checksum: it was
    changed since it was written here, or somebody else wrote it."""
    if path.exists():
        before, _, after = path.read_text("utf-8", "replace").partition(MARK)
        if after[:64] != checksum(before + after[64:]):
            return print(f"kept {path}: it was changed, or not written here", file=sys.stderr)
    before, _, after = text.partition(MARK)
    path.write_text(before + MARK + checksum(before + after) + after, encoding="utf-8")


def checksum(text):
    return hashlib.sha256(text.encode()).hexdigest()


def write_titles():
    """Write the first cell of each lesson again."""
    for name in table():
        notebook = read(name)
        notebook.cells[0].source = titled(name)
        nbformat.write(notebook, HERE / f"{name}.ipynb")


def main():
    """Parse the command line, and write the edition that its options choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--repository", help="add badges for this address on GitHub")
    parser.add_argument("--html", action="store_true", help="write pages with the saved outputs")
    parser.add_argument("--titles", action="store_true", help="write the top of each lesson again")
    args = parser.parse_args()
    if args.titles:
        return write_titles()
    folder = (args.folder or HERE / ("html" if args.html else "class")).resolve()
    if args.repository and not folder.is_relative_to(HERE.parent):
        parser.error(f"{folder} is not in the repository")
    if args.repository and not (found := re.fullmatch(GITHUB, args.repository, re.IGNORECASE)):
        parser.error(f"{args.repository} is not the address of a repository on GitHub")
    address = args.repository and f"https://github.com/{found[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    return write_pages(folder) if args.html else write_class(folder, address)


if __name__ == "__main__":
    main()
