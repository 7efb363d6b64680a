/** A fake browser for the tests of the event channel. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock } from 'node:test';
import { Channel, type ConnectionState, type Gap } from '../../src/api/channel.ts';
import type { HubEvent } from '../../src/api/types.ts';
import { flushPromises } from './promises.ts';

/** A WebSocket or EventSource whose events the test triggers. */
export class FakeConnection {
  static all: FakeConnection[] = [];
  static get last(): FakeConnection {
    const last = FakeConnection.all.at(-1);
    assert.ok(last, 'no connection was opened');
    return last;
  }
  url: URL;
  sent: string[] = [];
  isClosed = false;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string; lastEventId?: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(url: string) {
    this.url = new URL(url);
    FakeConnection.all.push(this);
  }
  send(text: string) {
    this.sent.push(text);
  }
  close() {
    this.isClosed = true;
  }
  /** Delivers an event from the hub. */
  deliver(event: object, id?: string) {
    this.onmessage?.(
      id === undefined ? { data: JSON.stringify(event) } : { data: JSON.stringify({ ...event, eventId: id }), lastEventId: id },
    );
  }
  /** Opens the connection and delivers the first event. */
  accept(resume: 'ok' | 'gap' = 'ok', id = 'e1') {
    this.onopen?.();
    this.deliver(
      { type: 'connection-changed', data: { status: 'connected', subscriptionId: `s${FakeConnection.all.length}`, resume } },
      id,
    );
  }
}
export class FakeSocket extends FakeConnection {}
export class FakeStream extends FakeConnection {}

let lastChannel: Channel | undefined;
beforeEach(() => {
  FakeConnection.all = [];
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
});
afterEach(() => {
  lastChannel?.stop();
  lastChannel = undefined;
  mock.timers.reset();
});

/**
 * Starts a channel, whose connection is not open yet. The channel is stopped after the test. `onStream` is called when its window has opened
 * or closed a stream.
 */
export async function setup(onStream = (_isOpen: boolean) => {}) {
  const states: ConnectionState[] = [];
  const events: HubEvent[] = [];
  const connected: [string, Gap][] = [];
  const failedConnects: (string | null)[] = [];
  const browser = { isOnline: true, isVisible: true, invalidated: 0, refused: 0, tokens: 0, polls: 0 };
  const channel = new Channel({
    getValidJwt: async () => `jwt${(browser.tokens += 1)}`,
    invalidateJwt: () => void (browser.invalidated += 1),
    onEvent: (event) => events.push(event),
    onConnected: (id, gap) => connected.push([id, gap]),
    onState: (state) => states.push(state),
    onConnectFailed: (id) => failedConnects.push(id),
    onTokenRefused: () => (browser.refused += 1),
    onPoll: () => void (browser.polls += 1),
    onStream,
    isOnline: () => browser.isOnline,
    isVisible: () => browser.isVisible,
    browserId: () => 'desk',
    prepareSubscription: () => 'visible',
    WebSocket: FakeSocket as unknown as typeof WebSocket,
    EventSource: FakeStream as unknown as typeof EventSource,
    hub: 'http://hub.test',
  });
  lastChannel = channel;
  channel.start();
  await flushPromises();
  return { channel, states, events, connected, failedConnects, browser };
}
