/**
 * The files in which Gemini CLI stores its sessions: `session-<minute>-<first 8 characters of the id>.jsonl`. When Gemini CLI loads a
 * session, it creates a second file without messages, named after the current minute. At the next start, also of another session, Gemini CLI
 * deletes each file without messages, together with all files of the same id, including the conversation.
 */

import { readFile, readdir, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

const RECORD = /^session-.*-([^-]{8})\.jsonl$/;

/**
 * Deletes each file without messages if another file of the same session has messages.
 * @param {Record<string, string | undefined>} env of the agent
 */
export async function removeEmptyRecords(env) {
  const base = path.join(env.GEMINI_CLI_HOME || env.HOME || homedir(), '.gemini', 'tmp');
  const projects = await readdir(base).catch(() => []);
  await Promise.all(projects.map((project) => removeFromFolder(path.join(base, project, 'chats'))));
}

async function removeFromFolder(folder) {
  const names = await readdir(folder).catch(() => []);
  /** The paths by short id. @type {Map<string, string[]>} */
  const byId = new Map();
  for (const name of names) {
    const id = RECORD.exec(name)?.[1];
    if (id) byId.set(id, [...(byId.get(id) ?? []), path.join(folder, name)]);
  }
  for (const paths of byId.values()) {
    if (paths.length === 1) continue;
    const haveMessages = await Promise.all(paths.map(hasMessages));
    if (!haveMessages.includes(true)) continue;
    const empty = paths.filter((_, i) => haveMessages[i] === false);
    // A file that cannot be deleted does not prevent the start.
    await Promise.all(empty.map((file) => rm(file, { force: true }).catch(() => {})));
  }
}

/** Whether a file has a line with a message; null if the file cannot be read. */
async function hasMessages(file) {
  try {
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.trim() !== '');
    return lines.some((line) => typeof JSON.parse(line).type === 'string');
  } catch {
    return null;
  }
}
