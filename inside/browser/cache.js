// The passes of the run, and the cache: a line for each pass, from left to right the positions.

const {passes} = data;
const most = Math.max(1, ...passes.map((pass) => pass.begin + pass.new));
const CELL = most <= 60 ? clamp(600 / most, 13, 24) : Math.max(2, 780 / most);
const LINE = passes.length <= 40 ? 13 : Math.max(1, 480 / passes.length), GAP = LINE > 4 ? 1 : 0;
const HELD = most <= 60 ? 60 : 4, HEAD = HELD + 32;  // where keys and values are, and the passes

// The pass that a token came of.
function passOf(token) {
  const first = passes.findIndex((pass) => pass.begin + pass.new >= data.n_prompt);
  if (data.beams.length) return clamp(first + token - data.n_prompt, 0, passes.length - 1);
  return Math.max(0, passes.findLastIndex((pass) => pass.known <= token));
}

function drawCache() {
  find("#cache").hidden = !passes.length;  // nothing new came: the context was full
  if (!passes.length) return;
  find(".of-drafts").hidden = !passes.some((pass) => pass.bets.length > pass.accepted);
  const [width, height] = [most * CELL + 60, HEAD + passes.length * LINE + 4];
  const part = (kind, from, to, y, height, more) => svg("rect", {class: kind, x: 60 + from * CELL,
    width: Math.max(0, (to - from) * CELL - 1), y, height, ...more});
  const lines = passes.flatMap((pass, i) => {
    const {begin, bets, accepted} = pass, end = begin + pass.new, y = HEAD + i * LINE;
    const kept = end - (bets.length - accepted), more = {"data-pass": i};
    return [part("read", 0, begin, y, LINE - GAP, more),
      part("computed", begin, kept, y, LINE - GAP, more),
      part("rejected", kept, end, y, LINE - GAP, more)];
  });
  const words = most <= 60 ? data.ids.slice(0, most).map((id, i) => svg("text",
    {class: "word", transform: `translate(${60 + (i + 0.9) * CELL} ${HELD - 4}) rotate(-60)`},
    visible(data.labels[id]).slice(0, 9))) : [];
  const cells = range(most + 1).map((i) => `M${59.5 + i * CELL} ${HELD}V${height}`).join("");
  const name = (text, y) => svg("text", {x: 52, y, class: "name"}, text);
  find("#cache .scroll").append(picture(width, height,
    `${passes.length} passes over ${most} positions, one below the other`, ...words,
    name("keys", HELD + 10), name("values", HELD + 22), part("keys held", 0, 0, HELD + 1, 11),
    part("values held", 0, 0, HELD + 13, 11), ...lines,
    svg("path", {class: "cells", d: most <= 120 ? cells : ""}), name("pass 0", HEAD + 10),
    ...passes.length > 2 ? [name(`${passes.length - 1}`, HEAD + passes.length * LINE)] : []));
  find("#cache svg").onclick = (event) => {
    const made = Number(event.target.dataset.pass);
    if (made >= 0) select(range(n_rows + 1).findIndex((i) => i > 0 && passOf(i) === made));
  };
  find("#naive").onchange = (event) => {
    state.naive = event.target.checked;
    showCache();
  };
}

// Multiply-adds: those of the recorded passes, and those of the two plain loops for the same text.
// A pass over n tokens takes c + a n + b n^2 of them, by the counts for 1, 2 and 3 tokens: c for
// the logits of the last, a for what each passes through, b for the attention of each to each.
function plainLoops() {
  const [one, two, three] = data.multiply_adds;
  const b = (three - 2 * two + one) / 2, a = two - one - 3 * b, c = one - a - b;
  const pass = (n_new, n_all) => c + a * n_new + b * n_new * n_all;
  const lengths = range(data.ids.length - data.n_prompt).map((i) => data.n_prompt + i);
  return {cached: lengths.map((n, i) => pass(i ? 1 : n, n)),
    naive: lengths.map((n) => pass(n, n))};
}

function drawOperations() {
  const {cached, naive} = plainLoops(), drafting = sum(passes.map((pass) => pass.drafting));
  const own = sum(passes.map((pass) => pass.multiply_adds));
  const table = [["this run", passes.length, own], ...drafting ? [["its drafter", "–", drafting]]
    : [], ["one by one, with a cache", cached.length, sum(cached)],
  ["one by one, without", naive.length, sum(naive)]];
  const most = Math.max(...table.map(([, , n]) => n));
  find("#cache tbody").replaceChildren(...table.map(([name, n, operations]) => element("tr", {},
    element("th", {scope: "row"}, name), element("td", {}, `${n}`),
    element("td", {}, count(operations)), element("td.share", {}, track(operations / most)))));
}

const bytes = (n) => (n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);

function showCache() {
  if (!passes.length) return;
  const i = passOf(state.selected), pass = passes[i], done = passes.slice(0, i + 1), {naive} = state;
  const held = naive ? 0 : pass.begin + pass.new, svgs = find("#cache svg");
  svgs.classList.toggle("naive", naive);
  for (const rect of svgs.querySelectorAll("[data-pass]")) {
    rect.classList.toggle("now", rect.dataset.pass === `${i}`);
    rect.classList.toggle("later", Number(rect.dataset.pass) > i);
  }
  for (const rect of svgs.querySelectorAll(".held")) rect.setAttribute("width", held * CELL);
  const total = (f) => sum(done.map((pass) => pass.rows * f(pass)));
  const computed = total((pass) => pass.new), all = total((pass) => pass.begin + pass.new);
  const rows = pass.rows > 1 ? ` in each of ${pass.rows} rows` : "";
  find("#cache .lead").textContent = "Each token's keys and values depend on it and the tokens before"
    + " it alone. So they are computed once and kept, and a pass computes what is new.";
  find("#totals").replaceChildren(
    element("li", {}, element("b", {}, `Pass ${i}`), naive ? ` computes all ${pass.begin + pass.new}`
      + ` positions${rows}` : ` computes ${pass.new} and reads ${pass.begin} from the cache${rows}`),
    element("li", {}, "so far ", element("b", {}, `${naive ? all : computed}`),
      " computed", naive ? `, ${all - computed} of them again` : `, instead of ${all}`),
    element("li", {}, "the cache holds ", element("b", {},
      bytes(held * pass.rows * data.kv_bytes)), ` (${bytes(data.kv_bytes)} for a token)`));
}
