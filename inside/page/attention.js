// What the pass at one token attended to: a layer and head, or the mean of all.

const own = data.attention.own && unpack(data.attention.own, Uint8Array);
const cross = data.attention.cross && unpack(data.attention.cross, Uint8Array);
const {n_layer, n_head} = data.attention;

// The weights [row + 1] of earlier tokens, or [n_source] of the source. 255 sqrt(w) is stored.
function weightsAt(layer, head, row, ofSource) {
  const place = layer * n_head + head, n_source = data.source.length;
  const from = ofSource ? (place * n_rows + row) * n_source
    : place * n_rows * (n_rows + 1) / 2 + row * (row + 1) / 2;
  const bytes = (ofSource ? cross : own).subarray(from, from + (ofSource ? n_source : row + 1));
  return Array.from(bytes, (byte) => (byte / 255) ** 2);
}

function chosenWeights(row, ofSource) {
  if (state.head !== null) return weightsAt(state.layer, state.head, row, ofSource);
  const all = range(n_layer * n_head).map((i) =>
    weightsAt(Math.floor(i / n_head), i % n_head, row, ofSource));
  return all[0].map((_, key) => sum(all.map((weights) => weights[key])) / all.length);
}

function drawHeads() {
  if (!own) return;
  const heads = range(n_layer).flatMap((layer) => [
    element("span", {"aria-hidden": "true"}, `${layer + 1}`),
    ...range(n_head).map((head) => element("button", {
      "aria-label": `layer ${layer + 1}, head ${head + 1}`, "data-head": `${layer},${head}`,
      onclick: () => choose(layer, head),
    }))]);
  fill(find(".heads"), {"--heads": n_head, onkeydown: moveHead}, heads);
  find("#mean").onclick = () => choose(null, null);
}

function choose(layer, head) {
  Object.assign(state, {layer, head});
  showAttention();
}

function moveHead(event) {
  const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
  if (!step) return;
  const layer = Math.min(n_layer - 1, Math.max(0, (state.layer ?? 0) + step[0]));
  const head = Math.min(n_head - 1, Math.max(0, (state.head ?? 0) + step[1]));
  choose(layer, head);
  find(`[data-head="${layer},${head}"]`).focus();
  event.preventDefault();
  event.stopPropagation();
}

function showAttention() {
  if (!own) {
    find("#attention .note").textContent = "The text is long: its attention is not stored.";
    return;
  }
  const row = state.selected - 1;
  for (const button of find(".heads").querySelectorAll("button")) {
    const [layer, head] = button.dataset.head.split(",").map(Number);
    const strongest = Math.max(...weightsAt(layer, head, row, Boolean(cross)));
    const chosen = layer === state.layer && head === state.head;
    button.style.setProperty("--weight", strongest.toFixed(3));
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen || (state.head === null && layer + head === 0) ? 0 : -1;
  }
  find("#mean").setAttribute("aria-pressed", state.head === null);
  const where = state.head === null ? "all heads" : `layer ${state.layer + 1}, head ${state.head + 1}`;
  find("#attention .lead").replaceChildren("Where the model looked, at ", chip(data.ids[row]),
    ", to predict ", chip(data.ids[state.selected]), `: ${where}. The darker a square, the more its head looks at a single token.`);
  const looks = [look(data.ids, data.pieces, chosenWeights(row, false), cross ? "At the answer so far" : "")];
  if (cross) looks.unshift(look(data.source, data.source_pieces, chosenWeights(row, true), "At the source"));
  find(".looks").replaceChildren(...looks);
  if (cross) showAlignment();
}

function look(ids, pieces, weights, title) {
  const full = Math.max(0.3, ...weights);
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a]).slice(0, 4);
  return element("div", {}, title && element("h3", {}, title),
    element("p.text.small", {lang: "", "aria-hidden": "true"}, ...weights.map((weight, i) => piece(
      ids[i], pieces[i], ".seen", {"--weight": (weight / full).toFixed(3), title: percent(weight)}))),
    element("p.most", {}, "Most: ", ...order.flatMap((i) => [chip(ids[i]), ` ${percent(weights[i])}  `])));
}

// A row for each token of the answer, a column for each of the source.
function showAlignment() {
  find("#alignment").hidden = false;
  const head = element("tr", {}, element("td"), ...data.source.map((id) =>
    element("th", {scope: "col"}, element("span", {}, visible(data.labels[id])))));
  const rows = range(n_rows).map((row) => element("tr" + (row === state.selected - 1 ? ".selected" : ""),
    {onclick: () => select(row + 1)},
    element("th", {scope: "row"}, visible(data.labels[data.ids[row + 1]])),
    ...chosenWeights(row, true).map((weight) => element("td", {
      "--weight": weight.toFixed(3), title: percent(weight), "aria-label": percent(weight)}))));
  find("#alignment .scroll").replaceChildren(element("table", {}, head, ...rows));
}
