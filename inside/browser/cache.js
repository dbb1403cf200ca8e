// The passes of the run, and the cache: a line for each pass, from left to right the positions.

const {passes} = data;
const most = Math.max(1, ...passes.map((pass) => pass.begin + pass.new));
const LINE = passes.length <= 40 ? 13 : Math.max(1, 480 / passes.length), GAP = LINE > 4 ? 1 : 0;
const LEFT = 52;  // in pixels

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
  const cell = clamp((find("#cache .scroll").clientWidth - LEFT) / most, 2, 24), named = cell >= 8;
  const held = named ? 60 : 4, head = held + 32;  // where keys and values are, and the passes
  const height = head + passes.length * LINE + 4;
  const part = (kind, from, to, y, height, more) => svg("rect", {class: kind,
    x: LEFT + from * cell, width: Math.max(0, (to - from) * cell - GAP), y, height, ...more});
  const lines = passes.flatMap((pass, i) => {
    const {begin, bets, accepted} = pass, end = begin + pass.new, y = head + i * LINE;
    const kept = end - (bets.length - accepted), more = {"data-pass": i};
    return [part("read", 0, begin, y, LINE - GAP, more),
      part("computed", begin, kept, y, LINE - GAP, more),
      part("rejected", kept, end, y, LINE - GAP, more)];
  });
  const words = named ? data.ids.slice(0, most).map((id, i) => svg("text",
    {class: "word", transform: `translate(${LEFT + (i + 0.9) * cell} ${held - 4}) rotate(-60)`},
    visible(data.labels[id]).slice(0, 9))) : [];
  const cells = range(most + 1).map((i) => `M${LEFT - 0.5 + i * cell} ${held}V${height}`).join("");
  const name = (text, y) => svg("text", {x: LEFT - 8, y, class: "name"}, text);
  find("#cache .scroll").append(picture(most * cell + LEFT, height,
    `${passes.length} passes over ${most} positions, one below the other`, ...words,
    name("keys", held + 10), name("values", held + 22), part("keys held", 0, 0, held + 1, 11, {"data-cell": cell}),
    part("values held", 0, 0, held + 13, 11, {"data-cell": cell}), ...lines,
    svg("path", {class: "cells", d: named ? cells : ""}), name("pass 0", head + 10),
    ...passes.length > 2 ? [name(`${passes.length - 1}`, head + passes.length * LINE)] : []));
  find("#cache svg").onclick = (event) => {
    const made = Number(event.target.dataset.pass);
    if (made >= 0) select(range(n_rows + 1).findIndex((i) => i > 0 && passOf(i) === made));
  };
  find("#naive").onchange = (event) => {
    state.naive = event.target.checked;
    showCache();
  };
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
  for (const rect of svgs.querySelectorAll(".held")) rect.setAttribute("width", held * rect.dataset.cell);
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
      bytes(held * pass.rows * data.kv_bytes)), ` (${bytes(data.kv_bytes)} for a token)`),
    element("li", {}, element("b", {}, count(sum(done.map((pass) => pass.multiply_adds)))),
      " multiply-adds"));
}
