/**
 * The list prices of the platform, and the price of the usage of a namespace in a month. Prices are in US dollars, without tax, on the
 * Workers Paid plan.
 */

/** The day on which this table was last compared with the pages under `source`. */
export const PRICES_READ_ON = '2026-11-23';

/** The monthly charge of the plan, which includes the amounts below. */
const PLAN_PRICE = 5;

const D1 = 'https://developers.cloudflare.com/d1/platform/pricing/';
const OBJECTS = 'https://developers.cloudflare.com/durable-objects/platform/pricing/';
const WORKERS = 'https://developers.cloudflare.com/workers/platform/pricing/';
const LOGS = 'https://developers.cloudflare.com/workers/observability/logs/workers-logs/#pricing';

const MILLION = 1_000_000;

/**
 * The prices by item. `included`: the amount that the plan includes each month. `price`: the price of `per` further units. Rows are
 * included twice: once for D1, and once for the storage of objects.
 */
export const PRICES = {
  d1RowsWritten: { title: 'D1 rows written', included: 50 * MILLION, price: 1, per: MILLION, source: D1 },
  d1RowsRead: { title: 'D1 rows read', included: 25_000 * MILLION, price: 0.001, per: MILLION, source: D1 },
  objectRequests: { title: 'object requests', included: MILLION, price: 0.15, per: MILLION, source: OBJECTS },
  objectGbSeconds: { title: 'object duration, GB-s', included: 400_000, price: 12.5, per: MILLION, source: OBJECTS },
  objectRowsWritten: { title: 'object rows written', included: 50 * MILLION, price: 1, per: MILLION, source: OBJECTS },
  objectRowsRead: { title: 'object rows read', included: 25_000 * MILLION, price: 0.001, per: MILLION, source: OBJECTS },
  workerRequests: { title: 'worker requests', included: 10 * MILLION, price: 0.3, per: MILLION, source: WORKERS },
  workerCpuMs: { title: 'worker CPU, ms', included: 30 * MILLION, price: 0.02, per: MILLION, source: WORKERS },
  logEvents: { title: 'log events', included: 20 * MILLION, price: 0.6, per: MILLION, source: LOGS },
};

/** The price of a GB stored in D1 for a month. The plan includes 5 GB. Source: the page of `D1`. */
export const D1_GB_MONTH_PRICE = 0.75;

/** How many WebSocket messages to an object count as one request. Source: the page of `OBJECTS`. */
export const MESSAGES_PER_REQUEST = 20;

/** The memory that is charged for an active object, in GB, regardless of the memory used. Source: the page of `OBJECTS`. */
export const OBJECT_GB = 0.128;

/**
 * Returns the price of each item as if the plan included nothing: the cost of one more namespace once the included amounts are used up.
 * @param {Record<string, number>} amounts by item, for a month
 * @returns {Record<string, number>} dollars by item
 */
export function marginalPrices(amounts) {
  return Object.fromEntries(Object.entries(amounts).map(([item, amount]) => [item, (amount / PRICES[item].per) * PRICES[item].price]));
}

/** Returns the sum of `marginalPrices`. */
export function marginalPrice(amounts) {
  return Object.values(marginalPrices(amounts)).reduce((sum, price) => sum + price, 0);
}

/** Returns the monthly bill of an account with `count` namespaces, each with the usage `amounts`: the plan, and all usage beyond it. */
export function accountBill(amounts, count) {
  const excess = Object.entries(amounts).map(([item, amount]) => [item, Math.max(0, amount * count - PRICES[item].included)]);
  return PLAN_PRICE + marginalPrice(Object.fromEntries(excess));
}
