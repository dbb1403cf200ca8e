// The passes of the run, and the cache: a line for each pass, from left to right the positions.

// Each pass with what the cache held before it, the drafts among its ids, and how many of these the
// text took: the loop goes on after them with one token of its own.
const passes = [];
for (const {ids, length, multiply_adds} of data.run) {
  const last = passes.at(-1), rows = ids.length, begin = length - ids[0].length;
  const known = last ? Math.min(data.ids.length, last.known + last.accepted + 1) : data.n_prompt;
  const drafts = rows > 1 ? [] : ids[0].slice(known - begin);
  const differs = drafts.findIndex((id, i) => id !== data.ids[known + i]);
  const accepted = differs < 0 ? drafts.length : differs;
  passes.push({rows, begin, new: ids[0].length, known, drafts, accepted, multiply_adds});
}

const WIDTH = 6;  // of a position

function drawCache() {
  find("#cache").hidden = !passes.length;  // nothing new came: the context was full
  if (!passes.length) return;
  const n = Math.max(...passes.map((pass) => pass.begin + pass.new));
  const step = Math.min(9, Math.max(3, 320 / passes.length));
  const [width, height] = [n * WIDTH, passes.length * step];
  const says = `${passes.length} passes over ${n} positions, one below the other`;
  find("#cache .scroll").append(picture(width, height, says, ...passes.flatMap((pass, i) => {
    const rejected = pass.drafts.length - pass.accepted, end = pass.begin + pass.new;
    const part = (kind, from, to, share = 0.7) => svg("rect", {
      class: kind, "data-pass": i, x: from * WIDTH, width: Math.max(0, (to - from) * WIDTH - 1),
      y: step * (i + 0.7 - share), height: step * share});
    return [part("read", 0, pass.begin), part("computed", pass.begin, end - rejected),
      part("rejected", end - rejected, end, 0.35)];
  })));
  drawOperations();
}

// Multiply-adds: those of the recorded passes, and those of the two plain loops for the same text.
// A pass over n tokens takes c + a n + b n^2 of them, by the counts for 1, 2 and 3 tokens: c for
// the logits of the last, a for what each passes through, b for the attention of each to each (of
// more than 128 tokens at once, the code spares up to half of that).
function drawOperations() {
  const [one, two, three] = data.multiply_adds;
  const b = (three - 2 * two + one) / 2, a = two - one - 3 * b, c = one - a - b;
  const pass = (n_new, n_all) => c + a * n_new + b * n_new * n_all;
  const lengths = range(data.ids.length - data.n_prompt).map((i) => data.n_prompt + i);
  const cached = lengths.map((n, i) => pass(i ? 1 : n, n)), naive = lengths.map((n) => pass(n, n));
  const run = passes.map((pass) => pass.multiply_adds);
  const table = [["this run", run], ["the cached loop", cached], ["the naive loop", naive]];
  const most = Math.max(...table.map(([, counts]) => sum(counts)));
  find("#cache table").replaceChildren(
    element("tr", {}, ...["", "passes", "multiply-adds"].map((name) => element("th", {}, name))),
    ...table.map(([name, counts]) => element("tr", {}, element("th", {scope: "row"}, name),
      element("td", {}, `${counts.length}`), element("td", {}, count(sum(counts))),
      element("td.share", {}, track(sum(counts) / most)))));
}

function showCache() {
  if (!passes.length) return;
  const i = passes.findIndex((pass) => pass.known + pass.accepted >= state.selected);
  for (const rect of find("#cache svg").children) {
    rect.classList.toggle("now", rect.dataset.pass === `${i}`);
  }
  const pass = passes[i], rejected = passes.some((pass) => pass.drafts.length > pass.accepted);
  find("#cache .lead").textContent = "A line is a pass, from left to right the positions of the"
    + " text: pale, read from the cache, which the naive loop would compute again; strong, computed"
    + (rejected ? "; low, computed for drafts that were rejected" : "")
    + `. Pass ${i + 1} read ${pass.begin} and computed ${pass.new}`
    + (pass.rows > 1 ? ` in each of ${pass.rows} rows.` : ".");
}
