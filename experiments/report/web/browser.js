// The browser of samples: a list with filters, and a view of one sample. Only
// the rows of the list that are visible exist as elements.

const ROW = 52; // height of a row in pixels, as in page.css
// Menu text and sort key of each order; the largest key comes first.
const SORTS = {
  newest: ["newest step", (s) => -s.order],
  score: ["score", (s) => s.score ?? -Infinity],
  disagreement: ["disagreement", (s) => s.group.disagreement],
  length: ["length", (s) => s.length],
};

/** Adds the browser to `slot`; returns `show(sample)`, which opens a sample. */
function rolloutBrowser(samples, runs, slot) {
  const wanted = { text: "", verdict: null, cut: false, step: "", run: "" };
  let [sort, upward, shown, picked] = ["newest", false, samples, null];
  let drawn = null; // index of the first row that exists as an element
  const orders = new Map();

  const inner = html("div");
  const list = html(
    "div",
    {
      class: "list",
      role: "listbox",
      tabindex: 0,
      "aria-label": "Samples; arrow keys move",
    },
    inner,
  );
  const detail = html("article", { class: "detail", "aria-label": "Sample" });
  const count = html("span", { class: "note", role: "status", id: "count" });
  const search = html("input", {
    type: "search",
    id: "search",
    placeholder: "Search prompts and completions",
    "aria-label": "Search prompts and completions",
    "aria-keyshortcuts": "/",
  });

  /** Returns all samples, sorted; equal ones stay in the order of the files. */
  function ordered() {
    const key = `${sort} ${upward}`;
    if (!orders.has(key)) {
      const value = SORTS[sort][1];
      const sign = upward ? 1 : -1;
      const values = samples.map(value);
      const compare = (i, j) => sign * (values[i] - values[j]) || i - j;
      const places = samples.map((_, i) => i).sort(compare);
      orders.set(key, places.map((i) => samples[i]));
    }
    return orders.get(key);
  }

  function fits(sample) {
    const { group } = sample;
    return (
      (wanted.verdict === null || sample.correct === wanted.verdict) &&
      !(wanted.cut && sample.finished) &&
      (wanted.step === "" || group.step === Number(wanted.step)) &&
      (wanted.run === "" || group.run === Number(wanted.run)) &&
      (wanted.text === "" || sample.find.includes(wanted.text))
    );
  }

  function refresh() {
    shown = ordered().filter(fits);
    inner.style.height = `${shown.length * ROW}px`;
    list.scrollTop = 0;
    const all = counted(samples.length, "sample");
    const some = `${shown.length.toLocaleString("en")} of ${all}`;
    count.textContent = shown.length === samples.length ? all : some;
    if (!shown.includes(picked)) pick(shown[0] ?? null);
    else rows();
  }

  const firstInSight = () => Math.max(0, Math.floor(list.scrollTop / ROW) - 4);

  /** Creates the rows that are visible, and a few above and below. */
  function rows() {
    const first = (drawn = firstInSight());
    const fit = Math.ceil((list.clientHeight || 560) / ROW) + 8;
    const seen = shown.slice(first, first + fit);
    inner.replaceChildren(...seen.map((one, i) => row(one, first + i)));
    const there = seen.includes(picked);
    if (there) list.setAttribute("aria-activedescendant", "picked");
    else list.removeAttribute("aria-activedescendant");
  }

  function row(sample, place) {
    const { group } = sample;
    const [color] = VERDICTS[sample.correct];
    const facts = [`step ${group.step}`, counted(sample.length, "token")];
    if (group.solved) facts.push(`group ${group.solved}`);
    if (runs.length > 1) facts.unshift(runs[group.run].name);
    const element = html(
      "div",
      {
        class: "row",
        role: "option",
        id: sample === picked ? "picked" : null,
        "aria-selected": sample === picked ? "true" : "false",
        "aria-setsize": shown.length,
        "aria-posinset": place + 1,
        style: `${colored(color)}; top: ${place * ROW}px`,
      },
      html(
        "div",
        {},
        html("b", {}, number(sample.score)),
        ...facts.map((fact) => html("span", {}, fact)),
      ),
      html("p", {}, ...marked(snippet(sample), wanted.text)),
    );
    element.addEventListener("click", () => pick(sample));
    return element;
  }

  /** Returns the text of a row: around the first match, or the beginning. */
  function snippet({ text, group }) {
    const hit = wanted.text ? text.toLowerCase().indexOf(wanted.text) : 0;
    if (hit < 0) return oneLine(group.prompt);
    const from = Math.max(0, hit - 24);
    return (from ? "…" : "") + oneLine(text.slice(from));
  }

  function pick(sample) {
    picked = sample;
    rows();
    detail.replaceChildren(
      ...(sample ? sampleView(sample, runs, show, wanted.text) : []),
    );
  }

  /** Opens a sample and scrolls the list to its row. */
  function show(sample) {
    if (!shown.includes(sample)) clear();
    pick(sample);
    const top = shown.indexOf(sample) * ROW;
    const last = top + ROW - list.clientHeight;
    list.scrollTop = clamp(list.scrollTop, last, top);
    rows();
  }

  function clear() {
    Object.assign(wanted, { text: "", verdict: null, cut: false });
    Object.assign(wanted, { step: "", run: "" });
    search.value = "";
    refresh();
    controls.replaceWith((controls = controlBar()));
  }

  function controlBar() {
    const steps = [...new Set(samples.map((s) => s.group.step))];
    const set = (name, value) => {
      wanted[name] = value;
      refresh();
    };
    const verdicts = [
      [null, "all"],
      [1, "right"],
      [0, "wrong"],
    ];
    if (samples.some((s) => s.correct < 0)) verdicts.push([-1, "no verdict"]);
    const cut = html("input", { type: "checkbox" });
    cut.checked = wanted.cut;
    cut.addEventListener("change", () => set("cut", cut.checked));
    const down = html("button", { type: "button" }, upward ? "↑" : "↓");
    down.setAttribute("aria-label", "Turn the order round");
    down.addEventListener("click", () => {
      upward = !upward;
      down.textContent = upward ? "↑" : "↓";
      refresh();
    });
    const sorts = Object.entries(SORTS).map(([key, [text]]) => [key, text]);
    const parts = [
      html("span", {}, search, " ", html("kbd", {}, "/")),
      choices("Verdicts", verdicts, wanted.verdict, (v) => set("verdict", v)),
      html("label", {}, cut, "unfinished"),
    ];
    if (steps.length > 1) {
      const texts = steps.map((step) => [`${step}`, `${step}`]);
      const every = [["", "all"], ...texts];
      parts.push(dropDown("Step", every, wanted.step, (v) => set("step", v)));
    }
    if (runs.length > 1) {
      const names = runs.map((run, i) => [`${i}`, run.name]);
      const every = [["", "all"], ...names];
      parts.push(dropDown("Run", every, wanted.run, (v) => set("run", v)));
    }
    const by = dropDown("Sort by", sorts, sort, (v) => {
      sort = v;
      refresh();
    });
    const order = html("span", { class: "together" }, by, down);
    return html("div", { class: "controls" }, ...parts, order);
  }

  search.addEventListener("input", () => {
    wanted.text = search.value.toLowerCase();
    refresh();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      list.focus();
    }
  });
  // Rows are replaced only if other rows become visible, so that a screen
  // reader or a click does not lose the row that it is on.
  list.addEventListener("scroll", () => {
    if (firstInSight() !== drawn) rows();
  });
  list.addEventListener("keydown", (event) => {
    const page = Math.floor(list.clientHeight / ROW);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const ends = { Home: -shown.length, End: shown.length };
    const move = by[event.key] ?? ends[event.key];
    if (move === undefined || !shown.length) return;
    event.preventDefault();
    const from = shown.indexOf(picked);
    show(shown[clamp(from + move, 0, shown.length - 1)]);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    search.focus();
    search.select();
  });

  let controls = controlBar();
  const both = html("div", { class: "browser" }, list, detail);
  slot.append(controls, html("p", {}, count), both);
  refresh();
  return show;
}

/** Returns the parts of a text; matches of the search are <mark> elements. */
function marked(text, wanted) {
  if (!wanted) return [text];
  const low = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (;;) {
    const hit = low.indexOf(wanted, from);
    if (hit < 0) break;
    const end = hit + wanted.length;
    parts.push(text.slice(from, hit), html("mark", {}, text.slice(hit, end)));
    from = end;
  }
  return [...parts, text.slice(from)];
}
