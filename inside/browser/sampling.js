// samplers.py in the page: the same filters in the same order, over the logits that are stored.

// logits: the best ones, falling; only the last, the token that came, may be far below. rest: log
// of the sum of exp((logit - best) / temperature) of all others, which are not stored.
// -> the probability of each stored token, and of all others together. exact: false where a filter
// cuts among the others, of which only the sum is known.
function probabilities(logits, rest, {temperature, top_k, top_p, min_p}) {
  if (temperature === 0) {
    return {probs: Array.from(logits, (_, i) => (i === 0 ? 1 : 0)), others: 0, exact: true};
  }
  const weights = Array.from(logits, (logit) => Math.exp((logit - logits[0]) / temperature));
  const atLeast = (least) => weights.filter((weight) => weight >= least).length;
  const n_sure = weights.length - 1;  // none of the others is above one of these
  let others = Math.exp(rest), kept = weights.length, exact = true;
  if (top_k && top_k <= n_sure) {
    kept = atLeast(weights[top_k - 1]);
    others = 0;
  }
  if (top_p < 1) {
    const goal = top_p * (sum(weights.slice(0, kept)) + others);
    let mass = 0, last = 0;
    while (last < kept - 1 && (mass += weights[last]) < goal) last++;
    exact = last < n_sure || others === 0;
    if (exact) kept = Math.min(kept, atLeast(weights[last]));
    others = exact ? 0 : Math.max(0, goal - mass);
  }
  if (min_p) {
    kept = Math.min(kept, atLeast(min_p));  // the best weight is 1
    if (others && weights[n_sure - 1] >= min_p) exact = false;
    else others = 0;
  }
  const total = sum(weights.slice(0, kept)) + others;
  const probs = weights.map((weight, i) => (i < kept ? weight / total : 0));
  return {probs, others: others / total, exact};
}

// The first token, best first, whose cumulative probability exceeds u in [0, 1); -1: another one.
function drawn(probs, u) {
  let mass = 0;
  return probs.findIndex((p) => (mass += p) > u);
}

const best = unpack(data.best, Uint32Array);
const logits = unpack(data.logits, Float32Array);
const rest = unpack(data.rest, Float32Array);

// What is stored of a row, best first.
const storedIds = (row) => best.subarray(row * data.n_best, (row + 1) * data.n_best);
const storedLogits = (row) => logits.subarray(row * data.n_best, (row + 1) * data.n_best);

function probabilitiesAt(row, settings) {
  const {temperatures} = data, t = temperatures.indexOf(settings.temperature);  // -1 for 0, greedy
  return probabilities(storedLogits(row), rest[row * temperatures.length + t], settings);
}
