// The text grows as it did in the run: the tokens of a pass come together, after its time.

let timer = null;  // while it grows

// The seconds before token i: those of the passes since the token before it.
function secondsBefore(i) {
  const own = steps.length ? [passes[passOf(i)]] : passes.filter((pass) => pass.known === i);
  return sum(own.map((pass) => pass.seconds));
}

function play() {
  if (timer) return pause();
  const mean = sum(passes.map((pass) => pass.seconds)) / passes.length;
  const slower = clamp(Math.round(0.3 / mean), 1, 500);  // so that an eye can follow
  goTo(Math.max(state.selected % n_rows, data.n_prompt) - 1);  // at the end: from the beginning
  find("main").classList.add("growing");
  find("#play").setAttribute("aria-pressed", "true");
  tell("#pace", {ms: Math.round(1000 / slower)});
  grow(slower);
}

function grow(slower) {
  if (state.selected === n_rows) return pause();
  timer = setTimeout(() => {
    goTo(state.selected + 1);
    grow(slower);
  }, clamp(1000 * slower * secondsBefore(state.selected + 1), 30, 3000));
}

function pause() {
  clearTimeout(timer);
  timer = null;
  find("main").classList.remove("growing");
  find("#play").setAttribute("aria-pressed", "false");
}
