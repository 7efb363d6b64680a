/** Lists and imports the sessions that the agents of a machine have stored: calls to the machine's CLI. */

import { unwrap } from '../api/client.ts';
import { machineError } from '../api/errors.ts';
import { isObject, isString } from '../api/validate.ts';
import { api } from './hub-client.ts';

export interface AgentSession {
  /** The agent's id. */
  id: string;
  title: string;
  directory: string;
  /** In Unix milliseconds. */
  updatedAt: number | undefined;
  /** The id of the hub's session that has the conversation of this session; absent if the hub has none. */
  sessionId: string | undefined;
}

export interface AgentSessionPage {
  sessions: AgentSession[];
  nextCursor: string | undefined;
}

/**
 * Lists the sessions of an agent, newest first.
 * @throws {Error} with the machine's error message
 */
export async function listAgentSessions(machineId: string, agent: string, cursor?: string): Promise<AgentSessionPage> {
  const params = { path: { id: machineId }, query: { agent, ...(cursor === undefined ? {} : { cursor }) } };
  const answer: unknown = await unwrap(api.GET('/api/machines/{id}/agent-sessions', { params }));
  const { sessions, nextCursor } = checkAnswer(answer);
  return {
    sessions: Array.isArray(sessions) ? sessions.filter(isObject).flatMap(parseSession) : [],
    nextCursor: isString(nextCursor) ? nextCursor : undefined,
  };
}

/**
 * Imports a session of an agent. `trust`: whether the user trusts the session's directory.
 * @returns the id of the hub's session
 * @throws {Error} with the machine's error message
 */
export async function importAgentSession(
  machineId: string,
  agent: string,
  { id, directory }: AgentSession,
  trust: boolean,
): Promise<string> {
  const params = { path: { id: machineId } };
  const body = { agent, id, directory, ...(trust ? { trust } : {}) };
  const answer: unknown = await unwrap(api.POST('/api/machines/{id}/agent-sessions', { params, body }));
  const { sessionId } = checkAnswer(answer);
  if (!isString(sessionId) || sessionId === '') throw new Error('The machine did not import the session and gave no reason.');
  return sessionId;
}

/** Returns the fields of a machine's answer. @throws {Error} with the machine's error message if the answer is a failure */
function checkAnswer(answer: unknown): Record<string, unknown> {
  const fields = isObject(answer) ? answer : {};
  if (fields.success === true) return fields;
  const error = machineError(fields, 'The machine gave no reason.');
  // A machine of an earlier version has no such method.
  if (/^No handler registered/.test(error.message)) throw new Error('The program on this machine is too old to list sessions. Update it.');
  throw error;
}

function parseSession({ id, title, directory, updatedAt, sessionId }: Record<string, unknown>): AgentSession[] {
  if (!isString(id) || !isString(directory)) return [];
  return [
    {
      id,
      title: isString(title) ? title : '',
      directory,
      updatedAt: typeof updatedAt === 'number' && Number.isFinite(updatedAt) && Math.abs(updatedAt) < 8.64e15 ? updatedAt : undefined,
      sessionId: isString(sessionId) ? sessionId : undefined,
    },
  ];
}
