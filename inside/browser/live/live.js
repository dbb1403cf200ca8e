// The panel: go on with the text from any candidate, edit it, switch heads off, compare branches.

const N_NEW = 40;  // tokens that are written at once
const N_BEST = 12;  // candidates that are shown
const given = JSON.parse(find("#model").textContent);
const model = new GPT2(unpacked(given.params), given.n_head, given.stop_ids, given.eps);
const tokenizer = new Tokenizer(given.vocab, given.merges, given.special);
for (const id of range(model.n_vocab)) data.labels[id] ??= tokenizer.label(id);

// A branch is a text: `whole` has read it with the model, `part` with the model without some heads.
const panel = {
  branches: [], current: null, n_opened: 0,
  place: 0,  // of the candidates: 0 < place <= the length of the current text
  off: new Set(), model: null,  // the heads that are off, as "layer.head", and the model without
  settings: {min_p: 0, ...data.settings, seed: data.settings.seed ?? 0},
  writing: false, says: "", done: Promise.resolve(),
};
const reader = ({whole, part}) => part || whole;
const in_panel = (selector) => find(`#live ${selector}`);

// What a reader does stops the writing, waits for what was done before, and shows its result.
function act(change) {
  panel.writing = false;
  panel.done = panel.done.then(() => { panel.says = ""; }).then(change).then(show);
}

async function read(branch, ids) {
  branch.whole = await branch.whole.read(ids);
  branch.part = panel.model && await (branch.part || new Reader(panel.model)).read(ids);
}

// Begin a branch, which shares with another what both texts begin with.
async function open(ids, from = {whole: new Reader(model)}) {
  const branch = {...from, name: ++panel.n_opened};
  await read(branch, ids);
  panel.branches.push(branch);
  Object.assign(panel, {current: branch, place: ids.length});
}

// Put a token at the selected place, in a new branch if another one stands there; then go on.
async function choose(id) {
  const {current, place} = panel, {ids} = current.whole, chosen = [...ids.slice(0, place), id];
  if (place < ids.length) await open(chosen, current);
  else await read(current, chosen);
  await write();
}

async function write() {
  const {current, settings} = panel, end = current.whole.ids.length + N_NEW;
  panel.writing = true;
  while (panel.writing && !ended(current) && current.whole.ids.length < end) {
    const {ids, rows} = reader(current), candidates = ranked(rows.at(-1).logits, settings);
    await read(current, [...ids, draw(candidates, uniform(settings.seed, ids.length))]);
    panel.place = ids.length + 1;
    show();
    await new Promise(requestAnimationFrame);
  }
  panel.writing = false;
}

// The same place again, with another seed.
async function again() {
  const {current, place, settings} = panel;
  settings.seed++;
  if (place < current.whole.ids.length) await open(current.whole.ids.slice(0, place), current);
  await write();
}

const ended = ({whole: {ids}}) =>
  model.stop_ids.includes(ids.at(-1)) || ids.length >= model.n_ctx;

async function switch_off(heads) {
  panel.off = heads;
  panel.model = heads.size ? without(model, heads) : null;
  for (const branch of panel.branches) {
    branch.part = null;
    await read(branch, branch.whole.ids);
  }
}

function edit(text) {
  const ids = tokenizer.encode(text);
  if (ids.length && ids.length <= model.n_ctx) return open(ids, panel.current);
  panel.says = `A text has 1 to ${model.n_ctx} tokens, this one has ${ids.length}.`;
}

function close(branch) {
  panel.branches = panel.branches.filter((other) => other !== branch);
  if (branch === panel.current) select_at(panel.branches[0], Infinity);
}

function select_at(branch, place) {
  const {length} = branch.whole.ids;
  Object.assign(panel, {current: branch, place: Math.max(1, Math.min(place, length))});
}

// --- what is shown

function show() {
  const {key} = document.activeElement.dataset, {current} = panel;
  const in_text = document.activeElement.matches("#live .token");
  in_panel(".branches").replaceChildren(...panel.branches.map(card));
  show_candidates();
  for (const head of in_panel(".heads").children) {
    if (head.dataset.key) head.setAttribute("aria-checked", !panel.off.has(head.dataset.key));
  }
  in_panel("[name=seed]").value = panel.settings.seed;
  find("#write").textContent = panel.writing ? "Stop" : "Write on";
  find("#write").disabled = ended(current);
  in_panel("[role=status]").textContent = panel.says;
  if (in_text) in_panel(".current [tabindex='0']").focus();
  else if (key) in_panel(`[data-key="${key}"]`)?.focus();
}

// A branch: its text, of which the part that it has in common with the current one is pale.
function card(branch) {
  const {ids} = branch.whole, {current, place} = panel, is_current = branch === current;
  const n_same = is_current ? 0 : common(ids, current.whole.ids), pieces = tokenizer.pieces(ids);
  const at = is_current ? place : ids.length;  // where the keyboard enters
  const token = (i) => {
    const kind = i === ids.length ? ".next" : i < n_same ? ".same" : "";
    const surprise = i && i < ids.length ? reader(branch).bits(i) : 0;
    return piece(ids[i], i < ids.length ? pieces[i] : "…", `.token${kind}`, {
      role: "option", "aria-selected": is_current && i === at, tabindex: i === at ? 0 : -1,
      "--surprise": Math.min(1, surprise / 10), onclick: () => act(() => select_at(branch, i)),
      "aria-label": i < ids.length ? data.labels[ids[i]] : "what comes next"});
  };
  const onkeydown = (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -at, End: ids.length}[event.key];
    if (!step) return;
    act(() => select_at(branch, at + step));
    event.preventDefault();
    event.stopPropagation();
  };
  const name = `Branch ${branch.name}`, is_alone = panel.branches.length === 1;
  return element(is_current ? "div.branch.current" : "div.branch", {},
    element("h3", {}, name, element("button", {"aria-label": `Close ${name}`, hidden: is_alone,
      onclick: () => act(() => close(branch))}, "×")),
    element("div.text", {role: "listbox", "aria-label": name, lang: "", onkeydown},
      ...range(ids.length + 1).map(token)),
    element("p.note", {}, compared(branch, n_same)));
}

// How surprising a branch is, from where it parts from the current one.
function compared(branch, n_same) {
  const mean = (branch) => {
    const {length} = branch.whole.ids, from = Math.max(1, n_same);
    const bits = sum(range(length - from).map((i) => reader(branch).bits(from + i)));
    return `${length - from} tokens of ${(bits / Math.max(1, length - from)).toFixed(1)} bits`;
  };
  if (branch === panel.current) return mean(branch);
  return `the first ${n_same} as in branch ${panel.current.name}, then ${mean(branch)}; there ${mean(panel.current)}`;
}

function show_candidates() {
  const {current, place, settings} = panel, {ids} = current.whole;
  const now = ranked(reader(current).rows[place - 1].logits, settings);
  const before = new Map(panel.model ? ranked(current.whole.rows[place - 1].logits, settings) : []);
  const lost = [...before.keys()].slice(0, 3);  // the best without a head switched off
  const shown = now.filter(([id], i) => i < N_BEST || id === ids[place] || lost.includes(id));
  in_panel(".columns .lead").replaceChildren("After ", chip(ids[place - 1]),
    panel.model ? ", with heads off (filled) and with all (outlined)" : "",
    place < ids.length ? ". Another token begins a new branch." : ".");
  in_panel(".bars").replaceChildren(...shown.map(([id, p], i) => element(
    id === ids[place] ? "li.chosen" : "li", {"data-p": p},
    element("button.name", {"data-key": `candidate ${i}`, onclick: () => act(() => choose(id))}, chip(id)),
    track(p, before.get(id)), element("span.number", {}, percent(p)),
    element("span.mark", {}, before.has(id) ? `was ${percent(before.get(id))}` : ""))));
}

function draw_heads() {
  const name = (layer, head) => `layer ${layer}, head ${head}`;
  in_panel(".heads").style.setProperty("--heads", model.n_head);
  in_panel(".heads").append(...range(model.params.blocks.length).flatMap((layer) => [
    element("span", {}, `${layer}`),
    ...range(model.n_head).map((head) => element("button", {
      role: "switch", "data-key": `${layer}.${head}`, "aria-label": name(layer, head),
      title: name(layer, head), onclick: () => act(() => toggle(`${layer}.${head}`))}))]));
}

function toggle(head) {
  const heads = new Set(panel.off);
  return switch_off(heads.delete(head) ? heads : heads.add(head));
}

find("#panels").prepend(find("#live"));
draw_heads();
for (const input of find("#live").querySelectorAll("[name]")) {
  input.value = panel.settings[input.name];
  input.onchange = () => input.value && input.validity.valid
    && act(() => { panel.settings[input.name] = Number(input.value); });
}
const form = find("#edit"), area = in_panel("textarea");
find("#write").onclick = () => panel.writing ? (panel.writing = false) : act(write);
find("#again").onclick = () => act(again);
find("#all").onclick = () => act(() => switch_off(new Set()));
find("#change").onclick = () => {
  const ids = panel.current.whole.ids.filter((id) => !tokenizer.special.has(id));
  area.value = tokenizer.pieces(ids).join("");
  form.hidden = false;
  area.focus();
};
form.onreset = () => { form.hidden = true; };
form.onsubmit = (event) => {
  event.preventDefault();
  form.hidden = true;
  act(() => edit(area.value));
};
act(() => open(data.ids));
globalThis.live = {model, tokenizer, panel, Reader, ranked, draw, uniform, without, unpacked};
