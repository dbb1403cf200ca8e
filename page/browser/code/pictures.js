// Pictures of arrays: numbers in a table if they fit, else a row of coloured cells for each row. An
// entry is {name, label, value, axes}.

const MOST_CELLS = 448;  // in a row of a picture: of more numbers, the largest are shown
const MOST_ROWS = 12;  // of a small picture
const BLUE = [0, 114, 178], RUST = [184, 74, 0];  // below and above 0

const isMasked = (x) => !Number.isFinite(x) || x <= -1e9;

// Return an array's shape and axes. In Llama, heads that share keys lie in one matrix: here, each
// has its own.
function layoutOf({value, axes}) {
  const {shape} = data.values[value], n_new = data.passes[stops[state.at].pass].fresh.length;
  if (axes.at(-2) !== "n_group n_new") return {shape, axes};
  const [n_shared, n_rows, n_columns] = shape.slice(-3);
  return {shape: [...shape.slice(0, -3), n_shared * n_rows / n_new, n_new, n_columns],
    axes: [...axes.slice(0, -3), "n_head", "n_new", axes.at(-1)]};
}

// Return the matrix of the last two axes for each head. index: the place in the axes before, such
// as 0 for keys and 1 for values.
function matricesOf(entry, index = []) {
  const {shape, axes} = layoutOf(entry), all = numbers(entry.value);
  const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1)];
  const heads = axes.slice(0, -2).findIndex((axis) => /^n_(kv_)?head$/.test(axis));
  const found = range(heads < 0 ? 1 : shape[heads]).map((head) => {
    const before = shape.slice(0, -2).map((_, i) => (i === heads ? head : index[i] ?? 0));
    const from = before.reduce((offset, j, i) => offset * shape[i] + j, 0) * rows * columns;
    const at = (i, j) => all[from + i * columns + j];
    const place = (i, j) => `[${[...before, ...shape.length > 1 ? [i] : [], j].join(", ")}]`;
    return {rows, columns, at, place, most: mostOf(all.slice(from, from + rows * columns))};
  });
  return onOneScale(found);
}

function onOneScale(matrices) {
  const scale = Math.max(...matrices.map(({most}) => most)) || 1;
  return matrices.map((matrix) => ({...matrix, scale}));
}

const mostOf = (numbers) =>
  numbers.reduce((most, x) => (isMasked(x) ? most : Math.max(most, Math.abs(x))), 0);

// Return [{name, matrix, chosen, go}]: the heads of an array, or what the calls of one line have
// made at this place, because pico/ calls `attention` once for each head.
function sideBySide(entry, index) {
  const own = matricesOf(entry, index), head = Math.min(state.head, own.length - 1);
  if (own.length > 1) return own.map((matrix, i) =>
    ({name: `head ${i}`, matrix, chosen: i === head, go: () => set({head: i})}));
  const {node, caller} = stops[state.at], shape = `${data.values[entry.value].shape}`;
  const calls = range(stops.length).filter((i) => stops[i].node === node
    && stops[i].caller === caller && caller !== undefined);
  const isAlone = new Set(calls.map((i) => stops[i].frame)).size < 2;
  const others = isAlone ? [undefined] : calls.map((i) => [...namesAt(i), ...stops[i].operations].find(({name, value}) =>
    name === entry.name && `${data.values[value].shape}` === shape && numbers(value)));
  if (others.includes(undefined)) return [{matrix: own[0], chosen: true}];
  const kind = /attention$/.test(data.nodes[node][1]) ? "head" : "call";
  const all = onOneScale(others.map(({value}) => matricesOf({...entry, value}, index)[0]));
  return all.map((matrix, k) => ({name: `${kind} ${k}`, matrix, chosen: calls[k] === state.at,
    go: () => goTo(calls[k])}));
}

function colour(x, scale) {  // [red, green, blue, opacity]
  if (isMasked(x)) return [128, 128, 128, 90];
  return [...x < 0 ? BLUE : RUST, 255 * Math.min(1, Math.abs(x) / scale) ** 0.7];
}

function largest({at}, i, from, to) {  // the number of the largest size in a part of a row
  let found = at(i, from);
  for (let j = from + 1; j < to; j++) if (Math.abs(at(i, j)) > Math.abs(found)) found = at(i, j);
  return found;
}

function canvasOf(matrix, most_rows, most_columns) {
  const width = Math.min(matrix.columns, most_columns), height = Math.min(matrix.rows, most_rows);
  const canvas = element("canvas", {width, height, "aria-hidden": "true"});
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const first = (p) => Math.floor(p * matrix.columns / width);
  for (const i of range(height)) for (const p of range(width)) {
    const x = largest(matrix, i, first(p), first(p + 1));
    image.data.set(colour(x, matrix.scale), 4 * (i * width + p));
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function thumbnail(entry) {  // a small picture beside an operation
  if (data.values[entry.value].n) return bestTable(entry, 3);
  const matrices = matricesOf(entry), canvas = small(matrices[state.head] ?? matrices[0], 112);
  const {rows} = matrices[0];
  const more = rows > MOST_ROWS && element("small", `${MOST_ROWS} of ${rows} rows`);
  return element("span", canvas, more);
}

function small(matrix, width) {
  const canvas = canvasOf(matrix, MOST_ROWS, width);
  canvas.style.width = `${canvas.width < 10 ? 12 * canvas.width : width}px`;
  canvas.style.height = `${clamp(6 * canvas.height, 10, 48)}px`;
  return canvas;
}

function picture(entry) {  // an array in full
  if (data.values[entry.value].n) return [chooseRow(entry), bestTable(entry)];
  if (entry.axes[0] !== "k|v") return drawn(entry);
  return ["keys", "values"].flatMap((name, i) => [element("p.note", name), drawn(entry, [i])]);
}

// Draw a matrix, with all heads above it. The pointer or the arrow keys choose one of its numbers,
// which the heads then show, too.
function drawn(entry, index = []) {
  const side = sideBySide(entry, index), {matrix, name} = side.find(({chosen}) => chosen);
  const {rows, columns, at, place, most} = matrix, [axis, last] = layoutOf(entry).axes.slice(-2);
  const key = `${entry.label} ${index}`, isSmall = columns <= 12 && rows <= 16;
  const down = tokensAlong(axis, rows);
  const across = tokensAlong(last, columns) ?? (rows === 1 && idsIn(entry)?.map(token));
  const [made, view, point] = (isSmall ? tableOf : gridOf)(matrix, down, across,
    endsOf(entry, matrix));
  const heads = side.length < 2 ? [] : side.map((one) => choice(`${key} ${one.name}`,
    [small(one.matrix, 64), one.name, element("span", "\u00a0")], one.chosen, {onclick: one.go}));
  const rest = [name, !isSmall && `up to ±${digits(most)}`,
    columns > MOST_CELLS && `${columns} numbers in ${MOST_CELLS} cells`].filter(Boolean);
  const says = element("p.note", {"aria-live": "polite"}, rest.join(" · "));
  steerCells(made.querySelector("table, .cells"), matrix, view, key, (i, j) => {
    const words = [name, down?.[i], across?.[j]].filter(Boolean).join(", ");
    says.textContent = `${place(i, j)} = ${digits(at(i, j), 4)}${words && ` (${words})`}`;
    const found = side.map((one) => one.matrix.at(i, j)), best = Math.max(...found);
    for (const [k, {lastChild}] of heads.entries())
      Object.assign(lastChild, {textContent: digits(found[k]),
        className: found[k] === best ? "most" : ""});
    point(i, j);
  });
  return element("div", heads.length > 0
    && element("div.heads", {role: "group", "aria-label": "Heads"}, heads), says, made);
}

// Let the pointer and the keys choose a number of a picture. look(row, column) shows it. The place
// stays if the reader goes to another head, or to the same line in another layer or pass.
function steerCells(cells, {rows, columns, at}, view, key, look) {
  let [row, column] = [0, 0];
  const choose = (i, j) => {
    [row, column] = [clamp(i, 0, rows - 1), clamp(j, 0, columns - 1)];
    state.cell = [key, row, column];
    look(row, column);
  };
  const extreme = (sign) => range(rows * columns).map((k) => [Math.floor(k / columns), k % columns])
    .filter((k) => !isMasked(at(...k)))
    .reduce((best, k) => (sign * at(...k) > sign * at(...best) ? k : best));
  const moved = {ArrowUp: () => [row - 1, column], ArrowDown: () => [row + 1, column],
    ArrowLeft: () => [row, column - 1], ArrowRight: () => [row, column + 1],
    Home: () => extreme(-1), End: () => extreme(1)};
  fill(cells, {tabindex: 0, role: "application", "data-key": `${key} cells`,
    "aria-label": "the numbers: arrow keys move from one to the next, Home and End to the least "
      + "and the greatest",
    onfocus: () => choose(row, column),
    onpointerdown: (event) => choose(...view(event) ?? [row, column]),
    onpointermove: (event) => choose(...view(event) ?? [row, column]),
    onkeydown: (event) => {
      if (!moved[event.key] || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      choose(...moved[event.key]());
    }});
  if (state.cell?.[0] === key) choose(...state.cell.slice(1));
}

// Return what stands at the end of each row: the pass in which it came, its size in the residual
// stream, the size of what the line added, and whether an earlier pass has computed it already.
function endsOf(entry, matrix) {
  const {pass} = stops[state.at], {cameIn, n_cached, again} = data.passes[pass];
  const [axis, last] = layoutOf(entry).axes.slice(-2), isWide = last === "n_embd";
  const isSum = isWide && kindOf(entry) === "Add", parts = isSum ? operandsOf(state.at, entry) : [];
  const isWhole = parts.every((part) => part && hasNumbers(part) && part.axes.at(-2) === axis);
  const [before, added] = isWhole ? parts.map((part) => matricesOf(part)[0]) : [];
  const cameAt = (i) => (cameIn[i] === pass ? element("b", "new") : `pass ${cameIn[i] + 1}`);
  return range(matrix.rows).map((i) => [
    axis === "n_all" && n_cached > 0 && cameAt(i),
    isWide && `rms ${before ? `${digits(size(before, i), 2)} → ` : ""}${digits(size(matrix, i), 2)}`,
    added && `added ${digits(size(added, i), 2)}`,
    (axis === "n_new" || axis === "n_all" && !n_cached) && again[i]
      && element("span.again", "again"),
  ].filter(Boolean));
}

const size = ({at, columns}, i) =>  // the root of the mean square of a row
  Math.sqrt(sum(range(columns).map((j) => at(i, j) ** 2)) / columns);

// Return [the picture, event -> [row, column], (row, column) -> mark it].
function tableOf({rows, columns, at, scale}, down, across, ends) {
  const cell = ([r, g, b, a]) => `rgb(${r} ${g} ${b} / ${a / 425})`;
  const cells = range(rows).map((i) => range(columns).map((j) =>
    element("td", {"--cell": cell(colour(at(i, j), scale))}, digits(at(i, j)))));
  const body = cells.map((row, i) => element("tr",
    down && element("th", {scope: "row", lang: ""}, down[i]), row,
    ends[i].length > 0 && end("td.end", ends[i])));
  const table = element("table.numbers", across && element("thead", element("tr",
    down && element("td"), across.map((text) => element("th", {scope: "col", lang: ""}, text)))),
  element("tbody", body));
  const placeOf = ({target}) =>
    cells.map((row, i) => [i, row.indexOf(target)]).find(([, j]) => j >= 0);
  return [element("div.scroll", table), placeOf, (i, j) => {
    table.querySelector(".at")?.classList.remove("at");
    cells[i][j].classList.add("at");
    if (document.activeElement !== table) return;
    cells[i][j].scrollIntoView({block: "nearest", inline: "nearest"});
  }];
}

const end = (kind, parts) => element(kind, parts.flatMap((part) => [part, " "]));

function gridOf(matrix, down, across, ends) {  // a row of cells for each row
  const {rows, columns} = matrix, cursor = element("span.cursor", {hidden: true});
  const canvas = canvasOf(matrix, rows, MOST_CELLS);
  const cells = element("div.cells", {"--w": 1 / columns, "--h": 1 / rows}, canvas, cursor);
  const words = down && element("div.words", {lang: ""}, down.map((text) => element("span", text)));
  const made = element("div.grid", {"--rows": rows}, words, cells,
    ends.flat().length > 0 && element("div.words.ends", ends.map((x) => end("span.end", x))));
  const placeOf = ({offsetX, offsetY}) => [Math.floor(offsetY / canvas.clientHeight * rows),
    Math.floor(offsetX / canvas.clientWidth * columns)];
  return [made, placeOf, (i, j) =>
    fill(cursor, {hidden: false, "--x": j / columns, "--y": i / rows})];
}

// --- rows over the vocabulary: a table of the tokens that the page has ---

const rowsOf = ({value}) => product(data.values[value].shape.slice(0, -1));
const rowIn = (entry) => Math.min(state.row ?? Infinity, rowsOf(entry) - 1);

function chooseRow(entry) {  // buttons to choose one of several rows
  const n = rowsOf(entry), words = tokensAlong("n_new", n) ?? range(n);
  return n > 1 && element("div.rows", {role: "group", "aria-label": "Row"}, words.map((text, i) =>
    element("button", {"aria-pressed": `${i === rowIn(entry)}`, "data-key": `row ${i}`,
      onclick: () => set({row: i})}, `after ${text}`)));
}

function bestTable(entry, most) {
  const {shape, ids, n, dtype, order, true: n_true} = data.values[entry.value];
  const n_all = shape.at(-1), from = rowIn(entry) * n;
  const all = numbers(entry.value).slice(from, from + n);
  const size = Math.max(...all.map((x) => (isMasked(x) ? 0 : Math.abs(x)))) || 1;
  const bar = (x) => element("td", element("span.track", {"aria-hidden": "true",
    "--p": isMasked(x) ? 0 : Math.abs(x) / size}));
  const those = [...stored.i4.subarray(ids + from, ids + from + n)];
  const names = {best: those.map(token), steps: those.map((id) => `${token(id)} ${id}`)}[order];
  const table = element("table.best", all.slice(0, most ?? n).map((x, i) =>
    element("tr", names && element("th", {scope: "row", lang: ""}, names[i]),
      element("td", dtype === "bool" ? `${x === 1}` : digits(x, dtype === "float64" ? 6 : 3)),
      !most && bar(x))));
  const what = {
    best: `${n} of ${n_all} tokens: the best 10, the text's next, and those beside a filter's cut`,
    moved: `the largest of ${n_all} numbers, which are no longer in the order of the ids`,
    steps: `${n} of ${n_all} tokens, in the order of their ids: at each, the sum grows`,
  };
  return most ? table : element("div", element("p.note",
    dtype === "bool" ? `true for ${n_true} of ${n_all} tokens` : what[order]), table);
}
