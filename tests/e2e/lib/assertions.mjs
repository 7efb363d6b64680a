/** Assertions on responses of the hub. */

import assert from 'node:assert/strict';

/**
 * Asserts that a request was refused with an error text.
 * @param {import('../../../scripts/product/clients/web.mjs').Answer} answer
 * @param {number} status
 * @param {string} code
 * @param {string} [field] the field or query parameter that the error text names
 */
export function assertRefused(answer, status, code, field) {
  assert.deepEqual([answer.status, answer.body?.code], [status, code], answer.text);
  assert.equal(typeof answer.body.error, 'string');
  if (field !== undefined) assert.match(answer.body.error, new RegExp(`\`${field}\``));
}
