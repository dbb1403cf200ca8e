// The text: a token's background and underline show its surprise, in bits, or where a head looked.

function drawText() {
  if (data.source.length) {
    find("#source").hidden = false;
    find("#source p").append(...data.source.map((id, i) => piece(id, data.source_pieces[i])));
  }
  find("#text").append(...data.ids.map(token));
  for (const input of document.querySelectorAll("[name=tint]")) {
    input.onchange = () => {
      state.tint = input.value;
      showText();
    };
  }
}

// The text that a token adds; a token without one, such as </s>, by its name in small letters.
function piece(id, text, kind = "", attributes = {}) {
  const [, space, word] = (text || visible(data.labels[id])).match(/^( *)(.*)$/s);
  const lines = word.replace(/[^\n]/g, "");
  const shown = word.trim() ? [word] : [element("i.silent", {}, "↵".repeat(lines.length)), word];
  const marked = element("span.word", {}, ...(word ? shown : [space]));  // its space stays plain
  return element("span" + kind + (text ? "" : ".silent"), attributes, word ? space : "", marked);
}

function token(id, i) {
  const kind = i < data.n_prompt ? ".token.prompt" : ".token";
  const attributes = {role: "option", "aria-selected": "false", tabindex: -1, id: `token-${i}`};
  if (i === 0) return piece(id, data.pieces[0], kind, {...attributes, "aria-disabled": "true"});
  return piece(id, data.pieces[i], kind, {
    ...attributes, "--surprise": Math.min(1, bits(i) / 10), onclick: () => select(i),
    "aria-label": `${visible(data.labels[id])}: ${bits(i).toFixed(1)} bits`,
  });
}

function showText() {
  const i = state.selected, text = find("#text");
  text.classList.toggle("looking", state.tint === "attention");
  find("#source").classList.toggle("looking", state.tint === "attention");
  find(`[name=tint][value=${state.tint}]`).checked = true;
  for (const hint of document.querySelectorAll("[data-tint]")) {
    hint.hidden = hint.dataset.tint !== state.tint;
  }
  for (const [place, made] of [...text.children].entries()) {
    const selected = place === i;
    made.setAttribute("aria-selected", selected);
    made.tabIndex = selected ? 0 : -1;
    made.classList.toggle("later", state.growing && place > i);
    if (selected) made.scrollIntoView({block: "nearest"});
  }
  const origin = i < data.n_prompt ? "in the prompt" : `new token ${i - data.n_prompt + 1}`;
  find("#selected").replaceChildren(
    chip(data.ids[i]), ` ${origin}: the model gave it ${percent(Math.exp(data.logprobs[i - 1]))}, `,
    element("b", {}, `${bits(i).toFixed(1)} bits`), " of surprise");
  find("#previous").disabled = i <= 1;
  find("#next").disabled = i >= n_rows;
}
