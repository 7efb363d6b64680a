/** The result of `--compare`: the ratio of two builds in each row, and its spread over the slices. */

import { median } from './measure.mjs';
import { FIGURES, formatFigures, formatTable } from './report.mjs';

const CONFIDENCE = 0.95;

/**
 * The rank from either end, from 1, between which the true median of `count` independent samples lies with `CONFIDENCE`: half
 * of them are expected on each side, so the number below it is binomially distributed. With fewer than six samples the ranks
 * are the ends, and the confidence is lower.
 */
export function rankOfInterval(count) {
  let rank = 1;
  // The probability that exactly `rank` samples, then that at most `rank` samples are below the median.
  let exactly = count / 2 ** count;
  let atMost = (1 + count) / 2 ** count;
  while (2 * atMost <= 1 - CONFIDENCE) {
    rank += 1;
    exactly *= (count - rank + 1) / rank;
    atMost += exactly;
  }
  return rank;
}

/**
 * The ratio of a figure of two builds that were measured in alternating slices: the median of the slices' ratios, and its
 * `spread` `[low, high]`, the interval in which the true median lies with `CONFIDENCE`. Null without slices.
 * @param {object[]} slicesA the figures of each slice of A
 * @param {object[]} slicesB those of B, in the same order
 * @param {string} key
 */
export function ratioOf(slicesA, slicesB, key) {
  const ratios = slicesA
    .map((slice, at) => slicesB[at]?.[key] / slice[key])
    .filter((ratio) => Number.isFinite(ratio) && ratio > 0)
    .sort((a, b) => a - b);
  if (ratios.length === 0) return null;
  const last = ratios.length - 1;
  const outside = rankOfInterval(ratios.length) - 1;
  // The geometric mean of the two in the middle: exchanging the builds gives the reciprocal.
  const ratio = Math.sqrt(ratios[Math.floor(last / 2)] * ratios[Math.ceil(last / 2)]);
  return { ratio, spread: [ratios[outside], ratios[last - outside]] };
}

/** Joins the figures of several passes: all slices, and the median of each other figure. */
export function joinPasses(passes) {
  const join = (sides) => ({
    ...Object.fromEntries(Object.keys(sides[0]).map((key) => [key, median(sides.map((side) => side[key]))])),
    slices: sides.flatMap(({ slices }) => slices),
  });
  return Object.fromEntries(Object.keys(passes[0]).map((name) => [name, join(passes.map((figures) => figures[name]))]));
}

/** One row of the result, from the declared row and the figures of the floor and of the builds A and B. */
export function makeComparison({ id, work, headline }, { floor, A, B }) {
  const relative = (key) => ratioOf(A.slices, B.slices, key);
  return {
    id,
    work,
    headline,
    better: FIGURES[headline].better,
    floor,
    A,
    B,
    ratio: relative(headline),
    cpuRatio: relative('cpuMs'),
  };
}

function formatRatio(relative) {
  if (relative === null) return '';
  const [low, high] = relative.spread.map((ratio) => ratio.toFixed(2));
  return `${relative.ratio.toFixed(2)} (${low} to ${high})`;
}

/** CPU time for each request, and its ratio to the floor. */
function formatCpu({ cpuMs }, floor) {
  if (!Number.isFinite(cpuMs)) return '';
  return `${FIGURES.cpuMs.text(cpuMs)}, ${(cpuMs / floor.cpuMs).toFixed(2)} x floor`;
}

const HEADINGS = ['work', 'A', 'B', 'B / A', 'floor', 'CPU A', 'CPU B', 'CPU B / A', 'CPU floor'];

const cellsOf = ({ work, headline, floor, A, B, ratio, cpuRatio }) => [
  work,
  formatFigures(A, headline),
  formatFigures(B, headline),
  formatRatio(ratio),
  formatFigures(floor, headline),
  formatCpu(A, floor),
  formatCpu(B, floor),
  formatRatio(cpuRatio),
  Number.isFinite(floor.cpuMs) ? FIGURES.cpuMs.text(floor.cpuMs) : '',
];

export function formatComparisons(rows) {
  return formatTable({ headings: HEADINGS, lines: rows.map(cellsOf) });
}
