// The sampler as a pipeline: each candidate's probability after each step, from left to right.

const MOST_BARS = 10;

find("#top_k").max = Math.max(100, given.top_k);

function change(settings) {
  Object.assign(state, settings);
  showCandidates();
  writeAddress();
}

// Return how a token was chosen: its entry in data.draws, or ["prompt"].
const drawOf = (token) => data.draws[token - data.n_prompt] ?? ["prompt"];

function showCandidates() {
  const row = state.selected - 1, found = chain(row, state), {tokens, came} = found;
  const [how, u] = drawOf(row + 1), isOwn = state.die !== null;
  const moved = SAMPLER.some((name) => state[name] !== given[name]);
  const die = isOwn || how !== "drawn" || (moved && found.others) ? state.die : u;
  const thrown = die !== null;
  if (!isOwn && moved && found.others)  // the places on the line from 0 to 1 are not known
    for (const token of tokens) token.below = null;
  const winner = !isOwn && !moved ? thrown && came
    : tokens.findIndex(({below, p}) => thrown && below <= die && die < below + p);
  for (const token of tokens) token.gone = remover(token, found);
  const byHeight = tokens.toSorted((a, b) => b.height - a.height || a.rank - b.rank);
  const shown = byHeight.filter(({rank}, i) => i < MOST_BARS || rank === came || rank === winner);
  const more = tokens.filter((token) => found.cut && !token.gone && !shown.includes(token));
  const listed = [...shown, ...more], isCut = found.cut && !found.others;
  const unlisted = [...tokens.filter((token) => !listed.includes(token)), {rank: Infinity}];
  const removers = [...new Set(unlisted.map((token) => remover(token, found)))];
  const rest = others(data.n_vocab - listed.length, (stage) => 1 - total(listed, stage),
    isCut && removers.join(", "), found.cut && !isCut
      ? `, ${found.kept - listed.filter((token) => !token.gone).length} of them kept` : "");
  const lines = (gone) => shown.filter((token) => Boolean(token.gone) === gone)
    .map((token) => candidate(token, came, winner));
  const part = find("#candidates");
  part.querySelector("tbody").replaceChildren(...lines(false),
    others(more.length, (stage) => total(more, stage)), isCut ? "" : rest, find("tr.cut"),
    ...lines(true), isCut ? rest : "");
  part.classList.toggle("filtered", found.changed);
  part.classList.toggle("thrown", thrown);
  part.style.setProperty("--die", die);
  find("tr.cut td").colSpan = 4 + found.changed + thrown;
  for (const name of SAMPLER)
    Object.assign(find(`#${name}`), {value: state[name], ariaValueText: state[name]});
  Object.assign(find("#die"), {hidden: !thrown, value: die});
  find("#restore").hidden = !isOwn && !moved;
  sayCandidates(row, winner, found, isOwn ? "own" : how === "drawn" && moved
    ? (thrown ? "moved" : "unknown place") : how);
}

// Complete the sentences about the cut and the die.
function sayCandidates(row, winner, {tokens, exact, kept, cut, own}, how) {
  const [u, from, to] = digits(drawOf(row + 1).slice(1)), {die, temperature} = state;
  const n = own ? own.kept : Math.min(kept, tokens.filter((token) => !token.early).length);
  const share = own ? own.mass : total(tokens.slice(0, n), "tempered");
  tell("#candidates", {...state, before: data.ids[row], came: data.ids[row + 1], n, u, from, to,
    share: percent(share), others: percent(1 - share), n_stored: tokens.length,
    n_vocab: data.n_vocab.toLocaleString("en"), die: die?.toFixed(4),
    hit: tokens[winner]?.id ?? "one of the others"},
  ["prompt", "beams"].includes(how) ? "would" : "made", how,
  temperature === 0 ? "one is kept" : cut ? "cut" : exact ? "uncut" : "beyond");
  find(".handle").dataset.kept = n;
}

// Return the name of the filter or cut that removed a token, if any did.
function remover({by, rank}, {cuts}) {
  const cut = Object.keys(cuts).find((name) => rank >= cuts[name]);
  return by ? dashed(by) : cut && `${dashed(cut)} ${state[cut]}`;
}

function candidate(token, came, winner) {
  const {id, rank, p, early, gone} = token;
  const kind = [".candidate", early && ".early", rank === came && ".chosen",
    rank === winner && ".drawn", gone && ".removed"].filter(Boolean).join("");
  const made = stages(kind, [chip(id), rank === came && element("small", " came")], token);
  return fill(made, {"data-p": p, "data-token": id, "data-rank": rank,
    onclick: () => compareWith(id)});
}

const total = (tokens, stage) => sum(tokens.map((token) => token[stage]));

// Return a line for n unlisted tokens, if n > 0. share(stage): the sum of their probabilities.
function others(n, share, gone, says = "") {
  const token = Object.fromEntries(["model", "filtered", "tempered", "p"].map((stage) =>
    [stage, Math.max(0, Number(share(stage).toFixed(6)))]));
  return n ? stages(".others", element("i", plural(n, "other") + says), {...token, gone}) : "";
}

// Return a line of the table: a token's probability after each step, until a step removes it.
function stages(kind, name, {model, filtered, tempered, so_far, p, below, early, gone}) {
  const cell = (p, kind = "", so_far = 0) =>
    element(`td${kind}`, {"--p": p, "--sum": so_far}, element("span.number", percent(p)));
  const removed = (kind) =>
    element(`td.gone${kind}`, {title: `removed by ${gone}`}, `✕ ${gone}`);
  const after = early ? [removed(".filters"), "", ""]
    : [cell(filtered, ".filters"), cell(tempered, "", so_far), gone ? removed("") : cell(p)];
  const mass = Number.isFinite(below) && p && element("span.mass", {"--from": below, "--p": p});
  return line(kind, name, cell(model), ...after, element("td.draw", mass));
}

// Drag the line below the last kept token. The sliders are for the keyboard.
function startDrag(event) {
  event.preventDefault();
  addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"])
    addEventListener(end, () => removeEventListener("pointermove", drag), {once: true});
}

// Move the line to just below the candidate under the pointer.
function drag({clientX, clientY}) {
  const at = document.elementFromPoint(clientX, clientY)?.closest(".candidate:not(.early)");
  if (at) keep(Number(at.dataset.rank) + 1);
}

// Keep the best n tokens: set top-k, and switch off top-p and min-p, which might keep fewer.
const keep = (n) => change({top_k: clamp(n, 1, 100), top_p: 1, min_p: 0});
