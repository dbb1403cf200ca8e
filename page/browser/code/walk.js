// Walking through the run: a place is a pass, a part of it (such as a layer), and a line.

const state = {at: 0, head: 0, row: null, chosen: null, bookmark: null, cell: null};

const depth = (i) => (stops[i].caller === undefined ? 0 : 1 + depth(stops[i].caller));
const here = ({pass, part} = stops[state.at]) =>
  range(stops.length).filter((i) => stops[i].pass === pass && stops[i].part === part);
const partsOf = (pass) =>
  [...new Set(stops.filter((stop) => stop.pass === pass).map((stop) => stop.part))];
// What stands in the strip of a pass: [part, name, what fits the first stop's function and source].
const SECTIONS = [
  ["loop", "loop", /./], ["in", "embedding", /./],
  ["layer", "attention", /^\S*attention /], ["layer", "cross", /^\S*cross_attention /],
  ["layer", "MLP", /^feed_forward /],
  ["out", "norm", /norm/], ["out", "logits", /lm_head|wte|logits/], ["draw", "choice", /./],
];

// Return [{part, name, at}] of a pass. A part in which nothing fits is one section.
function sectionsOf(pass) {
  return partsOf(pass).flatMap((part) => {
    const those = here({pass, part});
    const kinds = SECTIONS.filter(([of]) => of === (part >= 0 ? "layer" : part));
    const beginning = (i) => (part >= 0 ? stops[i]?.caller : i);  // of a sublayer: what it adds to
    const found = kinds.map(([, name, fits]) => ({part, name,
      at: beginning(those.find((i) => fits.test(stops[i].text)))})).filter(({at}) => at >= 0);
    return found.length ? found : [{part, name: `${part}`, at: those[0]}];
  });
}

// Layers after the first run the same lines. They are folded until the reader steps into one.
const isFolded = (part) => part > 0 && (part !== stops[state.at].part || begins(state.at));

const WAYS = {  // how to go on -> is this the stop to go to?
  step: (i) => !isFolded(stops[i].part) || begins(i),  // and back
  into: () => true,
  over: (i) => depth(i) <= depth(state.at),
  out: (i) => i === stops[state.at].caller,
};

// The line with which a layer begins is not folded.
const begins = (i) => stops[i].part !== stops[i - 1]?.part;

function set(changes) {
  Object.assign(state, changes);
  show();
}

function go(way) {
  const by = ["back", "out"].includes(way) ? -1 : 1;
  const fits = WAYS[way] ?? WAYS.step;
  for (let i = state.at + by; stops[i]; i += by) if (fits(i)) return goTo(i);
}

// At the same line, its chosen part and its bookmark stay.
function goTo(i) {
  const {node, operations} = stops[i], stays = node === stops[state.at].node;
  const chosen = stays && operations.find(({name}) => name === state.chosen?.name);
  const {bookmark, cell} = stays ? state : {bookmark: null, cell: null};
  set({at: i, row: null, chosen: chosen || null, bookmark, cell});
}

// Return the stop at the same line of another part, or else the first stop there.
function alike(pass, part) {
  const now = here(), there = here({pass, part}), {node} = stops[state.at];
  const isSame = (i) => stops[i].node === node;
  return there.filter(isSame)[now.filter(isSame).indexOf(state.at)] ?? there[0];
}

function goToPass(pass) {
  const {part} = stops[state.at], parts = partsOf(pass);
  if (data.passes[pass]) goTo(alike(pass, parts.includes(part) ? part : parts[0]));
}

function goToPart(by) {
  const {pass, part} = stops[state.at], parts = partsOf(pass), at = parts.indexOf(part) + by;
  if (at in parts) goTo(alike(pass, parts[at]));
}

const KEYS = {ArrowRight: () => go("step"), ArrowLeft: () => go("back"),
  ArrowDown: () => go("into"), ArrowUp: () => go("out"), "[": () => goToPart(-1),
  "]": () => goToPart(1), ",": () => goToPass(stops[state.at].pass - 1),
  ".": () => goToPass(stops[state.at].pass + 1)};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const group = event.target.closest("[role=group]");
  const act = event.key === "ArrowRight" && event.shiftKey ? () => go("over") : KEYS[event.key];
  if (group && /^(Arrow|Home|End)/.test(event.key)) moveIn(group, event.key);
  else if (act) act();
  else if (/^\d$/.test(event.key)) set({head: Number(event.key)});
  else return;
  event.preventDefault();
}

// --- each group of controls is one stop of the tab key; in it, the arrow keys move ---

const controls = (group) => [...group.querySelectorAll("button:not(:disabled)")];

function stopAt(group, one) {
  for (const control of controls(group)) control.tabIndex = control === one ? 0 : -1;
}

function moveIn(group, key) {
  const all = controls(group), at = all.indexOf(document.activeElement);
  const by = {ArrowLeft: -1, ArrowUp: -1, Home: -at, End: all.length - 1 - at}[key] ?? 1;
  const one = all[clamp(at + by, 0, all.length - 1)];
  stopAt(group, one);
  one.focus();
}

function leave({detail}) {  // after a click, the arrow keys step through the run again
  if (detail) document.activeElement.closest("button")?.blur();
}

// --- the address: #pass=2&part=1&line=18&head=3&bookmark=softmax&operation=4&row=2
// #function=attention leads to the first stop in this function. ---

let writing = null;

function writeAddress() {
  if (location.protocol === "about:") return;  // a frame in a notebook has no address
  clearTimeout(writing);  // browsers limit how often the address may change
  writing = setTimeout(() => {
    const {pass, part, operations} = stops[state.at], {head, chosen, bookmark, row} = state;
    const words = {pass: pass + 1, part, line: here().indexOf(state.at) + 1, head, bookmark, row,
      operation: chosen && operations.indexOf(chosen) + 1};
    const given = Object.entries(words).filter(([, word]) => word !== null);
    history.replaceState(null, "", `#${new URLSearchParams(given)}`);
  }, 200);
}

// Return the line that failed, or else the first line that calls the model.
const beginning = () => data.error?.[0] ?? Math.max(0, stops.findIndex(({part}, i) =>
  part === "loop" && shownOperations(i).some(hasNumbers)));

function follow() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = (name) => Math.max(0, Math.floor(words.get(name)) || 0);
  const there = range(stops.length).filter((i) => stops[i].pass === number("pass") - 1
    && `${stops[i].part}` === words.get("part"));
  const named = stops.findIndex(({text}) => text.startsWith(`${words.get("function")} `));
  const at = there[clamp(number("line") - 1, 0, there.length - 1)]
    ?? (named < 0 ? beginning() : named);
  const chosen = stops[at].operations[number("operation") - 1] ?? null;
  const row = words.has("row") ? number("row") : null;
  set({at, head: number("head"), row, bookmark: words.get("bookmark"), chosen});
}
