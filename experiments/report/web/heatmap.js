// Heat maps. The opacity of a cell shows its value, on any background.

/**
 * Makes a heat map with a cursor that the mouse and the arrow keys move.
 *
 * `spec`: columns and rows, their numbers; cell(column, row) -> [color,
 * opacity], or null for no cell; says(column, row) -> text of a cell; hint, the
 * text without a cell; xTicks and yTicks, `[[index, text], ...]`; xLabel;
 * upward, whether row 0 is at the bottom; marks, the cells with a dot,
 * `[[column, row], ...]`; tags, a colour per row, drawn left of it; widest, the
 * largest width of a cell; onPass(column, row), called when the cursor moves to
 * a cell; onPick(column, row), called on a click or Enter.
 */
function heatMap(spec) {
  let [cell, box, size] = [null, null, null];
  const place = (column, row) => ({
    x: box.left + column * size.x,
    y: spec.upward
      ? box.bottom - (row + 1) * size.y
      : box.top + row * size.y,
  });
  const center = (column, row) => {
    const { x, y } = place(column, row);
    return { cx: x + size.x / 2, cy: y + size.y / 2 };
  };

  const chart = frame(spec, (width, height) => {
    const widest = Math.max(...spec.yTicks.map(([, text]) => textWidth(text)));
    const left = 12 + widest + (spec.tags ? 8 : 0);
    box = { left, right: width - 8, top: 4, bottom: height - 34 };
    size = {
      x: Math.min((box.right - left) / spec.columns, spec.widest ?? Infinity),
      y: (box.bottom - box.top) / spec.rows,
    };
    box.right = left + size.x * spec.columns;
    cells();
    labels();
    chart.outline = svg("rect", { class: "picked", visibility: "hidden" });
    chart.picture.append(chart.outline);
    outlined();
  });

  function cells() {
    const gap = size.x > 8 && size.y > 4 ? 1 : 0;
    const shape = { width: size.x - (gap || -0.3), height: size.y - gap };
    for (let column = 0; column < spec.columns; column++) {
      for (let row = 0; row < spec.rows; row++) {
        const found = spec.cell(column, row);
        if (!found) continue;
        const [color, opacity] = found;
        const looks = { class: "cell", style: colored(color), opacity };
        const where = place(column, row);
        chart.picture.append(svg("rect", { ...looks, ...where, ...shape }));
      }
    }
    for (const [column, row] of spec.marks ?? []) {
      const r = clamp(Math.min(size.x, size.y) * 0.28, 1.6, 4);
      const where = center(column, row);
      chart.picture.append(svg("circle", { class: "least", r, ...where }));
    }
    (spec.tags ?? []).forEach((color, row) => {
      const { y } = place(0, row);
      const where = { x: box.left - 8, y, width: 4, height: shape.height };
      const looks = { class: "cell", style: colored(color) };
      chart.picture.append(svg("rect", { ...looks, ...where }));
    });
  }

  function labels() {
    const put = (x, y, anchor, text) =>
      chart.picture.append(svg("text", { x, y, "text-anchor": anchor }, text));
    for (const [i, text] of spec.xTicks) {
      put(center(i, 0).cx, box.bottom + 15, "middle", text);
    }
    const edge = box.left - (spec.tags ? 14 : 6);
    for (const [i, text] of spec.yTicks) {
      put(edge, center(0, i).cy + 3.5, "end", text);
    }
    put(box.right, box.bottom + 29, "end", spec.xLabel);
  }

  function outlined() {
    chart.value.textContent = cell ? spec.says(...cell) : (spec.hint ?? "");
    chart.outline?.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell || !box) return;
    const { x, y } = place(...cell);
    const shape = { x, y, width: size.x, height: size.y };
    for (const [name, value] of Object.entries(shape)) {
      chart.outline.setAttribute(name, value);
    }
  }

  function at(event) {
    if (!box) return null;
    const { left, top } = chart.picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - left - box.left) / size.x);
    const down = Math.floor((event.clientY - top - box.top) / size.y);
    const row = spec.upward ? spec.rows - 1 - down : down;
    const inside = column >= 0 && column < spec.columns;
    return inside && row >= 0 && row < spec.rows ? [column, row] : null;
  }

  chart.picture.addEventListener("pointermove", (event) => {
    cell = at(event);
    outlined();
    if (cell) spec.onPass?.(...cell);
  });
  chart.picture.addEventListener("pointerleave", () => {
    cell = null;
    outlined();
  });
  chart.picture.addEventListener("click", (event) => {
    const found = at(event);
    if (found) spec.onPick?.(...found);
  });
  chart.picture.addEventListener("keydown", (event) => {
    const [column, row] = cell ?? [spec.columns - 1, 0];
    if (event.key === "Enter" && cell) spec.onPick?.(...cell);
    const across = stepped(event.key, column, spec.columns);
    const turn = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (across === null && !turn) return;
    event.preventDefault();
    const by = (turn ?? 0) * (spec.upward ? 1 : -1);
    cell = [across ?? column, clamp(row + by, 0, spec.rows - 1)];
    outlined();
    spec.onPass?.(...cell);
    announce(chart.value.textContent);
  });
  return chart;
}
