// Charts as SVG, with labels at the ends of the lines.
//
// A chart is a <figure> that is drawn again when its width changes. Colours are
// CSS custom properties, so that a change of theme needs no drawing.

let charts = 0;

/** A cursor of several charts: `move(x)` moves the cursors of all of them. */
function sharedCursor() {
  const followers = [];
  return {
    follow: (follower) => followers.push(follower),
    move: (at) => followers.forEach((follower) => follower(at)),
  };
}

/**
 * Makes a <figure> with a caption and an SVG that fills the available width.
 *
 * `spec`: title, note, about (a description for screen readers), height.
 * `render(width, height)` is called to draw into the `picture` of the result.
 */
function frame(spec, render) {
  const id = `chart-${++charts}`;
  const height = spec.height ?? 140;
  const value = html("span", { class: "value" });
  const note = spec.note ? [" ", html("small", {}, spec.note)] : [];
  const caption = html("span", {}, html("b", {}, spec.title), note);
  const about = svg("desc", { id });
  const picture = svg("svg", {
    role: "img",
    tabindex: 0,
    height,
    "aria-label": [spec.title, spec.note].filter(Boolean).join(", "),
    "aria-describedby": id,
  });
  const values = html("div", { class: "values note", hidden: true });
  const figure = html(
    "figure",
    { class: "chart" },
    html("figcaption", {}, caption, value),
    picture,
    values,
  );
  const chart = { figure, picture, value, values, spec, width: 0 };
  chart.draw = () => {
    if (!chart.width) return;
    about.textContent = spec.about ?? "";
    picture.setAttribute("width", chart.width);
    picture.replaceChildren(about);
    render(chart.width, height);
  };
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === chart.width) return;
    chart.width = width;
    chart.draw();
  }).observe(figure);
  return chart;
}

/** Draws the grid with its numbers, the base line and the ticks of x. */
function axes(chart, box, y, yTicks, x, xTicks, xLabel) {
  const texts = chart.spec.yText ?? tickTexts;
  texts(yTicks).forEach((text, i) => {
    const at = Math.round(y(yTicks[i])) + 0.5;
    const line = { x1: box.left, x2: box.right, y1: at, y2: at };
    chart.picture.append(
      svg("line", { class: yTicks[i] === 0 ? "axis" : "grid", ...line }),
      svg("text", { x: box.left - 6, y: at + 3.5, "text-anchor": "end" }, text),
    );
  });
  const base = Math.round(box.bottom) + 0.5;
  chart.picture.append(
    svg("line", {
      class: "axis",
      ...{ x1: box.left, x2: box.right, y1: base, y2: base },
    }),
  );
  for (const [value, text] of xTicks) {
    chart.picture.append(
      svg(
        "text",
        { x: x(value), y: box.bottom + 15, "text-anchor": "middle" },
        text,
      ),
    );
  }
  if (xLabel) {
    chart.picture.append(
      svg(
        "text",
        { x: box.right, y: box.bottom + 29, "text-anchor": "end" },
        xLabel,
      ),
    );
  }
}

const textWidth = (text) => 6.5 * text.length;

/**
 * Makes a line chart.
 *
 * Each of `spec.lines` has: name, label (a shorter name), color, x, y, low and
 * high (bounds of a band), raw (values that are drawn faintly), dots (indices
 * of points with a dot), width. `spec.x` has: name (for the value below the
 * cursor, such as "step"), log2 (a logarithmic axis), values (ticks), label.
 * `spec.cursor` is a shared cursor; without it the chart has its own.
 */
function lineChart(spec) {
  const cursor = spec.cursor ?? sharedCursor();
  const several = () => spec.lines.length > 1;
  let [toX, toY, box, at] = [null, null, null, null];

  const chart = frame(spec, (width, height) => {
    const all = spec.lines.flatMap((line) =>
      [line.y, line.raw, line.low, line.high].filter(Boolean),
    );
    const [low, high] = spec.domain ?? domain(extent(all));
    const yTicks = ticks(low, high, height > 200 ? 6 : 4);
    const left = 8 + Math.max(...tickTexts(yTicks).map(textWidth));
    const named = spec.lines.filter((line) => line.name && several());
    const labels = named.map((line) => line.label ?? line.name);
    const room = Math.max(0, ...labels.map((text) => 7.2 * text.length + 12));
    const bottom = height - (spec.x.label ? 34 : 20);
    box = { left, right: width - Math.max(room, 10), top: 8, bottom };
    const reach = extent(spec.lines.map((line) => line.x));
    if (reach[0] === reach[1]) reach[1] = reach[0] + 1;
    const range = [box.left, box.right];
    toX = (spec.x.log2 ? logarithmic : linear)(reach, range);
    toY = linear([low, high], [box.bottom, box.top]);
    const most = clamp((box.right - box.left) / 60, 3, 7);
    const xs = spec.x.values ?? ticks(...reach, most);
    const shown = spec.x.values ? thinned(xs, toX, 26) : xs;
    const xTexts = shown.map((v) => [v, v.toLocaleString("en")]);
    axes(chart, box, toY, yTicks, toX, xTexts, spec.x.label);
    for (const line of spec.lines) drawLine(line);
    const ends = named.map((line) => {
      const i = line.y.findLastIndex(known);
      return i < 0 ? box.bottom : toY(line.y[i]);
    });
    apart(ends, 13, box.top, box.bottom).forEach((y, i) => {
      const place = { x: box.right + 8, y: y + 4 };
      const style = colored(named[i].color);
      chart.picture.append(
        svg("text", { class: "label", style, ...place }, labels[i]),
      );
    });
    point(at);
  });

  function drawLine(line) {
    const style = `${colored(line.color)}; --w: ${line.width ?? 1.8}`;
    const xs = line.x.map(toX);
    const down = (ys) => ys.map((v) => (known(v) ? toY(v) : null));
    const put = (name, d) => {
      if (d) chart.picture.append(svg("path", { class: name, style, d }));
    };
    if (line.low) put("band", bandPath(xs, down(line.low), down(line.high)));
    const raw = several() ? "raw among" : "raw";
    if (line.raw) put(raw, path(xs, down(line.raw)));
    put("line", path(xs, down(line.y)));
    for (const i of line.dots ?? []) {
      if (!known(line.y[i])) continue;
      const place = { cx: xs[i], cy: toY(line.y[i]), r: 3 };
      chart.picture.append(svg("circle", { class: "dot", style, ...place }));
    }
  }

  /** Shows the values at x = `where`; null shows the last values. */
  function point(where) {
    at = where;
    chart.picture.querySelector(".pointer")?.remove();
    const found = spec.lines.map((line) => {
      const last = line.y.findLastIndex(known);
      return { line, i: at === null ? last : nearest(line.x, at) };
    });
    if (at !== null && toX) {
      const x = clamp(toX(at), box.left, box.right);
      const pointer = svg("g", { class: "pointer" });
      pointer.append(
        svg("line", {
          class: "cursor",
          ...{ x1: x, x2: x, y1: box.top, y2: box.bottom },
        }),
      );
      for (const { line, i } of found) {
        if (!known(line.y[i])) continue;
        const place = { cx: toX(line.x[i]), cy: toY(line.y[i]), r: 3.2 };
        const style = colored(line.color);
        pointer.append(svg("circle", { class: "dot", style, ...place }));
      }
      chart.picture.append(pointer);
    }
    say(found);
  }

  function say(found) {
    const where = at === null ? "" : `${spec.x.name} ${number(at)}`;
    const texts = found.map(({ line, i }) => {
      const low = known(line.low?.[i]) ? ` [${number(line.low[i])}, ` : "";
      const both = low && `${low}${number(line.high[i])}]`;
      const value = (line.raw ?? line.y)[i]; // as logged, not smoothed
      return [line, `${number(value)}${both}`];
    });
    if (!several()) {
      const text = texts.length ? texts[0][1] : "";
      chart.value.replaceChildren(where && `${where}: `, html("b", {}, text));
      return;
    }
    chart.value.textContent = where;
    const parts = texts.map(([line, text]) => {
      const name = html("b", { style: colored(line.color) }, line.name);
      return html("span", {}, name, ` ${text}`);
    });
    chart.values.replaceChildren(...(at === null ? [] : parts));
  }

  chart.values.hidden = !several();
  cursor.follow(point);
  pointing(chart, cursor, () => spec.lines[0].x, () => ({ toX, at }));
  chart.update = (lines) => {
    spec.lines = lines;
    chart.draw();
  };
  return chart;
}

/** Makes the mouse and the arrow keys move the cursor of a chart. */
function pointing(chart, cursor, xs, seen) {
  const picture = chart.picture;
  picture.addEventListener("pointermove", (event) => {
    const { toX } = seen();
    if (!toX) return;
    const x = event.clientX - picture.getBoundingClientRect().left;
    const distance = xs().map((v) => Math.abs(toX(v) - x));
    cursor.move(xs()[distance.indexOf(Math.min(...distance))]);
  });
  picture.addEventListener("pointerleave", () => cursor.move(null));
  picture.addEventListener("blur", () => cursor.move(null));
  picture.addEventListener("keydown", (event) => {
    const { at } = seen();
    const i = at === null ? xs().length - 1 : nearest(xs(), at);
    const to = stepped(event.key, i, xs().length, Math.ceil(xs().length / 60));
    if (event.key === "Escape") cursor.move(null);
    if (to === null) return;
    event.preventDefault();
    cursor.move(xs()[to]);
    announce(`${chart.value.textContent} ${chart.values.textContent}`);
  });
}

/** Returns the index after an arrow key, Home or End; null for other keys. */
function stepped(key, i, count, stride = 1) {
  const to = {
    ArrowLeft: i - stride,
    ArrowRight: i + stride,
    Home: 0,
    End: count - 1,
  }[key];
  return to === undefined ? null : clamp(to, 0, count - 1);
}
