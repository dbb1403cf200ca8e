// The passes of the run, and the cache: a line for each pass, a square for each position.

// Each pass with what the cache held before it, the drafts among its ids, and how many of these the
// text took: the loop continues after them with one token of its own.
const passes = [];
for (const {ids, length, multiply_adds} of data.run) {
  const last = passes.at(-1), rows = ids.length, begin = length - ids[0].length;
  const known = last ? Math.min(data.ids.length, last.known + last.accepted + 1) : data.n_prompt;
  const drafts = rows > 1 ? [] : ids[0].slice(known - begin);
  const differs = drafts.findIndex((id, i) => id !== data.ids[known + i]);
  const accepted = differs < 0 ? drafts.length : differs;
  passes.push({rows, begin, new: ids[0].length, known, drafts, accepted, multiply_adds});
}

const UNIT = 6, GAP = 3;

function drawCache() {
  const rows = passes, n = Math.max(...rows.map((pass) => pass.begin + pass.new));
  const height = Math.min(UNIT + GAP, Math.max(3, 320 / rows.length)), square = height * 0.7;
  const lines = rows.flatMap((pass, i) => {
    const accepted = pass.new - (pass.drafts.length - pass.accepted);
    const parts = [["read", 0, pass.begin], ["computed", pass.begin, accepted],
      ["rejected", pass.begin + accepted, pass.drafts.length - pass.accepted]];
    return parts.filter(([, , width]) => width).map(([kind, x, width]) => svg("rect", {
      class: kind, x: x * UNIT, y: i * height + (kind === "rejected") * square / 2,
      width: width * UNIT - 1, height: kind === "rejected" ? square / 2 : square, "data-pass": i}));
  });
  const size = {viewBox: `0 0 ${n * UNIT} ${rows.length * height}`, width: n * UNIT,
    height: rows.length * height};
  const says = `${rows.length} passes over ${n} positions, one below the other`;
  find("#cache .scroll").append(svg("svg", {...size, role: "img", "aria-label": says}, ...lines));
  drawOperations();
}

// Multiply-adds: those of the recorded passes, and those of the two plain loops for the same text. A
// pass over n tokens takes c + a n + b n^2 of them, by the counts for 1, 2 and 3 tokens: c for the
// logits of the last, a for what each passes through, b for the attention of each to each.
function drawOperations() {
  const n = data.ids.length, [one, two, three] = data.multiply_adds;
  const b = (three - 2 * two + one) / 2, a = two - one - 3 * b, c = one - a - b;
  const lengths = range(n - data.n_prompt).map((i) => data.n_prompt + i);
  const naive = sum(lengths.map((length) => c + a * length + b * length ** 2));
  const cached = c + a * data.n_prompt + b * data.n_prompt ** 2
    + sum(lengths.slice(1).map((length) => c + a + b * length));
  const run = sum(passes.map((pass) => pass.multiply_adds));
  const table = [["this run", passes.length, run], ["the cached loop", lengths.length, cached],
    ["the naive loop", lengths.length, naive]];
  const most = Math.max(...table.map(([, , total]) => total));
  find("#cache table").replaceChildren(
    element("tr", {}, ...["", "passes", "multiply-adds", ""].map((name) => element("th", {scope: "col"}, name))),
    ...table.map(([name, passes, total]) => element("tr", {}, element("th", {scope: "row"}, name),
      element("td", {}, `${passes}`), element("td", {}, count(total)),
      element("td.share", {}, element("span.track", {"--p": total / most, "--plain": 0})))));
}

function showCache() {
  const place = passes.findIndex((pass) => pass.known + pass.accepted >= state.selected);
  for (const rect of find("#cache svg").children) {
    rect.classList.toggle("now", rect.dataset.pass === `${place}`);
  }
  const pass = passes[place];
  const reads = `read ${pass.begin} and computed ${pass.new} position${pass.new > 1 ? "s" : ""}`;
  const rejected = passes.some((p) => p.drafts.length > p.accepted);
  find("#cache .lead").textContent = "A line is a pass, from left to right the positions of the text:"
    + " pale, read from the cache, which the naive loop would compute again; strong, computed"
    + (rejected ? "; low, computed for drafts that were rejected" : "")
    + `. Pass ${place + 1} ${reads}${pass.rows > 1 ? ` in ${pass.rows} rows` : ""}.`;
}
