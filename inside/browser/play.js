// The text grows as it did in the run: the tokens of a pass come together, after its time.

const SLOWER = [1, 2, 5, 10, 20, 50, 100, 200, 500];  // than the run, so that an eye can follow
let timer = null;

// The seconds before token i: those of the passes since the token before it.
function secondsBefore(i) {
  const {passes} = data, own = data.beams.length ? [passes[passOf(i)]]
    : passes.filter((pass) => pass.known === i);
  return sum(own.map((pass) => pass.seconds));
}

function play() {
  if (state.growing) return pause();
  const first = state.selected >= n_rows ? data.n_prompt : Math.max(state.selected, data.n_prompt);
  const mean = sum(data.passes.map((pass) => pass.seconds)) / Math.max(1, data.passes.length);
  const slower = SLOWER.find((factor) => factor * mean > 0.25) ?? 500;
  find("#pace").textContent = `playing, ${slower === 1 ? "as fast" : `${slower} times slower`} `
    + (slower === 1 ? "as it was" : "than it was");
  state.growing = true;
  find("#play").setAttribute("aria-pressed", "true");
  goTo(Math.max(1, first - 1));
  const step = () => {
    const next = state.selected + 1;
    if (next > n_rows) return pause();
    timer = setTimeout(() => {
      goTo(next);
      step();
    }, clamp(1000 * slower * secondsBefore(next), 30, 3000));
  };
  step();
}

function pause() {
  clearTimeout(timer);
  state.growing = false;
  find("#pace").textContent = "";
  find("#play").setAttribute("aria-pressed", "false");
  showText();
}
