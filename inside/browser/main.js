// The page: everything is drawn once, then shows what belongs to the selected token.

function goTo(token) {
  state.selected = clamp(token, 1, n_rows);
  state.die = state.rival = null;
  show();
}

function select(token) {  // by hand
  pause();
  goTo(token);
}

function show() {
  showText();
  showCandidates();
  showWhy();
  showAttention();
  showLens();
  showCache();
  showDrafts();
  showBeams();
  writeAddress();
}

// One sentence: who wrote the text, and how each token was chosen.
function heading() {
  const {model, method, loop, gamma, beams, drafter, draft, temperature} = data.settings;
  const settings = SAMPLER.filter((name) => given[name] !== PLAIN[name] && temperature !== 0)
    .map((name) => `${dashed(name)} ${given[name]}`).join(", ");
  const drafts = {ngram: "by counts of n-grams", lookup: "copied from the text"}[method]
    ?? `by ${drafter ?? draft ?? "a drafter"}`;
  const draws = temperature === 0 ? "taking the best token each time"
    : `drawing one token at a time${settings && ` at ${settings}`}`;
  const bets = `${temperature === 0 ? "greedily" : "drawing"} from drafts ${drafts}`
    + `${gamma ? `, up to ${gamma} at a time` : ""}${settings && `, at ${settings}`}`;
  const how = steps.length ? `following the ${beams ?? "best"} likeliest beginnings at once`
    : betting ? bets : loop ? `in a loop of its user's, ${loop}` : draws;
  return `${model ? `The model ${model}` : "A model"} wrote this`
    + `${has.source ? " from its source" : ""}, ${how}.`;
}

function facts() {
  const {method, loop, seed, temperature} = data.settings, n = data.ids.length - data.n_prompt;
  const mean = sum(range(n).map((i) => bits(data.n_prompt + i))) / n;
  const acted = (name, i) => name !== "min_length" || arrays.by.includes(i + 1);
  const own = data.filters.filter(acted).filter((name) => !SAMPLER.includes(name)).map(dashed);
  return [method && !loop && `method ${method}`, own.length && `filters ${own.join(", ")}`,
    seed !== null && temperature !== 0 && !steps.length && `seed ${seed}`,
    `${plural(data.n_prompt, "token")} given, ${n} new`,
    n && `${mean.toFixed(1)} bits of surprise per new token (0: the model was certain; 1: as a coin`
    + " that fell on this side)"].filter(Boolean).join(" · ");
}

// Where nothing has the focus, the arrows are the text's. In the text, the space bar plays.
document.body.onkeydown = (event) => {
  const text = find("#text"), {key, target} = event;
  if (target === document.body && key.startsWith("Arrow")) text.onkeydown(event);
  if (key !== " " || !text.contains(target)) return;
  event.preventDefault();
  play();
};

async function start() {
  for (const [name, packed] of Object.entries(data.arrays)) arrays[name] = await unpack(packed);
  readAddress();
  document.title = `${data.pieces.join("").trim().slice(0, 60)} · tokenwise`;
  find("h1").textContent = heading();
  find("#facts").textContent = facts();
  find("#play").onclick = play;
  addEventListener("hashchange", () => {
    readAddress();
    show();
  });
  drawText();
  drawSliders();
  drawHeads();
  drawCache();
  drawDrafts();
  drawBeams();
  show();
  document.documentElement.dataset.ready = "true";
}

start();
