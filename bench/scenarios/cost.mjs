/**
 * The price of a month of a busy namespace, and of a namespace with the same clients that are idle. The scenario does each part of a
 * working day in the counting hub, which counts the usage of the part. The price of a month is the sum over the parts, each multiplied by
 * how often the part happens. Minutes without messages run in real time, because pings, heartbeats and alarms follow the clock.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../scripts/lib/await.mjs';
import { monthTable, partsTable } from '../lib/cost-report.mjs';
import { D1_GB_MONTH_PRICE, PRICES_READ_ON, accountBill, marginalPrice } from '../lib/prices.mjs';
import { startFresh } from '../lib/runtime.mjs';
import { Hub } from '../lib/servers.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';
import { add, billedAmounts, readUsage, scale, subtract } from '../lib/usage.mjs';

export const startsRuntimes = true;

const SESSIONS = 5;
const WEB_CLIENTS = 2;
const HOURS = 8;
const DAYS = 30;
const MESSAGES_PER_MINUTE = 4;
const MESSAGE_BYTES = 2_000;
const KEEP_ALIVE_MS = 10_000;
/** A web client's token is valid for 15 minutes. */
const RENEWALS_PER_HOUR = 4;
/** How often a user opens a session in the console. */
const PAGES_PER_HOUR = 12;
/** How often a user sends a message to an agent. During the turn, the agent asks for one permission. */
const TURNS_PER_HOUR = 6;
/** More messages than the hub's event log retains, so that the log drops its oldest events, as in the middle of a day. */
const LOG_FILLING_MESSAGES = 1_300;
/** How many messages are sent to count the usage of a message. A multiple of 250, because the event log drops its oldest events 250 at a time. */
const COUNTED_MESSAGES = 1_000;
/** The numbers of namespaces for which the bill of an account is computed. */
const ACCOUNTS = [20, 50];

export const rows = [
  { id: 'message-rows', work: 'D1 rows written for a message', mainFigure: 'count', target: { of: 'hub', most: 3 } },
  { id: 'local-id-rows', work: 'D1 rows written for a message with a local id', mainFigure: 'count', target: { of: 'hub', most: 4 } },
  { id: 'idle-round-trips', work: 'requests to D1 in a minute of idle clients', mainFigure: 'count', target: { of: 'hub', most: 0 } },
  { id: 'cost-work', work: 'a month: messages and keep-alives', mainFigure: 'dollars', target: { of: 'hub', most: 1 } },
  { id: 'cost-local-ids', work: 'the same, each message with a local id', mainFigure: 'dollars' },
  { id: 'cost-all', work: 'a month: everything', mainFigure: 'dollars' },
  { id: 'cost-idle', work: 'a month of the same clients, connected but idle', mainFigure: 'dollars' },
  ...ACCOUNTS.map((count) => ({ id: `bill-${count}`, work: `bill of an account with ${count} such namespaces`, mainFigure: 'dollars' })),
  { id: 'storage', work: 'growth of the database in a month', mainFigure: 'megabytes' },
  { id: 'cost-storage', work: 'storage of a month, in each later month', mainFigure: 'dollars' },
];

/**
 * The parts of a month. `times`: how often a part happens in a month. `isWork`: whether the part is messages and keep-alives. `isIdle`:
 * whether the part is of another namespace, whose clients are connected day and night but idle.
 * @type {Record<string, {title: string, times: number, isWork?: boolean, isIdle?: boolean}>}
 */
const PARTS = {
  start: { title: 'a day starts', times: DAYS },
  minute: { title: `a minute of ${SESSIONS} agents without messages`, times: DAYS * HOURS * 60, isWork: true },
  message: { title: 'an agent’s message', times: DAYS * HOURS * 60 * SESSIONS * MESSAGES_PER_MINUTE, isWork: true },
  turn: { title: 'a user’s message and an approval', times: DAYS * HOURS * SESSIONS * TURNS_PER_HOUR },
  renewal: { title: 'a web client renews its token', times: DAYS * HOURS * WEB_CLIENTS * RENEWALS_PER_HOUR },
  page: { title: 'a web client opens a session', times: DAYS * HOURS * WEB_CLIENTS * PAGES_PER_HOUR },
  end: { title: 'a day ends', times: DAYS },
  idle: { title: 'a minute of idle clients, not in the sums', times: DAYS * 24 * 60, isIdle: true },
};

class Day {
  lastEventId = null;
  agents = [];
  feeds = [];

  constructor(runtime, namespace) {
    this.runtime = runtime;
    this.namespace = namespace;
    this.hub = new Hub(runtime);
  }

  /** Runs `work`. Resolves to what it used. */
  async countUsage(work) {
    const before = await readUsage(this.runtime, this.namespace);
    await work();
    // Includes commits that follow an acknowledgement or a response.
    await sleep(500);
    return subtract(await readUsage(this.runtime, this.namespace), before);
  }

  /** Signs in web client `n`, and opens its event channel. The channel resumes after the last event. */
  async openFeed(n) {
    await this.hub.signIn(this.namespace);
    const open = n % 2 === 0 ? subscribe : subscribeSocket;
    const resume = this.lastEventId === null ? '' : `&lastEventId=${encodeURIComponent(this.lastEventId)}`;
    const listener = ({ eventId }) => eventId && (this.lastEventId = eventId);
    const path = `/api/events?all=true&sessionId=${this.agents[n % SESSIONS].session.id}${resume}`;
    this.feeds[n] = await open(this.hub.newConnection(), path, listener);
  }

  async renewToken(n) {
    this.feeds[n]();
    await this.openFeed(n);
  }

  /** Opens the sessions, and connects their CLIs and the web clients. Half of the CLIs connect through the worker. */
  async start({ isIdle = false } = {}) {
    await this.hub.signIn(this.namespace);
    const tags = Array.from({ length: SESSIONS }, (_, n) => `agent-${n}`);
    for (const [n, session] of (await this.hub.openSessions(tags)).entries()) {
      const socket = await this.hub.connectCli(session, { isDirect: n % 2 === 1 });
      socket.on('rpc-request', (_, reply) => reply(JSON.stringify({ success: true })));
      await socket.emitWithAck('rpc-register', { method: `${session.id}:permission` });
      this.agents[n] = { session, socket, stateVersion: 1 };
      if (!isIdle) await this.keepAlive(this.agents[n]);
    }
    for (let n = 0; n < WEB_CLIENTS; n += 1) await this.openFeed(n);
  }

  keepAlive({ session, socket }, thinking = false) {
    return socket.emitWithAck('session-alive', { sid: session.id, time: Date.now(), thinking, mode: 'remote' });
  }

  async send({ session, socket }, withLocalId) {
    const message = { role: 'agent', content: { type: 'output', data: { text: 'x'.repeat(MESSAGE_BYTES - 80) } } };
    const localId = withLocalId ? { localId: crypto.randomUUID() } : {};
    const ack = await socket.emitWithAck('message', { sid: session.id, message, ...localId });
    if (!ack.ok) throw new Error(`A message was refused: ${JSON.stringify(ack)}`);
  }

  /** Sends messages one after another. The agents take turns. */
  async sendMany(count, { withLocalId = false } = {}) {
    for (let n = 0; n < count; n += 1) await this.send(this.agents[n % SESSIONS], withLocalId);
  }

  /** Sends the keep-alives of all agents for some minutes, evenly spread. */
  async sendKeepAlives(minutes) {
    const start = performance.now();
    const interval = KEEP_ALIVE_MS / SESSIONS;
    for (let n = 0; n < (minutes * 60_000) / interval; n += 1) {
      await this.keepAlive(this.agents[n % SESSIONS]);
      await sleep(start + (n + 1) * interval - performance.now());
    }
  }

  /** Runs a turn: a user sends a message; the agent thinks, and asks for a permission; the user approves. */
  async runTurn(agent) {
    const { session, socket } = agent;
    const path = `/api/sessions/${session.id}`;
    await this.hub.request('POST', `${path}/messages`, { text: 'continue with the next step', localId: crypto.randomUUID() });
    await this.keepAlive(agent, true);
    const requests = { [crypto.randomUUID()]: { tool: 'shell', arguments: { command: 'ls -l' } } };
    const update = { sid: session.id, expectedVersion: agent.stateVersion, agentState: { requests } };
    const { version } = await socket.emitWithAck('update-state', update);
    await this.hub.request('POST', `${path}/permissions/${Object.keys(requests)[0]}/approve`, {});
    const isStored = async () => (agent.stateVersion = (await this.hub.request('GET', path)).session.agentStateVersion) > version;
    await eventually(isStored, 'the stored approval');
    await this.keepAlive(agent, false);
  }

  async openPage({ session }) {
    await this.hub.request('GET', `/api/sessions/${session.id}`);
    await this.hub.request('GET', `/api/sessions/${session.id}/messages?limit=50`);
  }

  /** Ends the sessions, and disconnects all clients. */
  async end() {
    for (const { session, socket } of this.agents) {
      await socket.emitWithAck('session-end', { sid: session.id, time: Date.now() });
      socket.close();
    }
    for (const close of this.feeds) close();
  }
}

export async function run({ workers, quick, report, addTable }) {
  const minutes = quick ? 1 : 3;
  const runtime = await startFresh('counting', workers.find(({ kind }) => kind === 'hub').build);
  try {
    const day = new Day(runtime, 'busy');
    const idleDay = new Day(runtime, 'idle');
    await idleDay.start({ isIdle: true });
    const counted = { start: await day.countUsage(() => day.start()) };
    await day.sendMany(LOG_FILLING_MESSAGES);
    counted.message = scale(await day.countUsage(() => day.sendMany(COUNTED_MESSAGES)), 1 / COUNTED_MESSAGES);
    const withLocalId = scale(await day.countUsage(() => day.sendMany(COUNTED_MESSAGES, { withLocalId: true })), 1 / COUNTED_MESSAGES);
    // Sessions may have become inactive meanwhile. The alarm for the idle clients' CONNECT packets fires in this time, too.
    await day.sendKeepAlives(0.5);
    counted.idle = await idleDay.countUsage(async () => {
      counted.minute = scale(await day.countUsage(() => day.sendKeepAlives(minutes)), 1 / minutes);
    });
    counted.idle = scale(counted.idle, 1 / minutes);
    counted.turn = await day.countUsage(() => day.runTurn(day.agents[0]));
    counted.renewal = scale(await day.countUsage(async () => [await day.renewToken(0), await day.renewToken(1)]), 1 / 2);
    counted.page = await day.countUsage(() => day.openPage(day.agents[1]));
    counted.end = await day.countUsage(() => day.end());
    await idleDay.end();

    const parts = Object.entries(PARTS).map(([id, part]) => ({ ...part, once: counted[id], month: scale(counted[id], part.times) }));
    const sum = (chosen) => billedAmounts(chosen.map(({ month }) => month).reduce(add));
    const [work, all] = [sum(parts.filter((part) => part.isWork)), sum(parts.filter((part) => !part.isIdle))];
    const localIdRows = (withLocalId.d1RowsWritten - counted.message.d1RowsWritten) * PARTS.message.times;
    const databaseBytes = counted.message.databaseBytes * PARTS.message.times;
    report('message-rows', { hub: { count: Number(counted.message.d1RowsWritten.toFixed(1)) } });
    report('local-id-rows', { hub: { count: Number(withLocalId.d1RowsWritten.toFixed(1)) } });
    report('idle-round-trips', { hub: { count: counted.idle.objectRoundTrips } });
    report('cost-work', { hub: { dollars: marginalPrice(work) } });
    report('cost-local-ids', { hub: { dollars: marginalPrice(work) + marginalPrice({ d1RowsWritten: localIdRows }) } });
    report('cost-all', { hub: { dollars: marginalPrice(all) } });
    report('cost-idle', { hub: { dollars: marginalPrice(sum(parts.filter((part) => part.isIdle))) } });
    for (const count of ACCOUNTS) report(`bill-${count}`, { hub: { dollars: accountBill(all, count) } });
    report('storage', { hub: { megabytes: databaseBytes / 1e6 } });
    report('cost-storage', { hub: { dollars: (databaseBytes / 1e9) * D1_GB_MONTH_PRICE } });
    addTable(
      `A month of ${DAYS} days: ${SESSIONS} agents for ${HOURS} h, ${MESSAGES_PER_MINUTE} messages of ${MESSAGE_BYTES / 1000} KB a minute each, ${WEB_CLIENTS} web clients; list prices of ${PRICES_READ_ON}`,
      monthTable(work, all),
    );
    addTable(`Its parts, each counted; a minute is the mean of ${minutes}, a message of ${COUNTED_MESSAGES}`, partsTable(parts));
  } finally {
    await runtime.stop();
  }
}
