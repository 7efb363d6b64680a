/** The ratio of a figure of two builds that were measured in alternating slices. */

const CONFIDENCE = 0.95;

/**
 * Returns the rank of the bounds of a confidence interval for the median of `count` independent samples. With the returned rank `r`, the
 * true median lies between the `r`th smallest and the `r`th largest sample with `CONFIDENCE`. Each sample is below the true median with
 * probability 1/2, so the number of samples below is binomially distributed. With fewer than six samples, the rank is 1 and the confidence
 * is lower.
 */
export function rankOfInterval(count) {
  let rank = 1;
  // The probability that exactly `rank` samples are below the median, as a logarithm because it may be tiny, and that at most `rank` are.
  let logExactly = Math.log(count) - count * Math.LN2;
  let atMost = (1 + count) / 2 ** count;
  while (2 * atMost <= 1 - CONFIDENCE) {
    rank += 1;
    logExactly += Math.log((count - rank + 1) / rank);
    atMost += Math.exp(logExactly);
  }
  return rank;
}

/**
 * Returns `median`, the median of the slices' ratios of a figure, and `spread` `[low, high]`, the interval in which the true median lies
 * with `CONFIDENCE`. Returns null if no slice has the figure.
 * @param {{of: object[], to: object[]}} slices the figures of each slice, in the same order: `of` of the numerator, `to` of the denominator
 * @param {string} key of the figure
 */
export function ratioOf({ of, to }, key) {
  const ratios = of
    .map((slice, at) => slice[key] / to[at]?.[key])
    .filter((ratio) => Number.isFinite(ratio) && ratio > 0)
    .sort((a, b) => a - b);
  if (ratios.length === 0) return null;
  const last = ratios.length - 1;
  const outside = rankOfInterval(ratios.length) - 1;
  // The geometric mean of the two ratios in the middle, so that exchanging the builds gives the reciprocal.
  const middle = Math.sqrt(ratios[Math.floor(last / 2)] * ratios[Math.ceil(last / 2)]);
  return { median: middle, spread: [ratios[outside], ratios[last - outside]] };
}
