// The section "Held-out problems": pass@k over k, and over training steps.

// Key, name and note of each quantity.
const QUANTITIES = [
  ["pass", "pass@k", "a right one among k samples"],
  ["maj", "maj@k", "the majority of k samples is right"],
  ["max", "max@k", "expected best score of k samples"],
];
const COLORS = ["c1", "c2", "c3", "c4", "c5", "c7", "c6"];

const colorOf = (run) => COLORS[run % COLORS.length];

const MOST_BETWEEN = 6; // largest number of curves of evaluations in training

/** Returns up to `most` evenly spaced elements, with the first and the last. */
function spaced(all, most) {
  if (all.length <= most) return all;
  const stride = (all.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => all[Math.round(i * stride)]);
}

/** Returns the evaluations to draw: those of one run, or each run's last. */
function drawn(runs) {
  if (runs.length === 1) {
    const isEnd = (one) => one.step === 0 || one.final;
    const all = runs[0].evaluations;
    const between = all.filter((one) => !isEnd(one));
    const some = spaced(between, MOST_BETWEEN);
    const kept = all.filter((one) => isEnd(one) || some.includes(one));
    return kept.map((one) => {
      const color = one.step === 0 ? "c0" : one.final ? "c1" : "c6";
      return { ...one, color, width: isEnd(one) ? 2.2 : 1.2 };
    });
  }
  const bases = runs[0].evaluations.filter((one) => one.step === 0);
  const lasts = runs.flatMap((run, i) => {
    const last = run.evaluations.findLast((one) => one.step > 0);
    return last ? [{ ...last, name: run.name, color: colorOf(i) }] : [];
  });
  const base = bases.map((one) => ({ ...one, name: "base", color: "c0" }));
  return [...base, ...lasts].map((one) => ({ ...one, width: 2.2 }));
}

function powers(most) {
  const found = [];
  for (let k = 1; k <= most; k *= 2) found.push(k);
  return found;
}

/** Makes the chart over k; adds buttons for other quantities to `controls`. */
function passAtK(runs, controls) {
  const shown = drawn(runs);
  const there = QUANTITIES.filter(([key]) =>
    shown.some((one) => one.curves[key]),
  );
  const most = Math.max(...shown.map((one) => one.samples));
  const lines = (key) =>
    shown
      .filter((one) => one.curves[key])
      .map((one) => {
        const { mean, low, high } = one.curves[key];
        const x = mean.map((_, i) => i + 1);
        const { name, color, width } = one;
        const marked = width > 2 ? powers(mean.length) : [];
        const dots = marked.map((k) => k - 1);
        return { name, color, width, x, y: mean, low, high, dots };
      });
  const [first] = there;
  const chart = lineChart({
    title: first[1],
    note: `${first[2]}, 95 % bands over problems`,
    about: aboutEnds(lines(first[0]), "k ="),
    height: 400,
    x: { name: "k =", log2: true, values: powers(most), label: "k (samples)" },
    lines: lines(first[0]),
  });
  if (there.length > 1) {
    const names = there.map(([key, name]) => [key, name]);
    const pick = (key) => {
      const [, name, about] = there.find(([one]) => one === key);
      const caption = chart.figure.querySelector("figcaption");
      const [title, note] = caption.querySelectorAll("b, small");
      title.textContent = name;
      note.textContent = `${about}, 95 % bands over problems`;
      chart.spec.about = aboutEnds(lines(key), "k =");
      chart.update(lines(key));
    };
    controls.append(choices("What to draw", names, first[0], pick));
  }
  return chart.figure;
}

/** Returns sentences with the first and the last value of each line. */
function aboutEnds(lines, what) {
  const texts = lines.map(({ name, x, y }) => {
    const [first, last] = [y[0], y.at(-1)].map(number);
    return `${name}: ${first} at ${what} ${x[0]}, ${last} at ${x.at(-1)}`;
  });
  return `${texts.join("; ")}.`;
}

/** Makes the chart of pass@k over steps; none for fewer than 3 evaluations. */
function alongSteps(run) {
  const all = run.evaluations.filter((one) => one.curves.pass);
  if (all.length < 3) return [];
  const most = Math.min(...all.map((one) => one.samples));
  const ks = [...new Set([1, 2 ** Math.round(Math.log2(most) / 2), most])];
  const lines = ks.map((k, i) => {
    const at = (part) => all.map((one) => one.curves.pass[part][k - 1]);
    const x = all.map((one) => one.step);
    const [y, low, high] = [at("mean"), at("low"), at("high")];
    const dots = x.map((_, j) => j);
    return { name: `pass@${k}`, color: colorOf(i), x, y, low, high, dots };
  });
  const chart = lineChart({
    title: "Held-out problems during training",
    note: "95 % bands over problems",
    about: aboutEnds(lines, "step"),
    height: 400,
    x: { name: "step", label: "step" },
    lines,
  });
  return [chart.figure];
}
