// The cache: a grid with a line for each pass of the run and a column for each position.

const MOST_NAMED = 60;  // with more columns, the tokens are not written above them
const most = Math.max(1, ...passes.map((pass) => pass.begin + pass.new));
const keeps = passes.some((pass) => pass.begin > 0);  // false for a loop without a cache

// Return the index of the pass that generated a token.
function passOf(token) {
  const first = passes.findIndex((pass) => pass.begin + pass.new >= data.n_prompt);
  if (data.beams.length) return clamp(first + token - data.n_prompt, 0, passes.length - 1);
  return Math.max(0, passes.findLastIndex((pass) => pass.known <= token));
}

// page.css paints each line. It needs the positions where the line's colors change.
function drawCache() {
  find("#cache").hidden = !passes.length;  // if nothing was generated, there is no pass
  fill(find("#grid"), {"--most": most, "--passes": passes.length});
  const named = most > MOST_NAMED ? [] : data.ids.slice(0, most);
  fill(find("#grid .words"), named.map((id) => element("span", label(id))));
  const firstOf = (pass) => range(n_rows).findIndex((row) => passOf(row + 1) === pass) + 1;
  fill(find("#grid ol"), passes.map(({begin, new: n, bets, accepted}, pass) => element("li", {
    "--begin": begin, "--kept": begin + n - bets.length + accepted, "--end": begin + n,
    "data-name": pass + 1, onclick: () => select(firstOf(pass))})));
}

function showCache() {
  if (!passes.length) return;
  const now = passOf(state.selected), {begin, new: n, rows, bets, accepted} = passes[now];
  const naive = find("#naive").checked || !keeps, lost = bets.length - accepted;
  const held = naive ? 0 : begin + n - lost;
  const total = (f) => sum(passes.slice(0, now + 1).map((pass) => pass.rows * f(pass)));
  const all = total((pass) => pass.begin + pass.new), once = keeps ? total((pass) => pass.new) : n;
  tell("#cache", {pass: now + 1, begin, new: n, end: begin + n, rows, all, once, lost,
    again: all - once, held: bytes(held * rows * data.kv_bytes), each: bytes(data.kv_bytes)},
  keeps ? "keeps" : "kept none", naive ? "naive" : "cached", rows > 1 && "rows",
  betting && "rejects", lost && "lost", has.source && "source");
  find("#held").style.setProperty("--held", held);
  find("#grid .now")?.classList.remove("now");
  find("#grid ol").children[now].classList.add("now");
}

const bytes = (n) => (n < 1e6 ? `${+(n / 1e3).toFixed(2)} kB` : `${+(n / 1e6).toFixed(2)} MB`);
