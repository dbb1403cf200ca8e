// samplers.py in the page: the same filters in the same order, over the logits that are stored.

// logits: the best ones, falling (the last may be far below: it is the token that came); rest:
// log of the sum of exp((logit - best) / temperature) of the others, which are not stored.
// -> the probability of each stored token and of all others together, which sum to 1. exact: false
// where a filter cuts among the others, of which only the sum is known.
function probabilities(logits, rest, {temperature, top_k, top_p, min_p}) {
  if (temperature === 0) return {probs: Array.from(logits, (_, i) => +(i === 0)), others: 0, exact: true};
  const weights = Array.from(logits, (logit) => Math.exp((logit - logits[0]) / temperature));
  const from = (least) => weights.filter((weight) => weight >= least).length;
  const n_sure = weights.length - 1;  // none of the others is above these
  let others = Math.exp(rest), kept = weights.length, exact = true;
  if (top_k && top_k <= n_sure) [kept, others] = [from(weights[top_k - 1]), 0];
  if (top_p < 1) {
    const goal = top_p * (sum(weights.slice(0, kept)) + others);
    let mass = 0, last = 0;
    while (last < kept - 1 && (mass += weights[last]) < goal) last++;
    if (last < n_sure || others === 0) [kept, others] = [Math.min(kept, from(weights[last])), 0];
    else [others, exact] = [Math.max(0, goal - mass), false];
  }
  if (min_p) {
    kept = Math.min(kept, from(min_p));  // the best weight is 1
    if (others && weights[n_sure - 1] >= min_p) exact = false;
    else others = 0;
  }
  const total = sum(weights.slice(0, kept)) + others;
  return {probs: weights.map((weight, i) => i < kept ? weight / total : 0), others: others / total, exact};
}

// The first token, best first, whose cumulative probability exceeds u in [0, 1); -1: another one.
function drawn(probs, u) {
  let mass = 0;
  return probs.findIndex((p) => (mass += p) > u);
}

const best = unpack(data.best, Uint32Array);
const logits = unpack(data.logits, Float32Array);
const rest = unpack(data.rest, Float32Array);

// What is stored for one row: ids and logits, best first, and the rest at a temperature.
function stored(row) {
  const [from, to] = [row * data.n_best, (row + 1) * data.n_best];
  return {ids: best.subarray(from, to), logits: logits.subarray(from, to)};
}

function restAt(row, temperature) {
  const n = data.temperatures.length;
  const place = data.temperatures.findIndex((t) => Math.abs(t - temperature) < 1e-9);
  return rest[row * n + place];
}

function probabilitiesAt(row, settings) {
  return probabilities(stored(row).logits, restAt(row, settings.temperature), settings);
}
