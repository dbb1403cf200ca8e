// The page: everything is drawn once, then shows what belongs to the selected token.

function goTo(token) {
  state.selected = clamp(token, 1, n_rows);
  state.die = state.rival = null;
  show();
}

function select(token) {  // by hand
  if (state.growing) pause();
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
  const {model, method, loop, gamma, beams, temperature, top_k, top_p, min_p} = data.settings;
  const drafts = {ngram: "drafts by counts of n-grams",
    lookup: "drafts copied from the text"}[method]
    ?? `drafts by ${data.settings.drafter ?? data.settings.draft ?? "a drafter"}`;
  const cuts = [top_k && `top-k ${top_k}`, top_p < 1 && `top-p ${top_p}`,
    min_p && `min-p ${min_p}`];
  const settings = [temperature !== 1 && `temperature ${temperature}`, ...cuts].filter(Boolean);
  const drawing = temperature === 0 ? "taking the best token each time"
    : `drawing one token at a time${settings.length ? ` at ${settings.join(", ")}` : ""}`;
  const how = data.beams.length ? `following the ${beams ?? "best"} likeliest beginnings at once`
    : betting ? `${temperature === 0 ? "greedily" : "drawing"} from ${drafts}`
      + `${gamma ? `, up to ${gamma} at a time` : ""}`
      + (settings.length && temperature !== 0 ? `, at ${settings.join(", ")}` : "")
      : loop ? `in a loop of its user's, ${loop}` : drawing;
  return `${model ? `The model ${model}` : "A model"} wrote this`
    + `${data.source.length ? " from its source" : ""}, ${how}.`;
}

function facts() {
  const {method, loop, seed, temperature} = data.settings, n = data.ids.length - data.n_prompt;
  const mean = sum(range(n).map((i) => bits(data.n_prompt + i))) / Math.max(1, n);
  const acted = (name, i) => name !== "min_length" || arrays.by.includes(i + 1);
  const own = data.filters.filter(acted).filter((name) => !SAMPLER.includes(name)).map(dashed);
  return [method && !loop && `method ${method}`, own.length && `filters ${own.join(", ")}`,
    seed !== null && temperature !== 0 && !data.beams.length && `seed ${seed}`,
    `${plural(data.n_prompt, "token")} given, ${n} new`,
    n && `${mean.toFixed(1)} bits of surprise per new token (0: the model was certain; 1: as a coin`
    + " that fell on this side)"].filter(Boolean).join(" · ");
}

// Keys of the text: they are the page's only where the text, or nothing, has the focus.
document.addEventListener("keydown", (event) => {
  const inText = find("#text").contains(event.target), {key} = event;
  if (!(inText || event.target === document.body)) return;
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const step = {ArrowLeft: -1, ArrowRight: 1, ...inText && {Home: -n_rows, End: n_rows}}[key];
  if (step) select(state.selected + step);
  else if (key === " " && inText) play();
  else return;
  if (inText) find(`#token-${state.selected}`).focus();
  event.preventDefault();
});

async function start() {
  await unpackAll();
  readAddress();
  document.title = `${data.pieces.join("").trim().slice(0, 60)} · tokenwise`;
  find("h1").textContent = heading();
  find("#facts").textContent = facts();
  find("#previous").onclick = () => select(state.selected - 1);
  find("#next").onclick = () => select(state.selected + 1);
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
