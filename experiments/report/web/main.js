// Reads the data of the page and fills its sections.

const data = JSON.parse(document.getElementById("data").textContent);
const slotOf = (id) => document.querySelector(`#${id} .slot`);

function evaluations(slot) {
  const controls = html("div", { class: "controls" });
  const figures = [passAtK(data.runs, controls)];
  if (data.runs.length === 1) figures.push(...alongSteps(data.runs[0]));
  slot.classList.add("pair");
  slot.prepend(...figures); // before the tables, which the slot contains
  if (controls.childElementCount) slot.before(controls);
}

function counts(slot) {
  const there = data.runs.filter((run) => run.counts);
  for (const run of there) solveCounts(run, slot, data.runs.length > 1);
}

/** Marks the navigation link of the first section that is visible. */
function spyOnSections() {
  const links = new Map();
  for (const link of document.querySelectorAll(".top nav a")) {
    links.set(link.hash.slice(1), link);
  }
  const seen = new Set();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) seen.add(target.id);
        else seen.delete(target.id);
      }
      const first = [...links.keys()].find((id) => seen.has(id));
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-20% 0px -55% 0px" },
  );
  for (const id of links.keys()) observer.observe(document.getElementById(id));
}

if (slotOf("pass")) evaluations(slotOf("pass"));
trainingCurves(data.runs, {
  training: slotOf("training"),
  terms: slotOf("terms"),
});
if (slotOf("groups")) counts(slotOf("groups"));
const files = await unpacked("samples");
if (files) {
  const samples = samplesOf(files);
  const show = rolloutBrowser(samples, data.runs, slotOf("rollouts"));
  if (slotOf("steps")) stepScores(samples, data.runs, slotOf("steps"), show);
}
spyOnSections();
document.documentElement.dataset.ready = "true";
