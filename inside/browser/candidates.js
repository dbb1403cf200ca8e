// The sampler as a pipeline: from left to right what becomes of each candidate's probability.

const MOST_BARS = 10;
const ENDS = {  // of the sliders: the value that changes nothing, or all, in words
  temperature: [0, "0: the best"], top_k: [0, "all"], top_p: [1, "1: all"], min_p: [0, "0: all"],
};

function drawSliders() {
  for (const name of [...SAMPLER, "die"]) {
    find(`#${name}`).oninput = ({target}) => change({[name]: target.valueAsNumber});
  }
  find("#roll").onclick = () => change({die: Math.random()});
  find("#restore").onclick = () => change({...given, die: null});
}

function change(settings) {
  Object.assign(state, settings);
  showCandidates();
  writeAddress();
  dispatchEvent(new Event("settings"));
}

function showSliders() {
  for (const [name, [end, words]] of Object.entries(ENDS)) {
    find(`#${name}`).value = state[name];
    find(`#${name}-says`).textContent = state[name] === end ? words : state[name];
  }
}

// How the selected token came: a word of data.draws, or "prompt".
const drawOf = (token) => data.draws[token - data.n_prompt] ?? ["prompt"];

// Where the run's die lies among the shares, best first: at the same place within its token's.
function runDie(row) {
  const [how, u, from, to] = drawOf(row + 1);
  if (how !== "drawn") return null;
  const {tokens, came} = chain(row, given);
  const within = to > from ? clamp((u - from) / (to - from), 0, 0.999) : 0.5;
  return tokens[came].below + tokens[came].p * within;
}

function showCandidates() {
  const row = state.selected - 1, found = chain(row, state), {tokens, came} = found;
  const die = state.die ?? runDie(row), thrown = die !== null;
  const winner = thrown ? drawn(tokens.map((token) => token.p), die) : null;
  const listed = tokens.toSorted((a, b) => b.height - a.height || a.rank - b.rank);
  const shown = listed.filter(({rank}, i) => i < MOST_BARS || rank === came || rank === winner);
  const part = find("#candidates"), lines = shown.map((token) => candidate(token, found, winner));
  const place = shown.findIndex((token) => !token.early && token.rank >= found.kept);
  lines.splice(place < 0 ? lines.length : place, 0, cutLine(found, 4 + found.changed + thrown));
  part.querySelector("tbody").replaceChildren(...lines, others(shown));
  part.classList.toggle("filtered", found.changed);
  part.classList.toggle("thrown", thrown);
  showSliders();
  showDie(row, die, winner, found);
}

function showDie(row, die, winner, {tokens, came, exact}) {
  const [how, u = 0, from = 0, to = 0] = drawOf(row + 1), four = (x) => x.toFixed(4);
  const moved = how === "drawn" && winner !== came ? "moved" : how;
  const values = {before: data.ids[row], temperature: state.temperature, n_stored: tokens.length,
    die: four(die ?? 0), hit: tokens[winner]?.id ?? "one of the others", came: data.ids[row + 1],
    u: four(u), from: four(from), to: four(to)};
  tell("#candidates", values, how === "prompt" || how === "beams" ? "would" : "made",
    state.die === null ? moved : "own", !exact && "inexact");
  find("#candidates").style.setProperty("--die", die);
  find("#die").hidden = die === null;
  find("#die").value = die;
}

// What removed a token: one of the run's own filters, or a cut.
function remover({by, rank}, {cuts}) {
  const cut = Object.keys(cuts).find((name) => rank >= cuts[name]);
  return by ? dashed(by) : cut && `${dashed(cut)} ${state[cut]}`;
}

function candidate(token, found, winner) {
  const {id, rank, early, p} = token, by = remover(token, found), came = rank === found.came;
  const kind = [".candidate", early && ".early", came && ".chosen", rank === winner && ".drawn",
    by && ".removed"].filter(Boolean).join("");
  const name = [chip(id), came && element("small", " came")];
  const attributes = {"data-p": p, "data-token": id, "data-rank": rank,
    onclick: () => compareWith(id)};
  return fill(line(kind, name, cell(token.model),
    early ? gone(by, ".filters") : cell(token.filtered, ".filters"),
    early ? "" : cell(token.tempered), early ? "" : by ? gone(by) : cell(p),
    element("td.draw", p && element("span.mass", {"--from": token.below, "--p": p}))), attributes);
}

const cell = (p, kind = "") => element(`td${kind}`, {"--p": p}, element("span.number", percent(p)));
const gone = (by, kind = "") => element(`td.gone${kind}`, {title: `removed by ${by}`}, `✕ ${by}`);

// All tokens that are not shown.
function others(shown) {
  const rest = (stage) => {
    const p = 1 - sum(shown.map((token) => token[stage]));
    return p > 1e-6 ? p : 0;
  };
  const n = (data.n_vocab - shown.length).toLocaleString("en");
  return line(".others", element("i", `${n} others`), cell(rest("model")),
    cell(rest("filtered"), ".filters"), cell(rest("tempered")), cell(rest("p")),
    element("td.draw"));
}

// The line under the last token that is kept. It can be dragged, and moved with the arrow keys.
function cutLine({kept, tokens, cuts}, n_columns) {
  const n = Math.min(kept, tokens.filter((token) => !token.early).length);
  const share = percent(sum(tokens.slice(0, n).map((token) => token.tempered)));
  const says = state.temperature === 0 ? "temperature 0 keeps the best alone"
    : Object.keys(cuts).length ? `keeps ${n} of ${data.n_vocab.toLocaleString("en")} tokens, `
      + `${share} of the probability` : "nothing is cut off: drag this line, or move a slider";
  const onkeydown = (event) => {
    const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    keep(n + step);
    find(".handle").focus();
  };
  return element("tr.cut", element("td", {colspan: n_columns}, element("span.handle", {
    role: "slider", tabindex: 0, "aria-label": "The cut", "aria-valuemin": 1, "aria-valuenow": n,
    "aria-valuemax": tokens.length, "aria-valuetext": says, onkeydown, onpointerdown: startDrag,
  }, `✂ ${says}`)));
}

function startDrag(event) {
  event.preventDefault();
  addEventListener("pointermove", drag);
  addEventListener("pointerup", () => removeEventListener("pointermove", drag), {once: true});
}

// The cut lies below the candidate at the pointer.
function drag({clientX, clientY}) {
  const at = document.elementFromPoint(clientX, clientY)?.closest(".candidate:not(.early)");
  if (at) keep(Number(at.dataset.rank) + 1);
}

// Move the slider that cuts, so that the n best tokens are kept.
function keep(n) {
  const {tokens, cuts} = chain(state.selected - 1, {...state, temperature: state.temperature || 1});
  const most = Math.min(cuts.top_k ?? Infinity, tokens.length);
  if (state.top_p === 1 || state.temperature === 0 || n > most) {
    return change({top_k: clamp(n, 1, 100)});
  }
  const mass = (n) => sum(tokens.slice(0, n).map((token) => token.tempered));
  const share = mass(n) / (state.top_k ? mass(most) : 1);
  change({top_p: clamp(Math.floor(100 * share) / 100, 0.01, 0.99)});
}
