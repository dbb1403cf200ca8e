"use strict";
// The recorded data, what is selected, and helpers that all parts share.

const data = JSON.parse(document.getElementById("data").textContent);
const arrays = {};  // the packed ones, unpacked by `unpackAll`
const n_rows = data.ids.length - 1;  // row q is the pass at token q, which predicts token q + 1
const SAMPLER = ["temperature", "top_k", "top_p", "min_p"];
const given = Object.fromEntries(SAMPLER.map((name) => [name, data.settings[name]]));
const state = {
  selected: data.logprobs.indexOf(Math.min(...data.logprobs.slice(data.n_prompt - 1))) + 1 || 1,
  head: null,  // null: the one of the largest effect; "all": the mean; or [layer, head]
  rival: null,  // null: the best other token
  tint: "surprise", die: null, growing: false, ...given,
};

const find = (selector) => document.querySelector(selector);
const range = (n) => Array.from({length: n}, (_, i) => i);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const clamp = (x, least, most) => Math.min(most, Math.max(least, x));

// An array that Python has packed: [type, deflated bytes in base64].
async function unpack([type, text]) {
  const chars = atob(text), bytes = new Uint8Array(chars.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = chars.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new globalThis[type](await new Response(stream).arrayBuffer());
}

async function unpackAll() {
  for (const [name, packed] of Object.entries(data.arrays)) arrays[name] = await unpack(packed);
}

// element("p.note", {title: "..."}, "text", another) makes what it says. Text stays text.
function element(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  return fill(made, {...(classes.length && {class: classes.join(" ")}), ...attributes}, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// A drawing of this size in pixels, and what it shows in words.
function picture(width, height, says, ...children) {
  const viewBox = `0 0 ${width} ${height}`;
  return svg("svg", {width, height, viewBox, role: "img", "aria-label": says}, ...children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// A token as a chip: its space is visible as width, a newline as a sign.
function chip(id, extra = "") {
  return element("code.chip" + extra, {lang: ""}, visible(data.labels[id] ?? `token ${id}`));
}

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥")
  .replace(UNSEEN, (c) => `<${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)
  .replace(/^\s+$/, (spaces) => "␣".repeat(spaces.length))
  || "(nothing)";

function percent(p) {
  if (p > 0 && p < 0.0001) return "<\u00a00.01\u00a0%";
  if (p > 0.995 && p < 0.9995) return ">\u00a099\u00a0%";
  return `${(100 * p).toFixed(p >= 0.0995 ? 0 : p >= 0.00095 || !p ? 1 : 2)}\u00a0%`;
}

function count(n) {  // 12345678 -> "12.3 M"
  const [unit, name] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]
    .find(([unit]) => n >= unit) || [1, ""];
  return (n / unit).toPrecision(n / unit < 1000 && unit > 1 ? 3 : 4).replace(/\.0+$/, "") + name;
}

const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
const bits = (token) => -data.logprobs[token - 1] / Math.LN2;

// A bar of the length p in [0, 1], and an outline of the length plain.
function track(p, plain = 0) {
  return element("span.track" + (plain ? ".outlined" : ""),
    {"--p": p, "--plain": plain, "aria-hidden": "true"});
}

// A bar from the middle to the right, or for x < 0 to the left; x in [-1, 1].
const signedTrack = (x) => element("span.signed" + (x < 0 ? ".minus" : ""),
  {"--x": Math.abs(x), "aria-hidden": "true"});
