"use strict";
// Helpers for all pages.

const find = (selector) => document.querySelector(selector);
const range = (n) => Array.from({length: n}, (_, i) => i);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const clamp = (x, least, most) => Math.min(most, Math.max(least, x));

// Return the array that page.py packed as [type, deflated bytes in base64].
async function unpack([type, text]) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new globalThis[type](await new Response(stream).arrayBuffer());
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

// Let the arrow keys choose an item of a group. columns: if it is a grid, its number of columns.
function steer(group, columns, choose = (item) => item?.click()) {
  group.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const items = [...group.querySelectorAll("[tabindex]")];
    const at = items.findIndex((item) => item.tabIndex === 0), last = items.length - 1;
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at,
      End: last - at}[event.key];
    if (!step) return;
    event.preventDefault();
    choose(items[at + step]);
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

// Let the arrow keys move through a group, and choose nothing.
function steerOnly(group, columns) {
  const place = (item) => [...group.querySelectorAll("[tabindex]")].indexOf(item);
  steer(group, columns, (item) => item && mark(group, "data-at", place(item)));
  mark(group, "data-at", 0);
}

// --- words ---

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥")
  .replace(UNSEEN, (c) => `<${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)
  .replace(/^\s+$/, (spaces) => "␣".repeat(spaces.length)) || "(nothing)";
