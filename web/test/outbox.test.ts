// The outbox.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import type { Api } from '../src/api/client.ts';
import type { Message } from '../src/api/types.ts';
import { unreachableError } from '../src/api/errors.ts';
import { MemoryDatabase } from '../src/state/database.ts';
import { Outbox, unsentMessages } from '../src/state/outbox.ts';
import { withHeld, withNewestPage } from '../src/state/conversation.ts';
import { getConversation, state, updateConversation } from '../src/state/store.ts';
import type { TabMessage } from '../src/state/tabs.ts';
import { EMPTY_CONVERSATION, EMPTY_STATE } from '../src/state/types.ts';
import { pluck } from './support/pluck.ts';
import { flushPromises } from './support/promises.ts';

const STORED = { data: { ok: true, message: { seq: 7 } }, response: new Response() };

type Sent = { localId: string; text?: string; attachments?: unknown[] };

class FakeDatabase extends MemoryDatabase {
  override readonly isDurable = true;
}

/** An outbox with a fake hub whose responses the test sets. */
function setup(database: MemoryDatabase = new FakeDatabase()) {
  const sent: Sent[] = [];
  const hub: { respond: () => Promise<{ data?: unknown; error?: unknown; response: Response }> } = { respond: async () => STORED };
  const POST = (_path: string, { body }: { body: Sent }) => {
    sent.push(body);
    return hub.respond();
  };
  let lastId = 0;
  /** Whether another tab is sending. */
  const lock = { isTaken: false };
  const postedToTabs: TabMessage[] = [];
  const open = () =>
    new Outbox({
      api: { POST } as unknown as Pick<Api, 'POST'>,
      database: Promise.resolve(database),
      tryWithLock: async (_name, operation) => {
        if (!lock.isTaken) await operation();
        return !lock.isTaken;
      },
      postToTabs: (message) => postedToTabs.push(message),
      now: () => 5,
      generateId: () => `l${(lastId += 1)}`,
    });
  const texts = () => sent.map(({ text }) => text);
  return { outbox: open(), reload: open, hub, sent, texts, database, lock, postedToTabs };
}
const outgoing = () => getConversation('a').outgoing;
/** The unsent messages, each with its state. */
const states = () => outgoing().map(({ localId, status }) => `${localId} ${status}`);

const reject = (status: number, code: string) => async () => ({
  error: { error: 'Not now.', code },
  response: new Response(null, { status }),
});

beforeEach(() => {
  state.value = EMPTY_STATE;
  mock.timers.enable({ apis: ['setTimeout'] });
});
afterEach(() => mock.timers.reset());

const NOT_CONNECTED = 'The agent is not connected. Wait until its machine is back, or resume the session.';

test('a message is shown while it is sent, and stays shown until its event arrives', async () => {
  const { outbox, sent } = setup();
  const sending = outbox.send('a', 'hello', []);
  assert.deepEqual(states(), ['l1 sending']);
  await sending;
  assert.deepEqual([states(), sent], [['l1 sent'], [{ localId: 'l1', text: 'hello' }]]);
});

test('omits the text of a message with only files', async () => {
  const { outbox, sent } = setup();
  const file = { id: 'f', filename: 'f', mimeType: 't', size: 1, path: '/f' };
  await outbox.send('a', '', [file]);
  assert.deepEqual(sent, [{ localId: 'l1', attachments: [file] }]);
});

test('keeps a rejected message with its error; the user can retry the message with the same id, or discard it', async () => {
  const { outbox, hub, sent } = setup();
  hub.respond = async () => ({
    error: { error: 'The session is not active.', code: 'session_inactive' },
    response: new Response(null, { status: 409 }),
  });
  await outbox.send('a', 'hello', []);
  assert.deepEqual([states(), outgoing()[0]?.error], [['l1 failed'], NOT_CONNECTED]);
  hub.respond = async () => STORED;
  const [failed] = outgoing();
  assert.ok(failed);
  await outbox.retry('a', failed);
  assert.deepEqual([states(), outgoing()[0]?.error], [['l1 sent'], undefined]);
  assert.deepEqual(pluck(sent, 'localId'), ['l1', 'l1']);
  outbox.discard('a', 'l1');
  assert.deepEqual(outgoing(), []);
});

test('keeps messages while the hub is unreachable, and sends them in order', async () => {
  const { outbox, hub, sent, texts } = setup();
  hub.respond = async () => Promise.reject(unreachableError());
  await outbox.send('a', 'one', []);
  await outbox.send('a', 'two', []);
  assert.deepEqual(states(), ['l1 waiting', 'l2 waiting']);
  hub.respond = async () => STORED;
  sent.length = 0;
  await outbox.sendWaiting();
  assert.deepEqual(
    [states(), texts()],
    [
      ['l1 sent', 'l2 sent'],
      ['one', 'two'],
    ],
  );
  await outbox.sendWaiting();
  assert.equal(sent.length, 2);
});

test('a waiting message blocks later ones of its session', async () => {
  const { outbox, hub, sent, texts } = setup();
  hub.respond = async () => Promise.reject(unreachableError());
  for (const text of ['one', 'two']) await outbox.send('a', text, []);
  sent.length = 0;
  // Only the first request fails.
  hub.respond = async () => {
    if (sent.length === 1) throw unreachableError();
    return STORED;
  };
  await outbox.sendWaiting();
  assert.deepEqual([states(), texts()], [['l1 waiting', 'l2 waiting'], ['one']]);
  await outbox.send('a', 'three', []);
  assert.deepEqual(
    [states(), texts()],
    [
      ['l1 sent', 'l2 sent', 'l3 sent'],
      ['one', 'one', 'two', 'three'],
    ],
  );
});

test('retries with backoff while the hub is overloaded', async () => {
  for (const response of [reject(503, 'hub_unavailable'), reject(503, 'overloaded'), reject(429, 'too_many_requests')]) {
    state.value = EMPTY_STATE;
    const { outbox, hub, sent, texts } = setup();
    hub.respond = response;
    await outbox.send('a', 'one', []);
    await outbox.send('a', 'two', []);
    assert.deepEqual(states(), ['l1 waiting', 'l2 waiting']);
    for (const [ms, attempts] of [
      [1999, 2],
      [1, 3],
      [3999, 3],
      [1, 4],
    ] as const) {
      mock.timers.tick(ms);
      await flushPromises();
      assert.deepEqual(texts(), Array(attempts).fill('one'));
    }
    hub.respond = async () => STORED;
    mock.timers.tick(8000);
    await flushPromises();
    assert.deepEqual(
      [states(), sent.slice(4).map(({ text }) => text)],
      [
        ['l1 sent', 'l2 sent'],
        ['one', 'two'],
      ],
    );
    mock.timers.tick(100_000);
    await flushPromises();
    assert.equal(sent.length, 6);
  }
});

test('sends messages also when the storage is full, and marks them as not stored', async (t) => {
  const { outbox, hub, texts, database } = setup();
  const warned = t.mock.method(console, 'warn', () => {});
  database.put = async () => {
    throw new DOMException('Full.', 'QuotaExceededError');
  };
  hub.respond = async () => Promise.reject(unreachableError());
  await outbox.send('a', 'one', []);
  await flushPromises();
  assert.deepEqual([states(), outgoing()[0]?.isVolatile], [['l1 waiting'], true]);
  hub.respond = async () => STORED;
  await outbox.send('a', 'two', []);
  assert.deepEqual(
    [states(), texts()],
    [
      ['l1 sent', 'l2 sent'],
      ['one', 'one', 'two'],
    ],
  );
  outbox.discard('a', 'l1');
  assert.deepEqual(states(), ['l2 sent']);
  assert.ok(warned.mock.callCount() > 0);
});

test('sends the messages of a session one at a time', async () => {
  const { outbox, hub, texts } = setup();
  const answers: (() => void)[] = [];
  hub.respond = () => new Promise((resolve) => answers.push(() => resolve(STORED)));
  const both = [outbox.send('a', 'one', []), outbox.send('a', 'two', [])];
  const otherSession = outbox.send('b', 'three', []);
  await flushPromises();
  assert.deepEqual(
    [states(), texts()],
    [
      ['l1 sending', 'l2 sending'],
      ['one', 'three'],
    ],
  );
  while (answers.length > 0) {
    for (const answer of answers.splice(0)) answer();
    await flushPromises();
  }
  await Promise.all([...both, otherSession]);
  assert.deepEqual(
    [states(), texts()],
    [
      ['l1 sent', 'l2 sent'],
      ['one', 'three', 'two'],
    ],
  );
});

test('a rejected message does not block later ones, and is not sent again after a reload', async () => {
  const { outbox, reload, hub, sent } = setup();
  hub.respond = async () => ({ error: { error: 'Too long.', code: 'invalid_field' }, response: new Response(null, { status: 400 }) });
  await outbox.send('a', 'one', []);
  hub.respond = async () => STORED;
  await outbox.send('a', 'two', []);
  assert.deepEqual(states(), ['l1 failed', 'l2 sent']);
  state.value = EMPTY_STATE;
  await reload().sendWaiting();
  assert.deepEqual([states(), outgoing()[0]?.error, sent.length], [['l1 failed'], 'Too long.', 2]);
});

test('sends unsent messages after a reload with the same id', async () => {
  const { outbox, reload, hub, sent } = setup();
  hub.respond = async () => Promise.reject(unreachableError());
  await outbox.send('a', 'one', []);
  state.value = EMPTY_STATE;
  const second = reload();
  await second.readStored();
  assert.deepEqual(states(), ['l1 waiting']);
  hub.respond = async () => STORED;
  await second.sendWaiting();
  assert.deepEqual([states(), sent.map(({ localId }) => localId)], [['l1 sent'], ['l1', 'l1']]);
  state.value = EMPTY_STATE;
  await reload().readStored();
  assert.deepEqual(states(), []);
});

test('after a reload, drops unsent messages that the history contains, also if the history arrives while they are sent', async () => {
  const receiveHistory = () => {
    const stored = { id: 'm', seq: 7, localId: 'l1', content: {}, createdAt: 1 } as unknown as Message;
    updateConversation('a', (conversation) => withNewestPage(conversation, [stored], false));
  };
  for (const arrives of ['before', 'meanwhile']) {
    state.value = EMPTY_STATE;
    const { outbox, reload, hub, sent, database } = setup();
    hub.respond = async () => {
      throw unreachableError();
    };
    await outbox.send('a', 'hello', []);
    state.value = EMPTY_STATE;
    const reloaded = reload();
    if (arrives === 'before') receiveHistory();
    const sending = reloaded.sendWaiting();
    if (arrives === 'meanwhile') {
      hub.respond = async () => {
        receiveHistory();
        throw unreachableError();
      };
    }
    await sending;
    await flushPromises();
    assert.deepEqual([states(), await database.getAll('outbox')], [[], []], arrives);
    assert.equal(sent.length, arrives === 'before' ? 1 : 2);
  }
});

test('restores the messages of a session in the order in which they were written', async () => {
  const { outbox, reload, hub, sent, texts } = setup();
  hub.respond = async () => Promise.reject(unreachableError());
  for (const text of ['one', 'two', 'three']) await outbox.send('a', text, []);
  await flushPromises();
  state.value = EMPTY_STATE;
  sent.length = 0;
  hub.respond = async () => STORED;
  await reload().sendWaiting();
  assert.deepEqual(texts(), ['one', 'two', 'three']);
});

test('stores a message later if the storage was full at first', async (t) => {
  const { outbox, hub, database } = setup();
  t.mock.method(console, 'warn', () => {});
  const full = t.mock.method(database, 'put', async () => Promise.reject(new DOMException('Full.', 'QuotaExceededError')));
  hub.respond = async () => Promise.reject(unreachableError());
  await outbox.send('a', 'one', []);
  await flushPromises();
  assert.equal(outgoing()[0]?.isVolatile, true);
  full.mock.restore();
  await outbox.sendWaiting();
  await flushPromises();
  assert.deepEqual([outgoing()[0]?.isVolatile, (await database.getAll('outbox')).length], [undefined, 1]);
});

test('marks messages as volatile if the browser has no durable storage', async () => {
  const { outbox, hub } = setup(new MemoryDatabase());
  hub.respond = async () => Promise.reject(unreachableError());
  await outbox.send('a', 'one', []);
  await flushPromises();
  assert.deepEqual([states(), outgoing()[0]?.isVolatile], [['l1 waiting'], true]);
});

test('does not send while another tab sends, and later sends the remaining messages', async () => {
  const { outbox, sent, lock } = setup();
  lock.isTaken = true;
  await outbox.send('a', 'one', []);
  assert.deepEqual([states(), sent], [['l1 sending'], []]);
  lock.isTaken = false;
  mock.timers.tick(1000);
  await flushPromises();
  assert.deepEqual([states(), sent.length], [['l1 sent'], 1]);
});

test('does not send messages that another tab has sent or discarded', async () => {
  const { outbox, hub, sent, texts, database, postedToTabs } = setup();
  hub.respond = async () => Promise.reject(unreachableError());
  for (const text of ['one', 'two', 'three']) await outbox.send('a', text, []);
  await flushPromises();
  sent.length = 0;
  hub.respond = async () => STORED;
  for (const id of ['l1', 'l2']) await database.delete('outbox', id);
  await outbox.handleTabMessage({ type: 'outbox', sessionId: 'a', sentId: 'l1' });
  assert.deepEqual(states(), ['l1 sent', 'l3 waiting'], 'the other tab has discarded the second message');
  await outbox.sendWaiting();
  await flushPromises();
  assert.deepEqual(texts(), ['three']);
  assert.deepEqual(postedToTabs.at(-1), { type: 'outbox', sessionId: 'a', sentId: 'l3' });
});

test('shows messages that another tab has written, retried, or marked as rejected', async () => {
  const { outbox, database } = setup();
  const message = { sessionId: 'a', text: 'theirs', attachments: [], createdAt: 1 };
  await database.put('outbox', 't1', { ...message, error: 'Too long.' });
  await outbox.handleTabMessage({ type: 'outbox', sessionId: 'a' });
  assert.deepEqual([states(), outgoing()[0]?.error], [['t1 failed'], 'Too long.']);
  await database.put('outbox', 't1', message);
  await outbox.handleTabMessage({ type: 'outbox', sessionId: 'a' });
  assert.deepEqual([states(), outgoing()[0]?.error], [['t1 waiting'], undefined]);
});

test('moves the unsent messages of a merged session to the remaining session', async () => {
  const { outbox, reload, hub, sent } = setup();
  hub.respond = async () => ({
    error: { error: 'The session is not active.', code: 'session_inactive' },
    response: new Response(null, { status: 409 }),
  });
  await outbox.send('a', 'one', []);
  await flushPromises();
  // The event of the merge removes the session.
  state.value = EMPTY_STATE;
  await outbox.move('a', 'b');
  await flushPromises();
  assert.deepEqual([states(), getConversation('b').outgoing.map(({ localId, status }) => `${localId} ${status}`)], [[], ['l1 failed']]);
  state.value = EMPTY_STATE;
  await reload().readStored();
  assert.deepEqual([states(), getConversation('b').outgoing.length, sent.length], [[], 1, 1]);
});

test('drops a message if the hub answers that it had stored the message before', async () => {
  const { outbox } = setup();
  const later = { id: 'm9', seq: 9, localId: null, content: 'x', createdAt: 0 };
  state.value = { ...EMPTY_STATE, conversations: { a: { ...EMPTY_CONVERSATION, loadState: { status: 'ready' }, messages: [later] } } };
  await outbox.send('a', 'one', []);
  assert.deepEqual(states(), []);
});

test('if the hub holds a message for a CLI that is away, the browser no longer stores the message', async () => {
  const { outbox, reload, hub, sent, database, postedToTabs } = setup();
  hub.respond = async () => ({ data: { ok: true, held: true, message: { localId: 'l1', createdAt: 5 } }, response: new Response() });
  await outbox.send('a', 'later', [], true);
  await flushPromises();
  assert.deepEqual(sent, [{ localId: 'l1', text: 'later', hold: true }]);
  assert.deepEqual([states(), await database.getAll('outbox')], [['l1 held'], []]);
  assert.deepEqual(postedToTabs.at(-1), { type: 'outbox', sessionId: 'a' });
  await outbox.readStored();
  assert.deepEqual([states(), unsentMessages()], [['l1 held'], []], 'the message is no longer an unsent message of this browser');
  state.value = EMPTY_STATE;
  await reload().sendWaiting();
  assert.deepEqual(states(), []);
});

test('a message that is sent again after a reload still asks the hub to hold it for a CLI that is away', async () => {
  const { outbox, reload, hub, sent } = setup();
  hub.respond = () => Promise.reject(unreachableError());
  await outbox.send('a', 'later', [], true);
  await flushPromises();
  state.value = EMPTY_STATE;
  hub.respond = async () => ({ data: { ok: true, held: true, message: { localId: 'l1', createdAt: 5 } }, response: new Response() });
  await reload().sendWaiting();
  assert.deepEqual([sent.at(-1), states()], [{ localId: 'l1', text: 'later', hold: true }, ['l1 held']]);
});

test('shows the messages that the hub holds before the unsent messages of this browser, and none twice', () => {
  const message = (localId: string) => ({ localId, text: localId, createdAt: 1 });
  const unsent = { ...message('mine'), attachments: [], status: 'waiting' as const };
  const start = withHeld({ ...EMPTY_CONVERSATION, outgoing: [unsent] }, [message('a'), message('mine'), message('b')]);
  const shown = (conversation: typeof start) => conversation.outgoing.map(({ localId, status }) => `${localId} ${status}`);
  assert.deepEqual(shown(start), ['a held', 'b held', 'mine waiting']);
  const canceled = withHeld(start, [message('b')]);
  assert.deepEqual(shown(canceled), ['b held', 'mine waiting']);
  const sent: Message = { id: 'm', seq: 1, localId: 'b', content: {}, createdAt: 2 };
  assert.deepEqual(shown(withNewestPage(canceled, [sent], false)), ['mine waiting']);
  assert.deepEqual(shown(withHeld(withNewestPage(canceled, [sent], false), [message('b')])), ['mine waiting']);
});
