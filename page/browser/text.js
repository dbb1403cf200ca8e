// The text. A token's background and underline show its surprise or its attention weight.

function drawText() {
  find("#source").hidden = !has.source;
  find("#source p").append(...data.source.map((id, i) => piece(id, data.source_pieces[i])));
  find("#text").append(...data.ids.map(token));
  steer(find("#text"));
}

// Return a token as an element. If it adds no text, like </s>, its label appears in small type.
function piece(id, text, kind = "", attributes = {}) {
  const [, space, word] = (text || label(id)).match(/^( *)(.*)$/s);
  const lines = word.trim() ? "" : element("i.silent", "↵".repeat(word.split("\n").length - 1));
  const marked = element("span.word", word ? [lines, word] : space);  // the space has no tint
  return element(`span${kind}${text ? "" : ".silent"}`, attributes, word && space, marked);
}

function token(id, i) {
  const kind = i < data.n_prompt ? ".token.prompt" : ".token";
  const attributes = {role: "option", id: `token-${i}`, "aria-selected": "false"};
  if (i === 0) return piece(id, data.pieces[0], kind, {...attributes, "aria-disabled": "true"});
  return piece(id, data.pieces[i], kind, {
    ...attributes, tabindex: -1, "--surprise": Math.min(1, bits(i) / 10), onclick: () => select(i),
    "aria-label": `${label(id)}: ${bits(i).toFixed(1)} bits`,
  });
}

function showText() {
  const i = state.selected, n_new = i - data.n_prompt + 1;
  mark(find("#text"), "aria-selected", i - 1);
  find(`#token-${i}`).scrollIntoView({block: "nearest"});
  tell("#selected", {token: data.ids[i], place: i,
    origin: n_new > 0 ? `new token ${n_new}` : "prompt", bits: bits(i).toFixed(1),
    p: percent(Math.exp(data.logprobs[i - 1]))});
  find("#previous").disabled = i <= 1;
  find("#next").disabled = i >= n_rows;
}
