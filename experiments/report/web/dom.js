// Functions for elements, numbers and texts, which all scripts of the page use.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

/** Makes an HTML element; strings among its children are never read as HTML. */
function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Makes an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Returns a style that sets --c, the custom property for colours. */
function colored(color) {
  return `--c: var(--${color})`;
}

const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

/** Returns a number as a text of about three significant digits. */
function number(x) {
  if (!known(x)) return "–";
  const size = Math.abs(x);
  let text = size.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  if (Number.isInteger(x) || size >= 1000) {
    text = Math.round(size).toLocaleString("en");
  }
  if (size >= 1e7 || (size < 1e-3 && size > 0)) text = size.toExponential(1);
  return (x < 0 ? "−" : "") + text.replace("e-", "e−").replace("e+", "e");
}

/** Returns the text of `number` with a plus sign if the number is positive. */
function signed(x) {
  return (x > 0 ? "+" : "") + number(x);
}

/** Returns a share between 0 and 1 as a percentage. */
function percent(x) {
  return known(x) ? `${(100 * x).toFixed(x > 0 && x < 0.1 ? 1 : 0)} %` : "–";
}

/** Returns a number with a noun: "1 sample", "2 samples". */
function counted(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

function clamp(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

/** Makes buttons of which one is pressed; options: `[[value, text], ...]`. */
function choices(label, options, picked, onPick) {
  const group = html("span", { class: "choices", role: "group" });
  group.setAttribute("aria-label", label);
  for (const [value, text] of options) {
    const button = html("button", { type: "button" }, text);
    button.setAttribute("aria-pressed", value === picked);
    button.addEventListener("click", () => {
      for (const other of group.children) {
        other.setAttribute("aria-pressed", other === button);
      }
      onPick(value);
    });
    group.append(button);
  }
  return group;
}

/** Makes a drop-down list; options: `[[value, text], ...]`. */
function dropDown(label, options, picked, onPick) {
  const select = html("select");
  for (const [value, text] of options) {
    select.append(html("option", { value, selected: value === picked }, text));
  }
  select.addEventListener("change", () => onPick(select.value));
  return html("label", {}, label, select);
}

/** Makes screen readers read a text aloud. */
function announce(text) {
  document.getElementById("announced").textContent = text;
}
