// Scales (functions from values to pixels), ticks and SVG paths.

/** Returns at most `most` round, evenly spaced values in [low, high]. */
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  for (const multiple of [1, 2, 5, 10, 20]) {
    const step = multiple * power;
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    if (count > most) continue;
    return Array.from({ length: count }, (_, i) => (first + i) * step);
  }
  return [low, high];
}

/** Returns the texts of ticks, with as many digits as distinguish them. */
function tickTexts(values) {
  const largest = Math.max(...values.map(Math.abs));
  const step = values.length > 1 ? values[1] - values[0] : largest || 1;
  const power = (v) => Math.floor(Math.log10(v) + 1e-9);
  const digits = Math.max(0, -power(step));
  const minus = (text) => text.replace(/^-/, "−").replace("e-", "e−");
  if (digits > 4 || largest >= 1e6) {
    const apart = Math.max(0, power(largest) - power(step));
    return values.map((v) => (v ? minus(v.toExponential(apart)) : "0"));
  }
  return values.map((v) => {
    const text = (Math.round(v / step) * step + 0).toFixed(digits);
    return minus(largest < 1e4 ? text : Number(text).toLocaleString("en"));
  });
}

/** Returns the lowest and the highest number in arrays; [0, 1] if none is. */
function extent(arrays) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays) {
    for (const v of values) {
      if (known(v)) [low, high] = [Math.min(low, v), Math.max(high, v)];
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Returns the interval of an axis: from 0 if 0 is near, and never empty. */
function domain([low, high]) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= 1e-5 * size || size === 0) {
    return size === 0 ? [0, 1] : [low - 0.1 * size, high + 0.1 * size];
  }
  if (low > 0 && low < 0.4 * high) low = 0;
  const room = 0.05 * (high - low);
  return [low && low - room, high && high + room];
}

function linear([low, high], [from, to]) {
  return (v) => from + ((v - low) / (high - low)) * (to - from);
}

function logarithmic([low, high], range) {
  const scale = linear([Math.log2(low), Math.log2(high)], range);
  return (v) => scale(Math.log2(v));
}

/** Returns the path of a line, with a gap at each missing value. */
function path(xs, ys) {
  let [d, open] = ["", false];
  for (let i = 0; i < xs.length; i++) {
    if (known(ys[i])) {
      d += `${open ? "L" : "M"}${xs[i].toFixed(1)},${ys[i].toFixed(1)}`;
      if (!open && !known(ys[i + 1])) d += "h0.01"; // a single point
    }
    open = known(ys[i]);
  }
  return d;
}

function bandPath(xs, lows, highs) {
  const at = xs.map((_, i) => i).filter((i) => known(lows[i] + highs[i]));
  const point = (i, ys) => `${xs[i].toFixed(1)},${ys[i].toFixed(1)}`;
  if (!at.length) return "";
  const there = at.map((i) => point(i, highs));
  const back = at.reverse().map((i) => point(i, lows));
  return `M${[...there, ...back].join("L")}Z`;
}

/** Moves labels apart to a distance of `least` pixels; keeps their order. */
function apart(places, least, low, high) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]);
  const found = [...places];
  for (let pass = 0; pass < 2; pass++) {
    let edge = low;
    for (const i of order) {
      found[i] = Math.max(found[i], edge);
      edge = found[i] + least;
    }
    edge = high;
    for (const i of order.toReversed()) {
      found[i] = Math.min(found[i], edge);
      edge = found[i] - least;
    }
  }
  return found;
}

/** Drops ticks closer than `least` pixels to the next; keeps the last tick. */
function thinned(values, scale, least) {
  const kept = [];
  for (const v of values.toReversed()) {
    const next = kept.at(-1);
    if (next === undefined || scale(next) - scale(v) >= least) kept.push(v);
  }
  return kept.reverse();
}

/** Returns the index of the value nearest to x in an ascending array. */
function nearest(values, x) {
  let [low, high] = [0, values.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle;
    else high = middle;
  }
  return x - values[low] > values[high] - x ? high : low;
}
