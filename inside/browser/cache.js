// The passes of the run, and the cache: a line for each pass, from left to right the positions.

const {passes} = data;
const most = Math.max(1, ...passes.map((pass) => pass.begin + pass.new));
const keeps = passes.some((pass) => pass.begin > 0);  // the naive loop keeps nothing
const LINE = passes.length <= 24 ? 13 : Math.max(1, 320 / passes.length), GAP = LINE > 4 ? 1 : 0;
const LEFT = 52;  // in pixels

// The pass that a token came of.
function passOf(token) {
  const first = passes.findIndex((pass) => pass.begin + pass.new >= data.n_prompt);
  if (data.beams.length) return clamp(first + token - data.n_prompt, 0, passes.length - 1);
  return Math.max(0, passes.findLastIndex((pass) => pass.known <= token));
}

function drawCache() {
  find("#cache").hidden = !passes.length;  // nothing new came: the context was full
  find(".of-drafts").hidden = !passes.some((pass) => pass.bets.length > pass.accepted);
  find("#naive").parentElement.hidden = !keeps;
  find("#cache .lead").textContent = "Each token's keys and values depend on it and the tokens"
    + " before it alone. "
    + (keeps ? "So they are computed once and kept; a pass computes what is new."
      : "This run kept none: each pass computed all of them again.");
  find("#naive").onchange = showCache;
}

function showCache() {
  if (!passes.length) return;
  const now = passOf(state.selected), pass = passes[now], done = passes.slice(0, now + 1);
  const naive = find("#naive").checked || !keeps, held = naive ? 0 : pass.begin + pass.new;
  find("#cache .scroll").replaceChildren(cachePicture(now, held, naive));
  const total = (f) => sum(done.map((pass) => pass.rows * f(pass)));
  const all = total((pass) => pass.begin + pass.new), once = keeps ? total((pass) => pass.new)
    : pass.new;
  const rows = pass.rows > 1 ? ` in each of ${pass.rows} rows` : "";
  const item = (before, number, after) =>
    element("li", {}, before, element("b", {}, number), after);
  find("#totals").replaceChildren(
    item("", `Pass ${now}`, naive ? ` computes all ${pass.begin + pass.new} positions${rows}`
      : ` computes ${pass.new} and reads ${pass.begin} from the cache${rows}`),
    item("so far ", `${naive ? all : once}`, ` computed${naive ? `, ${all - once} of them again`
      : `, instead of ${all}`}`),
    item("the cache holds ", bytes(held * pass.rows * data.kv_bytes),
      ` (${bytes(data.kv_bytes)} for a token)`));
}

const bytes = (n) => (n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);

// now: the selected pass; held: how many positions the cache holds after it.
function cachePicture(now, held, naive) {
  const room = find("#cache .scroll").clientWidth - LEFT - 30;
  const cell = clamp(room / most, 2, 24), named = cell >= 8;
  const top = named ? 60 : 4, first = top + 32, height = first + passes.length * LINE + 4;
  const part = (kind, from, to, y, height, more) => svg("rect", {class: kind, y, height,
    x: LEFT + from * cell, width: Math.max(0, (to - from) * cell - GAP), ...more});
  const lines = passes.flatMap(({begin, new: n, bets, accepted}, i) => {
    const kept = begin + n - bets.length + accepted, later = i > now ? " later" : "";
    const at = [first + i * LINE, LINE - GAP, {onclick: () => select(
      range(n_rows + 1).findIndex((token) => token && passOf(token) === i))}];
    const kind = (name) => name + later + (i === now ? " now" : "");
    return [part(kind(naive ? "computed" : "read"), 0, begin, ...at),
      part(kind("computed"), begin, kept, ...at), part(kind("rejected"), kept, begin + n, ...at)];
  });
  const word = (id, i) => svg("text", {class: "word",
    transform: `translate(${LEFT + (i + 0.9) * cell} ${top - 4}) rotate(-60)`},
  visible(data.labels[id]).slice(0, 9));
  const grid = range(most + 1).map((i) => `M${LEFT - 0.5 + i * cell} ${top}V${height}`).join("");
  const name = (text, y) => svg("text", {x: LEFT - 8, y, class: "name"}, text);
  return picture(LEFT + most * cell + 30 * named, height, `${passes.length} passes over ${most}`
    + ` positions, one below the other; pass ${now} is framed`,
  ...named ? data.ids.slice(0, most).map(word) : [], name("keys", top + 10),
  part("held", 0, held, top + 1, 11), name("values", top + 22),
  part("held", 0, held, top + 13, 11), name("pass 0", first + 10), ...lines,
  passes.length > 2 ? name(`${passes.length - 1}`, first + passes.length * LINE) : "",
  named ? svg("path", {class: "cells", d: grid}) : "");
}
