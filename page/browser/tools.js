"use strict";
// The recorded data, the selection, and helpers for all panels.

const data = JSON.parse(document.getElementById("data").textContent);
const arrays = {};  // filled by `start`
const {passes, n_layer, n_head} = data;
const n_rows = data.ids.length - 1;  // row i predicts token i + 1
const has = {parts: data.unit !== null, source: data.source.length > 0};
const PLAIN = {temperature: 1, top_k: 0, top_p: 1, min_p: 0};  // settings that change nothing
const SAMPLER = Object.keys(PLAIN);
const given = Object.fromEntries(SAMPLER.map((name) => [name, data.settings[name]]));
const state = {
  selected: data.logprobs.indexOf(Math.min(...data.logprobs.slice(data.n_prompt - 1))) + 1 || 1,
  head: null,  // the chosen head's index in HEADS; null: shownHead decides
  rival: null,  // the token to compare with the generated one; null: the best other token
  die: null, ...given,
};

const find = (selector) => document.querySelector(selector);
const range = (n) => Array.from({length: n}, (_, i) => i);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const clamp = (x, least, most) => Math.min(most, Math.max(least, x));
const HEADS = range(n_layer).flatMap((layer) => range(n_head).map((head) => `${layer}.${head}`));

// Return the array that page.py packed as [type, deflated bytes in base64].
async function unpack([type, text]) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new globalThis[type](await new Response(stream).arrayBuffer());
}

function stored(name, row) {  // return the part of a stored array that belongs to this row
  const n = arrays[name].length / n_rows;
  return arrays[name].subarray(row * n, (row + 1) * n);
}

// --- elements ---

// Return a new element, for example element("p.note", {title: "..."}, "text", child).
function element(name, ...content) {
  const [tag, ...classes] = name.split(".");
  return fill(document.createElement(tag), {class: classes.join(" ")}, ...content);
}

// Add children and texts. {name: value} sets an attribute, a --variable, a handler or a boolean.
function fill(made, ...content) {
  for (const part of content.flat()) {
    if (part?.constructor !== Object) made.append(part || "");
    else for (const [name, value] of Object.entries(part)) {
      if (name.startsWith("--")) made.style.setProperty(name, value);
      else if (["function", "boolean"].includes(typeof value)) made[name] = value;
      else made.setAttribute(name, value);
    }
  }
  return made;
}

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

// line: a row of a table. bar: an item of a list of bars. track: a bar of length p in [0, 1], and
// its outline of length plain. signedTrack: a bar from the middle to the right, or left if x < 0.
const line = (kind, name, ...cells) => element(`tr${kind}`, element("th", {scope: "row"}, name),
  cells.map((cell) => (cell?.tagName === "TD" ? cell : element("td", cell))));
const bar = (kind, name, p, plain) => element(`li${kind}`, element("span.name", name),
  track(p, plain), element("span.number", percent(p)));
const track = (p, plain = 0) =>
  element("span.track", {"--p": p, "--plain": plain, "aria-hidden": "true"});
const signedTrack = (x, most) => element(x < 0 ? "span.signed.minus" : "span.signed",
  {"--x": Math.min(1, Math.abs(x) / most), "aria-hidden": "true"});

// Let the arrow keys choose an item of a group. columns: if it is a grid, its number of columns.
function steer(group, columns) {
  group.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const items = [...group.querySelectorAll("[tabindex]")];
    const at = items.findIndex((item) => item.tabIndex === 0), last = items.length - 1;
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at,
      End: last - at}[event.key];
    if (!step) return;
    event.preventDefault();
    items[at + step]?.click();
    items[at + step]?.focus();
  };
}

// Mark the chosen item of a group. Tab stops there, or at the first item if none is chosen.
function mark(group, attribute, chosen) {
  const items = [...group.querySelectorAll("[tabindex]")];
  for (const item of items.filter((item) => item.tabIndex === 0)) {
    fill(item, {[attribute]: "false", tabindex: -1});
  }
  fill(items[Math.max(0, chosen)], {[attribute]: `${chosen >= 0}`, tabindex: 0});
}

// --- words ---

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥")
  .replace(UNSEEN, (c) => `<${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)
  .replace(/^\s+$/, (spaces) => "␣".repeat(spaces.length)) || "(nothing)";
const label = (id) => visible(data.labels[id]);
const chip = (id) => element("code", {lang: ""}, label(id));

function percent(p) {
  if (p > 0 && p < 0.0001) return "<\u00a00.01\u00a0%";
  if (p > 0.9995 && p < 0.99999) return ">\u00a099.9\u00a0%";
  return `${(100 * p).toFixed(p >= 0.00095 || !p ? 1 : 2)}\u00a0%`;
}

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
