/** Slash commands and skills that the composer completes. */

import { isObject } from '../api/validate.ts';
import { type Command, readCommands } from '../content/completions.ts';
import { api } from './hub-client.ts';

/** Fetches the commands and skills of an agent. Returns none if the CLI does not answer. */
export async function fetchCommands(sessionId: string): Promise<Command[]> {
  const params = { params: { path: { id: sessionId } } };
  const [commands, skills] = await Promise.all([
    api.GET('/api/sessions/{id}/slash-commands', params).catch(() => null),
    api.GET('/api/sessions/{id}/skills', params).catch(() => null),
  ]);
  return [...readCommands(getField(commands?.data, 'commands'), ''), ...readCommands(getField(skills?.data, 'skills'), 'Skill')];
}

const getField = (result: unknown, name: string): unknown => (isObject(result) ? result[name] : undefined);
