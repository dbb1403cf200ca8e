// The record of a run, as page/code.py packed it.
//
// A stop is a statement that ran: [node, frame, pass, part, [name or operation, value, axes, ...]].
// An operation is a node: [file, function, kind, line, column, last line, last column]. Nodes,
// frames and values are indices.

const stored = {};  // type -> all numbers of this type
const decoded = new Map();  // index of a value -> its numbers
let data, stops, lines;

async function load() {
  const packed = JSON.parse(find("#data").textContent);
  for (const [type, array] of Object.entries(packed)) stored[type] = await unpack(array);
  data = JSON.parse(new TextDecoder().decode(stored.code));
  lines = Object.fromEntries([...document.querySelectorAll("#files pre")].map((pre) =>
    [pre.id, pre.textContent.split("\n")]));
  const texts = {true: [], false: []};  // [id, pass] of what the model, and the draft model, read
  const seen = new Set();  // the beginnings of texts for which a pass has computed the last row
  data.passes = data.passes.map(([is_first, n_cached, fresh, length, isEncoder, number], i) => {
    texts[is_first] = [...texts[is_first].slice(0, n_cached), ...fresh.map((id) => [id, i])];
    const all = texts[is_first].map(([id]) => id);
    const rows = fresh.map((_, row) => `${number} ${is_first} ${all.slice(0, n_cached + row + 1)}`);
    const again = rows.map((text) => seen.has(text));
    for (const text of rows) seen.add(text);
    const cameIn = texts[is_first].map(([, pass]) => pass);
    return {is_first, n_cached, fresh, length, isEncoder, number, all, cameIn, again};
  });
  data.areIds = new Set(data.are_ids);
  stops = data.stops.map(([node, frame, pass, part, flat]) => {
    const entries = range(flat.length / 3).map((i) =>
      ({name: flat[3 * i], value: flat[3 * i + 1], axes: flat[3 * i + 2]}));
    const [file, name] = data.nodes[node], {length} = data.passes[pass];
    const placeOf = (own) => (own === "self.ids" ? "ids" : own.includes(".") ? own : `${file} ${name} ${own}`);
    return {node, frame, pass, part, length, text: `${name} ${segment(node)}`,
      names: entries.filter((entry) => typeof entry.name === "string")
        .map((entry) => ({...entry, place: placeOf(entry.name)})),
      operations: entries.filter((entry) => typeof entry.name === "number")
        .map((entry) => ({...entry, place: entry.name, label: segment(entry.name)}))};
  });
  addCosts();
}

// Add to each stop the stop that called its function, the FLOP of its products, and the bytes of
// their right operands, which are weights, keys or values; with those of the functions it called.
function addCosts() {
  const latest = {}, callers = {};
  for (const [i, stop] of stops.entries()) {
    callers[stop.frame] ??= latest[data.callers[stop.frame]];
    latest[stop.frame] = i;
    Object.assign(stop, {caller: callers[stop.frame], flop: 0, bytes: 0});
    for (const operation of stop.operations.filter((x) => kindOf(x) === "MatMult")) {
      const {shape} = data.values[operandsOf(i, operation)[1].value];
      const n_results = product(data.values[operation.value].shape ?? []);
      stop.flop += 2 * n_results * (shape.at(-2) ?? shape[0]);
      stop.bytes += 4 * product(shape);
    }
  }
  for (const [pass, one] of data.passes.entries())
    one.cost = costOf(stops.filter((stop) => stop.pass === pass));
  for (const {caller, flop, bytes} of stops.toReversed()) if (stops[caller]) {
    stops[caller].flop += flop;
    stops[caller].bytes += bytes;
  }
}

// Return the words for what these stops cost, or "".
function costOf(those) {
  const [flop, bytes] = ["flop", "bytes"].map((name) =>
    digits(sum(those.map((stop) => stop[name])) / 1e6));
  return flop === "0" ? "" : `${flop} MFLOP, ${bytes} MB`;
}

const kindOf = ({name}) => data.nodes[name]?.[2];

// Return both operands of a sum or a product. (A line may run an operation several times.)
function operandsOf(i, {name, value}) {
  const {operations} = stops[i], both = data.operands[name] ?? [];
  const at = operations.findIndex((x) => x.name === name && x.value === value);
  return both.map((one) => operations.slice(0, at).findLast((x) => x.name === one));
}

// Return all names of the function when the line is about to run.
function namesAt(i) {
  const found = {};
  for (const stop of stops.slice(0, i + 1))
    if (stop.frame === stops[i].frame) for (const entry of stop.names) found[entry.name] = entry;
  return Object.values(found);
}

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
const isArray = (value) => (data.values[value].shape ?? []).length > 0;

// Return the numbers of an array, or null if the page has only its shape. Of a row over the
// vocabulary, the page has n numbers.
function numbers(index) {
  const {shape, type, at, n} = data.values[index];
  if (!at || !product(shape)) return null;
  const size = (n ? product(shape.slice(0, -1)) * n : product(shape)) / at.length;
  if (!decoded.has(index)) decoded.set(index, at.flatMap((from) => read(type, from, size)));
  return decoded.get(index);
}

function read(type, from, size) {
  if (type !== "f2") return [...stored[type].subarray(from, from + size)];
  const bytes = stored.f2, n = bytes.length / 2;  // all low bytes, then all high bytes
  return range(size).map((i) => half(bytes[from + i] | bytes[n + from + i] << 8));
}

function half(bits) {  // a floating-point number of 16 bits
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -24 * rest);
}

// --- words ---

function digits(x, n = 3) {  // a number as a text of n digits
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "nan";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return minus(`${x}`);
  if (size < 0.001 || size >= 1e5) return minus(x.toExponential(1));
  return minus(n > 3 ? `${Number(x.toPrecision(n))}` : x.toPrecision(n));
}

const minus = (text) => text.replaceAll("-", "−").replace("e+", "e");
const token = (id) => visible(data.labels[id] ?? `${id}`);

// Return a shape with the names of its axes: [n_head 7, n_new 3, d_head 32].
function shapeOf(value, axes) {
  const {shape} = data.values[value], named = axes.length === shape.length;
  return `[${shape.map((n, i) =>
    (named && axes[i] ? `${data.spelled[axes[i]] ?? axes[i]} ${n}` : n)).join(", ")}]`;
}

function wordsOf({value, axes}, depth = 0) {  // a value that is not drawn as an array
  const {list, text, object, shape} = data.values[value];
  if (shape?.length) return shapeOf(value, axes);
  if (!list) return object ?? (Number.isNaN(Number(text)) ? text : digits(Number(text), 6));
  const shown = list.slice(0, 12).map((part) =>
    (depth > 1 ? "…" : wordsOf({value: part, axes}, depth + 1)));
  return `[${shown.join(", ")}${list.length > 12 ? ", …" : ""}]`;
}

// Return the ids in a value if it holds token ids, else null: see page/flow.py.
function idsIn({place, value}) {
  const {shape, list = [value], dtype} = data.values[value];
  if (!data.areIds.has(place)) return null;
  if (shape) return shape.length === 1 && dtype.startsWith("int") ? numbers(value) : null;
  const found = list.map((part) => data.values[part].text);
  return found.length && found.every((id) => id in data.labels) ? found : null;
}

// Return the tokens along an axis, or null. A pass reads new tokens after those in its cache.
function tokensAlong(axis, n) {
  const {pass} = stops[state.at], {fresh, all} = data.passes[pass];
  const encoder = data.passes.slice(0, pass + 1).findLast(({isEncoder}) => isEncoder);
  const found = {n_new: fresh, n_all: all, last: fresh.slice(-n), n_source: encoder?.fresh}[axis];
  return found?.length === n ? found.map(token) : null;
}

// Return the source of a node in one line.
function segment(node) {
  const [file, , , line, column, last, end] = data.nodes[node], source = lines[file];
  if (line === last) return source[line - 1].slice(column, end);
  return [source[line - 1].slice(column), ...source.slice(line, last - 1),
    source[last - 1].slice(0, end)].map((text) => text.trim()).join(" ");
}
