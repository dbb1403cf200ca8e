// What is shown stands in the address, so that a view can be sent: #token=26&head=4.6&top_p=0.9

let writing = null;

function writeAddress() {
  if (location.protocol === "about:") return;  // the page is a frame of a notebook
  clearTimeout(writing);  // browsers allow only so many changes a second
  writing = setTimeout(() => {
    const {selected, head} = state, words = new URLSearchParams({token: selected});
    if (head) words.set("head", head === "all" ? head : head.join("."));
    for (const name of SAMPLER) if (state[name] !== given[name]) words.set(name, state[name]);
    history.replaceState(null, "", `#${words}`);
  }, 200);
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = (name, least, most) => {
    const x = words.has(name) ? Number(words.get(name)) : NaN;
    return x >= least && x <= most ? x : null;
  };
  state.selected = number("token", 1, n_rows) ?? state.selected;
  if (!Number.isInteger(state.selected)) state.selected = Math.floor(state.selected);
  const [layer, head] = (words.get("head") ?? "").split(".").map((word) => parseInt(word));
  if (words.get("head") === "all") state.head = "all";
  else if (layer in range(data.n_layer) && head in range(data.n_head)) state.head = [layer, head];
  for (const name of SAMPLER) {
    const x = number(name, 0, name === "top_k" ? 100 : 2);
    if (x !== null && SLIDERS[name][0].includes(x)) state[name] = x;
  }
}
