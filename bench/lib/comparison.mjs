/** The result of `--compare`: for each row, the ratio of two builds, and the spread of this ratio over the slices. */

import { median } from '../../scripts/lib/statistics.mjs';
import { ratioOf } from './ratio.mjs';
import { FIGURES, formatFigures, formatTable } from './report.mjs';

/**
 * Joins the figures of several passes. Keeps all slices. Takes the median of every other figure.
 * @param {Record<string, any>[]} passes
 * @returns {Record<string, any>}
 */
export function joinPasses(passes) {
  const join = (servers) => ({
    ...Object.fromEntries(Object.keys(servers[0]).map((key) => [key, median(servers.map((server) => server[key]))])),
    slices: servers.flatMap(({ slices }) => slices),
  });
  return Object.fromEntries(Object.keys(passes[0]).map((name) => [name, join(passes.map((figures) => figures[name]))]));
}

/**
 * Makes one row of the result, from the declared row and the figures of the floor and of the builds A and B.
 * @param {{id: string, work: string, headline: string}} row
 * @param {Record<string, any>} figures
 */
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

/** Formats the CPU time for each request, and its ratio to the floor. */
function formatCpu({ cpuMs, slices }, floor) {
  if (!Number.isFinite(cpuMs)) return '';
  return `${FIGURES.cpuMs.text(cpuMs)}, ${ratioOf(floor.slices, slices, 'cpuMs').ratio.toFixed(2)} x floor`;
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
