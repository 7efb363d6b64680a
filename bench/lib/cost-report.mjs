/** The tables and notes of `npm run cost`. */

import { D1_GB_MONTH, D1_MAX_GB, PRICES, PRICES_READ_ON, accountBill, marginalPrice, marginalPrices, namespacesInPlan } from './prices.mjs';
import { D1_ROUND_TRIP_MS, FRAME_CPU_MS, REQUEST_CPU_MS, billedAmounts } from './usage.mjs';

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

/** Returns a table of the amounts and prices of a month: for messages and keep-alives, and for everything. */
export function monthTable(work, all) {
  const [workPrices, allPrices] = [marginalPrices(work), marginalPrices(all)];
  const lines = Object.entries(PRICES).map(([item, { title }]) => [
    title,
    ...[formatCount(work[item]), dollars(workPrices[item]), formatCount(all[item]), dollars(allPrices[item])],
    SOURCES[item],
  ]);
  const sum = ['sum', '', dollars(marginalPrice(work)), '', dollars(marginalPrice(all)), `list prices of ${PRICES_READ_ON}`];
  return { headings: ['', 'messages, keep-alives', 'price', 'everything', 'price', 'how the amount is known'], lines: [...lines, sum] };
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

/** Returns how many namespaces fit into the plan, and into a database. `gigabytes`: the growth of the database by a namespace in a month. */
export function planNotes(amounts, gigabytes) {
  const { item, count } = namespacesInPlan(amounts);
  const bills = [10, 20, 50, 100].map((namespaces) => `${namespaces}: ${dollars(accountBill(amounts, namespaces))}`);
  return [
    `the $5 plan includes ${count} such namespaces; with more, ${PRICES[item].title} are the first that are charged`,
    `bill of an account by its number of such namespaces: ${bills.join(', ')}`,
    `storage: the database grows by ${gigabytes.toFixed(2)} GB a month, for which each later month costs ${dollars(gigabytes * D1_GB_MONTH.price)}; ` +
      `${Math.floor(D1_MAX_GB / gigabytes)} such months fill a database of ${D1_MAX_GB} GB`,
  ];
}
