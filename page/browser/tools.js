// The recorded data, the selection, and helpers for all panels.

const data = JSON.parse(document.getElementById("data").textContent);
const arrays = {};  // filled by `start`
const {passes, n_layer, n_head} = data;
const n_rows = data.ids.length - 1;  // row i predicts token i + 1
// The last new token ends the text. Like the command line, the heading does not count it.
const ended = data.ids.length > data.n_prompt && data.stop_ids.includes(data.ids.at(-1));
const has = {source: data.source.length > 0};
const PLAIN = {temperature: 1, top_k: 0, top_p: 1, min_p: 0};  // settings that change nothing
const SAMPLER = Object.keys(PLAIN);
const given = Object.fromEntries(SAMPLER.map((name) => [name, data.settings[name]]));
const state = {
  selected: data.logprobs.indexOf(Math.min(...data.logprobs.slice(data.n_prompt - 1))) + 1 || 1,
  head: null,  // the chosen head's index in HEADS; null: shownHead decides
  die: null, ...given,
};

const HEADS = range(n_layer).flatMap((layer) => range(n_head).map((head) => `${layer}.${head}`));

function stored(name, row) {  // return the part of a stored array that belongs to this row
  const n = arrays[name].length / n_rows;
  return arrays[name].subarray(row * n, (row + 1) * n);
}

// --- elements ---

// Complete a panel's sentences in page.html. An element with data-case is shown if this case is in
// `cases`. An element with data-is gets the value with this name; a <code> gets the label of an id.
function tell(selector, values, ...cases) {
  const part = find(selector);
  for (const sentence of part.querySelectorAll("[data-case]")) {
    sentence.hidden = !cases.includes(sentence.dataset.case);
  }
  for (const place of part.querySelectorAll("[data-is]")) {
    const value = values[place.dataset.is], isId = place.tagName === "CODE" && value in data.labels;
    place.textContent = isId ? label(value) : value;
  }
}

// line: a row of a table. bar: an item of a list of bars. track: a bar of length p in [0, 1].
const line = (kind, name, ...cells) => element(`tr${kind}`, element("th", {scope: "row"}, name),
  cells.map((cell) => (cell?.tagName === "TD" ? cell : element("td", cell))));
const bar = (kind, name, p, says = percent) => element(`li${kind}`,
  element("span.name", name), track(p), element("span.number", says(p)));
const track = (p) => element("span.track", {"--p": p, "aria-hidden": "true"});

// --- words ---

const label = (id) => visible(data.labels[id]);
const chip = (id) => element("code", {lang: ""}, label(id));

function percent(p) {
  if (p > 0 && p < 0.0001) return "<\u00a00.01\u00a0%";
  if (p > 0.9995 && p < 0.99999) return ">\u00a099.9\u00a0%";
  return `${(100 * p).toFixed(p >= 0.00095 || !p ? 1 : 2)}\u00a0%`;
}

// Attention weights are stored rounded: a share of them is shown without decimals.
const about = (p) => (p > 0 && p < 0.005 ? "<\u00a01\u00a0%" : `${Math.round(100 * p)}\u00a0%`);

// Return numbers from 0 to 1 as texts, with enough digits to tell them apart.
function digits(numbers, n = 4) {
  const texts = numbers.map((x) => x.toFixed(n));
  return n > 9 || new Set(texts).size === numbers.length ? texts : digits(numbers, n + 1);
}

const compact = Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 3});
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const dashed = (name) => name.replaceAll("_", "-");
const signed = (x, n = 2) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(n);
const bits = (token) => -data.logprobs[token - 1] / Math.LN2;
