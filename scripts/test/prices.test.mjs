// Tests of the price arithmetic of `npm run cost`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { monthTable, partsTable } from '../../bench/lib/cost-report.mjs';
import { PRICES, accountBill, marginalPrice, marginalPrices } from '../../bench/lib/prices.mjs';
import { readOptions } from '../../bench/lib/options.mjs';
import { add, billedAmounts, scale, subtract } from '../../bench/lib/usage.mjs';
import { formatTable } from '../../bench/lib/report.mjs';

/** @type {any} */
const NOTHING = Object.fromEntries(
  `wakes alarms fetches messages events busyMs objectRoundTrips d1RowsWritten d1RowsRead
   databaseBytes storageRowsWritten storageRowsRead workerRequests logLines`
    .match(/\w+/g)
    .map((name) => [name, 0]),
);

const noAmounts = Object.fromEntries(Object.keys(PRICES).map((item) => [item, 0]));

test('the price of a million of each item without the plan', () => {
  const million = Object.fromEntries(Object.keys(PRICES).map((item) => [item, 1_000_000]));
  assert.deepEqual(marginalPrices(million), {
    d1RowsWritten: 1,
    d1RowsRead: 0.001,
    objectRequests: 0.15,
    objectGbSeconds: 12.5,
    objectRowsWritten: 1,
    objectRowsRead: 0.001,
    workerRequests: 0.3,
    workerCpuMs: 0.02,
    logEvents: 0.6,
  });
  assert.equal(marginalPrice({ d1RowsWritten: 500_000, logEvents: 1_000_000 }), 1.1);
});

test('an account pays for the plan, and for what exceeds its included amounts', () => {
  const amounts = { ...noAmounts, d1RowsWritten: 1_000_000, logEvents: 500_000 };
  assert.equal(accountBill(amounts, 40), 5);
  assert.equal(accountBill(amounts, 50), 5 + 5 * 0.6);
  assert.equal(accountBill(amounts, 60), 5 + 10 * 0.6 + 10);
});

test('20 messages of a WebSocket are one request, and so is a fetch, and an alarm', () => {
  const { objectRequests } = billedAmounts({ ...NOTHING, messages: 100, fetches: 3, alarms: 2 });
  assert.equal(objectRequests, 10);
});

test('an object is billed 128 MB while it is busy or waits for D1, and nothing while it could hibernate', () => {
  assert.equal(billedAmounts({ ...NOTHING, busyMs: 1_000_000 }).objectGbSeconds, 128);
  assert.equal(billedAmounts({ ...NOTHING, objectRoundTrips: 100 }).objectGbSeconds, 3 * 0.128);
  assert.equal(billedAmounts({ ...NOTHING, wakes: 5 }).objectGbSeconds, 0);
});

test('an invocation is a log event only with invocation logs, which wrangler.toml turns off', () => {
  const usage = { ...NOTHING, events: 10, workerRequests: 4, logLines: 1 };
  assert.equal(billedAmounts(usage, true).logEvents, 15);
  assert.equal(billedAmounts(usage).logEvents, 1);
});

test('usage is the difference of two counts, and a month the sum of its parts', () => {
  const day = subtract({ ...NOTHING, messages: 30, d1RowsWritten: 90 }, { ...NOTHING, messages: 10, d1RowsWritten: 30 });
  const month = add(scale(day, 30), { ...NOTHING, messages: 1 });
  assert.equal(month.messages, 601);
  assert.equal(month.d1RowsWritten, 1800);
});

test('npm run cost runs its scenario on the hub', () => {
  const { names, workers } = readOptions(['cost', '--quick']);
  assert.deepEqual([names, workers.map(({ kind }) => kind)], [['cost'], ['floor', 'hub']]);
});

test('the tables have a cell for each heading', () => {
  const amounts = { ...noAmounts, d1RowsWritten: 864_000 };
  const parts = [{ title: 'a message', times: 2, once: NOTHING, month: NOTHING }];
  for (const table of [monthTable(amounts, amounts), partsTable(parts)]) {
    for (const line of table.lines) assert.equal(line.length, table.headings.length);
    assert.match(formatTable(table), /^\| /);
  }
  assert.match(formatTable(monthTable(amounts, amounts)), /864,000 +\| \$0\.86/);
});
