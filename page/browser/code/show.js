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
  makeStops();
  if (focused) find(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function showStory() {
  const {length} = stops[state.at], {n_prompt} = data, pieces = piecesOf(data.ids);
  find("#story").replaceChildren(pieces.slice(0, n_prompt).join(""),
    element("b", pieces.slice(n_prompt, length).join("")),
    element("span", pieces.slice(length, stops.at(-1).length).join("")));
}

const piecesOf = (ids) => ids.map((id) => data.labels[id]);

function choice(key, label, chosen, onclick, kind = "") {
  return element(`button${kind}`, {onclick, "aria-pressed": `${chosen}`, "data-key": key}, label);
}

function showStrips() {
  const {pass, part} = stops[state.at], {cost} = data.passes[pass], there = here();
  find("#passes").replaceChildren(...data.passes.map(({is_first, fresh}, i) =>
    choice(`pass ${i}`, `${i + 1} ${fresh.map(token).join("")}`, i === pass, () => goToPass(i),
      is_first ? "" : ".draft")));
  const sections = sectionsOf(pass), now = sectionAt(state.at, sections);
  find("#parts").replaceChildren(...partsOf(pass).map((of) => element("span",
    of >= 0 && element("i", `${of}`), sections.filter((one) => one.part === of).map((one) =>
      choice(`part ${of} ${one.name}`, one.name, one === now, () =>
        goTo(one.name === now.name ? alike(pass, of) : one.at),
      data.left_out.includes(of) ? ".left-out" : "")))));
  for (const strip of ["#passes", "#parts"])
    find(`${strip} [aria-pressed=true]`).scrollIntoView({block: "nearest", inline: "nearest"});
  find("#count").textContent = `line ${there.indexOf(state.at) + 1} of ${there.length}`
    + (cost && ` · pass ${pass + 1}: ${cost}`);
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
    ran && element("small", costAt(number)), element("span", code), comment && element("em", comment));
}

function costAt(number) {  // what a line costs in this call of the function, in this pass
  const {frame, pass} = stops[state.at];
  return costOf((stop) => stop.frame === frame && stop.pass === pass
    && data.nodes[stop.node][3] === number);
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
  makeStops();
  writeAddress();
}

// --- the values ---

function showValues() {
  const {node, frame, names} = stops[state.at], all = namesAt(state.at);
  const list = shownOperations(state.at);
  const isOther = ({value}) => data.values[value].object ?? data.values[value].of;
  const shown = all.filter((entry) => !isOther(entry)), drawn = list.filter(hasNumbers);
  const made = state.chosen ?? drawn.at(-1);
  const calls = stops[state.at + 1] && data.callers[stops[state.at + 1].frame] === frame;
  const next = stops.find((stop, i) => i > state.at && stop.frame === frame);
  const changed = made ? [] : next?.names.filter((x) => isFilled(x)) ?? [];
  const [title] = [state.chosen && "This part of the line", made && kindOf(made) === "Store"
    && "What the line writes", made && "What the line computes", "What the line changes"].filter(Boolean);
  find("#chosen").replaceChildren(...made || changed.length ? [element("h2", title, made && calls
    && element("span.note", " shown ahead of the calls in this line: ↓ into")),
  ...[made ?? changed].flat().map((entry) => box(entry, ".made"))] : []);
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
const isFilled = ({value}) =>
  hasNumbers({value}) || data.values[value].list?.some((part) => hasNumbers({value: part}));

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
  find("#rest summary").textContent = `After the passes shown, the text goes on (${rest.length}).`;
  find("#rest p").textContent = piecesOf(rest).join("");
  document.title = `${piecesOf(ids).join("").trim().slice(0, 60)} · tokenwise`;
  follow();
  drawTour();
  showTour();
  document.documentElement.dataset.ready = "true";
}

start();
