// The sections "Training" and "Terms": curves of raw and of smoothed values,
// with one cursor for all charts.

// Groups of charts: [heading, [[metric, title, note], ...]]. A `*` in the name
// of a metric matches any text, which replaces the `*` in the title.
const CURVES = [
  [
    "What is earned",
    [
      ["reward/mean", "Mean reward"],
      ["reward/task", "The task's own score"],
      ["accuracy/pass@1", "pass@1", "of training prompts"],
      ["accuracy/pass@*", "pass@*", "of training prompts"],
      ["reward/std", "Spread of rewards", "std"],
    ],
  ],
  [
    "What is learned from",
    [
      ["group/zero_variance_frac", "Zero signal", "share of groups"],
      ["advantage/abs_mean", "Size of advantages", "mean |A|"],
      ["advantage/std", "Spread of advantages", "std"],
      ["advantage/mean", "Mean advantage"],
    ],
  ],
  [
    "The policy",
    [
      ["policy/entropy", "Entropy", "nats a token"],
      ["policy/kl*", "KL*", "to the reference, nats"],
      ["policy/ratio_mean", "Ratio, mean", "new to old policy"],
      ["policy/ratio_max", "Ratio, largest"],
      ["policy/clip_frac_low", "Clipped below", "share of tokens"],
      ["policy/clip_frac_high", "Clipped above", "share of tokens"],
      ["policy/sampler_log_prob_diff_mean", "Sampler mismatch", "mean, nats"],
      ["policy/sampler_log_prob_diff_max", "Sampler mismatch", "largest"],
      ["rollout/staleness", "Age of the samples", "updates"],
    ],
  ],
  [
    "Length",
    [
      ["length/mean", "Mean length", "tokens"],
      ["length/max", "Longest", "tokens"],
      ["length/truncated_frac", "Truncated", "share of samples"],
      ["length/steps_mean", "Reasoning steps", "a sample"],
      ["verifier/*", "Verifier: *", "share of samples"],
    ],
  ],
  [
    "The optimiser",
    [
      ["loss/total", "Loss"],
      ["optim/grad_norm", "Gradient norm"],
      ["optim/skipped", "Skipped updates"],
      ["optim/lr", "Learning rate"],
    ],
  ],
  [
    "The machine",
    [
      ["perf/tokens_per_s", "Sampled tokens a second"],
      ["time/step_s", "A step", "seconds"],
      ["time/*", "time/*", "seconds"],
      ["perf/*", "perf/*"],
    ],
  ],
];
const TERMS = [
  ["score/*/mean", "*", "mean of the term"],
  ["reward/weight/*", "*", "weight of the term"],
];
const NOWHERE = /^(guard|evaluation)\//; // metrics without a chart

/** Returns the text that `*` matches in a name; null if the name differs. */
function matched(pattern, name) {
  const [head, tail] = pattern.split("*");
  if (tail === undefined) return pattern === name ? "" : null;
  const long = name.length >= head.length + tail.length;
  const fits = long && name.startsWith(head) && name.endsWith(tail);
  return fits ? name.slice(head.length, name.length - tail.length) : null;
}

/** Returns exponential moving averages, corrected for the start at 0. */
function smoothed(values, weight) {
  let [sum, total] = [0, 0];
  return values.map((v) => {
    if (!known(v)) return null;
    sum = weight * sum + (1 - weight) * v;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

function aboutCurve(line) {
  const values = line.raw.filter(known);
  if (!values.length) return "No value is known.";
  const [low, high] = extent([values]);
  const [first, last] = [values[0], values.at(-1)].map(number);
  return (
    `${line.name}: from ${first} to ${last}, lowest ${number(low)}, highest ` +
    `${number(high)}.`
  );
}

/** Adds the charts of all runs to the sections "Training" and "Terms". */
function trainingCurves(runs, slots) {
  const cursor = sharedCursor();
  const drawnAlready = new Set();
  const made = [];
  let weight = 0.85;

  function lines(metric) {
    const found = [];
    runs.forEach((run, i) => {
      const at = run.series.find((one) => metric in one.values);
      if (!at) return;
      const raw = at.values[metric];
      const y = smoothed(raw, weight);
      const isLong = run.name.length > 14;
      const label = isLong ? `${run.name.slice(0, 13)}…` : run.name;
      const dots = raw.length === 1 ? [0] : [];
      const color = colorOf(i);
      found.push({ name: run.name, label, color, x: at.steps, y, raw, dots });
    });
    return found;
  }

  function chart(metric, title, note) {
    drawnAlready.add(metric);
    const own = lines(metric);
    const about = own.map(aboutCurve).join(" ");
    const x = { name: "step" };
    const one = lineChart({ title, note, about, x, cursor, lines: own });
    one.figure.querySelector("b").title = metric;
    made.push([metric, one]);
    return one.figure;
  }

  const names = new Set(
    runs.flatMap((run) => run.series.flatMap((s) => Object.keys(s.values))),
  );
  const grid = (figures) => {
    const room = runs.length > 1 ? "charts labelled" : "charts";
    return html("div", { class: room }, ...figures);
  };
  function found(wanted) {
    return wanted.flatMap(([pattern, title, note]) =>
      [...names]
        .filter((name) => !drawnAlready.has(name))
        .filter((name) => matched(pattern, name) !== null)
        .map((name) => {
          const text = title.replace("*", matched(pattern, name));
          return chart(name, text, note);
        }),
    );
  }

  const slider = html("input", {
    ...{ type: "range", min: 0, max: 0.99, step: 0.01, value: weight },
    id: "smoothing",
  });
  const shown = html("span", { class: "note" }, weight.toFixed(2));
  slider.addEventListener("input", () => {
    weight = Number(slider.value);
    shown.textContent = weight.toFixed(2);
    for (const [metric, one] of made) one.update(lines(metric));
  });
  const label = html("label", {}, "Smoothing", slider);
  slots.training?.append(html("div", { class: "controls" }, label, shown));
  const terms = found(TERMS);
  for (const [heading, wanted] of CURVES) {
    const figures = found(wanted);
    if (!figures.length) continue;
    slots.training?.append(html("h3", {}, heading), grid(figures));
  }
  const rest = [...names]
    .filter((name) => !drawnAlready.has(name) && !NOWHERE.test(name))
    .sort()
    .map((name) => chart(name, name));
  if (rest.length) {
    slots.training?.append(
      html(
        "details",
        {},
        html("summary", {}, `${counted(rest.length, "other metric")}`),
        grid(rest),
      ),
    );
  }
  slots.terms?.append(grid(terms));
}
