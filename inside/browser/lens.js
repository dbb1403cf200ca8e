// The logit lens: what the model would predict if it ended after each layer.

function showLens() {
  const row = state.selected - 1, came = data.ids[state.selected];
  find("#lens .lead").replaceChildren("What the model would predict after ", chip(data.ids[row]),
    " without its later layers; at the right, what it would give ", chip(came), ".");
  const best = ([id, p]) => element("span", {}, chip(id, id === came ? ".came" : ""),
    element("small", {}, percent(p)));
  find("#lens tbody").replaceChildren(...data.layers.map((layer, i) => {
    const [tokens, p] = layer[row];
    return element("tr", {}, element("th", {scope: "row"}, `${i}`),
      element("td.best", {}, ...tokens.map(best)),
      element("td.share", {}, track(p), element("small", {}, percent(p))));
  }));
}
