"""Write the site as a book: a first page, ideas and their steppers, lessons, the workshop, files.

The site works on any static host and from a disk. Its pages load nothing from elsewhere. A file of
the project gets the page FILE.html if another page links to it.
"""

import base64
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from inspect import getsourcelines
from linecache import getline
from pathlib import Path

from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat.v4 import new_markdown_cell, new_notebook

from page.pack import label
from page.sources import files_of
from page.trace import recording
from pico import forward, load

PROJECT = Path(__file__).resolve().parent.parent
SITE = PROJECT / "notebooks/site"  # the templates, the style and the texts
FOUND_IN = [f"{SITE}", f"{PROJECT}/page/browser"]
EXPORTER = HTMLExporter(template_file="page.html.j2", extra_template_paths=FOUND_IN)
DATA = re.compile(r'<script id="data" type="application/json">(.+?)</script>', re.DOTALL)
IDEA = re.compile(r"^\| (.+?) \| \[\w+\]\((pico/\w+\.py)\)", re.MULTILINE)  # a row of the table


def write_site(folder, name, clone, lesson, table):
    """Write the site into a folder. name: owner/name on GitHub, or None. clone: a command. lesson:
    makes a lesson's cells. table: {a lesson's file without .ipynb: (its title, ...)}."""
    site = {"chapters": chapters(table), "name": name, "clone": clone}
    site["shown"] = functools.partial(shown, *first_run())
    site["address"] = f"https://{name.replace('/', '.github.io/')}/" if name else ""
    shutil.copy(PROJECT / "page/pictures/code.png", folder / "preview.png")
    places = write_ready(folder, site)
    live = (folder / "live.html").read_text("utf-8")
    site |= {"story": data_of(live)["pieces"], "live_mb": len(live) / 1e6}
    done, todo = set(), {PROJECT / "index"}
    while todo:
        path = todo.pop()
        renderer = Renderer(path, places)
        here = f"{path.relative_to(PROJECT).as_posix()}.html"
        cells = lesson(path.stem, name) if path.suffix == ".ipynb" else text_of(path, site)
        target = folder / here
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(cells, renderer, site | {"here": here}), "utf-8")
        done.add(path)
        todo |= renderer.found - done
    print(f"{len(done)} pages of files in {folder}")


def chapters(table):  # -> [(part, title, page), ...], in the order of the book
    found = IDEA.findall((PROJECT / "README.md").read_text("utf-8"))
    ideas = [(f"{title[0].upper()}{title[1:]}", file) for title, file in found]
    lessons = [(title, f"notebooks/{file}.ipynb") for file, (title, *_) in table.items()]
    parts = {"Begin": [("The first page", "index")], "Ideas, on a page each": ideas}
    parts["Lessons"] = [("The course", "notebooks/README.md"), *lessons]
    parts["More"] = [("The workshop", "workshop/README.md"), ("All files", "README.md")]
    return [(part, title, f"{file}.html") for part in parts for title, file in parts[part]]


def write_ready(folder, site):
    """Run the commands of ready.txt, which write pages. Return {function: page with it}."""
    places, site["steppers"] = {}, set()
    blocks = (SITE / "ready.txt").read_text("utf-8").strip().split("\n\n")
    for command, title, says in map(str.splitlines, blocks):
        *words, file = shlex.split(command)[1:]
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        run = [sys.executable, *words, target]
        subprocess.run(run, cwd=PROJECT, check=True, capture_output=True)
        text = target.read_text("utf-8")
        facts = {"title": title, "description": says, "command": command, "here": file}
        target.write_text(template("ready.html.j2", site | facts | {"text": text}), "utf-8")
        if "--html" not in words:
            site["steppers"].add(file)
            code = json.loads(zlib.decompress(base64.b64decode(data_of(text)["code"][1])))
            functions = {code["nodes"][node][1] for node, *_ in code["stops"]}
            places = dict.fromkeys(functions, file) | places
    return places


def data_of(page):  # a page of the project -> its data
    return json.loads(DATA.search(page)[1])


def first_run():  # -> (the record, the tokenizer, the ids) of a run of pico.forward
    tokenizer, model = load("stories", forward.gpt2)
    ids = tokenizer.encode("The dragon was")
    with recording(files_of()) as record:
        list(forward.generate(model, ids, 1))
    return record, tokenizer, ids


def shown(record, tokenizer, ids, line, nth=0):
    """Return what the first page shows of the nth stop at the line that begins so: the lines
    from the function's first one on, and the result's rows, with a label and numbers each."""
    stops = [(record.nodes[node], entries) for node, *_, entries in record.stops]
    stops = [x for x in stops if line in getline(forward.__file__, x[0][3])]
    (_, function, _, last, *_), entries = stops[nth]
    lines, first = getsourcelines(getattr(forward, function))
    lines = [(n, text.rstrip()) for n, text in enumerate(lines, first) if n <= last]
    rows = record.values[entries[-1][1]]["array"]
    shape = [*rows.shape]
    if rows.ndim == 1:  # a score for each token of the vocabulary: one row for each token
        ids = rows.argsort()[::-1][:5]
        rows = rows[ids, None]
    labelled = [(label(tokenizer, id), row.tolist()) for id, row in zip(ids, rows)]
    return {"function": function, "lines": lines, "shape": shape, "rows": labelled}


def template(name, facts):
    return EXPORTER.environment.get_template(name).render(facts)


def text_of(path, site):
    """Return a file as a cell of Markdown. The text of a folder is a list of its files."""
    text = f"# {path.relative_to(PROJECT).as_posix()}\n\n"
    if path.is_dir():
        files = [file.name for file in path.iterdir() if file.suffix in (".py", ".md", ".txt")]
        text += "\n".join(f"- [{file}]({path.name}/{file})" for file in sorted(files))
    elif path.suffix == ".md" or not path.exists():
        text = path.read_text("utf-8") if path.exists() else template("first.md.j2", site)
        if site["name"] and (path.parent.name in ("workshop", "notebooks") or path.name == "index"):
            text = text.replace("```sh\n", f"```sh\n{site['clone']}\n", 1)
    else:
        text += f"``````{'python' * (path.suffix == '.py')}\n{path.read_text('utf-8')}\n``````"
    return [new_markdown_cell(text)]


def page(cells, renderer, facts):
    """Return the page of a file. The renderer collects its links and its headings."""
    notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    EXPORTER.environment.globals.update(facts, headings=renderer.headings)
    EXPORTER.register_filter("markdown2html", MarkdownWithMath(renderer=renderer).render)
    return EXPORTER.from_notebook_node(notebook)[0]


def without_links(html):
    return re.sub(r"</?a\b.*?>", "", html)


class Renderer(IPythonRenderer):
    """Turn Markdown into HTML: formulas into MathML, links to files into links to their pages.

    found: the files that are linked to. headings: (level, anchor, text) of each heading. places:
    {function: page that steps there}: where a function is mentioned, a link leads into it.
    """

    def __init__(self, path, places):
        super().__init__(escape=False, path=str(path.parent))
        self.folder, self.places = path.parent, places
        self.found, self.headings = set(), []

    def link(self, text, url, title=None):
        return super().link(without_links(text), self.moved(url), title)

    def codespan(self, text):
        name, code = text.partition("(")[0], super().codespan(text)
        name = name if name in self.places else name.rpartition(".")[2]  # gpt2.softmax: softmax
        if name not in self.places:
            return code
        place = Path(os.path.relpath(PROJECT / self.places[name], self.folder)).as_posix()
        return f'<a href="{place}#function={name}" title="Step into it">{code}</a>'

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
        text = without_links(text)
        self.headings.append((level, anchor, text))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def inline_math(self, body, display="inline"):  # latex2mathml does not know \arg
        formula = convert(body.replace(r"\arg", r"\mathrm{arg}"), display=display)
        return f'<span class="{display}">{formula}</span>'

    def block_math(self, body):
        return self.inline_math(body, "block")
