// Play lets the text grow at the recorded pace. The tokens of one pass appear together.

let growing = null;  // the time at which the play button was clicked; null: paused

// Return the seconds between token i - 1 and token i: those of the passes between them.
function secondsBefore(i) {
  const own = steps.length ? [passes[passOf(i)]] : passes.filter((pass) => pass.known === i);
  return sum(own.map((pass) => pass.seconds));
}

async function play() {
  if (growing) return grow(null);
  const mean = sum(passes.map((pass) => pass.seconds)) / passes.length, began = Date.now();
  const slower = clamp(Math.round(0.3 / mean), 1, 500);  // slow enough to follow
  tell("#pace", {ms: Math.round(1000 / slower)});
  goTo(Math.max(state.selected % n_rows, data.n_prompt) - 1);  // after the end it starts again
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
