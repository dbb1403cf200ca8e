// The logit lens: for each layer, what the model would predict if it ended after this layer.

function showLens() {
  const row = state.selected - 1, came = data.ids[state.selected];
  const best = ([id, p]) =>
    element(id === came ? "span.chosen" : "span", chip(id), element("small", percent(p)));
  tell("#lens", {before: data.ids[row], came});
  find("#lens tbody").replaceChildren(...data.layers.map((layer, i) => {
    const [tokens, p] = layer[row];
    return line("", `${i}`, element("td.best", tokens.map(best)),
      element("td.share", track(p), element("small", percent(p))));
  }));
}
