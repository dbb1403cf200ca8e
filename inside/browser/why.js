// Why this token and not another: what each part of the model added to the difference of their
// logits. The parts add up to it, since the last norm's scale is the pass's own.

const CHOSE = {drawn: "The die chose it", residual: "The die chose it", best: "It was taken",
  accepted: "A draft offered it", beams: "Beam search followed it", prompt: "The prompt has it"};

// The parts, as Python stores them. head: a place in HEADS, with or without a look at the source.
const headParts = (layer, kind, ofSource) => range(n_head).map((i) => {
  const head = layer * n_head + i;
  return {name: `${kind} ${HEADS[head]}`, head, ofSource};
});
const PARTS = [{name: "embedding"}, ...range(n_layer).flatMap((layer) => [
  ...headParts(layer, "head", false),
  ...has.source ? headParts(layer, "source head", true) : [],
  {name: `MLP ${layer}`}]), {name: "biases"}];

// The place, among the stored ones, of the token it is compared with.
const rivalAt = (row) => Math.max(0, stored("rivals", row).indexOf(state.rival));

// What each part added to logit(came) - logit(rival): [n_parts].
function addedAt(row) {
  const from = rivalAt(row) * PARTS.length;
  const added = stored("added", row).subarray(from, from + PARTS.length);
  return Array.from(added, (x) => x * data.unit);
}

// What each head added, with its look at the source if there is one.
const addedByHeads = (added) =>
  HEADS.map((_, head) => sum(added.filter((_, i) => PARTS[i].head === head)));

function compareWith(id) {
  state.rival = id;
  showWhy();
  showAttention();
}

function showWhy() {
  find("#why").hidden = !has.parts;
  if (!has.parts) return;
  const row = state.selected - 1, added = addedAt(row), total = sum(added);
  const rivals = [...stored("rivals", row)], rival = rivals[rivalAt(row)];
  find("#rival").replaceChildren(...rivals.map((id) => new Option(label(id), id)));
  find("#rival").value = rival;
  const chose = CHOSE[drawOf(state.selected)[0]] ?? "The loop chose it";
  tell("#why", {came: data.ids[state.selected], rival, chose, size: Math.abs(total).toFixed(2),
    factor: compact.format(Math.exp(Math.abs(total)))},
  ...total < 0 ? ["lower", "preferred"] : ["higher"]);
  const order = range(PARTS.length).sort((a, b) => Math.abs(added[b]) - Math.abs(added[a]));
  const first = order.slice(0, 7), rest = order.slice(7);
  const others = sum(rest.map((place) => added[place]));
  const most = Math.max(...[...added, others, total].map(Math.abs));
  const part = (kind, name, x, says) => line(kind, name, signedTrack(x, most),
    element("td.number", signed(x)), element("td.says", says));
  find("#why tbody").replaceChildren(
    ...first.map((i) => part("", button(PARTS[i]), added[i], lookOf(PARTS[i], row))),
    part("", `${rest.length} others`, others), part(".sum", "sum", total));
}

const button = ({name, head}) => (head === undefined ? name
  : element("button.link", {onclick: () => choose(head)}, name));

// The token that a part looks at most.
function lookOf({name, head, ofSource}, row) {
  if (name === "embedding") return ["of ", chip(data.ids[row])];
  if (head === undefined || !isStored(row)) return "";
  const weights = weightsAt(head, row, ofSource), best = weights.indexOf(Math.max(...weights));
  return [chip((ofSource ? data.source : data.ids)[best]), ` ${percent(weights[best])}`];
}
