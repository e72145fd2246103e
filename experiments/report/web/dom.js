// Elements, numbers and words that every part of the page uses.

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

/** An HTML element; texts among its children stay texts. */
function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** The custom property by which styles colour an element. */
function colored(color) {
  return `--c: var(--${color})`;
}

const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

/** A number as one reads it, with about three digits. */
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

/** The same with its sign. */
function signed(x) {
  return (x > 0 ? "+" : "") + number(x);
}

/** A share as a percentage. */
function percent(x) {
  return known(x) ? `${(100 * x).toFixed(x > 0 && x < 0.1 ? 1 : 0)} %` : "–";
}

/** "1 sample", "2 samples". */
function counted(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

function clamp(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

/** Buttons of which one is pressed: `[[value, text], ...]`. */
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

/** A drop-down list: `[[value, text], ...]`. */
function dropDown(label, options, picked, onPick) {
  const select = html("select");
  for (const [value, text] of options) {
    select.append(html("option", { value, selected: value === picked }, text));
  }
  select.addEventListener("change", () => onPick(select.value));
  return html("label", {}, label, select);
}

/** Says to a screen reader what the keyboard has come to. */
function announce(text) {
  document.getElementById("announced").textContent = text;
}
