// Speculation as a bet: each draft x is worth min(1, p(x) / q(x)), and a number u decides.

const betting = passes.some((pass) => pass.bets.length);
const SIGNS = {accepted: "✓", rejected: "✗", unread: "·", own: "+"};

// The outcome of each draft of a pass, and the token that came after them, if one did.
function outcomes(pass) {
  const {bets, accepted, known} = pass;
  const kinds = bets.map(([token], i) => ({token, kind: i < accepted ? "accepted"
    : i === accepted && bets[i][3] !== null ? "rejected" : "unread"}));
  const last = known + accepted, own = last < data.ids.length && passes[passOf(last)] === pass;
  return own ? [...kinds, {token: data.ids[last], kind: "own"}] : kinds;
}

function drawDrafts() {
  find("#drafts").hidden = !betting;
  if (!betting) return;
  const n = data.ids.length - data.n_prompt, all = passes.flatMap(outcomes);
  const of = (kind) => all.filter((outcome) => outcome.kind === kind).length;
  find("#drafts .lead").replaceChildren(element("b", {}, `${passes.length} readings of the weights`
    + ` for ${n} tokens`), " (pass 0 reads the prompt). A cheap drafter guesses ahead; one pass of"
    + ` the model tests all guesses. It accepted ${of("accepted")} (✓), rejected ${of("rejected")}`
    + ` (✗) and drew ${of("own")} itself (+); ${of("unread")} drafts after a rejected one count for`
    + " nothing (·). Reading the weights is what takes the time, so fewer readings are faster,"
    + ` though they compute more: ${count(sum(passes.map((pass) => pass.multiply_adds)))}`
    + ` multiply-adds, and ${count(sum(passes.map((pass) => pass.drafting)))} of the drafter's.`);
  const widest = Math.max(...passes.map((pass) => outcomes(pass).length));
  const rounds = [...passes.entries()].filter(([, pass]) => outcomes(pass).length);
  const mark = ({token, kind}) => element(`span.draft.${kind}`, {title: kind},
    element("span", {"aria-label": kind}, SIGNS[kind]), chip(token));
  find("#drafts ol").append(...rounds.map(([i, pass]) => element("li", {"--columns": widest},
    element("button", {"data-pass": i, tabindex: -1, onkeydown: movePass,
      onclick: () => select(Math.min(n_rows, pass.known))},
    element("span.at", {}, `${i}`), ...outcomes(pass).map(mark)))));
}

function movePass(event) {
  const line = event.currentTarget.parentElement, {key} = event;
  const next = key === "ArrowUp" ? line.previousSibling : key === "ArrowDown" && line.nextSibling;
  if (!next) return;
  event.preventDefault();
  next.firstChild.click();
  next.firstChild.focus();
}

function showDrafts() {
  if (!betting) return;
  const at = passOf(state.selected), pass = passes[at], list = find("#drafts ol");
  for (const button of list.querySelectorAll("button")) {
    const selected = button.dataset.pass === `${at}`, line = button.parentElement;
    button.setAttribute("aria-pressed", selected);
    button.tabIndex = selected ? 0 : -1;
    if (selected) list.scrollTop = line.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
  find("#bets h3").textContent = `The bets of pass ${at}`;
  find("#bets tbody").replaceChildren(...pass.bets.map((bet, i) => betLine(bet, i, pass)));
  find("#bets table").hidden = !pass.bets.length;
  find("#residual").replaceChildren(...afterwards(pass));
}

function betLine([token, q, p, u], i, {accepted}) {
  const name = element("th", {scope: "row"}, chip(token));
  if (u === null) {
    return element("tr.unread", {}, name, element("td", {}, percent(q)), element("td", {}, "–"),
      element("td", {colspan: 2}, "not tested: a draft before it was rejected"));
  }
  const least = q > 0 ? Math.min(1, p / q) : 1, won = i < accepted;
  const says = `${won ? "u below it: accepted" : "u not below it: rejected"}`;
  return element(won ? "tr.accepted" : "tr.rejected", {}, name, element("td", {}, percent(q)),
    element("td", {}, percent(p)), element("td.bet", {"--least": least, "--u": u},
      element("span.track", {"--p": least, "aria-hidden": "true"}),
      element("span.dot", {"aria-hidden": "true"}),
      element("span.number", {}, `min(1, p/q) ${least.toFixed(2)}, u ${u.toFixed(2)}`)),
    element("td", {}, element("span", {"aria-hidden": "true"}, won ? "✓" : "✗"),
      element("span.unseen", {}, says)));
}

// Where the pass's own token came from.
function afterwards({residual, last, accepted, bets, known}) {
  const place = known + accepted;
  if (!bets.length) return ["No drafts: the pass gave its own token, as without speculation."];
  if (!last || place >= data.ids.length) return ["The text ended here."];
  if (drawOf(place)[0] === "best") return ["Then the model's best token: ", chip(data.ids[place])];
  if (!residual.length) {
    return ["All drafts passed, so the last row of the same pass gave one more token, from p: ",
      chip(data.ids[place]), ` (u ${last[0].toFixed(2)}).`];
  }
  const bar = ([id, p]) => element(id === data.ids[place] ? "li.chosen" : "li", {},
    element("span.name", {}, chip(id)), track(p), element("span.number", {}, percent(p)));
  return [element("p", {}, "In the place of ", chip(bets[accepted][0]), ", from what p has more"
    + " than q, max(0, p − q), which makes the whole exactly p: ", chip(data.ids[place]),
  ` (u ${last[0].toFixed(2)})`), element("ol.bars", {}, ...residual.map(bar))];
}
