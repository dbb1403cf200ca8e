"""Write the lessons as pages to read or to project: python notebooks/edition.py --html [FOLDER]

Each page is a single file and loads nothing else. It contains the outputs that are saved in the
notebook. The answers to "Predict" questions are folded. The button "Project" shows one section at a
time in large letters, and the arrow keys move between sections."""

import base64
import html
import io
import re

import matplotlib as mpl
import mistune
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

SIZE = 12  # the font size of formulas, in points
BRACED = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
RENAMED = {  # a regex for LaTeX that Matplotlib does not know -> its replacement
    r"\\le\b": r"\\leq",
    r"\\ge\b": r"\\geq",
    r"\\[bB]igg?[lr]?(?![a-z])": "",
    "&": "",
    r"\\(begin|end)\{aligned\}": "",
    r"\\!": "",
    rf"\\underbrace{BRACED}_{BRACED}": r"\\underset{\2}{\1}",
}
# This matches code, where a $ does not begin a formula.
NOT_MATH = re.compile(r"(```.*?```|`[^`]*`|\n\n(?:    [^\n]*\n?)+)", re.DOTALL)
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL)
markdown = mistune.create_markdown(escape=False, plugins=["table"])


def page(cells):
    """Return a lesson as HTML; cells: pairs of a cell and whether it answers a prediction."""
    sections = [""]
    for cell, answers in cells:
        if cell.cell_type == "code":
            sections[-1] += code(cell) + outputs(cell, answers)
            continue
        first, *others = re.split(r"^(?=## )", cell.source, flags=re.MULTILINE)
        sections[-1] += prose(first)
        sections += map(prose, others)
    title = cells[0][0].source.partition("\n")[0].removeprefix("# ")
    body = "\n".join(f"<section>{section}</section>" for section in sections)
    style = STYLE + HtmlFormatter().get_style_defs("pre")
    return PAGE.format(title=html.escape(title), style=style, script=SCRIPT, body=body)


def prose(text):
    """Convert Markdown into HTML, with a picture for each formula."""
    formulas = []

    def aside(match):
        """Replace a formula with a placeholder, so that Markdown does not interpret its * and _."""
        formulas.append(formula(match.group(1) or match.group(2), bool(match.group(1))))
        return f"@@{len(formulas) - 1}@@"

    parts = NOT_MATH.split(text)
    parts[::2] = [MATH.sub(aside, part) for part in parts[::2]]
    made = markdown("".join(parts))
    made = re.sub(r'(href="(?!http)[^"]*)\.ipynb', r"\1.html", made)
    return re.sub(r"@@(\d+)@@", lambda match: formulas[int(match.group(1))], made)


def formula(tex, display):
    """Convert LaTeX into an <img>. A displayed formula becomes one <img> for each of its lines."""
    tex = " ".join(tex.split())
    simple = tex
    for old, new in RENAMED.items():
        simple = re.sub(old, new, simple)
    lines = [picture(line.strip(), tex) for line in simple.split(r"\\")]
    return f'<span class="display">{"<br>".join(lines)}</span>' if display else lines[0]


def picture(tex, alt):
    """Convert a line of LaTeX into an <img> that contains an SVG; alt: its alternative text."""
    file = io.BytesIO()
    with mpl.rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path"}):
        depth = math_to_image(f"${tex}$", file, FontProperties(size=SIZE), dpi=72, format="svg")
    svg = file.getvalue()
    width = float(re.search(rb'width="([\d.]+)pt"', svg).group(1))
    data = base64.b64encode(svg).decode()
    place = f"width: {width / SIZE:.2f}em; vertical-align: {-depth / SIZE:.2f}em"
    return f'<img alt="{html.escape(alt)}" style="{place}" src="data:image/svg+xml;base64,{data}">'


def code(cell):
    """Return a cell's code as HTML. Fold code that only makes a picture."""
    coloured = highlight(cell.source, PythonLexer(), HtmlFormatter(cssclass="code"))
    if "drawing" in cell.metadata.get("tags", []):
        return f"<details><summary>The code of the picture</summary>{coloured}</details>"
    return coloured


def outputs(cell, answers):
    """Return a cell's outputs as HTML. Fold them if they answer a prediction."""
    made = ""
    for output in cell.outputs:
        data = output.get("data", {})
        if "text" in output:
            made += f'<pre class="output">{html.escape(output["text"])}</pre>'
        elif "image/png" in data:
            alt = html.escape(output.metadata.get("image/png", {}).get("alt", ""))
            made += f'<img alt="{alt}" src="data:image/png;base64,{data["image/png"].strip()}">'
        elif "text/html" in data:
            made += data["text/html"]
    if made and answers:
        return f"<details><summary>The output</summary>{made}</details>"
    return made


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}
</style>
<nav><button id="all">Open all</button> <button id="project">Project</button></nav>
<main>
{body}
</main>
<script>
{script}
</script>
</html>
"""
STYLE = """
body { font: 17px/1.55 Georgia, serif; color: #1b1c1e; background: white; margin: 0 auto;
       max-width: 46em; padding: 1em; }
nav { position: fixed; top: .6em; right: .6em; }
button { font: inherit; font-size: .8em; }
code, pre { font: .84em/1.4 "DejaVu Sans Mono", Menlo, monospace; }
pre { overflow-x: auto; padding: .6em; background: #f6f6f4; }
pre.output { background: none; border-left: 3px solid #56b4e9; }
section > img, details > img { max-width: 100%; }
.display { display: block; text-align: center; margin: 1em 0; overflow-x: auto; }
table { border-collapse: collapse; } td, th { padding: .2em .6em; border-bottom: 1px solid #ccc; }
details { margin: .8em 0; } summary { color: #0072b2; cursor: pointer; }
iframe { border: 1px solid #ccc; }
.projecting { font-size: 1.5vw; max-width: 92%; }
.projecting section { display: none; } .projecting section.now { display: block; }
@media print { nav { display: none; } section { break-inside: auto; } }
"""
SCRIPT = """
const sections = [...document.querySelectorAll("section")], body = document.body.classList;
let now = 0;
function show(place) {
  now = Math.max(0, Math.min(sections.length - 1, place));
  sections.forEach((section, i) => section.classList.toggle("now", i === now));
  scrollTo(0, 0);
}
document.getElementById("project").onclick = () => {
  show(Math.max(0, sections.findIndex(s => s.getBoundingClientRect().bottom > 60)));
  body.toggle("projecting");
  if (!body.contains("projecting")) sections[now].scrollIntoView();
};
document.getElementById("all").onclick = () => {
  const folds = [...document.querySelectorAll("details")], open = folds.some(fold => !fold.open);
  folds.forEach(fold => { fold.open = open; });
};
addEventListener("keydown", event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step && body.contains("projecting")) show(now + step);
});
"""
