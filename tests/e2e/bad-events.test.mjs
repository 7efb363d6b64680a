/** Malformed and unknown events of a CLI. The hub answers each event, and the socket keeps working. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { connectCli } from '../../scripts/lib/clients/cli.mjs';
import { ROOT } from './lib/hub.mjs';
import { startUnchangedHub } from './lib/unchanged-hub.mjs';

const { hub, cli } = await startUnchangedHub();

/** The names of the events of a CLI, from the source of the hub's decoder. */
const EVENTS = [
  ...readFileSync(path.join(ROOT, 'src', 'wire', 'cli.rs'), 'utf8')
    .split('let event = match name {')[1]
    .split('_ => return')[0]
    .matchAll(/"([a-z-]+)" =>/g),
].map(([, name]) => name);

/** A payload of each JSON type. */
const PAYLOADS = [null, true, 7, 'text', [], {}, JSON.stringify({ sid: 'x' }), { sid: 7, machineId: 7, method: 7 }];

describe('an event of a CLI', () => {
  test('that is malformed gets an acknowledgement with the error', async () => {
    assert.ok(EVENTS.length >= 11, EVENTS.join());
    for (const name of EVENTS.filter((event) => event !== 'ping')) {
      for (const payload of PAYLOADS) {
        const ack = await cli.emitWithAck(name, payload);
        const versioned = /^(machine-)?update-/.test(name) && ack.result === 'error';
        const message = versioned ? ack.reason : ack.error;
        assert.ok(versioned || ack.ok === false, `${name} ${JSON.stringify(payload)}: ${JSON.stringify(ack)}`);
        assert.ok(message.length > 10, `${name}: ${JSON.stringify(ack)}`);
      }
    }
  });

  test('that is unknown is ignored and acknowledged with nothing', async () => {
    for (const name of ['messages-consumed', '__proto__']) {
      for (const payload of PAYLOADS) {
        assert.equal(await cli.emitWithAck(name, payload), undefined, `${name} ${JSON.stringify(payload)}`);
      }
    }
  });

  test('that is malformed and has no acknowledgement gets an error event', async (t) => {
    const other = await connectCli(t, hub, { namespace: 'team' });
    for (const name of EVENTS.filter((event) => event !== 'ping')) {
      for (const payload of PAYLOADS) {
        other.socket.emit(name, payload);
        const { code, message } = await other.nextError();
        assert.equal(code, 'bad-payload', `${name} ${JSON.stringify(payload)}: ${message}`);
      }
    }
    assert.deepEqual(await other.emitWithAck('ping', {}), { ok: true });
  });
});
