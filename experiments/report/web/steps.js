// The section "Step scores": a heat map of samples and reasoning steps in which
// the worst step of each sample is marked, and the mean scores by step.

const MOST_ROWS = 80;

/** Returns the index of the lowest value; -1 if all values are equal. */
function least(values) {
  const [low, high] = extent([values]);
  return low < high ? values.indexOf(low) : -1;
}

function stepScores(samples, runs, slot, show) {
  const scored = samples.filter((one) => one.stepScores?.length);
  const files = [...new Set(scored.map((one) => fileOf(one, runs)))];
  const place = html("div", { class: "pair" });
  function pick(file) {
    const own = scored.filter((one) => fileOf(one, runs) === file);
    place.replaceChildren(stepMap(own, show), meanScores(own));
  }
  if (files.length > 1) {
    const options = files.map((file) => [file, file]);
    const control = dropDown("Rollouts of", options, files[0], pick);
    slot.append(html("div", { class: "controls" }, control));
  }
  pick(files[0]);
  slot.append(place);
}

function fileOf({ group }, runs) {
  const step = `step ${group.step}`;
  return runs.length > 1 ? `${runs[group.run].name}, ${step}` : step;
}

function stepMap(all, show) {
  const worst = (one) => Math.min(...one.stepScores.filter(known));
  const rows = all
    .slice(0, MOST_ROWS)
    .sort((a, b) => b.correct - a.correct || worst(b) - worst(a));
  const columns = Math.max(...rows.map((one) => one.stepScores.length));
  const [low, high] = extent(rows.map((one) => one.stepScores));
  const size = Math.max(Math.abs(low), Math.abs(high), 1e-9);
  const every = Math.max(1, Math.ceil(columns / 12));
  const xTicks = Array.from({ length: columns }, (_, i) => i)
    .filter((i) => i % every === 0)
    .map((i) => [i, `${i + 1}`]);
  const right = rows.filter((one) => one.correct === 1).length;
  const says = (column, row) => {
    const one = rows[row];
    const score = one.stepScores[column];
    if (score === undefined) return "";
    const mark = column === least(one.stepScores) ? ", its worst" : "";
    const [, verdict] = VERDICTS[one.correct];
    return `${verdict} sample, step ${column + 1}: ${number(score)}${mark}`;
  };
  const chart = heatMap({
    title: "Step scores",
    note: `${rows.length} of ${counted(all.length, "sample")}`,
    about:
      `${counted(rows.length, "sample")}, ${right} of them right; from ` +
      `${number(low)} to ${number(high)}.`,
    hint: "a click or Enter opens the sample",
    height: Math.max(160, rows.length * 7 + 38),
    columns,
    rows: rows.length,
    xLabel: "reasoning step",
    xTicks,
    yTicks: [[0, ""]],
    tags: rows.map((one) => VERDICTS[one.correct][0]),
    marks: rows
      .map((one, row) => [least(one.stepScores), row])
      .filter(([column]) => column >= 0),
    cell: (column, row) => {
      const v = rows[row].stepScores[column];
      if (!known(v)) return null;
      return [v < 0 ? "less" : "more", 0.08 + (0.85 * Math.abs(v)) / size];
    },
    says,
    onPick: (_, row) => {
      document.getElementById("rollouts").scrollIntoView();
      show(rows[row]);
    },
  });
  return chart.figure;
}

/** Makes the chart of the mean score of right and of wrong samples by step. */
function meanScores(all) {
  const longest = Math.max(...all.map((one) => one.stepScores.length));
  const lines = [1, 0, -1].flatMap((verdict) => {
    const own = all.filter((one) => one.correct === verdict);
    if (!own.length) return [];
    const at = (i) => own.map((one) => one.stepScores[i]).filter(known);
    const x = Array.from({ length: longest }, (_, i) => i + 1);
    const y = x.map((i) => (at(i - 1).length ? moments(at(i - 1))[0] : null));
    const [color, name] = VERDICTS[verdict];
    return [{ name, color, x, y, dots: x.map((_, i) => i), width: 2.2 }];
  });
  const x = { name: "step", label: "reasoning step", values: lines[0].x };
  return lineChart({
    title: "Mean score by step",
    note: `of all ${counted(all.length, "sample")}`,
    about: aboutEnds(lines, "step"),
    height: 300,
    x,
    lines,
  }).figure;
}
