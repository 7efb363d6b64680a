/**
 * The event channel: one subscription to the hub's events (`GET /api/events`), which reconnects by itself. The channel uses a WebSocket,
 * or a stream of server-sent events if a proxy blocks WebSockets. If the proxy holds back the stream, too, the page polls. After a
 * reconnect, the channel resumes from the last event id, and reports which data may be out of date.
 */

import type { Visibility } from './presence.ts';
import type { HubEvent } from './types.ts';

/**
 * `live`: the hub has sent a frame on this connection. `checking`: the device may have slept, and the hub has not answered a probe yet.
 * `polling`: the stream delivers no events, so the page fetches its data again and again.
 */
export type ConnectionState = 'connecting' | 'live' | 'checking' | 'polling' | 'reconnecting' | 'offline';

/** The data to fetch again after a connect, because events may have been missed. */
export type Gap = 'none' | 'all';

/** A connection without events for this long is replaced. The hub sends a heartbeat every 30 s, which may be a minute late. */
const IDLE_TIMEOUT_MS = 95_000;
/** A probed connection that receives nothing within this time is replaced. */
const PROBE_TIMEOUT_MS = 3000;
/** A WebSocket that has not opened after this time has failed. A new stream that has no event after this time is held back by a proxy. */
const START_TIMEOUT_MS = 10_000;
const POLL_INTERVAL_MS = 10_000;
/** The longest usual time between two heartbeats. */
const MAX_HEARTBEAT_INTERVAL_MS = 35_000;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 15_000;
/** After this many consecutive WebSockets that never opened, the channel tries server-sent events. */
const MAX_SOCKET_ATTEMPTS = 2;
/** Browsers allow six connections to a host over HTTP/1.1. The other connections are for requests. A WebSocket does not count. */
const MAX_STREAMS = 3;
/** After this many consecutive failed connects, the channel requests a new JWT: browsers do not report whether an expired JWT was the reason. */
const MAX_JWT_ATTEMPTS = 2;
/** The hub's close code for an expired JWT. */
const CLOSE_TOKEN_EXPIRED = 4401;

/** The callbacks and browser features that {@link Channel} uses. */
export interface ChannelEnvironment {
  /** Returns a valid JWT. */
  getValidJwt: () => Promise<string>;
  /** Makes the next `getValidJwt` call return a new JWT. */
  invalidateJwt: () => void;
  onEvent: (event: HubEvent) => void;
  onConnected: (subscriptionId: string, gap: Gap) => void;
  onState: (state: ConnectionState) => void;
  /** Called when a connect has failed: the hub is unreachable, or the followed session no longer exists. */
  onConnectFailed: (sessionId: string | null) => void;
  /** Called when the hub has closed a connection because of its JWT, and the next connect has failed: the device may be revoked. */
  onTokenRefused: () => void;
  /** Called in each interval of the state `polling`. */
  onPoll: () => void;
  /** Called when this window has opened or closed a stream, for {@link Channel.handleOtherStream} of the other windows. */
  onStream: (isOpen: boolean) => void;
  isOnline: () => boolean;
  isVisible: () => boolean;
  /** Returns the id of this browser. */
  browserId: () => string;
  /** Called before each new subscription. Returns whether the page is in use; the subscription sends this to the hub. */
  prepareSubscription: () => Visibility;
  WebSocket: typeof WebSocket;
  EventSource: typeof EventSource;
  /** The address of the hub, without a trailing slash. */
  hub: string;
}

interface Connection {
  close: () => void;
  /** Requests an answer from the hub. Returns false if the connection cannot send a request. */
  probe: () => boolean;
}

export class Channel {
  #environment: ChannelEnvironment;
  #followedId: string | null = null;
  #lastEventId: string | null = null;
  #connection: Connection | null = null;
  /** Incremented with every connection, so that late callbacks of a closed connection are ignored. */
  #generation = 0;
  /** The number of reconnects since the channel was last live. It determines the backoff. */
  #failures = 0;
  /** Consecutive WebSockets that never opened. A stream that is lost allows one more WebSocket. */
  #failedSockets = 0;
  /** Consecutive connects that failed with the current JWT. */
  #failedConnects = 0;
  /** The windows of this browser that have opened a stream after this window. */
  #laterStreams = new Set<string>();
  /** Whether the last connection was closed because of its JWT. */
  #isTokenExpired = false;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #pollTimer: ReturnType<typeof setTimeout> | undefined;
  #probeTimer: ReturnType<typeof setTimeout> | undefined;
  /** When the last frame arrived, or the connection was started. The clock also advances while the device sleeps. */
  #lastActivityAt = 0;
  #isRunning = false;
  #state: ConnectionState = 'connecting';

  constructor(environment: ChannelEnvironment) {
    this.#environment = environment;
  }

  /** Connects, and reconnects until {@link stop}. */
  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#setState('connecting');
    this.#connect();
  }

  /** Disconnects and resets all state, because the next sign-in may be to another namespace. */
  stop(): void {
    this.#isRunning = false;
    this.#closeConnection();
    this.#followedId = this.#lastEventId = null;
    this.#failures = this.#failedSockets = this.#failedConnects = 0;
  }

  /**
   * Subscribes to the messages of this session, in addition to the events of all sessions. This needs a new connection, which gets all
   * events after the last event that has arrived. So a client that reads the messages after this call misses no message.
   */
  follow(sessionId: string): void {
    if (this.#followedId === sessionId) return;
    this.#followedId = sessionId;
    if (this.#isRunning) this.#connect();
  }

  isFollowing(sessionId: string): boolean {
    return this.#followedId === sessionId;
  }

  /** Leaves this session out of future connections: the hub rejects a subscription to a deleted session. */
  unfollow(sessionId: string): void {
    if (this.#followedId === sessionId) this.#followedId = null;
  }

  /** Connects without waiting for the backoff, and replaces an existing connection. */
  reconnect(): void {
    if (!this.#isRunning) return;
    this.#failures = 0;
    this.#scheduleReconnect(true);
  }

  /**
   * Checks the connection, and replaces it if the hub does not answer. While the page was in the background, the network may have
   * dropped the connection silently.
   */
  probe(): void {
    if (!this.#isRunning || this.#probeTimer !== undefined) return;
    if (!this.#connection) {
      this.#failures = 0;
      void this.#connect();
      return;
    }
    // A stream and a socket that is opening cannot send a probe: wait for the next heartbeat or for the first event.
    const heartbeatDueMs = this.#lastActivityAt + MAX_HEARTBEAT_INTERVAL_MS - Date.now();
    if (this.#state === 'live' && heartbeatDueMs < 0) this.#setState('checking');
    const timeoutMs = this.#connection.probe() ? PROBE_TIMEOUT_MS : Math.max(PROBE_TIMEOUT_MS, heartbeatDueMs);
    this.#probeTimer = setTimeout(() => this.reconnect(), timeoutMs);
  }

  /**
   * Checks the connection, because the browser may report its loss only after minutes. A hub on this computer or in the local network can still
   * be reached.
   */
  handleOffline(): void {
    if (!this.#isRunning) return;
    if (!this.#connection) this.#setState('offline');
    else {
      if (this.#state === 'live') this.#setState('checking');
      this.probe();
    }
  }

  /** Closes the stream of a hidden page, and polls: the windows share {@link MAX_STREAMS}. */
  handleHidden(): void {
    if (this.#hasStream) void this.#connect();
  }

  /** Closes the stream of this window, and polls until the window is used, if {@link MAX_STREAMS} other windows opened theirs later. */
  handleOtherStream(id: string, isOpen: boolean): void {
    if (!this.#hasStream) return;
    this.#laterStreams[isOpen ? 'add' : 'delete'](id);
    if (this.#laterStreams.size === MAX_STREAMS) void this.#connect(true);
  }

  get #hasStream(): boolean {
    return this.#connection !== null && this.#usesStream;
  }

  get #usesStream(): boolean {
    return this.#failedSockets >= MAX_SOCKET_ATTEMPTS;
  }

  /** @param polls whether to poll instead of opening a stream */
  async #connect(polls = false): Promise<void> {
    this.#closeConnection();
    const generation = this.#generation;
    const { getValidJwt, hub, browserId, prepareSubscription, isVisible } = this.#environment;
    const sessionId = this.#followedId;
    let jwt: string;
    try {
      jwt = await getValidJwt();
    } catch {
      if (generation === this.#generation) this.#scheduleReconnect();
      return;
    }
    if (generation !== this.#generation || !this.#isRunning) return;
    const visibility = prepareSubscription();
    if (this.#usesStream && (polls || !isVisible())) return this.#poll();
    const lastEventId = this.#lastEventId;
    const query = new URLSearchParams({
      all: 'true',
      visibility,
      device: browserId(),
      token: jwt,
      ...(sessionId === null ? {} : { sessionId }),
      ...(lastEventId === null ? {} : { lastEventId }),
    });
    let isConnected = false;
    const handleEvent = (event: HubEvent, id: string | undefined) => {
      if (generation !== this.#generation) return;
      this.#recordActivity();
      if (id) this.#lastEventId = id;
      if (event.type === 'connection-changed') {
        isConnected = true;
        this.#isTokenExpired = false;
        this.#failures = this.#failedConnects = 0;
        this.#setState('live');
        const isResumed = lastEventId !== null && event.data.resume === 'ok';
        this.#environment.onConnected(event.data.subscriptionId, isResumed ? 'none' : 'all');
      } else {
        if (this.#state === 'checking' || this.#state === 'polling') this.#setState('live');
        this.#environment.onEvent(event);
      }
    };
    const handleClose = (isTokenExpired: boolean) => {
      if (generation !== this.#generation) return;
      if (!isConnected) {
        this.#failedConnects += 1;
        this.#environment.onConnectFailed(sessionId);
        if (this.#isTokenExpired) this.#environment.onTokenRefused();
      }
      this.#isTokenExpired = isTokenExpired;
      if (isTokenExpired || this.#failedConnects === MAX_JWT_ATTEMPTS) {
        this.#failedConnects = 0;
        this.#environment.invalidateJwt();
      }
      this.#scheduleReconnect(isTokenExpired);
    };
    this.#recordActivity();
    if (this.#state === 'live' || this.#state === 'checking') this.#setState('connecting');
    this.#connection = this.#usesStream
      ? this.#openStream(`${hub}/api/events?${query}`, handleEvent, handleClose)
      : this.#openSocket(`${hub.replace(/^http/, 'ws')}/api/events?${query}`, handleEvent, handleClose);
  }

  #openSocket(
    url: string,
    handleEvent: (event: HubEvent, id?: string) => void,
    handleClose: (isTokenExpired: boolean) => void,
  ): Connection {
    const socket = new this.#environment.WebSocket(url);
    let isOpened = false;
    const handleFailure = () => {
      if (this.#environment.isOnline()) this.#failedSockets += 1;
      handleClose(false);
    };
    const startTimer = setTimeout(handleFailure, START_TIMEOUT_MS);
    socket.onopen = () => {
      isOpened = true;
      this.#failedSockets = 0;
      clearTimeout(startTimer);
    };
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(String(data)) as HubEvent;
      // The hub disconnects clients that fall behind. Any frame shows the hub that this client still reads.
      if (event.type === 'heartbeat') socket.send('read');
      handleEvent(event, 'eventId' in event ? event.eventId : undefined);
    };
    socket.onclose = ({ code }) => (isOpened ? handleClose(code === CLOSE_TOKEN_EXPIRED) : handleFailure());
    return {
      close: () => {
        clearTimeout(startTimer);
        socket.onopen = socket.onmessage = socket.onclose = null;
        socket.close();
      },
      probe: () => {
        if (isOpened) socket.send('probe');
        return isOpened;
      },
    };
  }

  #openStream(
    url: string,
    handleEvent: (event: HubEvent, id?: string) => void,
    handleClose: (isTokenExpired: boolean) => void,
  ): Connection {
    const { EventSource, onStream } = this.#environment;
    const stream = new EventSource(url);
    this.#laterStreams.clear();
    onStream(true);
    this.#pollTimer = setTimeout(() => this.#poll(), START_TIMEOUT_MS);
    stream.onmessage = ({ data, lastEventId }) => {
      handleEvent(JSON.parse(String(data)) as HubEvent, lastEventId);
      clearTimeout(this.#pollTimer);
      this.#pollTimer = setTimeout(() => this.#poll(), MAX_HEARTBEAT_INTERVAL_MS);
    };
    stream.onerror = () => {
      // An EventSource would reconnect by itself, with the old JWT and without backoff.
      stream.close();
      // The failure may be transient: the next attempt is a WebSocket again.
      this.#failedSockets = MAX_SOCKET_ATTEMPTS - 1;
      handleClose(false);
    };
    const close = () => {
      stream.close();
      onStream(false);
    };
    return { close, probe: () => false };
  }

  #poll(): void {
    this.#setState('polling');
    this.#pollTimer = setTimeout(() => this.#poll(), POLL_INTERVAL_MS);
    this.#environment.onPoll();
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    this.#environment.onState(state);
  }

  /** Restarts the timeouts of the connection. Must be called when the connection is started, and when it has received a frame. */
  #recordActivity(): void {
    this.#lastActivityAt = Date.now();
    this.#endProbe();
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      if (this.#state === 'polling') void this.#connect();
      else this.#scheduleReconnect();
    }, IDLE_TIMEOUT_MS);
  }

  #endProbe(): void {
    clearTimeout(this.#probeTimer);
    this.#probeTimer = undefined;
  }

  #closeConnection(): void {
    this.#generation += 1;
    this.#endProbe();
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#idleTimer);
    clearTimeout(this.#pollTimer);
    this.#connection?.close();
    this.#connection = null;
  }

  #scheduleReconnect(immediately = false): void {
    this.#closeConnection();
    if (!this.#isRunning) return;
    this.#setState(this.#environment.isOnline() ? 'reconnecting' : 'offline');
    const backoff = Math.min(MIN_BACKOFF_MS * 2 ** this.#failures, MAX_BACKOFF_MS);
    this.#failures += 1;
    this.#retryTimer = setTimeout(() => this.#connect(), immediately ? 0 : backoff * (0.75 + Math.random() / 2));
  }
}
