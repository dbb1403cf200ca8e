// The rounds of speculation: what was drafted, what the model accepted, its own token.

const SIGNS = {accepted: "✓", rejected: "✗", unread: "", corrected: "+"};

function drawDrafts() {
  const drafted = sum(passes.map((pass) => pass.drafts.length));
  if (!drafted) return;
  find("#drafts").hidden = false;
  const accepted = sum(passes.map((pass) => pass.accepted));
  find("#drafts .lead").textContent = `The model accepted ${accepted} of ${drafted} drafts (✓), `
    + "and after the first that it rejected (✗) it drew its own (+). Each line is a pass.";
  find("#drafts ol").append(...passes.map(round));
}

function round({drafts, known, accepted}) {
  const last = known + accepted;
  const button = (kind, id, place) => element(`button.${kind}`,
    {onclick: () => select(Math.min(place, last)), title: kind}, SIGNS[kind], chip(id));
  const buttons = drafts.map((id, i) => button(
    i < accepted ? "accepted" : i === accepted ? "rejected" : "unread", id, known + i));
  if (last < data.ids.length) buttons.push(button("corrected", data.ids[last], last));
  return element("li", {"data-from": known, "data-to": last}, ...buttons);
}

function showDrafts() {
  for (const line of find("#drafts ol").children) {
    const {from, to} = line.dataset;
    const selected = from <= state.selected && state.selected <= to;
    line.classList.toggle("selected", selected);
    const list = line.parentElement;
    if (selected) list.scrollTop = line.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
}
