/** A process that serves several sessions of the scripted agent, with an in-memory hub and simulated time. */

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ChildProcess } from 'node:child_process';
import { startApp } from 'session-gateway-cli-kit/app';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { FakeHub, TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { program } from '../../src/program.mjs';
import { putScriptedAgent } from '../support/setup.mjs';

const choices = (...ids) => ids.map((id) => ({ value: id, name: id }));

const SCRIPT = {
  initialize: {
    agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, fork: {}, list: {}, close: {} } },
    _meta: { steering: { supported: true } },
  },
  newSession: {
    configOptions: [
      { id: 'effort', name: 'Effort', category: 'thought_level', type: 'select', currentValue: 'low', options: choices('low', 'high') },
    ],
    modes: { currentModeId: 'default', availableModes: ['default', 'acceptEdits', 'plan'].map((id) => ({ id, name: id })) },
  },
};

/** The number of messages of a session that the hub keeps. */
const KEPT_MESSAGES = 60;

const isReady = ({ content }) => content.content?.data?.type === 'ready';

export class World {
  /** The apps that serve the sessions, by index. */
  apps = [];
  /** The process ids of all agents that were seen. */
  pids = new Set();

  /** @param {{clock: import('./clock.mjs').SimulatedClock, hub: FakeHub, home: string, dir: string, scriptHome: string}} parts */
  constructor({ clock, hub, home, dir, scriptHome }) {
    this.clock = clock;
    this.hub = hub;
    this.home = home;
    this.dir = dir;
    this.scriptHome = scriptHome;
  }

  /**
   * Starts the hub and the sessions. The first app is also the machine.
   * @param {import('node:test').TestContext} t
   * @param {{clock: import('./clock.mjs').SimulatedClock, sessions: number}} options
   */
  static async start(t, { clock, sessions }) {
    const before = { ...process.env };
    const scriptHome = tempDir(t);
    Object.assign(process.env, { SCRIPT: JSON.stringify(SCRIPT), SCRIPT_HOME: scriptHome });
    putScriptedAgent(t, 'claude-agent-acp');
    // One for each agent.
    process.setMaxListeners(0);
    const hub = await FakeHub.start();
    const base = tempDir(t);
    const [home, dir] = ['home', 'project'].map((name) => path.join(base, name));
    mkdirSync(dir);
    const world = new World({ clock, hub, home, dir, scriptHome });
    t.after(async () => {
      await world.stop();
      await hub.stop();
      for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
      Object.assign(process.env, before);
    });
    for (let i = 0; i < sessions; i += 1) world.apps.push(await world.#startApp({ tag: `session-${i}`, machine: i === 0 }));
    return world;
  }

  #startApp(options) {
    const log = { info() {}, debug() {}, warn() {} };
    const { dir, home, hub } = this;
    const choice = { agent: 'claude', flavor: 'alpha' };
    /** @type {any} */
    const all = { program, dir, home, hub: hub.url, token: TOKEN, machine: false, log, startTimeoutMs: 60_000, ...choice, ...options };
    return startApp(all);
  }

  async stop() {
    await Promise.all(this.apps.splice(0).map((app) => app.stop()));
  }

  /** The hub's id of a session. */
  id(index) {
    return this.apps[index].session.id;
  }

  /** Ends the process of a session as far as that is possible within one process, and starts it again. */
  async restart(index) {
    const options = { tag: `session-${index}`, machine: index === 0 };
    await this.apps[index].stop();
    this.apps[index] = await this.#startApp(options);
  }

  /** Forks a session, runs a turn in the fork, and ends it. */
  async fork(index) {
    const { hub } = this;
    const sessionId = this.id(index);
    const { messages, forgotten = 0 } = hub.sessions.get(sessionId);
    const app = await this.#startApp({ tag: `fork-${Math.random()}`, fork: { sessionId, seq: forgotten + messages.length + 1 } });
    await this.untilReady(app.session.id, hub.postMessage(app.session.id, 'In the fork.'));
    await app.stop();
    hub.sessions.delete(app.session.id);
  }

  /** Sends a message. Steps are for the scripted agent. @param {string | object[]} content */
  post(index, content, attachments) {
    return this.hub.postMessage(this.id(index), typeof content === 'string' ? content : JSON.stringify(content), attachments);
  }

  /** Runs a turn. @param {string | object[]} content */
  turn(index, content, attachments) {
    return this.untilReady(this.id(index), this.post(index, content, attachments));
  }

  /** Waits for the end of a turn after a message. */
  untilReady(sid, { seq }) {
    const isDone = () => this.hub.sessions.get(sid).messages.some((message) => message.seq > seq && isReady(message));
    return this.hub.waitUntil(isDone, 'the end of the turn');
  }

  untilRequest(index) {
    return this.hub.waitUntil(() => this.hub.pendingRequest(this.id(index)), 'a permission request');
  }

  async call(index, method, params) {
    const answer = await this.hub.call(this.id(index), method, params);
    if (answer.success === false) throw new Error(`${method}: ${answer.error}`);
    return answer;
  }

  /** The processes of the agents. @returns {ChildProcess[]} */
  get agents() {
    const handles = /** @type {any} */ (process)._getActiveHandles();
    return handles.filter((handle) => handle instanceof ChildProcess && handle.exitCode === null && handle.signalCode === null);
  }

  /** Removes what the hub and this test need no longer, so that only the bridge can grow. */
  forget(keptMessages = KEPT_MESSAGES) {
    for (const { pid } of this.agents) this.pids.add(pid);
    for (const { session } of this.apps) this.hub.forget(session.id, keptMessages);
  }

  /** The processes that have outlived their agent. */
  get orphans() {
    const file = path.join(this.scriptHome, 'background');
    const started = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : [];
    const current = new Set(this.agents.map(({ pid }) => pid));
    return [...this.pids, ...started].filter((pid) => !current.has(pid) && isRunning(pid));
  }
}
