// The tree of beams: a column for each step; the path that won is heavy, the others thin.

const LINE = 26, LETTER = 7.6;

// The candidates that were kept or ended, as nodes: `parent` is a node, or -1 for the prompt.
function readBeams() {
  const nodes = [], text = data.ids.slice(data.n_prompt);
  let kept = [-1];  // the nodes of the step before
  for (const step of data.beams) {
    const next = [];
    for (const [parent, token, logprob, status] of step.filter((c) => c[3] !== "dropped")) {
      const before = nodes[kept[parent]], depth = before ? before.depth + 1 : 0;
      const won = (before ? before.won : true) && text[depth] === token;
      if (status === "kept") next.push(nodes.length);
      nodes.push({parent: kept[parent], token, logprob, depth, won, finished: status === "finished",
        text: visible(data.labels[token])});
    }
    kept = next;
  }
  return nodes;
}

function drawBeams() {
  const nodes = readBeams();
  if (!nodes.length) return;
  find("#beams").hidden = false;
  placeLines(nodes);
  const widths = range(1 + Math.max(...nodes.map((node) => node.depth))).map((depth) =>
    24 + LETTER * Math.max(...nodes.filter((node) => node.depth === depth).map((node) => node.text.length)));
  const lefts = widths.map((_, depth) => 8 + sum(widths.slice(0, depth)));
  const y = (node) => LINE * (node.line + 0.6);
  const edges = nodes.filter((node) => node.parent >= 0).map((node) => {
    const parent = nodes[node.parent], to = lefts[node.depth] - 4;
    const from = lefts[parent.depth] + LETTER * parent.text.length + 4;
    const d = `M${from} ${y(parent) - 5}C${to - 8} ${y(parent) - 5} ${to - 12} ${y(node) - 5} ${to} ${y(node) - 5}`;
    return svg("path", {class: node.won ? "won" : "", d});
  });
  const names = nodes.map((node) => svg("text", {
    class: [node.won && "won", node.finished && "finished"].filter(Boolean).join(" "),
    x: lefts[node.depth], y: y(node), onclick: () => node.won && select(data.n_prompt + node.depth),
    "data-place": node.won ? data.n_prompt + node.depth : "",
  }, svg("title", {}, `log P ${node.logprob.toFixed(2)}`), node.text + (node.finished ? " ■" : "")));
  const width = 8 + sum(widths) + 10, height = LINE * (1 + Math.max(...nodes.map((node) => node.line)));
  const won = nodes.filter((node) => node.won);
  const says = `A tree of ${nodes.length} beams; the winner: ${won.map((node) => node.text).join("")}`;
  find("#beams .scroll").append(svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": says}, ...edges, ...names));
  const winner = won[won.length - 1];
  find("#beams .lead").textContent = `The beginnings that were kept at each step. ■: a text that ended.`
    + (winner ? ` The winner, log P ${winner.logprob.toFixed(2)}, is the heavy line.` : "");
}

// A line for each branch, the winner's first: the first line below its parent's that is free there.
function placeLines(nodes) {
  const children = nodes.map(() => []), taken = [];  // taken[line]: [first depth, last depth], ...
  nodes.forEach((node, i) => { if (node.parent >= 0) children[node.parent].push(i); });
  const reach = nodes.map((node) => node.depth);
  for (let i = nodes.length - 1; i >= 0; i--) {
    for (const child of children[i]) reach[i] = Math.max(reach[i], reach[child]);
  }
  const rank = (i) => (nodes[i].won ? 1e6 : 0) + reach[i];
  const lay = (i, line) => {
    const [first, ...others] = children[i].sort((a, b) => rank(b) - rank(a));
    nodes[i].line = line;
    if (first !== undefined) lay(first, line);
    for (const child of others) open(child, line + 1);
  };
  const open = (i, least) => {
    let line = least;
    const [from, to] = [nodes[i].depth - 1, reach[i]];
    while (taken[line]?.some(([first, last]) => first <= to && from <= last)) line++;
    (taken[line] ??= []).push([from, to]);
    lay(i, line);
  };
  const roots = nodes.map((_, i) => i).filter((i) => nodes[i].parent < 0);
  roots.sort((a, b) => rank(b) - rank(a)).forEach((i) => open(i, 0));
}

function showBeams() {
  for (const text of find("#beams").querySelectorAll("text")) {
    text.classList.toggle("selected", text.dataset.place === `${state.selected}`);
  }
}
