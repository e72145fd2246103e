// The view of one sample: its score and the terms of it, its text with coloured
// tokens, and the other samples of its group.

/** A scale with a colour for each sign; with one if no value is negative. */
function diverging([low, high]) {
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return {
    paint: (v) => [v < 0 ? "less" : "more", Math.abs(v) / most],
    ends: low < 0 ? [-most, most] : [0, most],
  };
}

// Values by which tokens can be coloured. key: the field of a sample; name: the
// text of its button; of: a function of the field's value; scale: a function
// from the lowest and the highest value in the group to { paint, ends }, where
// paint(value) is [colour, strength] and ends are the values at the ends of the
// legend.
const COLORINGS = [
  { key: "advantages", name: "advantage", scale: diverging },
  {
    key: "logProbs",
    name: "probability",
    of: Math.exp,
    scale: () => ({ paint: (v) => ["c5", 1 - v], ends: [0, 1] }),
  },
  {
    key: "entropies",
    name: "entropy",
    scale: ([, high]) => ({
      paint: (v) => ["c4", v / (high || 1)],
      ends: [0, high],
    }),
  },
  { key: "stepScores", name: "step score", scale: diverging },
];
let coloring = "advantages"; // the chosen key, also for the next sample

/** Returns the values of a colouring per token; null if the file has none. */
function tokenValues(sample, { key, of }) {
  if (!sample.cuts || sample[key] === null) return null;
  const value = (t) => {
    if (key !== "stepScores") return at(sample[key], t);
    const step = at(sample.stepIds, t);
    return step >= 0 ? sample.stepScores[step] : null;
  };
  return sample.cuts.map((_, t) => {
    const v = value(t);
    return known(v) && of ? of(v) : v;
  });
}

/** Returns the elements of the view of a sample. */
function sampleView(sample, runs, show, wanted) {
  const { group } = sample;
  const [color, verdict] = VERDICTS[sample.correct];
  const facts = [
    `step ${group.step}`,
    `prompt ${group.id}`,
    `sample ${sample.place + 1} of ${group.members.length}`,
    counted(sample.length, "token"),
    sample.finished ? "finished" : "cut by the limit",
  ];
  if (runs.length > 1) facts.unshift(runs[group.run].name);
  const head = html(
    "header",
    {},
    html("strong", {}, number(sample.score)),
    html("span", { class: "verdict", style: colored(color) }, verdict),
    ...facts.map((fact) => html("span", {}, fact)),
  );
  const parts = [head];
  if (sample.terms.length) {
    const terms = sample.terms.map(([name, value]) =>
      html("div", {}, html("span", {}, `${name} `), number(value)),
    );
    parts.push(html("h3", {}, "Terms"));
    parts.push(html("div", { class: "terms" }, ...terms));
  }
  parts.push(
    html("h3", {}, "Prompt"),
    html("p", { class: "text" }, ...marked(group.prompt, wanted)),
    html("h3", {}, "Completion"),
    ...completionView(sample, wanted),
    html("h3", {}, `Its group${group.solved ? `, ${group.solved}` : ""}`),
    siblings(sample, show),
  );
  return parts;
}

function siblings(sample, show) {
  const buttons = sample.group.members.map((other) => {
    const [color, verdict] = VERDICTS[other.correct];
    const button = html(
      "button",
      { type: "button", style: colored(color), title: verdict },
      html("b", {}, number(other.score)),
      html("span", {}, oneLine(other.text)),
    );
    button.setAttribute("aria-current", other === sample);
    button.addEventListener("click", () => {
      show(other); // this replaces the list of siblings
      document.querySelector(".siblings [aria-current=true]").focus();
    });
    return button;
  });
  return html("div", { class: "siblings" }, ...buttons);
}

/**
 * Returns the elements of the tokens; one for each turn, if the policy did not
 * write all of them. The turns of the policy have their rewards.
 */
function byAuthor(sample, tokens) {
  // The log-probability of a token of the environment is not recorded.
  const own = tokens.map((_, t) => known(at(sample.logProbs, t)));
  if (own.every(Boolean) || !own.some(Boolean)) return tokens;
  const turns = [];
  tokens.forEach((token, t) => {
    if (t === 0 || own[t] !== own[t - 1]) {
      const kind = own[t] ? "turn own" : "turn reply";
      turns.push(html("span", { class: kind }));
      const reward = sample.stepScores?.[at(sample.stepIds, t)];
      if (own[t] && known(reward)) turns.at(-1).dataset.reward = number(reward);
    }
    turns.at(-1).append(token);
  });
  return turns;
}

function completionView(sample, wanted) {
  const text = html("p", { class: "text", tabindex: 0, role: "group" });
  text.setAttribute("aria-label", "Completion; arrow keys move over tokens");
  const there = COLORINGS.filter((one) => tokenValues(sample, one));
  if (!sample.cuts || !there.length) {
    text.append(...marked(sample.text, wanted));
    return [text];
  }
  const said = html("p", { class: "said" });
  const legend = html("span", { class: "legend" });
  const tokens = pieces(sample).map((piece) => {
    const kind = piece.includes("\n") ? "token end" : "token";
    return html("span", { class: kind }, piece);
  });
  text.append(...byAuthor(sample, tokens));

  function paint(key) {
    coloring = key;
    const one = there.find((other) => other.key === key);
    legend.replaceChildren();
    if (!one) {
      tokens.forEach((token) => token.style.removeProperty("--b"));
      return;
    }
    const group = sample.group.members.map((s) => tokenValues(s, one));
    const { paint, ends } = one.scale(extent(group.filter(Boolean)));
    const background = (v) => {
      const [color, share] = paint(v);
      const part = Math.round(62 * clamp(share, 0, 1));
      return `color-mix(in srgb, var(--${color}) ${part}%, transparent)`;
    };
    tokenValues(sample, one).forEach((v, t) => {
      if (known(v)) tokens[t].style.setProperty("--b", background(v));
      else tokens[t].style.removeProperty("--b");
    });
    const [low, high] = ends;
    const stops = [low, (low + high) / 2, high].map(background);
    const ramp = `linear-gradient(90deg, ${stops.join(", ")})`;
    const bar = html("i", { style: `background: ${ramp}` });
    legend.append(number(low), bar, number(high));
  }

  let now = null;
  function say(t) {
    if (now !== null) tokens[now].classList.remove("now");
    now = t;
    if (t === null) {
      said.textContent = "";
      return;
    }
    tokens[t].classList.add("now");
    const facts = [`token ${t + 1}: ${JSON.stringify(tokens[t].textContent)}`];
    const fact = (name, v) => known(v) && facts.push(`${name} ${number(v)}`);
    const value = at(sample.logProbs, t);
    fact("advantage", at(sample.advantages, t));
    if (known(value)) fact("probability", Math.exp(value));
    fact("entropy", at(sample.entropies, t));
    const step = at(sample.stepIds, t);
    if (known(step) && step >= 0) {
      facts.push(`step ${step + 1}`);
      fact("its score", sample.stepScores?.[step]);
    }
    said.textContent = facts.join(" · ");
  }
  text.addEventListener("pointerover", (event) => {
    const t = tokens.indexOf(event.target);
    if (t >= 0) say(t);
  });
  text.addEventListener("pointerleave", () => say(null));
  text.addEventListener("blur", () => say(null));
  text.addEventListener("keydown", (event) => {
    const from = now ?? (event.key === "ArrowRight" ? -1 : 0);
    const to = stepped(event.key, from, tokens.length);
    if (to === null) return;
    event.preventDefault();
    say(to);
    tokens[to].scrollIntoView({ block: "nearest" });
    announce(said.textContent);
  });

  const names = there.map(({ key, name }) => [key, name]);
  const options = [...names, ["none", "plain"]];
  const isThere = options.some(([key]) => key === coloring);
  const first = isThere ? coloring : names[0][0];
  paint(first);
  const control = choices("Colour tokens by", options, first, paint);
  return [html("div", { class: "controls" }, control, legend), text, said];
}
