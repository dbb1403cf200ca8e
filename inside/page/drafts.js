// The rounds of speculation: what was drafted, what the model accepted, its own token.

function drawDrafts() {
  const drafting = passes.filter((pass) => pass.drafts.length);
  if (!drafting.length) return;
  find("#drafts").hidden = false;
  const drafted = sum(drafting.map((pass) => pass.drafts.length));
  const accepted = sum(drafting.map((pass) => pass.accepted));
  find("#drafts .lead").textContent = `The model accepted ${accepted} of ${drafted} drafts (✓), and after`
    + " the first that it rejected (✗) it drew its own (+). Each line is one pass.";
  find("#drafts ol").append(...passes.map(round));
}

function round({drafts, known, accepted}) {
  const chips = drafts.map((id, i) => {
    const kind = i < accepted ? "accepted" : i === accepted ? "rejected" : "unread";
    return element("button." + kind, {onclick: () => select(known + Math.min(i, accepted))},
      {accepted: "✓", rejected: "✗", unread: ""}[kind], chip(id));
  });
  const last = known + accepted;
  if (last < data.ids.length) {
    chips.push(element("button.corrected", {onclick: () => select(last)}, "+", chip(data.ids[last])));
  }
  return element("li", {"data-from": known, "data-to": last}, ...chips);
}

function showDrafts() {
  for (const line of find("#drafts ol").children) {
    const {from, to} = line.dataset;
    const selected = from <= state.selected && state.selected <= to;
    line.classList.toggle("selected", selected);
    if (selected) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 100;
  }
}
