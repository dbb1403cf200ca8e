// The page: draw everything once, then show what belongs to the selected token.

function select(token) {
  state.selected = Math.min(n_rows, Math.max(1, token));
  state.die = null;
  show();
}

function show() {
  for (const part of [showText, showCandidates, showAttention, showLens, showCache, showDrafts, showBeams]) {
    part();
  }
}

function facts() {
  const {model, method, seed} = data.settings, n = data.ids.length - data.n_prompt;
  const mean = sum(range(n).map((i) => bits(data.n_prompt + i))) / n;
  return [model, method, seed !== null && `seed ${seed}`, `${n} tokens`,
    `${mean.toFixed(1)} bits of surprise per token`].filter(Boolean).join(" · ");
}

document.addEventListener("keydown", (event) => {
  const goes = {ArrowLeft: -1, ArrowRight: 1, Home: -n_rows, End: n_rows}[event.key];
  if (!goes || event.target.type === "range" || event.ctrlKey || event.altKey || event.metaKey) return;
  select(state.selected + goes);
  if (find("#text").contains(document.activeElement)) find(`#token-${state.selected}`).focus();
  event.preventDefault();
});
find("#previous").onclick = () => select(state.selected - 1);
find("#next").onclick = () => select(state.selected + 1);

const title = data.pieces.join("").trim().slice(0, 60);
document.title = title ? `${title} … tokenwise` : "tokenwise";
find("#facts").textContent = facts();
drawText();
drawSliders();
drawHeads();
drawCache();
drawDrafts();
drawBeams();
show();
