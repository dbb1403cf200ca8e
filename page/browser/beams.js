// Beams as a race. Each step has a column. The further a candidate is behind, the lower it stands.

const LEFT = 40, TOP = 36, LOW = 300;  // in pixels
const svg = (tag, ...content) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), ...content);

const isEnd = ({status}) => status === "finished" || status === "limit";

// Return a list of nodes for each step: a node for each candidate. In step 1, nodes have no parent.
function readBeams() {
  const text = data.ids.slice(data.n_prompt);
  let kept = [], ended = -Infinity;  // what the previous step kept; the best log P of ended texts
  return data.beams.map((step, depth) => {
    const leader = Math.max(ended, ...step.map(([, , logprob]) => logprob));
    const nodes = step.map(([row, token, logprob, ending]) => {
      const status = ending === "finished" && !data.stop_ids.includes(token) ? "limit" : ending;
      const parent = kept[row], won = (!parent || parent.won) && text[depth] === token;
      return {parent, depth, token, logprob, status, won, behind: leader - logprob,
        text: (parent ? parent.text : "") + label(token)};
    });
    kept = nodes.filter((node) => node.status === "kept");
    ended = Math.max(ended, ...nodes.filter(isEnd).map((node) => node.logprob));
    return nodes;
  });
}

const steps = readBeams();
const n_beams = data.settings.beams ?? steps[0]?.filter(({status}) => status !== "dropped").length;
const penalty = data.settings.length_penalty ?? 1;
const scoreOf = ({logprob, depth}) => logprob / (depth + 1) ** penalty;

function drawBeams() {
  find("#beams").hidden = !steps.length;
  if (!steps.length) return;
  const shown = steps.flat().filter((node) => node.status !== "dropped");
  const ends = shown.filter(isEnd), [{depth} = {depth: 0}] = ends;
  ends.sort((a, b) => scoreOf(b) - scoreOf(a));
  tell("#beams", {beams: n_beams, power: penalty === 1 ? "" : `^${penalty}`,
    score: signed(scoreOf(ends[0] ?? shown.at(-1)), 3), n: depth + 1, limit: steps.length,
    next: signed(scoreOf(ends[1] ?? shown.at(-1)), 3)},
  ends.length > 1 && "next",
  ends.some(({status}) => status === "limit") && "limit",
  ends.some(({status}) => status === "finished") && "waits",
  ends.every((node) => node.depth === depth) ? "same" : "lengths");
  find("#finals").replaceChildren(...ends.map((node, i) => line(node.won ? ".won" : "", `${i + 1}`,
    node.text, signed(node.logprob), `${node.depth + 1}`, signed(scoreOf(node), 3))));
  drawRace(shown, Math.max(1, ...shown.map((node) => node.behind)) * 1.15);
}

const theEnd = (text) => (text.length > 56 ? `…${text.slice(-54)}` : text);

// deepest: how far a candidate at the lower edge of the picture is behind the best one, in log P.
function drawRace(shown, deepest) {
  const room = find("#beams .scroll").clientWidth - LEFT;
  const column = clamp(room / (steps.length + 0.5), 48, 110);
  const height = (behind) => TOP + LOW * Math.sqrt(behind / deepest);  // more room for the best
  for (const step of steps) {
    let above = 0;  // the y of the previous label in this column
    for (const node of step) {
      node.x = LEFT + (node.depth + 0.5) * column;
      node.y = Math.min(height(node.behind), TOP + LOW);
      if (node.status !== "dropped") node.at = above = Math.max(node.y - 5, above + 13);
    }
  }
  const dropped = steps.flatMap((step) => step.filter((node) => node.status === "dropped"
    && node.behind <= deepest).slice(0, 3));
  const marks = [0, 0.1, 0.5, 1, 2, 5, 10, 20].filter((behind) => behind <= deepest);
  find("#beams svg").replaceChildren();
  fill(find("#beams svg"), {width: LEFT + (steps.length + 0.5) * column, height: TOP + LOW + 40},
    marks.flatMap((behind) => axis(behind, height(behind))),
    svg("text", {class: "axis", x: 32, y: 10}, "step"),
    steps.map(([{x}], i) => svg("text", {class: "cross", x, y: 10}, `${i + 1}`)),
    dropped.map(edge), steps.map(cutMark), shown.toSorted((a, b) => a.won - b.won).map(edge),
    dropped.map(({x, y}) => svg("text", {class: "cross", x, y: y + 4}, "×")), shown.map(nodeText));
}

function axis(behind, y) {
  return [svg("path", {class: "mark", d: `M36 ${y}h9999`}),
    svg("text", {class: "axis", x: 32, y: y + 4}, behind ? `${behind}` : "best")];
}

function edge({parent, x, y, depth, won, status}) {
  const from = parent ?? {x: LEFT, y: TOP}, middle = (from.x + x) / 2;
  return svg("path", {class: `edge ${won ? "won" : status}`, "data-depth": depth,
    d: `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${y} ${x} ${y}`});
}

// Return the line between the worst candidate that a step kept and the best that it dropped.
function cutMark(step) {
  const low = step.findLast((node) => node.status !== "dropped");
  const high = step.find((node) => node.status === "dropped" && low && node.y >= low.y);
  return high && svg("path", {class: "cut", d: `M${low.x - 22} ${(low.y + high.y) / 2}h44`});
}

function nodeText({x, y, at, won, status, depth, logprob, token}) {
  const text = label(token).slice(0, 8) + ({finished: " ■", limit: " ▸"}[status] ?? "");
  const onclick = () => select(data.n_prompt + depth);
  return svg("g", {class: won ? "won" : "", "data-depth": depth, onclick},
    svg("title", `log P ${signed(logprob)}`), svg("circle", {cx: x, cy: y, r: won ? 4 : 3}),
    svg("text", {x, y: at, "text-anchor": "middle"}, text));
}

// Mark the selected token's step in the picture, and list the step's candidates in the table.
function showBeams() {
  if (!steps.length) return;
  const depth = clamp(state.selected - data.n_prompt, 0, steps.length - 1), step = steps[depth];
  for (const made of find("#beams svg").querySelectorAll("[data-depth]")) {
    made.classList.toggle("selected", Number(made.dataset.depth) === depth);
    made.classList.toggle("later", Number(made.dataset.depth) > depth);
  }
  const scroll = find("#beams .scroll");
  scroll.scrollLeft = step[0].x - scroll.clientWidth / 2;
  find("#step h3").textContent = `Step ${depth + 1}: the best ${plural(step.length, "candidate")}`;
  find("#step tbody").replaceChildren(...step.map(({status, text, logprob, behind}) =>
    line(`.${status}`, status, theEnd(text), signed(logprob), behind.toFixed(2))));
}
