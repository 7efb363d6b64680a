// Updates that do not follow the protocol.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createTranslator } from '../../src/translate/translator.mjs';

const FOLDER = new URL('../transcripts/', import.meta.url);
const VALUES = [undefined, null, '', 'x', '\uD83D', 0, -1, true, [], [null], ['x'], {}, { content: null }];

/** Returns all variants of a value in which one part is replaced. */
function* variants(value) {
  yield* VALUES;
  if (typeof value !== 'object' || value === null) return;
  for (const [name, part] of Object.entries(value).slice(0, 12)) {
    for (const changed of variants(part)) yield Array.isArray(value) ? value.with(Number(name), changed) : { ...value, [name]: changed };
  }
}

/** One message of the agent for each shape. */
function shapes() {
  const found = new Map();
  for (const file of readdirSync(FOLDER)) {
    for (const line of readFileSync(new URL(file, FOLDER), 'utf8').split('\n').filter(Boolean)) {
      const { msg } = JSON.parse(line);
      const { update } = msg.params ?? {};
      const shape = JSON.stringify([file.split('-')[0], msg.method, Object.keys(update ?? msg.params ?? {}), update?.status]);
      if (/^(session\/(update|request_permission)|elicitation\/create)$/.test(msg.method))
        found.set(shape, { agent: file.split('-')[0], msg });
    }
  }
  return [...found.values()];
}

function send(translator, { method, params }) {
  if (method === 'session/update') return translator.onUpdate(params.update);
  const { records, request } =
    method === 'elicitation/create' ? translator.onElicitation({ ...params, mode: 'form' }) : translator.onPermissionRequest(params);
  check(request);
  const decision = { status: 'approved', answers: {} };
  translator.responseTo(request.id, decision);
  return [...records, ...translator.onPermissionResolved(request.id, decision)];
}

/** The hub refuses halves of surrogate pairs. */
const check = (value) => {
  if (typeof value === 'string') assert.ok(value.isWellFormed());
  else if (typeof value === 'object' && value !== null) Object.values(value).forEach(check);
};

test('a malformed part of any update or request is shown as far as possible, and does no harm', () => {
  let count = 0;
  for (const { agent, msg } of shapes()) {
    const { update } = msg.params;
    for (const changed of variants(update ?? msg.params)) {
      if (update === undefined && (typeof changed !== 'object' || changed === null)) continue;
      const translator = createTranslator({ agent });
      const params = update === undefined ? changed : { update: changed };
      const records = [...send(translator, { method: msg.method, params }), ...send(translator, msg), ...translator.endTurn('end_turn')];
      for (const { content } of records) check(content);
      assert.deepEqual(translator.openCalls, []);
      count += 1;
    }
  }
  assert.ok(count > 1000);
});
