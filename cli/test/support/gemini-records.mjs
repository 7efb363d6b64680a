/** Creates and deletes the files of sessions as Gemini CLI 0.61 does. */

import { appendFileSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

const idOf = (name) => name.slice(-'12345678.jsonl'.length);

export class GeminiRecords {
  #current;

  constructor(home) {
    this.folder = path.join(home, '.gemini', 'tmp', 'project', 'chats');
    mkdirSync(this.folder, { recursive: true });
  }

  #hasMessages(name) {
    return readFileSync(path.join(this.folder, name), 'utf8').includes('"type":"user"');
  }

  /** Deletes all files of each session that has a file without messages. Gemini CLI does this when it starts. */
  cleanUp() {
    const names = readdirSync(this.folder);
    const emptyIds = names.filter((name) => !this.#hasMessages(name)).map(idOf);
    for (const name of names) if (emptyIds.includes(idOf(name))) rmSync(path.join(this.folder, name));
  }

  /**
   * Writes a new file for a session, as Gemini CLI does before it creates or loads a session. Gemini CLI names the file after the minute. Here,
   * the file is named after the process.
   */
  open(id) {
    const name = `session-${process.pid}-${id.slice(0, 8)}.jsonl`;
    this.#append(name, { sessionId: id });
    this.#current = this.find(id) ?? name;
  }

  /** Returns the file with the messages of a session; null if there is none. */
  find(id) {
    return readdirSync(this.folder).find((name) => idOf(name).startsWith(id.slice(0, 8)) && this.#hasMessages(name)) ?? null;
  }

  /** Records a prompt of the user in the file of the last opened session. */
  addPrompt() {
    this.#append(this.#current, { type: 'user' });
  }

  #append(name, record) {
    appendFileSync(path.join(this.folder, name), `${JSON.stringify(record)}\n`);
  }
}
