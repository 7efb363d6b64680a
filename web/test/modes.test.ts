// The permission modes must match the table in docs/PROTOCOL.md.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { FLAVORS, modeDescription, modeLabel, modelLabel, modesOf } from '../src/state/modes.ts';

test('each flavor has the documented modes, and each mode a label', () => {
  const protocol = readFileSync(new URL('../../docs/PROTOCOL.md', import.meta.url), 'utf8');
  const table = protocol.slice(protocol.indexOf('| Flavor | Permission modes |'), protocol.indexOf('Model modes:'));
  const rows = [...table.matchAll(/^\| ([a-z, ]+) \| (`.*`) \|$/gm)].map(([, flavors = '', modes = '']) => [flavors, modes.replaceAll('`', '').split(', ')] as const);
  const listed = rows.flatMap(([flavors, modes]) => flavors.split(', ').map((flavor) => [flavor, modes] as const));
  assert.deepEqual(listed.map(([flavor]) => flavor).sort(), [...FLAVORS, 'any other word'].sort());
  for (const [flavor, modes] of listed) {
    assert.deepEqual(modesOf(flavor), modes, flavor);
    for (const mode of modes) assert.notEqual(modeLabel(mode), mode);
  }
  assert.deepEqual(modesOf(null), modesOf('alpha'));
});

test('accepts unknown flavors and modes', () => {
  assert.deepEqual([modesOf('constructor'), modeLabel('toString'), modeDescription('toString'), modelLabel('valueOf')], [['default'], 'toString', '', 'valueOf']);
});
