/**
 * The files in which Gemini CLI stores its sessions: `session-<minute>-<first 8 characters of the id>.jsonl`. When Gemini CLI loads a
 * session, it creates a second file without messages, named after the current minute. At the next start, also of another session, Gemini CLI
 * deletes each file without messages, together with all files of the same id, including the conversation.
 */

import { readFile, readdir, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

const RECORD = /^session-(.*)-([^-]{8})\.jsonl$/;

/** The minute in the name of a record, such as `2026-01-01T12-00`, in UTC. */
const MINUTE = /^(\d{4}-\d\d-\d\dT\d\d)-(\d\d)$/;

/**
 * Returns the minute in which a session was started.
 * @param {Record<string, string | undefined>} env of the agent
 * @param {string} sessionId
 * @returns {Promise<number>} the start of the minute, in ms; 0 if the session has no file
 */
export async function findStartMinute(env, sessionId) {
  const folders = await listFolders(env);
  const names = (await Promise.all(folders.map(listNames))).flat();
  const minutes = names.flatMap((name) => {
    const [, minute, id] = RECORD.exec(name) ?? [];
    const [, hour, minuteOfHour] = MINUTE.exec(minute ?? '') ?? [];
    return hour !== undefined && sessionId.startsWith(id) ? [Date.parse(`${hour}:${minuteOfHour}Z`)] : [];
  });
  return Math.max(0, ...minutes);
}

/**
 * Deletes each file without messages if another file of the same session has messages.
 * @param {Record<string, string | undefined>} env of the agent
 */
export async function removeEmptyRecords(env) {
  await Promise.all((await listFolders(env)).map(removeFromFolder));
}

/** Returns the folders of the files, one for each project. */
async function listFolders(env) {
  const base = path.join(env.GEMINI_CLI_HOME || env.HOME || homedir(), '.gemini', 'tmp');
  return (await listNames(base)).map((project) => path.join(base, project, 'chats'));
}

const listNames = (folder) => readdir(folder).catch(() => []);

async function removeFromFolder(folder) {
  const names = await listNames(folder);
  /** The paths by short id. @type {Map<string, string[]>} */
  const byId = new Map();
  for (const name of names) {
    const id = RECORD.exec(name)?.[2];
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
