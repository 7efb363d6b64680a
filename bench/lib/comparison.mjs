/** The result of `--compare`: the ratio of two builds in each row, and its spread over the slices. */

import { FIGURES, formatFigures, formatTable } from './report.mjs';

/**
 * The ratio of a figure of two builds that were measured in alternating slices: the median of the slices' ratios, and the
 * `spread` `[low, high]`, which has the middle half of them. An unchanged build leaves 1 outside a spread of twelve slices
 * with a probability of 4 %. Null without slices.
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
  const outside = Math.ceil(ratios.length / 4) - 1;
  // The geometric mean of the two in the middle: exchanging the builds gives the reciprocal.
  const ratio = Math.sqrt(ratios[Math.floor(last / 2)] * ratios[Math.ceil(last / 2)]);
  return { ratio, spread: [ratios[outside], ratios[last - outside]] };
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
