// Texts of the page with the status: faults and storage.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { describeFault, faultLine } from '../src/content/faults.ts';
import { describeStorage } from '../src/content/storage-use.ts';

const fault = (event: string, details = {}) => ({ at: 1, line: { event, ...details } });

test('a fault is a sentence, and an unknown one shows its event', () => {
  assert.equal(describeFault(fault('commit-failed')), 'Changes could not be stored. Agents and browsers were told, and try again.');
  assert.equal(describeFault(fault('alarm-late')), 'The hub reported “alarm late”.');
  assert.equal(describeFault(fault('constructor')), 'The hub reported “constructor”.');
  assert.deepEqual(JSON.parse(faultLine(fault('push-failed', { status: 503 }))), { event: 'push-failed', status: 503 });
});

test('every fault that an object records has a sentence', () => {
  const files = readdirSync(new URL('../../src', import.meta.url), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.rs') && !name.startsWith('platform') && name !== 'log.rs',
  );
  const events = files.flatMap((name) => {
    const text = readFileSync(new URL(`../../src/${name}`, import.meta.url), 'utf8');
    return [...text.matchAll(/LogLine::new\(Level::(?:Warn|Error), "([a-z-]+)"/g)].map(([, event]) => event ?? '');
  });
  assert.ok(events.length >= 4, `${events.length} events were found`);
  for (const event of events) assert.doesNotMatch(describeFault(fault(event)), /^The hub reported/, event);
});

test('storage is shown with its quota, and is nearly full from 90 percent on', () => {
  const GB = 1024 ** 3;
  assert.deepEqual(describeStorage({ bytes: GB }), { text: '1.0 GiB', isNearlyFull: false });
  assert.deepEqual(describeStorage({ bytes: GB, maxBytes: 4 * GB }), { text: '1.0 GiB of 4.0 GiB', share: 0.25, isNearlyFull: false });
  assert.equal(describeStorage({ bytes: 9 * GB, maxBytes: 10 * GB }).isNearlyFull, true);
  assert.equal(describeStorage({ bytes: 11 * GB, maxBytes: 10 * GB }).share, 1);
});
