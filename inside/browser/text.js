// The text: a token's background and underline show its surprise, in bits.

function drawText() {
  if (data.source.length) {
    find("#source").hidden = false;
    find("#source p").append(...data.source.map((id, i) => piece(id, data.source_pieces[i])));
  }
  find("#text").append(...data.ids.map(token));
}

// The text that a token adds; a token without one, such as </s>, by its name in small letters.
function piece(id, text, kind = "", attributes = {}) {
  const [, space, word] = (text || data.labels[id]).match(/^( *)(.*)$/s);
  const marked = element("span.word", {}, word || space);  // its space stays uncoloured
  return element("span" + kind + (text ? "" : ".silent"), attributes, word ? space : "", marked);
}

function token(id, i) {
  const kind = i < data.n_prompt ? ".token.prompt" : ".token";
  const attributes = {role: "option", "aria-selected": "false", tabindex: -1, id: `token-${i}`};
  if (i === 0) return piece(id, data.pieces[0], kind, {...attributes, "aria-disabled": "true"});
  return piece(id, data.pieces[i], kind, {
    ...attributes, "--surprise": Math.min(1, bits(i) / 10), onclick: () => select(i),
    "aria-label": `${data.labels[id]}: ${bits(i).toFixed(1)} bits`,
  });
}

function showText() {
  const i = state.selected;
  for (const made of find("#text").children) {
    const selected = made.id === `token-${i}`;
    made.setAttribute("aria-selected", selected);
    made.tabIndex = selected ? 0 : -1;
  }
  const origin = i < data.n_prompt ? "in the prompt" : `new token ${i - data.n_prompt + 1}`;
  find("#selected").replaceChildren(
    chip(data.ids[i]), ` ${origin}: the model gave it ${percent(Math.exp(data.logprobs[i - 1]))}, `,
    element("b", {}, `${bits(i).toFixed(1)} bits`), " of surprise");
  find("#previous").disabled = i <= 1;
  find("#next").disabled = i >= n_rows;
}
