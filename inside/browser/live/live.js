// The panel: go on with the text from any candidate, edit it, switch heads off, compare branches.

const N_NEW = 40;  // tokens that are written at once
const packed = JSON.parse(find("#model").textContent);
const [numbers, scales, text] =
  await Promise.all([packed.numbers, packed.scales, packed.words].map(unpack));
const params = restored(packed.shapes, new Int8Array(numbers.buffer), scales);
const model = new GPT2(params, packed.n_head, packed.stop_ids, packed.eps);
const words = new TextDecoder().decode(text).split("\n");  // the vocabulary, then the merges
const tokenizer = new Tokenizer(words.slice(0, packed.n_tokens), words.slice(packed.n_tokens), packed.special);
for (const id of range(model.n_vocab)) data.labels[id] ??= tokenizer.label(id);

// A branch is a text: `whole` has read it with the model, `part` with the model without some heads.
const panel = {
  branches: [], current: null, n_opened: 0,
  place: 0,  // of the candidates in the current text: from 1 to its length, which is its end
  off: new Set(), model: null,  // the heads that are off, as "layer.head", and the model without
  seed: data.settings.seed ?? 0, writing: false, says: "", done: Promise.resolve(),
};
const reader = ({whole, part}) => part ?? whole;
const here = (selector) => find(`#live ${selector}`);

// What is done by hand stops the writing, waits for what was done before, and shows its result.
function act(change) {
  panel.writing = false;
  panel.done = panel.done.then(() => {
    panel.says = "";
    return change();
  }).then(show);
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

// Put a token at the selected place, in a new branch if one stands there already, and write on.
async function choose(id) {
  const {current, place} = panel, {ids} = current.whole, chosen = [...ids.slice(0, place), id];
  if (place < ids.length) await open(chosen, current);
  else await read(current, chosen);
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

async function another() {  // from the selected place, with the next seed
  const {current, place} = panel;
  panel.seed++;
  await open(current.whole.ids.slice(0, place), current);
  await write();
}

function edit(text) {
  const ids = tokenizer.encode(text);
  if (ids.length && ids.length <= model.n_ctx) return open(ids, panel.current);
  panel.says = `${plural(ids.length, "token")}: a text has 1 to ${model.n_ctx}.`;
}

async function switch_off(heads) {
  panel.off = heads;
  panel.model = heads.size ? without(model, heads) : null;
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
  find("#seed").value = panel.seed;
  here("[role=status]").textContent = panel.says;
  if (in_text) here(".current [tabindex='0']").focus();
  else if (focused.dataset.key) here(`[data-key="${focused.dataset.key}"]`)?.focus();
}

// A branch. What it has in common with the current one is pale.
function card(branch) {
  const {ids} = branch.whole, {current, place} = panel, is_current = branch === current;
  const same = is_current ? 0 : common(ids, current.whole.ids), pieces = tokenizer.pieces(ids);
  const at = is_current ? place : ids.length;  // where the keyboard enters
  const token = (i) => piece(ids[i], pieces[i] ?? "…", i < same ? ".token.same" : ".token", {
    role: "option", "aria-selected": `${is_current && i === at}`, tabindex: i === at ? 0 : -1,
    "--surprise": i % ids.length ? Math.min(1, reader(branch).bits(i) / 10) : 0,
    "aria-label": i < ids.length ? visible(data.labels[ids[i]]) : "what comes next",
    onclick: () => act(() => select(branch, i))});
  const onkeydown = (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (!step) return;
    event.preventDefault();
    act(() => select(branch, at + step));
  };
  return element(is_current ? "div.branch.current" : "div.branch", {},
    element("h3", {}, branch.name, element("button", {"aria-label": `Close ${branch.name}`,
      hidden: panel.branches.length < 2, onclick: () => act(() => close(branch))}, "×")),
    element("div.text", {role: "listbox", "aria-label": branch.name, lang: "", onkeydown},
      ...range(ids.length + 1).map(token)),
    element("p.note", {}, same ? `${plural(same, "token")} as in the chosen branch, then `
      + `${surprise(branch, same)}; there ${surprise(current, same)}` : surprise(branch, 1)));
}

function surprise(branch, from) {
  const n = branch.whole.ids.length - from, mean = sum(range(n).map((i) => reader(branch).bits(from + i))) / (n || 1);
  return `${plural(n, "token")} of ${mean.toFixed(1)} bits`;
}

function show_candidates() {
  const {current, place, branches} = panel, {ids} = current.whole;
  const at = ({rows}) => ranked(rows[place - 1].logits, state), found = at(reader(current));
  const before = new Map(current.part ? at(current.whole) : []);
  const best = [...found.slice(0, 10), ...[...before].slice(0, 3)].map(([id]) => id);
  const shown = found.filter(([id]) => best.includes(id) || id === ids[place]);
  here(".columns h3").replaceChildren("After ", chip(ids[place - 1]));
  here(".bars").replaceChildren(...shown.map(([id, p], i) => {
    const taken = branches.filter(({whole}) => common(ids.slice(0, place), whole.ids) === place && whole.ids[place] === id);
    const notes = [before.has(id) && `was ${percent(before.get(id))}`, ...taken.map(({name}) => name)];
    return element(id === ids[place] ? "li.chosen" : "li", {"data-p": p},
      element("button.name", {"data-key": `candidate ${i}`, onclick: () => act(() => choose(id))}, chip(id)),
      track(p, before.get(id)), element("span.number", {}, percent(p)),
      element("small", {}, notes.filter(Boolean).join(" · ")));
  }));
}

function draw_switches() {
  here(".switches").style.setProperty("--heads", model.n_head);
  for (const layer of range(model.params.blocks.length)) {
    here(".switches").append(element("span", {}, `${layer}`), ...range(model.n_head).map((head) => {
      const key = `${layer}.${head}`, name = `layer ${layer}, head ${head}`;
      const onclick = () => act(() => switch_off(panel.off.symmetricDifference(new Set([key]))));
      return element("button", {role: "switch", "data-key": key, "aria-label": name, title: name, onclick});
    }));
  }
}

const form = here("form"), area = here("textarea");
draw_switches();
find("#write").onclick = () => (panel.writing ? panel.writing = false : act(write));
find("#another").onclick = () => act(another);
find("#all").onclick = () => act(() => switch_off(new Set()));
find("#seed").onchange = ({target}) => act(() => { panel.seed = Math.floor(target.value); });
find("#edit").onclick = () => {
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
find("#candidates").addEventListener("input", () => act(() => {}));  // the sliders
act(() => open(data.ids));
globalThis.live = {model, tokenizer, panel, Reader, ranked, draw, uniform, without};
