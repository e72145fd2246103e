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

  /** Returns the line of a metric of one run, in a list; [] without it. */
  function line(run, metric, name, color) {
    const at = run.series.find((one) => metric in one.values);
    if (!at) return [];
    const raw = at.values[metric];
    const y = smoothed(raw, weight);
    const label = name.length > 14 ? `${name.slice(0, 13)}…` : name;
    const dots = raw.length === 1 ? [0] : [];
    return [{ name, label, color, x: at.steps, y, raw, dots }];
  }

  function lines(metric) {
    return runs.flatMap((run, i) => line(run, metric, run.name, colorOf(i)));
  }

  /** Adds a chart; `draw` returns its lines with the present smoothing. */
  function add(draw, title, note, tip) {
    const own = draw();
    const about = own.map(aboutCurve).join(" ");
    const x = { name: "step" };
    const one = lineChart({ title, note, about, x, cursor, lines: own });
    one.figure.querySelector("b").title = tip;
    made.push([draw, one]);
    return one.figure;
  }

  function chart(metric, title, note) {
    drawnAlready.add(metric);
    return add(() => lines(metric), title, note, metric);
  }

  /** Adds a chart for each run and reward model: its scores and the task's. */
  function proxies() {
    const models = [...names]
      .map((name) => matched("*/task_score", name))
      .filter((model) => model);
    return models.flatMap((model) => {
      const metrics = [
        [`${model}/score`, "proxy"],
        [`${model}/task_score`, "gold"],
        ["accuracy/pass@1", "pass@1"],
      ];
      drawnAlready.add(metrics[0][0]).add(metrics[1][0]);
      const of = (run) =>
        metrics.flatMap(([name, label], i) =>
          line(run, name, label, colorOf(i)),
        );
      const note = "mean score of a step by the model, and by the task";
      return runs
        .filter((run) => of(run).length > 1)
        .map((run) => {
          const title = runs.length > 1 ? `${model}, ${run.name}` : model;
          return add(() => of(run), title, note, `${model}/score`);
        });
    });
  }

  const names = new Set(
    runs.flatMap((run) => run.series.flatMap((s) => Object.keys(s.values))),
  );
  const grid = (figures, isLabelled = runs.length > 1) => {
    const room = isLabelled ? "charts labelled" : "charts";
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
    for (const [draw, one] of made) one.update(draw());
  });
  const label = html("label", {}, "Smoothing", slider);
  slots.training?.append(html("div", { class: "controls" }, label, shown));
  const terms = found(TERMS);
  function section(heading, figures, isLabelled) {
    if (!figures.length) return;
    slots.training?.append(html("h3", {}, heading), grid(figures, isLabelled));
  }
  const [[first, wantedFirst], ...others] = CURVES;
  section(first, found(wantedFirst));
  section("Gold against proxy", proxies(), true);
  for (const [heading, wanted] of others) section(heading, found(wanted));
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
