/** Many messages at once. All messages are stored in order. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { withTimeout } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const MESSAGE_COUNT = 5_000;
const KILOBYTE = 1024;
const TIMEOUT_MS = 120_000;

/** A message of 1 KB of JSON with a number. */
function contentOf(n) {
  const withoutPadding = { role: 'agent', n, padding: '' };
  return { ...withoutPadding, padding: 'x'.repeat(KILOBYTE - JSON.stringify(withoutPadding).length) };
}

const numbersOf = (messages) => messages.map(({ content: { n } }) => n);
const seqsOf = (messages) => messages.map(({ seq }) => seq);
const sequence = (count, from = 1) => Array.from({ length: count }, (_, index) => index + from);

for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
  test(`5,000 messages emitted at once are stored and published in order (token by ${tokenIn})`, async (t) => {
    const namespace = `ingest-${tokenIn}`;
    const web = hub.web(namespace);
    const { session, cli } = await liveSession(t, hub, { namespace, tag: 'many', tokenIn });
    const second = await connectCli(t, hub, { namespace, tokenIn, auth: { sessionId: session.id } });
    const feed = await web.openSocket({ sessionId: session.id });
    t.after(() => feed.close());
    await feed.waitForGreeting();

    const acks = await withTimeout(
      Promise.all(
        sequence(MESSAGE_COUNT).map((n) =>
          cli.socket.emitWithAck('message', { sid: session.id, message: contentOf(n), localId: `l-${n}` }),
        ),
      ),
      'all acknowledgements',
      TIMEOUT_MS,
    );
    assert.ok(acks.every(({ ok }) => ok === true));
    assert.deepEqual(
      acks.map(({ seq }) => seq),
      sequence(MESSAGE_COUNT),
      'seqs are in the order of sending, without a gap',
    );
    assert.equal(new Set(acks.map(({ id }) => id)).size, MESSAGE_COUNT);

    const forwards = await web.readHistory(session.id);
    assert.deepEqual(seqsOf(forwards), sequence(MESSAGE_COUNT));
    assert.deepEqual(numbersOf(forwards), sequence(MESSAGE_COUNT));
    assert.deepEqual(
      forwards.map(({ id }) => id),
      acks.map(({ id }) => id),
    );
    assert.deepEqual(forwards[MESSAGE_COUNT - 1].content, contentOf(MESSAGE_COUNT));

    const backwards = [];
    for (let before = ''; before !== null; ) {
      const { body } = await web.get(`/api/sessions/${session.id}/messages?limit=200${before && `&beforeSeq=${before}`}`);
      backwards.push(...body.messages);
      before = body.page.nextBeforeSeq;
    }
    assert.deepEqual(seqsOf(backwards), sequence(MESSAGE_COUNT).reverse());
    assert.equal((await web.readSession(session.id)).seq, MESSAGE_COUNT);

    // The other CLI and the feed have received the same messages in the same order.
    const isLast = ({ payload }) => payload?.body?.message?.seq === MESSAGE_COUNT;
    await second.events.next(isLast, 'the last message at the other socket', TIMEOUT_MS);
    assert.deepEqual(numbersOf(second.events.all.map(({ payload }) => payload.body.message)), sequence(MESSAGE_COUNT));
    await feed.next(({ message }) => message?.seq === MESSAGE_COUNT, 'the last message on the event socket', TIMEOUT_MS);
    assert.deepEqual(
      numbersOf(feed.all.filter(({ type }) => type === 'message-received').map(({ message }) => message)),
      sequence(MESSAGE_COUNT),
    );

    // Messages that are sent again, as after a lost connection, are not stored twice.
    const again = await Promise.all(sequence(100, MESSAGE_COUNT - 99).map((n) => cli.sendMessage(session.id, contentOf(n), `l-${n}`)));
    assert.deepEqual(again, acks.slice(-100));
    assert.equal((await cli.sendMessage(session.id, { n: MESSAGE_COUNT + 1 })).seq, MESSAGE_COUNT + 1);
  });
}
