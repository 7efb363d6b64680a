/** Formats the result as a table: the figures of hub and floor, their ratios, and the verdicts on the targets. */

import { ratioOf } from './ratio.mjs';

/** The format of each figure. */
export const FIGURES = {
  p50: (value) => `${value.toFixed(2)} ms`,
  p99: (value) => `p99 ${value.toFixed(1)}`,
  perSecond: (value) => `${rounded(value)}/s`,
  milliseconds: (value) => `${Math.round(value)} ms`,
  megabytes: (value) => `${Math.round(value)} MB`,
  kilobytes: (value) => `${Math.round(value)} KB`,
  count: rounded,
  percent: (value) => `${value.toFixed(1)} %`,
  cpuMs: (value) => `${value.toFixed(value < 0.1 ? 3 : 2)} ms`,
  dollars: (value) => `$${value.toFixed(2)}`,
};

function rounded(value) {
  const step = value >= 1000 ? 10 : 1;
  return (Math.round(value / step) * step).toLocaleString('en-US');
}

/** Formats the figures of one server, the main figure of the row first. Leaves out the CPU time. */
export function formatFigures(figures, mainFigure) {
  if (!figures) return '';
  return [...new Set([mainFigure, 'p50', 'p99', 'perSecond'])]
    .filter((key) => Number.isFinite(figures[key]))
    .map((key) => FIGURES[key](figures[key]))
    .join(', ');
}

const ratioToFloor = (hub, floor, key) => (Number.isFinite(hub?.[key]) && floor?.[key] > 0 ? hub[key] / floor[key] : null);

/** Returns the ratio of the slices, which other load disturbs less than the ratio of the sums. Without slices, the ratio of the sums. */
const cpuRatioToFloor = (hub, floor) =>
  (hub?.slices && floor?.slices ? ratioOf({ of: hub.slices, to: floor.slices }, 'cpuMs')?.median : null) ??
  ratioToFloor(hub, floor, 'cpuMs');

/**
 * Formats a target, and whether a value meets it.
 * @param {{of: string, most?: number, least?: number, unit?: string} | undefined} target `of`: `ratio` for a target of the ratio to the floor
 */
function formatVerdict(target, value) {
  if (!target) return ['', ''];
  const { of, most, least, unit = '' } = target;
  const [sign, limit, isMet] = most === undefined ? ['>', least, value > least] : ['<=', most, value <= most];
  const text = `${sign} ${limit.toLocaleString('en-US')}${of === 'ratio' ? ' x floor' : unit}`;
  return [text, !Number.isFinite(value) ? '' : isMet ? 'met' : 'missed'];
}

export const HEADINGS = ['work', 'hub', 'floor', 'hub / floor', 'target', '', 'CPU hub', 'CPU floor', 'CPU hub / floor', 'target', ''];

const formatCpu = (figures) => (Number.isFinite(figures?.cpuMs) ? FIGURES.cpuMs(figures.cpuMs) : '');
const formatRatio = (ratio) => (ratio === null ? '' : ratio.toFixed(2));

/**
 * Returns the cells of a declared row with the figures of floor and hub.
 * @param {Record<string, any>} row
 * @param {Record<string, any>} figures
 */
export function cellsOf({ work, mainFigure, target, maxCpuRatio }, { floor, hub }) {
  const ratio = ratioToFloor(hub, floor, mainFigure);
  const cpuRatio = cpuRatioToFloor(hub, floor);
  return [
    work,
    formatFigures(hub, mainFigure),
    formatFigures(floor, mainFigure),
    formatRatio(ratio),
    ...formatVerdict(target, target?.of === 'ratio' ? ratio : hub?.[mainFigure]),
    formatCpu(hub),
    formatCpu(floor),
    formatRatio(cpuRatio),
    ...formatVerdict(maxCpuRatio && { of: 'ratio', most: maxCpuRatio }, cpuRatio),
  ];
}

/** Formats a Markdown table with aligned columns. @param {{headings: string[], lines: string[][]}} table */
export function formatTable({ headings, lines }) {
  const widths = headings.map((heading, column) =>
    Math.max(...[heading, ...lines.map((line) => line[column])].map(({ length }) => length), 3),
  );
  const print = (line) => `| ${line.map((text, column) => text.padEnd(widths[column])).join(' | ')} |`;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [print(headings), rule, ...lines.map(print)].join('\n');
}
