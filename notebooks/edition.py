"""Make other editions of the lessons from the saved notebooks.

    python notebooks/edition.py --zip FILE     # for a class, with everything it needs
    python notebooks/edition.py --site FOLDER  # the web site, see pages.py
    python notebooks/edition.py --titles       # write the top of each lesson again

The class edition has no outputs and no solutions, but a cell for each guess and answer. Answers are
folded, and cells tagged `yours` keep only signatures. With --repository and an address on GitHub,
the first cell of a lesson knows it, and --titles writes it into the project's files, with badges.
"""

import argparse
import ast
import io
import re
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import nbformat

HERE = Path(__file__).resolve().parent
PACKED = """LICENSE encoder.py generate.py gpt2.py samplers.py speculative.py utils.py decoding
    examples families loading page pico terminal training workshop models/en-de models/en-de-draft
    models/stories models/stories-draft models/stories-llama benchmarks/results.json notebooks/text
    notebooks/SETUP.md notebooks/drawing notebooks/lessons.py notebooks/requirements.txt"""
CLONE = "git clone --depth 1 https://github.com/{} tokenwise && cd tokenwise"
COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"
BOOTSTRAP = HERE / "bootstrap.py"  # the first cell of code in each lesson
SETUP = '        address = address or "https://github.com/{}"'
GITHUB = r"(?:\S*[/@])?(?:www\.)?github\.com[:/]([\w-]+/[\w.-]+?)(?:\.git)?/*"
MARKED = re.compile(r"(<repository>.*\n)(?:.*\n)*?(.*</repository>)")  # the address is between
INSERTED = r"\g<1>{}\n\g<2>"
FOLDED = "<details><summary>{}</summary>\n\n{}\n\n</details>\n\n"
REPORT = '# To hand in what you solved:\n# lessons.report("your name")'
ANSWER = re.compile(r"(.*?)(^(?:#|\*\*Predict|\*\*Question).*|\Z)", re.DOTALL | re.MULTILINE)


def table():  # -> {file name without .ipynb: (number and title, minutes, the core's minutes)}
    """Read the table in README.md, which has the lessons in order."""
    index = (HERE / "README.md").read_text(encoding="utf-8")
    row = r"^\| \[(.+?)\]\((\w+)\.ipynb\) \| (\d+) \| ([\d +]+) \|"
    return {name: (title, *spent) for title, name, *spent in re.findall(row, index, re.MULTILINE)}


def read(name):  # the file name of a lesson without .ipynb -> its saved notebook
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def tagged(cell, tag):
    return tag in cell.metadata.get("tags", [])


def known():  # -> the owner/name on GitHub that `write_titles` has written, or None
    found = re.search(r'"https://github.com/(.+)"', BOOTSTRAP.read_text("utf-8"))
    return found and found[1]


def titled(name, repository):
    """Return the text of a lesson's first cell: title, minutes and links, from the table."""
    lessons = table()
    title, whole, core = lessons[name]
    paragraphs = [x for x in read(name).cells[0].source.split("\n\n") if not x.startswith("[")]
    _, colon, subtitle = paragraphs[0].partition(":")
    paragraphs[0] = f"# {title}{colon}{subtitle}"
    paragraphs[1] = f"*About {whole} minutes without the exercises; the core takes {core}.*"
    before, _, after = " ".join(["", *lessons, ""]).partition(f" {name} ")
    links = [f"[← {lessons[other][0]}]({other}.ipynb)" for other in before.split()[-1:]]
    links += [f"[{lessons[other][0]} →]({other}.ipynb)" for other in after.split()[:1]]
    paragraphs += [" | ".join(links), f"[Solutions](solutions/{name}.py)"]
    return "\n\n".join([*paragraphs, *badges(repository, f"notebooks/{name}.ipynb")])


def badges(name, path):
    """Return one line, with badges that open this file of a repository, or none without a name."""
    colab = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({COLAB}/github/{name}/blob/main/"
    binder = f"[![Open in Binder]({BINDER}/badge_logo.svg)]({BINDER}/v2/gh/{name}/main?labpath="
    return [f"{colab}{path}) {binder}{path})"] if name else []


def with_answers(cells):
    """Yield (cell, whether it answers a prediction): the next code and text do, or a tagged one."""
    ran = None  # None if every prediction is answered; otherwise, whether code has followed it
    for cell in cells:
        if cell.cell_type == "code":
            ran = ran if ran is None else True
            yield cell, ran is not None
        else:
            answers = ran or tagged(cell, "answer")
            ran = False if "**Predict" in cell.source else None if answers else ran
            yield cell, answers


def for_class(notebook, name, repository):  # the repository is owner/name on GitHub, or None
    """Remove a notebook's outputs and solutions, fold its answers, and add cells for the reader."""
    cells, setup = [], notebook.cells[1]
    if repository:
        setup.source = MARKED.sub(INSERTED.format(SETUP.format(repository)), setup.source)
    for cell, answers in with_answers(notebook.cells):
        cells.append(cell)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if tagged(cell, "yours"):
                cell.source = stubs(cell.source)
                first = ast.parse(cell.source).body[0].name
                give_up = f'# If you give up: lessons.ours("{first}")'
                cells.append(new_cell(cell, "ours", give_up))
            continue
        cell.source = cell.source.partition(f"[Solutions](solutions/{name}.py)")[0].rstrip()
        if answers:
            cell.source = folded(cell.source)
        if "**Question" in cell.source:
            cells.append(new_cell(cell, "reply", "*My answer:* ", nbformat.v4.new_markdown_cell))
        if "**Predict" in cell.source:
            cells.append(new_cell(cell, "guess", "guess = ...  # your guess, a number or a word"))
    notebook.cells = [*cells, new_cell(cells[-1], "report", REPORT)]
    return notebook


def new_cell(cell, tag, source, make=nbformat.v4.new_code_cell):
    """Return a new cell with this tag. Its id begins with the id of `cell`."""
    return make(source, id=f"{cell.id}-{tag}", metadata={"tags": [tag]})


def folded(text, summary="The answer, after you have run the cell"):
    """Fold a text up to its first heading, question or prediction."""
    answer, rest = ANSWER.match(text).groups()
    return FOLDED.format(summary, answer.strip()) + rest if answer.strip() else text


def stubs(source):
    """Return a cell's functions with `...` instead of their bodies."""
    lines, functions = source.splitlines(), ast.parse(source).body
    heads = [lines[node.lineno - 1 : node.body[0].lineno - 1] for node in functions]
    return "\n\n\n".join("\n".join([*head, "    ..."]) for head in heads)


def write_zip(path, repository):
    """Write what a class needs into a ZIP file, in which our answers are packed into one file."""
    file, inside = io.BytesIO(), io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as package, ZipFile(inside, "w", ZIP_DEFLATED) as ours:
        for place in PACKED.split():
            for part in [HERE.parent / place, *(HERE.parent / place).rglob("*.*")]:
                if part.is_file() and part.suffix != ".pyc":
                    package.write(part, Path("tokenwise", part.relative_to(HERE.parent)))
        for name in table():
            edited = nbformat.writes(for_class(read(name), name, repository))
            package.writestr(f"tokenwise/notebooks/{name}.ipynb", edited)
            for part in f"{name}.ipynb", f"checks/{name}.py", f"solutions/{name}.py":
                ours.write(HERE / part, part)
        for part in "alternatives.txt", "counting.py":
            ours.write(HERE / part, part)
        ours.close()
        package.writestr("tokenwise/notebooks/answers.bin", inside.getvalue())
    path.write_bytes(file.getvalue())
    print(f"{len(table())} notebooks in {path}")


def write_titles(name):
    """Write the top of each lesson. name: owner/name on GitHub, to be inserted, or None."""
    if name:
        site = f"https://{name.replace('/', '.github.io/')}/"
        [top] = badges(name, "notebooks/forward_pass.ipynb")
        top += f" [The site]({site}) needs no installation.\n\n```sh\n{CLONE.format(name)}\n```"
        cite = f"repository-code: https://github.com/{name}\nurl: {site}"
        files = [HERE.parent / "README.md", HERE.parent / "CITATION.cff", BOOTSTRAP]
        for path, address in zip(files, (top, cite, SETUP.format(name))):
            text = MARKED.sub(INSERTED.format(address), path.read_text("utf-8"))
            path.write_text(text, "utf-8")
    for lesson in table():
        notebook = read(lesson)
        title, setup, *_ = notebook.cells
        title.source, setup.source = titled(lesson, name), BOOTSTRAP.read_text("utf-8").strip()
        nbformat.write(notebook, HERE / f"{lesson}.ipynb")


def lesson(name, repository):
    """Return a lesson's cells for the site. Answers to predictions are folded."""
    title, _, *others = read(name).cells
    title.source = titled(name, repository)
    for cell, answers in with_answers(others):
        if answers and cell.cell_type == "markdown":
            cell.source = folded(cell.source, "The answer, after your guess")
        elif answers:
            cell.metadata.setdefault("tags", []).append("answer")
    return [title, *others]


def main():
    """Parse the command line, and write the edition that its options choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--zip", type=Path, help="write a package for a class into this file")
    ways.add_argument("--site", type=Path, help="write the web site into this folder")
    ways.add_argument("--titles", action="store_true", help="write the top of each lesson again")
    parser.add_argument("--repository", help="the project's address on GitHub", default="")
    args = parser.parse_args()
    found = re.fullmatch(GITHUB, args.repository, re.IGNORECASE)
    if args.repository and not found:
        parser.error(f"{args.repository} is not the address of a repository on GitHub")
    name = found[1] if found else known()
    if args.titles:
        return write_titles(name)
    if args.site and args.site.is_file():
        parser.error(f"{args.site} is a file, not a folder")
    if args.site:
        sys.path.append(str(HERE.parent))
        from pages import write_site  # here, because only the site needs the whole project

        args.site.mkdir(parents=True, exist_ok=True)
        return write_site(args.site.resolve(), name, name and CLONE.format(name), lesson, table())
    if args.zip.is_dir() or not args.zip.parent.is_dir():
        parser.error(f"{args.zip} is not a file in a folder that exists")
    write_zip(args.zip, found and name)


if __name__ == "__main__":
    main()
