// The play button lets the text grow again, slowed down. Tokens of one pass appear almost at once.

let growing = null;  // when the play button was clicked; null: nothing is playing

// Return how many seconds the passes between token i - 1 and token i took.
function secondsBefore(i) {
  const own = steps.length ? [passes[passOf(i)]] : passes.filter((pass) => pass.known === i);
  return sum(own.map((pass) => pass.seconds));
}

async function play() {
  if (growing) return grow(null);
  const mean = sum(passes.map((pass) => pass.seconds)) / passes.length, began = Date.now();
  const slower = clamp(Math.round(0.3 / mean), 1, 500);  // slow enough to watch
  tell("#pace", {ms: Math.round(1000 / slower)});
  goTo(Math.max(state.selected % n_rows, data.n_prompt) - 1);  // at the end, start again
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
