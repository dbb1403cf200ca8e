// Pictures of arrays: numbers in a table if they fit, else a row of coloured cells for each row. An
// entry is {name, label, value, axes}.

const MOST_CELLS = 448;  // in a row of a picture: of more numbers, the largest are shown
const BLUE = [0, 114, 178], RUST = [184, 74, 0];  // below and above 0

const isMasked = (x) => !Number.isFinite(x) || x <= -1e9;

// Return the matrix of the last two axes, at `index` of those before. Of heads, the chosen one.
function matrixOf({value, axes}, index = []) {
  const {shape} = data.values[value], found = numbers(value);
  const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1)];
  const before = shape.slice(0, -2).map((n, i) =>
    index[i] ?? (axes[i] === "n_head" ? Math.min(state.head, n - 1) : 0));
  const from = before.reduce((offset, j, i) => offset * shape[i] + j, 0) * rows * columns;
  const shown = found.slice(from, from + rows * columns);
  const most = shown.reduce((most, x) => (isMasked(x) ? most : Math.max(most, Math.abs(x))), 0);
  const head = axes.slice(0, -2).indexOf("n_head");
  return {rows, columns, scale: most || 1, at: (i, j) => shown[i * columns + j],
    head: head < 0 ? "" : `head ${before[head]}`,
    place: (i, j) => `[${[...before, ...shape.length > 1 ? [i] : [], j].join(", ")}]`};
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
  const canvas = canvasOf(matrixOf(entry), 12, 112), {width, height} = canvas;
  canvas.style.width = `${width < 10 ? 12 * width : 112}px`;
  canvas.style.height = `${clamp(6 * height, 10, 40)}px`;
  return canvas;
}

function picture(entry) {  // an array in full
  if (data.values[entry.value].n) return [chooseRow(entry), bestTable(entry)];
  if (entry.axes[0] !== "k|v") return drawn(entry);
  return ["keys", "values"].flatMap((name, i) => [element("p.note", name), drawn(entry, [i])]);
}

function drawn(entry, index) {
  const {axes} = entry, matrix = matrixOf(entry, index), {rows, columns} = matrix;
  const down = tokensAlong(axes.at(-2), rows);
  const across = tokensAlong(axes.at(-1), columns) ?? (rows === 1 && idsIn(entry)?.map(token));
  return (columns <= 12 && rows <= 16 ? tableOf : gridOf)(matrix, down, across);
}

function tableOf({rows, columns, at, scale, head}, down, across) {
  const cell = ([r, g, b, a]) => `rgb(${r} ${g} ${b} / ${a / 425})`;
  return element("div.scroll", element("table.numbers", head && element("caption.note", head),
    across && element("thead", element("tr", down && element("td"),
      across.map((text) => element("th", {scope: "col", lang: ""}, text)))),
    element("tbody", range(rows).map((i) => element("tr",
      down && element("th", {scope: "row", lang: ""}, down[i]), range(columns).map((j) =>
        element("td", {"--cell": cell(colour(at(i, j), scale))}, digits(at(i, j)))))))));
}

// Return a picture with a row of cells for each row. The pointer or the arrows choose a number.
function gridOf(matrix, down, across) {
  const {rows, columns, at, place, scale, head} = matrix;
  const canvas = canvasOf(matrix, rows, MOST_CELLS), cursor = element("span.cursor");
  const more = columns > MOST_CELLS && `${columns} numbers in ${MOST_CELLS} cells`;
  const rest = [head, `up to ±${digits(scale)}`, more].filter(Boolean).join(" · ");
  const says = element("p.note", {"aria-live": "polite"}, rest);
  let [row, column] = [0, 0];
  const look = (i, j) => {
    [row, column] = [clamp(i, 0, rows - 1), clamp(j, 0, columns - 1)];
    const words = [head, down?.[row], across?.[column]].filter(Boolean).join(", ");
    const number = `${place(row, column)} = ${digits(at(row, column), 4)}`;
    says.textContent = words ? `${number} (${words})` : number;
    fill(cursor, {"--x": column / columns, "--y": row / rows});
  };
  const extreme = (sign) => range(rows * columns).map((k) => [Math.floor(k / columns), k % columns])
    .filter((k) => !isMasked(at(...k)))
    .reduce((best, k) => (sign * at(...k) > sign * at(...best) ? k : best));
  const leave = () => { says.textContent = rest; };
  const moved = {ArrowUp: () => [row - 1, column], ArrowDown: () => [row + 1, column],
    ArrowLeft: () => [row, column - 1], ArrowRight: () => [row, column + 1],
    Home: () => extreme(-1), End: () => extreme(1)};
  const cells = element("div.cells", {tabindex: 0, role: "application", "--w": 1 / columns,
    "--h": 1 / rows, "aria-label": "the numbers: arrow keys move from one to the next, "
      + "Home and End to the least and the greatest",
    onfocus: () => look(row, column), onblur: leave, onpointerleave: leave,
    onpointermove: ({offsetX, offsetY}) => look(Math.floor(offsetY / canvas.clientHeight * rows),
      Math.floor(offsetX / canvas.clientWidth * columns)),
    onkeydown: (event) => {
      if (!moved[event.key] || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      look(...moved[event.key]());
    }}, canvas, cursor);
  const words = down && element("div.words", {lang: ""}, down.map((text) => element("span", text)));
  return element("div", says, element("div.grid", {"--rows": rows}, words, cells));
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
    best: `${n} of ${n_all} tokens: the best by the model's logits, and the text's next`,
    moved: `the largest of ${n_all} numbers, which are no longer in the order of the ids`,
    steps: `${n} of ${n_all} tokens in the order of their ids, around the text's next: at each, `
      + "the sum grows",
  };
  return most ? table : element("div", element("p.note",
    dtype === "bool" ? `true for ${n_true} of ${n_all} tokens` : what[order]), table);
}
