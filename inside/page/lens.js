// The logit lens: what the model would predict if it ended after each layer.

function showLens() {
  const row = state.selected - 1;
  find("#lens .lead").replaceChildren("What the model would predict after ", chip(data.ids[row]),
    " without its later layers; at the right, what it gave ", chip(data.ids[state.selected]), ".");
  const lines = data.layers.map((layer, i) => {
    const [tokens, p] = layer[row];
    return element("tr", {}, element("th", {scope: "row"}, `${i + 1}`),
      element("td.best", {}, ...tokens.flatMap(([id, share]) => [
        chip(id, id === data.ids[state.selected] ? ".came" : ""), element("small", {}, percent(share))])),
      element("td.share", {}, element("span.track", {"--p": p, "--plain": 0, "aria-hidden": "true"}),
        element("small", {}, percent(p))));
  });
  find("#lens table").replaceChildren(...lines);
}
