// Beams as a race: a column for each step, and from the top down how far behind the best it is.

const TOP = 44, LOW = 300;  // in pixels

// Every candidate of every step: `parent` is a node, or undefined at the prompt.
function readBeams() {
  const text = data.ids.slice(data.n_prompt), steps = [];
  let kept = [], ended = -Infinity;  // the nodes of the step before; the best ended log P
  for (const [depth, step] of data.beams.entries()) {
    const leader = Math.max(ended, ...step.map(([, , logprob]) => logprob));
    const nodes = step.map(([row, token, logprob, status]) => {
      const parent = kept[row], won = (!parent || parent.won) && text[depth] === token;
      return {parent, depth, token, logprob, status, won, behind: leader - logprob,
        text: (parent ? parent.text : "") + visible(data.labels[token])};
    });
    steps.push(nodes);
    kept = nodes.filter((node) => node.status === "kept");
    ended = Math.max(ended, ...step.map(([, , x, status]) => (status === "finished" ? x : ended)));
  }
  return steps;
}

const steps = readBeams();
const penalty = data.settings.length_penalty ?? 1;
const scoreOf = ({logprob, depth}) => logprob / (depth + 1) ** penalty;

function drawBeams() {
  if (!steps.length) return;
  find("#beams").hidden = false;
  const nodes = steps.flat(), shown = nodes.filter((node) => node.status !== "dropped");
  const deepest = Math.max(1, ...shown.map((node) => node.behind)) * 1.15;
  const room = find("#beams .scroll").clientWidth - 40;
  const step = clamp(room / (steps.length + 0.5), 54, 110);
  for (const node of nodes) {
    node.x = 40 + (node.depth + 0.5) * step;
    node.y = TOP + LOW * Math.min(1, Math.sqrt(node.behind / deepest));  // near the best, more room
  }
  const width = 40 + (steps.length + 0.5) * step, height = TOP + LOW + 40;
  const ends = shown.filter((node) => node.status === "finished")
    .sort((a, b) => scoreOf(b) - scoreOf(a));
  const dropped = steps.flatMap((step) => step.filter((node) => node.status === "dropped"
    && node.behind <= deepest).slice(0, 3));
  find("#beams .scroll").append(picture(width, height, `${steps.length} steps of beam search; the`
    + ` winner: ${data.pieces.slice(data.n_prompt).join("")}`, ...axes(width, deepest),
  ...dropped.map((node) => edge(node, "dropped")), ...steps.map(cutMark),
  ...shown.filter((node) => !node.won).map((node) => edge(node, "")),
  ...shown.filter((node) => node.won).map((node) => edge(node, "won")),
  ...dropped.map((node) => svg("text", {class: "cross", x: node.x, y: node.y + 4}, "×")),
  ...spread(shown).map(nodeText)));
  const best = ends[0] ?? shown.at(-1);
  find("#beams .lead").textContent = `At each step only the ${data.settings.beams ?? "best"}`
    + " likeliest go on; those below the red cut are dropped (dotted, ×). Ended texts (■) wait."
    + ` At the end, log P / length${penalty === 1 ? "" : `^${penalty}`} decides: the heavy line won`
    + (best ? ` with ${scoreOf(best).toFixed(3)}.` : ".");
  find("#finals tbody").replaceChildren(...ends.map((node, i) => element(node.won ? "tr.won" : "tr",
    {}, element("td", {}, `${i + 1}`), element("td.words", {}, theEnd(node.text)),
    element("td", {}, node.logprob.toFixed(2)), element("td", {}, `${node.depth + 1}`),
    element("td", {}, scoreOf(node).toFixed(3)))));
}

const theEnd = (text) => (text.length > 56 ? `…${text.slice(-54)}` : text);

function axes(width, deepest) {
  const marks = [0, 0.1, 0.5, 1, 2, 5, 10, 20].filter((behind) => behind <= deepest);
  const title = svg("text", {x: 4, y: 14}, "log P behind the best at this step");
  return marks.flatMap((behind) => {
    const y = TOP + LOW * Math.sqrt(behind / deepest);
    return [svg("path", {class: "mark", d: `M36 ${y}H${width}`}),
      svg("text", {class: "axis", x: 32, y: y + 4}, behind ? `−${behind}` : "best")];
  }).concat(title);
}

function edge({parent, x, y, depth}, kind) {
  const from = parent ?? {x: 40, y: TOP}, middle = (from.x + x) / 2;
  return svg("path", {class: `edge ${kind}`, "data-depth": depth,
    d: `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${y} ${x} ${y}`});
}

// Between the last that is kept and the best that is dropped.
function cutMark(step) {
  const low = step.filter((node) => node.status === "kept").at(-1);
  const high = step.find((node) => node.status === "dropped" && low && node.y >= low.y);
  if (!high) return svg("g");
  const y = (low.y + high.y) / 2;
  return svg("path", {class: "cut", d: `M${low.x - 22} ${y}H${low.x + 22}`});
}

// Each label at its node, or below the one above it, where the two would cover each other.
function spread(nodes) {
  const lowest = [];
  return nodes.sort((a, b) => a.y - b.y).map((node) => {
    node.at = Math.max(node.y - 5, (lowest[node.depth] ?? -99) + 13);
    lowest[node.depth] = node.at;
    return node;
  });
}

function nodeText(node) {
  const {x, at, y, won, status, depth} = node;
  return svg("g", {class: won ? "won" : "", "data-depth": depth, onclick: () => select(
    Math.min(n_rows, data.n_prompt + depth))}, svg("title", {}, `log P ${node.logprob.toFixed(2)}`),
  svg("circle", {cx: x, cy: y, r: won ? 4 : 3}), svg("text", {x, y: at, "text-anchor": "middle"},
    visible(data.labels[node.token]).slice(0, 10) + (status === "finished" ? " ■" : "")));
}

// The candidates of the selected token's step, in words and numbers.
function showBeams() {
  if (!steps.length) return;
  const ready = document.documentElement.dataset.ready;  // a page opens at the race's beginning
  const depth = clamp(state.selected - data.n_prompt, 0, steps.length - 1), step = steps[depth];
  for (const made of find("#beams svg").querySelectorAll("[data-depth]")) {
    made.classList.toggle("selected", made.dataset.depth === `${depth}`);
    made.classList.toggle("later", Number(made.dataset.depth) > depth && state.growing);
  }
  const scroll = find("#beams .scroll"), at = step[0].x - scroll.scrollLeft;
  if (ready && (at < 60 || at > scroll.clientWidth - 60)) {
    scroll.scrollLeft = step[0].x - scroll.clientWidth / 2;
  }
  find("#step h3").textContent = `Step ${depth}: ${plural(step.length, "candidate")}`;
  find("#step tbody").replaceChildren(...step.map((node) => element(`tr.${node.status}`, {},
    element("td", {}, node.status), element("td.words", {}, theEnd(node.text)),
    element("td", {}, node.logprob.toFixed(2)), element("td", {}, node.behind.toFixed(2)))));
}
