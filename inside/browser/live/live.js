// The panel: choose a token, and the model writes on; switch a head off; compare branches.

const N_NEW = 40;  // tokens that are written at once
const packed = JSON.parse(find("#model").textContent);
const [numbers, scales, words] =
  await Promise.all([packed.numbers, packed.scales, packed.words].map(unpack));
const params = restored(packed.shapes, new Int8Array(numbers.buffer), scales);
const model = new GPT2(params, packed.n_head, packed.stop_ids, packed.eps);
const [tokens, merges] = new TextDecoder().decode(words).split("\n\n").map((x) => x.split("\n"));
const tokenizer = new Tokenizer(tokens, merges, packed.special);
for (const id of range(model.n_vocab)) data.labels[id] ??= tokenizer.label(id);

// A branch is a text: `whole` has read it with the model, `part` with the model without some heads.
const panel = {
  branches: [], current: null, n_opened: 0,
  place: 0,  // of the candidates in the current text: from 1 to its length, which is its end
  off: new Set(), model: null,  // the heads that are off, as "layer.head", and the model without
  seed: data.settings.seed ?? 0, writing: false, done: Promise.resolve(),
};
const reader = ({whole, part}) => part ?? whole;
const here = (selector) => find(`#live ${selector}`);

// What is done by hand stops the writing, waits for what was done before, and shows its result.
function act(change) {
  panel.writing = false;
  panel.done = panel.done.then(change).then(show);
}

async function read(branch, ids) {
  branch.whole = await branch.whole.read(ids);
  branch.part = panel.model && await (branch.part ?? new Reader(panel.model)).read(ids);
}

// Open a branch, which shares with another what both texts begin with.
async function open(ids, from = {whole: new Reader(model)}) {
  const branch = {...from, name: `Branch ${++panel.n_opened}`};
  await read(branch, ids);
  panel.branches.push(branch);
  select(branch, ids.length);
}

function select(branch, place) {
  Object.assign(panel, {current: branch, place: clamp(place, 1, branch.whole.ids.length)});
}

function close(branch) {
  panel.branches = panel.branches.filter((other) => other !== branch);
  if (branch === panel.current) select(panel.branches[0], Infinity);
}

// Write on from the selected place, with these tokens first; what stands there stays a branch.
async function go_on(...first) {
  const {current, place} = panel, {ids} = current.whole, text = [...ids.slice(0, place), ...first];
  if (place < ids.length) await open(text, current);
  else await read(current, text);
  await write();
}

async function write() {
  const {current} = panel, end = current.whole.ids.length + N_NEW;
  panel.writing = true;
  while (panel.writing && !ended(current) && current.whole.ids.length < end) {
    const {ids, rows} = reader(current), u = uniform(panel.seed, ids.length);
    await read(current, [...ids, draw(ranked(rows.at(-1).logits, state), u)]);
    select(current, Infinity);
    show();
    await new Promise(requestAnimationFrame);
  }
  panel.writing = false;
}

const ended = ({whole: {ids}}) => model.stop_ids.includes(ids.at(-1)) || ids.length >= model.n_ctx;

async function toggle(head) {
  if (!panel.off.delete(head)) panel.off.add(head);
  panel.model = panel.off.size ? without(model, panel.off) : null;
  for (const branch of panel.branches) {
    branch.part = null;
    await read(branch, branch.whole.ids);
  }
}

// --- what is shown

function show() {
  const {activeElement: focused} = document, in_text = focused.matches("#live .token");
  here(".branches").replaceChildren(...panel.branches.map(card));
  show_candidates();
  for (const button of here(".switches").querySelectorAll("button")) {
    button.setAttribute("aria-checked", !panel.off.has(button.dataset.key));
  }
  find("#write").textContent = panel.writing ? "Stop" : "Write on";
  find("#write").disabled = ended(panel.current);
  if (in_text) here(".current [tabindex='0']").focus();
  else if (focused.dataset.key) here(`[data-key="${focused.dataset.key}"]`)?.focus();
}

// A branch. What it has in common with the current one is pale.
function card(branch) {
  const {ids} = branch.whole, {current, place, branches} = panel, chosen = branch === current;
  const same = chosen ? 0 : common(ids, current.whole.ids), pieces = tokenizer.pieces(ids);
  const at = chosen ? place : ids.length;  // where the keyboard enters
  const token = (i) => piece(ids[i], pieces[i] ?? "…", i < same ? ".token.same" : ".token", {
    role: "option", "aria-selected": `${chosen && i === at}`, tabindex: i === at ? 0 : -1,
    "--surprise": i % ids.length ? Math.min(1, reader(branch).bits(i) / 10) : 0,
    "aria-label": i < ids.length ? visible(data.labels[ids[i]]) : "what comes next",
    onclick: () => act(() => select(branch, i))});
  const onkeydown = (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (!step) return;
    event.preventDefault();
    act(() => select(branch, at + step));
  };
  const says = same ? `${plural(same, "token")} as in ${current.name}, then `
    + `${surprise(branch, same)}; there ${surprise(current, same)}` : surprise(branch, 1);
  return element(chosen ? "div.branch.current" : "div.branch", {},
    element("h3", {}, branch.name, element("button", {"aria-label": `Close ${branch.name}`,
      hidden: branches.length < 2, onclick: () => act(() => close(branch))}, "×")),
    element("div.text", {role: "listbox", "aria-label": branch.name, lang: "", onkeydown},
      ...range(ids.length + 1).map(token)),
    element("p.note", {}, says));
}

function surprise(branch, from) {
  const bits = range(branch.whole.ids.length - from).map((i) => reader(branch).bits(from + i));
  const mean = sum(bits) / (bits.length || 1);
  return `${plural(bits.length, "token")}, ${mean.toFixed(1)} bits each`;
}

function show_candidates() {
  const {current, place} = panel, {ids} = current.whole;
  const at = ({rows}) => ranked(rows[place - 1].logits, state), found = at(reader(current));
  const before = new Map(current.part ? at(current.whole) : []);  // with all heads on
  const best = new Set([...found.slice(0, 10), ...[...before].slice(0, 3)].map(([id]) => id));
  const shown = found.filter(([id]) => best.has(id) || id === ids[place]);
  here(".columns h3").replaceChildren("What could follow ", chip(ids[place - 1]));
  here(".bars").replaceChildren(...shown.map(([id, p], i) => candidate(id, p, before.get(id), i)));
}

function candidate(id, p, before, i) {
  const {current, place, branches} = panel, text = [...current.whole.ids.slice(0, place), id];
  const takers = branches.filter(({whole}) => common(text, whole.ids) > place);
  const was = before === undefined ? [] : [`was ${percent(before)}`];
  return element(takers.includes(current) ? "li.chosen" : "li", {"data-p": p, "data-token": id},
    element("button.name", {"data-key": `candidate ${i}`, onclick: () => act(() => go_on(id))},
      chip(id)),
    track(p, before), element("span.number", {}, percent(p)),
    element("small", {}, [...was, ...takers.map(({name}) => name)].join(" · ")));
}

here(".switches").style.setProperty("--heads", model.n_head);
for (const layer of range(params.blocks.length)) {
  here(".switches").append(`${layer}`, ...range(model.n_head).map((head) => {
    const key = `${layer}.${head}`, title = `layer ${layer}, head ${head}`;
    const onclick = () => act(() => toggle(key));
    return element("button", {
      role: "switch", "data-key": key, "aria-label": title, title, onclick});
  }));
}
const lost = data.filters.filter((name) => ![...SAMPLER, "min_length"].includes(name)).map(dashed);
if (lost.length) here(".lead").append(` It lacks the run's own filters: ${lost.join(", ")}.`);
const form = here("form"), area = here("textarea");
find("#write").onclick = () => (panel.writing ? panel.writing = false : act(write));
find("#seed").value = panel.seed;
find("#seed").onchange = ({target}) => act(() => {
  panel.seed = Number(target.value);
  return go_on();
});
find("#edit").onclick = () => {
  const ids = panel.current.whole.ids.filter((id) => !tokenizer.special.has(id));
  area.value = tokenizer.pieces(ids).join("");
  form.hidden = false;
  area.focus();
};
area.oninput = () => area.setCustomValidity("");
form.onreset = () => { form.hidden = true; };
form.onsubmit = (event) => {
  event.preventDefault();
  const ids = tokenizer.encode(area.value);
  if (ids.length > model.n_ctx) {
    area.setCustomValidity(`${ids.length} tokens do not fit the context of ${model.n_ctx}`);
    return area.reportValidity();
  }
  form.hidden = true;
  act(() => open(ids, panel.current));
};
addEventListener("settings", () => act(() => {}));  // of the sampler, which the sliders change
act(() => open(data.ids));
globalThis.live = {model, tokenizer, panel, Reader, ranked, draw, uniform, without};
