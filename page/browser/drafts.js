// Speculation as a bet: a draft x is accepted if a random number u is below min(1, p(x) / q(x)).

const betting = passes.some((pass) => pass.bets.length);
const rounds = passes.filter((pass) => outcomes(pass).length);
// At first, the page shows the rejected draft with the largest p, because its numbers are clearest.
const [clearest] = passes.filter((pass) => pass.residual.length)
  .sort((a, b) => b.bets[b.accepted][2] - a.bets[a.accepted][2]);
if (clearest) state.selected = clearest.known + clearest.accepted;

// Return what became of each draft of a pass, and the token that the model itself added, if any.
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
  const all = rounds.map(outcomes), {work} = data, n_read = sum(passes.map((pass) => pass.new));
  const n = (kind) => all.flat().filter((outcome) => outcome.kind === kind).length;
  const share = (all) => percent(n("accepted") / (all || 1));
  const tested = n("accepted") + n("rejected");
  tell("#drafts .lead", {passes: passes.length, new: data.ids.length - data.n_prompt,
    of_tested: share(tested), of_proposed: share(tested + n("unread")),
    accepted: n("accepted"), rejected: n("rejected"), own: n("own"), unread: n("unread"),
    after: n("own") - n("rejected"), model: compact.format(work), drafter:
    compact.format(data.drafting), plain: compact.format(work * n_rows / n_read)},
  passes[0].new < data.n_prompt && "prompt", ended && "ended");
  const draft = ({token, kind}) => element(`span.draft.${kind}`, {title: kind}, chip(token));
  fill(find("#drafts ol"), {"--columns": Math.max(...all.map((drafts) => drafts.length))},
    rounds.map((pass, i) => element("li", element("button", {tabindex: -1, "aria-pressed": "false",
      "data-pass": passes.indexOf(pass), onclick: () => select(Math.min(n_rows, pass.known))},
    element("span.at", `${passes.indexOf(pass) + 1}`), all[i].map(draft)))));
  steer(find("#drafts ol"), 1);
}

function showDrafts() {
  if (!betting) return;
  const at = passOf(state.selected), pass = passes[at], {bets, residual, accepted} = pass;
  const list = find("#drafts ol"), chosen = list.children[rounds.indexOf(pass)];
  mark(list, "aria-pressed", rounds.indexOf(pass));
  if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2;
  const place = pass.known + accepted, came = data.ids[place];  // what the model itself added
  const [drawn, ...slice] = drawOf(place), [u, from, to] = digits(slice);
  const how = !outcomes(pass).length ? "prompt" : !bets.length ? "none"
    : came === undefined ? "end" : drawn;
  tell("#bets", {pass: at + 1, came, rejected: bets[accepted]?.[0], u, from, to},
    how, bets.length && "bets");
  find("#bets tbody").replaceChildren(...bets.map((bet, i) => betLine(bet, i < accepted)));
  find("#residual tbody").replaceChildren(...residual.map(([id, p, q, left]) =>
    line(id === came ? ".chosen" : "", chip(id), exactly(p), exactly(q),
      exactly(Math.max(0, p - q)), exactly(left), track(left))));
}

const exactly = (p) => `${Number((100 * p).toPrecision(3))}\u00a0%`;

function betLine([token, q, p, u], won) {
  const untested = element("td", {colspan: 2}, "not tested: a draft before it was rejected");
  if (u === null) return line(".unread", chip(token), exactly(q), "–", untested);
  const least = q > 0 ? Math.min(1, p / q) : 1, [ratio, die] = digits([least, u]);
  const says = `min(1, p/q) ${ratio}, u ${die}`;
  return line(won ? ".accepted" : ".rejected", chip(token), exactly(q), exactly(p),
    element("td.bet", {"--u": u}, track(least), element("span.dot", {"aria-hidden": "true"}),
      element("span.number", says)), "");
}
