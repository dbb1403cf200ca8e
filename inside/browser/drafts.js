// Speculation as a bet: each draft x is worth min(1, p(x) / q(x)), and a number u decides.

const betting = passes.some((pass) => pass.bets.length);
const rounds = passes.filter((pass) => outcomes(pass).length);

// The outcome of each draft of a pass, and the token that came after them, if one did.
function outcomes(pass) {
  const {bets, accepted, known} = pass, last = known + accepted;
  const drafts = bets.map(([token, , , u], i) => ({token, kind: i < accepted ? "accepted"
    : i === accepted && u !== null ? "rejected" : "unread"}));
  const own = last < data.ids.length && passes[passOf(last)] === pass;
  return own ? [...drafts, {token: data.ids[last], kind: "own"}] : drafts;
}

function drawDrafts() {
  find("#drafts").hidden = !betting;
  if (!betting) return;
  const all = rounds.map(outcomes), total = (name) => sum(passes.map((pass) => pass[name]));
  const n = (kind) => all.flat().filter((outcome) => outcome.kind === kind).length;
  tell("#drafts .lead", {passes: passes.length, new: data.ids.length - data.n_prompt,
    accepted: n("accepted"), rejected: n("rejected"), own: n("own"), unread: n("unread"),
    model: compact.format(total("multiply_adds")), drafter: compact.format(total("drafting"))});
  const draft = ({token, kind}) => element(`span.draft.${kind}`, {title: kind}, chip(token));
  fill(find("#drafts ol"), {"--columns": Math.max(...all.map((drafts) => drafts.length))},
    rounds.map((pass, i) => element("li", element("button", {tabindex: -1, "aria-pressed": "false",
      "data-pass": passes.indexOf(pass), onclick: () => select(Math.min(n_rows, pass.known))},
    element("span.at", `${passes.indexOf(pass)}`), all[i].map(draft)))));
  steer(find("#drafts ol"), 1);
}

function showDrafts() {
  if (!betting) return;
  const at = passOf(state.selected), pass = passes[at], {bets, residual, last, accepted} = pass;
  const list = find("#drafts ol"), chosen = list.children[rounds.indexOf(pass)];
  mark(list, "aria-pressed", rounds.indexOf(pass));
  if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2;
  const place = pass.known + accepted, came = data.ids[place];  // the pass's own token
  const how = !bets.length ? "none" : came === undefined ? "end" : drawOf(place)[0];
  tell("#bets", {pass: at, came, rejected: bets[accepted]?.[0], u: last?.[0].toFixed(2)},
    how, bets.length && "bets");
  find("#bets tbody").replaceChildren(...bets.map((bet, i) => betLine(bet, i < accepted)));
  find("#bets ol").replaceChildren(...how === "residual" ? residual.map(([id, p]) =>
    bar(id === came ? ".chosen" : "", chip(id), p)) : []);
}

function betLine([token, q, p, u], won) {
  const untested = element("td", {colspan: 2}, "not tested: a draft before it was rejected");
  if (u === null) return line(".unread", chip(token), percent(q), "–", untested);
  const least = q > 0 ? Math.min(1, p / q) : 1;
  const says = `min(1, p/q) ${least.toFixed(2)}, u ${u.toFixed(2)}`;
  return line(won ? ".accepted" : ".rejected", chip(token), percent(q), percent(p),
    element("td.bet", {"--u": u}, track(least), element("span.dot", {"aria-hidden": "true"}),
      element("span.number", says)), "");
}
