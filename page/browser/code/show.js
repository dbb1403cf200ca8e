// What the page shows of a place: the strips, the source, and the values.

function show() {
  const focused = document.activeElement?.dataset?.key;
  showStory();
  showStrips();
  showWhere();
  showSource();
  showValues();
  showTour();
  writeAddress();
  if (focused) find(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function showStory() {
  const {length} = stops[state.at], {n_prompt} = data, pieces = piecesOf(data.ids);
  find("#story").replaceChildren(pieces.slice(0, n_prompt).join(""),
    element("b", pieces.slice(n_prompt, length).join("")),
    element("span", pieces.slice(length, stops.at(-1).length).join("")));
}

const piecesOf = (ids) => ids.map((id) => data.labels[id]);

function choices(selector, entries, chosen) {  // entries: [key, label, action]
  find(selector).replaceChildren(...entries.map(([key, label, onclick, kind = ""]) =>
    element(`button${kind}`, {onclick, "aria-pressed": `${key === chosen}`,
      "data-key": `${selector} ${key}`}, label)));
}

function showStrips() {
  const {pass, part} = stops[state.at], parts = partsOf(pass);
  choices("#passes", data.passes.map(({is_first, fresh}, i) =>
    [i, fresh.map(token).join(""), () => goToPass(i), is_first ? "" : ".draft"]), pass);
  const inner = parts.filter((part) => part > 0), folded = inner.length > 1 && !(part > 0);
  const fold = [inner[0], `${inner[0]}–${inner.at(-1)} ▸`, () => goTo(alike(pass, inner[0]))];
  const open = (part) => [part, `${part}`, () => goTo(alike(pass, part)),
    data.left_out.includes(part) ? ".left-out" : ""];
  choices("#parts", parts.filter((part) => !folded || !(part > 0) || part === inner[0])
    .map((part) => (folded && part === inner[0] ? fold : open(part))), part);
  const there = here();
  Object.assign(find("#line"), {max: there.length, value: there.indexOf(state.at) + 1});
  find("#count").textContent = `${there.indexOf(state.at) + 1} of ${there.length}`;
}

function showWhere() {  // the functions that called one another
  const {frame, node} = stops[state.at], chain = [];
  for (let f = frame; f !== null; f = data.callers[f]) chain.unshift(f);
  const nameAt = (i) => data.nodes[stops[i].node][1];
  const [file] = data.nodes[node];
  find("#where").replaceChildren(`${file}.py: `, ...chain.flatMap((f) => {
    const i = stops.findLastIndex((stop, i) => i <= state.at && stop.frame === f);
    if (f === frame) return [element("b", nameAt(i))];
    const attributes = {onclick: () => goTo(i), "data-key": `frame ${f}`};
    return [element("button.link", attributes, nameAt(i)), " › "];
  }));
}

// --- the source ---

function showSource() {
  const [file, , , first, , last] = data.nodes[stops[state.at].node], box = find("#source");
  const ran = new Set(stops.map(({node}) => data.nodes[node]).filter(([of]) => of === file)
    .map(([, , , line]) => line));
  box.replaceChildren(...lines[file].map((text, i) => lineOf(text, i + 1, ran.has(i + 1))));
  const inside = element("div.inside", shownOperations(state.at).map(operation));
  if (inside.children.length) box.children[last - 1].after(inside);
  showMark();
  const top = box.children[first - 1].offsetTop, bottom = top + inside.clientHeight + 60;
  if (top < box.scrollTop + 20 || bottom > box.scrollTop + box.clientHeight)
    box.scrollTop = Math.max(0, top - Math.max(20, (box.clientHeight - inside.clientHeight) / 3));
}

function lineOf(text, number, ran) {
  const [file, , , first, , last] = data.nodes[stops[state.at].node];
  const now = number >= first && number <= last;
  const kind = `${now ? ".now" : ""}${ran ? ".ran" : ""}${/^\s*(#|""")/.test(text) ? ".doc" : ""}`;
  const next = () => {
    const order = [...range(stops.length).slice(state.at + 1), ...range(state.at + 1)];
    goTo(order.find((i) => {
      const [of, , , line] = data.nodes[stops[i].node];
      return of === file && line === number;
    }));
  };
  const [code, comment] = text.split(/(?=  # )/);
  return element(`div.line${kind}`, {"data-line": number, ...ran ? {onclick: next} : {}},
    element("i", {"aria-hidden": "true"}, number === first ? `▶ ${number}` : `${number}`),
    element("span", code), comment && element("em", comment));
}

function showMark() {  // mark the part of the line that made the chosen value
  find("#source mark")?.replaceWith(...find("#source mark").childNodes);
  find("#source").normalize();
  for (const button of document.querySelectorAll(".operation"))
    button.setAttribute("aria-pressed", `${button.entry === state.chosen}`);
  if (!state.chosen) return;
  const [, , , first, column, last, end] = data.nodes[state.chosen.name];
  if (first !== last) return;
  const code = find(`[data-line="${first}"] span`), text = code.textContent;
  code.replaceChildren(text.slice(0, column), element("mark", text.slice(column, end)),
    text.slice(end));
}

// Return a line's operations, without those that say little.
function shownOperations(i) {
  return stops[i].operations.filter(({value}) => {
    const {text, shape, of, list} = data.values[value];
    return (text ?? "None") !== "None" || (shape && of !== "cache") || list?.some(isArray);
  });
}

function operation(entry) {
  const {label, value, axes} = entry, array = isArray(value);
  const made = element("button.operation", {onclick: () => choose(entry)}, element("code", label),
    element("span.shape", array ? shapeOf(value, axes) : ""),
    array && numbers(value)?.length ? thumbnail(entry)
      : element("span.value", array ? "" : wordsOf(entry),
        idsIn(entry)?.map((id) => element("code", token(id)))));
  return Object.assign(made, {entry});
}

function choose(entry) {
  Object.assign(state, {chosen: state.chosen === entry ? null : entry, bookmark: null});
  showMark();
  showValues();
  showTour();
}

// --- the values ---

function namesAt(i) {  // all names of the function when the line is about to run
  const found = {};
  for (const stop of stops.slice(0, i + 1))
    if (stop.frame === stops[i].frame) for (const entry of stop.names) found[entry.name] = entry;
  return Object.values(found);
}

function showValues() {
  const {node, frame, names} = stops[state.at], all = namesAt(state.at);
  const list = shownOperations(state.at);
  const isOther = ({value}) => data.values[value].object ?? data.values[value].of;
  const shown = all.filter((entry) => !isOther(entry)), drawn = list.filter(hasNumbers);
  showHeads([...shown, ...list]);
  const made = state.chosen ?? drawn.at(-1);
  const calls = stops[state.at + 1] && data.callers[stops[state.at + 1].frame] === frame;
  find("#chosen").replaceChildren(...made ? [element("h2", state.chosen ? "This part of the line"
    : "What the line computes", calls && element("span.note",
    " shown ahead of the calls in this line: ↓ into")), box(made, ".made")] : []);
  find("#title").textContent = `Names in ${data.nodes[node][1]}, before the line runs`;
  const isNew = (entry) => names.includes(entry);
  find("#names").replaceChildren(...shown.filter(isNew).map((entry) => box(entry, ".new")),
    ...shown.filter((entry) => !isNew(entry)).map((entry) => box(entry, "")));
  find("#others").textContent = all.filter(isOther).map(({name, value, axes}) =>
    `${name}: ${isOther({value})} ${isArray(value) ? shapeOf(value, axes) : ""}`).join("; ");
  find("#said").textContent = `line ${data.nodes[node][3]}. ${names.map((entry) =>
    `${entry.name} ${wordsOf(entry)}`).join(", ")}`;
}

const hasNumbers = ({value}) => isArray(value) && numbers(value)?.length > 0;

function showHeads(entries) {
  const counts = entries.map(({value, axes}) => data.values[value].shape?.[
    axes.slice(0, -2).indexOf("n_head")] ?? 0), n = Math.max(0, ...counts);
  find("#heads").hidden = !n;
  choices("#heads", range(n).map((head) =>
    [head, head ? `${head}` : "head 0", () => set({head})]), Math.min(state.head, n - 1));
}

function box(entry, kind) {  // a name or an operation with its value
  const {name, label = name, value, axes} = entry, {dtype, list, shape} = data.values[value];
  const array = isArray(value), arrays = (list ?? []).filter(isArray), ids = idsIn(entry);
  return element(`div.array${kind}`, element("code", label),
    kind === ".new" && element("span.tag", "new"),
    element("span.shape", array ? ` ${shapeOf(value, axes)} ${dtype}` : ` = ${wordsOf(entry)}`),
    array && !hasNumbers(entry) && product(shape) > 0
      && element("span.note", " its numbers are not in this page"),
    hasNumbers(entry) && picture({...entry, label}),
    arrays.map((value, i) => hasNumbers({value}) && element("div",
      element("p.note", `${label}[${i}]`), picture({label, value, axes}))),
    !array && ids && element("p.tokens", {lang: ""}, ids.map((id) => element("code", token(id)))));
}

async function start() {
  await load();
  const {left_out, whole, ids} = data, told = [];
  const rest = ids.slice(stops.at(-1).length);
  if (left_out.length) told.push(`The numbers of layers ${left_out[0]} to ${left_out.at(-1)} are `
    + "left out, because this page would be too large.");
  if (!whole) told.push("In the layers of the first pass, only the numbers of results are kept.");
  find("#limits").textContent = told.join(" ");
  find("#rest").hidden = !rest.length;
  find("#rest summary").textContent = `After the passes shown, ${rest.length} more tokens follow.`;
  find("#rest p").textContent = piecesOf(rest).join("");
  document.title = `${piecesOf(ids).join("").trim().slice(0, 60)} · tokenwise`;
  follow();
  drawTour();
  showTour();
  document.documentElement.dataset.ready = "true";
}

start();
