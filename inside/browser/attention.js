// What the pass at one token attended to: by one head of a layer, or by the mean of all.

const {n_layer, n_head} = data;
const n_skipped = () => arrays.skipped[0];
const isStored = (row) => row >= n_skipped();
const before = (row) => row * (row + 1) / 2;  // how many weights the rows before have

// The weights of the tokens up to this row, or of the source: levels * sqrt(w) is stored.
function weightsAt(layer, head, row, ofSource = false) {
  const place = layer * n_head + head, n_source = data.source.length, skipped = n_skipped();
  const from = ofSource ? (place * (n_rows - skipped) + row - skipped) * n_source
    : place * (before(n_rows) - before(skipped)) + before(row) - before(skipped);
  const bytes = arrays[ofSource ? "cross" : "own"]
    .subarray(from, from + (ofSource ? n_source : row + 1));
  const weights = Array.from(bytes, (byte) => (byte / data.levels) ** 2), total = sum(weights);
  return weights.map((weight) => weight / (total || 1));
}

// The head that is shown: the chosen one, or the one of the largest effect; null for all.
function shownHead(row) {
  if (state.head === "all" || (!state.head && !has.parts)) return null;
  if (state.head) return state.head;
  const added = addedAt(row), heads = range(n_layer * n_head);
  const size = heads.map((i) => Math.abs(addedByHead(added, Math.floor(i / n_head), i % n_head)));
  const most = size.indexOf(Math.max(...size));
  return [Math.floor(most / n_head), most % n_head];
}

function chosenWeights(row, ofSource) {
  const shown = shownHead(row);
  if (shown) return weightsAt(...shown, row, ofSource);
  const heads = range(n_layer * n_head).map((i) =>
    weightsAt(Math.floor(i / n_head), i % n_head, row, ofSource));
  return heads[0].map((_, key) => sum(heads.map((weights) => weights[key])) / heads.length);
}

// --- all heads ---

const PATTERNS = {  // of key j at row i
  "itself": (i, j) => j === i,
  "the previous token": (i, j) => j === i - 1,
  "the first token": (i, j) => j === 0,
  "the same token before": (i, j) => j < i && data.ids[j] === data.ids[i],
  "what followed the same token (induction)": (i, j) => j > 0 && data.ids[j - 1] === data.ids[i],
};

// The word for a head that has a plain pattern: more than half of its weight, where it can be.
function patternOf(layer, head) {
  const rows = range(n_rows).filter((row) => row >= Math.max(2, n_skipped())).slice(-64);
  const looks = rows.map((row) => [row, weightsAt(layer, head, row)]);
  return Object.keys(PATTERNS).find((name) => {
    const shares = looks.map(([row, weights]) => {
      const fits = weights.filter((_, key) => PATTERNS[name](row, key));
      return fits.length && fits.length < weights.length ? sum(fits) : null;
    }).filter((share) => share !== null);
    return shares.length > 2 && sum(shares) / shares.length > 0.5;
  });
}

const patterns = {};  // "layer.head": its word

function drawHeads() {
  const rows = range(n_layer).flatMap((layer) => [
    element("span", {"aria-hidden": "true"}, `${layer}`),
    ...range(n_head).map((head) => {
      const word = patterns[`${layer}.${head}`] = patternOf(layer, head);
      return element("button", {
        "data-head": `${layer}.${head}`, onclick: () => choose([layer, head]),
        title: `head ${layer}.${head}${word ? `: ${word}` : ""}`,
        "aria-label": `layer ${layer}, head ${head}${word ? `, looks at ${word}` : ""}`,
      }, thumbnail(layer, head), signedTrack(0));
    })]);
  fill(find(".heads"), {"--heads": n_head, onkeydown: moveHead}, rows);
  find("#mean").onclick = () => choose("all");
  find("#most").onclick = () => choose(null);
  find("#most").hidden = !has.parts;
  const found = Object.keys(PATTERNS).map((name) =>
    [name, Object.keys(patterns).filter((head) => patterns[head] === name)]);
  find("#patterns").replaceChildren(...found.filter(([, heads]) => heads.length)
    .map(([name, heads]) => element("li", {}, `${name}: ${heads.slice(0, 12).join(", ")}`
      + (heads.length > 12 ? " …" : ""))));
}

// The whole triangle of a head in 24 x 24 points: a row for each query, a column for each key.
function thumbnail(layer, head, size = 24) {
  const canvas = element("canvas", {width: size, height: size, "aria-hidden": "true"});
  const context = canvas.getContext("2d"), step = Math.max(1, n_rows / size);
  const rows = range(Math.min(size, n_rows)).map((i) => Math.floor(i * step));
  context.fillStyle = "#2b8cc9";  // on a light ground and on a dark one
  for (const [y, row] of rows.entries()) {
    if (!isStored(row)) continue;
    const points = new Float32Array(size);
    weightsAt(layer, head, row).forEach((weight, key) => {
      const x = Math.floor(key / step);
      points[x] = Math.max(points[x], weight);
    });
    points.forEach((weight, x) => {
      context.globalAlpha = Math.sqrt(weight);
      context.fillRect(x * size / rows.length, y * size / rows.length, size / rows.length,
        size / rows.length);
    });
  }
  return canvas;
}

function choose(head) {
  Object.assign(state, {head, tint: "attention"});
  showText();
  showAttention();
  writeAddress();
}

const MOVES = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};

function moveHead(event) {
  if (!MOVES[event.key]) return;
  const [down, right] = MOVES[event.key], [layer, head] = shownHead(state.selected - 1) ?? [0, 0];
  const next = [clamp(layer + down, 0, n_layer - 1), clamp(head + right, 0, n_head - 1)];
  choose(next);
  find(`[data-head="${next.join(".")}"]`).focus();
  event.preventDefault();
}

// --- one row ---

function showAttention() {
  const row = state.selected - 1, shown = shownHead(row);
  find(".chooser").hidden = find("#attention .looks").hidden = !isStored(row);
  if (!isStored(row)) {
    find("#attention .lead").textContent = "The text is long: the weights of this token are not"
      + ` stored, those from token ${n_skipped() + 1} on are.`;
    return;
  }
  const added = has.parts ? addedAt(row) : [], sizes = added.map(Math.abs);
  for (const button of find(".heads").querySelectorAll("button")) {
    const [layer, head] = button.dataset.head.split(".").map(Number);
    const chosen = Boolean(shown) && layer === shown[0] && head === shown[1];
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen || (!shown && layer + head === 0) ? 0 : -1;
    const x = has.parts ? addedByHead(added, layer, head) / Math.max(...sizes) : 0;
    button.lastChild.replaceWith(signedTrack(clamp(x, -1, 1)));
  }
  find("#mean").setAttribute("aria-pressed", !shown);
  find("#most").setAttribute("aria-pressed", Boolean(shown) && !state.head);
  const word = shown && patterns[shown.join(".")];
  const name = shown ? `Head ${shown.join(".")}` : "The mean of all heads";
  const x = shown && has.parts ? addedByHead(added, ...shown) : 0;
  const pushed = [has.cross ? ` with source head ${shown?.join(".")}` : "",
    state.head ? " pushed " : " had the largest effect: it pushed ", x < 0 ? "against " : "for ",
    chip(data.ids[row + 1]), x < 0 ? ", towards " : ", against ",
    chip(rivalsAt(row)[rivalAt(row)]), ` (${signed(x)}).`];
  find("#attention .lead").replaceChildren(name, ...shown && has.parts ? pushed : ":", " At ",
    chip(data.ids[row]), " it looked here", word ? ` (in the whole text mostly at ${word}):` : ":");
  const looks = [look(data.ids, chosenWeights(row, false), has.cross ? "The answer so far" : "")];
  tint(find("#text"), chosenWeights(row, false));
  if (has.cross) {
    const weights = chosenWeights(row, true);
    looks.unshift(look(data.source, weights, "The source"));
    tint(find("#source p"), weights);
    showAlignment();
  }
  find(".looks").replaceChildren(...looks);
}

function tint(text, weights) {
  const full = Math.max(0.3, ...weights);
  for (const [i, made] of [...text.children].entries()) {
    made.style.setProperty("--look", (weights[i] ?? 0) / full);
  }
}

// The largest weights as bars, and the sum of the others.
function look(ids, weights, title) {
  const best = range(weights.length).sort((a, b) => weights[b] - weights[a]).slice(0, 5);
  const line = (name, p) => element("li", {}, element("span.name", {}, name), track(p),
    element("span.number", {}, percent(p)));
  const rest = 1 - sum(best.map((i) => weights[i])), n = weights.length - best.length;
  return element("div", {}, title && element("h3", {}, title), element("ol.bars", {},
    ...best.map((i) => line(element("span", {}, chip(ids[i]), element("small", {}, ` ${i}`)),
      weights[i])), n > 0 ? line(element("i", {}, plural(n, "other")), Math.max(0, rest)) : ""));
}

// A row for each token of the answer, a column for each of the source.
function showAlignment() {
  find("#alignment").hidden = false;
  const name = (id) => visible(data.labels[id]);
  const column = (id) => element("th", {scope: "col"}, element("span", {}, name(id)));
  const cell = (weight) => element("td", {"--weight": weight, title: percent(weight)},
    element("span.unseen", {}, percent(weight)));
  const row = (row) => element(row === state.selected - 1 ? "tr.selected" : "tr", {},
    element("th", {scope: "row"}, element("button.link", {tabindex: -1,
      onclick: () => select(row + 1)}, name(data.ids[row + 1]))),
    ...chosenWeights(row, true).map(cell));
  find("#alignment thead").replaceChildren(element("tr", {}, element("td"),
    ...data.source.map(column)));
  find("#alignment tbody").replaceChildren(...range(n_rows).filter(isStored).map(row));
}
