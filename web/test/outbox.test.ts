// Messages on their way out.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
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
  return { outbox: open(), reloaded: open, hub, sent, shelf };
}
const outgoing = () => conversationOf('a').outgoing;
/** Lets promises that are settled be noticed. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
const states = () => outgoing().map(({ localId, state: one }) => [localId, one]);

const refused = (status: number, code: string) => async () => ({ error: { error: 'Not now.', code }, response: new Response(null, { status }) });

beforeEach(() => {
  state.value = EMPTY;
  mock.timers.enable({ apis: ['setTimeout'] });
});
afterEach(() => mock.timers.reset());

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

test('what the hub has no time for waits as well, in its order, and is tried again by itself ever less often', async () => {
  for (const answer of [refused(503, 'hub_unavailable'), refused(503, 'overloaded'), refused(429, 'too_many_requests')]) {
    state.value = EMPTY;
    const { outbox, hub, sent } = place();
    hub.answer = answer;
    await outbox.send('a', 'one', []);
    await outbox.send('a', 'two', []);
    assert.deepEqual(states(), [['l1', 'waiting'], ['l2', 'waiting']]);
    for (const [wait, tries] of [[1999, 2], [1, 3], [3999, 3], [1, 4]] as const) {
      mock.timers.tick(wait);
      await settle();
      assert.deepEqual(sent.map(({ text }) => text), Array(tries).fill('one'));
    }
    hub.answer = async () => STORED;
    mock.timers.tick(8000);
    await settle();
    assert.deepEqual([states(), sent.slice(4).map(({ text }) => text)], [[['l1', 'sent'], ['l2', 'sent']], ['one', 'two']]);
    mock.timers.tick(100_000);
    await settle();
    assert.equal(sent.length, 6);
  }
});

test('a browser that has no room for what is not sent yet sends it all the same', async (t) => {
  const { outbox, hub, sent, shelf } = place();
  const warned = t.mock.method(console, 'warn', () => {});
  shelf.setItem = () => {
    throw new DOMException('Full.', 'QuotaExceededError');
  };
  hub.answer = async () => Promise.reject(unreachable());
  await outbox.send('a', 'one', []);
  assert.deepEqual(states(), [['l1', 'waiting']]);
  hub.answer = async () => STORED;
  await outbox.send('a', 'two', []);
  assert.deepEqual([states(), sent.map(({ text }) => text)], [[['l1', 'sent'], ['l2', 'sent']], ['one', 'one', 'two']]);
  outbox.discard('a', 'l1');
  assert.deepEqual(states(), [['l2', 'sent']]);
  assert.ok(warned.mock.callCount() > 0);
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
    await settle();
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
