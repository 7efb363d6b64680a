/** Web clients that use REST: who writes, who answers permission requests, who asks the CLI something. */

/** The longest pause between two requests, in milliseconds. */
const PAUSE_MS = 40;

/** Writes messages one after the other, each until it is kept. */
export class Writer {
  /** All that it ever sent, in order: `{localId, message}`, as the history has them. */
  sent = [];
  /** What it heard of those that are kept, by local id. @type {Map<string, {id: string, seq: number}>} */
  acked = new Map();

  /**
   * @param {import('./storm.mjs').Storm} storm
   * @param {{name: string, namespace: string, session: any, text?: (n: number) => string, pauseMs?: number}} options
   *   `text`: of its nth message, otherwise at random; `pauseMs`: the longest pause between two messages
   */
  constructor(storm, { name, namespace, session, text = () => this.random.text(), pauseMs = PAUSE_MS }) {
    Object.assign(this, { storm, name, session, text, pauseMs, web: storm.hub.web(namespace), random: storm.random.for(name) });
  }

  async run() {
    await this.storm.repeat(this.random, this.pauseMs, async () => {
      const n = this.sent.length + 1;
      const localId = `${this.name}-${n}`;
      const text = this.text(n);
      this.sent.push({ localId, message: { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'web' } } });
      const { status, body, text: raw } = await this.storm.persist(() =>
        this.web.post(`/api/sessions/${this.session.id}/messages`, { text, localId }),
      );
      this.storm.rule(status === 200, `${localId} was refused: ${status} ${raw}`);
      this.acked.set(localId, body.message);
    });
  }
}

/** Answers the permission requests of a session, at random, until there are no more. */
export class Approver {
  /** What was decided, by request id: `approved` or `denied`. @type {Map<string, string>} */
  decided = new Map();

  /** @param {import('./storm.mjs').Storm} storm @param {{name: string, namespace: string, session: any}} options */
  constructor(storm, { name, namespace, session }) {
    Object.assign(this, { storm, session, web: storm.hub.web(namespace), random: storm.random.for(name) });
  }

  async run() {
    await this.storm.repeat(this.random, PAUSE_MS, () => this.answerAll());
  }

  /** Answers what waits at the moment. */
  async answerAll() {
    const { body } = await this.storm.persist(() => this.web.get(`/api/sessions/${this.session.id}`));
    for (const id of Object.keys(body.session.agentState?.requests ?? {})) await this.#answer(id);
  }

  async #answer(id) {
    const [verb, status] = this.random.chance(70) ? ['approve', 'approved'] : ['deny', 'denied'];
    let unknown = false;
    const answer = await this.storm.persist(
      () => this.web.post(`/api/sessions/${this.session.id}/permissions/${id}/${verb}`, {}),
      { lost: () => (unknown = true) },
    );
    const done = answer.status === 200 || (unknown && answer.body.code === 'request_not_found');
    this.storm.rule(done, `${verb} of ${id} was refused: ${answer.text}`);
    this.storm.rule(!this.decided.has(id), `${id} was to be answered again`);
    this.decided.set(id, status);
  }
}

/** Asks the CLI of a session something that only one answer fits. */
export class Caller {
  #asked = 0;

  /** @param {import('./storm.mjs').Storm} storm @param {{name: string, namespace: string, session: any}} options */
  constructor(storm, { name, namespace, session }) {
    Object.assign(this, { storm, name, session, web: storm.hub.web(namespace), random: storm.random.for(name) });
  }

  async run() {
    await this.storm.repeat(this.random, PAUSE_MS, () => this.ask());
  }

  /** Whether the CLI answered. A call that breaks off is none's fault; one with another call's answer is. */
  async ask() {
    this.#asked += 1;
    const path = `${this.name}/${this.#asked}`;
    const { body } = await this.storm.persist(() => this.web.get(`/api/sessions/${this.session.id}/file?path=${path}`));
    this.storm.count(body.success ? 'calls answered' : 'calls without an answer');
    const own = body.content === Buffer.from(path).toString('base64');
    this.storm.rule(own || !body.success, `the call ${path} got another answer: ${JSON.stringify(body)}`);
    this.storm.rule(body.success || /^(No handler|RPC timed out)/.test(body.error), `${path}: ${JSON.stringify(body)}`);
    return body.success;
  }
}
