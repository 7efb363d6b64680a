/** Makes the rows of the result, with the ratios to the floor and the verdicts on the targets. Formats the rows as a table. */

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
 * Returns the text of a target, and whether a value meets it; null without a value.
 * @param {{of: string, most?: number, least?: number, unit?: string}} target
 */
function verdictOf({ of, most, least, unit = '' }, value) {
  const [sign, limit, isMet] = most === undefined ? ['>', least, value > least] : ['<=', most, value <= most];
  const text = `${sign} ${limit.toLocaleString('en-US')}${of === 'ratio' ? ' x floor' : unit}`;
  return { text, met: Number.isFinite(value) ? isMet : null };
}

/**
 * Makes one row of the result: the declared row with the figures of floor and hub, and:
 * - `ratio`: the main figure of the hub, divided by the main figure of the floor
 * - `target` `{text, met}`: null without a target; `met` is null without a figure
 * - `cpuRatio`: the CPU time of a request of the hub, divided by the CPU time of a request of the floor
 * - `cpuTarget`: the verdict on the declared `maxCpuRatio`
 * @param {Record<string, any>} row
 * @param {Record<string, any>} figures
 */
export function makeRow({ id, work, mainFigure, target, maxCpuRatio }, { floor = null, hub = null }) {
  const ratio = ratioToFloor(hub, floor, mainFigure);
  const cpuRatio = cpuRatioToFloor(hub, floor);
  return {
    id,
    work,
    mainFigure,
    hub,
    floor,
    ratio,
    target: target ? verdictOf(target, target.of === 'ratio' ? ratio : hub?.[mainFigure]) : null,
    cpuRatio,
    cpuTarget: maxCpuRatio ? verdictOf({ of: 'ratio', most: maxCpuRatio }, cpuRatio) : null,
  };
}

const HEADINGS = ['work', 'hub', 'floor', 'hub / floor', 'target', '', 'CPU hub', 'CPU floor', 'CPU hub / floor', 'target', ''];

const formatVerdict = (target) => [target?.text ?? '', target?.met === true ? 'met' : target?.met === false ? 'missed' : ''];
const formatCpu = (figures) => (Number.isFinite(figures?.cpuMs) ? FIGURES.cpuMs(figures.cpuMs) : '');
const formatRatio = (ratio) => (ratio === null ? '' : ratio.toFixed(2));

/** Formats the rows of a result as a table. */
export function formatRows(rows) {
  const lines = rows.map(({ work, mainFigure, hub, floor, ratio, target, cpuRatio, cpuTarget }) => [
    work,
    formatFigures(hub, mainFigure),
    formatFigures(floor, mainFigure),
    formatRatio(ratio),
    ...formatVerdict(target),
    formatCpu(hub),
    formatCpu(floor),
    formatRatio(cpuRatio),
    ...formatVerdict(cpuTarget),
  ]);
  return formatTable({ headings: HEADINGS, lines });
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
