"""Write the site: a first page, pages about texts, the lessons, the workshop and the code.

The site works on any static host and from a disk. Its pages load nothing from elsewhere. A file of
the project gets the page FILE.html if another page links to it.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat.v4 import new_markdown_cell, new_notebook

PROJECT = Path(__file__).resolve().parent.parent
SITE = PROJECT / "notebooks/site"  # the template, the style and the texts
STYLES = [str(SITE), str(PROJECT / "page/browser")]
EXPORTER = HTMLExporter(template_file="page.html.j2", extra_template_paths=STYLES)
CLONE = "git clone --depth 1 https://github.com/{} tokenwise && cd tokenwise"
COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"


def write_site(folder, name, lesson):
    """Write the site into a folder. name: owner/name on GitHub. lesson: makes a lesson's cells."""
    top, *ready = [(SITE / file).read_text("utf-8") for file in ("top.html", "ready.txt")]
    for command, says in re.findall("(.+)\n(.+)", *ready):  # a command writes a page
        _, *words, file = shlex.split(command)
        target, line = folder / file, top.replace("<!-- command -->", command)
        run = [sys.executable, *words, target]
        subprocess.run(run, cwd=PROJECT, check=True, capture_output=True)
        text = target.read_text("utf-8").replace("<main>", f"{line}<main>", 1)
        target.write_text(text.replace("<!-- says -->", says), "utf-8")
    done, todo = set(), {PROJECT / "index"}
    while todo:
        path = todo.pop()
        renderer = Renderer(path)
        target = folder / f"{path.relative_to(PROJECT)}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        cells = lesson(path.stem, name) if path.suffix == ".ipynb" else text_of(path, name)
        target.write_text(page(path, cells, renderer), "utf-8")
        done.add(path)
        todo |= renderer.found - done
    print(f"{len(done)} pages of files in {folder}")


def text_of(path, name):
    """Return a file as a cell of Markdown. The text of a folder is a list of its files."""
    text = f"# {path.relative_to(PROJECT).as_posix()}\n\n"
    if path.is_dir():
        files = [file.name for file in path.iterdir() if file.suffix in (".py", ".md", ".txt")]
        text += "\n".join(f"- [{file}]({path.name}/{file})" for file in sorted(files))
    elif path.suffix == ".md" or not path.exists():
        text = (path if path.exists() else SITE / "first.md").read_text("utf-8")
        if name and path.parent.name in ("workshop", "notebooks") or path.name == "index":
            text = text.replace("```sh\n", f"```sh\n{CLONE.format(name)}\n", 1)
    else:
        text += f"``````{'python' * (path.suffix == '.py')}\n{path.read_text('utf-8')}\n``````"
    return [new_markdown_cell(text)]


def badges(name, path):
    """Return one line, with badges that open this file of a repository, or none without a name."""
    colab = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({COLAB}/github/{name}/blob/main/"
    binder = f"[![Open in Binder]({BINDER}/badge_logo.svg)]({BINDER}/v2/gh/{name}/main?labpath="
    return [f"{colab}{path}) {binder}{path})"] if name else []


def page(path, cells, renderer):
    """Return the page of a file. The renderer collects its links and its headings."""
    inside = path.relative_to(PROJECT)
    notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    facts = {"headings": lambda: renderer.headings, "root": "../" * (len(inside.parts) - 1)}
    EXPORTER.register_filter("markdown2html", MarkdownWithMath(renderer=renderer).render)
    return EXPORTER.from_notebook_node(notebook, facts)[0]


class Renderer(IPythonRenderer):
    """Turn Markdown into HTML: formulas into MathML, links to files into links to their pages.

    found: the files that are linked to. headings: (level, anchor, text) of each heading.
    """

    def __init__(self, path):
        super().__init__(escape=False, path=str(path.parent))
        self.folder, self.found, self.headings = path.parent, set(), []

    def link(self, text, url, title=None):
        return super().link(text, self.moved(url), title)

    def image(self, text, url, title=None):  # no image from elsewhere: its text instead
        return text if "://" in url else super().image(text, self._src_to_base64(url), title)

    def moved(self, url):
        """Return a link to the page of the file that `url` leads to."""
        name, sharp, anchor = url.partition("#")
        file = (self.folder / name).resolve()
        file = file / "README.md" if (file / "README.md").exists() else file
        if not name or not file.exists():
            return url
        self.found.add(file)
        place = Path(os.path.relpath(file, self.folder)).as_posix()
        return f"{place}.html{sharp}{anchor}"

    def heading(self, text, level, **attrs):
        anchor = re.sub(r"[^\w -]", "", re.sub(r"<.*?>", "", text).lower()).replace(" ", "-")
        self.headings.append((level, anchor, text))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def inline_math(self, body, display="inline"):  # latex2mathml does not know \arg
        formula = convert(body.replace(r"\arg", r"\mathrm{arg}"), display=display)
        return f'<span class="{display}">{formula}</span>'

    def block_math(self, body):
        return self.inline_math(body, "block")
