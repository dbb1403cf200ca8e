// Panels have draw functions, which are called once, and show functions, called at each selection.

function goTo(token) {
  state.selected = clamp(token, 1, n_rows);
  state.die = null;
  show();
}

function select(token) {  // the user selected a token
  grow(null);
  goTo(token);
}

function show() {
  showText();
  showCandidates();
  showAttention();
  showLens();
  showCache();
  showDrafts();
  showBeams();
  writeAddress();
}

// The page's heading is a sentence about how the text was generated. Facts follow below it.
function drawHeader() {
  const {model, method, loop, gamma, beams, drafter, draft, seed, temperature} = data.settings;
  const n_drawn = data.ids.length - data.n_prompt, n = n_drawn - ended, greedy = temperature === 0;
  const how = steps.length ? "beams" : betting ? "bets" : loop ? "loop"
    : greedy ? "greedy" : "one by one";
  const settings = SAMPLER.filter((name) => given[name] !== PLAIN[name])
    .map((name) => `${dashed(name)} ${given[name]}`).join(", ");
  const drafts = {ngram: "by counts of n-grams", lookup: "copied from the text",
    speculative: `by ${drafter ?? draft ?? "a drafter"}`};
  const acted = (name, i) => name !== "min_length" || arrays.by.includes(i + 1);
  const filters = data.filters.filter(acted).filter((name) => !SAMPLER.includes(name));
  const surprise = sum(range(n_drawn).map((i) => bits(data.n_prompt + i)));
  tell("header", {...data.settings, model: model ? `The model “${model}”` : "A model", settings, n,
    bits: (surprise / n_drawn).toFixed(1), beams: n_beams, greedily: greedy ? "greedily" : "",
    drafts: drafts[method] ?? `by ${(!loop && method) || "a drafter"}`,
    filters: filters.map(dashed).join(", "), given: has.source
      ? plural(data.source.length, "source token") : plural(data.n_prompt, "token")},
  how, has.source && "source", gamma && "gamma", n_drawn && "new", ended && "ended",
  filters.length && "filters",
  settings && !greedy && ["bets", "one by one"].includes(how) && "settings",
  method && !loop && "method", seed !== null && !greedy && !steps.length && "seed");
  document.title = `${data.pieces.join("").trim().slice(0, 60)} · tokenwise`;
}

async function start() {
  for (const [name, packed] of Object.entries(data.arrays)) arrays[name] = await unpack(packed);
  drawHeader();
  drawText();
  drawHeads();
  drawCache();
  drawDrafts();
  drawBeams();
  followAddress();
  addEventListener("resize", () => { drawBeams(); showBeams(); });
  document.documentElement.dataset.ready = "true";
}

start();
