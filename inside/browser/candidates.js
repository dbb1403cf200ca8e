// The sampler as a pipeline: from left to right what becomes of each candidate's probability.

const MOST_BARS = 10;

find("#top_k").max = Math.max(100, given.top_k);

function change(settings) {
  Object.assign(state, settings);
  showCandidates();
  writeAddress();
  dispatchEvent(new Event("settings"));
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
  const first = shown.findIndex((token) => !token.early && token.rank >= found.kept);
  const kept = tokens.slice(0, found.cut ? found.kept : 0);
  const more = kept.filter((token) => !token.early && !shown.includes(token));
  const named = [...shown, ...more], rest = others(data.n_vocab - named.length,
    (stage) => 1 - total(named, stage), found.cut && remover({rank: Infinity}, found));
  lines.splice(first < 0 ? lines.length : first, 0,
    others(more.length, (stage) => total(more, stage)), found.cut ? "" : rest, find("tr.cut"));
  part.querySelector("tbody").replaceChildren(...lines, found.cut ? rest : "");
  part.classList.toggle("filtered", found.changed);
  part.classList.toggle("thrown", thrown);
  part.style.setProperty("--die", die);
  find("tr.cut td").colSpan = 4 + found.changed + thrown;
  for (const name of SAMPLER)
    Object.assign(find(`#${name}`), {value: state[name], ariaValueText: state[name]});
  Object.assign(find("#die"), {hidden: !thrown, value: die});
  sayCandidates(row, die, winner, found);
}

// The sentences of the panel: what the sampler did, how much is kept, where the die fell.
function sayCandidates(row, die, winner, {tokens, exact, kept, cut}) {
  const [how, ...slice] = drawOf(row + 1), [u, from, to] = digits(slice);
  const n = Math.min(kept, tokens.filter((token) => !token.early).length);
  const [model, share] = ["model", "tempered"].map((stage) => total(tokens.slice(0, n), stage));
  const moved = SAMPLER.some((name) => state[name] !== given[name]);
  const values = {...state, before: data.ids[row], came: data.ids[row + 1], n, u, from, to,
    model: percent(model), share: percent(share), model_rest: percent(1 - model),
    share_rest: percent(1 - share), n_vocab: data.n_vocab.toLocaleString("en"),
    n_stored: tokens.length, die: (die ?? 0).toFixed(4),
    hit: tokens[winner]?.id ?? "one of the others"};
  tell("#candidates", values, how === "prompt" || how === "beams" ? "would" : "made",
    state.temperature === 0 ? "one is kept" : cut ? "cut" : exact ? "uncut" : "beyond",
    state.die !== null ? "own" : how === "drawn" && moved ? "moved" : how);
  fill(find(".handle"), {"aria-valuenow": n, "aria-valuemax": tokens.length});
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
  const made = stages(kind, [chip(id), came && element("small", " came")], token, by);
  return fill(made, {"data-p": p, "data-token": id, "data-rank": rank,
    onclick: () => compareWith(id)});
}

const total = (tokens, stage) => sum(tokens.map((token) => token[stage]));

// A line for n tokens that are not shown, if there are any. share: theirs at a stage; by: removed.
function others(n, share, by) {
  const token = Object.fromEntries(["model", "filtered", "tempered", "p"].map((stage) =>
    [stage, Math.max(0, Number(share(stage).toFixed(6)))]));
  return n ? stages(".others", element("i", plural(n, "other")), token, by) : "";
}

// A line of the table: the probability after each step, until something removed the token.
function stages(kind, name, {model, filtered, tempered, p, below, early}, by) {
  const cell = (p, kind = "") =>
    element(`td${kind}`, {"--p": p}, element("span.number", percent(p)));
  const gone = (kind) => element(`td.gone${kind}`, {title: `removed by ${by}`}, `✕ ${by}`);
  const after = early ? [gone(".filters"), "", ""]
    : [cell(filtered, ".filters"), cell(tempered), by ? gone("") : cell(p)];
  const mass = below >= 0 && p && element("span.mass", {"--from": below, "--p": p});
  return line(kind, name, cell(model), ...after, element("td.draw", mass));
}

// The line under the last token that is kept can be dragged, and moved with the arrow keys.
function moveCut(event) {
  const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (!step) return;
  event.preventDefault();
  keep(Number(find(".handle").ariaValueNow) + step);
  find(".handle").focus();
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

// The line is top-k's. The other cuts are lifted, so that it lies where it was put.
const keep = (n) => change({top_k: clamp(n, 1, 100), top_p: 1, min_p: 0});
