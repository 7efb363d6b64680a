/** Creates and deletes files of sessions in the same way as Gemini CLI 0.61. */

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

  /** At the start of the CLI: deletes all files of each session that has a file without messages. */
  cleanUp() {
    const names = readdirSync(this.folder);
    const emptyIds = names.filter((name) => !this.#hasMessages(name)).map(idOf);
    for (const name of names) if (emptyIds.includes(idOf(name))) rmSync(path.join(this.folder, name));
  }

  /** Before a session is created or loaded: writes a new file. Gemini CLI names the file after the minute; here it is named after the process. */
  open(id) {
    const name = `session-${process.pid}-${id.slice(0, 8)}.jsonl`;
    this.#append(name, { sessionId: id });
    this.#current = this.find(id) ?? name;
  }

  /** Returns the file with the messages of a session; null if there is none. */
  find(id) {
    return readdirSync(this.folder).find((name) => idOf(name).startsWith(id.slice(0, 8)) && this.#hasMessages(name)) ?? null;
  }

  add() {
    this.#append(this.#current, { type: 'user' });
  }

  #append(name, record) {
    appendFileSync(path.join(this.folder, name), `${JSON.stringify(record)}\n`);
  }
}
