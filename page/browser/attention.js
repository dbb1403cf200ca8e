// Attention: which tokens one head attended to when the model predicted the selected token.

const isStored = (row) => row >= arrays.skipped[0];

// Return a row's attention weights: for the tokens of the text so far, or of the source. The page
// stores them as whole numbers proportional to sqrt(weight).
function weightsAt(head, row, ofSource) {
  const n = ofSource ? data.source.length : n_rows, [skipped] = arrays.skipped;
  const from = (head * (n_rows - skipped) + row - skipped) * n;
  const bytes = arrays[ofSource ? "cross" : "own"].subarray(from, from + (ofSource ? n : row + 1));
  const squares = Array.from(bytes, (byte) => byte * byte), total = sum(squares) || 1;
  return squares.map((square) => square / total);
}

// Return the head to show: the chosen one, if any; else the head with the largest single weight. The
// first token of the text does not count: many heads look there when they find nothing.
function shownHead(row) {
  if (state.head !== null) return state.head;
  const sizes = HEADS.map((_, head) =>
    Math.max(...weightsAt(head, row, has.source).slice(has.source ? 0 : 1)));
  return sizes.indexOf(Math.max(...sizes));
}

// --- all heads ---

const PATTERNS = {  // name -> does key j fit the pattern if token i is the query?
  "itself": (i, j) => j === i,
  "the previous token": (i, j) => j === i - 1,
  "the first token": (i, j) => j === 0,
  "the same token before": (i, j) => j < i && data.ids[j] === data.ids[i],
  "what followed the same token (induction)": (i, j) => j > 0 && data.ids[j - 1] === data.ids[i],
};
let patterns;  // for each head, the result of patternOf
const favorites = [];  // for each head that was shown, the result of favorite
const isUsual = ({share}) => share > 0.5;

// Return {name, share} of the pattern that gets the largest mean share of a head's weight. A row in
// which no key fits a pattern does not count in that pattern's mean.
function patternOf(head) {
  const rows = range(n_rows).filter((row) => row >= 2 && isStored(row));
  const some = rows.filter((_, i) => i % Math.ceil(rows.length / 64) === 0);
  const looks = some.map((row) => weightsAt(head, row));
  return Object.entries(PATTERNS).map(([name, fits]) => {
    const fitting = looks.map((weights, i) =>
      weights.filter((_, key) => fits(some[i], key))).filter((fits) => fits.length);
    return {name, share: fitting.length > 2 ? sum(fitting.map(sum)) / fitting.length : 0};
  }).sort((a, b) => b.share - a.share)[0];
}

// Return facts about the token whose share of a head's weight exceeds an even spread the most.
function favorite(head) {
  const rows = range(n_rows).filter(isStored), looks = rows.map((row) => weightsAt(head, row));
  const all = range(n_rows).map((key) => {
    const seeing = looks.filter((weights) => weights.length > key);
    const even = sum(seeing.map((weights) => 1 / weights.length));
    return {key, seeing, even, total: sum(seeing.map((weights) => weights[key]))};
  });
  const [{key, seeing, even, total}] = all.sort((a, b) => b.total - b.even - a.total + a.even);
  const often = rows.filter((_, i) => looks[i][key] > 0.5), n = seeing.length;
  return {favorite: data.ids[key], at: key, share: about(total / n), even: about(even / n),
    lines: n, often: often.length, from: often.map((row) => data.ids[row])};
}

const inWords = (pattern) =>
  (isUsual(pattern) ? `${pattern.name}, ${about(pattern.share)} of its weight` : "none");

function drawHeads() {
  patterns = HEADS.map((_, head) => patternOf(head));
  const says = HEADS.map((name, head) => `head ${name}, pattern: ${inWords(patterns[head])}`);
  fillGrid(find(".heads"), (name, head) => element("button", {title: says[head],
    "aria-label": says[head], "aria-pressed": "false", "data-head": name, tabindex: -1,
    onclick: () => choose(head)}, thumbnail(head)));
  steer(find(".heads"), n_head);
  const plain = says.filter((_, head) => isUsual(patterns[head]));
  fill(find("#patterns ul"), plain.map((text) => element("li", text)));
  find("#patterns").hidden = !plain.length;
}

// Fill a grid: a line with the heads' numbers, then a line per layer with cells make(name, head).
function fillGrid(group, make) {
  const number = (text) => element("span", {"aria-hidden": "true"}, text);
  fill(group, {"--heads": n_head}, number(""), range(n_head).map((head) => number(`${head}`)),
    HEADS.flatMap((name, head) => [head % n_head === 0 && number(name.split(".")[0]),
      make(name, head)]));
}

// Return a picture of a head's weights: queries down, keys across, at most n_points of each.
function thumbnail(head, n_points = 24) {
  const size = Math.min(n_points, n_rows), at = (i) => Math.floor(i * n_rows / size);
  const canvas = element("canvas", {width: size, height: size, "aria-hidden": "true"});
  const context = canvas.getContext("2d");
  context.fillStyle = "#2b8cc9";  // visible on a light and on a dark page
  for (const y of range(size).filter((y) => isStored(at(y)))) {
    const weights = weightsAt(head, at(y));
    for (const x of range(size)) {
      context.globalAlpha = Math.sqrt(Math.max(0, ...weights.slice(at(x), at(x + 1))));
      context.fillRect(x, y, 1, 1);
    }
  }
  return canvas;
}

function choose(head) {
  state.head = head;
  find("#by-attention").checked = true;
  showAttention();
  writeAddress();
}

// --- one row: the head's weights when the model predicted the selected token ---

function showAttention() {
  const row = state.selected - 1, before = data.ids[row];
  const first = arrays.skipped[0] + 1;
  if (!isStored(row)) {
    for (const text of ["#text", "#source p"]) tint(find(text), []);
    return tell("#attention", {first}, "missing");
  }
  const head = shownHead(row), liked = favorites[head] ??= favorite(head);
  tell("#attention", {head: HEADS[head], pattern: inWords(patterns[head]), ...liked, before, first},
    "stored", first > 1 && "skipped", liked.often && "often", isUsual(patterns[head]) && "usual",
    has.source ? "source" : "own", state.head === null && (row || has.source) && "most");
  mark(find(".heads"), "aria-pressed", head);
  find("#most").setAttribute("aria-pressed", state.head === null);
  find("#from").replaceChildren(...liked.from.slice(0, 8).map(chip), liked.often > 8 ? " …" : "");
  find("#whole canvas").replaceWith(thumbnail(head, 120));
  find("#whole").style.setProperty("--at", (row + 0.5) / n_rows);
  const own = weightsAt(head, row), source = has.source && weightsAt(head, row, true);
  tint(find("#text"), own);
  if (source) tint(find("#source p"), source);
  find(".looks").replaceChildren(...source ? [look(data.source, source, "The source")] : [],
    look(data.ids, own, source ? "The answer so far" : ""));
  showAlignment(head);
}

function tint(text, weights) {
  const full = Math.max(0.3, ...weights);
  for (const [i, made] of [...text.children].entries()) {
    made.style.setProperty("--look", (weights[i] ?? 0) / full);
  }
}

// Return a list of bars: the five largest weights, and the sum of the others.
function look(ids, weights, title) {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const rest = order.splice(5);
  return element("div", title && element("h3", title), element("ol.bars",
    order.map((i) => bar("", [chip(ids[i]), element("small", ` ${i}`)], weights[i], about)),
    rest.length && bar("", element("i", plural(rest.length, "other")),
      sum(rest.map((i) => weights[i])), about)));
}

// Show a table with a row for each token of the answer and a column for each token of the source.
function showAlignment(head) {
  find("#alignment").hidden = !has.source;
  if (!has.source) return;
  const cell = (weight) => element("td", {"--weight": weight, title: about(weight)},
    element("span.unseen", about(weight)));
  const name = (row) => element("button.link", {tabindex: -1, onclick: () => select(row + 1)},
    label(data.ids[row + 1]));
  find("#alignment tr").replaceChildren(element("td"), ...data.source.map((id) =>
    element("th", {scope: "col"}, element("span", label(id)))));
  find("#alignment tbody").replaceChildren(...range(n_rows).filter(isStored).map((row) =>
    line(row === state.selected - 1 ? ".selected" : "", name(row),
      ...weightsAt(head, row, true).map(cell))));
}
