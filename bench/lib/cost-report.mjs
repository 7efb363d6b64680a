/** The tables of `npm run cost`. */

import { PRICES, marginalPrice, marginalPrices } from './prices.mjs';
import { billedAmounts } from './usage.mjs';

const dollars = (amount) => (amount === 0 ? '$0' : `$${amount.toFixed(amount < 0.01 ? 4 : 2)}`);
const formatCount = (number) => Math.round(number).toLocaleString('en-US');

/** Returns a table of the amounts and prices of a month: for messages and keep-alives, and for everything. */
export function monthTable(work, all) {
  const [workPrices, allPrices] = [marginalPrices(work), marginalPrices(all)];
  const lines = Object.entries(PRICES).map(([item, { title }]) => [
    title,
    ...[formatCount(work[item]), dollars(workPrices[item]), formatCount(all[item]), dollars(allPrices[item])],
  ]);
  const sum = ['sum', '', dollars(marginalPrice(work)), '', dollars(marginalPrice(all))];
  return { headings: ['', 'messages, keep-alives', 'price', 'everything', 'price'], lines: [...lines, sum] };
}

/** Returns a table of the parts of a month: what a part uses each time, and the price of the part in a month. */
export function partsTable(parts) {
  const headings = ['part', 'times a month', 'D1 rows written', 'D1 requests', 'wakes', 'object rows', 'busy ms', 'price a month'];
  const decimal = (number) => number.toLocaleString('en-US', { maximumFractionDigits: 1 });
  const lines = parts.map(({ title, times, once, month }) => [
    title,
    formatCount(times),
    ...[once.d1RowsWritten, once.objectRoundTrips, once.wakes, once.storageRowsWritten, once.busyMs].map(decimal),
    dollars(marginalPrice(billedAmounts(month))),
  ]);
  return { headings, lines };
}
