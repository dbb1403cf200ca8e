// The tree of beams: a column for each step; the path that won is heavy, the others are thin.

const LINE = 26, LETTER = 7.8;  // in pixels

// The candidates that were kept or ended, as nodes: `parent` is a node, or undefined at the prompt.
function readBeams() {
  const nodes = [], text = data.ids.slice(data.n_prompt);
  let kept = [];  // the nodes of the step before
  for (const step of data.beams) {
    const next = [];
    for (const [row, token, logprob, status] of step.filter((c) => c[3] !== "dropped")) {
      const parent = kept[row], depth = parent ? parent.depth + 1 : 0;
      const won = (!parent || parent.won) && text[depth] === token;
      const node = {parent, depth, token, logprob, won, finished: status === "finished",
        text: visible(data.labels[token]), children: [], reach: depth};
      parent?.children.push(node);
      nodes.push(node);
      if (status === "kept") next.push(node);
    }
    kept = next;
  }
  for (const node of [...nodes].reverse()) {  // children come after their parents
    node.reach = Math.max(node.depth, ...node.children.map((child) => child.reach));
  }
  return nodes;
}

// A line for each branch, the winner's first: the first below its parent's that is free there.
function placeLines(nodes) {
  const taken = [];  // of each line: [first depth, last depth], ...
  const better = (a, b) => b.won - a.won || b.reach - a.reach;
  const place = (node, line) => {
    node.line = line;
    const [longest, ...others] = node.children.sort(better);
    if (longest) place(longest, line);
    for (const child of others) branch(child, line + 1);
  };
  const branch = (node, least) => {
    let line = least;
    const [from, to] = [node.depth - 1, node.reach];
    while (taken[line]?.some(([first, last]) => first <= to && from <= last)) line++;
    (taken[line] ??= []).push([from, to]);
    place(node, line);
  };
  for (const root of nodes.filter((node) => !node.parent).sort(better)) branch(root, 0);
}

function drawBeams() {
  const nodes = readBeams();
  if (!nodes.length) return;
  find("#beams").hidden = false;
  placeLines(nodes);
  const widths = [];
  for (const {depth, text, finished} of nodes) {
    widths[depth] = Math.max(widths[depth] ?? 0, 24 + LETTER * (text.length + 2 * finished));
  }
  for (const node of nodes) {
    node.x = 8 + sum(widths.slice(0, node.depth));
    node.y = LINE * (node.line + 0.6);
  }
  const width = 8 + sum(widths), height = LINE * (1 + Math.max(...nodes.map((node) => node.line)));
  const won = nodes.filter((node) => node.won), winner = won.at(-1);
  const text = won.map((node) => node.text).join("");
  find("#beams .scroll").append(picture(width, height, `A tree of beams; the winner: ${text}`,
    ...nodes.filter((node) => node.parent).map(edge), ...nodes.map(nodeText)));
  find("#beams .lead").textContent = "The beginnings that were kept at each step; ■: a text that"
    + " ended."
    + (winner ? ` The winner, log P ${winner.logprob.toFixed(2)}, is the heavy line.` : "");
}

function edge({parent, x, y, won}) {
  const from = parent.x + LETTER * parent.text.length + 4, to = x - 4, above = parent.y - 5;
  const d = `M${from} ${above}C${to - 8} ${above} ${to - 12} ${y - 5} ${to} ${y - 5}`;
  return svg("path", {class: won ? "won" : "", d});
}

function nodeText({x, y, text, won, finished, logprob, depth}) {
  const place = won ? data.n_prompt + depth : "";
  return svg("text", {x, y, class: won ? "won" : "", "data-place": place,
    onclick: () => won && select(place)},
  svg("title", {}, `log P ${logprob.toFixed(2)}`), text + (finished ? " ■" : ""));
}

function showBeams() {
  for (const text of find("#beams").querySelectorAll("text")) {
    const selected = text.dataset.place === `${state.selected}`;
    text.classList.toggle("selected", selected);
    if (selected) find("#beams .scroll").scrollLeft = text.getAttribute("x") - 200;
  }
}
