// Twelve places in the run, with a question each. The test of a place gets a stop's function and
// source; `part` chooses an operation of the line, and the last is chosen without it.

const TOUR = [
  {name: "mask", at: (name) => name === "causal_mask", last: true,
    asks: "Which keys may each new token look at?",
    answer: "Its own and all earlier ones: there the mask is 0. Where a key is later it is "
      + "−1e10, so that the softmax gives it the weight 0. If a pass reads one new token, "
      + "no key is later."},
  {name: "q @ k.T", at: (name) => name === "attention", part: (text) => text.includes("@"),
    asks: "A head has one score for each new token and each key. Which numbers make one score?",
    answer: "The d_head numbers of one query (a row of q, divided by the root of d_head) and "
      + "those of one key: their products, added up."},
  {name: "softmax", at: (name) => name === "attention", part: (text) => text.startsWith("softmax("),
    asks: "What is the sum of a row?",
    answer: "1. A row is one new token's attention: how it divides its weight among the keys."},
  {name: "@ v", at: (name) => name === "attention",
    asks: "Why does the result have the shape of q again?",
    answer: "Each new token gets a weighted mean of the values: d_head numbers, as many as one "
      + "value has. How many keys there were no longer shows."},
  {name: "c_proj", at: (name, text) => name === "GPT2.self_attention" && text.startsWith("return"),
    asks: "How do the heads come together?",
    answer: "merge_heads lays their d_head numbers side by side: n_head times d_head is n_embd. "
      + "c_proj, a matrix [n_embd, n_embd], mixes them."},
  {name: "residual", at: (name, text) => name === "GPT2.block" && text.startsWith("x ="),
    asks: "Does attention replace x?",
    answer: "No, it adds to x. If a layer adds little, the token goes on almost unchanged."},
  {name: "gelu", at: (name) => name === "gelu",
    asks: "Does this line mix tokens, or the numbers of one token?",
    answer: "Neither: each number becomes another number by itself. Very negative ones become "
      + "about 0, large ones stay as they are."},
  {name: "ln_f", at: (name, text) => name === "GPT2.__call__" && text.includes("ln_f"),
    asks: "What does the norm do to each row?",
    answer: "It shifts and scales the row to mean 0 and variance 1. Then it multiplies by g and "
      + "adds b, which the model has learned."},
  {name: "logits", at: (name, text) => name === "GPT2.__call__" && text.includes("lm_head"),
    asks: "Which matrix makes a number for each token of the vocabulary?",
    answer: "lm_head, if the model has one; else wte, the matrix that also embeds the tokens. A "
      + "logit is the product of the last row of x with the token's row."},
  {name: "temperature", at: (name) => name === "temperature",
    without: "this run has no temperature: try --temperature 0.7",
    asks: "Does a temperature change the order of the tokens?",
    answer: "No. It changes how far apart they are: below 1, the best gain."},
  {name: "top-k", at: (name) => name === "top_k.keep_top_k", last: true,
    without: "this run has no top-k: try --top-k 40",
    asks: "What happens to the tokens that are cut?",
    answer: "Their logits become −∞. The softmax gives them the probability 0."},
  {name: "draw", at: (name) => name === "draw", last: true,
    asks: "How does one random number choose a token?",
    answer: "The running sum of the probabilities divides the line from 0 to 1: each token has "
      + "a part as long as its probability. The number falls into one of them."},
];

const WHERE_TO_BEGIN = "Begin with the tour, bookmarks 1 to 12, each with a question; or follow "
  + "the run line by line with step →.";

// Return a bookmark's stop: in this pass and layer if it is there, else the first one.
function stopOf({at, last}) {
  const fits = range(stops.length).filter((i) =>
    at(data.nodes[stops[i].node][1], segment(stops[i].node)));
  const {pass, part} = stops[state.at], inPass = fits.filter((i) => stops[i].pass === pass);
  const inPart = inPass.filter((i) => stops[i].part === part);
  const [found] = [inPart, inPass, fits].filter((some) => some.length);
  if (!found) return undefined;
  const {frame} = stops[found[0]];
  return last ? found.findLast((i) => stops[i].frame === frame) : found[0];
}

function visit(number) {
  const place = TOUR[number], i = stopOf(place);
  const chosen = place.part && shownOperations(i).find(({label}) => place.part(label));
  set({at: i, row: null, bookmark: number, chosen: chosen ?? null});
}

function drawTour() {
  find("#bookmarks").replaceChildren(...TOUR.map((place, i) => {
    const there = stopOf(place) !== undefined;
    const title = there ? place.asks : place.without ?? "not in this run";
    return element("button", {disabled: !there, onclick: () => visit(i), title,
      "data-key": `bookmark ${i}`}, `${i + 1} ${place.name}`);
  }));
}

function showTour() {
  const box = find("#question"), place = TOUR[state.bookmark];
  for (const [i, button] of [...find("#bookmarks").children].entries())
    button.setAttribute("aria-pressed", i === state.bookmark);
  const [question, answer] = box.querySelectorAll("p"), asks = place?.asks ?? WHERE_TO_BEGIN;
  if (question.textContent === asks) return;
  question.textContent = asks;
  answer.textContent = place?.answer;
  Object.assign(box.querySelector("details"), {hidden: !place, open: false});
}
