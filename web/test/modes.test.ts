// The table of modes is the one of docs/PROTOCOL.md.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { AGENTS, modeLabel, modelLabel, modeMeaning, modesOf } from '../src/state/modes.ts';

test('each flavor has the modes that the protocol lists, and each mode a name', () => {
  const protocol = readFileSync(new URL('../../docs/PROTOCOL.md', import.meta.url), 'utf8');
  const table = protocol.slice(protocol.indexOf('| Flavor | Permission modes |'), protocol.indexOf('Model modes:'));
  const rows = [...table.matchAll(/^\| ([a-z, ]+) \| (`.*`) \|$/gm)].map(([, flavors = '', modes = '']) => [flavors, modes.replaceAll('`', '').split(', ')] as const);
  const listed = rows.flatMap(([flavors, modes]) => flavors.split(', ').map((flavor) => [flavor, modes] as const));
  assert.deepEqual(listed.map(([flavor]) => flavor).sort(), [...AGENTS, 'any other word'].sort());
  for (const [flavor, modes] of listed) {
    assert.deepEqual(modesOf(flavor), modes, flavor);
    for (const mode of modes) assert.notEqual(modeLabel(mode), mode);
  }
  assert.deepEqual(modesOf(null), modesOf('alpha'));
});

test('an agent may name its kind and its modes as it likes', () => {
  assert.deepEqual([modesOf('constructor'), modeLabel('toString'), modeMeaning('toString'), modelLabel('valueOf')], [['default'], 'toString', '', 'valueOf']);
});
