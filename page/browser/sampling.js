// The filters of samplers.py, in the same order, applied to the stored logits.

const N_EXTRA = 12;  // of n stored tokens, the first n - N_EXTRA are surely the best of all tokens

// Return the probabilities of the stored tokens before the cut (tempered) and after it (probs), the
// sum for all others (others), and how many tokens each setting keeps (cuts). exact is false if a
// cut falls among the others, as only their sum is known. cut: is any token known to be cut off?
// logits: sorted, after the first filters; -Infinity: removed. rest: log of the sum of exp((logit -
// best) / temperature) over the others. last: what the filters after the sliders add to the logits.
// left: the share of the others' probability that is left after these last filters. own: what
// candidates.py stored about the run, if the settings are the run's.
function probabilities(logits, rest, last, left, {temperature, top_k, top_p, min_p}, own) {
  const weights = Array.from(logits, (logit) => Math.exp((logit - logits[0]) / (temperature || 1)));
  const atLeast = (least) => weights.filter((weight) => weight >= least).length;
  let others = Math.exp(rest), kept = weights.length, exact = true, cuts = {};
  const n_sure = others > 0 ? kept - N_EXTRA : kept, all = sum(weights) + others;
  const cutAt = (name, least) => {
    cuts[name] = kept = Math.min(kept, atLeast(least));
    others = 0;
  };
  if (top_k && top_k <= n_sure) cutAt("top_k", weights[top_k - 1]);
  else if (top_k && others) exact = false;
  if (top_p < 1) {
    const goal = (top_p - 1e-6) * (sum(weights.slice(0, kept)) + others);
    let mass = 0;
    const place = weights.findIndex((weight, i) => (mass += weight) >= goal || i === kept - 1);
    if (place < n_sure) cutAt("top_p", weights[place]);
    else [others, exact] = [Math.max(0, goal - mass), false];
  }
  if (min_p && others && weights[n_sure - 1] >= min_p)
    [kept, exact] = [Math.min(kept, atLeast(min_p)), false];
  else if (min_p) cutAt("min_p", min_p);  // the largest weight is 1
  let final = weights.map((weight, i) => (i < kept ? weight * Math.exp(last[i]) : 0));
  if (others && left > 0 && left < 1) exact = false;
  others *= left;
  if (own && !exact) {  // the cut falls among the others
    others = sum(final) * own.hidden / (1 - own.hidden);
    [kept, exact] = [own.kept, true];
  }
  if (temperature === 0) {  // greedy
    const best = final.indexOf(Math.max(...final));
    final = final.map((_, i) => Number(i === best));
    [others, exact, kept] = [0, true, best + 1];
    cuts = {temperature: kept};
  }
  const total = sum(final) + others;
  const probs = final.map((weight) => weight / total);
  return {tempered: temperature === 0 ? probs : weights.map((weight) => weight / all), probs,
    others: others / total, cuts, kept, exact, own,
    cut: own ? own.kept < data.n_vocab : exact && Object.keys(cuts).length > 0};
}

// Return a row's stored tokens with their probabilities after each step of the sampler. The tokens
// are in the order of their logits after the first filters.
function chain(row, settings) {
  const [ids, raw, filters, added, by] = ["best", "logits", "first", "last", "by"].map((name) =>
    stored(name, row));
  const first = raw.map((logit, i) => logit + filters[i]);
  const isOwn = SAMPLER.every((name) => settings[name] === given[name]);
  const own = isOwn && settings.temperature > 0 && Object.fromEntries(
    ["hidden", "kept", "mass"].map((name) => [name, stored(name, row)[0]]));
  const sampled = (settings, own) => {
    const rest = stored("rest", row)[data.temperatures.indexOf(settings.temperature || 1)];
    return probabilities(first, rest, added, stored("left", row)[0], settings,
      own);
  };
  const found = sampled(settings, own), {tempered} = sampled(PLAIN);
  const came = ids.indexOf(data.ids[row + 1]);
  const base = raw[came] - data.logprobs[row];  // log of the sum of exp(logit) over the vocabulary
  let so_far = 0, below = 0;
  const tokens = Array.from(ids, (id, i) => {
    const early = first[i] === -Infinity;
    so_far += found.tempered[i];
    return {id, rank: i, model: Math.exp(raw[i] - base), filtered: tempered[i],
      tempered: found.tempered[i], so_far, p: found.probs[i], early,
      height: early ? raw[i] : first[i], by: data.filters[by[i] - 1] ?? ""};
  });
  for (const token of tokens.toSorted((a, b) => a.id - b.id)) {  // samplers.draw uses this order
    token.below = own ? stored("below", row)[token.rank] / 65535 : below;
    below += token.p;
  }
  return {...found, tokens, came,
    changed: tokens.some((token) => Math.abs(token.filtered - token.model) > 1e-4)};
}
