/**
 * The files to which some agents write each failed request to their model. These agents repeat such a request for minutes, and report it neither
 * by the Agent Client Protocol nor on standard error. An agent without such a file reports nothing.
 */

import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { readCopilotLine, readGeminiLine, readQwenLine } from './translate/model-retries.mjs';

const INTERVAL_MS = 1000;

/** Limit on the bytes that are read at once, and on the size of a file that only the bridge reads. */
const MAX_BYTES = 1024 * 1024;

export class FailureLog {
  /** @type {import('node:fs/promises').FileHandle | undefined} */
  #file;
  #position = 0;
  #rest = '';
  #isReading = false;
  #options;

  /**
   * @param {{toRetry: (line: string) => import('./translate/model-retries.mjs').ModelRetry | null,
   *   find: (session: {sessionId: string, cwd: string}) => Promise<string | undefined>, folder?: string, env?: Record<string, string>,
   *   intervalMs?: number}} options `toRetry`: reads a line; `find`: returns the path; `folder`: the folder of a file that only the bridge
   *   reads. It is deleted as soon as both have opened the file; `env`: variables with which the agent must be started
   */
  constructor(options) {
    this.#options = options;
    this.env = options.env;
  }

  /**
   * Reports the requests that fail from now on, until the process ends.
   * @param {{sessionId: string, cwd: string, ended: Promise<unknown>, log: {debug: (text: string) => void},
   *   onUpdate: (update: object) => void}} options
   */
  async follow({ ended, log, onUpdate, ...session }) {
    const read = (report) => this.#read(session, report).catch((error) => log.debug(`failed requests: ${error.message}`));
    await read(() => {});
    const timer = setInterval(() => read(onUpdate), this.#options.intervalMs ?? INTERVAL_MS);
    timer.unref();
    ended.then(() => clearInterval(timer));
  }

  async close() {
    await this.#file?.close();
    await this.#deleteFolder();
  }

  async #deleteFolder() {
    if (this.#options.folder) await rm(this.#options.folder, { recursive: true, force: true });
  }

  async #read(session, report) {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      for (const line of await this.#readLines(session)) {
        const retry = this.#options.toRetry(line);
        if (retry) report(retry);
      }
    } finally {
      this.#isReading = false;
    }
  }

  /** Returns the lines that were added since the last call. */
  async #readLines(session) {
    this.#file ??= await this.#open(session);
    if (!this.#file) return [];
    const { size } = await this.#file.stat();
    const from = Math.max(size < this.#position ? 0 : this.#position, size - MAX_BYTES);
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(size - from), 0, size - from, from);
    this.#position = from + bytesRead;
    if (this.#options.folder && size > MAX_BYTES) {
      await this.#file.truncate();
      this.#position = 0;
    }
    const lines = (this.#rest + buffer.toString('utf8', 0, bytesRead)).split('\n');
    this.#rest = lines.pop();
    return lines;
  }

  async #open(session) {
    try {
      const file = await this.#options.find(session);
      const handle = file && (await open(file, this.#options.folder ? 'r+' : 'r'));
      await this.#deleteFolder();
      return handle || undefined;
    } catch (error) {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    }
  }
}

/** The debug log of Gemini CLI, which has no other log. Nothing is written if the user has chosen a file. */
export async function geminiLog(env) {
  if (env.GEMINI_DEBUG_LOG_FILE) return undefined;
  const folder = await mkdtemp(path.join(tmpdir(), 'session-gateway-'));
  const file = path.join(folder, 'gemini.log');
  await writeFile(file, '', { mode: 0o600 });
  return new FailureLog({ toRetry: readGeminiLine, find: async () => file, folder, env: { GEMINI_DEBUG_LOG_FILE: file } });
}

/** The record in which Qwen Code stores a session. */
export async function qwenLog(env) {
  const base = env.QWEN_RUNTIME_DIR || env.QWEN_HOME || path.join(env.HOME || homedir(), '.qwen');
  const find = async ({ sessionId, cwd }) => path.join(base, 'projects', cwd.replace(/[^a-zA-Z0-9]/g, '-'), 'chats', `${sessionId}.jsonl`);
  return new FailureLog({ toRetry: readQwenLine, find });
}

/** The log of a process of Copilot CLI. The folder of the session has a file with the id of the process. */
export async function copilotLog(env) {
  const base = env.COPILOT_HOME || path.join(env.HOME || homedir(), '.copilot');
  const find = async ({ sessionId }) => {
    const names = await readdir(path.join(base, 'session-state', sessionId));
    const ids = names.flatMap((name) => /^inuse\.(\d+)\.lock$/.exec(name)?.[1] ?? []);
    const logs = (await readdir(path.join(base, 'logs'))).filter((name) => ids.some((id) => name.endsWith(`-${id}.log`)));
    // After the crash of a process, its file stays. The names begin with the time.
    const newest = logs.sort().at(-1);
    return newest && path.join(base, 'logs', newest);
  };
  return new FailureLog({ toRetry: readCopilotLine, find });
}
