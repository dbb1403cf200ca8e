// The live panel: choose a token, generate from there, and compare branches.

const N_NEW = 40;  // how many tokens to generate after a click
while (!document.documentElement.dataset.ready)  // the page is drawn first
  await new Promise((done) => setTimeout(done, 20));
const pause = () => new Promise((done) => setTimeout(done, 50));  // the browser draws what is new
await pause();
const packed = JSON.parse(find("#model").textContent);
const [numbers, scales, bytes_of_words] = await Promise.all(
  [packed.numbers, packed.scales, packed.words].map(unpack));
const words = JSON.parse(new TextDecoder().decode(bytes_of_words));
const params = restored(packed.shapes, numbers, scales);
const model = new GPT2(params, packed.n_head, packed.stop_ids, packed.eps);
const tokenizer = new Tokenizer(words);
Object.assign(data.labels, words.labels);

const panel = {
  // A branch has a name, and what `read` returned of its text.
  branches: [], current: null, n_opened: 0,
  place: 0,  // an index into the current text: the page shows the candidates for this token
  writing: false, done: Promise.resolve(), n_deeds: 0,
};
const here = (selector) => find(`#live ${selector}`);

// Stop generating, wait until the user's earlier actions are done, do this one, show the result.
function act(deed) {
  panel.writing = false;
  work(1);
  panel.done = panel.done.then(pause).then(deed).then(show).then(() => work(-1));
}

function work(by) {  // say that the model is at work
  panel.n_deeds += by;
  here(".busy").textContent = panel.n_deeds ? "The model is at work ..." : "";
}

async function change(branch, ids) {
  branch.text = await read(model, ids, branch.text);
}

// Open a new branch. The beginning that it shares with the branch `from` is not read again.
async function open(ids, from = {}) {
  const branch = {...from, name: `Branch ${++panel.n_opened}`};
  await change(branch, ids);
  panel.branches.push(branch);
  select(branch, ids.length);
}

function select(branch, place) {
  Object.assign(panel, {current: branch, place: clamp(place, 1, branch.text.ids.length)});
}

function close(branch) {
  panel.branches = panel.branches.filter((other) => other !== branch);
  if (branch === panel.current) select(panel.branches[0], Infinity);
}

// Write these tokens at the selected place, then generate. If text stood there, open a new branch.
async function go_on(...first) {
  const {current, place} = panel, {ids} = current.text, all = [...ids.slice(0, place), ...first];
  if (all.length > model.n_ctx) return;
  if (place < ids.length) await open(all, current);
  else await change(current, all);
  panel.writing = true;
  for (let left = N_NEW; panel.writing && left > 0 && !ended(panel.current); left--) await write();
  panel.writing = false;
}

async function write() {
  const {current} = panel, {ids, rows} = current.text;
  const candidates = ranked(rows.at(-1).logits, state);
  await change(current, [...ids, draw(candidates, Math.random())]);
  select(current, Infinity);
  show();
  await new Promise(requestAnimationFrame);
}

const ended = ({text: {ids}}) => model.stop_ids.includes(ids.at(-1)) || ids.length >= model.n_ctx;

// --- what is shown ---

function show() {
  const {activeElement: focused} = document, in_text = focused.matches("#live .token");
  here(".branches").replaceChildren(...panel.branches.map(card));
  show_candidates();
  const {current, place, writing} = panel;
  find("#write").textContent = writing ? "Stop" : "Write on from the framed place";
  find("#write").disabled = place === current.text.ids.length && ended(current);
  if (in_text) here(".current [tabindex='0']").focus();
  else if (focused.dataset.key) here(`[data-key="${focused.dataset.key}"]`)?.focus();
}

// Return a branch as an element. The beginning that it shares with the current branch is pale.
function card(branch) {
  const {ids} = branch.text, {current, place, branches} = panel, chosen = branch === current;
  const same = chosen ? 0 : common(ids, current.text.ids), pieces = tokenizer.pieces(ids);
  const token = (i) => piece(ids[i], pieces[i] ?? "…", i < same ? ".token.same" : ".token", {
    role: "option", tabindex: -1, "aria-selected": "false",
    onclick: () => act(() => select(branch, i)),
    "--surprise": i % ids.length ? Math.min(1, surprise_at(branch.text, i) / 10) : 0,
    "aria-label": i < ids.length ? label(ids[i]) : "what comes next"});
  const text = element("div.text", {role: "listbox", "aria-label": branch.name, lang: ""},
    [...ids.keys(), ids.length].map(token));
  steer(text);
  mark(text, "aria-selected", chosen ? place : ids.length);  // the Tab key enters the text here
  const says = same ? `${plural(same, "token")} as in ${current.name}, then `
    + `${surprise(branch, same)}; there ${surprise(current, same)}`
    : `after the first token: ${surprise(branch, 1)}`;
  return element(chosen ? "div.branch.current" : "div.branch",
    element("h3", branch.name, element("button", {"aria-label": `Close ${branch.name}`,
      hidden: branches.length < 2, onclick: () => act(() => close(branch))}, "×")),
    text, element("p.note", says));
}

function surprise(branch, from) {
  const bits = branch.text.ids.slice(from).map((_, i) => surprise_at(branch.text, from + i));
  const mean = sum(bits) / (bits.length || 1);
  return plural(bits.length, "token") + (bits.length ? `, ${mean.toFixed(1)} bits each` : "");
}

function show_candidates() {
  const {current, place} = panel, {ids} = current.text;
  const found = ranked(current.text.rows[place - 1].logits, PLAIN);
  const shown = found.filter(([id], i) => i < 10 || id === ids[place]);
  tell("#live .candidates", {before: ids[place - 1]});
  here(".bars").replaceChildren(...shown.map(([id, p], i) => candidate(id, p, i)));
  steerOnly(here(".bars"), 1);
}

function candidate(id, p, i) {
  const onclick = () => act(() => go_on(id)), {current: {text}, place} = panel;
  const name = element("button", {"data-key": `candidate ${i}`, tabindex: -1, onclick}, chip(id));
  const made = bar(id === text.ids[place] ? ".chosen" : "", name, p);
  return fill(made, {"data-p": p, "data-token": id});
}

const lost = data.filters.filter((name) => ![...SAMPLER, "min_length"].includes(name)).map(dashed);
tell("#live .lead", {lost: lost.join(", ")}, lost.length && "lost");
const form = here("form"), area = here("textarea");
find("#write").onclick = () => (panel.writing ? panel.writing = false : act(() => go_on()));
find("#edit").onclick = () => {
  const ids = panel.current.text.ids.filter((id) => !tokenizer.special.has(id));
  area.value = tokenizer.pieces(ids).join("");
};
form.onsubmit = (event) => {
  event.preventDefault();
  here("details").open = false;
  act(() => open(tokenizer.encode(area.value).slice(0, model.n_ctx), panel.current));
};
act(async () => {
  await open(data.ids);
  select(panel.current, state.selected);
});
globalThis.live = {model, tokenizer, panel, read, ranked, draw};
