// The section "Groups": the share of prompts by their number of right samples,
// and the advantages that right and wrong samples get in such a group.

// Limits of the heat map.
const MOST_COLUMNS = 96;
const MOST_CELLS = 8000;

/** Averages neighbouring rows, so that at most `most` of them remain. */
function binned(steps, rows, most) {
  const size = Math.ceil(steps.length / most);
  const found = [];
  for (let i = 0; i < steps.length; i += size) {
    const part = rows.slice(i, i + size).filter((row) => row.every(known));
    const mean = rows[0].map(
      (_, c) => part.reduce((sum, row) => sum + row[c], 0) / part.length,
    );
    const last = Math.min(i + size, steps.length) - 1;
    if (part.length) found.push({ from: steps[i], to: steps[last], mean });
  }
  return found;
}

const between = (from, to) => (from === to ? `${from}` : `${from}–${to}`);

function solveCounts(run, slot, named) {
  const { steps, shares } = run.counts;
  const samples = shares[0].length - 1;
  const room = Math.floor(MOST_CELLS / (samples + 1));
  const bins = binned(steps, shares, clamp(room, 8, MOST_COLUMNS));
  const most = Math.max(...bins.flatMap((bin) => bin.mean));
  const histogram = countsOf(run.advantage, samples, most, bins.at(-1));
  const every = Math.max(1, Math.ceil(samples / 4));
  const rowTicks = Array.from({ length: samples + 1 }, (_, c) => c)
    .filter((c) => c % every === 0)
    .map((c) => [c, `${c}`]);
  const reach = ticks(bins[0].from, bins.at(-1).to + 1e-9, 7);
  const columnTicks = reach.map((step) => [
    bins.findIndex((bin) => step <= bin.to),
    step.toLocaleString("en"),
  ]);
  const says = (i, c) =>
    `step ${between(bins[i].from, bins[i].to)}: ${percent(bins[i].mean[c])} ` +
    `of prompts have ${c} of ${samples} right`;
  const map = heatMap({
    title: named ? `${run.name}: samples right` : "Samples right",
    note: `of ${samples}; share of prompts`,
    about:
      `At the first logged step ${says(0, 0)}; at the last ` +
      `${says(bins.length - 1, 0)} and ${says(bins.length - 1, samples)}.`,
    height: 300,
    columns: bins.length,
    rows: samples + 1,
    upward: true,
    xLabel: "step",
    xTicks: columnTicks,
    yTicks: rowTicks,
    cell: (i, c) => {
      const share = bins[i].mean[c];
      return ["c1", share > 0 ? 0.06 + 0.94 * Math.sqrt(share / most) : 0.02];
    },
    says,
    onPass: (i) => histogram.show(bins[i]),
  });
  const why = run.advantage.missing ?? run.advantage.note;
  const note = why ? [html("p", { class: "note" }, why)] : [];
  slot.append(
    html("div", { class: "pair" }, map.figure, histogram.figure),
    ...note,
  );
}

/** Makes the chart of one step: bars of the shares, lines of the advantages. */
function countsOf(advantage, samples, most, first) {
  let bin = first;
  const chart = frame(
    {
      title: "Counts and advantages",
      about: aboutAdvantage(advantage, samples),
      height: 300,
    },
    (width, height) => {
      const curves = advantage.missing
        ? []
        : [
            ["a right one", "right", advantage.right],
            ["a wrong one", "wrong", advantage.wrong],
          ];
      const right = curves.length ? width - 126 : width - 10;
      const box = { left: 44, right, top: 8, bottom: height - 34 };
      const range = [box.bottom, box.top];
      const y = linear([0, Math.max(most, 1e-9)], range);
      const wide = (box.right - box.left) / (samples + 1);
      const x = (c) => box.left + (c + 0.5) * wide;
      const every = Math.max(1, Math.ceil(samples / 8));
      const xTicks = bin.mean
        .map((_, c) => [c, `${c}`])
        .filter(([c]) => c % every === 0);
      chart.spec.yText = (values) => values.map(percent);
      const label = `samples right, of ${samples}`;
      axes(chart, box, y, ticks(0, most, 4), x, xTicks, label);
      bin.mean.forEach((share, c) => {
        const none = c === 0 || c === samples;
        const gap = wide > 5 ? 1.5 : 0;
        const place = { x: x(c) - wide / 2 + gap, y: y(share) };
        const size = { width: wide - 2 * gap, height: box.bottom - y(share) };
        const name = none ? "bar none" : "bar";
        chart.picture.append(svg("rect", { class: name, ...place, ...size }));
      });
      drawAdvantages(chart, curves, box, x);
      const nothing = bin.mean[0] + bin.mean[samples];
      chart.value.textContent =
        `step ${between(bin.from, bin.to)}: ${percent(nothing)} all right or ` +
        "all wrong";
    },
  );
  chart.show = (other) => {
    bin = other;
    chart.draw();
  };
  return chart;
}

function drawAdvantages(chart, curves, box, x) {
  if (!curves.length) return;
  const [low, high] = extent(curves.map(([, , values]) => values));
  const size = Math.max(Math.abs(low), Math.abs(high), 1e-9) * 1.08;
  const lowest = low < 0 ? -size : 0;
  const y = linear([lowest, size], [box.bottom, box.top]);
  const zero = Math.round(y(0)) + 0.5;
  chart.picture.append(
    svg("line", {
      class: "cursor",
      ...{ x1: box.left, x2: box.right, y1: zero, y2: zero },
    }),
  );
  const right = ticks(lowest, size, 6);
  tickTexts(right).forEach((text, i) => {
    const place = { x: box.right + 6, y: y(right[i]) + 3.5 };
    chart.picture.append(svg("text", place, text));
  });
  const ends = [];
  for (const [name, color, values] of curves) {
    const xs = values.map((_, c) => x(c));
    const ys = values.map((v) => (known(v) ? y(v) : null));
    const style = `${colored(color)}; --w: 2.2`;
    const line = { class: "line", style, d: path(xs, ys) };
    chart.picture.append(svg("path", line));
    const last = values.findLastIndex(known);
    ends.push([name, color, ys[last]]);
    values.forEach((v, c) => {
      if (!known(v)) return;
      const place = { cx: xs[c], cy: ys[c], r: 2.6 };
      const about = svg("title", {}, `${name}, ${c} right: ${signed(v)}`);
      const dot = svg("circle", { class: "dot", style, ...place }, about);
      chart.picture.append(dot);
    });
  }
  const places = ends.map(([, , end]) => end);
  apart(places, 15, box.top + 6, box.bottom).forEach((end, i) => {
    const [name, color] = ends[i];
    const place = { x: box.right + 44, y: end + 4, style: colored(color) };
    chart.picture.append(svg("text", { class: "label", ...place }, name));
  });
  const place = { x: box.right + 6, y: box.bottom + 29 };
  chart.picture.append(svg("text", place, "advantage"));
}

function aboutAdvantage(advantage, samples) {
  if (advantage.missing) return advantage.missing;
  const at = (values) => values.filter(known).map(signed).join(", ");
  return (
    `Advantage of a right sample where 1 to ${samples} are right: ` +
    `${at(advantage.right)}; of a wrong sample where 0 to ${samples - 1} are ` +
    `right: ${at(advantage.wrong)}.`
  );
}
