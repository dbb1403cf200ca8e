// What the pass at one token attended to: by one head of a layer, or by the mean of all.

const {n_layer, n_head} = data.attention;
const own = data.attention.own && unpack(data.attention.own, Uint8Array);
const cross = data.source.length && own && unpack(data.attention.cross, Uint8Array);

// The weights of the tokens up to this row, or of the source. 255 sqrt(w) is stored.
function weightsAt(layer, head, row, ofSource) {
  const place = layer * n_head + head, n_source = data.source.length;
  const from = ofSource ? (place * n_rows + row) * n_source
    : place * n_rows * (n_rows + 1) / 2 + row * (row + 1) / 2;
  const bytes = (ofSource ? cross : own).subarray(from, from + (ofSource ? n_source : row + 1));
  return Array.from(bytes, (byte) => (byte / 255) ** 2);
}

function chosenWeights(row, ofSource) {
  if (state.head !== null) return weightsAt(state.layer, state.head, row, ofSource);
  const heads = range(n_layer).flatMap((layer) =>
    range(n_head).map((head) => weightsAt(layer, head, row, ofSource)));
  return heads[0].map((_, key) => sum(heads.map((weights) => weights[key])) / heads.length);
}

function drawHeads() {
  const rows = range(n_layer).flatMap((layer) => [
    element("span", {"aria-hidden": "true"}, `${layer + 1}`),
    ...range(n_head).map((head) => element("button", {
      "data-head": `${layer},${head}`, "aria-label": `layer ${layer + 1}, head ${head + 1}`,
      onclick: () => choose(layer, head),
    }))]);
  fill(find(".heads"), {"--heads": n_head, onkeydown: moveHead}, rows);
  find("#mean").onclick = () => choose(null, null);
}

function choose(layer, head) {
  Object.assign(state, {layer, head});
  showAttention();
}

const MOVES = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};

function moveHead(event) {
  if (!MOVES[event.key]) return;
  const [down, right] = MOVES[event.key];
  const layer = Math.min(n_layer - 1, Math.max(0, (state.layer ?? 0) + down));
  const head = Math.min(n_head - 1, Math.max(0, (state.head ?? 0) + right));
  choose(layer, head);
  find(`[data-head="${layer},${head}"]`).focus();
  event.preventDefault();
  event.stopPropagation();
}

function showAttention() {
  find(".chooser").hidden = !own;
  if (!own) {
    find("#attention .lead").textContent = "The text is long: its weights are not stored.";
    return;
  }
  const row = state.selected - 1, {layer, head} = state;
  for (const button of find(".heads").querySelectorAll("button")) showHead(button, row);
  find("#mean").setAttribute("aria-pressed", head === null);
  const where = head === null ? "all heads" : `layer ${layer + 1}, head ${head + 1}`;
  find("#attention .lead").replaceChildren(
    "Where the model looked, at ", chip(data.ids[row]), ", to predict ",
    chip(data.ids[state.selected]), `: ${where}. A full square looked at a single token.`);
  const title = cross ? "At the answer so far" : "";
  const looks = [look(data.ids, data.pieces, chosenWeights(row, false), title)];
  if (cross) {
    const weights = chosenWeights(row, true);
    looks.unshift(look(data.source, data.source_pieces, weights, "At the source"));
    showAlignment();
  }
  find(".looks").replaceChildren(...looks);
}

function showHead(button, row) {
  const [layer, head] = button.dataset.head.split(",").map(Number);
  const chosen = layer === state.layer && head === state.head;
  const first = state.head === null && layer + head === 0;
  button.style.setProperty("--weight", Math.max(...weightsAt(layer, head, row, Boolean(cross))));
  button.setAttribute("aria-pressed", chosen);
  button.tabIndex = chosen || first ? 0 : -1;
}

// The text with its weights, and the largest of them in words.
function look(ids, pieces, weights, title) {
  const full = Math.max(0.3, ...weights);
  const best = range(weights.length).sort((a, b) => weights[b] - weights[a]).slice(0, 4);
  const seen = (weight, i) => piece(ids[i], pieces[i], ".seen",
    {"--weight": weight / full, title: percent(weight)});
  const most = (i) => element("span", {}, chip(ids[i]), ` ${percent(weights[i])}`);
  return element("div", {}, title && element("h3", {}, title),
    element("p.text.small", {lang: "", "aria-hidden": "true"}, ...weights.map(seen)),
    element("p.most", {}, "Most: ", ...best.map(most)));
}

// A row for each token of the answer, a column for each of the source.
function showAlignment() {
  find("#alignment").hidden = false;
  const name = (id) => visible(data.labels[id]);
  const column = (id) => element("th", {scope: "col"}, element("span", {}, name(id)));
  const cell = (weight) => element("td",
    {"--weight": weight, title: percent(weight), "aria-label": percent(weight)});
  const line = (row) => element(row === state.selected - 1 ? "tr.selected" : "tr",
    {onclick: () => select(row + 1)}, element("th", {scope: "row"}, name(data.ids[row + 1])),
    ...chosenWeights(row, true).map(cell));
  const head = element("tr", {}, element("td"), ...data.source.map(column));
  find("#alignment table").replaceChildren(head, ...range(n_rows).map(line));
}
