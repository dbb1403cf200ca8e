// The sampler as a pipeline: from left to right what becomes of each candidate's probability.

const MOST_BARS = 10;
const hundredths = (from, to) => range(to - from + 1).map((i) => (from + i) / 100);
const SLIDERS = {  // values, and a value in words
  temperature: [[0, ...data.temperatures], (t) => (t === 0 ? "0, best" : t.toFixed(2))],
  top_k: [range(101), (k) => `${k || "all"}`],
  top_p: [hundredths(1, 100), (p) => (p < 1 ? `${p}` : "1, all")],
  min_p: [hundredths(0, 50), (p) => (p ? `${p}` : "0, all")],
};
const dashed = (name) => name.replaceAll("_", "-");

for (const [name, [values]] of Object.entries(SLIDERS)) {
  if (!values.includes(given[name])) values.push(given[name]);  // the run's own
  values.sort((a, b) => a - b);
}

function drawSliders() {
  for (const [name, [values]] of Object.entries(SLIDERS)) {
    const oninput = (event) => change({[name]: values[event.target.value]});
    find(".sliders").append(
      element("label", {for: name}, dashed(name)),
      element("input", {type: "range", id: name, min: 0, max: values.length - 1, oninput}),
      element("output", {for: name, id: `${name}-says`}));
  }
  find("#die").oninput = (event) => change({die: event.target.value / 10000});
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
  for (const [name, [values, says]] of Object.entries(SLIDERS)) {
    const input = find(`#${name}`);
    input.value = values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", says(state[name]));
    find(`#${name}-says`).textContent = says(state[name]);
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
  return sum(tokens.slice(0, came).map((token) => token.p)) + tokens[came].p * within;
}

const WITHOUT_DIE = {
  prompt: "A token of the prompt: nobody drew it. The table shows what the model expected here.",
  best: "Greedy: the best candidate was taken, no die was thrown.",
  beams: "Beam search threw no die: it follows the best beginnings, see Beams.",
  accepted: "A draft that the model accepted: its die decided about the draft, see Speculation.",
  residual: "Drawn after a rejected draft, from what q left of p: see Speculation.",
  unknown: "The loop chose this token in its own way: it threw no die of the sampler.",
};

function showDie(row, die, winner, {tokens, came: at}) {
  const [how, u, from, to] = drawOf(row + 1), {die: thrown} = state;
  const came = chip(data.ids[row + 1]), four = (x) => x.toFixed(4);
  const hit = winner < 0 ? "one of the others" : winner !== null && chip(tokens[winner].id);
  const says = thrown !== null
    ? ["Your own die, ", element("b", {}, four(thrown)), ", falls on ", hit,
      ". The run is as it was."]
    : how !== "drawn" ? [WITHOUT_DIE[how]]
      : winner !== at
        ? ["With these settings the die falls on ", hit, ". In the run it fell on ", came, "."]
        : ["The run threw ", element("b", {}, four(u)), ". In the order of the vocabulary, ", came,
          ` fills the line from ${four(from)} to ${four(to)}: so it came. The bars are sorted best`
          + ` first, so the dotted line lies in that slice, not at ${four(u)}.`];
  find("#dice").replaceChildren(...says);
  find("#die").hidden = die === null;
  find("#die").value = (die ?? 0) * 10000;
}

function showCandidates() {
  showSliders();
  const row = state.selected - 1, found = chain(row, state);
  const {tokens, came, exact} = found, die = state.die ?? runDie(row);
  const winner = die === null ? null : drawn(tokens.map((token) => token.p), die);
  const listed = [...tokens].sort((a, b) => b.height - a.height || a.rank - b.rank);
  const shown = listed.filter((token, i) =>
    i < MOST_BARS || token.rank === came || token.rank === winner);
  find("#candidates").classList.toggle("filtered", found.changed);
  find("#candidates").classList.toggle("thrown", die !== null);
  find("#candidates").style.setProperty("--die", die ?? 0);
  const would = drawOf(row + 1)[0] === "prompt" || steps.length;
  find("#candidates .lead").replaceChildren("What could follow ", chip(data.ids[row]), ": the"
    + ` model's probabilities, and what ${would ? "a sampler would make" : "the sampler made"} of`
    + " them. A temperature below 1 sharpens them, above 1 it flattens them. Top-k keeps the k"
    + " likeliest; top-p keeps the likeliest until together they reach p; min-p drops those below"
    + " that share of the best. What is kept is scaled to 100\u00a0%, and a die falls on it.");
  find("th.tempered").textContent = `temp. ${state.temperature}`;
  const lines = shown.map((token) =>
    candidate(token, found, token.rank === came, token.rank === winner));
  const after = shown.filter((token) => !token.early && token.rank < found.kept).length;
  const place = shown.findIndex((token) => !token.early && token.rank >= found.kept);
  lines.splice(place < 0 ? lines.length : place, 0, cutLine(found, after));
  const rest = (stage) => {
    const p = 1 - sum(shown.map((token) => token[stage]));
    return p < 1e-6 ? 0 : p;
  };
  lines.push(element("tr.others", {"data-p": rest("p")}, element("th", {scope: "row"},
    element("i", {}, `${(data.n_vocab - shown.length).toLocaleString("en")} others`)),
  cell(rest("model")), cell(rest("filtered"), ".filters"), cell(rest("tempered"), ".tempered"),
  cell(rest("p")), element("td.draw")));
  find("#candidates tbody").replaceChildren(...lines);
  find("tr.cut td").colSpan = 4 + found.changed + (die !== null);  // the columns that are shown
  showDie(row, die, winner, found);
  find("#candidates .note").textContent = exact ? "" : "Some tokens below the best"
    + ` ${tokens.length} are kept too; the page knows only the sum of their probabilities.`;
}

// What removed a token: one of the run's own filters, or a cut.
function remover({by, early, rank, p}, {cuts}) {
  if (by) return dashed(by);
  if (early || p > 0) return "";
  const cut = Object.keys(cuts).find((name) => rank >= cuts[name]);
  return cut ? `${dashed(cut)} ${state[cut]}` : state.temperature === 0 ? "not the best" : "";
}

function candidate(token, found, came, won) {
  const by = remover(token, found), early = token.early, kind = [".candidate", early && ".early",
    came && ".chosen", won && ".drawn", by && token.p === 0 && by !== "not the best" && ".removed"];
  return element("tr" + kind.filter(Boolean).join(""), {
    "data-p": token.p, "data-token": token.id, "data-rank": token.rank,
    onclick: () => compareWith(token.id)},
  element("th", {scope: "row"}, chip(token.id), came ? element("small", {}, " came") : ""),
  cell(token.model), early ? gone(by, ".filters") : cell(token.filtered, ".filters"),
  cell(early ? null : token.tempered, ".tempered"),
  !early && by && !token.p ? gone(by) : cell(early ? null : token.p),
  element("td.draw", {}, token.p ? mass(token.below, token.p) : ""));
}

const cell = (p, kind = "") => element("td" + kind, {"--p": p ?? 0},
  element("span.number", {}, p === null ? "" : percent(p)));
const gone = (by, kind = "") => element(`td.gone${kind}`, {title: `removed by ${by}`}, `✕ ${by}`);
const mass = (from, p) => element("span.mass", {"--from": from, "--p": p});

// The line under the last token that is kept. It can be dragged, and moved with the arrow keys.
function cutLine(found, n_listed) {
  const {kept, tokens} = found, n = Math.min(kept, tokens.filter((token) => !token.early).length);
  const cut = Object.values(found.cuts).some((n) => n < Infinity);
  const says = state.temperature === 0 ? "temperature 0 keeps the best alone"
    : cut ? `keeps ${n} of ${plural(data.n_vocab.toLocaleString("en"), "token")}, `
      + `${percent(sum(tokens.slice(0, n).map((token) => token.tempered)))} of the probability`
      : "nothing is cut off: drag this line, or move a slider";
  const move = {ArrowUp: n - 1, ArrowDown: n + 1};
  const handle = element("span.handle", {
    role: "slider", tabindex: 0, "aria-label": "The cut", "aria-valuemin": 1, "aria-valuenow": n,
    "aria-valuemax": tokens.length, "aria-valuetext": says,
    onkeydown: (event) => {
      if (!(event.key in move)) return;
      event.preventDefault();
      keep(move[event.key]);
      find(".handle").focus();
    },
    onpointerdown: dragCut}, `✂ ${says}`);
  return element("tr.cut", {}, element("td", {}, handle));
}

function dragCut(event) {
  event.preventDefault();
  const move = ({clientY}) => {
    const rows = [...find("#candidates tbody").querySelectorAll(".candidate")];
    const {top, height} = rows[0].getBoundingClientRect();
    const above = rows.slice(0, Math.max(1, Math.round((clientY - top) / height)))
      .filter((row) => !row.classList.contains("early"));
    keep(Math.max(1, ...above.map((row) => Number(row.dataset.rank) + 1)));
  };
  const end = () => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
}

// Move the slider that cuts, so that the n best tokens are kept.
function keep(n) {
  const {tokens, cuts} = chain(state.selected - 1, {...state, temperature: state.temperature || 1});
  const {top_p, top_k, temperature} = state, most = Math.min(cuts.top_k, tokens.length);
  if (top_p === 1 || temperature === 0 || n > most) return change({top_k: clamp(n, 1, 100)});
  const mass = (n) => sum(tokens.slice(0, n).map((token) => token.tempered));
  const share = mass(n) / (top_k ? mass(most) : 1);
  change({top_p: clamp(Math.floor(100 * share) / 100, 0.01, 0.99)});
}
