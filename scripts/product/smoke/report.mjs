// The report of a smoke test as text: a table, the regions, and the verdict.

import { isOnThisMachine } from '../../../packages/cli-kit/src/token.mjs';

const COLUMNS = ['check', 'result', 'n', 'p50', 'p99', 'worker', 'object', 'D1', 'batches'];

const ms = (value) => (value === undefined ? '' : `${value >= 100 ? Math.round(value) : value} ms`);

/** @param {import('./run.mjs').CheckReport} check */
function rowOf({ name, result, count, p50, p99, server }) {
  const { worker, object, d1, batches } = server;
  const percentiles = (part) => (part ? `${part.p50} / ${ms(part.p99)}` : '');
  return [
    name,
    result,
    count ? String(count) : '',
    ms(p50),
    ms(p99),
    percentiles(worker),
    percentiles(object),
    percentiles(d1),
    batches ? String(batches.p50) : '',
  ];
}

/** @param {string[][]} rows the first row is the header; all columns after the second are numbers */
function alignColumns(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const pad = (text, column) => (column < 2 ? text.padEnd(widths[column]) : text.padStart(widths[column]));
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}

/** @param {import('./run.mjs').Report} report */
export function describeReport({ hub, version, passed, seconds, regions, checks }) {
  const unknown = isOnThisMachine(hub) ? 'local' : 'unknown';
  const regionsOf = (names) => names.join(', ') || unknown;
  const failed = checks.filter(({ result }) => result === 'failed');
  const skipped = checks.filter(({ result }) => result === 'skipped');
  const list = (title, checksOfResult) =>
    checksOfResult.length > 0 ? [title, ...checksOfResult.map(({ name, detail }) => `  ${name}: ${detail}`)] : [];
  return [
    `Hub: ${hub}${version ? `, version ${version}` : ''}`,
    `Regions: worker ${regionsOf(regions.worker)}; object ${unknown}; D1 ${regionsOf(regions.d1)}`,
    '',
    alignColumns([COLUMNS, ...checks.map(rowOf)]),
    '',
    'p50 and p99 are what this client measured. worker, object and D1 are p50 / p99 of what the hub reported.',
    '',
    ...list('Failed:', failed),
    ...list('Skipped:', skipped),
    passed ? `Passed in ${seconds} s.` : `FAILED: ${failed.length} of ${checks.length} checks, in ${seconds} s.`,
  ].join('\n');
}
