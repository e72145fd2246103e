"""The page of a report, in a real browser: Debian's chromium, driven by it.

Without chromium these tests are skipped; in CI they fail.
"""

import os
import shutil
import time

import numpy as np
import pytest
from helpers import untrained_runs
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from experiments import report

GROUPS, S, FILES = 157, 16, (0, 60, 120, 180)  # 10,048 samples
SHOWN = 10_000
HOSTILE = (
  '</script><script>window.hacked = 1</script><img src="x" '
  'onerror="window.hacked = 1">'
)
CHARTS = "[...document.querySelectorAll('.chart svg')]"
HELPERS = """
  const isSeen = (chart) => !chart.closest("details:not([open])");
  const isDrawn = (chart) => chart.querySelector(".line, .bar, .cell") !== null;
"""
SEARCHES = ("4 + 5", "prompt 7", "", "no such text", "+", "9 - 1 * 2", "eos")


def chromium():
  """Chromium and its driver, or why there is none of them here."""
  result = shutil.which("chromium"), shutil.which("chromedriver")
  if not all(result):
    why = "chromium and chromium-driver are not installed"
    if os.environ.get("CI") == "true":
      pytest.fail(why)
    pytest.skip(why)
  return result


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
  binary, driver = chromium()
  options = webdriver.ChromeOptions()
  options.binary_location = binary
  for flag in (
    "headless=new",
    "no-sandbox",  # as root, in a container
    "disable-dev-shm-usage",
    "disable-gpu",
    f"user-data-dir={tmp_path_factory.mktemp('profile')}",
  ):
    options.add_argument(f"--{flag}")
  options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
  service = webdriver.ChromeService(executable_path=driver)
  driven = webdriver.Chrome(options=options, service=service)
  driven.set_script_timeout(60)
  yield driven
  driven.quit()


def emulated(browser, width=1280, height=900, scheme="light"):
  """A window of that size, in that theme."""
  size = {"width": width, "height": height}
  browser.execute_cdp_cmd(
    "Emulation.setDeviceMetricsOverride",
    {**size, "deviceScaleFactor": 1, "mobile": False},
  )
  features = {
    "prefers-color-scheme": scheme,
    "prefers-reduced-motion": "reduce",
  }
  browser.execute_cdp_cmd(
    "Emulation.setEmulatedMedia",
    {"features": [{"name": k, "value": v} for k, v in features.items()]},
  )


def opened(browser, path, **how):
  """The page, when its scripts are done."""
  emulated(browser, **how)
  browser.get(path.as_uri())
  until(browser, "document.documentElement.dataset.ready === 'true'")
  until(browser, f"{CHARTS}.filter(isSeen).every(isDrawn)")
  return browser


def until(browser, condition):
  """Waits for a condition, which a page that is broken never meets."""
  for _ in range(600):
    if browser.execute_script(f"{HELPERS} return {condition}"):
      return
    time.sleep(0.05)
  logged = browser.get_log("browser")
  raise AssertionError(f"never so: {condition}; {logged}")


def samples(rng, step):
  """The samples of a file; those of one group are about equally good."""
  symbols = np.array([*"123456789", "+", "-", "*"])
  for p in range(GROUPS):
    skill = rng.random()
    for _ in range(S):
      length = int(rng.integers(4, 9))
      text = " ".join([*rng.choice(symbols, length), "<eos>"])
      right = bool(rng.random() < skill)
      steps = rng.normal(0.5 * right, 0.4, 3).round(3)
      yield untrained_runs.record(
        1000 * step + p,
        text,
        score=float(right) + 0.001 * length,
        correct=int(right),
        finished=bool(rng.random() < 0.9),
        advantages=[0.5 if right else -0.5] * (length + 1),
        log_probs=(-rng.exponential(0.7, length + 1)).round(4).tolist(),
        entropies=rng.exponential(0.6, length + 1).round(4).tolist(),
        step_ids=[min(3 * t // (length + 1), 2) for t in range(length + 1)],
        step_scores=steps.tolist(),
      )


@pytest.fixture(scope="module")
def written():
  """Returns the samples in the rollout files of the run, by step."""
  rng = np.random.default_rng(0)
  result = {step: list(samples(rng, step)) for step in FILES}
  first = untrained_runs.record(180_000, HOSTILE, score=9.0, correct=-1)
  result[180][0] = first
  for record in result[180][:S]:
    record["prompt"] = HOSTILE
  return result


@pytest.fixture(scope="module")
def shown(written):
  """Returns the samples that fit into the page, in the order of the page."""
  steps = sorted(FILES, reverse=True)
  return [record for step in steps for record in written[step]][:SHOWN]


@pytest.fixture(scope="module")
def run(written, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("runs") / "a <b>run"
  untrained_runs.make(workdir)
  for step, records in written.items():
    untrained_runs.write(workdir, step, records)
  assert report.main([str(workdir)]) == 0
  return workdir


@pytest.fixture(scope="module")
def both(run):
  """A page of two runs."""
  other = run.parent / "other"
  untrained_runs.make(other, 0.5, "grpo(beta=0.0)")
  untrained_runs.write(other, 60, samples(np.random.default_rng(1), 60))
  out = run.parent / "both.html"
  assert report.main([str(run), str(other), "--out", str(out)]) == 0
  return out


@pytest.fixture
def page(browser, run):
  return opened(browser, run / report.PAGE_FILE)


def texts(page, selector):
  return page.execute_script(
    "return [...document.querySelectorAll(arguments[0])]"
    ".map((one) => one.textContent)",
    selector,
  )


def count(page):
  """Returns the number of samples that the heading of the list states."""
  return int(texts(page, "#count")[0].split()[0].replace(",", ""))


def search(page, text):
  """Types into a field; returns the milliseconds until the page reacts."""
  return page.execute_script(
    """
    const search = document.getElementById("search");
    const start = performance.now();
    search.value = arguments[0];
    search.dispatchEvent(new Event("input"));
    document.querySelector(".list").getBoundingClientRect();
    return performance.now() - start;
    """,
    text,
  )


def select(page, label, value):
  """Returns the options of a drop-down list."""
  path = f"//label[contains(., '{label}')]/select"
  Select(page.find_element(By.XPATH, path)).select_by_value(value)


def press(page, text):
  """A button by its words."""
  path = f"//section[@id='rollouts']//button[text()='{text}']"
  page.find_element(By.XPATH, path).click()


def rows(page):
  """The first rows: score, and all that is said."""
  return texts(page, ".list .row")


def test_a_page_is_one_file_below_its_limit(browser, run, both):
  """10,000 samples and all curves in less than 8 MB, and nothing is fetched."""
  for path in (run / report.PAGE_FILE, both):
    assert path.stat().st_size < 8e6
    page = opened(browser, path)
    fetched = page.execute_script(
      "return performance.getEntriesByType('resource').map((one) => one.name)"
    )
    assert fetched == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["one", "several"])
def test_every_chart_is_drawn_and_nothing_goes_wrong(
  browser, run, both, name, width
):
  path = {"one": run / report.PAGE_FILE, "several": both}[name]
  page = opened(browser, path, width=width)
  page.execute_script(
    "document.querySelectorAll('details').forEach((one) => (one.open = true))"
  )
  until(browser, f"{CHARTS}.every(isSeen) && {CHARTS}.every(isDrawn)")
  result = page.execute_script(f"""return {CHARTS}.map((one) => ({{
    title: one.getAttribute("aria-label"),
    about: one.querySelector("desc")?.textContent ?? "",
    broken: [...one.querySelectorAll("*")].filter((part) =>
      [...part.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))
    ).length,
    wide: one.getBoundingClientRect().right > innerWidth + 1,
  }}))""")
  titles = [one["title"] for one in result]
  for expected in (
    "pass@k",
    "Mean reward",
    "Entropy",
    "Clipped below",
    "Learning rate",
    "legal",
    "loss/policy_gradient",
    "Samples right" if name == "one" else "other: samples right",
    "prm, mean score" if name == "one" else "prm, other, mean score",
    "Counts and advantages",
    "Step scores",
    "Mean score by step",
  ):
    assert any(title.startswith(expected) for title in titles), expected
  (gold, *_) = [one["about"] for one in result if one["title"][:4] == "prm,"]
  assert "proxy: from 0.255 to 0.85" in gold
  assert "gold: from 0.247 to \u22120.050" in gold
  assert "pass@1: from" in gold
  for one in result:
    assert one["broken"] == 0, one
    assert one["about"], one
    assert not one["wide"], one
  wide = page.execute_script(
    "return document.documentElement.scrollWidth > innerWidth"
  )
  assert not wide
  assert [one for one in page.get_log("browser")] == []


def test_lines_stand_where_the_values_say(page, run):
  """pass@1 of the base, read back from the place of its dot."""
  place = page.execute_script("""
    const chart = document.querySelector("#pass .chart svg");
    const texts = [...chart.querySelectorAll("text[text-anchor=end]")];
    const ticks = texts
      .map((one) => [Number(one.textContent), Number(one.getAttribute("y"))])
      .filter(([value]) => Number.isFinite(value));
    const dots = [...chart.querySelectorAll("circle.dot")];
    return { ticks, y: Number(dots[0].getAttribute("cy")) };
  """)
  values, heights = np.array(place["ticks"]).T
  slope, start = np.polyfit(heights - 3.5, values, 1)
  base = report.read(run).evaluations["base"]
  want = base.estimates["accuracy/pass@1"].mean
  assert slope * place["y"] + start == pytest.approx(want, abs=0.01)


def luminance(color):
  """Returns the relative luminance of `rgb(r, g, b)`, as WCAG defines it."""
  inside = color[color.index("(") + 1 : color.index(")")]
  parts = np.array([float(x) for x in inside.split(",")[:3]]) / 255
  linear = np.where(
    parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4
  )
  return linear @ [0.2126, 0.7152, 0.0722]


def contrast(page, selector):
  """Between a text and the paper."""
  ink, paper = (
    luminance(color)
    for color in page.execute_script(
      "return [getComputedStyle(document.querySelector(arguments[0])).color,"
      "getComputedStyle(document.body).backgroundColor]",
      selector,
    )
  )
  return (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)


def paper(page):
  script = "return getComputedStyle(document.body).backgroundColor"
  return luminance(page.execute_script(script))


def test_both_themes_can_be_read_and_the_button_turns_them(browser, run):
  for scheme in ("light", "dark"):
    page = opened(browser, run / report.PAGE_FILE, scheme=scheme)
    assert (paper(page) > 0.5) == (scheme == "light")
    for selector in ("h1", ".facts", ".up", "table .number span", ".verdict"):
      assert contrast(page, selector) > 3.0, selector
    assert contrast(page, "h1") > 10
    assert contrast(page, ".facts") > 4.5
    page.find_element(By.ID, "theme").click()
    assert (paper(page) > 0.5) == (scheme == "dark")
    page.execute_script("localStorage.clear()")


def test_all_is_reached_by_the_keyboard(page):
  def focused():
    return page.switch_to.active_element

  body = page.find_element(By.TAG_NAME, "body")
  body.send_keys(Keys.TAB)
  assert focused().get_attribute("class") == "skip"
  # A chart: arrows move its cursor.
  chart = page.find_element(By.CSS_SELECTOR, "#training .chart svg")
  page.execute_script("arguments[0].focus()", chart)
  value = "#training .chart .value"
  at_rest = texts(page, value)[0]
  chart.send_keys(Keys.ARROW_LEFT)
  assert texts(page, value)[0].startswith("step 118: ")
  assert texts(page, "#announced")[0].startswith("step 118: ")
  chart.send_keys(Keys.HOME)
  assert texts(page, value)[0].startswith("step 1: ")
  assert len(page.find_elements(By.CSS_SELECTOR, "#training .cursor")) > 4
  chart.send_keys(Keys.ESCAPE)
  assert texts(page, value)[0] == at_rest
  # The rollouts: slash, a search, down into the list.
  chart.send_keys("/")
  assert focused().get_attribute("id") == "search"
  focused().send_keys("4")
  assert focused().get_attribute("value") == "4"  # the slash is not in it
  assert 0 < count(page) < SHOWN
  focused().send_keys(Keys.ARROW_DOWN)
  assert focused().get_attribute("role") == "listbox"
  first = texts(page, ".detail header")
  focused().send_keys(Keys.ARROW_DOWN)
  second = texts(page, ".detail header")
  assert second != first
  focused().send_keys(Keys.ARROW_UP)
  assert texts(page, ".detail header") == first
  focused().send_keys(Keys.END)
  selected = page.find_element(By.CSS_SELECTOR, "[aria-selected=true]")
  page.execute_script(
    "document.activeElement.dispatchEvent(new Event('scroll'))"
  )
  assert int(selected.get_attribute("aria-posinset")) == count(page)
  assert selected.is_displayed()
  # The tokens of a text.
  text = page.find_element(By.CSS_SELECTOR, ".detail .text[tabindex]")
  page.execute_script("arguments[0].focus()", text)
  text.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
  assert texts(page, ".said")[0].startswith("token 2: ")
  for word in ("advantage", "probability", "entropy", "its score"):
    assert word in texts(page, ".said")[0]


def test_ten_thousand_samples_are_searched_in_a_tenth_of_a_second(page, shown):
  """The time that the page itself measures, drawing included."""
  assert count(page) == SHOWN
  took = []
  for text in SEARCHES:
    result = [
      r
      for r in shown
      if text in r["prompt"].lower() or text in r["completion"].lower()
    ]
    took += [search(page, text) for _ in range(3)]
    assert count(page) == len(result)
  assert np.median(took) < 100


def test_filters_and_sorts_are_what_they_say(page, shown):
  press(page, "right")
  assert count(page) == sum(r["correct"] == 1 for r in shown)
  press(page, "no verdict")
  assert count(page) == 1
  press(page, "all")
  page.find_element(By.CSS_SELECTOR, "#rollouts input[type=checkbox]").click()
  assert count(page) == sum(not r["finished"] for r in shown)
  page.find_element(By.CSS_SELECTOR, "#rollouts input[type=checkbox]").click()
  select(page, "Step", "60")
  assert count(page) == GROUPS * S
  select(page, "Step", "")
  assert rows(page)[0].startswith("9step 180")  # the newest is the first
  select(page, "Sort by", "length")
  longest = max(len(r["tokens"]) for r in shown)
  assert f"{longest} tokens" in rows(page)[0]
  press(page, "↓")
  shortest = min(len(r["tokens"]) for r in shown)
  assert f"{shortest} token" in rows(page)[0]
  press(page, "↑")
  select(page, "Sort by", "score")
  assert rows(page)[0].startswith("9step 180")
  select(page, "Sort by", "disagreement")
  groups = {}
  for r in shown:
    groups.setdefault(r["prompt_id"], []).append(r["score"])
  spread = {key: np.std(scores) for key, scores in groups.items()}
  assert max(spread, key=spread.get) == 180_000  # where one earns nine
  page.find_element(By.CSS_SELECTOR, ".list .row").click()
  assert "prompt 180000" in texts(page, ".detail header")[0]
  assert len(texts(page, ".siblings button")) == S


def test_what_is_not_shown_is_told(page):
  left_out = GROUPS * len(FILES) * S - SHOWN
  output = texts(page, "#rollouts .note")
  assert any(
    f"of step 0, {GROUPS * S - left_out:,} of {GROUPS * S:,} samples" in text
    for text in output
  )


def test_only_rows_in_sight_exist_and_scrolling_finds_the_others(page):
  assert len(rows(page)) < 40
  height = page.execute_script(
    "const list = document.querySelector('.list');"
    "list.scrollTop = list.scrollHeight; return list.scrollHeight"
  )
  assert height > SHOWN * 40
  until(
    page,
    f"!!document.querySelector('.row[aria-posinset=\"{SHOWN}\"]')",
  )


def test_texts_are_texts(page):
  press(page, "no verdict")
  page.find_element(By.CSS_SELECTOR, ".list .row").click()
  prompt, completion = texts(page, ".detail .text")
  assert prompt == completion == HOSTILE
  assert page.execute_script("return window.hacked") is None
  assert texts(page, "h1") == ["a <b>run"]
  assert page.title == "a <b>run"
  assert page.find_elements(By.CSS_SELECTOR, ".detail img") == []


def test_tokens_are_coloured_by_what_was_recorded(page, written):
  page.find_elements(By.CSS_SELECTOR, ".list .row")[1].click()
  record = written[180][1]

  def strengths():
    """Returns the share of the colour in each token's background."""
    return page.execute_script(
      "return [...document.querySelectorAll('.token')].map((one) => Number("
      "/([\\d.]+)%/.exec(one.style.getPropertyValue('--b'))?.[1] ?? -1))"
    )

  assert texts(page, ".token") == record["pieces"]
  press(page, "probability")
  improbable = 1 - np.exp(record["log_probs"])
  np.testing.assert_allclose(strengths(), 62 * improbable, atol=1.5)
  press(page, "entropy")
  order = np.argsort(record["entropies"])
  assert (np.diff(np.array(strengths())[order]) >= 0).all()
  press(page, "step score")
  assert len(set(strengths())) > 1
  press(page, "advantage")
  assert set(strengths()) == {62}
  press(page, "plain")
  assert set(strengths()) == {-1}


def test_an_episode_is_a_conversation(browser, tmp_path):
  run = tmp_path / "run"
  untrained_runs.make(run)
  record = untrained_runs.record(
    text="32 <eos> higher 48 <eos>",
    log_probs=[-0.5, -0.1, None, -2.0, -0.2],
    step_ids=[0, 0, -1, 1, 1],
    step_scores=[0.5, 0.25],
  )
  untrained_runs.write(run, 0, [record] * 4)
  assert report.main([str(run)]) == 0
  page = opened(browser, run / report.PAGE_FILE)
  turns = page.find_elements(By.CSS_SELECTOR, ".detail .turn")
  shown = [
    (turn.get_attribute("class"), turn.get_attribute("data-reward"))
    for turn in turns
  ]
  own = "turn own"
  assert shown == [(own, "0.500"), ("turn reply", None), (own, "0.250")]
  words = [text.strip() for text in texts(page, ".detail .turn")]
  assert words == ["32 <eos>", "higher", "48 <eos>"]
  assert texts(page, ".detail .text")[1] == record["completion"]
  assert page.get_log("browser") == []


def test_the_worst_step_of_each_sample_is_marked(page, written):
  """Every row of the map has its dot, in the column of its least score."""
  result = page.execute_script("""
    const chart = document.querySelector("#steps .chart svg");
    const xs = [...chart.querySelectorAll("rect.cell")]
      .map((one) => Number(one.getAttribute("x")));
    const columns = [...new Set(xs)].sort((a, b) => a - b).slice(1);
    return [...chart.querySelectorAll(".least")].map((one) => {
      const x = Number(one.getAttribute("cx"));
      return columns.findLastIndex((left) => left < x);
    });
  """)
  shown = written[180][: len(result)]
  worst = [int(np.argmin(r["step_scores"])) for r in shown]
  assert len(result) == 80
  assert np.bincount(result).tolist() == np.bincount(worst).tolist()


def test_smoothing_changes_the_strong_line_and_not_the_faint_one(page):
  def lines():
    return page.execute_script(
      "const chart = document.querySelector('#training .chart svg');"
      "return ['.line', '.raw'].map((one) =>"
      "chart.querySelector(one).getAttribute('d'))"
    )

  strong, faint = lines()
  slider = page.find_element(By.ID, "smoothing")
  slider.send_keys(Keys.HOME)
  rough, same = lines()
  assert same == faint
  assert rough == faint  # without smoothing they are one
  assert rough != strong


def test_runs_are_told_apart_on_a_page_of_several(browser, both):
  page = opened(browser, both)
  labels = texts(page, "#pass .label")
  assert sorted(labels) == ["a <b>run", "base", "other"]
  assert texts(page, "#training .chart .label")[:2] == ["a <b>run", "other"]
  every = count(page)
  select(page, "Run", "1")
  assert 0 < count(page) < every
  assert "other" in rows(page)[0]
  settings = texts(page, "#config tbody th")
  assert settings == ["method"]


def test_samples_of_before_and_runs_without_them_are_shown(browser, tmp_path):
  old, none = tmp_path / "old", tmp_path / "none"
  for workdir in (old, none):
    untrained_runs.make(workdir)
  record = untrained_runs.record()
  new = ("pieces", "log_probs", "entropies", "step_ids", "step_scores")
  untrained_runs.write(
    old, 0, [{k: v for k, v in record.items() if k not in new}] * 4
  )
  assert report.main([str(old), str(none)]) == 0
  page = opened(browser, old / report.PAGE_FILE)
  assert texts(page, ".detail .text")[1] == record["completion"]
  assert page.find_elements(By.CSS_SELECTOR, ".token") == []
  assert page.find_elements(By.ID, "steps") == []
  page = opened(browser, none / report.PAGE_FILE)
  assert page.find_elements(By.ID, "rollouts") == []
  assert len(page.find_elements(By.CSS_SELECTOR, ".chart .line")) > 5
  assert page.get_log("browser") == []


def test_chromium_is_there_where_tests_must_not_be_skipped(monkeypatch):
  monkeypatch.setattr(shutil, "which", lambda name: None)
  monkeypatch.setenv("CI", "true")
  with pytest.raises(pytest.fail.Exception, match="not installed"):
    chromium()
  monkeypatch.setenv("CI", "")
  with pytest.raises(pytest.skip.Exception, match="not installed"):
    chromium()
