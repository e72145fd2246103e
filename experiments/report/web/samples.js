// Unpacks the samples that report/samples.py packed, into one object each.

/** Returns the JSON value of a compressed element; null without the element. */
async function unpacked(id) {
  const block = document.getElementById(id);
  if (!block) return null;
  const letters = atob(block.textContent);
  const bytes = Uint8Array.from(letters, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream();
  const inflated = stream.pipeThrough(new DecompressionStream("deflate"));
  return new Response(inflated).json();
}

/** Returns the mean and the standard deviation (divisor n). */
function moments(values) {
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  const square = values.reduce((sum, v) => sum + (v - mean) ** 2, 0);
  return [mean, Math.sqrt(square / values.length)];
}

/**
 * Returns the samples of all files; those of the latest steps come first.
 *
 * In advantages, logProbs, entropies and stepIds, one number stands for the
 * same value at all tokens.
 */
function samplesOf(files) {
  const samples = [];
  for (const file of files) {
    const groups = file.prompts.map(([id, prompt]) => ({
      ...{ id, prompt, run: file.run, step: file.step, members: [] },
    }));
    file.group.forEach((g, i) => {
      const group = groups[g];
      const text = file.completion[i];
      const sample = {
        group,
        text,
        place: group.members.length,
        find: `${group.prompt}\n${text}`.toLowerCase(),
        score: file.score[i],
        correct: file.correct[i],
        finished: file.finished[i] === 1,
        length: file.length[i],
        terms: file.terms.map(([name, values]) => [name, values[i]]),
        cuts: file.cuts?.[i] ?? null,
        advantages: file.advantages?.[i] ?? null,
        logProbs: file.log_probs?.[i] ?? null,
        entropies: file.entropies?.[i] ?? null,
        stepIds: file.step_ids?.[i] ?? null,
        stepScores: file.step_scores?.[i] ?? null,
      };
      group.members.push(sample);
      samples.push(sample);
    });
    for (const group of groups) judge(group);
  }
  samples.forEach((sample, i) => (sample.order = i));
  return samples;
}

/**
 * Sets `disagreement` of a group, the standard deviation of its scores or, if
 * that is 0, of its verdicts; and `solved`, a text such as "2/8 right".
 */
function judge(group) {
  const scores = group.members.map((one) => one.score).filter(known);
  const all = group.members.map((one) => one.correct);
  const verdicts = all.filter((verdict) => verdict >= 0);
  const [, spread] = scores.length ? moments(scores) : [0, 0];
  const [share, doubt] = verdicts.length ? moments(verdicts) : [0, 0];
  group.disagreement = spread || doubt;
  group.solved = verdicts.length
    ? `${Math.round(share * verdicts.length)}/${verdicts.length} right`
    : "";
}

const VERDICTS = {
  1: ["right", "right"],
  0: ["wrong", "wrong"],
  "-1": ["unknown", "no verdict"],
};

/** Returns the value at token t. */
const at = (values, t) => (Array.isArray(values) ? values[t] : values);

/** Returns the texts of the tokens of a sample. */
function pieces(sample) {
  let from = 0;
  return sample.cuts.map((size) => sample.text.slice(from, (from += size)));
}

/** Returns the beginning of a text as one line. */
function oneLine(text) {
  return text.slice(0, 400).replace(/\s+/g, " ").slice(0, 160);
}
