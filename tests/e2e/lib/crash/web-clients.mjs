/** Web clients that use REST: they write messages, answer permission requests, and call the CLI. */

/** The longest pause between two requests. */
const PAUSE_MS = 40;

/** Writes messages one after another. Each message is sent until it is acknowledged. */
export class Writer {
  /** All sent messages in order: `{localId, message}`, as in the history. */
  sent = [];
  /** The acknowledged messages, by local id. @type {Map<string, {id: string, seq: number}>} */
  acked = new Map();

  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {{name: string, namespace: string, session: any, text?: (n: number) => string, maxPauseMs?: number}} options
   *   `text`: returns the text of the nth message, by default a random text; `maxPauseMs`: the longest pause between messages
   */
  constructor(loadTest, { name, namespace, session, text = () => this.random.text(), maxPauseMs = PAUSE_MS }) {
    this.loadTest = loadTest;
    this.name = name;
    this.session = session;
    this.text = text;
    this.maxPauseMs = maxPauseMs;
    this.web = loadTest.hub.web(namespace);
    this.random = loadTest.random.fork(name);
  }

  async run() {
    await this.loadTest.repeat(this.random, this.maxPauseMs, async () => {
      const n = this.sent.length + 1;
      const localId = `${this.name}-${n}`;
      const text = this.text(n);
      this.sent.push({ localId, message: { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'web' } } });
      const {
        status,
        body,
        text: raw,
      } = await this.loadTest.retry(() => this.web.post(`/api/sessions/${this.session.id}/messages`, { text, localId }));
      this.loadTest.expect(status === 200, `${localId} was refused: ${status} ${raw}`);
      this.acked.set(localId, body.message);
    });
  }
}

/** Answers the permission requests of a session with random decisions. */
export class Approver {
  /** The decisions by request id: `approved` or `denied`. @type {Map<string, string>} */
  decisions = new Map();

  /** @param {import('./load-test.mjs').LoadTest} loadTest @param {{name: string, namespace: string, session: any}} options */
  constructor(loadTest, { name, namespace, session }) {
    this.loadTest = loadTest;
    this.session = session;
    this.web = loadTest.hub.web(namespace);
    this.random = loadTest.random.fork(name);
  }

  async run() {
    await this.loadTest.repeat(this.random, PAUSE_MS, () => this.answerAll());
  }

  /** Answers all pending requests. */
  async answerAll() {
    const { body } = await this.loadTest.retry(() => this.web.get(`/api/sessions/${this.session.id}`));
    for (const id of Object.keys(body.session.agentState?.requests ?? {})) await this.#answer(id);
  }

  async #answer(id) {
    const [verb, status] = this.random.chance(70) ? ['approve', 'approved'] : ['deny', 'denied'];
    let mayHaveBeenAnswered = false;
    const answer = await this.loadTest.retry(() => this.web.post(`/api/sessions/${this.session.id}/permissions/${id}/${verb}`, {}), {
      onUnknownOutcome: () => (mayHaveBeenAnswered = true),
    });
    const isDone = answer.status === 200 || (mayHaveBeenAnswered && answer.body.code === 'request_not_found');
    this.loadTest.expect(isDone, `${verb} of ${id} was refused: ${answer.text}`);
    this.loadTest.expect(!this.decisions.has(id), `${id} was pending again after its answer`);
    this.decisions.set(id, status);
  }
}

/** Calls the CLI of a session. Each call has a different path, so each call has a different result. */
export class Caller {
  #calls = 0;

  /** @param {import('./load-test.mjs').LoadTest} loadTest @param {{name: string, namespace: string, session: any}} options */
  constructor(loadTest, { name, namespace, session }) {
    this.loadTest = loadTest;
    this.name = name;
    this.session = session;
    this.web = loadTest.hub.web(namespace);
    this.random = loadTest.random.fork(name);
  }

  async run() {
    await this.loadTest.repeat(this.random, PAUSE_MS, () => this.call());
  }

  /** Makes a call, and returns whether the CLI answered. A call may fail, but must not get the result of another call. */
  async call() {
    this.#calls += 1;
    const path = `${this.name}/${this.#calls}`;
    const { body } = await this.loadTest.retry(() => this.web.get(`/api/sessions/${this.session.id}/file?path=${path}`));
    this.loadTest.count(body.success ? 'calls answered' : 'calls without an answer');
    const isOwn = body.content === Buffer.from(path).toString('base64');
    this.loadTest.expect(isOwn || !body.success, `the call ${path} got another call's result: ${JSON.stringify(body)}`);
    this.loadTest.expect(body.success || /^(No handler|RPC timed out)/.test(body.error), `${path}: ${JSON.stringify(body)}`);
    return body.success;
  }
}
