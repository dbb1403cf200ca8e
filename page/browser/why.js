// Why this token and not a different one: how much each part of the model added to the difference
// of their logits. The numbers add up exactly, because the scale of the last norm is kept fixed.

const CHOSE = {drawn: "A die chose it", residual: "A die chose it after a rejected draft",
  best: "It was taken as the best", accepted: "A draft offered it",
  beams: "Beam search kept it (see Beams)", prompt: "The prompt has it"};

// PARTS: the names of the parts, in the order of arrays.added. HEAD_OF: indices in HEADS, or -1.
const PARTS = ["embedding", ...range(n_layer).flatMap((layer) => [
  ...["head", ...has.source ? ["source head"] : []].flatMap((kind) =>
    range(n_head).map((head) => `${kind} ${layer}.${head}`)), `MLP ${layer}`]),
"biases"].slice(0, data.n_parts);
const HEAD_OF = PARTS.map((part) => HEADS.indexOf(part.replace(/^.*head /, "")));

// Return the index of state.rival among a row's stored rivals. Without a state.rival, return 0.
const rivalAt = (row) => Math.max(0, stored("rivals", row).indexOf(state.rival));

// Return what each part added to logit(generated token) - logit(rival): [n_parts].
function addedAt(row) {
  const from = rivalAt(row) * PARTS.length;
  const added = stored("added", row).subarray(from, from + PARTS.length);
  return Array.from(added, (x) => x * data.unit);
}

// Return what each head added. Source head 2.3 of a decoder is counted together with head 2.3.
const addedByHeads = (added) =>
  HEADS.map((_, head) => sum(added.filter((_, i) => HEAD_OF[i] === head)));

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
  const [how, , from, to] = drawOf(state.selected);
  const chose = to - from === 1 ? "The cut left no other" : CHOSE[how] ?? "The loop chose it";
  const order = range(PARTS.length).sort((a, b) => Math.abs(added[b]) - Math.abs(added[a]));
  const largest = order.find((i) => added[i] > 0), lowest = order.find((i) => added[i] < 0);
  const says = (i) => `${PARTS[i] ?? "no part"} (${signed(added[i] ?? 0)})`;
  tell("#why", {came: data.ids[state.selected], rival, chose, size: Math.abs(total).toFixed(2),
    factor: compact.format(Math.exp(Math.abs(total))), largest: says(largest),
    lowest: says(lowest)}, ...total < 0 ? ["lower", "preferred"] : ["higher"],
  PARTS.includes("biases") && "biases");
  const first = order.slice(0, 7), rest = order.slice(7);
  const others = sum(rest.map((place) => added[place]));
  const most = Math.max(...[...added, others, total].map(Math.abs));
  const part = (kind, name, x, says) => line(kind, name, signedTrack(x, most),
    element("td.number", signed(x)), element("td.says", says));
  find("#why tbody").replaceChildren(
    ...first.map((i) => part("", button(i), added[i], lookOf(i, row))),
    part("", `${rest.length} of ${PARTS.length} parts`, others), part(".sum", "sum", total));
}

const button = (i) => (HEAD_OF[i] < 0 ? PARTS[i]
  : element("button.link", {onclick: () => choose(HEAD_OF[i])}, PARTS[i]));

// Return a note on a part: for the embedding, its token; for a head, the token of largest weight.
function lookOf(i, row) {
  const ofSource = PARTS[i].startsWith("source");
  if (i === 0) return ["of ", chip(data.ids[row])];
  if (HEAD_OF[i] < 0 || !isStored(row)) return "";
  const weights = weightsAt(HEAD_OF[i], row, ofSource);
  const best = weights.indexOf(Math.max(...weights));
  return [chip((ofSource ? data.source : data.ids)[best]), ` ${about(weights[best])}`];
}
