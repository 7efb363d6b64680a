/** Slash commands and skills of a session, for the composer. */

import type { Command } from '../content/completions.ts';
import { isObject, isText, listOf } from '../checked.ts';
import { api } from '../hub.ts';

/** The commands and skills that an agent offers; none when it cannot say. */
export async function commandsOf(sessionId: string): Promise<Command[]> {
  const params = { params: { path: { id: sessionId } } };
  const [commands, skills] = await Promise.all([
    api.GET('/api/sessions/{id}/slash-commands', params).catch(() => null),
    api.GET('/api/sessions/{id}/skills', params).catch(() => null),
  ]);
  const names = fieldOf(commands?.data, 'commands');
  const named = Array.isArray(names) ? names.filter(isText).map((name) => ({ name, description: '' })) : [];
  const described = listOf<Partial<Command> & { name: string }>(fieldOf(skills?.data, 'skills'), { name: isText, description: isText }, ['name']);
  return [...named, ...described.map(({ name, description }) => ({ name, description: description || 'Skill' }))];
}

const fieldOf = (result: unknown, name: string): unknown => (isObject(result) ? result[name] : undefined);
