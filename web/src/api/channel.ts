/**
 * The event channel: a WebSocket, server-sent events where that does not get through, and coming back after every end.
 */

import type { Visibility } from './presence.ts';
import type { HubEvent } from './types.ts';

/** What the person is told of the connection. */
export type ConnectionState = 'connecting' | 'live' | 'reconnecting' | 'offline';

/** What may have been missed when a connection begins, and must be read again: `messages` of the followed session only. */
export type Missed = 'nothing' | 'messages' | 'anything';

/** Without any event for this long the connection counts as dead; the hub sends a heartbeat every 30 s. */
const SILENCE_MS = 75_000;
/** Waits between tries: doubling up to the last, in milliseconds. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** So many WebSockets that never opened, one after another, and the next try is a stream. */
const SOCKET_TRIES = 2;
/** So many connections that ended before they began, one after another, and the next has a new JWT: an end has no reason. */
const JWT_TRIES = 2;
/** The hub closes a WebSocket with this code when its JWT has run out. */
const TOKEN_EXPIRED = 4401;

/** What the channel needs from around it. */
export interface ChannelEnvironment {
  /** A JWT that is good for a while; rejects when there is none to be had. */
  token: () => Promise<string>;
  /** The JWT was refused. */
  forgetToken: () => void;
  onEvent: (event: HubEvent) => void;
  onConnected: (subscriptionId: string, missed: Missed) => void;
  onState: (state: ConnectionState) => void;
  /** A connection ended before it began. It may be the hub that is away, or the followed session that is gone. */
  onRefused: (sessionId: string | null) => void;
  isOnline: () => boolean;
  /** Whether somebody looks at the page, for the subscription that is being made. */
  visibility: () => Visibility;
  WebSocket: typeof WebSocket;
  EventSource: typeof EventSource;
  origin: string;
}

/** One subscription that is kept up until {@link stop}. */
export class Channel {
  #environment: ChannelEnvironment;
  #sessionId: string | null = null;
  #lastEventId: string | null = null;
  /** The session whose messages were heard up to `#lastEventId`. */
  #heardOf: string | null = null;
  #connection: { close: () => void } | null = null;
  /** Counts connections, so that a late word of an old one is not taken for the new one's. */
  #generation = 0;
  #failures = 0;
  #unopened = 0;
  #unbegun = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #watchdog: ReturnType<typeof setTimeout> | undefined;
  #running = false;

  constructor(environment: ChannelEnvironment) {
    this.#environment = environment;
  }

  /** Connects and stays connected. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    this.#environment.onState('connecting');
    this.#connect();
  }

  /** Ends the subscription and forgets all of it: who signs in next may be somebody else. */
  stop(): void {
    this.#running = false;
    this.#drop();
    this.#sessionId = this.#lastEventId = this.#heardOf = null;
    this.#failures = this.#unopened = this.#unbegun = 0;
  }

  /** Hears the messages of this session from now on, besides what concerns all of them. */
  follow(sessionId: string): void {
    if (this.#sessionId === sessionId) return;
    this.#sessionId = sessionId;
    if (this.#running) this.#connect();
  }

  /** This session is gone: the hub takes no subscription to it any more. What is connected stays. */
  unfollow(sessionId: string): void {
    if (this.#sessionId === sessionId) this.#sessionId = null;
  }

  /** Does not wait for the next try: the network is back, or the person is. */
  wake(): void {
    if (this.#running && !this.#connection) {
      this.#failures = 0;
      this.#connect();
    }
  }

  /** The browser has lost its network: a connection may take minutes to notice. */
  networkLost(): void {
    if (!this.#running) return;
    this.#drop();
    this.#environment.onState('offline');
  }

  async #connect(): Promise<void> {
    this.#drop();
    const generation = this.#generation;
    const { token, origin, visibility } = this.#environment;
    const sessionId = this.#sessionId;
    let jwt;
    try {
      jwt = await token();
    } catch {
      if (generation === this.#generation) this.#lost();
      return;
    }
    if (generation !== this.#generation || !this.#running) return;
    const lastEventId = this.#lastEventId;
    const query = new URLSearchParams({
      all: 'true',
      visibility: visibility(),
      token: jwt,
      ...(sessionId === null ? {} : { sessionId }),
      ...(lastEventId === null ? {} : { lastEventId }),
    });
    const messages = this.#heardOf === sessionId ? 'nothing' : 'messages';
    let hasBegun = false;
    const hear = (event: HubEvent, id: string | undefined) => {
      if (generation !== this.#generation) return;
      this.#watch();
      if (id) {
        this.#lastEventId = id;
        this.#heardOf = sessionId;
      }
      if (event.type === 'connection-changed') {
        hasBegun = true;
        this.#failures = this.#unopened = this.#unbegun = 0;
        this.#environment.onState('live');
        const resumed = lastEventId !== null && event.data.resume === 'ok';
        this.#environment.onConnected(event.data.subscriptionId, resumed ? messages : 'anything');
      } else {
        this.#environment.onEvent(event);
      }
    };
    const ended = (expired: boolean) => {
      if (generation !== this.#generation) return;
      if (!hasBegun) {
        this.#unbegun += 1;
        this.#environment.onRefused(sessionId);
      }
      if (expired || this.#unbegun === JWT_TRIES) {
        this.#unbegun = 0;
        this.#environment.forgetToken();
      }
      this.#lost(expired);
    };
    this.#watch();
    this.#connection =
      this.#unopened < SOCKET_TRIES
        ? this.#openSocket(`${origin.replace(/^http/, 'ws')}/api/events?${query}`, hear, ended)
        : this.#openStream(`${origin}/api/events?${query}`, hear, ended);
  }

  #openSocket(url: string, hear: (event: HubEvent, id?: string) => void, ended: (expired: boolean) => void) {
    const socket = new this.#environment.WebSocket(url);
    let opened = false;
    socket.onopen = () => {
      opened = true;
    };
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(String(data)) as HubEvent;
      // Tells the hub how far this client has read.
      if (event.type === 'heartbeat') socket.send('read');
      hear(event, event.eventId);
    };
    socket.onclose = ({ code }) => {
      if (!opened) this.#unopened += 1;
      ended(code === TOKEN_EXPIRED);
    };
    return {
      close: () => {
        socket.onopen = socket.onmessage = socket.onclose = null;
        socket.close();
      },
    };
  }

  #openStream(url: string, hear: (event: HubEvent, id?: string) => void, ended: (expired: boolean) => void) {
    const stream = new this.#environment.EventSource(url);
    stream.onmessage = ({ data, lastEventId }) => hear(JSON.parse(String(data)) as HubEvent, lastEventId);
    stream.onerror = () => {
      // It would come back by itself with the same JWT and without this channel's waits.
      stream.close();
      // A stream that does not open either may be one of a passing fault: the next try is a WebSocket again.
      this.#unopened = 0;
      ended(false);
    };
    return { close: () => stream.close() };
  }

  #watch(): void {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lost(), SILENCE_MS);
  }

  /** Forgets the present connection, whatever it is doing. */
  #drop(): void {
    this.#generation += 1;
    clearTimeout(this.#retry);
    clearTimeout(this.#watchdog);
    this.#connection?.close();
    this.#connection = null;
  }

  #lost(atOnce = false): void {
    this.#drop();
    if (!this.#running) return;
    if (!this.#environment.isOnline()) {
      this.#environment.onState('offline');
      return;
    }
    this.#environment.onState('reconnecting');
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, LONGEST_WAIT_MS);
    this.#failures += 1;
    this.#retry = setTimeout(() => this.#connect(), atOnce ? 0 : wait * (0.75 + Math.random() / 2));
  }
}
