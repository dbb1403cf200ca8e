// The page's address contains the selection, so you can share a view: #token=26&head=4.6&top_p=0.9

let writing = null;

function writeAddress() {
  if (location.protocol === "about:") return;  // a frame in a notebook has no address
  clearTimeout(writing);  // browsers limit how often the address may change
  writing = setTimeout(() => {
    const {selected, head} = state, words = new URLSearchParams({token: selected});
    if (head !== null) words.set("head", HEADS[head]);
    for (const name of SAMPLER) if (state[name] !== given[name]) words.set(name, state[name]);
    history.replaceState(null, "", `#${words}`);
  }, 200);
}

function followAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const token = Math.floor(words.get("token")), head = HEADS.indexOf(words.get("head"));
  if (token >= 1 && token <= n_rows) state.selected = token;
  if (head >= 0) state.head = head;
  for (const name of SAMPLER.filter((name) => parseFloat(words.get(name)) >= 0)) {
    find(`#${name}`).value = words.get(name);  // the slider rounds the value and keeps it in range
    state[name] = find(`#${name}`).valueAsNumber;
  }
  show();
}
