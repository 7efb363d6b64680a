/** The tables and notes of `npm run cost` and `npm run idle` about cost. */

import { D1_GB_MONTH, D1_MAX_GB, PRICES, PRICES_READ_ON, accountBill, marginalPrice, marginalPrices, namespacesInPlan } from './prices.mjs';
import { D1_ROUND_TRIP_MS, FRAME_CPU_MS, REQUEST_CPU_MS, billedAmounts } from './usage.mjs';

/**
 * The first estimate of a month of messages and keep-alives, from November 2026, when a message wrote five or six rows and each invocation was logged.
 * The estimate was calculated from the statements of the hub.
 */
const FIRST_ESTIMATE = {
  d1RowsWritten: 1_650_000,
  d1RowsRead: 10_000_000,
  objectRequests: 104_000,
  objectGbSeconds: 1_500,
  objectRowsWritten: 66_000,
  objectRowsRead: 0,
  workerRequests: 0,
  workerCpuMs: 0,
  logEvents: 1_000_000,
};

/** How each amount was determined. */
const SOURCES = {
  d1RowsWritten: 'counted by D1',
  d1RowsRead: 'counted by D1',
  objectRequests: 'counted; 20 messages of a socket are billed as one',
  objectGbSeconds: `counted, plus ${D1_ROUND_TRIP_MS} ms assumed for each request to D1`,
  objectRowsWritten: 'counted, alarms included',
  objectRowsRead: 'counted',
  workerRequests: 'counted',
  workerCpuMs: `assumed: ${REQUEST_CPU_MS} ms a request, ${FRAME_CPU_MS} ms a frame`,
  logEvents: 'lines counted; invocations as in wrangler.toml',
};

const dollars = (amount) => (amount === 0 ? '$0' : `$${amount.toFixed(amount < 0.01 ? 4 : 2)}`);
const formatCount = (number) => Math.round(number).toLocaleString('en-US');

/** Returns a table of the amounts and prices of a month: for messages and keep-alives, for the first estimate of them, and for everything. */
export function monthTable(work, all) {
  const prices = [work, FIRST_ESTIMATE, all].map(marginalPrices);
  const lines = Object.keys(PRICES).map((item) => [
    PRICES[item].title,
    ...[work, FIRST_ESTIMATE, all].flatMap((amounts, n) => [formatCount(amounts[item]), dollars(prices[n][item])]),
    SOURCES[item],
  ]);
  const sums = [work, FIRST_ESTIMATE, all].flatMap((amounts) => ['', dollars(marginalPrice(amounts))]);
  const headings = [
    '',
    'messages, keep-alives',
    'price',
    'first estimate of them',
    'price',
    'everything',
    'price',
    'how the amount is known',
  ];
  return { headings, lines: [...lines, ['sum', ...sums, `list prices of ${PRICES_READ_ON}`]] };
}

/** Returns a table of the parts of a month: what a part uses each time, and the price of the part in a month. */
export function partsTable(parts) {
  const headings = [
    'part',
    'times a month',
    'D1 rows written',
    'D1 rows read',
    'D1 requests',
    'wakes',
    'object events',
    'object rows',
    'busy ms',
    'price a month',
  ];
  const decimal = (number) => number.toLocaleString('en-US', { maximumFractionDigits: 1 });
  const lines = parts.map(({ title, times, once, month }) => [
    title,
    formatCount(times),
    ...[once.d1RowsWritten, once.d1RowsRead, once.objectRoundTrips, once.wakes, once.events, once.storageRowsWritten, once.busyMs].map(
      decimal,
    ),
    dollars(marginalPrice(billedAmounts(month))),
  ]);
  return { headings, lines };
}

/** Returns a table of the usage of idle namespaces in a month. @param {[string, object][]} months title and usage of each namespace */
export function idleTable(months) {
  const headings = ['namespace', 'wakes', 'D1 rows written', 'object requests', 'object rows', 'GB-s', 'log events', 'price a month'];
  const lines = months.map(([title, month]) => {
    const amounts = billedAmounts(month);
    const items = ['d1RowsWritten', 'objectRequests', 'objectRowsWritten', 'objectGbSeconds', 'logEvents'];
    return [title, formatCount(month.wakes), ...items.map((item) => formatCount(amounts[item])), dollars(marginalPrice(amounts))];
  });
  return { headings, lines };
}

/** Returns how many namespaces fit into the plan, and into a database. `gigabytes`: the growth of the database by a namespace in a month. */
export function planNotes(amounts, gigabytes) {
  const { item, count } = namespacesInPlan(amounts);
  const bills = [10, 20, 50, 100].map((namespaces) => `${namespaces}: ${dollars(accountBill(amounts, namespaces))}`);
  return [
    `the $5 plan includes ${count} such namespaces; with more, ${PRICES[item].title} are the first that are charged`,
    `bills of an account with so many such namespaces: ${bills.join(', ')}`,
    `storage: the database grows by ${gigabytes.toFixed(2)} GB a month, for which each later month costs ${dollars(gigabytes * D1_GB_MONTH.price)}; ` +
      `${Math.floor(D1_MAX_GB / gigabytes)} such months fill a database of ${D1_MAX_GB} GB`,
  ];
}
