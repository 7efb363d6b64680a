// What the runbooks of docs/OPERATIONS.md and the list of log events say that an operator sees exists: alerts, log events, error codes and texts.
// tests/e2e/runbooks.test.mjs runs their commands.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { inProject } from '../lib/paths.mjs';

const read = (...parts) => readFileSync(inProject(...parts), 'utf8');

/** The sources of a folder as one text, without line breaks. @param {...string} parts */
const readSources = (...parts) =>
  readdirSync(inProject(...parts), { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?<!\.test)\.(rs|ts|tsx|js|mjs)$/.test(name))
    .map((name) => read(...parts, name))
    .join('\n');

const PAGE = read('docs', 'OPERATIONS.md');

/** Returns what an operator sees in a place, such as the log: one entry for each runbook. @param {string} place */
function readSigns(place) {
  const signs = [...PAGE.matchAll(new RegExp(`^- ${place}: (.*)$`, 'gm'))].map(([, text]) => text);
  assert.ok(signs.length > 0, `${signs.length} signs of "${place}" were found`);
  return signs;
}

/** @param {string[]} signs @param {RegExp} pattern with a group */
const findNames = (signs, pattern) => signs.flatMap((sign) => [...sign.matchAll(pattern)].map(([, name]) => name));

test('the alerts of the runbooks are in alerts.yml', () => {
  const alerts = read('docs', 'operations', 'alerts.yml');
  const names = [...new Set(findNames([PAGE], /`(Hub[A-Z]\w+)`/g))];
  assert.ok(names.length >= 6, names.join());
  assert.deepEqual(
    names.filter((name) => !alerts.includes(`- alert: ${name}\n`)),
    [],
  );
});

test('the log events of the runbooks are in the list of events', () => {
  const list = read('docs', 'MONITORING.md');
  const names = findNames(readSigns('Log'), /`([a-z-]+)`/g);
  assert.ok(names.length >= 7, names.join());
  assert.deepEqual(
    names.filter((name) => !list.includes(`\`${name}\``)),
    [],
  );
});

test('the list of log events has each event of the sources, and no other', () => {
  const [, table] = /^\| Event \| Level .*\n\|---.*\n((?:\|.*\n)+)/m.exec(read('docs', 'MONITORING.md'));
  const listed = table.split('\n').flatMap((row) => findNames([row.split('|')[1] ?? ''], /`([a-z-]+)`/g));
  const call = /(?:LogLine::new\(\s*Level::\w+,|log_error\(|logError\(|logLine\([^,]+,)\s*(?:\w+ \? '([a-z-]+)' : )?["']([a-z-]+)["']/g;
  const events = [...readSources('src').matchAll(call)]
    .flatMap(([, first, second]) => [first, second])
    .filter((event) => event !== undefined);
  assert.deepEqual(listed.toSorted(), [...new Set(events)].toSorted());
});

test('the texts that the runbooks quote are texts of the hub or of the console', () => {
  const sources = readSources('src') + readSources('web', 'src');
  const texts = findNames(readSigns('Console'), /"([^"]+)"/g);
  assert.ok(texts.length >= 5, texts.join());
  assert.deepEqual(
    texts.filter((text) => !sources.includes(text)),
    [],
  );
});

test('the error codes of the runbooks are in the reference', () => {
  const reference = read('docs', 'PROTOCOL.md');
  const codes = findNames(readSigns('Error code'), /`([a-z_]+)`/g);
  assert.deepEqual(
    codes.filter((code) => !reference.includes(`\`${code}\``)),
    [],
  );
});
