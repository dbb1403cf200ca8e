// Why this token and not another: what each part of the model added to the difference of their
// logits. The parts add up to it, since the last norm's scale is the pass's own.

const has = {parts: data.unit !== null, cross: data.source.length > 0};
const per_layer = data.n_head * (has.cross ? 2 : 1) + 1;
const n_parts = 2 + data.n_layer * per_layer;

// A part by its place: {kind, layer, head}; the name that a reader sees.
function partAt(place) {
  if (place === 0) return {name: "embedding"};
  if (place === n_parts - 1) return {name: "biases"};
  const layer = Math.floor((place - 1) / per_layer), rest = (place - 1) % per_layer;
  if (rest === per_layer - 1) return {name: `MLP ${layer}`, layer};
  const head = rest % data.n_head, ofSource = rest >= data.n_head;
  return {name: `${ofSource ? "source head" : "head"} ${layer}.${head}`, layer, head, ofSource};
}

const rivalsAt = (row) => {
  const n = arrays.rivals.length / n_rows;
  return [...arrays.rivals.subarray(row * n, (row + 1) * n)];
};

// The token it is compared with: the one that was chosen, if it is stored for this row.
function rivalAt(row) {
  const rivals = rivalsAt(row);
  return Math.max(0, rivals.indexOf(state.rival));
}

// What each part added to logit(came) - logit(rival): [n_parts].
function addedAt(row) {
  const from = (row * rivalsAt(row).length + rivalAt(row)) * n_parts;
  return Array.from(arrays.added.subarray(from, from + n_parts), (x) => x * data.unit);
}

// What a head added, with its look at the source if there is one.
function addedByHead(added, layer, head) {
  const place = 1 + layer * per_layer + head;
  return added[place] + (has.cross ? added[place + data.n_head] : 0);
}

function compareWith(id) {
  state.rival = id;
  showWhy();
  showAttention();
}

const CHOSE = {drawn: "The die chose ", residual: "The die chose ", accepted: "A draft offered ",
  beams: "Beam search followed ", prompt: "The prompt has "};

function showWhy() {
  find("#why").hidden = !has.parts;
  if (!has.parts) return;
  const row = state.selected - 1, added = addedAt(row), total = sum(added);
  const rivals = rivalsAt(row), rival = rivals[rivalAt(row)];
  const choose = element("select", {"aria-label": "the token to compare with",
    onchange: (event) => compareWith(Number(event.target.value))},
  ...rivals.map((id) => element("option", {value: id, selected: id === rival},
    visible(data.labels[id]))));
  const came = () => chip(data.ids[state.selected]), [how] = drawOf(state.selected);
  find("#why .lead").replaceChildren(
    ...total < 0 ? [CHOSE[how] ?? "The loop chose ", came(), "; the model preferred ", choose, "."]
      : ["Why ", came(), " and not ", choose, "?"],
    " Before temperature, the logit of ", came(), " is ",
    element("b", {}, `${Math.abs(total).toFixed(2)}`),
    ` ${total < 0 ? "lower" : "higher"} (${factor(total)}). Each part of the model wrote into the`
    + " stream that the logits are read from; this is what each added to the difference:");
  const order = range(n_parts).sort((a, b) => Math.abs(added[b]) - Math.abs(added[a]));
  const first = order.slice(0, 7), rest = order.slice(7);
  const others = sum(rest.map((place) => added[place]));
  const most = Math.max(...[...added, others, total].map(Math.abs));
  const lines = first.map((place) => partLine(partAt(place), added[place], most, row));
  lines.push(line(`${rest.length} others`, others, most, ""));
  lines.push(line("sum", total, most, "", ".sum"));
  find("#why tbody").replaceChildren(...lines);
}

const factor = (x) => {
  const times = Math.exp(Math.abs(x));
  const about = `about ${Number(times.toPrecision(2)).toLocaleString("en")}`;
  return `${times < 10 ? times.toFixed(1) : times < 1e6 ? about : "over a million"} times`
    + ` ${x < 0 ? "less likely" : "likelier"}`;
};

function line(name, x, most, says, kind = "") {
  return element("tr" + kind, {}, element("th", {scope: "row"}, name),
    element("td.share", {}, signedTrack(clamp(x / most, -1, 1))),
    element("td.number", {}, signed(x)), element("td.says", {}, says));
}

function partLine({name, layer, head, ofSource}, x, most, row) {
  if (head === undefined) {
    const says = name === "embedding" ? element("span", {}, "of ", chip(data.ids[row])) : "";
    return line(name, x, most, says);
  }
  const weights = isStored(row) ? weightsAt(layer, head, row, ofSource) : [];
  const best = weights.indexOf(Math.max(...weights)), ids = ofSource ? data.source : data.ids;
  const says = weights.length ? element("span", {}, chip(ids[best]),
    ` ${percent(weights[best])}`) : "";
  const button = element("button.link", {onclick: () => choose([layer, head])}, name);
  return line(button, x, most, says);
}
