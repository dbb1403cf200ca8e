// Places in the run, with a question each: the <details> in code.html. data-at fits the line that
// called the function, then, in a second line, the function and its own line. data-part fits the
// operation that is chosen, or it is the last one. data-hint: how to get what is not in this run.

const TOUR = [...document.querySelectorAll("#places details")];

// A place that is only asked for in some passes. With a cache, none computes a row again.
const WHEN = {cached: ({n_cached}) => n_cached > 0, again: ({again}) => again.some(Boolean)};

// Return a bookmark's stop: in this pass and layer if it is there, else the first one. data-layer:
// the last layer's, in which cross-attention says most.
function stopOf({dataset: {at, last, when, layer}}) {
  const fits = new RegExp(at, "m"), found = range(stops.length).filter((i) =>
    fits.test(`${stops[stops[i].caller]?.text}\n${stops[i].text}`)
    && (!when || WHEN[when](data.passes[stops[i].pass])));
  const {pass, part} = stops[state.at], inPass = found.filter((i) => stops[i].pass === pass);
  const inPart = inPass.filter((i) => stops[i].part === part);
  if (layer) return (inPass.length ? inPass : found).at(-1);
  const [best] = [inPart, inPass, found].filter((some) => some.length);
  return last ? best?.findLast((i) => stops[i].frame === stops[best[0]].frame) : best?.[0];
}

function visit(place) {
  const {name, part} = place.dataset, at = stopOf(place);
  const chosen = part && shownOperations(at).find(({label}) => new RegExp(part).test(label));
  set({at, row: null, cell: null, bookmark: name, chosen: chosen ?? null});
}

function drawTour() {
  const there = TOUR.filter((place) => place.dataset.hint || stopOf(place) !== undefined);
  find("#bookmarks").replaceChildren(...there.map((place, i) => {
    const {name, hint} = place.dataset, disabled = stopOf(place) === undefined;
    return choice(name, `${i + 1} ${name}`, false, {disabled, onclick: () => visit(place),
      title: disabled ? hint : place.querySelector("summary").textContent});
  }));
}

function showTour() {
  const now = TOUR.findLast((one) => one.dataset.name === state.bookmark && stopOf(one) >= 0);
  for (const button of find("#bookmarks").children)
    button.ariaPressed = `${button.dataset.key === state.bookmark}`;
  find("#begin").hidden = Boolean(now);
  for (const place of TOUR.filter((one) => one.hidden === (one === now)))
    Object.assign(place, {hidden: place !== now, open: false});
}
