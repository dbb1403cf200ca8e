// Walking through the run: a place is a pass, a part of it (such as a layer), and a line.

const state = {at: 0, head: 0, row: null, chosen: null, bookmark: null};

const depth = (frame) => (data.callers[frame] === null ? 0 : 1 + depth(data.callers[frame]));
const here = ({pass, part} = stops[state.at]) =>
  range(stops.length).filter((i) => stops[i].pass === pass && stops[i].part === part);
const partsOf = (pass) =>
  [...new Set(stops.filter((stop) => stop.pass === pass).map((stop) => stop.part))];
// Layers after the first run the same lines. They are folded until the reader steps into one.
const isFolded = (part) => part > 0 && (part !== stops[state.at].part || isCallOfBlock(state.at));

const WAYS = {  // how to go on -> is this the stop to go to?
  step: (i) => !isFolded(stops[i].part) || isCallOfBlock(i),
  back: (i) => !isFolded(stops[i].part) || isCallOfBlock(i),
  into: () => true,
  over: (i, frame) => depth(stops[i].frame) <= depth(frame),
  out: (i, frame) => stops[i].frame === data.callers[frame],
};

// A layer begins with the line that calls its block. This line is not folded.
const isCallOfBlock = (i) => data.nodes[stops[i].node][1] === "GPT2.__call__";

function set(changes) {
  Object.assign(state, changes);
  show();
}

function go(way) {
  const by = ["back", "out"].includes(way) ? -1 : 1, {frame} = stops[state.at];
  for (let i = state.at + by; stops[i]; i += by) if (WAYS[way](i, frame)) return goTo(i);
}

// At the same line, its chosen part and its bookmark stay.
function goTo(i) {
  const {node, operations} = stops[i], stays = node === stops[state.at].node;
  const chosen = stays && operations.find(({name}) => name === state.chosen?.name);
  set({at: i, row: null, chosen: chosen || null, bookmark: stays ? state.bookmark : null});
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
  const {pass, part} = stops[state.at], parts = partsOf(pass);
  const next = parts[parts.indexOf(part) + by];
  if (next !== undefined) goTo(alike(pass, next));
}

const KEYS = {ArrowRight: () => go("step"), ArrowLeft: () => go("back"),
  ArrowDown: () => go("into"), ArrowUp: () => go("out"), "[": () => goToPart(-1),
  "]": () => goToPart(1), ",": () => goToPass(stops[state.at].pass - 1),
  ".": () => goToPass(stops[state.at].pass + 1)};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.type === "range") return;
  const act = event.key === "ArrowRight" && event.shiftKey ? () => go("over") : KEYS[event.key];
  if (act) act();
  else if (/^\d$/.test(event.key)) set({head: Number(event.key)});
  else return;
  event.preventDefault();
}

// --- the address: #pass=1&part=2&line=18&head=3 ---

let writing = null;

function writeAddress() {
  if (location.protocol === "about:") return;  // a frame in a notebook has no address
  clearTimeout(writing);  // browsers limit how often the address may change
  writing = setTimeout(() => {
    const {pass, part} = stops[state.at], line = here().indexOf(state.at) + 1;
    history.replaceState(null, "", `#${new URLSearchParams({pass, part, line, head: state.head})}`);
  }, 200);
}

// Return the line of the generation loop that calls the model.
const beginning = () => range(stops.length).find((i) =>
  data.callers[stops[i].frame] === null && shownOperations(i).some(hasNumbers));

function follow() {
  const words = new URLSearchParams(location.hash.slice(1));
  const there = range(stops.length).filter((i) => `${stops[i].pass}` === words.get("pass")
    && `${stops[i].part}` === words.get("part"));
  state.head = Math.max(0, Math.floor(words.get("head")) || 0);
  goTo(there[clamp(Math.floor(words.get("line")) - 1 || 0, 0, there.length - 1)] ?? beginning());
}
