// The text grows as it did in the run: the tokens of a pass come together, after its time.

let growing = null;  // a number for each time the text begins to grow; null: it does not

// The seconds before token i: those of the passes since the token before it.
function secondsBefore(i) {
  const own = steps.length ? [passes[passOf(i)]] : passes.filter((pass) => pass.known === i);
  return sum(own.map((pass) => pass.seconds));
}

async function play() {
  if (growing) return grow(null);
  const mean = sum(passes.map((pass) => pass.seconds)) / passes.length, began = Date.now();
  const slower = clamp(Math.round(0.3 / mean), 1, 500);  // so that an eye can follow
  tell("#pace", {ms: Math.round(1000 / slower)});
  goTo(Math.max(state.selected % n_rows, data.n_prompt) - 1);  // at the end: from the beginning
  grow(began);
  while (growing === began) {
    if (state.selected === n_rows) return grow(null);
    const ms = clamp(1000 * slower * secondsBefore(state.selected + 1), 30, 3000);
    await new Promise((done) => setTimeout(done, ms));
    if (growing === began) goTo(state.selected + 1);
  }
}

function grow(began) {
  growing = began;
  find("main").classList.toggle("growing", began);
  find("#play").setAttribute("aria-pressed", Boolean(began));
}
