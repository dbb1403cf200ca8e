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
  for (const group of document.querySelectorAll("[role=group]"))
    stopAt(group, group.querySelector("[aria-pressed=true]") ?? group.querySelector("button"));
  for (const strip of document.querySelectorAll(".strip"))  // on a narrow screen, it scrolls
    strip.scrollLeft = (strip.querySelector("[aria-pressed=true]")?.offsetLeft ?? 80) - 80;
  if (focused) find(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function showStory() {
  const {n_prompt} = data, pieces = piecesOf(data.ids);
  const length = Math.max(n_prompt, stops[state.at].length);
  find("#story").replaceChildren(pieces.slice(0, n_prompt).join(""),
    element("b", pieces.slice(n_prompt, length).join("")),
    element("span", pieces.slice(length).join("")));
}

const shortened = (text) => (text.length > 24 ? `…${text.slice(-24)}` : text);
const piecesOf = (ids) => ids.map((id) => data.labels[id]);

function choice(key, label, chosen, attributes, kind = "") {
  const known = {"data-key": key, "aria-pressed": `${chosen}`};
  return element(`button${kind}`, {...known, ...attributes}, label);
}

function showStrips() {
  const {pass, part} = stops[state.at], {cost} = data.passes[pass], there = here();
  const mark = ({is_first, number}, i) => {  // where a text begins
    const earlier = data.passes.slice(0, i).findLast((one) => one.is_first);
    if (!is_first || !earlier || earlier.number === number) return false;
    return element("i", earlier.isEncoder ? "answer:" : "from the beginning:");
  };
  find("#passes").replaceChildren(...data.passes.flatMap(({is_first, fresh}, i) => [
    mark(data.passes[i], i),
    choice(`pass ${i}`, `${i + 1} ${shortened(fresh.map(token).join(""))}`, i === pass,
      {onclick: () => goToPass(i)}, is_first ? "" : ".draft")]).filter(Boolean));
  const sections = sectionsOf(pass), now = sections.findLast((one) => one.part === part
    && one.at <= state.at) ?? sections.find((one) => one.part === part);
  const button = ({part, name, at}) => choice(`${part} ${name}`, name, at === now.at,
    {onclick: () => goTo(name === now.name ? alike(pass, part) : at)});
  find("#parts").replaceChildren(...partsOf(pass).map((of) => element("span",
    of >= 0 && element("i", `${of}`), sections.filter((one) => one.part === of).map(button))));
  find("#count").textContent = `line ${there.indexOf(state.at) + 1} of ${there.length}`
    + (cost && ` · pass ${pass + 1}: ${cost}`);
}

function showWhere() {  // the functions that called one another
  const [file, name] = data.nodes[stops[state.at].node], chain = [];
  for (let i = stops[state.at].caller; i !== undefined; i = stops[i].caller) chain.unshift(i);
  find("#where").replaceChildren(`${file}: `, ...chain.flatMap((i) => [
    element("button.link", {onclick: () => goTo(i), "data-key": `caller ${i}`},
      data.nodes[stops[i].node][1]), " › "]), element("b", name));
}

// --- the source ---

function showSource() {
  const {node, frame, pass} = stops[state.at], box = find("#source");
  const [file, , , first, , last] = data.nodes[node];
  const runs = stops.filter((stop) => stop.frame === frame && stop.pass === pass);
  const ran = new Set(stops.map(({node}) => data.nodes[node]).filter(([of]) => of === file)
    .map(([, , , line]) => line));
  box.replaceChildren(...lines[file].map((text, i) => lineOf(text, i + 1, ran.has(i + 1), runs)));
  const inside = element("div.inside", {role: "group", "aria-label": "Parts of the line"},
    shownOperations(state.at).map(operation));
  if (inside.children.length) box.children[last - 1].after(inside);
  box.tabIndex = inside.children.length ? -1 : 0;  // so that the keyboard can scroll
  const top = box.children[first - 1].offsetTop, bottom = top + inside.clientHeight + 60;
  if (top < box.scrollTop + 20 || bottom > box.scrollTop + box.clientHeight)
    box.scrollTop = Math.max(0, top - Math.max(20, (box.clientHeight - inside.clientHeight) / 3));
}

function lineOf(text, number, ran, runs) {  // runs: the stops in this call of the function
  const [file, , , first, , last] = data.nodes[stops[state.at].node];
  const now = number >= first && number <= last;
  const kind = `${now ? ".now" : ""}${ran ? ".ran" : ""}${/^\s*(#|""")/.test(text) ? ".doc" : ""}`;
  const isHere = (i) => data.nodes[stops[i].node][0] === file
    && data.nodes[stops[i].node][3] === number;
  const next = () => goTo([...range(stops.length).slice(state.at + 1), ...range(state.at + 1)]
    .find(isHere));
  const those = runs.filter((stop) => data.nodes[stop.node][3] === number), found = costOf(those);
  const cost = found && `${those.length > 1 ? `${those.length} times: ` : ""}${found}`;
  const [code, comment] = text.split(/(?=  # )/);
  return element(`div.line${kind}`, {"data-line": number, ...ran ? {onclick: next} : {}},
    element("i", {"aria-hidden": "true"}, number === first ? `▶ ${number}` : `${number}`),
    cost && element("small", cost), element("span", marked(code, number)),
    comment && element("em", comment));
}

function marked(code, number) {  // mark the part of the line that made the chosen value
  const [, , , first, column, last, end] = data.nodes[state.chosen?.name] ?? [];
  if (first !== number || last !== number) return code;
  return [code.slice(0, column), element("mark", code.slice(column, end)), code.slice(end)];
}

// Return a line's operations, without names and others that say little.
function shownOperations(i) {
  return stops[i].operations.filter(({value, label}) => {
    if (/^(self\.)?\w+$/.test(label)) return false;  // an operand, such as x in x + y
    const {text, shape, of, list} = data.values[value];
    return (text ?? "None") !== "None" || (shape && of !== "cache") || list?.some(isArray);
  });
}

function operation(entry, i) {
  const {label, value, axes} = entry, array = isArray(value), isChosen = state.chosen === entry;
  return element("button.operation", {"aria-pressed": `${isChosen}`, "data-key": `operation ${i}`,
    onclick: () => set({chosen: isChosen ? null : entry, bookmark: null})}, element("code", label),
  element("span.shape", array ? shapeOf(value, axes) : ""),
  array && numbers(value)?.length ? thumbnail(entry)
    : element("span.value", array ? "" : wordsOf(entry),
      idsIn(entry)?.map((id) => element("code", token(id)))));
}

// --- the values ---

function showValues() {
  const {node, frame, names} = stops[state.at], all = namesAt(state.at);
  const list = shownOperations(state.at);
  const isOther = ({value}) => data.values[value].object ?? data.values[value].of;
  const shown = all.filter((entry) => !isOther(entry)), drawn = list.filter(hasNumbers);
  const made = state.chosen ?? drawn.at(-1);
  const calls = stops[state.at + 1]?.caller === state.at;
  const next = stops.find((stop, i) => i > state.at && stop.frame === frame);
  const failed = data.error?.[0] === state.at && operandsIn(state.at);
  const results = failed ? failed : made ? [made] : next?.names.filter(isFilled) ?? [];
  const title = failed ? data.error[1] : state.chosen ? "This part of the line" : !made ? "What the line changes"
    : kindOf(made) === "Store" ? "What the line writes" : "What the line computes";
  const ahead = made && calls && !failed
    && element("span.note", " shown ahead of the calls in this line: ↓ into");
  find("#chosen").replaceChildren(...failed || results.length ? [element("h2", title, ahead)] : [],
    ...results.map((entry) => box(entry, ".made")));
  find("#title").textContent = `Names in ${data.nodes[node][1]}, before the line runs`;
  const isNew = (entry) => names.includes(entry);
  find("#names").replaceChildren(...shown.filter(isNew).map((entry) => box(entry, ".new")),
    ...shown.filter((entry) => !isNew(entry)).map((entry) => box(entry, "")));
  find("#others").textContent = all.filter(isOther).map(({name, value, axes}) =>
    `${name}: ${isOther({value})} ${isArray(value) ? shapeOf(value, axes) : ""}`).join("; ");
  find("#said").textContent = `line ${data.nodes[node][3]}. ${names.map((entry) =>
    `${entry.name} ${wordsOf(entry)}`).join(", ")}`;
}

// Return both operands of the operation that failed in a stop, or [].
function operandsIn(i) {
  const seen = (k) => stops[i].operations.find(({name}) => name === k);
  const found = Object.entries(data.operands).find(([k, two]) => !seen(+k) && two.every(seen));
  return found ? found[1].map(seen) : [];
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
  find("#limits").textContent = data.limits;
  document.title = `${piecesOf(data.ids).join("").trim().slice(0, 60)} · tokenwise`;
  drawTour();
  follow();
  document.documentElement.dataset.ready = "true";
}

start();
