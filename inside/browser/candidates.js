// The candidates of the selected token, and the sliders of the sampler.

const MOST_BARS = 10;
const hundredths = (from, to) => range(to - from + 1).map((i) => (from + i) / 100);
const SLIDERS = {  // values, and a value in words
  temperature: [[0, ...data.temperatures], (t) => (t === 0 ? "0: the best" : t.toFixed(2))],
  top_k: [range(101), (k) => `${k || "all"}`],
  top_p: [hundredths(1, 100), (p) => (p < 1 ? p.toFixed(2) : "1: all")],
  min_p: [hundredths(0, 50), (p) => (p ? p.toFixed(2) : "0: all")],
};

function drawSliders() {
  for (const [name, [values]] of Object.entries(SLIDERS)) {
    if (!values.includes(state[name])) values.push(state[name]);  // the run's own
    values.sort((a, b) => a - b);
    const oninput = (event) => change({[name]: values[event.target.value]});
    find(".sliders").append(
      element("label", {for: name}, name.replace("_", "-")),
      element("input", {type: "range", id: name, min: 0, max: values.length - 1, oninput}),
      element("output", {for: name}));
  }
  find("#die").oninput = (event) => change({die: event.target.value / 10000});
  find("#roll").onclick = () => change({die: Math.random()});
  find("#restore").onclick = () => change({...data.settings, die: null});
}

function change(settings) {
  Object.assign(state, settings);
  showCandidates();
}

function showSliders() {
  for (const [name, [values, says]] of Object.entries(SLIDERS)) {
    const input = find(`#${name}`);
    input.value = values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", says(state[name]));
    input.nextSibling.textContent = says(state[name]);
  }
}

function showCandidates() {
  showSliders();
  const row = state.selected - 1, ids = storedIds(row);
  const came = ids.indexOf(data.ids[state.selected]);
  const {probs, others, exact} = probabilitiesAt(row, state);
  const plain = probabilitiesAt(row, {temperature: 1, top_k: 0, top_p: 1, min_p: 0});
  const die = state.die ?? originalDie(row, came);
  const winner = drawn(probs, die);
  const shown = range(Math.min(MOST_BARS, ids.length));
  for (const i of [came, winner]) if (i >= 0 && !shown.includes(i)) shown.push(i);

  find("#candidates .lead").replaceChildren(
    "After ", chip(data.ids[row]),
    ": the probabilities of the sampler (filled) and of the model (outlined).");
  const n_others = element("i", {}, `${(data.n_vocab - ids.length).toLocaleString("en")} others`);
  find("#candidates .bars").replaceChildren(
    ...shown.map((i) =>
      bar(chip(ids[i]), probs[i], plain.probs[i], mark(i === came, i === winner))),
    bar(n_others, others, plain.others, mark(false, winner < 0)));
  find("#candidates .note").textContent = exact ? "" : "Some tokens below the best"
    + ` ${data.n_best} are kept too; the page knows only the sum of their probabilities.`;
  find(".die label").replaceChildren(
    `The die, ${die.toFixed(2)}, falls on `, winner < 0 ? "one of the others" : chip(ids[winner]));
  const share = (p, i) => element(i === winner ? "i.drawn" : "i", {"--share": p});
  find(".shares").replaceChildren(...probs.map(share));
  find("#die").value = die * 10000;
}

// Where the die lay that drew the token in the run: in the middle of its share.
function originalDie(row, came) {
  const {probs} = probabilitiesAt(row, data.settings);
  return probs[came] ? sum(probs.slice(0, came)) + probs[came] / 2 : 0;
}

const mark = (came, drawn) => (came ? "chosen" : drawn ? "drawn" : "");

function bar(name, p, plain, mark) {
  return element(mark ? `li.${mark}` : "li", {"data-p": p},
    element("span.name", {}, name),
    track(p, plain), element("span.number", {}, percent(p)), element("span.mark", {}, mark));
}
