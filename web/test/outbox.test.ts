// Messages on their way out.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Api } from '../src/api/client.ts';
import { unreachable } from '../src/api/errors.ts';
import { Outbox } from '../src/state/outbox.ts';
import { conversationOf, state } from '../src/state/store.ts';
import { EMPTY, EMPTY_CONVERSATION } from '../src/state/types.ts';

const STORED = { data: { ok: true, message: { seq: 7 } }, response: new Response() };

type Sent = { localId: string; text?: string; attachments?: unknown[] };

/** An outbox before a hub that answers as the test says. */
function place() {
  const sent: Sent[] = [];
  const hub: { answer: () => Promise<{ data?: unknown; error?: unknown; response: Response }> } = { answer: async () => STORED };
  const POST = (_path: string, { body }: { body: Sent }) => {
    sent.push(body);
    return hub.answer();
  };
  let next = 0;
  const kept = new Map<string, string>();
  const shelf = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  const open = () => new Outbox({ POST } as unknown as Pick<Api, 'POST'>, shelf, () => 5, () => `l${(next += 1)}`);
  return { outbox: open(), reloaded: open, hub, sent };
}
const outgoing = () => conversationOf('a').outgoing;
const states = () => outgoing().map(({ localId, state: one }) => [localId, one]);

beforeEach(() => {
  state.value = EMPTY;
});

test('a message is shown while it is sent, and afterwards until it comes back', async () => {
  const { outbox, sent } = place();
  const sending = outbox.send('a', 'hello', []);
  assert.deepEqual(states(), [['l1', 'sending']]);
  await sending;
  assert.deepEqual([states(), sent], [[['l1', 'sent']], [{ localId: 'l1', text: 'hello' }]]);
});

test('a message of files alone has no text', async () => {
  const { outbox, sent } = place();
  const file = { id: 'f', filename: 'f', mimeType: 't', size: 1, path: '/f' };
  await outbox.send('a', '', [file]);
  assert.deepEqual(sent, [{ localId: 'l1', attachments: [file] }]);
});

test('what the hub refuses stays, with the reason, to be sent again under the same id or given up', async () => {
  const { outbox, hub, sent } = place();
  hub.answer = async () => ({ error: { error: 'The session is not active.', code: 'session_inactive' }, response: new Response(null, { status: 409 }) });
  await outbox.send('a', 'hello', []);
  assert.deepEqual([states(), outgoing()[0]?.error], [[['l1', 'failed']], 'The session is not active.']);
  hub.answer = async () => STORED;
  const [failed] = outgoing();
  assert.ok(failed);
  await outbox.retry('a', failed);
  assert.deepEqual([states(), outgoing()[0]?.error], [[['l1', 'sent']], undefined]);
  assert.deepEqual(sent.map(({ localId }) => localId), ['l1', 'l1']);
  outbox.discard('a', 'l1');
  assert.deepEqual(outgoing(), []);
});

test('what cannot be sent waits for the hub, and goes out in the order in which it was written', async () => {
  const { outbox, hub, sent } = place();
  hub.answer = async () => Promise.reject(unreachable());
  await outbox.send('a', 'one', []);
  await outbox.send('a', 'two', []);
  assert.deepEqual(states(), [['l1', 'waiting'], ['l2', 'waiting']]);
  hub.answer = async () => STORED;
  sent.length = 0;
  await outbox.flush();
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'sent'], ['l2', 'sent']], ['one', 'two']]);
  await outbox.flush();
  assert.equal(sent.length, 2);
});

test('what waits is not overtaken, neither by the others that wait nor by what is written later', async () => {
  const { outbox, hub, sent } = place();
  hub.answer = async () => Promise.reject(unreachable());
  for (const text of ['one', 'two']) await outbox.send('a', text, []);
  sent.length = 0;
  // The hub is away for the first of them only.
  hub.answer = async () => {
    if (sent.length === 1) throw unreachable();
    return STORED;
  };
  await outbox.flush();
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'waiting'], ['l2', 'waiting']], ['one']]);
  await outbox.send('a', 'three', []);
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'sent'], ['l2', 'sent'], ['l3', 'sent']], ['one', 'one', 'two', 'three']]);
});

test('messages that are written quickly go out one after another', async () => {
  const { outbox, hub, sent } = place();
  const answers: (() => void)[] = [];
  hub.answer = () => new Promise((resolve) => answers.push(() => resolve(STORED)));
  const both = [outbox.send('a', 'one', []), outbox.send('a', 'two', [])];
  const elsewhere = outbox.send('b', 'three', []);
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'sending'], ['l2', 'sending']], ['one', 'three']]);
  while (answers.length > 0) {
    for (const answer of answers.splice(0)) answer();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...both, elsewhere]);
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'sent'], ['l2', 'sent']], ['one', 'three', 'two']]);
});

test('what the hub refused holds nothing up, and a reload does not send it again by itself', async () => {
  const { outbox, reloaded, hub, sent } = place();
  hub.answer = async () => ({ error: { error: 'Too long.', code: 'invalid_field' }, response: new Response(null, { status: 400 }) });
  await outbox.send('a', 'one', []);
  hub.answer = async () => STORED;
  await outbox.send('a', 'two', []);
  assert.deepEqual(states(), [['l1', 'failed'], ['l2', 'sent']]);
  state.value = EMPTY;
  const second = reloaded();
  second.restore();
  await second.flush();
  assert.deepEqual([states(), outgoing()[0]?.error, sent.length], [[['l1', 'failed']], 'Too long.', 2]);
});

test('what was not sent survives a reload, and goes out once under its id', async () => {
  const { outbox, reloaded, hub, sent } = place();
  hub.answer = async () => Promise.reject(unreachable());
  await outbox.send('a', 'one', []);
  state.value = EMPTY;
  const second = reloaded();
  second.restore();
  assert.deepEqual(states(), [['l1', 'waiting']]);
  hub.answer = async () => STORED;
  await second.flush();
  assert.deepEqual([states(), sent.map(({ localId }) => localId)], [[['l1', 'sent']], ['l1', 'l1']]);
  state.value = EMPTY;
  reloaded().restore();
  assert.deepEqual(states(), []);
});

test('one that was stored long ago is not shown as new', async () => {
  const { outbox } = place();
  const later = { id: 'm9', seq: 9, localId: null, content: 'x', createdAt: 0 };
  state.value = { ...EMPTY, conversations: { a: { ...EMPTY_CONVERSATION, reading: { status: 'ready' }, messages: [later] } } };
  await outbox.send('a', 'one', []);
  assert.deepEqual(states(), []);
});
