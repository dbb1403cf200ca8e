// The page: everything is drawn once, then shows what belongs to the selected token.

function select(token) {
  state.selected = Math.min(n_rows, Math.max(1, token));
  state.die = null;
  show();
}

function show() {
  showText();
  showCandidates();
  showAttention();
  showLens();
  showCache();
  showDrafts();
  showBeams();
}

function facts() {
  const {model, method, seed} = data.settings, n = data.ids.length - data.n_prompt;
  const mean = sum(range(n).map((i) => bits(data.n_prompt + i))) / Math.max(1, n);
  return [model, method, seed !== null && `seed ${seed}`, `${n} tokens`,
    `${mean.toFixed(1)} bits of surprise per token`].filter(Boolean).join(" · ");
}

document.addEventListener("keydown", (event) => {
  const step = {ArrowLeft: -1, ArrowRight: 1, Home: -n_rows, End: n_rows}[event.key];
  const elsewhere = event.target.type === "range" || event.ctrlKey || event.altKey || event.metaKey;
  if (!step || elsewhere) return;
  select(state.selected + step);
  if (find("#text").contains(document.activeElement)) find(`#token-${state.selected}`).focus();
  event.preventDefault();
});
find("#previous").onclick = () => select(state.selected - 1);
find("#next").onclick = () => select(state.selected + 1);

document.title = `${data.pieces.join("").trim().slice(0, 60)} · tokenwise`;
find("#facts").textContent = facts();
drawText();
drawSliders();
drawHeads();
drawCache();
drawDrafts();
drawBeams();
show();
