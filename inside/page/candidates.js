// The candidates of the selected token, and the sliders of the sampler.

const MOST_BARS = 10;
const SLIDERS = {
  temperature: {values: [0, ...data.temperatures], says: (t) => t === 0 ? "0: the best" : t.toFixed(2)},
  top_k: {values: range(101), says: (k) => k || "all"},
  top_p: {values: range(100).map((i) => (i + 1) / 100), says: (p) => p < 1 ? p.toFixed(2) : "1: all"},
  min_p: {values: range(51).map((i) => i / 100), says: (p) => p ? p.toFixed(2) : "0: all"},
};

function drawSliders() {
  for (const [name, slider] of Object.entries(SLIDERS)) {
    if (!slider.values.includes(state[name])) {  // the run's own
      slider.values = [...slider.values, state[name]].sort((a, b) => a - b);
    }
    const input = element("input", {
      type: "range", id: name, min: 0, max: slider.values.length - 1,
      oninput: () => { state[name] = slider.values[input.value]; showCandidates(); },
    });
    const title = name.replace("_", "-");
    find(".sliders").append(element("label", {for: name}, title), input, element("output", {for: name}));
  }
  find("#die").oninput = (event) => { state.die = event.target.value / 10000; showCandidates(); };
  find("#roll").onclick = () => { state.die = Math.random(); showCandidates(); };
  find("#restore").onclick = () => {
    Object.assign(state, data.settings, {die: null});
    showCandidates();
  };
}

function showSliders() {
  for (const [name, slider] of Object.entries(SLIDERS)) {
    const input = find(`#${name}`), says = slider.says(state[name]);
    input.value = slider.values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", says);
    input.nextSibling.textContent = says;
  }
}

// Where the die lies that drew the token in the run: in the middle of its share.
function originalDie(row, came) {
  const {probs} = probabilitiesAt(row, data.settings);
  return came < 0 || !probs[came] ? 0 : sum(probs.slice(0, came)) + probs[came] / 2;
}

function showCandidates() {
  showSliders();
  const row = state.selected - 1, {ids} = stored(row);
  const plain = probabilitiesAt(row, {temperature: 1, top_k: 0, top_p: 1, min_p: 0});
  const {probs, others, exact} = probabilitiesAt(row, state);
  const came = ids.indexOf(data.ids[state.selected]);
  const die = state.die ?? originalDie(row, came);
  const winner = drawn(probs, die);
  const shown = range(Math.min(MOST_BARS, ids.length));
  for (const i of [came, winner]) if (i >= 0 && !shown.includes(i)) shown.push(i);

  find("#candidates .lead").replaceChildren("After ", chip(data.ids[row]),
    ": the probability by the sampler (filled) and by the model (outlined).");
  find("#candidates .bars").replaceChildren(...shown.map((i) => bar(
    chip(ids[i]), probs[i], plain.probs[i], {came: i === came, drawn: i === winner, rank: i + 1})),
    bar(element("i", {}, `${(data.n_vocab - ids.length).toLocaleString("en")} others`), others,
      plain.others, {drawn: winner < 0}));
  find("#candidates .note").textContent = exact ? "" :
    `The filter cuts among tokens below the best ${data.n_best}, of which the page knows only the sum.`;
  find(".die label").replaceChildren(`The die, ${die.toFixed(2)}, falls on `,
    winner < 0 ? "one of the others" : chip(ids[winner]));
  find(".shares").replaceChildren(...probs.slice(0, 60).map((p, i) => element(
    "i" + (i === winner ? ".drawn" : ""), {"--share": p})));
  find("#die").value = die * 10000;
}

function bar(name, p, plain, {came = false, drawn = false, rank = ""}) {
  const mark = came ? "chosen" : drawn ? "drawn" : "";
  return element("li" + (came ? ".came" : "") + (drawn ? ".drawn" : ""), {"data-p": p, "data-rank": rank},
    element("span.name", {}, name),
    element("span.track", {"--p": p, "--plain": plain, "aria-hidden": "true"}),
    element("span.number", {}, percent(p)), element("span.mark", {}, mark));
}
