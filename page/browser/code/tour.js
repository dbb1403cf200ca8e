// Places in the run, with a question each. `at` fits the line that called the function, then, in a
// second line, the function and the stop's source. `part` chooses an operation; without it, the
// last one is shown. A place that is not in the run, or for which the question is untrue, is left
// out; `hint` says how to get it.

const TOUR = [
  {name: "embedding", at: /wte("\])?\[ids\]/,
    asks: "Which numbers stand for a token before the first layer?",
    answer: "Its row of wte: the same row wherever the token stands. If a row of wpe is added, it "
      + "is the row of the token's position."},
  {name: "mask", at: /^\S* mask = .*causal_mask/m, part: /causal_mask\([^)]*(\(\w+\))?\)$/,
    asks: "Which keys may each new token look at?",
    answer: "Its own and all earlier ones. A later key gets −1e10 (or true, which turns into −∞), "
      + "so that the softmax gives it the weight 0. If a pass reads one new token, no key is later."},
  {name: "q k v", at: /attention (qkv|q, k, v|queries|q) = /,
    asks: "What are queries, keys and values made of?",
    answer: "Of the same rows x, by three matrices, which may be stored as one. A query asks, a key "
      + "is compared with it, a value is handed on."},
  {name: "rotation", at: /^rotate return .*cos/m,
    asks: "How does attention learn where a token stands?",
    answer: "Pairs of numbers in q and k are rotated by angles that grow with the position. A "
      + "product of a query and a key then depends on their distance."},
  {name: "cache", at: /\.kv\[.*\] = |keys\.extend/,
    asks: "What does a pass leave behind for the next one?",
    answer: "The keys and values of its new tokens. Where a later pass reads them, the end of each "
      + "row says in which pass it came."},
  {name: "q @ k.T", at: /^\S*attention .*@ k/m, part: /@ k[^@]*$/,
    asks: "A head has one score for each new token and each key. Which numbers make one score?",
    answer: "The numbers of one query and those of one key: their products, added up."},
  {name: "softmax", at: /^\S*attention .*softmax\(/m, part: /^(gpt2\.)?softmax\(/,
    asks: "What is the sum of a row? Which head looks most at the first token?",
    answer: "A row is one new token's attention: it divides the weight 1 among the keys. Point at a "
      + "number, and all heads show theirs."},
  {name: "@ v", at: /^\S*attention .*@ v/m, part: /@ v(alues)?$/,
    asks: "What does each new token get?",
    answer: "A weighted mean of the values: as many numbers as one value has. How many keys there "
      + "were no longer shows."},
  {name: "all heads", at: /^\S*self_attention return|^attention return .*hstack/m,
    asks: "How do the heads come together?",
    answer: "Their results are laid side by side, one row for each token. Then a matrix mixes them."},
  {name: "cross-attention", at: /source.*\n\S*attention .*softmax\(/, part: /^(gpt2\.)?softmax\(/,
    asks: "Which tokens of the source does each token of the answer look at?",
    answer: "A row is a token of the answer, a column a token of the source. There is no mask: the "
      + "whole source is there from the beginning."},
  {name: "residual", at: /^\S+ (x =|return) x \+/m,
    asks: "Does attention replace x?",
    answer: "No, it adds to x. The end of each row says how large x is now (the root of the mean "
      + "square), and how large what was added. If that is little, the token goes on almost unchanged."},
  {name: "activation", at: /^(gelu|gelu_erf|silu) return/m,
    asks: "Does this line mix tokens, or the numbers of one token?",
    answer: "Neither: each number becomes another number by itself. Very negative ones become "
      + "about 0, large ones stay as they are."},
  {name: "last norm", at: /ln_f|norm\(x, (self\.params\["norm"\]|\*\*(stack\["norm"\]|norm\b))/,
    asks: "What does the norm do to each row?",
    answer: "It scales the row to mean square 1; a layer norm subtracts the row's mean first. Then "
      + "it multiplies by g, and a layer norm adds b, which the model has learned."},
  {name: "logits", at: /lm_head|wte\.T|\.logits\(/,
    asks: "Which matrix makes a number for each token of the vocabulary?",
    answer: "lm_head, if the model has one; else wte, the matrix that also embeds the tokens. A "
      + "logit is the product of a row of x with the token's row."},
  {name: "temperature", at: /^temperature /m, hint: "this run has no temperature: try --temperature 0.7",
    asks: "Does a temperature change the order of the tokens?",
    answer: "No. It changes how far apart they are: below 1, the best gain."},
  {name: "top-k", at: /^top_k\S* return/m, last: true, hint: "this run has no top-k: try --top-k 5",
    asks: "What happens to the tokens that are cut?",
    answer: "Their logits become −∞. The softmax gives them the probability 0."},
  {name: "draw", at: /^draw /m, last: true,
    asks: "How does one random number choose a token?",
    answer: "The running sum of the probabilities divides the line from 0 to 1: each token has "
      + "a part as long as its probability. The number falls into one of them."},
  {name: "next pass", at: /wte("\])?\[ids\]/, when: ({n_cached}) => n_cached > 0,
    asks: "What does a later pass read, if there is a cache?",
    answer: "Only what is new: the keys and values of all earlier tokens are in the cache."},
  {name: "next pass", at: /wte("\])?\[ids\]/, when: ({again}) => again.some(Boolean),
    asks: "What does a later pass compute again, without a cache?",
    answer: "The rows marked “again”, in every layer: earlier passes have already computed them, "
      + "from the same tokens. That is why there is a cache."},
];

const WHERE_TO_BEGIN = "Begin with the bookmarks, each with a question; or follow the run line by "
  + "line with step →.";

// Return a bookmark's stop: in this pass and layer if it is there, else the first one.
function stopOf({at, last, when = () => true}) {
  const fits = range(stops.length).filter((i) => when(data.passes[stops[i].pass])
    && at.test(`${stops[stops[i].caller]?.text}\n${stops[i].text}`));
  const {pass, part} = stops[state.at], inPass = fits.filter((i) => stops[i].pass === pass);
  const inPart = inPass.filter((i) => stops[i].part === part);
  const [found] = [inPart, inPass, fits].filter((some) => some.length);
  if (!found) return undefined;
  const {frame} = stops[found[0]];
  return last ? found.findLast((i) => stops[i].frame === frame) : found[0];
}

function visit(place) {
  const at = stopOf(place);
  const chosen = place.part && shownOperations(at).find(({label}) => place.part.test(label));
  set({at, row: null, cell: null, bookmark: place.name, chosen: chosen ?? null});
}

function drawTour() {
  const there = TOUR.filter((place) => place.hint || stopOf(place) !== undefined);
  find("#bookmarks").replaceChildren(...there.map((place, i) => {
    const disabled = stopOf(place) === undefined;
    return element("button", {disabled, onclick: () => visit(place), "data-key": place.name,
      title: disabled ? place.hint : place.asks}, `${i + 1} ${place.name}`);
  }));
}

function showTour() {
  const place = TOUR.findLast((one) => one.name === state.bookmark && stopOf(one) !== undefined);
  for (const button of find("#bookmarks").children)
    button.setAttribute("aria-pressed", `${button.dataset.key === state.bookmark}`);
  const [question, answer] = document.querySelectorAll("#question p");
  const asks = place?.asks ?? WHERE_TO_BEGIN;
  if (question.textContent === asks) return;
  question.textContent = asks;
  answer.textContent = place?.answer;
  Object.assign(find("#question details"), {hidden: !place, open: false});
}
