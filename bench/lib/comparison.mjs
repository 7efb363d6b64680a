/** The result of `--compare`: for each row, the ratio of two builds, and the spread of this ratio over the slices. */

import { median } from '../../scripts/lib/statistics.mjs';
import { ratioOf } from './ratio.mjs';
import { FIGURES, formatFigures } from './report.mjs';

/**
 * Joins the figures of several passes: keeps all slices, and replaces each of the other figures by its median over the passes.
 * @param {Record<string, any>[]} passes
 * @returns {Record<string, any>}
 */
export function joinPasses(passes) {
  const join = (figuresByPass) => ({
    ...Object.fromEntries(Object.keys(figuresByPass[0]).map((key) => [key, median(figuresByPass.map((figures) => figures[key]))])),
    slices: figuresByPass.flatMap(({ slices }) => slices),
  });
  return Object.fromEntries(Object.keys(passes[0]).map((server) => [server, join(passes.map((pass) => pass[server]))]));
}

function formatRatio(ratio) {
  if (ratio === null) return '';
  const [low, high] = ratio.spread.map((bound) => bound.toFixed(2));
  return `${ratio.median.toFixed(2)} (${low} to ${high})`;
}

/** Formats the CPU time for each request, and its ratio to the floor. */
function formatCpu({ cpuMs, slices }, floor) {
  if (!Number.isFinite(cpuMs)) return '';
  return `${FIGURES.cpuMs(cpuMs)}, ${ratioOf({ of: slices, to: floor.slices }, 'cpuMs').median.toFixed(2)} x floor`;
}

export const HEADINGS = ['work', 'A', 'B', 'B / A', 'floor', 'CPU A', 'CPU B', 'CPU B / A', 'CPU floor'];

/**
 * Returns the cells of a declared row with the figures of the floor and of the builds A and B.
 * @param {Record<string, any>} row
 * @param {Record<string, any>} figures
 */
export function cellsOf({ work, mainFigure }, { floor, A, B }) {
  const compareKey = (key) => formatRatio(ratioOf({ of: B.slices, to: A.slices }, key));
  return [
    work,
    formatFigures(A, mainFigure),
    formatFigures(B, mainFigure),
    compareKey(mainFigure),
    formatFigures(floor, mainFigure),
    formatCpu(A, floor),
    formatCpu(B, floor),
    compareKey('cpuMs'),
    Number.isFinite(floor.cpuMs) ? FIGURES.cpuMs(floor.cpuMs) : '',
  ];
}
