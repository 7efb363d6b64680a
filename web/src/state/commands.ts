/** Slash commands and skills that the composer completes. */

import { isObject, isString, parseObjects } from '../api/validate.ts';
import type { Command } from '../content/completions.ts';
import { api } from './hub-client.ts';

/** Fetches the commands and skills of an agent. A failed request gives none. */
export async function fetchCommands(sessionId: string): Promise<Command[]> {
  const params = { params: { path: { id: sessionId } } };
  const [commands, skills] = await Promise.all([
    api.GET('/api/sessions/{id}/slash-commands', params).catch(() => null),
    api.GET('/api/sessions/{id}/skills', params).catch(() => null),
  ]);
  const names = getField(commands?.data, 'commands');
  const commandList = Array.isArray(names) ? names.filter(isString).map((name) => ({ name, description: '' })) : [];
  const skillList = parseObjects<Partial<Command> & { name: string }>(getField(skills?.data, 'skills'), { name: isString, description: isString }, ['name']);
  return [...commandList, ...skillList.map(({ name, description }) => ({ name, description: description || 'Skill' }))];
}

const getField = (result: unknown, name: string): unknown => (isObject(result) ? result[name] : undefined);
